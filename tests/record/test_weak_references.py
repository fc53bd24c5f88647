"""A weak reference that is asked behind writes: what it names is known as long as something provably holds it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest

import pijit


class Thing:
    def __init__(self, n: int = 0) -> None:
        self.n, self.other, self.held = n, 0, None


keeper: Any
kept: Any = None
reference: Any
noted: list[int] = []


@pijit.opaque
def note(n: int) -> None:
    noted.append(n)


def ask() -> Any:
    found = reference()
    if found is None:
        return None
    found.n += 1
    return found.n


def in_a_variable(ends: bool) -> Any:
    mine = keeper.held
    keeper.other += 1
    if ends:
        keeper.held = None
    return ask(), mine is None


def in_a_variable_that_goes(ends: bool) -> Any:
    mine = keeper.held
    keeper.held = None
    keeper.other += 1
    first = ask()
    if not ends:
        keeper.held = mine
    del mine
    keeper.other += 1
    return first, ask()


def inner(mine: Any, ends: bool) -> Any:
    if ends:
        keeper.held = None
        mine = None
    keeper.other += 1
    return ask(), mine is None


def moved_into_a_call(ends: bool) -> Any:
    return inner(keeper.held, ends), ask()


def in_an_attribute(ends: bool) -> Any:
    holder = keeper
    before = holder.held is None
    holder.other += 1
    if ends:
        holder.held = None
    holder.other += 1
    return before, ask(), ask()


def in_a_dict(ends: bool) -> Any:
    table = vars(keeper)
    before = table["held"] is None
    keeper.other += 1
    if ends:
        table["held"] = None
    keeper.other += 1
    return before, ask(), ask()


def in_a_global(ends: bool) -> Any:
    global kept
    before = kept is None
    keeper.held = None
    keeper.other += 1
    if ends:
        kept = None
    keeper.other += 1
    return before, ask(), ask()


def behind_an_opaque_call(ends: bool) -> Any:
    note(1)
    before = keeper.held is None
    keeper.other += 1
    if ends:
        keeper.held = None
    keeper.other += 1
    return before, ask(), ask()


CALLS = [
    in_a_variable,
    in_a_variable_that_goes,
    moved_into_a_call,
    in_an_attribute,
    in_a_dict,
    in_a_global,
    behind_an_opaque_call,
]


@pytest.mark.parametrize("turns", [(0, 0, 0, 0, 1, 1), (0, 1, 1), (1, 1), (0, 0, 0, 0, 0)])
@pytest.mark.parametrize("call", CALLS)
def test_what_dies_is_gone(call: Callable[[bool], Any], turns: tuple[int, ...]) -> None:
    global keeper, kept, reference
    given = []
    for function in (call, pijit.jit(call)):
        said: list[Any] = []
        keeper = Thing()
        for _ in range(3):
            keeper.held = Thing(5)
            kept = keeper.held if call is in_a_global else None
            reference = weakref.ref(keeper.held)
            said += [function(bool(ends)) for ends in turns]
            said.append(reference() is None)
        # The same object in each call, as long as it lives.
        keeper.held = kept = Thing(7)
        reference = weakref.ref(keeper.held)
        if call is not in_a_global:
            kept = None
        said += [function(False) for _ in range(6)]
        said += [function(True) for _ in range(3)]
        said.append(reference() is None)
        given.append(said)
    assert given[0] == given[1]
