"""Tracers, profilers and debuggers that the program switches on in the middle of a recording or a replay."""

from __future__ import annotations

import bdb
import cProfile
import pstats
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pijit


def plain(function: Any) -> Any:
    return function


def helper(x: int) -> int:
    y = x + 1
    return y


def numbers(x: int) -> Iterator[int]:
    yield x
    yield helper(x)


def fails(x: int) -> int:
    try:
        return x // 0
    except ZeroDivisionError:
        return helper(x)


def work(x: int) -> int:
    return sum(numbers(x)) + fails(x)


SEEN: list[Any] = []
CODES = {function.__code__ for function in (helper, numbers, fails, work)}


def note(frame: Any, what: str, argument: Any) -> Any:
    if frame.f_code in CODES:
        SEEN.append((what, frame.f_code.co_name, frame.f_lineno))
    return note


def traced(x: int) -> int:
    sys.settrace(note)
    y = work(x)
    sys.settrace(None)
    return y


def profiled(x: int) -> int:
    sys.setprofile(note)
    y = work(x)
    sys.setprofile(None)
    return y


def counted(x: int) -> int:
    profile = cProfile.Profile()
    y: int = profile.runcall(work, x)
    rows = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    SEEN.append(sorted((where[2], row[0]) for where, row in rows.items()))
    return y


class Debugger(bdb.Bdb):
    def user_line(self, frame: Any) -> None:
        SEEN.append(("line", frame.f_code.co_name, frame.f_lineno))
        self.set_step()

    def user_return(self, frame: Any, value: Any) -> None:
        SEEN.append(("return", frame.f_code.co_name, value if frame.f_code in CODES else None))


def debugged(x: int) -> int:
    y: int = Debugger().runcall(work, x)
    return y


def traced_from_its_middle(x: int) -> int:
    """Left to CPython from its second line on: foreign code looks at its variables."""
    y = helper(x)
    z = y + len(locals())
    sys.settrace(note)
    y = work(z)
    sys.settrace(None)
    return y


def left_on(x: int) -> int:
    sys.settrace(note)
    return work(x)


def profiler_left_on(x: int) -> int:
    sys.setprofile(note)
    return work(x)


WAYS = (traced, profiled, counted, debugged, traced_from_its_middle, left_on, profiler_left_on)


def events(way: Callable[[int], int], jit: Callable[[Any], Any], when: int, opaque: bool) -> list[Any]:
    def use(x: int) -> int:
        return way(x)

    def f(x: int, on: bool) -> int:
        a = helper(x)
        if on:
            a += use(a)
        b = work(a) + helper(a)
        sys.settrace(None)
        sys.setprofile(None)
        return b

    if opaque and jit is pijit.jit:
        pijit.opaque(use)
    f = jit(f)
    results = []
    for on in [False] * when + [True] * 4 + [False] * 2 + [True]:
        SEEN.clear()
        results.append((f(1, on), *SEEN))
        assert sys.gettrace() is None
        assert sys.getprofile() is None
    return results


@pytest.mark.parametrize("opaque", [False, True])
@pytest.mark.parametrize("when", [0, 2])
@pytest.mark.parametrize("way", WAYS)
def test_switched_on_below(way: Callable[[int], int], when: int, opaque: bool) -> None:
    """In a frame that the recorder follows, leaves to CPython in its middle, or does not look into."""
    expected = events(way, plain, when, opaque)
    assert any(len(row) > 1 for row in expected)
    assert events(way, pijit.jit, when, opaque) == expected


@pytest.mark.parametrize("way", WAYS)
def test_recorded_again_afterwards(way: Callable[[int], int]) -> None:
    """What was traced is recorded and replayed once nobody traces any more."""

    def f(x: int, on: bool) -> int:
        a = helper(x)
        if on:
            a += way(a)
        sys.settrace(None)
        sys.setprofile(None)
        return helper(a)

    g = pijit.jit(lambda x: work(x))
    for on in (True, False, True):
        jitted = pijit.jit(f)
        assert jitted(1, on) == f(1, on)
        assert [g(1) for _ in range(3)] == [work(1)] * 3
    SEEN.clear()
    assert pijit.status(g).state == "replaying"
