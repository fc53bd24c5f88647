"""What a graph of a call that computes gradients may hold, and what becomes of it where it cannot be one graph.

A number of Python that the call keeps for the next one is an error, since the graph would freeze it. Where the call of
the engine cannot be said in operators, it stays a call of Python, and the graph is split there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pijit.errors import ExportError
from pijit.graph.build.python_calls import Store, is_number
from pijit.graph.model import Graph, Node, Value, regions, replaced, values_of

_LEAF = "tensor::set_requires_grad"
OWN = frozenset({"backward", "grad", "set_grad", "set_grad_enabled"})


def needs_expansion(graph: Graph) -> bool:
    """Gradients are computed, read or set in it."""
    return any(node.op in OWN and node.op != "set_grad_enabled" for node in graph.nodes)


def without_modes(graph: Graph) -> Graph:
    """The graph of a call that has nothing to do with gradients: it says nothing of the grad mode, nor of leaves."""
    same: dict[str, Any] = {}  # what `requires_grad_` gives is its tensor
    nodes = []
    for node in graph.nodes:
        if node.op == _LEAF:
            same |= {value.name: replaced(node.arguments["self"], same) for value in node.results if value is not None}
        elif node.op not in OWN:
            arguments = {name: replaced(argument, same) for name, argument in node.arguments.items()}
            nodes.append(replace(node, arguments=arguments) if same else node)
    if len(nodes) == len(graph.nodes):
        return graph
    return replace(
        graph,
        nodes=tuple(nodes),
        outputs=replaced(graph.outputs, same),
        effects=tuple(replace(each, values=replaced(each.values, same)) for each in graph.effects),
        region=regions.tree(nodes, regions.types_of(graph.region)),
    )


def split_there(graph: Graph, why: str) -> Graph:
    """What makes gradients as calls of Python, at which the graph is split."""
    names = {"backward": "python::run_backward", "grad": "python::grad", "set_grad": "python::set_grad"}
    nodes = tuple(
        replace(node, op=names[node.op], origin=why) if node.op in names else node
        for node in graph.nodes
        if node.op != "set_grad_enabled"
    )
    return replace(graph, nodes=nodes, region=regions.tree(nodes, regions.types_of(graph.region)))


def check_stores(stores: Sequence[Store], graph: Graph, sources: Mapping[str, str]) -> None:
    """`ExportError` where the step keeps something that the next call would read, and that the graph would freeze.

    Args:
        stores: into objects that were there before the call.
        graph: what was made of the call.
        sources: the last step on the way to a constant, by its name.
    """
    own = {value.name for value in (*graph.inputs, *graph.parameters)}
    read = {sources.get(value.name, "") for value in graph.parameters if value.role == "constant"}
    for store in stores:
        place = f"{store.file}:{store.line}: " if store.file else ""
        if is_number(store.value):
            raise ExportError(
                f"{place}the step keeps the number {store.key!r} of Python for the next call, which a graph would "
                "freeze; keep it in a tensor (`self.count = torch.zeros(())`, `self.count += 1`), or store it outside "
                "of the step"
            )
        if isinstance(store.value, Value) and store.value.name not in own and store.key in read:
            raise ExportError(
                f"{place}the step keeps a new tensor as {store.key!r} for the next call, which reads the one before; "
                "write into that one (`buffer.copy_(new)`), or capture a later step, when the state is there"
            )


def used(nodes: Sequence[Node], outputs: Any, updates: Sequence[tuple[str, Value]]) -> tuple[Node, ...]:
    """Without what nobody uses."""
    used = {value.name for value in values_of(outputs)} | {value.name for _, value in updates}
    kept = []
    for node in reversed(nodes):
        needed = any(value is not None and value.name in used for value in node.results)
        if node.results and not needed and not node.writes and not node.random:
            continue
        used.update(value.name for value in node.operands)
        kept.append(node)
    return tuple(reversed(kept))


def size_checks(inputs: Sequence[Value], tensors: Mapping[str, Any], fresh: Callable[[str], str]) -> list[Node]:
    """Nodes that check that the sizes of the inputs are those of the call."""
    made = []
    for value in inputs:
        for axis, expected in enumerate(tensors[value.name].shape):
            size = Value(fresh(f"{value.name}_size"), "int")
            made.append(Node("size", {"x": value, "axis": axis}, (size,), origin="tensor::size"))
            made.append(Node("check", {"x": size, "expected": expected}, ()))
    return made
