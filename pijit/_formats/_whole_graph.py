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


# What to write instead of a function of Python, by its name.
_INSTEAD = {
    **dict.fromkeys(("max", "min"), "It compares tensors one by one: use `torch.maximum`, `x.max()` or `x.amax(...)`"),
    **dict.fromkeys(("sorted", "list.sort"), "It compares tensors one by one: use `torch.sort`"),
    **dict.fromkeys(
        ("Tensor.tolist", "Tensor.numpy", "asarray", "array"), "Keep to tensors: there the values leave torch"
    ),
    **dict.fromkeys(("map", "list", "tuple", "reduce"), "Write a loop, or give it a function of Python"),
    "Tensor.apply_": "Use operators on whole tensors",
    "Tensor.map_": "Use operators on whole tensors",
}


def _what(node: Node) -> str:
    name = node.op.removeprefix(_PYTHON)
    if node.op == DECISION:
        more = f": {node.origin}, which a graph cannot say" if node.origin else ""
        return f"the program decides on {'a number' if more else 'the data of a tensor'}{more}"
    if name == "rest":
        return f"the call was recorded up to here only: {node.origin}" if node.origin else "recording stopped"
    if name in {"run", "opaque"}:
        return "what the program does here is not followed: CPython runs it"
    if node.origin:
        return f"{name} has no place in the graph: {node.origin}, which a graph cannot say"
    return f"{name} runs in CPython"


def _try(node: Node) -> str:
    if node.op == DECISION and not node.origin:
        return (
            "Move that out of the function, or export with `decisions='assume'`: the graph then holds for data that "
            "decides as this call's does"
        )
    found = _INSTEAD.get(node.op.removeprefix(_PYTHON))
    if found is not None:
        return f"{found}; or move that out of the function"
    return "Move that out of the function, or export the parts of the graph one by one"
