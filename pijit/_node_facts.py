"""The facts of a trace's nodes, as text: operator, arguments, effect, module. No object of the program is kept."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pijit import _listing, _torch_objects

if TYPE_CHECKING:
    from pijit._core import TraceData

_LITERALS = (int, float, complex, bool, str, bytes, type(None), type(...))
_MOST = 10_000  # items of tuples and lists that are shown
_DEEPEST = 50  # tuples and lists in one another that are shown


class Facts:
    """What `_core.trace_data` says of the nodes of one trace."""

    def __init__(self, data: "TraceData") -> None:
        self._data = data
        self._names = {
            row["register"]: _listing.readable(_path(row["source"]))
            for row in data["inputs"]
            if row["object"] is not None
        }
        self._paths = _module_paths(data)

    def of(self, at: int) -> dict[str, Any]:
        """The fields of the node at an index."""
        row: Mapping[str, Any] = self._data["nodes"][at]
        call = row.get("call")
        found = {"operator": row["op"], "effect": row["effect"], "module": self._module(row["frame"])}
        if call is not None:
            writes = tuple(name for name, _, written in call["arguments"] if written)
            effect = "random" if call["random"] else "write" if writes else "pure"
            arguments = tuple((name, self.text(value)) for name, value, _ in call["arguments"])
            return found | {"operator": call["name"], "arguments": arguments, "effect": effect, "writes": writes}
        sides = [row[side] for side in ("a", "b", "c") if row[side] is not None and row[side] != ("none",)]
        if row["op"] == "scalar":
            found["operator"] = f"operator.{row['scalar']}"
        elif row["op"] in {"call", "opaque", "pure"} and sides:
            kind, *rest = sides.pop(0)
            named = getattr(rest[0], "__qualname__", None) if kind == "const" else None
            found["operator"] = named or row["op"]
            sides = []  # names of keyword arguments
        return found | {"arguments": tuple(("", self.text(value)) for value in (*sides, *row["operands"]))}

    def text(self, value: Any) -> str:
        """A value of the trace as Python."""
        kind, *rest = value
        if kind == "reg":
            return self._names.get(rest[0], f"r{rest[0]}")
        if kind == "const":
            return repr(rest[0]) if isinstance(rest[0], _LITERALS) else _object(rest[0])
        if kind in {"tuple", "list"}:
            items = ", ".join(map(self.text, rest[-1]))
            return f"[{items}]" if kind == "list" else f"({items},)" if len(rest[-1]) == 1 else f"({items})"
        if kind == "slice":
            return f"slice({', '.join(map(self.text, rest))})"
        if kind == "dict":
            return f"{{{', '.join(f'{self.text(key)}: {self.text(item)}' for key, item in rest[-1])}}}"
        return f"<{kind}>"

    def _module(self, frame: int) -> str:
        while frame >= 0:
            row = self._data["frames"][frame]
            path = self._paths.get(id(row["self"]))
            if path is not None:
                return path
            frame = row["parent"]
        return ""


def _module_paths(data: "TraceData") -> dict[int, str]:
    """Paths of modules by their identity, in those that nothing but functions called."""
    found: dict[int, str] = {}
    for row in data["frames"]:
        top: Any = row["self"]
        if _torch_objects.is_module(top) and id(top) not in found:
            for path, module in top.named_modules():  # outer modules come first
                found.setdefault(id(module), path)
    return found


def _object(thing: Any, around: tuple[int, ...] = (), room: list[int] | None = None) -> str:
    """A short text that runs none of the program's code.

    Args:
        thing: the object.
        around: the tuples and lists that it is in. One that contains itself is "..." in there, as in its `repr`.
        room: how many more items of tuples and lists are shown.
    """
    if _torch_objects.word(thing) is not None:
        return str(thing)
    if isinstance(thing, tuple | list) and type(thing) in {tuple, list}:
        room = [_MOST] if room is None else room
        shown = thing[: 0 if id(thing) in around or len(around) == _DEEPEST else room[0]]
        room[0] -= len(shown)
        within = (*around, id(thing))
        parts = [repr(item) if isinstance(item, _LITERALS) else _object(item, within, room) for item in shown]
        inner = ", ".join(parts if len(shown) == len(thing) else [*parts, "..."])
        return f"({inner})" if isinstance(thing, tuple) else f"[{inner}]"
    name = vars(thing).get("__qualname__") if isinstance(thing, type) else getattr(thing, "__qualname__", None)
    return name if isinstance(name, str) else f"<{type(thing).__name__}>"


def _path(source: Any) -> str:
    """The expression of a source."""
    text = ""
    for kind, *step in source:
        if kind == "attribute":
            text += f".{step[0]}"
        elif kind == "item":
            text += f"[{step[0]!r}]"
        elif kind in {"argument", "global", "cell"}:
            text = str(step[-1])
        else:
            text += f"<{kind} {step[0] if step else 0}>"
    return text
