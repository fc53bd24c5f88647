"""The order in which an einsum of three arrays and more multiplies them: torch asks the package opt_einsum, where it is
there. It decides by sizes, so a graph has the path of the captured call; another order rounds otherwise.
"""

import itertools
import sys
from dataclasses import replace

from pijit.graph.model import Graph, Node, Value
from pijit.graph.model.sizes import evaluate


def with_paths(graph: Graph) -> Graph:
    """A typed graph with the paths that torch chose."""
    settings = sys.modules.get("torch.backends.opt_einsum")
    if settings is None or not settings.enabled or settings.get_opt_einsum() is None:
        return graph
    if not any(node.op == "einsum" for node in graph.nodes):
        return graph
    return replace(graph, nodes=tuple(_with_path(node, graph) for node in graph.nodes))


def _with_path(node: Node, graph: Graph) -> Node:
    arrays = node.arguments.get("arrays")
    if node.op != "einsum" or not isinstance(arrays, tuple) or len(arrays) < 3 or node.arguments.get("path"):
        return node
    shapes = []
    for array in arrays:
        sizes = array.shape if isinstance(array, Value) else None
        if sizes is None or any(evaluate(size, graph.symbols) is None for size in sizes):
            return node
        shapes.append(tuple(evaluate(size, graph.symbols) for size in sizes))
    settings = sys.modules["torch.backends.opt_einsum"]
    pairs, _ = settings.get_opt_einsum().contract_path(
        node.arguments["equation"], *shapes, shapes=True, optimize=settings.strategy
    )
    return replace(node, arguments={**node.arguments, "path": tuple(itertools.chain.from_iterable(pairs))})
