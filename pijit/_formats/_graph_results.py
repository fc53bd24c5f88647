"""What a graph gives: names of its results, the nodes that they come from, and the decisions under which they hold."""

from collections.abc import Iterator, Mapping
from typing import Any

from pijit.graph.model import Graph, Node, Value, values_of
from pijit.graph.model.branches import graphs_of


def needed(graph: Graph, size_checks: bool = False) -> list[Node]:
    """The nodes that outputs and updates come from, in order.

    Args:
        graph: where they stand.
        size_checks: those that decisions on sizes are checked with, too, and those behind which a program raises. What
            is assumed of data is none of them.
    """
    wanted = {value.name for value in values_of(graph.outputs)} | {value.name for _, value in graph.updates}
    kept = []
    for node in reversed(graph.nodes):
        is_check = size_checks and node.op == "check" and node.origin in {"", "python::raises"}
        if is_check or any(value is not None and value.name in wanted for value in node.results):
            wanted.update(value.name for value in node.operands)
            kept.append(node)
    return kept[::-1]


def checks(graph: Graph) -> Iterator[str]:
    """The decisions on sizes that the program makes, each with its line: a format without them holds where they do."""
    made_by = {value.name: node for node in graph.nodes for value in node.results if value is not None}
    for node in graph.nodes:
        for inner in graphs_of(node).values():
            yield from checks(inner)
        if node.op != "check":
            continue
        tested = node.arguments["x"]
        test = next((made_by[value.name] for value in values_of(tested) if value.name in made_by), None)
        what = str(tested) if test is None else f"{test.op}({', '.join(map(str, test.arguments.values()))})"
        yield f"{node.place} {what} is {node.arguments.get('expected', True)}".strip()


def named_results(graph: Graph) -> Iterator[tuple[str, Value]]:
    """Outputs by the keys under which the call returns them, then "<path>.updated" for what it writes to."""
    yield from named(graph.outputs)
    paths = {value.name: value.path or value.name for value in (*graph.inputs, *graph.parameters)}
    for name, value in graph.updates:
        yield f"{paths[name]}.updated", value


def named(structure: Any, prefix: str = "") -> Iterator[tuple[str, Value]]:
    """The values in a structure, by the keys under which they are found."""
    if isinstance(structure, Value):
        yield prefix or "output", structure
    elif isinstance(structure, Mapping):
        for key, item in structure.items():
            yield from named(item, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(structure, tuple | list):
        for at, item in enumerate(structure):
            yield from named(item, f"{prefix or 'output'}.{at}" if len(structure) > 1 else prefix)
