"""What the builder has to know of torch's objects, without importing torch."""

import sys
from collections.abc import Iterator
from typing import Any

from pijit.graph.model import Token

_TOKENS: dict[str, Any] = {"dtype": "dtype", "device": "device", "layout": "layout", "memory_format": "memory_format"}


def token(thing: object) -> Token | None:
    """The word that stands for a dtype, device, layout or memory format of torch; None if it is none of these."""
    kind = type(thing)
    if kind.__module__ != "torch" or kind.__qualname__ not in _TOKENS:
        return None
    return Token(_TOKENS[kind.__qualname__], str(thing).removeprefix("torch."))


def is_tensor(thing: object) -> bool:
    """It is a tensor of torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.Tensor)


def is_module(thing: object) -> bool:
    """It is a module of torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.nn.Module)


def named_tensors(module: Any) -> Iterator[tuple[str, str, Any]]:
    """Path, role and tensor of each parameter and buffer of a module; a tensor that has two paths comes twice."""
    for path, tensor in module.named_parameters(remove_duplicate=False):
        yield path, "parameter", tensor
    for path, tensor in module.named_buffers(remove_duplicate=False):
        yield path, "buffer", tensor


def facts(tensor: Any) -> tuple[str, tuple[int, ...], str]:
    """Dtype, shape and device of a tensor."""
    return str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), str(tensor.device)
