"""Questions about objects of torch, such as whether one is a tensor, which are answered without importing torch."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Literal, get_args

Kind = Literal["dtype", "device", "layout", "memory_format"]
_KINDS: dict[str, Kind] = {each: each for each in get_args(Kind)}


def word(thing: object) -> tuple[Kind, str] | None:
    """The kind and name of a dtype, device, layout or memory format of torch; None if it is none of these."""
    kind = type(thing)
    if kind.__module__ != "torch" or kind.__qualname__ not in _KINDS:
        return None
    return _KINDS[kind.__qualname__], str(thing).removeprefix("torch.")


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


def is_backward(thing: object) -> bool:
    """It is the method of torch's autograd engine that computes gradients."""
    torch = sys.modules.get("torch")
    engine: Any = getattr(torch.autograd.Variable, "_execution_engine", None) if torch is not None else None
    return engine is not None and thing is getattr(type(engine), "run_backward", None)


def has_hooks(tensor: Any) -> bool:
    """Functions of Python run when its gradient is computed."""
    return bool(getattr(tensor, "_backward_hooks", None)) or bool(getattr(tensor, "_post_accumulate_grad_hooks", None))


def is_trained(tensor: Any) -> bool:
    """It is a leaf that requires gradients."""
    return bool(tensor.requires_grad and tensor.is_leaf)


def gradients_enabled() -> bool:
    """Gradients are computed for what runs now."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.is_grad_enabled())


def gradients(things: Iterable[Any]) -> dict[int, Any]:
    """The gradients, or None, of the parameters of these modules and optimizers, by the identities of their tensors."""
    found = {}
    for thing in things:
        if is_tensor(thing) and thing.is_leaf:
            found[id(thing)] = thing.grad
        elif is_module(thing):
            found.update((id(each), each.grad) for each in thing.parameters())
        elif isinstance(groups := getattr(thing, "param_groups", None), list):
            found.update((id(each), each.grad) for group in groups for each in group["params"])
    return found


def accelerator() -> tuple[str, int]:
    """The kind of device that this torch computes on beside the CPU, and how many there are; "", 0: none."""
    # A torch that pijit has refused may lack it.
    asked: Any = getattr(sys.modules.get("torch"), "accelerator", None)
    kind = asked.current_accelerator(check_available=True) if asked is not None else None
    return ("", 0) if kind is None else (kind.type, asked.device_count())


def generators_kept() -> AbstractContextManager[None]:
    """Afterwards torch's generators, those of all devices that are in use, are as they were."""
    torch: Any = sys.modules["torch"]
    kind, count = accelerator()
    # A device that no one uses is not started for this.
    used = kind and getattr(torch.get_device_module(kind), "is_initialized", lambda: True)()
    kept: AbstractContextManager[None] = (
        torch.random.fork_rng(range(count), device_type=kind) if used else torch.random.fork_rng([])
    )
    return kept


def is_dense(tensor: Any) -> bool:
    """No two elements share memory, and there are no gaps between them."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True
