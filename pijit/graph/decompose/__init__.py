"""Decomposes the operators of a graph that a framework has no form for, as torch itself decomposes them.

The operator is called once more, on tensors without data whose sizes are as free as in the graph, and what torch calls
beneath it is noted: a composite operator calls others, and for many others torch has a decomposition of its own
(`torch._decomp`, `torch._refs`). `own.py` has those that torch lacks. What has a row, and a form for it, stays.

1. A decomposition may decide on sizes. Such a decision becomes a node "check", as a decision of the program does; one
   for a single size fixes that size, or is an error where it has to stay free.
2. A node that cannot be decomposed stays, and whoever asks for its form says so.
3. The graph that comes out is for other frameworks than torch: torch calls the operator itself, which gives its own
   bits.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from pijit.errors import ExportError
from pijit.graph.decompose.branching import Unable
from pijit.graph.decompose.nested import padded
from pijit.graph.decompose.pieces import Pieces
from pijit.graph.model import Graph, Node, place_of, regions, replaced
from pijit.graph.model.branches import graphs_of, is_branch
from pijit.graph.model.sizes import fixed
from pijit.graph.torch_calls import NUMBERS

# How often what comes out is decomposed again.
_DEPTH = 6


class _Fixes(Exception):
    """A decomposition is for these sizes alone."""

    def __init__(self, sizes: Mapping[str, int], node: Node) -> None:
        super().__init__()
        self.sizes, self.node = sizes, node


def decomposed(graph: Graph, has_form: Callable[[Node], bool], *, stays_free: bool = False) -> Graph:
    """The graph with other operators in the place of those without a form.

    Args:
        graph: what was captured.
        has_form: of a node of the vocabulary, or of a foreign one.
        stays_free: no size may be fixed.

    Raises:
        ExportError: a decomposition is for one size alone, and that has to stay free.
    """
    if all(map(has_form, _operators(graph))) or "torch" not in sys.modules:
        return graph
    graph = padded(graph)
    while True:
        try:
            return _decomposed(graph, has_form)
        except _Fixes as found:
            if stays_free:
                names = ", ".join(f"{name} ({size} in this call)" for name, size in found.sizes.items())
                raise ExportError(
                    f"{place_of(found.node)}{found.node.origin or found.node.op} becomes other operators for known "
                    f"sizes only, so {names} cannot stay free; leave out dynamic=, or take a format of torch (fx, "
                    "exported_program)"
                ) from None
            graph = fixed(graph, found.sizes)


def _operators(graph: Graph) -> Iterator[Node]:
    """The nodes that need a form."""
    for node in graph.nodes:
        for inner in graphs_of(node).values() if is_branch(node) else ():
            yield from _operators(inner)
        if _is_operator(node):
            yield node


def _is_operator(node: Node) -> bool:
    return node.op != "check" and node.op not in NUMBERS and not node.op.startswith("python::") and not is_branch(node)


def _decomposed(graph: Graph, has_form: Callable[[Node], bool]) -> Graph:
    pieces = Pieces(graph, has_form)

    def of_node(node: Node, depth: int) -> Iterator[Node]:
        if depth and _is_operator(node) and not has_form(node):
            try:
                made = pieces.of(node)
            except Unable:
                made = None
            if made is not None:
                if made.fixes:
                    raise _Fixes(made.fixes, node)
                for each in made.nodes:
                    yield from of_node(each, depth - 1)
                return
        yield node

    def walked(graph: Graph) -> tuple[Node, ...]:
        nodes: list[Node] = []
        for node in graph.nodes:
            if is_branch(node):
                inner: dict[str, Any] = {
                    name: replace(each, nodes=walked(each)) for name, each in graphs_of(node).items()
                }
                nodes.append(replace(node, arguments={**node.arguments, **inner}))
            else:
                nodes += of_node(node, _DEPTH)
        return tuple(nodes)

    nodes = walked(graph)
    return replace(
        graph,
        nodes=tuple(_renamed(node, pieces.same) for node in nodes),
        outputs=replaced(graph.outputs, pieces.same),
        updates=tuple((name, replaced(value, pieces.same)) for name, value in graph.updates),
        effects=tuple(replace(each, values=replaced(each.values, pieces.same)) for each in graph.effects),
        parameters=(*graph.parameters, *pieces.constants),
        data={**graph.data, **pieces.data},
        region=regions.tree(nodes, regions.types_of(graph.region)),
    )


def _renamed(node: Node, same: Mapping[str, Any]) -> Node:
    if not any(value.name in same for value in node.operands):
        return node
    arguments = {name: replaced(argument, same) for name, argument in node.arguments.items()}
    return replace(node, arguments=arguments)
