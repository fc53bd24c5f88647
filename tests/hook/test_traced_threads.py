"""Another thread is traced or profiled before or while this one is recorded: recordings lose no event, or are dropped.

CPython 3.12 and later ask for events of all code then, and may forget who had those of an instruction
(csrc/cpython/events_312.cpp). It does so once for a code object, so each test has code of its own.
"""

from __future__ import annotations

import queue
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from in_the_middle import NUMBERS, long_loops, seen  # noqa: F401

import pijit
from pijit import _core

LONG = 2500


class Beside:
    """A thread that does what it is told."""

    def __init__(self) -> None:
        self.tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.done: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        for task in iter(self.tasks.get, None):
            task()
            self.done.put(None)

    def do(self, task: Callable[[], None]) -> None:
        self.tasks.put(task)
        self.done.get()

    def end(self) -> None:
        self.do(nothing_on)
        self.tasks.put(None)
        self.thread.join()


def ignore(frame: Any, event: str, argument: Any) -> None:
    pass


def nothing_on() -> None:
    sys.settrace(None)
    sys.setprofile(None)


def traced() -> None:
    sys.settrace(ignore)


def traced_and_profiled() -> None:
    sys.settrace(ignore)
    sys.setprofile(ignore)


@pytest.fixture
def beside() -> Iterator[Beside]:
    thread = Beside()
    yield thread
    thread.end()


def fresh(*functions: Any) -> Any:
    """The last one, whose code and that of the others, which it calls by name, has had no events yet."""
    names = dict(globals())
    for function in functions:
        names[function.__name__] = types.FunctionType(function.__code__.replace(), names, function.__name__)
    return names[functions[-1].__name__]


def replays() -> int:
    of_roots = sum(root["replays"] for root in _core.roots() if not root["automatic"])
    return of_roots + sum(entry["replays"] for entry in _core.entries())


def total(n: int) -> float:
    result = 0.0
    for at in range(n):
        result += NUMBERS[at % 8]
    return result


def calls_total(n: int) -> float:
    return total(n) * 2 + total(n // 2)


def climbs(n: int, depth: int) -> float:
    if depth:
        below = climbs(n, depth - 1)
        return below * 0.5 + NUMBERS[depth]
    result = 0.0
    for at in range(n):
        result += NUMBERS[at % 8]
    return result


def calls_climbs(n: int, depth: int) -> float:
    return climbs(n, depth) + 1


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize(
    ("functions", "calls"),
    [((total,), [(LONG,), (900,)]), ((total, calls_total), [(LONG,), (1800,)])]
    + [((climbs, calls_climbs), [(LONG, 0), (LONG - 100, 0)]), ((climbs, calls_climbs), [(LONG, 2), (LONG - 100, 1)])],
)
def test_loops(functions: tuple[Any, ...], calls: list[tuple[Any, ...]], ended: bool) -> None:
    """A loop goes on in traces of its own in the first call, and the frames around it are recorded to their end."""
    beside = Beside()
    beside.do(traced)
    if ended:
        beside.tasks.put(None)  # its tracer is never taken off
        beside.thread.join()
    plain = functions[-1]
    fast = pijit.jit(fresh(*functions))
    try:
        for number, args in enumerate((*calls, *calls)):
            assert fast(*args) == plain(*args)
            if number == 0:
                assert replays() > 3
        assert [entry["reason"] for entry in _core.entries() if "not seen" in entry["reason"]] == []
    finally:
        if ended:
            nothing_on()
        else:
            beside.end()


def picks(x: int, switch: Callable[[], None]) -> float:
    y = NUMBERS[x]
    switch()
    if y > 1:
        y += NUMBERS[x + 1]
    return y * 2


def calls_picks(x: int, switch: Callable[[], None]) -> float:
    return picks(x, switch) + NUMBERS[x]


def calls_picks_twice(x: int, switch: Callable[[], None]) -> float:
    first = picks(x, switch)
    return picks(x + 1, switch) - first


ITEMS = {0.5: "half", 2.0: "two"}


def looks_up(x: int, switch: Callable[[], None]) -> str:
    y = NUMBERS[x]
    switch()
    return ITEMS[y]


def catches(x: int, switch: Callable[[], None]) -> Any:
    try:
        return looks_up(x, switch)
    except KeyError as error:
        return error.args


def yields(x: int, switch: Callable[[], None]) -> Iterator[float]:
    yield NUMBERS[x]
    switch()
    yield NUMBERS[x] * 2
    yield NUMBERS[x + 1]


def sums_up(x: int, switch: Callable[[], None]) -> float:
    result = 0.0
    for item in yields(x, switch):
        result += item
    return result


def looped(x: int, switch: Callable[[], None]) -> float:
    result = 0.0
    for at in range(LONG):
        result += NUMBERS[(at + x) % 8]
        if at == 1:
            switch()
    return result


def calls_looped(x: int, switch: Callable[[], None]) -> float:
    return looped(x, switch) * 2


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("before", [nothing_on, traced])
@pytest.mark.parametrize("task", [traced, traced_and_profiled])
@pytest.mark.parametrize(
    "functions",
    [(picks, calls_picks), (picks, calls_picks_twice), (looks_up, catches), (looks_up,), (yields, sums_up)]
    + [(looped,), (looped, calls_looped)],
)
def test_switched_on_in_a_recording(
    functions: tuple[Any, ...],
    task: Callable[[], None],
    before: Callable[[], None],
    kept: bool,
    beside: Beside,
) -> None:
    """`kept`: the outermost function had events while two tools had theirs, and keeps them, unlike those it calls."""
    tasks: list[Callable[[], None]] = []

    def switch() -> None:
        if tasks:
            beside.do(tasks.pop())

    *inner, plain = functions
    function = fresh(*functions)
    fast = pijit.jit(function)
    if kept:
        beside.do(traced_and_profiled)
        assert seen(fast, 0, switch) == seen(plain, 0, switch)
        beside.do(nothing_on)
        function.__globals__.update({called.__name__: fresh(called) for called in inner})
    beside.do(before)
    for at, then in ((2, task), (2, None), (1, None), (0, nothing_on), (2, None), (0, None)):
        tasks[:] = [then] if then is not None else []
        ours = seen(fast, at, switch)
        tasks.clear()
        assert ours == seen(plain, at, switch)
    assert replays() > 0


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is of CPython 3.12")
@pytest.mark.parametrize(
    "functions", [(picks, calls_picks), (looks_up, catches), (yields, sums_up), (looped, calls_looped)]
)
def test_tools_with_events_of_one_function(functions: tuple[Any, ...]) -> None:
    """They come while it is recorded; nothing is asked for of all code."""
    monitoring = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    function = fresh(*functions)
    code = function.__globals__[functions[0].__name__].__code__
    tools = (monitoring.COVERAGE_ID, monitoring.PROFILER_ID)
    wanted: list[int] = []

    def switch() -> None:
        for tool in wanted:
            monitoring.set_local_events(tool, code, monitoring.events.LINE)

    for tool in tools:
        monitoring.use_tool_id(tool, "another")
    fast = pijit.jit(function)
    try:
        for number, at in enumerate((2, 2, 1, 0, 2, 0)):
            wanted[:] = tools if number == 0 else ()
            assert seen(fast, at, switch) == seen(functions[-1], at, switch)
        assert replays() > 0
    finally:
        for tool in tools:
            monitoring.set_local_events(tool, code, 0)
            monitoring.free_tool_id(tool)
