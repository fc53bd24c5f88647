"""Calls that stand for operators as these operators: those of functions of autograd (`torch.autograd.Function`).

The recorder leaves `apply` to CPython, since C++ calls the forward pass. Where no gradients are computed in the call,
it is traced once more, on tensors without data: `forward` of the function is called a second time for that. What torch
cannot trace stays a call of Python. `transforms` has stretches of nodes for which the same is done.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pijit.graph.build import autocast
from pijit.graph.build.operators import registers
from pijit.graph.decompose.branching import Unable
from pijit.graph.decompose.pieces import Pieces
from pijit.graph.model import Graph, Node, Value, regions, replaced, values_of
from pijit.graph.torch_run import resolve


class Call(Protocol):
    """What a node of Python stands for.

    Attributes:
        operands: the values that it takes, in the order of the arguments of the node.
        whole: the results of the node are all that it gives; else it may give more.
    """

    @property
    def operands(self) -> tuple[Value, ...]: ...
    @property
    def whole(self) -> bool: ...

    def run(self, values: Mapping[str, Any]) -> Any:
        """What it gives for these operands, by name."""

    def may_hold(self) -> Callable[[Any], bool]:
        """Whether a tensor may be a constant of it."""


@dataclass(frozen=True)
class Applied:
    """A call of `apply`.

    Attributes:
        function: the class.
        arguments: values of the graph, and objects of Python.
        whole: the results are all that the call gives; else it may give more.
        held: autocast in the call, as `autocast.on` takes it.
    """

    function: Any
    arguments: tuple[Any, ...]
    whole: bool
    held: tuple[str, str] | None = None

    @property
    def operands(self) -> tuple[Value, ...]:
        return tuple({value.name: value for value in values_of(self.arguments)}.values())

    def run(self, values: Mapping[str, Any]) -> Any:
        with autocast.on(self.held):
            return self.function.apply(*(resolve(argument, values) for argument in self.arguments))

    def may_hold(self) -> Callable[[Any], bool]:
        return lambda tensor: True


def class_of(row: Mapping[str, Any], content: Callable[[Any], Any]) -> Any:
    """The class whose `apply` an opaque node calls, or None."""
    torch, called = sys.modules.get("torch"), content(row["a"])
    if torch is None or called[0] != "method" or called[1] != ("const", vars(torch._C._FunctionBase).get("apply")):
        return None
    return called[2][1] if called[2][0] == "const" else None


def is_unwrap(row: Mapping[str, Any]) -> bool:
    """It gives the tensor that it is given: no transform of torch.func has wrapped it."""
    torch = sys.modules.get("torch")
    return torch is not None and row["a"] == ("const", torch._C._functorch.unwrap_if_dead)


def results(data: Mapping[str, Any], out: int) -> tuple[list[int | None], bool]:
    """Where the trace has the results of a node whose object is register `out`, and whether these are all."""
    if (single := registers(data, out, 1)) != [None]:
        return list(single), True
    items = registers(data, out, 64)
    while items and items[-1] is None:
        items.pop()
    return items or [None], not items


def expanded(graph: Graph, applied: Mapping[str, Call], typed: Callable[[Graph], Graph]) -> Graph:
    """The graph with operators in the place of calls.

    Args:
        graph: with types.
        applied: calls, by the name of their first result.
        typed: fills in the types.
    """
    left = dict(applied)
    while left:
        at, call = next(_places(graph, left), (-1, None))
        if call is None:
            break
        made = _with_operators(graph, at, call)
        graph = typed(made) if len(made.nodes) != len(graph.nodes) or made.nodes[at].op != graph.nodes[at].op else made
    return graph


def _places(graph: Graph, left: dict[str, Call]) -> Iterator[tuple[int, Call]]:
    for at, node in enumerate(graph.nodes):
        name = next((value.name for value in node.results if value is not None), "")
        if node.op.startswith("python::") and name in left:
            yield at, left.pop(name)


def _with_operators(graph: Graph, at: int, call: Call) -> Graph:
    node = graph.nodes[at]
    pieces = Pieces(graph, lambda node: True)

    def run(values: Mapping[str, Any]) -> Any:
        given = (resolve(argument, values) for argument in node.arguments.values())
        return call.run(dict(zip((value.name for value in call.operands), given, strict=True)))

    try:
        made = pieces.of_function(node, run, call.whole, call.may_hold())
    except Unable as why:
        return replace(graph, nodes=(*graph.nodes[:at], replace(node, origin=str(why)), *graph.nodes[at + 1 :]))
    nodes: Sequence[Node] = [*graph.nodes[:at], *made.nodes, *graph.nodes[at + 1 :]]
    nodes = [
        replace(each, arguments={name: replaced(argument, pieces.same) for name, argument in each.arguments.items()})
        for each in nodes
    ]
    return replace(
        graph,
        nodes=tuple(nodes),
        outputs=replaced(graph.outputs, pieces.same),
        effects=tuple(replace(each, values=replaced(each.values, pieces.same)) for each in graph.effects),
        parameters=(*graph.parameters, *pieces.constants),
        data={**graph.data, **pieces.data},
        region=regions.tree(nodes, regions.types_of(graph.region)),
    )


def is_given(argument: Any) -> bool:
    """It is a value of the graph, or has some."""
    return isinstance(argument, Value) or (isinstance(argument, tuple | list) and any(map(is_given, argument)))
