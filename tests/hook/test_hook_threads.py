"""Threads, tracers and profilers beside jitted code: each sees what it sees without."""

from __future__ import annotations

import cProfile
import pstats
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from jitted_apart import plain, report

import pijit

# -------------------------------------------------------------------------------------------------------------- threads


def test_threads_record_the_same_function() -> None:
    """Many threads, one function, arguments of several kinds, switching often."""
    config = {"k": 3}

    def g(x: Any) -> Any:
        return [x, config["k"]]

    def f(x: Any) -> Any:
        out = [g(x) for _ in range(3)]
        return out, {"x": x}

    jitted = pijit.jit(f)
    wrong: list[Any] = []
    interval = sys.getswitchinterval()
    barrier = threading.Barrier(6)

    def work(number: int) -> None:
        barrier.wait()
        for turn in range(300):
            x = (number, float(number), str(number))[turn % 3]
            if jitted(x) != ([[x, 3]] * 3, {"x": x}):
                wrong.append((number, turn))
            if turn % 50 == 49:
                pijit.reset(jitted)

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []
    assert jitted(1) == ([[1, 3]] * 3, {"x": 1})


def test_other_threads_run_while_one_records() -> None:
    """What a thread does while another one records is no part of the recording."""
    inside, leave = threading.Event(), threading.Event()
    seen: list[int] = []

    def wait(x: int) -> int:
        inside.set()
        leave.wait(5)
        return x

    def f(x: int) -> Any:
        return [x, wait(x), x + 1]

    jitted = pijit.jit(f)
    other = pijit.jit(lambda x: x * 2)
    thread = threading.Thread(target=lambda: seen.append(jitted(1)))
    thread.start()
    assert inside.wait(5)
    assert [other(n) for n in (1, 1, 1, 2)] == [2, 2, 2, 4]
    assert report(other)["replays"] >= 2
    leave.set()
    thread.join()
    assert seen == [[1, 1, 2]]
    assert jitted(5) == [5, 5, 6]


def test_a_thread_that_always_wants_the_gil() -> None:
    """Each call is replayed all the same, and the thread gets on."""
    turns: list[int] = []
    ends = threading.Event()

    def spin() -> None:
        while not ends.is_set():
            turns.append(0)

    jitted = pijit.jit(lambda x: [x] * 3)
    assert jitted(1) == [1] * 3
    thread = threading.Thread(target=spin)
    thread.start()
    calls, until = 0, time.monotonic() + 0.2
    try:
        while time.monotonic() < until:
            calls += 1
            assert jitted(1) == [1] * 3
            seen = len(turns)
    finally:
        ends.set()
        thread.join()
    assert report(jitted)["replays"] == calls
    assert seen > 1000


def test_another_thread_changes_what_was_read() -> None:
    """A global changed by another thread in the middle of the call."""

    def values(jit: Callable[[Any], Any]) -> list[Any]:
        config = {"k": 0}

        def f() -> Any:
            before = config["k"]
            thread = threading.Thread(target=lambda: config.update(k=config["k"] + 1))
            thread.start()
            thread.join()
            return before, config["k"]

        f = jit(f)
        return [f() for _ in range(5)]

    assert values(pijit.jit) == values(plain)


# ------------------------------------------------------------------------------------------------ tracers and profilers


def events_of(jit: Callable[[Any], Any], install: str, warm: int) -> list[Any]:
    """Events that a tracer sees of the second half of some calls."""
    events: list[Any] = []

    def helper(x: int) -> int:
        y = x + 1
        return y

    def f(x: int) -> Any:
        out = []
        for i in range(2):
            out.append(helper(i + x))
        try:
            raise ValueError
        except ValueError:
            pass
        return out

    mine = {helper.__code__, f.__code__}
    f = jit(f)

    def tracer(frame: Any, what: str, argument: Any) -> Any:
        if frame.f_code in mine:
            events.append(
                (
                    what,
                    frame.f_code.co_name,
                    frame.f_lineno - f.__code__.co_firstlineno,
                    repr(argument)[:40] if what == "return" else "",
                )
            )
        return tracer

    for _ in range(warm):
        f(1)
    getattr(sys, install)(tracer)
    try:
        for _ in range(3):
            f(1)
    finally:
        getattr(sys, install)(None)
    f(1)
    return events


@pytest.mark.parametrize("warm", [0, 1, 3])
@pytest.mark.parametrize("install", ["settrace", "setprofile"])
def test_tracer_sees_the_same_events(install: str, warm: int) -> None:
    assert events_of(pijit.jit, install, warm) == events_of(plain, install, warm) != []


