"""A graph as nested boxes, one a call of a module, for pictures and pages.

Boxes follow the order in which the nodes ran: a module that is called twice has two boxes. Neighbours that are equal
(the same operators on the same shapes, wired alike) are one box that stands for several. Nodes that compute with sizes
only are left out: they say how, not what.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from pijit.graph.model import Graph, Node, Region, Slice, Value
from pijit.graph.model.branches import is_branch

# Modules that only hold others: nobody calls them.
_CONTAINERS = {"ModuleList", "ModuleDict"}


@dataclass(frozen=True, slots=True)
class Box:
    """A call of a module.

    Attributes:
        path: of the module; "" for the whole graph.
        type: the name of its class.
        items: what it did, in order.
        twins: boxes behind it that are equal to it, not drawn.
    """

    path: str
    type: str
    items: tuple["Box | Node", ...] = ()
    twins: tuple["Box", ...] = ()

    @property
    def title(self) -> str:
        """ "layers.0: Block"; with twins "layers.0 ... layers.11: Block"."""
        last = f" ... {self.twins[-1].path}" if self.twins else ""
        return f"{self.path}{last}: {self.type}" if self.path else self.type

    @property
    def times(self) -> int:
        """How many boxes it stands for."""
        return 1 + len(self.twins)


@dataclass(slots=True)
class _Open:
    """A box that is being filled."""

    path: str
    items: list["Box | Node | _Open"] = field(default_factory=list)


def boxes_of(graph: Graph) -> Box:
    """The whole graph as a box."""
    types, above = _tree(graph.region)
    stack = [_Open("")]
    for node in graph.nodes:
        if is_of_sizes(node):
            continue
        around = _around(node.region, above, types)
        common = 0
        while common < min(len(stack) - 1, len(around)) and stack[common + 1].path == around[common]:
            common += 1
        del stack[common + 1 :]
        for path in around[common:]:
            inner = _Open(path)
            stack[-1].items.append(inner)
            stack.append(inner)
        stack[-1].items.append(node)
    whole = _closed(stack[0], types, graph)
    return replace(whole, type=whole.type or graph.name)


def nodes_in(box: Box) -> Iterator[Node]:
    """All nodes in a box and in its twins."""
    for item in box.items:
        if isinstance(item, Node):
            yield item
        else:
            yield from nodes_in(item)
    for twin in box.twins:
        yield from nodes_in(twin)


def is_of_sizes(node: Node) -> bool:
    """It computes with sizes, or checks one."""
    if node.op.startswith("python::") or node.writes or is_branch(node):
        return False
    given = [value for value in node.results if value is not None]
    return node.op == "check" or (bool(given) and all(value.kind in {"int", "bool"} for value in given))


def _tree(top: Region) -> tuple[dict[str, str], dict[str, str]]:
    """Types of regions, and the region above each, by path."""
    types, above = {top.path: top.type}, {}
    pending = [top]
    while pending:
        region = pending.pop()
        for inner in region.regions:
            types[inner.path], above[inner.path] = inner.type, region.path
            pending.append(inner)
    return types, above


def _around(path: str, above: dict[str, str], types: dict[str, str]) -> list[str]:
    """The paths of the regions around a node, outermost first, the whole left out."""
    found: list[str] = []
    while path:
        if types.get(path) not in _CONTAINERS:
            found.append(path)
        path = above.get(path, "")
    return found[::-1]


def _closed(box: _Open, types: dict[str, str], graph: Graph) -> Box:
    items: list[Box | Node] = []
    kept = ""
    for item in box.items:
        made = _closed(item, types, graph) if isinstance(item, _Open) else item
        shape = _shape(made) if isinstance(made, Box) else ""
        if shape and shape == kept and isinstance(items[-1], Box) and isinstance(made, Box):
            items[-1] = replace(items[-1], twins=(*items[-1].twins, made))
        else:
            items.append(made)
        kept = shape
    return Box(box.path, types.get(box.path, ""), tuple(items))


def _shape(box: Box) -> str:
    """A text that equal boxes have in common."""
    return _shape_of(box, {})


def _shape_of(box: Box, names: dict[str, str]) -> str:
    parts = []
    for item in box.items:
        if isinstance(item, Node):
            arguments = ", ".join(f"{name}={_word(each, names)}" for name, each in item.arguments.items())
            for value in item.results:
                if value is not None:
                    names[value.name] = f"%{len(names)}"
            types = ", ".join(value.type if value is not None else "_" for value in item.results)
            parts.append(f"{item.op}({arguments}) -> {types}")
        else:
            parts.append(_shape_of(item, names))
    return f"{box.type} * {box.times} {{{'; '.join(parts)}}}"


def _word(argument: Any, names: dict[str, str]) -> str:
    if isinstance(argument, Value):
        if argument.role in {"parameter", "buffer", "constant"}:
            return f"{argument.role} {argument.type}"
        return names.setdefault(argument.name, f"%{len(names)}") + f": {argument.type}"
    if isinstance(argument, Slice):
        return _word((argument.start, argument.stop, argument.step), names)
    if isinstance(argument, tuple | list):
        return f"({', '.join(_word(item, names) for item in argument)})"
    if isinstance(argument, Graph):
        own = {value.name: f"%{at}" for at, value in enumerate(argument.inputs)}
        return f"{_shape_of(boxes_of(argument), own)} -> {_word(argument.outputs, own)}"
    return repr(argument)
