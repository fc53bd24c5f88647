"""Nodes with graphs in them as If and Loop of ONNX.

1. A graph of ONNX sees the values around it: operands are not handed over, and names are unique in the whole model.
   What is made within a graph is not seen outside of it, so the builder forgets it there.
2. A Loop is told before each turn whether there is one. So the condition stands twice: before the Loop on what it
   begins with, and at the end of its body on what the turn has made.
3. Numbers are tensors without axes, as everywhere in a model: int64, float64 or bool.
"""

from collections.abc import Callable, Sequence
from typing import Any

from onnx import GraphProto

from pijit._formats._graph_results import needed
from pijit._formats.onnx.complex_arrays import has_complex
from pijit._formats.onnx.types import NUMBERS, Tensor
from pijit.graph.model import Graph, Node, Value
from pijit.graph.model.branches import check_dtypes, given, graphs_of, kind_of, outputs_of
from pijit.graph.torch_run import resolve


def lower(lowering: Any, node: Node) -> list[Any]:
    """What a node with graphs gives: tensors, and numbers that are known.

    Args:
        lowering: the `_Lowering` of the graph around it.
        node: "cond" or "while".
    """
    check_dtypes(node, "ONNX")
    sources = [resolve(each, lowering.values) for each in given(node)]
    if any(map(has_complex, sources)):
        lowering.builder.fail("a branch is given complex numbers")
    return _cond(lowering, node, sources) if node.op == "cond" else _while(lowering, node, sources)


def _cond(lowering: Any, node: Node, sources: list[Any]) -> list[Any]:
    builder = lowering.builder
    then, otherwise = graphs_of(node).values()
    condition = builder.plain(resolve(node.arguments["condition"], lowering.values))
    if not isinstance(condition, Tensor):
        return _inlined(lowering, node, then if condition else otherwise, sources)
    if not node.results:
        return []
    dtypes = [_dtype(lowering, each, result) for each, result in zip(outputs_of(then), node.results, strict=True)]

    def side(graph: Graph) -> Callable[[], list[Any]]:
        return lambda: _cast(lowering, _inlined(lowering, node, graph, sources), dtypes)

    sides = {
        name: _graph(lowering, node, name, side(graph))
        for name, graph in (("then_branch", then), ("else_branch", otherwise))
    }
    made = builder.add("If", builder.cast(condition, "bool"), outputs=len(dtypes), dtype="bool", shape=None, **sides)
    return _typed(made, dtypes, node)


def _while(lowering: Any, node: Node, sources: list[Any]) -> list[Any]:
    builder, count = lowering.builder, len(node.results)
    condition, body = graphs_of(node).values()
    carried, operands = sources[:count], sources[count:]
    if not carried:
        return []
    dtypes = [
        each.dtype if isinstance(each, Tensor) and not each.number else NUMBERS[str(kind_of(value))]
        for each, value in zip(carried, body.inputs, strict=False)
    ]
    start = [builder.strong(each) for each in _cast(lowering, carried, dtypes)]
    first = builder.cast(_inlined(lowering, node, condition, [*carried, *operands])[0], "bool")
    turn, go, own = builder.reserve("turn"), builder.reserve("go"), []
    for dtype, value in zip(dtypes, body.inputs, strict=False):
        number = value.kind != "tensor"
        own.append(Tensor(builder, builder.reserve(value.name), dtype, () if number else value.shape, number=number))

    def make() -> list[Any]:
        made = _cast(lowering, _inlined(lowering, node, body, [*own, *operands]), dtypes)
        for each, value in zip(made, own, strict=True):
            each.number = value.number
        again = _inlined(lowering, node, condition, [*made, *operands])[0]
        return [builder.cast(again, "bool"), *made]

    made_body = _graph(lowering, node, "body", make)
    inputs = [Tensor(builder, turn, "int64", ()), Tensor(builder, go, "bool", ()), *own]
    made_body.input.extend(map(lowering.info, inputs))
    made = builder.add("Loop", None, first, *start, outputs=count, dtype="bool", shape=None, body=made_body)
    return _typed(made, dtypes, node)


def _dtype(lowering: Any, output: Any, result: Value | None) -> str:
    """The dtype of a result of a decision."""
    for each in (result, output):
        if isinstance(each, Value) and each.dtype is not None:
            return each.dtype
    kind = str(kind_of(output))
    return NUMBERS[kind] if kind in NUMBERS else lowering.builder.fail("the dtype of a result is not known")


def _cast(lowering: Any, values: Sequence[Any], dtypes: Sequence[str]) -> list[Tensor]:
    """Tensors of these dtypes that can be told from the values."""
    return [lowering.builder.cast(each, dtype) for each, dtype in zip(values, dtypes, strict=True)]


def _typed(made: Any, dtypes: Sequence[str], node: Node) -> list[Tensor]:
    """The results of an operator, which have dtypes of their own."""
    results = list(made) if isinstance(made, tuple) else [made]
    for tensor, dtype, value in zip(results, dtypes, node.results, strict=True):
        tensor.dtype = dtype
        tensor.number = value is not None and value.kind != "tensor"
        tensor.shape = () if tensor.number else None if value is None else value.shape
    return results


def _inlined(lowering: Any, node: Node, graph: Graph, sources: Sequence[Any]) -> list[Any]:
    """What a graph gives for these, its nodes made where the builder is."""
    around, builder = lowering.values, lowering.builder
    lowering.values = {value.name: each for value, each in zip(graph.inputs, sources, strict=True)}
    with builder.checks():
        for inner in needed(graph, size_checks=True):
            lowering.node(inner)
        given = [(resolve(each, lowering.values), kind_of(each)) for each in outputs_of(graph)]
        made = [builder.guarded(each, NUMBERS.get(str(kind))) for each, kind in given]
    lowering.values, builder.node = around, node
    return made


def _graph(lowering: Any, node: Node, name: str, make: Callable[[], list[Any]]) -> GraphProto:
    """A graph of ONNX: what `make` builds, which gives its outputs."""
    builder, known = lowering.builder, lowering.known
    lowering.known = []
    proto = GraphProto(name=builder.reserve(name))
    with builder.within() as nodes:
        for each in make():
            out = builder.Identity(each)  # an output is made in the graph
            out.shape = each.shape
            proto.output.append(lowering.info(out))
        lowering.finish(node, {})
        proto.node.extend(nodes)
    proto.value_info.extend(lowering.info(each) for each in lowering.known if each.shape is not None)
    lowering.known = known
    return proto


def renamed(protos: Any, names: dict[str, str]) -> None:
    """Other names for values, also where the graphs in nodes take them."""
    for proto in protos:
        for held in (proto.input, proto.output):
            for at, name in enumerate(held):
                if name in names:
                    held[at] = names[name]
        for attribute in proto.attribute:
            if attribute.HasField("g"):
                renamed(attribute.g.node, names)
