"""What the call did beside its results, which a format leaves out: said once at the export, by line."""

import os
import warnings
from collections.abc import Iterator

from pijit.graph import Graph

# Formats whose objects write to what they are given, as the call does.
_WRITES = {"fx", "exported_program", "python"}
_STORES = {"setattr": "an attribute", "delattr": "an attribute", "setitem": "an item", "delitem": "an item"}
_STORES |= {"setcell": "a variable", "object.__setattr__": "an attribute", "dict.__setitem__": "an item"}
# They come in pairs, and leave nothing behind.
_QUIET = ("RLock", "lock.", "ContextVar.", "ReferenceType", "getattr")
_MOST = 10  # lines that are named


def _said(graph: Graph, format: str) -> Iterator[tuple[str, str]]:
    """Each place, and what is done there."""
    written = set(graph.written)
    for effect in graph.effects:
        own = effect.values and all(value.name in written for value in effect.values)  # `self.count += 1` of a buffer
        if effect.what.startswith(_QUIET) or (own and effect.what in _STORES):
            continue
        place = f"{os.path.basename(effect.file)}:{effect.line}" if effect.file else graph.name
        yield place, f"writes {_STORES[effect.what]}" if effect.what in _STORES else f"calls {effect.what}"
    if format in _WRITES:
        return
    inputs = {value.name for value in graph.inputs} & written
    for node in graph.nodes:
        for name in node.writes:
            value = node.arguments.get(name)
            if getattr(value, "name", None) in inputs and getattr(value, "role", "") == "input":
                place = f"{os.path.basename(node.file)}:{node.line}"
                yield place, f"writes to {value.name}, which is the output '{value.name}.updated' here"  # type: ignore[union-attr]


def warn(graph: Graph, format: str, stacklevel: int) -> None:
    """One warning for all of it; `stacklevel` as `warnings.warn` counts it from the caller."""
    if format == "json":  # it lists them
        return
    places: dict[str, dict[str, None]] = {}
    for place, what in _said(graph, format):
        places.setdefault(place, {})[what] = None
    if not places:
        return
    lines = [f"{place} {', '.join(what)}" for place, what in places.items()]
    more = f"; and {len(lines) - _MOST} lines more" if len(lines) > _MOST else ""
    warnings.warn(
        f"pijit.export(): the call of {graph.name} also does what format {format!r} leaves out: "
        f"{'; '.join(lines[:_MOST])}{more}. `graph.effects` of `pijit.graph.capture` has all of it",
        stacklevel=stacklevel + 1,
    )
