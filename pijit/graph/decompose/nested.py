"""The fast path of TransformerEncoder without nested tensors: sequences with padding, and a mask that hides it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pijit.graph.model import Graph, Node, Slice, Value, replaced
from pijit.graph.model.names import Names

MAKES = "aten::_nested_tensor_from_mask"
ASKS = "aten::_nested_tensor_from_mask_left_aligned"
_LAYER = "aten::_transformer_encoder_layer_fwd"
_PADS = "aten::to_padded_tensor"


def padded(graph: Graph) -> Graph:
    """The graph with padded tensors in the place of nested ones; what else is done with those stays as it is."""
    if not any(node.op in {MAKES, ASKS} for node in graph.nodes):
        return graph
    made = {value.name: node for node in graph.nodes for value in node.results if value is not None}
    names = Names({*made, *(value.name for value in (*graph.inputs, *graph.parameters))})
    sources: dict[str, Value] = {}  # by a nested tensor: that of which it has the form
    hidden: dict[str, Value] = {}  # by a nested tensor: where padding is
    same: dict[str, Any] = {}
    nodes: list[Node] = []
    for each in graph.nodes:
        node = replace(each, arguments={name: replaced(given, same) for name, given in each.arguments.items()})
        result, own = node.results[0] if node.results else None, node.arguments.get("src", node.arguments.get("self"))
        nested = own.name if isinstance(own, Value) else ""
        place: dict[str, Any] = {"region": node.region, "file": node.file, "line": node.line}
        if node.op == ASKS and isinstance(mask := node.arguments["mask"], Value):
            nodes += _is_at_the_end(mask, node, names, place)
        elif node.op == MAKES and isinstance(mask := node.arguments["mask"], Value) and result is not None:
            source = node.arguments["t"]
            assert isinstance(source, Value)
            where = replace(mask, name=names.fresh("hidden"), role="result", path="")
            nodes.append(Node("logical_not", {"x": mask}, (where,), origin="aten::logical_not", **place))
            sources[result.name], hidden[result.name] = source, where
            same[result.name] = replace(source, name=result.name, role="result", path="")
            nodes.append(Node("copy", {"x": source}, (same[result.name],), origin="aten::clone", **place))
        elif node.op == _LAYER and nested in hidden and result is not None:
            nodes.append(replace(node, arguments={**node.arguments, "mask": hidden[nested], "mask_type": 1}))
            sources[result.name], hidden[result.name] = sources[nested], hidden[nested]
        elif node.op == _PADS and nested in hidden and _is_form(node.arguments, sources[nested], made):
            mask = hidden[nested]
            shape = None if mask.shape is None else (*mask.shape, 1)
            wide = replace(mask, name=names.fresh("hidden"), shape=shape)
            nodes.append(Node("expand_dims", {"x": mask, "axis": -1}, (wide,), origin="aten::unsqueeze", **place))
            taken = {"x": own, "mask": wide, "value": node.arguments["padding"]}
            nodes.append(Node("masked_fill", taken, node.results, origin="aten::masked_fill.Scalar", **place))
        else:
            nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


def _is_at_the_end(mask: Value, node: Node, names: Names, place: Mapping[str, Any]) -> Iterator[Node]:
    """Whether padding stands behind each sequence: nowhere does the mask begin to hold."""

    def made(op: str, word: str, shape: Any = None, **taken: Any) -> Node:
        value = replace(mask, name=names.fresh(word), role="result", path="", shape=shape)
        return Node(op, taken, (value,), **place)

    parts = [made("getitem", "part", None, x=mask, index=(Slice(), Slice(*ends))) for ends in ((1, None), (None, -1))]
    yield from parts
    later, sooner = (part.results[0] for part in parts)
    yield (missing := made("logical_not", "missing", x=sooner))
    yield (both := made("logical_and", "begins", x=later, y=missing.results[0]))
    yield (found := made("any", "any", (), x=both.results[0]))
    yield Node("item_not", {"x": found.results[0]}, node.results, origin="tensor::not", **place)


def _is_form(arguments: Mapping[str, Any], source: Value, made: Mapping[str, Node]) -> bool:
    """The sizes to which is padded are those that the sequences had before."""
    sizes = arguments.get("output_size")
    makers = [made.get(each.name) if isinstance(each, Value) else None for each in sizes or ()]
    return bool(makers) and all(
        maker is not None and maker.op == "size" and maker.arguments == {"x": source, "axis": at}
        for at, maker in enumerate(makers)
    )
