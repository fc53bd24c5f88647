"""Makes a "while" of a loop in the tree of what calls did.

The plain form asks the condition of what a turn is given, and computes in the body what the next one is given. Where a
turn first does its work, and then decides with the result whether there is another one, condition and body would both
do it. Then the loop is turned: what the condition computes is carried, with the answer, and is computed for the next
turn at the end of the body. A loop over a range asks first whether there is one more number; if not, nothing is
computed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pijit.errors import ExportError
from pijit.graph.decisions.liveness import Lowered, Wanted, free, used, with_values
from pijit.graph.decisions.tree import UNSET, End, Fork, Join, Loop, Tree, ends
from pijit.graph.model import Argument, Node, Value, replaced, values_of
from pijit.graph.torch_calls import NUMBERS

if TYPE_CHECKING:
    from pijit.graph.decisions.lowering import Lowering


class LoopLowering:
    """Lowers one loop.

    Args:
        lowering: of the graph.
        loop: the loop.
        wanted: the ways behind it, and what they give.
        new: what stands for values of the tree.
    """

    def __init__(self, lowering: "Lowering", loop: Loop, wanted: Wanted, new: Mapping[str, Any]) -> None:
        self._lowering, self._loop, self._wanted, self._new = lowering, loop, wanted, new
        self._names = [value.name for value in loop.carried]
        self._results = {value.name: self._fresh(value) for value in loop.carried}

    def run(self) -> Lowered:
        """Nodes and outputs of the loop, and of what is done behind it."""
        made = self._turned()
        return self._plain() if made is None else made

    def _fresh(self, value: Value) -> Value:
        return replace(value, name=self._lowering.names.fresh(value.name), role="result", path="")

    # -- which ways

    def _goes_on(self, end: End) -> bool:
        return end.loop is not None and end.loop.carried is self._loop.carried

    def _flag(self, end: End) -> tuple[Any, ...]:
        return (self._goes_on(end),)

    def _leaving(self, end: End) -> tuple[Any, ...] | None:
        return None if self._goes_on(end) else self._wanted(end)

    def _next(self, names: Iterable[str]) -> Wanted:
        at = [self._names.index(name) for name in names]
        return lambda end: tuple(end.carried[i] for i in at) if self._goes_on(end) else None

    def _lower(self, tree: Tree, wanted: Wanted, more: Mapping[str, Any]) -> Lowered:
        nodes, outputs = self._lowering.lower(tree, wanted, {**self._new, **more})
        return used(nodes, outputs), outputs

    def _ordered(self, names: set[str]) -> list[str]:
        return [name for name in self._names if name in names]

    # -- the plain form

    def _plain(self) -> Lowered:
        loop = self._loop
        nodes, (going,) = self._lower(loop.turn, self._flag, {})
        if not isinstance(going, Value):
            raise ExportError(f"{loop.place.place}: no call has left this loop")
        after = self._lower(loop.turn, self._leaving, self._results)
        needed = {name for name in self._names if name in _taken(nodes, (going,))}
        needed |= {name for name in self._names if self._results[name].name in _taken(*after)}
        body, needed = self._body(needed, set(), {})
        names = self._ordered(needed)
        carried = {value.name: value for value in loop.carried if value.name in needed}
        outer = {name: value for name, value in (free(nodes, [going]) | free(*body)).items() if name not in carried}
        before, start = self._start(names)
        inputs = {**carried, **outer}
        arguments: dict[str, Argument] = {
            "condition": self._lowering.graph("condition", inputs, nodes, going),
            "body": self._lowering.graph("body", inputs, *body),
            "carried": tuple(start[name] for name in names),
            "operands": tuple(outer.values()),
        }
        return [*before, self._while(arguments, [self._results[name] for name in names]), *after[0]], after[1]

    def _body(self, needed: set[str], asked: set[str], more: Mapping[str, Any]) -> tuple[Lowered, set[str]]:
        """What a turn that goes on gives, for those that are needed or asked; and all that are needed for it."""
        while True:
            body = self._lower(self._loop.turn, self._next(self._ordered(needed | asked)), more)
            found = {name for name in self._names if name in _taken(*body)} - needed
            if not found:
                return body, needed
            needed = needed | found

    def _while(self, arguments: Mapping[str, Argument], results: list[Value | None]) -> Node:
        place = self._loop.place
        return Node("while", arguments, tuple(results), region=place.region, file=place.file, line=place.line)

    def _start(self, names: list[str]) -> tuple[list[Node], dict[str, Any]]:
        """What the first turn is given. A variable that has no value yet has some of its type, that of a turn."""
        loop = self._loop
        kinds: dict[str, Any] = {"int": 0, "float": 0.0, "bool": False}
        start = {name: replaced(loop.start[self._names.index(name)], self._new) for name in names}
        for name in names:
            kind = loop.carried[self._names.index(name)].kind
            if start[name] is UNSET and kind in kinds:
                start[name] = kinds[kind]
        unset = [name for name in names if start[name] is UNSET]
        if not unset:
            return [], start
        way = next(end for end in ends(loop.turn) if self._goes_on(end))
        given = {
            name: replaced(each, self._new)
            for name, each in zip(self._names, loop.start, strict=True)
            if each is not UNSET
        }
        wanted = self._next(unset)
        nodes, made = self._renamed(*self._lower(loop.turn, lambda end: wanted(end) if end is way else None, given))
        return nodes, {**start, **dict(zip(unset, made, strict=True))}

    def _renamed(self, nodes: list[Node], outputs: tuple[Any, ...]) -> Lowered:
        """The same with results of other names."""
        fresh = {each.name: self._fresh(each) for node in nodes for each in node.results if each is not None}
        made = [replace(with_values(node, fresh), results=replaced(node.results, fresh)) for node in nodes]
        return made, tuple(replaced(each, fresh) for each in outputs)

    # -- the turned form

    def _turned(self) -> Lowered | None:
        """None: condition and body have no work in common, or the loop cannot be turned."""
        loop = self._loop
        side = _side_that_goes_on(loop.turn, self._goes_on)
        inner = loop.turn if side is None else side[1]
        nodes, (going,) = self._lower(inner, self._flag, {})
        if not isinstance(going, Value):
            return None
        made = {each.name: each for node in nodes for each in node.results if each is not None}
        held, places = ({name: self._fresh(value) for name, value in made.items()} for _ in range(2))
        after = self._lower(loop.turn, self._leaving, {**self._results, **places})
        needed = {name for name in self._names if self._results[name].name in _taken(*after)}
        decided = _taken(nodes, (going,)) | (set() if side is None else _taken(loop.turn.nodes, ()))
        if side is not None:
            decided.add(side[2].name)
        asked = {name for name in self._names if name in decided}
        body, needed = self._body(needed, asked, held)
        taken = _taken(*after) | _taken(*body)
        kept = {name: made[name] for name in made if places[name].name in taken or held[name].name in taken}
        if all(value.kind != "tensor" for value in kept.values()):
            return None
        computed, names = self._ordered(needed | asked), self._ordered(needed)
        before, start = self._start(computed)
        first = self._first(start, side, inner, kept)
        if first is None:
            return None
        body = self._renamed(*body)
        given = dict(zip(computed, body[1], strict=True))
        answer = self._answer(given, side, inner, kept, {}, held)
        assert answer is not None
        more, answered = answer
        outputs = (*(given[name] for name in names), *answered[1:], answered[0])
        inside = used([*body[0], *more], outputs)
        going = Value(self._lowering.names.fresh("going"), "bool")
        carried = {value.name: value for value in loop.carried if value.name in needed}
        carried |= {held[name].name: held[name] for name in kept} | {going.name: going}
        outer = {name: value for name, value in free(inside, outputs).items() if name not in carried}
        inputs = {**carried, **outer}
        arguments: dict[str, Argument] = {
            "condition": self._lowering.graph("condition", inputs, [], going),
            "body": self._lowering.graph("body", inputs, inside, outputs),
            "carried": (*(start[name] for name in names), *first[1][1:], first[1][0]),
            "operands": tuple(outer.values()),
        }
        results = [*(self._results[name] for name in names), *(places[name] for name in kept), None]
        return [*before, *first[0], self._while(arguments, results), *after[0]], after[1]

    def _first(self, start: Mapping[str, Any], side: Any, inner: Tree, kept: Mapping[str, Value]) -> Lowered | None:
        """What the first turn computes, and whether it goes on; None: it is not known that there is one."""
        known: dict[str, Any] = {}
        if side is not None:
            for node in (with_values(each, start) for each in self._loop.turn.nodes):
                arguments = [replaced(each, known) for each in node.arguments.values()]
                if node.op in NUMBERS and node.results[0] is not None and not any(values_of(arguments)):
                    known[node.results[0].name] = NUMBERS[node.op](*arguments)
            if known.get(side[2].name) is not side[0]:
                return None
        return self._answer(start, side, inner, kept, known, {})

    def _answer(
        self,
        given: Mapping[str, Any],
        side: Any,
        inner: Tree,
        kept: Mapping[str, Value],
        known: Mapping[str, Any],
        held: Mapping[str, Value],
    ) -> Lowered | None:
        """For a turn that is given these: whether it goes on, then what it has computed for that.

        Args:
            given: what the turn is given.
            side: where only one side of its first decision may go on, this side.
            inner: what decides.
            kept: what is wanted of what it computes.
            known: what is known of its numbers.
            held: what the turn before has computed, which is given where nothing is.
        """
        new = {**self._new, **given, **known}
        nodes, (going,) = self._lowering.lower(inner, self._flag, new)
        outputs = (going, *kept.values())
        if side is None:
            return self._renamed(used(nodes, outputs), outputs)
        first = [with_values(node, new) for node in self._loop.turn.nodes]
        if known:
            return self._renamed(used([*first, *nodes], outputs), outputs)
        nodes, outputs = self._renamed(used(nodes, outputs), outputs)
        other: Lowered = [], (False, *(held[name] for name in kept))
        condition = replaced(side[2], new)
        if not isinstance(condition, Value):
            return None
        then, otherwise = ((nodes, outputs), other) if side[0] else (other, (nodes, outputs))
        more, outputs = self._lowering.cond(condition, then, otherwise, side[3])
        return self._renamed(used([*first, *more], outputs), outputs)


def _taken(nodes: Iterable[Node], outputs: Iterable[Any]) -> set[str]:
    """Names of the values that nodes and outputs take."""
    return {value.name for node in nodes for value in node.operands} | {value.name for value in values_of([*outputs])}


def _side_that_goes_on(tree: Tree, goes_on: Any) -> tuple[bool, Tree, Value, Node] | None:
    """The side of a first decision whose other side leaves the loop, if that side does not always go on."""
    fork = tree.end
    if not isinstance(fork, Fork) or isinstance(fork, Join) or fork.then is None or fork.otherwise is None:
        return None
    for side, inner, other in ((True, fork.then, fork.otherwise), (False, fork.otherwise, fork.then)):
        if not any(map(goes_on, ends(other))) and not all(map(goes_on, ends(inner))):
            return side, inner, fork.condition, fork.decision
    return None
