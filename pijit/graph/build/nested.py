"""Nested tensors in a graph: the fast path of TransformerEncoder with a mask for padding packs its sequences in one.

The recorder knows no nested tensor, so what is done with one are calls of Python in a trace. Those that the fast path
makes are operators of ATen here; what is asked of a nested tensor on the way decides nothing that data or sizes change.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Any

from pijit.graph.build.opaque_objects import UNKNOWN, Opaque, holds_opaque, plain
from pijit.graph.model import Value


class Bound(Opaque):
    """A method of a nested tensor."""

    def __init__(self, array: Value, name: str) -> None:
        super().__init__(name)
        self.array, self.name = array, name


def _is_nested(builder: Any, argument: Any) -> bool:
    return isinstance(argument, Value) and argument.name in builder.nested


def _operator(name: str, needs: bool) -> Callable[..., Any]:
    """An operator of ATen that gives a nested tensor; with `needs` of a nested one only."""

    def call(builder: Any, row: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
        given = [plain(each) for each in args]
        if holds_opaque((*given, *named.values())) or (needs and not any(_is_nested(builder, each) for each in given)):
            return UNKNOWN
        schema = getattr(sys.modules["torch"].ops.aten, name).default._schema
        taken = dict(zip((each.name for each in schema.arguments), given, strict=False)) | named
        made = builder.foreign(row, f"aten::{name}", taken)
        builder.nested.add(made.name)
        return made

    return call


def _attribute(builder: Any, row: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
    """`x.dtype`, `x.is_nested`, `x.dim`, ... of a nested tensor."""
    if len(args) != 2 or not _is_nested(builder, args[0]):
        return UNKNOWN
    return Bound(args[0], str(args[1]))


def _has_function(builder: Any, row: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
    """Whether a class of the program stands in for an operator: it is asked of all operands of the fast path."""
    operands = args[0] if len(args) == 1 and isinstance(args[0], tuple) else ()
    return False if any(_is_nested(builder, each) for each in operands) else UNKNOWN


def method(bound: Bound, builder: Any, row: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
    """What a method of a nested tensor gives."""
    if bound.name != "to_padded_tensor" or holds_opaque((*args, *named.values())):
        return Opaque(bound.name)
    words = zip(("padding", "output_size"), map(plain, args), strict=False)
    return builder.foreign(row, "aten::to_padded_tensor", {"self": bound.array, **dict(words), **named})


def calls() -> dict[Any, Callable[..., Any]]:
    """By callable."""
    torch = sys.modules["torch"]
    return {
        torch._nested_tensor_from_mask: _operator("_nested_tensor_from_mask", False),
        torch._transformer_encoder_layer_fwd: _operator("_transformer_encoder_layer_fwd", True),
        torch._C._has_torch_function: _has_function,
        getattr: _attribute,
    }