@pytest.mark.parametrize("install", ["settrace", "setprofile"])
def test_tracer_installed_in_the_middle(install: str) -> None:
    """The program installs a tracer while it is recorded, and while it is replayed."""

    def events(jit: Callable[[Any], Any]) -> list[Any]:
        seen: list[Any] = []

        def tracer(frame: Any, what: str, argument: Any) -> Any:
            if frame.f_code in mine:
                seen.append((what, frame.f_code.co_name, frame.f_lineno))
            return tracer

        def helper(x: int) -> int:
            return x + 1

        def f(x: int, on: bool) -> Any:
            a = helper(x)
            if on:
                getattr(sys, install)(tracer)
            b = helper(a)
            c = [b, helper(b)]
            getattr(sys, install)(None)
            return c

        mine = {helper.__code__, f.__code__}
        f = jit(f)
        for on in (False, True, True, False, False, True, True):
            seen.append(f(1, on))
        return seen

    assert events(pijit.jit) == events(plain)


def test_local_trace_function_is_kept() -> None:
    """f_trace and its flags of a frame are the program's own."""

    def events(jit: Callable[[Any], Any]) -> list[Any]:
        seen: list[Any] = []

        def tracer(frame: Any, what: str, argument: Any) -> Any:
            seen.append((what, frame.f_lineno))
            return tracer

        def f() -> int:
            frame = sys._getframe()
            seen.append((frame.f_trace, frame.f_trace_lines, frame.f_trace_opcodes))
            frame.f_trace = tracer
            sys.settrace(tracer)
            a = 1
            b = a + 1
            sys.settrace(None)
            return b

        f = jit(f)
        return [f() for _ in range(4)] + seen

    assert events(pijit.jit) == events(plain)


@pytest.mark.parametrize("way", ["settrace", "setprofile", "f_trace"])
@pytest.mark.parametrize("when", [0, 2])
def test_tracer_that_a_callee_switches_on(way: str, when: int) -> None:
    """From a call on, while it is recorded or replayed, for what is called after the callee."""

    def events(jit: Callable[[Any], Any]) -> list[Any]:
        seen: list[Any] = []

        def tracer(frame: Any, what: str, argument: Any) -> Any:
            if frame.f_code in mine:
                seen.append((what, frame.f_code.co_name, frame.f_lineno))
            return tracer

        def switch(on: bool) -> None:
            if not on:
                return
            if way == "f_trace":
                sys.settrace(lambda *event: None)
                sys._getframe(1).f_trace = tracer
            else:
                getattr(sys, way)(tracer)

        def helper(x: int) -> int:
            return x + 1

        def f(x: int, on: bool) -> int:
            switch(on)
            a = helper(x)
            b = helper(a)
            off(None)
            return b

        off = sys.setprofile if way == "setprofile" else sys.settrace
        mine = {helper.__code__, f.__code__}
        f = jit(f)
        return [(f(1, on), *seen) for on in [False] * when + [True] * 4 + [False] * 2]

    assert events(pijit.jit) == events(plain)


def test_profiler_counts_the_same_calls() -> None:
    def counts(jit: Callable[[Any], Any]) -> list[Any]:
        def helper(x: int) -> int:
            return abs(x)

        def work(x: int) -> int:
            return helper(x) + helper(-x)

        jitted = jit(work)
        for _ in range(3):
            jitted(1)
        profile = cProfile.Profile()
        profile.enable()
        for _ in range(5):
            jitted(1)
        profile.disable()
        rows = pstats.Stats(profile).stats  # type: ignore[attr-defined]
        return sorted(
            (where[2], row[0])
            for where, row in rows.items()
            if where[2] in {"helper", "work", "<built-in method builtins.abs>"}
        )

    assert counts(pijit.jit) == counts(plain) != []


def test_tracer_leaves_nothing_behind() -> None:
    """After a tracer was on, calls are recorded and replayed again."""
    jitted = pijit.jit(lambda x: x + 1)
    sys.settrace(lambda *arguments: None)
    try:
        jitted(1)
    finally:
        sys.settrace(None)
    for _ in range(3):
        jitted(1)
    assert report(jitted)["replays"] >= 1
    assert sys.gettrace() is None
    assert sys.getprofile() is None


def test_gettrace_inside_is_as_without() -> None:
    jitted = pijit.jit(lambda: (sys.gettrace(), sys.getprofile()))
    assert [jitted() for _ in range(4)] == [(sys.gettrace(), sys.getprofile())] * 4


def test_thread_tracer() -> None:
    """threading.settrace traces the threads started later, also those that run jitted code."""

    def lines(jit: Callable[[Any], Any]) -> int:
        count = [0]

        def f(x: int) -> int:
            y = x
            return y

        jitted = jit(f)
        jitted(1), jitted(1)

        def tracer(frame: Any, what: str, argument: Any) -> Any:
            count[0] += what == "line" and frame.f_code is f.__code__
            return tracer

        threading.settrace(tracer)
        try:
            thread = threading.Thread(target=lambda: [jitted(1) for _ in range(3)])
            thread.start()
            thread.join()
        finally:
            threading.settrace(None)  # type: ignore[arg-type]
        return count[0]

    assert lines(pijit.jit) == lines(plain) == 6
