"""Basic indexing by numbers that data decides, for torch.export.

Python's subscript takes no such number where torch.export runs a module without data; the operators that it would call
do:

    x[i]          aten.select(x, 0, i)
    x[:, i, a:b]  aten.slice(aten.select(x, 1, i), 1, a, b, 1)
"""

from collections.abc import Container
from typing import Any

from pijit.graph.model import Node, Slice, Value, values_of

_END = 2**63 - 1  # of a slice: the length of the axis, whatever it is


def is_by_number(node: Node, numbers: Container[Value]) -> bool:
    """An item or items at places that are numbers, some of which are among those that data decides."""
    source = node.arguments.get("x")
    if node.op != "getitem" or not isinstance(source, Value) or source.shape is None:
        return False
    plain = all(part is None or part is ... or isinstance(part, Slice) or _is_int(part) for part in _parts(node))
    return plain and any(value in numbers for value in values_of(node.arguments["index"]))


def _parts(node: Node) -> tuple[Any, ...]:
    index = node.arguments["index"]
    return index if isinstance(index, tuple) else (index,)


def _is_int(part: Any) -> bool:
    if isinstance(part, Value):
        return part.kind == "int"
    return isinstance(part, int) and not isinstance(part, bool)


def item(lowering: Any, node: Node) -> Any:
    """The result of such a node, by the lowering's operators."""
    aten = lowering.torch.ops.aten
    source: Any = node.arguments["x"]
    parts = _parts(node)
    made, axis = lowering.argument(source), 0
    given = sum(part is not None and part is not ... for part in parts)
    for part in parts:
        if part is ...:
            axis += len(source.shape) - given
        elif part is None:
            made = lowering.call(aten.unsqueeze.default, (made, axis))
            axis += 1
        elif isinstance(part, Slice):
            start, stop, step = (lowering.argument(each) for each in (part.start, part.stop, part.step))
            if (start, stop, step) != (None, None, None):
                ends = (0 if start is None else start, _END if stop is None else stop, 1 if step is None else step)
                made = lowering.call(aten.slice.Tensor, (made, axis, *ends))
            axis += 1
        else:
            made = lowering.call(aten.select.int, (made, axis, lowering.argument(part)))
    return made
