"""The dict of an instance that keeps its attributes inline: made by whoever looks at it, after a call was recorded."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import pijit


class Kept:
    def __init__(self) -> None:
        self.n, self.k, self.log = 0, 1, [0]


class Written(Kept):
    pass


kept: Any
noted: list[int] = []


@pijit.opaque
def note(n: int) -> None:
    noted.append(n)


def read(x: int) -> int:
    return kept.k * x + len(kept.log)


def count(x: int) -> int:
    kept.n += 1
    return kept.n * x


def read_behind(x: int) -> int:
    note(x)
    return kept.k * x + len(kept.log)


def count_behind(x: int) -> int:
    note(x)
    kept.n += 1
    return kept.n * x


def ask_behind(x: int) -> Any:
    before = getattr(kept, "more", None)
    note(x)
    return before, getattr(kept, "more", None)


def update(it: Any) -> None:
    it.__dict__.update({"k": 5})


def replace(it: Any) -> None:
    it.__dict__ = {"n": 7, "k": 9, "log": [1, 2]}


def add(it: Any) -> None:
    vars(it)["more"] = 3


def delete(it: Any) -> None:
    vars(it)["more"] = vars(it).pop("n")
    it.n = 4


def run(call: Callable[[int], Any], fast: Callable[[int], Any], look: Callable[[Any], Any]) -> list[Any]:
    """What twelve calls give, with a look between them."""
    global kept
    kept = Kept()
    noted.clear()
    given: list[Any] = [fast(x) for x in range(6)]
    held = look(kept)
    given += [fast(x) for x in range(6)]
    return [*given, sorted(vars(kept).items()), list(noted), held if isinstance(held, dict) else None]


CALLS = [read, count, read_behind, count_behind, ask_behind]
LOOKS: list[Callable[[Any], Any]] = [
    lambda it: vars(it) and None,
    lambda it: copy.copy(it) and None,
    update,
    replace,
    add,
    delete,
    vars,
]


@pytest.mark.parametrize("look", LOOKS, ids=["vars", "copy", "update", "replace", "add", "delete", "held"])
@pytest.mark.parametrize("call", CALLS)
def test_a_dict_is_made_between_calls(call: Callable[[int], Any], look: Callable[[Any], Any]) -> None:
    assert run(call, pijit.jit(call), look) == run(call, call, look)


@pytest.mark.parametrize("call", CALLS)
def test_a_look_costs_no_recording(call: Callable[[int], Any]) -> None:
    global kept
    kept = Kept()
    fast = pijit.jit(call)
    for _ in range(6):
        fast(3)
    before = pijit.stats()
    vars(kept)
    for _ in range(6):
        fast(3)
    now = pijit.stats()
    assert now["records"] == before["records"]
    assert now["replays"] == before["replays"] + 6
    assert now["exits"] == before["exits"]


def test_a_dict_that_is_an_argument_too() -> None:
    """What the trace writes there is the attribute that it reads."""

    def write(table: dict[str, int], x: int) -> int:
        before = kept.k
        table["k"] = x
        return int(before * 100 + kept.k)

    def behind(table: dict[str, int], x: int) -> int:
        note(x)
        kept.n += 1
        table["n"] = x
        return int(kept.n)

    global kept
    for call in (write, behind):
        fast = pijit.jit(call)
        results = []
        for function in (call, fast):
            kept = Written()
            others = [{"k": 1, "n": 2, "log": 3} for _ in range(4)]
            said = [function(other, 5) for other in others]
            table = vars(kept)
            said += [function(table, 7 + x) for x in range(3)]
            said += [function(other, 5) for other in others]
            del table
            said += [function(other, 5) for other in others]
            results.append((said, sorted(vars(kept).items(), key=str), others))
        assert results[0][0] == results[1][0]
        assert str(results[0][1:]) == str(results[1][1:])


def test_what_varies_does_so_in_the_dict() -> None:
    """An attribute that is loaded is loaded from where it is kept."""

    def scaled(x: int) -> int:
        return int(x * kept.k)

    global kept
    kept = Kept()
    fast = pijit.jit(scaled)
    for k in range(8):
        kept.k = k * 1000
        if k == 5:
            vars(kept)
        assert fast(3) == scaled(3)
    records = pijit.stats()["records"]
    for k in range(8):
        kept.k = k * 1001
        assert fast(3) == scaled(3)
    assert pijit.stats()["records"] == records


def test_the_call_itself_looks() -> None:
    """The attributes are read before and after the first look."""

    def look(x: int) -> Any:
        before = kept.k
        table = vars(kept)
        table["k"] = x
        return before, kept.k, len(table), kept.log

    global kept
    results = []
    for function in (look, pijit.jit(look)):
        kept = Kept()
        results.append([function(x) for x in range(8)])
    assert results[0] == results[1]
