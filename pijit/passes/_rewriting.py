"""Rewrites a graph node by node, and asks whether two values are of one type: what several passes do."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from pijit.graph.model import Argument, Graph, Node, Value, regions, replaced, values_of


def same_type(a: Value, b: Value) -> bool:
    """Both are tensors of one dtype, shape and device, all known."""
    known = a.kind == b.kind == "tensor" and a.dtype is not None and a.shape is not None
    return known and (a.dtype, a.shape, a.device) == (b.dtype, b.shape, b.device)


# What a node becomes: itself, changed; or None, with values in the place of its results.
Rewrite = Callable[[Node, Mapping[str, Value]], tuple[Node | None, Mapping[str, Argument]]]


def rewritten(graph: Graph, rewrite: Rewrite) -> Graph:
    """The graph with each node as `rewrite` has it; the same object if it changes none.

    `rewrite` is given a node with its arguments as they are by then, and what stands for results that are gone.
    """
    new: dict[str, Argument] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        now = node
        if new and any(value.name in new for value in node.operands):
            now = replace(node, arguments={name: replaced(each, new) for name, each in node.arguments.items()})
        made, instead = rewrite(now, new)  # type: ignore[arg-type]
        new.update(instead)
        if made is not None:
            nodes.append(made)
    if len(nodes) == len(graph.nodes) and not new and all(a is b for a, b in zip(nodes, graph.nodes, strict=True)):
        return graph
    return replace(
        graph,
        nodes=tuple(nodes),
        outputs=replaced(graph.outputs, new),
        updates=tuple((name, replaced(value, new)) for name, value in graph.updates),
        effects=tuple(replace(each, values=tuple(values_of(replaced(each.values, new)))) for each in graph.effects),
        region=regions.tree(nodes, regions.types_of(graph.region)),
    )
