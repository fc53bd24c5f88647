"""`pijit.bundle`: one call as a directory that runs without the user's source."""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pijit import _adapters, _formats
from pijit._array_bytes import raw, write_file
from pijit._export import write_whole
from pijit.errors import ExportError
from pijit.graph.build.capture import captured
from pijit.graph.model.sizes import with_sizes

if TYPE_CHECKING:
    import torch

_HEAD = '''"""The operators of the call, as torch names them; `check` is told what each gives."""

import torch
from torch import device, inf, nan

NoneType = type(None)


'''
_KNOWN = {"torch", "device", "inf", "nan", "NoneType", "fx_pytree", "pytree"}


def bundle(
    fn: Callable[..., Any], *args: Any, path: "str | os.PathLike[str]", kwargs: Mapping[str, Any] | None = None
) -> Path:
    """Write one call of `fn` as a directory that runs without its source: `python DIRECTORY` says "same" or "differs".

    In it are the operators that the call runs, as Python, the tensors that it reads, what each operator gives, random
    states and versions. It needs torch and nothing else; where it differs, it names the first operator that does. What
    the call decides by data is taken as decided.

    Args:
        fn: a function or module; it is called once.
        args: its arguments.
        path: the directory, which is made; files of these names in it are replaced.
        kwargs: keyword arguments of `fn`.

    Returns:
        The directory.

    Raises:
        ExportError: the call is not one graph, or has what cannot be written, such as tensors of complex128; the
            message names it.

    Example:
        >>> import pathlib, tempfile, torch, pijit
        >>> with tempfile.TemporaryDirectory() as place:
        ...     made = pijit.bundle(torch.nn.Linear(4, 2), torch.ones(1, 4), path=pathlib.Path(place, "call"))
        ...     sorted(each.name for each in made.iterdir())
        ['__main__.py', 'call.json', 'call.py', 'tensors.safetensors']
    """
    _adapters.ensure()
    import torch

    from pijit import _bundled

    target = Path(path)
    before = {id(tensor): tensor.detach().clone() for tensor in _tensors_of(fn, args, kwargs)}
    state = torch.get_rng_state()
    graph = captured(fn, args, kwargs or {}, False, "assume")
    module = _formats.load("fx").make(with_sizes(graph, False), dynamic=False)
    nodes = list(module.graph.nodes)
    given = [each for each in _leaves((args, dict(kwargs or {}))) if isinstance(each, torch.Tensor)]
    names = [node.target for node in nodes if node.op == "placeholder"]
    if len(names) != len(given):
        raise ExportError(f"a bundle has tensors for its inputs, and the call has {len(given)} of {len(names)}")
    weights = {node.target: _found(module, node.target) for node in nodes if node.op == "get_attr"}
    held = {f"input {name}": tensor for name, tensor in zip(names, given, strict=True)}
    held |= {f"weight {target}": tensor for target, tensor in weights.items()}
    tensors = {name: before.get(id(tensor), tensor.detach().clone()) for name, tensor in held.items()}
    call: dict[str, Any] = {
        "inputs": [f"input {name}" for name in names],
        "weights": {f"weight {target}": target for target in weights},
        "tensors": {name: _facts(tensor, tensors[name]) for name, tensor in held.items()},
        "gradients": torch.is_grad_enabled(),
        "threads": torch.get_num_threads(),
        "versions": _bundled.versions(),
        "operators": {},
    }
    source = _HEAD + _checked(module)
    tensors = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()} | {"random state": state}
    rows = {node.name: node for node in nodes}

    def check(name: str, value: Any) -> None:
        node = rows[name]
        call["operators"][name] = {"digest": _bundled.digest(value), "operator": str(node.target), "line": _line(node)}

    space: dict[str, Any] = {}
    exec(compile(source, "call.py", "exec"), space)
    after = torch.get_rng_state()
    try:
        results = _bundled.run(space["forward"], call, tensors, check)
    finally:
        torch.set_rng_state(after)
    tensors |= {
        f"result {at}": each.detach().cpu().contiguous() for at, each in enumerate(_bundled.tensors_in(results))
    }

    def write(beside: Path) -> None:
        beside.mkdir()
        write_file({name: raw(tensor, name) for name, tensor in tensors.items()}, beside / "tensors.safetensors")
        (beside / "call.json").write_text(json.dumps(call, indent=1))
        (beside / "call.py").write_text(source)
        (beside / "__main__.py").write_text(Path(_bundled.__file__).read_text())

    write_whole(target, write, directory=True)
    return target


def _leaves(value: Any) -> Iterator[Any]:
    """What is in nested containers, in order."""
    if isinstance(value, dict):
        for each in value.values():
            yield from _leaves(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _leaves(each)
    else:
        yield value


def _tensors_of(fn: Any, args: Any, kwargs: Any) -> "Iterator[torch.Tensor]":
    """Tensors that the call may write to."""
    import torch

    if isinstance(fn, torch.nn.Module):
        yield from fn.parameters()
        yield from fn.buffers()
    for each in _leaves((args, dict(kwargs or {}))):
        if isinstance(each, torch.Tensor):
            yield each


def _found(module: Any, target: str) -> Any:
    for part in target.split("."):
        module = getattr(module, part)
    return module


def _facts(tensor: "torch.Tensor", copy: "torch.Tensor") -> dict[str, Any]:
    return {
        "shape": list(tensor.shape),
        "strides": list(copy.stride()),
        "device": str(tensor.device),
        "requires_grad": tensor.requires_grad and tensor.is_leaf,
    }


def _line(node: Any) -> str:
    """Where the program called it: " (net.py:8)", or nothing."""
    found = re.search(r'File "(?:.*/)?([^"/]+)", line (\d+)', node.stack_trace or "")
    return f" ({found[1]}:{found[2]})" if found else ""


def _checked(module: Any) -> str:
    """The code of the module, which tells what each operator gives before it lets go of what it no longer needs."""
    if unknown := sorted(
        name for name in module.graph.python_code("self").globals if name not in _KNOWN and not name.startswith("__")
    ):
        raise ExportError(f"a bundle cannot hold {', '.join(unknown)}")
    operators = {node.name for node in module.graph.nodes if node.op not in {"placeholder", "get_attr", "output"}}
    lines = []
    for line in module.code.strip().splitlines():
        match = re.match(r"    (\w+)(?:: [^=]+)? = ", line)
        if match and match[1] in operators:
            statement, _, rest = line.partition(";  ")
            lines += [statement, f"    check({match[1]!r}, {match[1]})", *([f"    {rest}"] if rest else [])]
        else:
            lines.append(line)
    return "\n".join(lines).replace("def forward(self", "def forward(self, check", 1) + "\n"
