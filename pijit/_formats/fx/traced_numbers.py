"""Numbers that follow from sizes, in the calls that torch.export follows and writes.

It traces `max` and `math.ceil` of sizes, too. But `max` fixes on which side of the other number a size is, and a file
has no `math.ceil`.
"""

from typing import TYPE_CHECKING, Any

from pijit.graph.model import Node, Value
from pijit.graph.torch_calls import function_at

if TYPE_CHECKING:
    from pijit._formats.fx.lowering import Lowering

_EXTREMES = {"scalar_max": "torch.sym_max", "scalar_min": "torch.sym_min"}
_ROUNDED = ("scalar_floor", "scalar_ceil")


def traced(lowering: "Lowering", node: Node) -> Any:
    """What gives the number of a node; None: what gives it elsewhere does here."""
    held = node.arguments
    if node.op in _EXTREMES and all(map(_is_int, held.values())):
        return lowering.call(function_at(_EXTREMES[node.op]), tuple(map(lowering.argument, held.values())))
    divided = lowering.makers.get(getattr(held.get("x"), "name", "")) if node.op in _ROUNDED else None
    if divided is None or divided.op != "scalar_divide" or not all(map(_is_int, divided.arguments.values())):
        return None
    over, under = map(lowering.argument, divided.arguments.values())

    def negative(number: Any) -> Any:
        return lowering.call(function_at("operator.neg"), (number,))

    upwards = node.op == "scalar_ceil"
    made = lowering.call(function_at("operator.floordiv"), (negative(over) if upwards else over, under))
    return negative(made) if upwards else made


def _is_int(number: Any) -> bool:
    return number.kind == "int" if isinstance(number, Value) else type(number) is int
