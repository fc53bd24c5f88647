"""What no format of a whole graph can hold, as errors that name the operator, its line, and what to try."""

from pijit.errors import ExportError
from pijit.graph.build.builder import DECISION
from pijit.graph.model import Graph, Node, place_of

# The namespace of nodes that are no operators: opaque calls, decisions on data, what was not recorded.
_PYTHON = "python::"


def check_whole(graph: Graph, format: str) -> None:
    """`ExportError` if the graph is split: something in it is left to CPython."""
    for node in graph.nodes:
        if node.op.startswith(_PYTHON):
            raise ExportError(
                f"{place_of(node)}{_what(node)}; there the graph of {graph.name!r} is split, and format {format!r} "
                f"holds a whole one. {_try(node)}"
            )


def _what(node: Node) -> str:
    name = node.op.removeprefix(_PYTHON)
    if node.op == DECISION:
        return "the program decides on the data of a tensor"
    if name == "rest":
        return f"the call was recorded up to here only: {node.origin}" if node.origin else "recording stopped"
    return f"{name} runs in CPython"


def _try(node: Node) -> str:
    if node.op == DECISION:
        return (
            "Move that out of the function, or export with `decisions='assume'`: the graph then holds for data that "
            "decides as this call's does"
        )
    return "Move that out of the function, or export the parts of the graph one by one"
