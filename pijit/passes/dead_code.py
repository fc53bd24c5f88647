"""Drops nodes whose results nobody uses.

A node that writes to something, draws random numbers or checks a decision stays: it does more than give results.
"""

from dataclasses import replace

from pijit.graph.model import Graph, regions, values_of
from pijit.graph.model.memory import written_by

DOC = "drops nodes whose results nobody uses"
CONSENT = False
EXACT = True


def run(graph: Graph) -> Graph:
    """The graph without them."""
    used = {value.name for value in values_of(graph.outputs)} | {value.name for _, value in graph.updates}
    used.update(value.name for effect in graph.effects for value in effect.values)
    kept = []
    for node in reversed(graph.nodes):
        needed = any(value is not None and value.name in used for value in node.results)
        if needed or written_by(node) or node.random or not node.results or node.op == "check":
            used.update(value.name for value in node.operands)
            kept.append(node)
    if len(kept) == len(graph.nodes):
        return graph
    kept.reverse()
    return replace(graph, nodes=tuple(kept), region=regions.tree(kept, regions.types_of(graph.region)))
