"""Drops operators that give back what they are given, bit for bit and as the same tensor.

Only where torch gives the very same tensor, so that the program cannot tell: dropout in evaluation, `to` the dtype
that a tensor has, `contiguous` of what is contiguous.
"""

from collections.abc import Mapping
from typing import Any

from pijit.graph.model import Argument, Graph, Node, Value
from pijit.passes._rewriting import rewritten

DOC = "drops what gives back its argument: dropout in evaluation, `to` the same dtype, `contiguous` of contiguous"
CONSENT = False
EXACT = True
_DROPOUTS = {"dropout", "feature_dropout"}


def run(graph: Graph) -> Graph:
    """The graph without them."""
    return rewritten(graph, _Dropper().rewrite)


class _Dropper:
    def __init__(self) -> None:
        self._contiguous: set[str] = set()

    def rewrite(self, node: Node, new: Mapping[str, Value]) -> tuple[Node | None, Mapping[str, Argument]]:
        x = node.arguments.get("x")
        if len(node.results) != 1 or not isinstance(x, Value) or (result := node.results[0]) is None:
            return node, {}
        if self._gives_x(node, x, result):
            return None, {result.name: x}
        if node.op == "contiguous":
            self._contiguous.add(result.name)
        return node, {}

    def _gives_x(self, node: Node, x: Value, result: Value) -> bool:
        given = node.arguments
        if node.op in _DROPOUTS:
            return given.get("training") is False
        if node.op == "astype":
            return node.origin != "aten::_to_copy" and _same_place(x, given, result)
        if node.op == "type_as":
            return _same_place(x, {"x": x}, result)
        return node.op == "contiguous" and x.name in self._contiguous


def _same_place(x: Value, given: Mapping[str, Any], result: Value) -> bool:
    """`to` changes neither dtype nor device nor layout, and is not asked for a copy."""
    known = x.dtype is not None and x.dtype == result.dtype and x.device is not None and x.device == result.device
    return known and given.get("copy", False) is False and given.keys() <= {"x", "dtype", "device", "copy"}
