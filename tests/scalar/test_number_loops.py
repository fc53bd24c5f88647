"""Loops over numbers of Python, whose arguments change from call to call, against plain Python."""

from __future__ import annotations

import gc
import math
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pijit

sys.path.insert(0, str(Path(__file__).parent))
import number_functions
from number_functions import FUNCTIONS


@pytest.fixture(autouse=True)
def number_loops() -> Iterator[None]:
    before = pijit.config.update({"number_loops": True})
    yield
    pijit.config.update(before)


def outcome(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """What a call gives, or raises and where, and what its arguments are afterwards."""
    try:
        result = function(*args)
    except Exception as error:
        lines = [(entry.name, entry.lineno) for entry in traceback.extract_tb(error.__traceback__)]
        return type(error), str(error), lines[-1], repr(args)
    return repr(result), type(result), repr(args)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_changes(name: str) -> None:
    plain, changes = FUNCTIONS[name]
    jitted = pijit.jit(plain)
    for _ in range(2):
        for number, make in enumerate(changes):
            for _ in range(2):
                assert outcome(jitted, make()) == outcome(plain, make()), number


@pytest.mark.parametrize(
    "name",
    ["escape_time", "escape_with_break", "escape_complex", "escape_by_points", "horner", "n_body", "n_body_nested"],
)
def test_no_call_is_recorded(name: str) -> None:
    """From the first call on all run as a program, whatever their numbers are."""
    plain, changes = FUNCTIONS[name]
    pijit.reset()
    jitted = pijit.jit(plain)
    before = pijit.stats()
    for make in changes[:2]:
        jitted(*make())
    after = pijit.stats()
    assert after["replays"] - before["replays"] == 2
    assert after["records"] == before["records"]
    assert after["exits"] == before["exits"]
    assert pijit.status(jitted).state == "replaying"
    assert "run in registers" in pijit.status(jitted).reason


def test_short_loops_are_recorded() -> None:
    """The same numbers again: the trace has the result."""
    jitted = pijit.jit(number_functions.point)
    for _ in range(3):
        assert jitted(0.1, 0.2, 20) == 20
    assert len(pijit.traces(jitted)) == 1
    assert jitted(0.1, 0.25, 21) == number_functions.point(0.1, 0.25, 21)
    assert len(pijit.traces(jitted)) == 1


def test_argument_is_handed_back() -> None:
    """The same object, not only an equal one."""

    def plain(x: float, n: int) -> float:
        for i in range(n):
            n = i
        return x

    jitted = pijit.jit(plain)
    for x in (0.1 + 0.2, 1 << 62, 1.5e300, (1, 2)):
        for n in (300, 301):
            assert jitted(x, n) is x


def test_closure() -> None:
    scale = 0.5
    inner: Any = math.sqrt

    def plain(n: int) -> float:
        total = 0.0
        for i in range(n):
            total += i * scale + inner(i)
        return total

    jitted = pijit.jit(plain)
    for now in (0.5, 2, 1 << 70, "no number", 0.25):
        scale = now
        for n in (300, 301):
            assert outcome(jitted, (n,)) == outcome(plain, (n,))
    inner = str
    assert outcome(jitted, (300,)) == outcome(plain, (300,))


def test_global_that_changes() -> None:
    jitted = pijit.jit(number_functions.escape_time)
    for scale in (3.5, 3.25, 4, "no number"):
        number_functions.SCALE = scale
        for _ in range(2):
            assert outcome(jitted, (12, 13, 40)) == outcome(number_functions.escape_time, (12, 13, 40))
    number_functions.SCALE = 3.5


def test_builtin_that_is_shadowed() -> None:
    jitted = pijit.jit(number_functions.collatz)
    assert jitted(837799) == number_functions.collatz(837799)
    number_functions.max = lambda a, b: -1
    try:
        assert jitted(837799) == number_functions.collatz(837799) == (524, -1)
    finally:
        del number_functions.max
    assert jitted(837799) == number_functions.collatz(837799)


def test_signal_ends_a_loop() -> None:
    """A handler that raises does so in the loop, as in plain Python."""

    def spins(n: int) -> int:
        total = 0
        while total < n:
            total += 1
        return total

    class Enough(Exception):
        pass

    def handler(number: int, frame: Any) -> None:
        raise Enough(frame.f_code.co_name)

    def turns_at_once(n: int) -> int:
        for _ in range(300):
            n += 1
        while True:
            pass

    jitted, for_ever = pijit.jit(spins), pijit.jit(turns_at_once)
    jitted(5000)
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(Enough, match="spins"):
            jitted(10**13)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Enough, match="turns_at_once"):
            for_ever(1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert jitted(6000) == 6000


def test_other_threads_run_meanwhile() -> None:
    """A thread that waits for the GIL has it while a loop runs."""

    def spins(n: int, step: float) -> float:
        total = 0.0
        for _ in range(n):
            total += step
        return total

    jitted = pijit.jit(spins)
    jitted(5000, 0.5)
    seen: list[int] = []
    done = threading.Event()

    def other() -> None:
        while not done.is_set():
            seen.append(1)
            done.wait(0.001)

    thread = threading.Thread(target=other)
    thread.start()
    result = jitted(30_000_000, 0.25)
    done.set()
    thread.join()
    assert result == 30_000_000 * 0.25
    assert len(seen) > 3


def test_nothing_is_leaked() -> None:
    jitted = pijit.jit(number_functions.horner)
    values = [0.5] * 3000
    jitted(values, 0.9)
    gc.collect()
    before = sys.getrefcount(values), sys.getrefcount(None)
    for _ in range(50):
        jitted(values, 0.8)
        outcome(jitted, (values, "x"))
    gc.collect()
    after = sys.getrefcount(values), sys.getrefcount(None)
    assert after[0] == before[0]
    assert abs(after[1] - before[1]) < 40


def test_option_off() -> None:
    pijit.config.number_loops = False
    pijit.reset()
    jitted = pijit.jit(number_functions.escape_with_break)
    before = pijit.stats()["records"]
    assert jitted(0.1, 0.2, 50) == number_functions.escape_with_break(0.1, 0.2, 50)
    assert pijit.stats()["records"] == before + 1
