"""Where a pattern fits: nodes of a graph that are those of the pattern, with the same data flow.

The search begins at a node that may be the last of the pattern, and walks backwards. Where operands may change places,
both ways are tried. Nobody but the pattern may read what its nodes give, the last one's result aside: it would have to
be computed as well.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pijit.graph import vocabulary
from pijit.graph.model import Graph, Node, Slice, Token, Value, values_of
from pijit.passes.replacements.forms import Forms

# Arguments that may change places, by operator; `alpha` of a sum belongs to the second one.
_COMMUTATIVE = {
    **dict.fromkeys(
        ("add", "multiply", "maximum", "minimum", "equal", "not_equal", "logical_and", "logical_or"), ("x", "y")
    ),
    "swapaxes": ("axis1", "axis2"),
}
# In a pattern this dtype stands for any of half the width.
LOW = Token("dtype", "bfloat16")
_HALF = (LOW, Token("dtype", "float16"))
# Arguments that count axes, from the end if they are negative.
_AXES = frozenset({"axis", "axes", "axis1", "axis2"})


@dataclass(frozen=True)
class Found:
    """A place where a pattern fits.

    Attributes:
        given: what stands for the arguments of the pattern, by name: values, and numbers.
        low: the dtype that stands for `LOW`; None: the pattern names no dtype of half the width.
        nodes: positions of the nodes in the graph; the last gives what the pattern gives.
    """

    given: Mapping[str, Any]
    low: Token | None
    nodes: tuple[int, ...]


class Matcher:
    """Looks for patterns in one graph, in which nothing writes."""

    def __init__(self, graph: Graph) -> None:
        self._nodes = graph.nodes
        self._made_by: dict[str, tuple[int, int]] = {}  # position of the node, and which result of it
        self._readers: dict[str, set[int]] = {}
        for at, node in enumerate(graph.nodes):
            for value in node.operands:
                self._readers.setdefault(value.name, set()).add(at)
            for place, result in enumerate(node.results):
                if result is not None:
                    self._made_by[result.name] = at, place
        given = (*graph.results, *(value for _, value in graph.updates), *_of_effects(graph))
        self._given = {value.name for value in given}

    def found(self, forms: Forms) -> Iterator[Found]:
        """The places where it fits, each node in one of them at most; later ones first."""
        taken: set[int] = set()
        for at in range(len(self._nodes) - 1, -1, -1):
            if self._nodes[at].op != forms.last.op:
                continue
            for match in self._at(forms, at):
                inner = set(match.nodes)
                if inner.isdisjoint(taken) and self._is_private(inner, at):
                    taken |= inner
                    yield match
                    break

    def _at(self, forms: Forms, at: int) -> Iterator[Found]:
        search = _Search(self._nodes, self._made_by, forms)
        for state in search.node(forms.last, at, _State({}, {})):
            if search.complete(state):
                yield Found(state.given, state.low, tuple(sorted(set(state.nodes.values()))))

    def _is_private(self, inner: set[int], last: int) -> bool:
        """Nobody else reads what is between."""
        for at in inner - {last}:
            for value in self._nodes[at].results:
                if value is not None and (
                    value.name in self._given or not self._readers.get(value.name, set()) <= inner
                ):
                    return False
        return True


def _of_effects(graph: Graph) -> Iterator[Value]:
    for effect in graph.effects:
        yield from effect.values


@dataclass(frozen=True)
class _State:
    """What stands for what so far: arguments by name, and nodes of the pattern by identity."""

    given: Mapping[str, Any]
    nodes: Mapping[int, int]
    low: Token | None = None


class _Search:
    def __init__(self, nodes: tuple[Node, ...], made_by: Mapping[str, tuple[int, int]], forms: Forms) -> None:
        self._nodes, self._made_by, self._forms = nodes, made_by, forms

    def complete(self, state: _State) -> bool:
        """Each tensor that the pattern takes has something that stands for it."""
        return all(value.name in state.given for value in self._forms.pattern.inputs if self._is_read(value))

    def _is_read(self, value: Value) -> bool:
        return any(value.name == each.name for node in self._forms.pattern.nodes for each in node.operands)

    def node(self, wanted: Node, at: int, state: _State) -> Iterator[_State]:
        """The ways in which the node at this position is that of the pattern."""
        if id(wanted) in state.nodes:
            if state.nodes[id(wanted)] == at:
                yield state
            return
        node = self._nodes[at]
        if node.op != wanted.op or node.writes or node.random or len(node.results) != len(wanted.results):
            return
        names = list(dict.fromkeys((*wanted.arguments, *node.arguments)))
        now = replace(state, nodes={**state.nodes, id(wanted): at})
        yield from self._arguments(wanted, node, names, now)
        if node.op in _COMMUTATIVE and "alpha" not in node.arguments and "alpha" not in wanted.arguments:
            one, other = _COMMUTATIVE[node.op]
            yield from self._arguments(wanted, node, names, now, {one: other, other: one})

    def _arguments(
        self, wanted: Node, node: Node, names: list[str], state: _State, places: Mapping[str, str] | None = None
    ) -> Iterator[_State]:
        if not names:
            yield state
            return
        name, *rest = names
        place = (places or {}).get(name, name)
        pair = tuple(_argument(each, where) for each, where in ((wanted, name), (node, place)))
        if _MISSING in pair:
            return
        if name in _AXES:
            pair = _axes(pair[0], wanted), _axes(pair[1], node)
        for after in self._one(pair[0], pair[1], state):
            yield from self._arguments(wanted, node, rest, after, places)

    def _one(self, wanted: Any, given: Any, state: _State) -> Iterator[_State]:
        """The ways in which an argument is that of the pattern."""
        if isinstance(wanted, Value):
            yield from self._value(wanted, given, state)
        elif isinstance(wanted, tuple | Slice):
            if type(given) is type(wanted) and len(_items(given)) == len(_items(wanted)):
                yield from self._all(_items(wanted), _items(given), state)
        elif wanted == LOW and isinstance(given, Token):
            if given in _HALF and state.low in {None, given}:
                yield replace(state, low=given)
        elif not _is_number(wanted):
            if type(given) is type(wanted) and given == wanted:
                yield state
        elif (name := self._forms.numbers.get(wanted)) is None:
            if _is_number(given) and wanted == given:
                yield state
        elif _is_number(given) or (isinstance(given, Value) and given.kind in {"int", "float"}):
            if state.given.get(name, given) == given:
                yield replace(state, given={**state.given, name: given})

    def _value(self, wanted: Value, given: Any, state: _State) -> Iterator[_State]:
        if not isinstance(given, Value):
            return
        if wanted.name in state.given:
            if state.given[wanted.name].name == given.name:
                yield state
        elif wanted.name in self._forms.makers:
            node, place = self._forms.makers[wanted.name]
            at, place_here = self._made_by.get(given.name, (-1, -1))
            if place == place_here:
                yield from self.node(node, at, state)
        elif given.kind == "tensor":
            yield replace(state, given={**state.given, wanted.name: given})

    def _all(self, wanted: tuple[Any, ...], given: tuple[Any, ...], state: _State) -> Iterator[_State]:
        if not wanted:
            yield state
            return
        for after in self._one(wanted[0], given[0], state):
            yield from self._all(wanted[1:], given[1:], after)


_MISSING = object()


def _argument(node: Node, name: str) -> Any:
    """An argument, or the row's default."""
    if name in node.arguments:
        return node.arguments[name]
    row = vocabulary.rows().get(node.op)
    return _MISSING if row is None else row.defaults.get(name, _MISSING)


def _items(argument: Any) -> tuple[Any, ...]:
    return argument if isinstance(argument, tuple) else (argument.start, argument.stop, argument.step)


def _is_number(argument: Any) -> bool:
    return isinstance(argument, int | float) and not isinstance(argument, bool)


def _rank(value: Value) -> int | None:
    return None if value.shape is None else len(value.shape)


def _axes(argument: Any, node: Node) -> Any:
    """Axes counted from the end, as far as the number of them is known: a pattern fits tensors with more axes."""
    count = next((_rank(value) for value in values_of(node.arguments.get("x"))), None)
    if isinstance(argument, tuple):
        return tuple(_axis(each, count) for each in argument)
    return _axis(argument, count)


def _axis(axis: Any, count: int | None) -> Any:
    return axis - count if count and _is_number(axis) and axis >= 0 else axis
