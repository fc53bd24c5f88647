"""Finds nodes that repeat one after another, as the layers of a model do: a compiler makes one loop of them.

Nodes i and i + n are equal if they are the same operator with the same literals and types. A stretch in which they are
so for all i repeats n nodes. It is a loop if each operand of a turn is one of these:

1. what the turn itself has made;
2. what the turn before has made at the same place, and for the first turn something from before: it is carried;
3. one value for all turns;
4. a weight for each turn, all of one type: the weights are stacked.

Where a turn begins is free. It begins where the least is carried, which is between two layers.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pijit.graph.model import Graph, Node, Slice, Value, replaced

_TURNS = 4  # fewer are no loop
_NODES = 4  # of a turn
_MOST = 256 << 20  # bytes of weights that are stacked: a copy of them is made


@dataclass(frozen=True)
class Repeat:
    """A loop in the place of nodes.

    Attributes:
        first: index of the first node.
        turns: how often they are repeated.
        nodes: those of a turn, with names of their own for what is carried and stacked.
        carried: what each is called in a turn, what it is at first, and which result of a turn is the next.
        stacked: what each is called in a turn, and the weights of all turns.
        last: for each that is carried what it is called after the loop.
        given: further results of a turn that are used after the loop, with what they are called there in each turn.
    """

    first: int
    turns: int
    nodes: tuple[Node, ...]
    carried: tuple[tuple[Value, Value, Value], ...]
    stacked: tuple[tuple[Value, tuple[Value, ...]], ...]
    last: tuple[Value, ...]
    given: tuple[tuple[Value, tuple[Value, ...]], ...]

    @property
    def end(self) -> int:
        """Index of the first node behind it."""
        return self.first + self.turns * len(self.nodes)


@dataclass(frozen=True)
class Arguments:
    """The weights of a graph as a program with a loop takes them.

    Attributes:
        alone: those that are taken one by one.
        stacks: those that are stacked, a tuple for each stack.
    """

    alone: tuple[Value, ...]
    stacks: tuple[tuple[Value, ...], ...]


def find(nodes: Sequence[Node], graph: Graph) -> Repeat | None:
    """The longest loop among nodes of a graph; None: there is none.

    Args:
        nodes: some of the graph, in order.
        graph: whose weights and results they are about.
    """
    forms = _numbered(nodes, {value.name for value in graph.parameters})
    period, begin, length = _longest(forms)
    if not period or length // period + 1 < _TURNS:
        return None
    loops = []
    operands = [node.operands for node in nodes]
    for shift in range(min(period, length - (_TURNS - 1) * period + 1)):
        made = _Loop(nodes, operands, graph, begin + shift, period, (length - shift) // period + 1).made()
        if made is not None:
            loops.append(made)
    return min(loops, key=lambda each: (len(each.carried) + len(each.given), -each.turns), default=None)


def _longest(forms: Sequence[int]) -> tuple[int, int, int]:
    """The nodes of a turn, the begin of the longest stretch of turns, and its length without the first turn."""
    import numpy as np

    array, best = np.asarray(forms), (0, 0, 0)
    for period in range(_NODES, len(forms) // _TURNS + 1):
        ends = np.flatnonzero(array[:-period] != array[period:])
        edges = np.concatenate(([-1], ends, [len(forms) - period]))
        runs = np.diff(edges) - 1
        at = int(runs.argmax())
        if runs[at] > best[2]:
            best = period, int(edges[at]) + 1, int(runs[at])
    return best


def arguments(graph: Graph, nodes: Iterable[Node], loop: Repeat | None) -> Arguments:
    """What a program with this loop takes of the weights."""
    if loop is None:
        return Arguments(tuple(graph.parameters), ())
    inside = range(loop.first, loop.end)
    taken = {value.name for at, node in enumerate(nodes) if at not in inside for value in node.operands}
    taken |= {value.name for node in loop.nodes for value in node.operands}
    taken |= {start.name for _, start, _ in loop.carried}
    taken |= {value.name for value in (*graph.results, *(value for _, value in graph.updates))}
    stacked = {value.name for _, each in loop.stacked for value in each}
    alone = tuple(value for value in graph.parameters if value.name in taken or value.name not in stacked)
    return Arguments(alone, tuple(each for _, each in loop.stacked))


def _numbered(nodes: Sequence[Node], weights: set[str]) -> list[int]:
    """A number for each node, equal for equal ones."""
    known: dict[Any, int] = {}
    return [known.setdefault(_form(node, weights, at), len(known)) for at, node in enumerate(nodes)]


def _form(node: Node, weights: set[str], at: int) -> Any:
    if node.writes or node.random or node.is_foreign or node.op in {"cond", "while", "check"}:
        return at
    results = tuple(None if each is None else _type(each) for each in node.results)
    arguments = tuple((name, _shape_of(each, weights)) for name, each in node.arguments.items())
    return node.op, node.origin, arguments, results


def _shape_of(argument: Any, weights: set[str]) -> Any:
    """An argument with types in the place of values."""
    if isinstance(argument, Value):
        return _type(argument), argument.name in weights
    if isinstance(argument, tuple):
        return tuple(_shape_of(item, weights) for item in argument)
    if isinstance(argument, Slice):
        return (Slice, *(_shape_of(part, weights) for part in (argument.start, argument.stop, argument.step)))
    return type(argument).__name__, repr(argument)


def _type(value: Value) -> Any:
    return value.kind, value.dtype, value.shape


class _Loop:
    """Looks whether turns of nodes are a loop."""

    def __init__(
        self,
        nodes: Sequence[Node],
        operands: Sequence[tuple[Value, ...]],
        graph: Graph,
        first: int,
        period: int,
        turns: int,
    ) -> None:
        self._first, self._period, self._turns = first, period, turns
        end = first + period * turns
        self._nodes, self._operands = nodes[first:end], operands[first:end]
        self._made: dict[str, tuple[int, int, int]] = {}  # of each result: turn, node of the turn, and which it is
        for at, node in enumerate(self._nodes):
            for which, value in enumerate(node.results):
                if value is not None:
                    self._made[value.name] = at // period, at % period, which
        self._weights = {value.name: value for value in graph.parameters}
        outside = [*operands[:first], *operands[end:]]
        self._taken = {value.name for each in outside for value in each}
        self._taken |= {value.name for value in (*graph.results, *(value for _, value in graph.updates))}
        self._carried: dict[Any, tuple[Value, Value, Value]] = {}
        self._stacked: dict[Any, tuple[Value, tuple[Value, ...]]] = {}

    def made(self) -> Repeat | None:
        """The loop; None: it is none."""
        turn = []
        for at, node in enumerate(self._nodes[: self._period]):
            new: dict[str, Value] = {}
            for which, value in enumerate(self._operands[at]):
                held = self._operand(at, which)
                if held is None or new.setdefault(value.name, held) != held:
                    return None
            arguments: Mapping[str, Any] = {name: replaced(each, new) for name, each in node.arguments.items()}
            turn.append(replace(node, arguments=arguments))
        given = self._given()
        if given is None or not self._stacked or self._bytes() > _MOST:
            return None
        carried, stacked = tuple(self._carried.values()), tuple(self._stacked.values())
        last = tuple(self._after(value)[-1] for _, _, value in carried)
        return Repeat(self._first, self._turns, tuple(turn), carried, stacked, last, given)

    def _operand(self, at: int, which: int) -> Value | None:
        """What stands for an operand in all turns; None: nothing does."""
        held = [self._operands[at + turn * self._period][which] for turn in range(self._turns)]
        places = [self._made.get(value.name) for value in held]
        if places[0] is not None:
            same = all(place == (turn, *places[0][1:]) for turn, place in enumerate(places))
            return held[0] if same else None
        if all(value.name == held[0].name for value in held):
            return held[0]
        later = places[1]
        if later is not None:
            if any(place != (turn, *later[1:]) for turn, place in enumerate(places[1:])) or held[0].kind != "tensor":
                return None
            key = (held[0].name, *later[1:])
            if key not in self._carried:
                value = replace(held[0], name=f"carried {len(self._carried)}", role="result", path="")
                self._carried[key] = value, held[0], self._nodes[later[1]].results[later[2]]  # type: ignore[assignment]
            return self._carried[key][0]
        names = tuple(value.name for value in held)
        if any(place is not None for place in places) or not all(name in self._weights for name in names):
            return None
        if len({_type(value) for value in held}) > 1 or held[0].shape is None:
            return None
        if names not in self._stacked:
            value = replace(held[0], name=f"stacked {len(self._stacked)}", role="result", path="")
            self._stacked[names] = value, tuple(held)
        return self._stacked[names][0]

    def _after(self, value: Value) -> list[Value]:
        """What a result of the first turn is called in each."""
        _, at, which = self._made[value.name]
        return [self._nodes[at + turn * self._period].results[which] for turn in range(self._turns)]  # type: ignore[misc]

    def _given(self) -> tuple[tuple[Value, tuple[Value, ...]], ...] | None:
        """What is used behind the loop besides what it carries at last; None: it is a number."""
        found = []
        carried = {value.name for _, _, value in self._carried.values()}
        for value in (value for node in self._nodes[: self._period] for value in node.results if value is not None):
            each = self._after(value)
            taken = [made.name in self._taken for made in each]
            if not any(taken) or (value.name in carried and not any(taken[:-1])):
                continue
            if value.kind != "tensor":
                return None
            found.append((value, tuple(each)))
        return tuple(found)

    def _bytes(self) -> int:
        return sum(
            self._turns * 8 * math.prod(size for size in value.shape or () if isinstance(size, int))
            for value, _ in self._stacked.values()
        )
