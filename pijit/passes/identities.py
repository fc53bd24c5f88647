"""Drops arithmetic that is exact and changes no bit: x * 1, x / 1, x - 0, x ** 1, -(-x), relu(relu(x)), t(t(x)).

x + 0 is not among them: -0.0 + 0 is 0.0. Such an operator gives a new tensor; so the result may be its argument only
where nothing writes to either, and the program does not have both.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from pijit.graph.model import Argument, Graph, Node, Value
from pijit.graph.model.memory import Memory
from pijit.passes._rewriting import rewritten, same_type

DOC = "drops arithmetic that changes no bit: x * 1, x / 1, x - 0, -(-x), relu(relu(x)), t(t(x)), joining with nothing"
CONSENT = False
EXACT = True


def _is(number: int) -> Callable[[Argument], bool]:
    return lambda given: type(given) in {int, float} and given == number and str(given)[0] != "-"


# Operators that leave `x` as it is when this argument is such, and the others are not given.
_NEUTRAL: dict[str, tuple[str, Callable[[Argument], bool]]] = {
    "multiply": ("y", _is(1)),
    "divide": ("y", _is(1)),
    "subtract": ("y", _is(0)),
    "pow": ("y", _is(1)),
}
# Applied twice they give the argument back, or the same as once. The first two are views.
_INVERSE = {"t", "matrix_transpose", "negative", "logical_not", "bitwise_invert"}
_IDEMPOTENT = {"relu", "abs", "floor", "ceil", "trunc", "sign"}


def run(graph: Graph) -> Graph:
    """The graph without them."""
    return rewritten(graph, _Simplifier(graph).rewrite)


class _Simplifier:
    def __init__(self, graph: Graph) -> None:
        self._memory = Memory(graph)
        self._made_by: dict[str, Node] = {}

    def rewrite(self, node: Node, new: Mapping[str, Value]) -> tuple[Node | None, Mapping[str, Argument]]:
        x = node.arguments.get("x")
        result = node.results[0] if len(node.results) == 1 else None
        if result is not None and node.op == "concat":
            return _without_empty(node, result), {}
        if result is None or not isinstance(x, Value) or node.writes:
            return node, {}
        self._made_by[result.name] = node
        same = self._same(node, x)
        if same is None or not same_type(same, result) or not self._can_be_one(same, result):
            return node, {}
        self._memory.one(same, result)
        return None, {result.name: same}

    def _same(self, node: Node, x: Value) -> Value | None:
        """The value that has the bits of the node's result."""
        if node.op in _NEUTRAL:
            name, neutral = _NEUTRAL[node.op]
            if node.arguments.keys() == {"x", name} and neutral(node.arguments[name]):
                return x
        before = self._made_by.get(x.name)
        if before is None or before.op != node.op or node.arguments.keys() != {"x"} or before.arguments.keys() != {"x"}:
            return None
        if node.op in _INVERSE:
            source = before.arguments["x"]
            return source if isinstance(source, Value) else None
        return x if node.op in _IDEMPOTENT else None

    def _can_be_one(self, a: Value, b: Value) -> bool:
        memory = self._memory
        if not memory.is_constant(a) or not memory.is_constant(b):
            return False
        if memory.root(a) == memory.root(b):
            return b.name not in memory.results  # the program has a view, which is another tensor
        return memory.root(a) not in memory.seen or memory.root(b) not in memory.seen


def _without_empty(node: Node, result: Value) -> Node:
    """A node that joins arrays, without those of shape (0,)."""
    arrays = node.arguments["arrays"]
    if not isinstance(arrays, tuple):
        return node
    kept = tuple(each for each in arrays if not (isinstance(each, Value) and each.shape == (0,)))
    typed = all(isinstance(each, Value) and each.dtype == result.dtype for each in kept)
    if not kept or not typed or len(kept) == len(arrays):
        return node
    return replace(node, arguments={**node.arguments, "arrays": kept})
