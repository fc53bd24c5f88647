"""What a recording does at one instruction has a bound, whatever the program holds."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

import pijit
from pijit import _core


class Thing:
    pass


def weakly_held(n: int) -> int:
    seen, total = [], 0
    for _ in range(n):
        thing = Thing()
        seen.append(weakref.ref(thing))
        total += sum(held() is not None for held in seen)
    return total


def weakly_held_by_key(n: int) -> int:
    seen, total = {}, 0
    for i in range(n):
        thing = Thing()
        seen[i] = weakref.ref(thing)
        total += sum(held() is not None for held in seen.values())
    return total


def steps_of(function: Any, n: int) -> int:
    fast = pijit.jit(function)
    before = _core.work_so_far()
    assert fast(n) == function(n)
    done = _core.work_so_far() - before
    assert fast(n) == function(n)
    pijit.reset(fast)
    return done


@pytest.mark.parametrize("function", [weakly_held, weakly_held_by_key])
def test_objects_seen_again_and_again(function: Any) -> None:
    before = pijit.config.update({"record_budget": 0, "loops": "unroll"})
    try:
        steps_of(function, 12)
        assert steps_of(function, 20) <= 16 * steps_of(function, 10)  # of four times the calls
    finally:
        pijit.config.update(before)


def long_walk(n: int) -> Any:
    table = dict.fromkeys(range(n), 1)
    other = dict(table)
    other[n - 1] = 2
    return table == other, len(table)


def test_one_instruction_that_takes_too_long() -> None:
    fast = pijit.jit(long_walk)
    before = _core.limit_work(500)
    try:
        assert fast(3000) == long_walk(3000)
        assert _core.root_traces(_core.root_of(fast)) == []
        assert "limit" in pijit.status(fast).reason
    finally:
        _core.limit_work(before)
    for _ in range(3):
        assert fast(3000) == long_walk(3000)
    assert len(_core.root_traces(_core.root_of(fast))) == 1
    pijit.reset(fast)
