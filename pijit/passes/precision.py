"""Has chosen operators of a graph compute in a smaller type of numbers: what `jit(precision=)` compiles.

It is no row of `passes.ORDER`: which operators are lowered is measured (`pijit.compilers._precision`), and given here.

1. A lowered operator is given its float32 operands in the smaller type, and gives its results in it. A cast stands
   where somebody else reads them, and none between two operators that are lowered alike.
2. Weights are not cast in the graph: it has copies of them in the smaller type, and says of which (`Lowering.copies`).
3. "int8" is for linear layers alone, with a weight that is quantised; what goes in and comes out stays float32.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from pijit.graph.model import Graph, Node, Token, Value, regions, replaced
from pijit.graph.model.names import Names

QUANTISED = "int8"


class Lowering(NamedTuple):
    """A graph with operators lowered.

    Attributes:
        graph: gives the same dtypes as before.
        copies: by the names of its new weights: of which weight, and in which type.
    """

    graph: Graph
    copies: Mapping[str, tuple[str, str]]


def name_of(node: Node) -> str:
    """The first result of a node, by which a choice names it; "": it gives nothing."""
    return next((value.name for value in node.results if value is not None), "")


def lowered(graph: Graph, choice: Mapping[str, str], convert: Callable[[Any, str], Any]) -> Lowering:
    """The graph with these operators in smaller types.

    Args:
        graph: writes to nothing.
        choice: "bfloat16", "float16" or "int8", by `name_of` nodes.
        convert: makes the copy of a weight in a type.
    """
    making = _Making(graph, convert)
    for node in graph.nodes:
        kind = choice.get(name_of(node))
        if kind is None:
            making.keep(node)
        else:
            making.lower(node, kind)
    return making.end()


class _Making:
    def __init__(self, graph: Graph, convert: Callable[[Any, str], Any]) -> None:
        self._graph, self._convert = graph, convert
        values = (*graph.inputs, *graph.parameters, *(v for node in graph.nodes for v in node.results if v is not None))
        self._names = Names({value.name for value in values})
        self._weights = {value.name for value in graph.parameters}
        self._nodes: list[Node] = []
        self._low: dict[tuple[str, str], Value] = {}
        # By names of values that are not there in float32 yet: the value, the low one, and the node that gives it.
        self._waiting: dict[str, tuple[Value, Value, Node]] = {}
        self._copies: dict[str, tuple[str, str]] = {}
        self._new: dict[str, Value] = {}

    def keep(self, node: Node) -> None:
        for value in node.operands:
            self._have(value.name)
        self._nodes.append(node)

    def lower(self, node: Node, kind: str) -> None:
        if kind == QUANTISED:
            weight = node.arguments["weight"]
            assert isinstance(weight, Value)
            for value in node.operands:
                self._have(value.name)
            copy = self._copy(weight, kind)
            self._nodes.append(replace(node, arguments={**node.arguments, "weight": copy}))
            return
        operands = [value for value in node.operands if value.kind == "tensor" and value.dtype == "float32"]
        for value in node.operands:
            if value not in operands:
                self._have(value.name)
        new = {value.name: self._lowered(value, kind, node) for value in operands}
        results = {}
        for made in node.results:
            if made is not None and made.dtype == "float32":
                low = results[made.name] = replace(made, name=self._names.fresh(made.name), dtype=kind)
                self._low[made.name, kind] = low
                self._waiting[made.name] = (made, low, node)
        arguments = {name: replaced(each, new) for name, each in node.arguments.items()}
        self._nodes.append(replace(node, arguments=arguments, results=replaced(node.results, results)))

    def _lowered(self, value: Value, kind: str, near: Node) -> Value:
        """The value in the type."""
        if (found := self._low.get((value.name, kind))) is not None:
            return found
        if value.name in self._weights:
            return self._copy(value, kind)
        self._have(value.name)
        low = self._low[value.name, kind] = replace(
            value, name=self._names.fresh(value.name), role="result", dtype=kind, path=""
        )
        self._nodes.append(_cast(value, low, near))
        return low

    def _copy(self, weight: Value, kind: str) -> Value:
        if (found := self._low.get((weight.name, kind))) is not None:
            return found
        dtype = weight.dtype if kind == QUANTISED else kind
        made = replace(weight, name=self._names.fresh(weight.name), role="constant", dtype=dtype, path="")
        self._low[weight.name, kind] = self._new[made.name] = made
        self._copies[made.name] = weight.name, kind
        return made

    def _have(self, name: str) -> None:
        """A value is read in float32 from here on."""
        if (waiting := self._waiting.pop(name, None)) is not None:
            value, low, node = waiting
            self._nodes.append(_cast(low, value, node))

    def end(self) -> Lowering:
        graph = self._graph
        for value in graph.results:
            self._have(value.name)
        used = {value.name for node in self._nodes for value in node.operands} | {v.name for v in graph.results}
        parameters = tuple(each for each in (*graph.parameters, *self._new.values()) if each.name in used)
        data = {name: tensor for name, tensor in graph.data.items() if name in used}
        for name, (weight, kind) in self._copies.items():
            data[name] = self._convert(graph.data[weight], kind)
        made = replace(
            graph,
            nodes=tuple(self._nodes),
            parameters=parameters,
            data=data,
            region=regions.tree(self._nodes, regions.types_of(graph.region)),
        )
        return Lowering(made, self._copies)


def _cast(value: Value, to: Value, near: Node) -> Node:
    assert to.dtype is not None
    return Node(
        "astype",
        {"x": value, "dtype": Token("dtype", to.dtype)},
        (to,),
        origin="aten::to.dtype",
        region=near.region,
        file=near.file,
        line=near.line,
    )
