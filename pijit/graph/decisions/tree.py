"""The tree of what recorded calls did, of which `pijit.graph.decisions.merging` tells how it is made."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pijit.graph.model import Node, Value

if TYPE_CHECKING:
    from pijit.graph.decisions.walkers import Turns, Walker


@dataclass(frozen=True)
class Number:
    """A number of Python as an argument; equal to one of the same type with the same bits."""

    type: str
    text: str
    value: Any = field(compare=False)


# What a variable holds that has no value before a loop, and that the first turn gives one.
UNSET: Any = type("Unset", (), {"__repr__": lambda _: "UNSET"})()
# What an argument may stand for: values of the tree by their names, or a number.
Meanings = frozenset[Any]


def number(value: Any) -> Number:
    """The number, or anything else that is no value."""
    return Number(type(value).__name__, repr(value), value)


@dataclass
class Tree:
    """Nodes in a row, and how they end."""

    nodes: list[Node]
    end: "Fork | Join | End | Loop"


@dataclass
class Fork:
    """The program decides on a bool; a side that no call went is None."""

    condition: Value
    then: Tree | None
    otherwise: Tree | None
    decision: Node


@dataclass
class Join(Fork):
    """A decision after which both sides meet again.

    Attributes:
        carried: the values that the sides give: their ends have what each is.
        rest: what is done then.
    """

    carried: list[Value]
    rest: Tree


@dataclass
class Loop:
    """From here on all is done turn by turn.

    Attributes:
        carried: the values that each turn has of its own.
        start: what they are at first.
        turn: what a turn does; its ends may belong to this loop, or leave it.
        place: a node of its line.
    """

    carried: list[Value]
    start: list[Any]
    turn: Tree
    place: Node


@dataclass
class End:
    """Where a way ends.

    Attributes:
        loop: whose next turn begins, or the meeting that is reached; None: the call returns.
        carried: what is carried there; else empty.
        outputs: what the call returns.
        updates: what inputs and parameters hold then, by their names.
        walkers: those that came here.
        decided: how the numbers of kind bool were on the way, by name.
    """

    loop: "Turns | None"
    carried: list[Any]
    outputs: Any
    updates: dict[str, Any]
    walkers: "list[Walker]"
    decided: Mapping[str, bool]


def ends(tree: Tree) -> Iterator[End]:
    """All of a tree."""
    if isinstance(tree.end, End):
        yield tree.end
    elif isinstance(tree.end, Loop):
        yield from ends(tree.end.turn)
    elif isinstance(tree.end, Join):
        yield from ends(tree.end.rest)
    else:
        for side in (tree.end.then, tree.end.otherwise):
            if side is not None:
                yield from ends(side)


def all_ends(tree: Tree) -> Iterator[End]:
    """All of a tree, with those of sides that meet again."""
    if isinstance(tree.end, Join):
        for side in (tree.end.then, tree.end.otherwise, tree.end.rest):
            yield from all_ends(side) if side is not None else ()
    elif isinstance(tree.end, Loop):
        yield from all_ends(tree.end.turn)
    elif isinstance(tree.end, Fork):
        for side in (tree.end.then, tree.end.otherwise):
            yield from all_ends(side) if side is not None else ()
    else:
        yield tree.end
