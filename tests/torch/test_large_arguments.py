"""Arguments, and what frames hold where recordings begin, that hold very much: each is recorded in a moment."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

import pijit

pytestmark = pytest.mark.torch
MOST_GUARDS = 20_000  # of one trace: a few times what its arguments hold


def rows(count: int, width: int = 20) -> list[list[list[float]]]:
    return [[[float(i + j + k) for k in range(3)] for j in range(width)] for i in range(count)]


def records(count: int) -> dict[str, Any]:
    return {f"k{i}": {"a": [i], "b": {"c": [i + 1]}} for i in range(count)}


def of_rows(held: Any, x: Any) -> Any:
    total = x * held[3][2][0]
    for row in held[:4]:
        total = total + len(row) + row[0][0]
    held[1][1].append(float(total.sum()))
    held.append([[1.0]])
    return total, len(held), held[-1], sum(len(row) for row in held)


def of_records(held: Any, x: Any) -> Any:
    total = x.sum()
    for value in held.values():
        total = total + value["a"][0]
    held["k0"]["a"].append(3)
    held["new"] = held.pop("k1")
    return total, len(held)


def of_several(held: Any, x: Any) -> Any:
    first, second = held[0], held[1]
    first[0].append(x.sum())
    return (x + len(first[0]) + len(second[0]), first is second)


def shared(count: int) -> Any:
    """Two of its items are one object."""
    made: Any = rows(count)
    made[1] = made[0]
    return made


CASES = [(of_rows, rows), (of_records, records), (of_several, rows), (of_several, shared)]


@pytest.mark.parametrize(("program", "make"), CASES, ids=lambda f: f.__name__)
def test_what_arguments_hold_is_bounded(program: Any, make: Any) -> None:
    fast = pijit.jit(program)
    x = torch.arange(3.0)
    for count in (5, 100, 100, 100, 140, 140, 5, 5, 300, 300, 100):
        here, there = make(count), make(count)
        assert str(program(here, x)) == str(fast(there, x))
        assert str(here) == str(there)
    assert pijit.traces(fast)
    assert max(len(trace.guards) for trace in pijit.traces(fast)) < MOST_GUARDS


def test_arguments_by_position_that_hold_too_much() -> None:
    def program(*held: Any) -> Any:
        return held[0].sum() + len(held[1])

    fast = pijit.jit(program)
    for count in (3, 200, 200, 3, 200):
        assert program(torch.ones(2), rows(count)) == fast(torch.ones(2), rows(count))


def frame_of(held: Any, x: Any, turns: int) -> Any:
    items = [row[0] for row in held]
    whole = list(held)
    total = x
    for turn in range(turns):  # a trace of it begins in the middle, with all of that in the frame
        total = (total + len(items[turn % 3])).sin()
        items[turn % 3].append(turn)
        items.append(whole[turn % 5][1])
    return total, len(items), items[-1], [len(each) for each in whole]


@pytest.mark.parametrize("make", [rows, shared])
def test_what_a_frame_holds_in_the_middle_is_bounded(make: Any) -> None:
    fast = pijit.jit(frame_of)
    x = torch.arange(3.0)
    for count, turns in ((6, 50), (6, 50), (150, 60), (150, 60), (150, 70), (6, 10), (150, 60)):
        held = make(count)
        other = copy.deepcopy(held)
        assert str(frame_of(held, x, turns)) == str(fast(other, x, turns))
        assert str(held) == str(other)
    for trace in pijit.traces(fast):
        assert len(trace.guards) < MOST_GUARDS
