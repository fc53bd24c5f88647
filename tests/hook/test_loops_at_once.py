"""A long loop goes on in traces of its own in the very call that is recorded (csrc/cpython/hand_back.h).

Each function is called plainly and jitted; then with something else, and again. What it returns or raises is compared,
with the lines that an exception passes, and what else can be seen of the call.
"""

from __future__ import annotations

import array
import contextlib
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from in_the_middle import NUMBERS, long_loops, seen  # noqa: F401

import pijit
from pijit import _core

LONG = 2500


def replays() -> int:
    return sum(entry["replays"] for entry in _core.entries())


def check(fn: Callable[..., Any], *calls: tuple[Any, ...], native: bool = True) -> None:
    """The first call is native in the end already, if anything is to be."""
    fast = pijit.jit(fn)
    for number, args in enumerate((*calls, *calls)):
        assert seen(fast, *args) == seen(fn, *args), args
        if number == 0:
            assert (replays() > 3) == native


def blocks(n: int, said: list[str]) -> float:
    result = 0.0
    with contextlib.suppress(KeyError):
        try:
            for at in range(n):
                result += NUMBERS[at % 8] * 0.5
                if at == n - 3:
                    raise KeyError(at)
        finally:
            said.append("done")
    return result


def test_blocks_around_it() -> None:
    fast = pijit.jit(blocks)
    for n in (LONG, LONG - 700, LONG):
        ours: list[str] = []
        plain: list[str] = []
        assert fast(n, ours) == blocks(n, plain)
        assert ours == plain == ["done"]
    assert replays() > 3


def leaves(n: int, last: int, how: str) -> tuple[float, int]:
    result, at = 0.0, -1
    for at in range(n):
        if at % 3 == 1:
            continue
        result += NUMBERS[at % 8]
        if at == last:
            if how == "break":
                break
            if how == "return":
                return result, at
            if how == "raise":
                raise ValueError(at, result)
    else:
        result += 1000
    return result, at


@pytest.mark.parametrize("how", ["break", "return", "raise", "else"])
def test_ways_out(how: str) -> None:
    check(leaves, (LONG, LONG - 50, how), (LONG, 1500, how), (LONG, LONG + 1, how), (40, 12, how))


def nested(rows: int, columns: int) -> float:
    result = 0.0
    for row in range(rows):
        for column in range(columns):
            result += NUMBERS[(row + column) % 8] * 0.25
        if row % 2:
            result -= NUMBERS[row % 8]
    return result


def test_nested_loops() -> None:
    check(nested, (6, LONG), (60, 50), (LONG, 2), (3, 3))


def endless(values: Any) -> float:
    at, result = 0, 0.0
    while True:
        result += values[at % 8]
        at += 1
        if result > 500:
            raise StopAsyncIteration(result, at)


def test_a_function_that_never_returns() -> None:
    check(endless, (NUMBERS,), (array.array("d", [0.25] * 8),), native=False)


def closure(n: int) -> tuple[float, Callable[[], float]]:
    result = 0.0

    def total() -> float:
        return result

    for at in range(n):
        result += NUMBERS[at % 8]
    return result, total


def test_variables_of_a_closure() -> None:
    fast = pijit.jit(closure)
    for n in (LONG, 700, LONG):
        ours, plain = fast(n), closure(n)
        assert ours[0] == plain[0] == ours[1]() == plain[1]()


def unbound(n: int) -> Any:
    first = last = 0.0
    for at in range(n):
        last = NUMBERS[at % 8]
        if at == n - 2:
            del first
    return first, last


def test_a_variable_that_is_deleted() -> None:
    check(unbound, (LONG,), (600,), (LONG,))


def held(n: int, frames: list[Any]) -> float:
    frames.append(sys._getframe())
    result = 0.0
    for at in range(n):
        result += NUMBERS[at % 8]
    return result


def test_a_frame_that_is_held() -> None:
    fast = pijit.jit(held)
    for n in (LONG, 600, LONG):
        ours: list[Any] = []
        plain: list[Any] = []
        assert fast(n, ours) == held(n, plain)
        names = ("n", "result", "at")
        assert [ours[0].f_locals[name] for name in names] == [plain[0].f_locals[name] for name in names]
        assert ours[0].f_lineno == plain[0].f_lineno


class Thing:
    """Weakly referenced."""


def dying(n: int, said: list[int]) -> int:
    thing = Thing()
    weak = weakref.ref(thing, lambda _: said.append(-1))
    for at in range(n):
        said.append(int(NUMBERS[at % 8]))
        if at == n - 5:
            thing = None  # type: ignore[assignment]
    said.append(0 if weak() is None else 1)
    return len(said)


def test_objects_die_when_they_would() -> None:
    fast = pijit.jit(dying)
    for n in (LONG, 600, LONG):
        ours: list[int] = []
        plain: list[int] = []
        assert fast(n, ours) == dying(n, plain)
        assert ours == plain


def traced(n: int, at_turn: int, switch: Callable[[], None]) -> float:
    result = 0.0
    for at in range(n):
        result += NUMBERS[at % 8]
        if at == at_turn:
            switch()
    return result


def calls_traced() -> float:
    return NUMBERS[0]


