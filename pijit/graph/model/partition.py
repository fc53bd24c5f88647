"""Partitions a graph at what it cannot hold."""

from dataclasses import replace

from pijit.graph.model import Graph, Node, Value, regions


def partition(graph: Graph) -> tuple[Graph | Node, ...]:
    """Parts and what stands between them, in order; of a whole graph itself.

    What a part takes from an earlier one is an input of it, and what a later one takes an output. Nodes between parts
    that have no operands and give nothing come as they are.
    """
    if not graph.breaks:
        return (graph,)
    runs: list[list[Node] | Node] = [[]]
    for node in graph.nodes:
        if node.op.startswith("python::"):
            runs += [node, []]
        else:
            assert isinstance(runs[-1], list)
            runs[-1].append(node)
    made: list[Graph | Node] = []
    for at, part in enumerate(runs):
        if isinstance(part, Node):
            made.append(part)
        elif part:
            made.append(_part(graph, part, runs[at + 1 :], len(made)))
    return tuple(made)


def _part(graph: Graph, nodes: list[Node], later: list[list[Node] | Node], number: int) -> Graph:
    own = {value.name for node in nodes for value in node.results if value is not None}
    needed = {value.name: value for node in nodes for value in node.operands}
    after = [node for part in later for node in (part if isinstance(part, list) else [part])]
    wanted = {value.name for node in after for value in node.operands} | {each.name for each in graph.results}
    given: list[Value] = [value for node in nodes for value in node.results if value is not None]
    parameters = tuple(value for value in graph.parameters if value.name in needed)
    names = {value.name for value in parameters}
    return replace(
        graph,
        name=f"{graph.name}_{number}",
        inputs=tuple(value for name, value in needed.items() if name not in own and name not in names),
        parameters=parameters,
        nodes=tuple(nodes),
        outputs=tuple(value for value in given if value.name in wanted),
        data={name: graph.data[name] for name in names if name in graph.data},
        region=regions.tree(nodes, regions.types_of(graph.region)),
    )
