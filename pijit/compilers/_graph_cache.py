"""What is made of a graph once for all compilers, until nobody compiles it any longer."""

import weakref
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from pijit.graph.model import Graph

_Made = TypeVar("_Made")

_held: "weakref.WeakKeyDictionary[Graph, dict[Hashable, Any]]" = weakref.WeakKeyDictionary()


def remembered(graph: Graph, what: Hashable, make: Callable[[], _Made]) -> _Made:
    """What `make` gives, or gave before for the same graph; graphs are not changed."""
    held = _held.setdefault(graph, {})
    if what in held:
        known: _Made = held[what]
        return known
    made = make()
    if made is not graph:  # else it would keep itself alive
        held[what] = made
    return made


def forget(graph: Graph) -> None:
    """Nobody compiles it any longer."""
    _held.pop(graph, None)