def test_a_tracer_that_comes_on() -> None:
    """It hears of the calls that follow; those of a frame that ran already it does not hear of."""
    names: list[str] = []

    def tracer(frame: Any, event: str, argument: Any) -> Any:  # noqa: ARG001
        names.append(f"{frame.f_code.co_name} {event}")
        return None

    def switch() -> None:
        sys.settrace(tracer)

    fast = pijit.jit(traced)
    outcomes = []
    for run in (fast, traced, fast, traced):
        names.clear()
        try:
            got = run(LONG, LONG // 2, switch)
            calls_traced()
        finally:
            sys.settrace(None)
        outcomes.append((got, list(names)))
    assert outcomes[0] == outcomes[1] == outcomes[2] == outcomes[3]
    assert outcomes[0][1] == ["calls_traced call"]


def inner(n: int, depth: int) -> float:
    result = 0.0
    for at in range(n):
        result += NUMBERS[at % 8]
        if depth and at % 600 == 599:
            result += again(n - 400, depth - 1)
    return result


again: Callable[[int, int], float] = inner


def test_it_calls_itself() -> None:
    global again
    fast = pijit.jit(inner)
    try:
        for n, depth in ((LONG, 2), (1800, 1), (LONG, 2)):
            again = fast
            ours = fast(n, depth)
            again = inner
            assert ours == inner(n, depth)
    finally:
        again = inner


def test_two_threads() -> None:
    fast = pijit.jit(nested)
    expected = {shape: nested(*shape) for shape in ((5, LONG), (400, 30), (7, 1900))}
    wrong: list[Any] = []

    def work(shapes: list[tuple[int, int]]) -> None:
        for shape in shapes:
            got = seen(fast, *shape)
            if got != expected[shape]:
                wrong.append((shape, got))

    shapes = list(expected)
    threads = [threading.Thread(target=work, args=(shapes[at:] + shapes[:at],)) for at in (0, 1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def changing(n: int, change: Callable[[int], None]) -> float:
    result = 0.0
    for at in range(n):
        result += NUMBERS[at % 8]
        change(at)
    return result


def other(n: int, change: Callable[[int], None]) -> float:  # noqa: ARG001
    return -1.0


@pytest.mark.parametrize("at_turn", [0, 200, LONG - 10])
def test_a_function_that_is_given_another_code(at_turn: int) -> None:
    """The call that is under way goes on in the old one."""
    code = changing.__code__
    fast = pijit.jit(changing)
    outcomes = []
    for run in (fast, changing, fast):

        def change(at: int, run: Any = run) -> None:
            if at == at_turn:
                run.__code__ = other.__code__

        outcomes.append((run(LONG, change), run(LONG, change)))
        run.__code__ = code
    assert outcomes[0] == outcomes[1] == outcomes[2]
    assert outcomes[0][1] == -1.0


def helper(n: int, stop: int) -> float:
    result = 0.0
    for at in range(n):
        result += NUMBERS[at % 8]
        if at == stop:
            raise ValueError(at)
    return result


def calls_helper(n: int, stop: int) -> list[Any]:
    """Its caller is recorded to its end, while the loop goes on in traces of its own."""
    parts: list[Any] = [helper(n, -1)]
    try:
        parts.append(helper(n, stop))
    except ValueError as error:
        parts += error.args
    parts.append(helper(n // 2, -1) if parts[0] > 0 else helper(n // 3, n))
    return parts


def passes_through(n: int, stop: int) -> float:
    return helper(n, stop) + 1


class Holder:
    """A loop in a method, reached by two calls and a property."""

    def __init__(self, n: int) -> None:
        self.n = n

    @property
    def total(self) -> float:
        return helper(self.n, -1) * 2

    def twice(self) -> float:
        return self.total + self.total


def of_holder(holder: Holder) -> float:
    return holder.twice() - 1


def test_loops_of_what_it_calls() -> None:
    check(calls_helper, (LONG, 2200), (LONG, 100), (900, 800))
    check(passes_through, (LONG, 2000), (LONG, -1), (LONG, 1000))
    check(of_holder, (Holder(LONG),), (Holder(1900),))


def level(n: int, depth: int) -> float:
    result = 0.0
    for at in range(n):
        result += NUMBERS[at % 8]
    return result if depth == 0 else result + level(n - 100, depth - 1)


def levels(n: int, depth: int) -> float:
    return level(n, depth) * 2


def test_loops_of_calls_within_calls() -> None:
    check(levels, (LONG, 4), (LONG - 1, 3), (LONG, 2))


def over(items: Any) -> float:
    result = 0.0
    for item in items:
        result += item * 2
    return result


def test_an_iterator_that_goes_on() -> None:
    """What is left of an iterator is the same, whoever has taken the first items."""
    fast = pijit.jit(over)
    for n in (LONG, 300, LONG):
        ours, plain = (iter(NUMBERS * n) for _ in range(2))
        assert fast(ours) == over(plain)
        assert list(ours) == list(plain) == []


def test_a_loop_without_operators_is_left_to_cpython() -> None:
    """Its traces cost more than they save: they are left alone within the first call, and nothing else changes."""
    pijit.config.update({"give_up": True})
    fast = pijit.jit(nested)
    for shape in ((40, 900), (3, LONG), (40, 900)):
        assert fast(*shape) == nested(*shape)
    loops = [dict(entry) for entry in _core.entries()]
    assert loops
    assert all(0 < entry["replays"] <= 80 for entry in loops)
