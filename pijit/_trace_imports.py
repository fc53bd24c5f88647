"""What the text of a trace needs besides the names of the user's own function: imports, helpers and numbers.

The text speaks of classes and functions by their names. Where a name can be imported, the text ends in the import; what
has no such name, a local class for example, must be in the namespace that the text is run in.
"""

import ast
import base64
import builtins
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from pijit import _array_bytes, _bare_objects

if TYPE_CHECKING:
    from pijit._core import GuardData, TraceData

_MOST = 1 << 24  # bytes of a literal tensor that stand in the text


def imports(data: "TraceData", guards: "GuardData") -> dict[str, str]:
    """By name the import that gives what the text means by it."""
    found: dict[str, str] = {}
    for thing in _things([data["result"], *(list(node.values()) for node in data["nodes"])]):
        _add(found, thing)
    for row in guards["guards"]:
        subject, keys = row["subject"], row["items"][::2]
        held: Any = subject[1] if row["kind"] == "dict" and subject[0] == "const" else None
        if not isinstance(held, dict):
            continue
        module = dict.get(held, "__name__")
        if not isinstance(module, str) or module == "__main__" or module not in sys.modules:
            continue
        if vars(sys.modules[module]) is not held:
            continue
        for key in keys:
            if key[0] == "const" and isinstance(key[1], str) and key[1] in held and key[1].isidentifier():
                found.setdefault(key[1], _import(module, key[1], held[key[1]]))
    return found


def _import(module: str, name: str, thing: Any) -> str:
    if isinstance(thing, ModuleType) and sys.modules.get(thing.__name__) is thing:
        return f"import {thing.__name__}" if thing.__name__ == name else f"import {thing.__name__} as {name}"
    return f"from {module} import {name}"


def _things(value: Any) -> Iterator[Any]:
    """The objects of the program in values of a trace: constants, and classes of what is made."""
    if isinstance(value, type | FunctionType | BuiltinFunctionType):
        yield value
    elif isinstance(value, tuple) and len(value) == 2 and value[0] == "const":
        yield value[1]
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _things(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from _things(part)


def _add(found: dict[str, str], thing: Any) -> None:
    owner = getattr(thing, "__objclass__", thing)
    if not isinstance(owner, type | FunctionType | BuiltinFunctionType):
        return
    module, path = getattr(owner, "__module__", None), getattr(owner, "__qualname__", "")
    if not isinstance(module, str) or module in {"builtins", "__main__"} or _at(module, path) is not owner:
        return
    top = path.partition(".")[0]
    found.setdefault(top, f"from {module} import {top}")
    if (
        isinstance(owner, type) and owner.__flags__ & _bare_objects.IMMUTABLE_TYPE
    ):  # a class of C: the text has the module's name, too
        found.setdefault(module.partition(".")[0], f"import {module}")


def _at(module: str, path: str) -> Any:
    thing: Any = sys.modules.get(module)
    for name in path.split("."):
        thing = getattr(thing, "__dict__", {}).get(name)
    return thing


def literals(data: "TraceData", texts: Sequence[str]) -> dict[int, str]:
    """The numbers of tensors of many numbers, in base64, by the node that makes each.

    Args:
        data: the trace.
        texts: of its nodes.
    """
    found = {}
    for at, node in enumerate(data["nodes"]):
        call = node.get("call")
        if call is None or "= literal(" not in texts[at] or call["arguments"][0][1][0] != "const":
            continue
        held = _array_bytes.raw(call["arguments"][0][1][1], "the literal")
        if len(held.data) <= _MOST:
            found[at] = base64.b64encode(held.data).decode("ascii")
    return found


def tail(text: Sequence[str], known: Mapping[str, str], numbers: Mapping[int, str]) -> Iterator[str]:
    """What stands behind the function: the numbers of tensors, and imports of names that it does not define.

    Nothing, if torch is all that it needs.
    """
    try:
        free = _free(ast.parse("\n".join(text)))
    except SyntaxError:  # it has what is no Python, such as `...`
        return
    wanted = {known[name] for name in free if name in known}
    modules = {line.removeprefix("import ") for line in wanted if line.startswith("import ") and " as " not in line}
    own = {name for name in modules if name.partition(".")[0] == "torch"}  # all of them come with torch
    wanted -= {f"import {name}" for name in own}
    if not wanted and not numbers and not free & {"new", "literal"}:
        return  # a text that needs nothing but torch is shorter without
    modules = modules - own | ({"torch"} if "torch" in free else set())
    yield from (f'LITERAL_{at} = "{digits}"' for at, digits in numbers.items())
    yield from sorted(line for line in wanted if line.removeprefix("import ") not in modules)
    short = [f"import {', '.join(sorted(modules))}"] if modules else []
    if helpers := free & {"new", "literal"} - known.keys():
        short.append(f"from pijit.traces import {', '.join(sorted(helpers))}")
    if short:
        yield "; ".join(short)


def new(kind: type, items: Any = (), /, **attributes: Any) -> Any:
    """An instance whose class is not called, with these items, if it is a dict, and attributes."""
    return _bare_objects.new(kind, attributes, dict(items).items())


def literal(numbers: str, shape: Sequence[int], dtype: Any) -> Any:
    """A tensor of numbers that are given in base64."""
    import torch

    return torch.frombuffer(bytearray(base64.b64decode(numbers)), dtype=dtype).reshape(shape)


def _free(tree: ast.AST) -> set[str]:
    """The names that a text reads and does not set."""
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    given = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    given |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    return {node.id for node in names if isinstance(node.ctx, ast.Load)} - given - {*dir(builtins)}
