"""Walkers along recorded calls, and what their variables hold where turns begin and ways meet."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pijit.graph.build.builder import DECISION
from pijit.graph.decisions.tree import UNSET, Meanings, Number, number
from pijit.graph.decisions.turns import HEAD, MEET, Head, Path
from pijit.graph.model import Graph, Node, Slice, Value


class Differs(Exception):
    """Calls, or turns of a loop, differ where nothing was decided."""

    def __init__(self, what: str, node: Node | None = None) -> None:
        super().__init__(what)
        self.what, self.node = what, node


@dataclass
class Call:
    """One recorded call.

    Attributes:
        graph: what it did, with marks.
        heads: what the marks say.
        index: which call it is.
        ranges: names of the bools that say whether a range has one more number.
        free: names of the numbers that follow from a size that stays free.
    """

    graph: Graph
    heads: list[Head]
    index: int
    ranges: set[str] = field(default_factory=set)
    free: set[str] = field(default_factory=set)

    def chooses(self, node: Node) -> bool:
        """Other data, or sizes, may go another way there."""
        held = node.arguments.get("x")
        if node.op == DECISION:
            return not (isinstance(held, Value) and held.name in self.ranges)
        return is_of_size(node) and isinstance(held, Value) and held.name in self.free


class Known:
    """What the values of a call stand for, within one turn."""

    def __init__(self, own: dict[str, Meanings], outer: "Known | None" = None) -> None:
        self.own, self._outer = own, outer

    def find(self, name: str) -> Meanings | None:
        found = self.own.get(name)
        return found if found is not None or self._outer is None else self._outer.find(name)


@dataclass
class Turns:
    """The loop, or the side of a decision, that walkers are in."""

    paths: list[list[Path]]  # for each carried value those of the variables that hold it
    carried: list[Value]


@dataclass
class Walker:
    """Goes along the nodes of one call, or of one turn.

    Attributes:
        call: the call.
        at: index of the next node.
        stop: index of the first node that is not its own.
        known: what values stand for.
        numbers: values of the tree that are numbers of Python in this turn, by name.
        loop: whose next turn begins at `stop`, or the meeting there; None: the call returns there.
        turns: a further turn follows, of some loop around.
    """

    call: Call
    at: int
    stop: int
    known: Known
    numbers: dict[str, Any]
    loop: Turns | None = None
    turns: bool = False

    @property
    def next(self) -> Node:
        return self.call.graph.nodes[self.at]

    def is_at_end(self) -> bool:
        return self.at >= self.stop

    def head(self, at: int) -> tuple[Head, Sequence[Any]]:
        """The mark at an index, and what its slots hold."""
        node = self.call.graph.nodes[at]
        return self.call.heads[node.arguments["at"]], node.arguments["slots"]  # type: ignore[index, return-value]

    def meanings(self, argument: Any) -> Meanings:
        """What a value or number may stand for."""
        if isinstance(argument, Value):
            found = self.known.find(argument.name)
            if found is None:
                raise Differs(f"a turn uses {argument.name!r} of an earlier one, which no local variable holds", None)
        else:
            found = frozenset({number(argument)})
        own = next(iter(found))
        if not isinstance(own, Number):
            return found
        return found | {name for name, held in self.numbers.items() if number(held) == own}


def meetings(walker: Walker) -> dict[Any, int]:
    """Where ways meet that the walker has still to come to, in order."""
    found: dict[Any, int] = {}
    for at in range(walker.at, walker.stop):
        if walker.call.graph.nodes[at].op == MEET:
            found.setdefault(walker.head(at)[0].loop, at)
    return found


def holding(walker: Walker, loop: Turns, head: Head, slots: Sequence[Any]) -> tuple[Known, dict[str, Any]]:
    """What values stand for, and which are numbers of Python, where variables hold what is carried."""
    own: dict[str, set[Any]] = {}
    numbers = dict(walker.numbers)
    for value, paths in zip(loop.carried, loop.paths, strict=True):
        held = value_of(head, slots, paths[0])
        if isinstance(held, Value):
            own.setdefault(held.name, set()).add(value.name)
        elif held is not UNSET:
            numbers[value.name] = held
    known = {name: frozenset(each | (walker.known.find(name) or set())) for name, each in own.items()}
    return Known(known, walker.known), numbers


def differing(
    walkers: list[Walker], heads: list[tuple[Head, Sequence[Any]]], node: Node
) -> list[tuple[str, list[Path]]]:
    """What differs where ways meet: names, with the variables that hold the same."""
    groups: dict[Any, tuple[str, list[Path]]] = {}
    first = heads[0][0]
    for path in dict.fromkeys(path for head, _ in heads for path in (*head.values, *head.others)):
        told = [_held(head, slots, path) for head, slots in heads]
        kinds = {each[0] for each in told}
        if kinds & {"absent", "none", "object", "other"}:
            continue  # who uses it finds out
        if kinds != {"value"}:
            if any(each != told[0] for each in told):
                raise Differs(f"{first.name(path)!r} holds things of several kinds", node)
            continue
        if _is_one(walkers, [slots[head.values[path]] for head, slots in heads]):
            continue
        if len({each[1] for each in told}) > 1:
            raise Differs(f"{first.name(path)!r} holds things of several kinds", node)
        groups.setdefault(tuple(each[2] for each in told), (_word(first, path), []))[1].append(path)
    return list(groups.values())


def _is_one(walkers: list[Walker], held: list[Any]) -> bool:
    """All hold one value, or number, that there was before."""
    common: Any = None
    for walker, each in zip(walkers, held, strict=True):
        unknown = isinstance(each, Value) and walker.known.find(each.name) is None
        found = frozenset() if unknown else walker.meanings(each)
        common = found if common is None else common & found
        if not common:
            return False
    return True


def _word(head: Head, path: Path) -> str:
    """What a value is called that the variable holds."""
    return "position" if path[-1] == "position" else re.sub(r"\W", "_", head.name(path))


def turns_of(walker: Walker, head: Head) -> Iterator[int]:
    """Where the turns of a loop begin, from the one where the walker stands."""
    yield walker.at
    nodes = walker.call.graph.nodes
    for at in range(walker.at + 1, walker.stop):
        if nodes[at].op != HEAD:
            continue
        other = walker.head(at)[0]
        if other.loop == head.loop and other.call == head.call:
            if other.turn == 0:
                return
            yield at


def varying(walkers: list[Walker], turns: list[list[int]], mark: Node) -> list[tuple[str, list[Path]]]:
    """What differs from turn to turn: names, with the variables that hold the same in all turns."""
    seen = [[walker.head(at) for at in ats] for walker, ats in zip(walkers, turns, strict=True)]
    paths = dict.fromkeys(path for heads in seen for head, _ in heads for path in (*head.values, *head.others))
    groups: dict[Any, tuple[str, list[Path]]] = {}
    first = seen[0][0][0]
    for heads in seen:
        for path in dict.fromkeys(path for head, _ in heads for path in head.changing):
            held = [head.changing.get(path) for head, _ in heads]
            numbers = [each[1] for each in held if each is not None]
            if any(each is not None and each != held[0] for each in held) and (
                len(set(numbers)) < len(numbers)
                or any(each is not None and each[0] in {"other", "iterator"} for each in held)
            ):
                kind = next(each[0] for each in held if each is not None)
                instead = "; make a tensor longer instead: `out = torch.cat([out, x])`" if kind == "list" else ""
                raise Differs(
                    f"{first.name(path)!r} holds an object ({kind}) that changes from turn to turn{instead}", mark
                )
    for path in paths:
        told = [[_held(head, slots, path) for head, slots in heads] for heads in seen]
        if all(each == call[0] for call in told for each in call):
            if told[0][0][0] not in {"value", "absent", "object", "other"} and any(
                call[0] != told[0][0] for call in told
            ):
                raise Differs(f"the calls come to it with another {first.name(path)!r}", mark)
            continue
        if any(each[0] in {"absent", "none"} for call in told for each in call):
            if not _is_set_first(told, seen):
                continue  # who uses it finds out
            told = [[("value", "", None), *call[1:]] for call in told]
        kinds = {each[1] if each[0] == "value" else each[0] for call in told for each in call} - {""}
        if len({_form(each) for each in kinds}) > 1 or any(each[0] != "value" for call in told for each in call):
            raise Differs(f"{first.name(path)!r} holds things of several kinds: {', '.join(sorted(kinds))}", mark)
        key = tuple(each[2] for call in told for each in call)
        groups.setdefault(key, (_word(first, path), []))[1].append(path)
    return list(groups.values())


def _form(kind: str) -> str:
    """A type without its sizes, which calls may tell of in other words; `Value.type` has a space between two."""
    dtype, _, sizes = kind.partition("[")
    return f"{dtype}, {sizes.count(', ') + (sizes != ']') if sizes else 0}"


def _is_set_first(told: list[list[tuple[Any, ...]]], seen: list[list[tuple[Head, Any]]]) -> bool:
    """The variable has no value before the loop, and the first turn, which there always is, gives it one."""
    always = all(heads[0][0].over for heads in seen)
    before = all(call[0][0] != "value" for call in told)
    return always and before and all(each[0] == "value" for call in told for each in call[1:])


def _held(head: Head, slots: Sequence[Any], path: Path) -> tuple[Any, ...]:
    """What a variable holds: ("value", type, which), or what else."""
    if path in head.values:
        held = slots[head.values[path]]
        if isinstance(held, Value):
            return "value", held.kind if held.kind != "tensor" else held.type, held.name
        return "value", type(held).__name__, number(held)
    return head.others.get(path, ("absent",))  # type: ignore[no-any-return]


def value_of(head: Head, slots: Sequence[Any], path: Path) -> Any:
    """The value or number that a variable holds, or `UNSET`."""
    return slots[head.values[path]] if path in head.values else UNSET


NOTHING: Any = object()


def pattern_of(walker: Walker, argument: Any) -> Any:
    """An argument with what each value and number may stand for in its place."""
    if isinstance(argument, Value) or type(argument) in {int, float, bool}:
        return walker.meanings(argument)
    if isinstance(argument, Slice):
        return Slice(*(pattern_of(walker, part) for part in (argument.start, argument.stop, argument.step)))
    if isinstance(argument, list | tuple):
        return type(argument)(pattern_of(walker, each) for each in argument)
    if isinstance(argument, Mapping):
        return {key: pattern_of(walker, each) for key, each in argument.items()}
    return argument


def both(one: Any, other: Any) -> Any:
    """What fits both patterns, or `NOTHING`."""
    if isinstance(one, frozenset) and isinstance(other, frozenset):
        return one & other or NOTHING
    if type(one) is not type(other):
        return NOTHING
    if isinstance(one, Slice):
        parts = [both(getattr(one, name), getattr(other, name)) for name in ("start", "stop", "step")]
        return NOTHING if any(part is NOTHING for part in parts) else Slice(*parts)
    if isinstance(one, list | tuple):
        parts = [both(a, b) for a, b in zip(one, other, strict=False)]
        return NOTHING if len(one) != len(other) or any(part is NOTHING for part in parts) else type(one)(parts)
    if isinstance(one, dict):
        if list(one) != list(other):
            return NOTHING
        made = {key: both(each, other[key]) for key, each in one.items()}
        return NOTHING if any(part is NOTHING for part in made.values()) else made
    return one if one == other or one is other else NOTHING


def is_of_size(node: Node) -> bool:
    """A decision on sizes, which is one of the graph where calls, or turns, go different ways."""
    held = node.arguments.get("x")
    return node.op == "check" and isinstance(held, Value) and held.kind == "bool" and not node.origin


def intersected(wanted: Mapping[str, Any], walker: Walker, node: Node) -> dict[str, Any] | None:
    """The patterns that fit also the next node of the walker; None: it is another node."""
    other = walker.next
    if (node.op, node.origin, node.writes, node.random) != (other.op, other.origin, other.writes, other.random):
        return None
    if list(node.arguments) != list(other.arguments) or len(node.results) != len(other.results):
        return None
    try:
        made = {name: both(each, pattern_of(walker, other.arguments[name])) for name, each in wanted.items()}
    except Differs:
        return None
    return None if any(each is NOTHING for each in made.values()) else made
