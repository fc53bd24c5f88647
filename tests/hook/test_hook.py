"""The hook: on and off, depth of the stack, threads, tracers and profilers, signals, forks, re-entrancy, frames."""

from __future__ import annotations

import asyncio
import cProfile
import ctypes
import os
import pstats
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pijit
from pijit import _core, api


def report(function: object) -> dict[str, Any]:
    return dict(_core.root_report(api.root_of(function)))


def plain(function: Any) -> Any:
    return function


def run_apart(program: str, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own, which neither crashes nor hangs."""
    environment = {**os.environ, "PYTHONPATH": str(Path(pijit.__file__).parents[1])}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode >= 0, (done.returncode, done.stdout[-1000:], done.stderr[-1000:])
    assert done.returncode not in {134, 139}, done.stderr[-1000:]
    return done


# ----------------------------------------------------------------------------------------------------------- on and off


def test_installed_by_jit_and_idempotent() -> None:
    done = run_apart(
        """
import pijit
from pijit import _core
assert not _core.hook_installed()
f = pijit.jit(lambda x: x + 1)
assert _core.hook_installed()
_core.hook_install(); _core.hook_install()
assert _core.hook_installed()
assert [f(1), f(1), f(1)] == [2, 2, 2]
pijit.enable(); pijit.enable()
assert f(1) == 2
assert pijit.stats()["replays"] == 3, pijit.stats()
pijit.disable(); pijit.disable()
assert not _core.hook_installed()
assert f(1) == 2
assert pijit.stats()["replays"] == 3
_core.hook_install(); _core.hook_install()
assert f(1) == 2
assert pijit.stats()["replays"] == 4
_core.hook_remove(); _core.hook_remove()
assert not _core.hook_installed()
assert f(1) == 2
assert pijit.stats()["replays"] == 4
"""
    )
    assert done.returncode == 0, done.stderr


def test_enable_alone_gives_the_hook_back() -> None:
    done = run_apart(
        """
import pijit
from pijit import _core
pijit.disable()
assert not _core.hook_installed()
for _ in range(3):
    pijit.enable()
    assert _core.hook_installed()
    assert sum(x for x in range(4)) == 6
    pijit.disable()
    assert not _core.hook_installed()
with pijit.enabled():
    assert _core.hook_installed()
assert not _core.hook_installed()
"""
    )
    assert done.returncode == 0, done.stderr


def test_removed_while_recording_and_replaying() -> None:
    done = run_apart(
        """
import pijit
from pijit import _core
def off(x):
    if x: _core.hook_remove()
    return x
def f(x):
    off(x)
    return [x, off(0)]
j = pijit.jit(f)
for turn in range(8):
    if not _core.hook_installed(): _core.hook_install()
    for x in (0, 0, turn % 2, 0): assert j(x) == [x, 0]
"""
    )
    assert done.returncode == 0, done.stderr


def test_disabled_by_the_environment() -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(pijit.__file__).parents[1]), "PIJIT": "0"}
    program = """
import pijit
from pijit import _core
f = pijit.jit(lambda x: x + 1)
assert [f(1)] * 3 == [2, 2, 2]
assert not _core.hook_installed()
assert pijit.status(f).state == "disabled"
"""
    assert subprocess.run([sys.executable, "-c", program], env=environment, timeout=60, check=False).returncode == 0


# --------------------------------------------------------------------------------------------------- depth of the stack

DEEP = """
import sys, threading
import pijit
limit, kind = int(sys.argv[1]), sys.argv[2]
sys.setrecursionlimit(limit)
def f(n): return 0 if n == 0 else f(n - 1) + 1
def g(n): return 0 if n == 0 else sum([g(n - 1)]) + 1
class C:
    def __init__(self, n): self.n = C(n - 1).n + 1 if n else 0
class D:
    def __call__(self, n): return 0 if n == 0 else self(n - 1) + 1
def gen(n):
    if n: yield from gen(n - 1)
    yield n
def infinite(n): return infinite(n + 1)
def build(n):
    def inner(k): return 0 if k == 0 else inner(k - 1) + 1
    return inner(n)
work = {
    "function": f, "builtin": g, "init": lambda n: C(n).n, "call": D(), "generator": lambda n: max(gen(n)),
    "infinite": infinite, "inner": build,
}[kind]
root = pijit.jit(work) if kind != "call" else work
if kind == "function": f = root
if kind == "jitted": pass
for depth in (50, 50, 50, limit - 200, limit - 200, 50, limit + 100, limit + 100, 50):
    if kind == "infinite": depth = 0
    try:
        result = root(depth)
        assert result == depth, (result, depth)
    except RecursionError:
        assert depth > limit - 400 or kind in ("infinite", "builtin", "generator", "init", "call"), depth
print("done")
"""


@pytest.mark.parametrize("kind", ["function", "builtin", "init", "call", "generator", "infinite", "inner"])
@pytest.mark.parametrize("limit", [2000, 10_000, 50_000])
def test_deep_recursion(limit: int, kind: str) -> None:
    """A result or RecursionError, never a crash; C calls between frames are as deep as CPython itself can stand."""
    if limit > 10_000 and kind in {"builtin", "init", "call", "generator"}:
        pytest.skip("overflows the C stack without pijit, too")
    if limit > 2000 and kind == "generator":
        pytest.skip("takes quadratic time without pijit, too")
    assert run_apart(DEEP, str(limit), kind).stdout == "done\n"


@pytest.mark.parametrize("limit", [2000, 50_000])
def test_deep_recursion_beside_a_jitted_function(limit: int) -> None:
    """Plain functions under the hook, in the main thread and in one with a small stack."""
    program = """
import sys, threading
import pijit
leaf = pijit.jit(lambda n: n + 1)
limit = int(sys.argv[1])
sys.setrecursionlimit(limit)
def f(n): return leaf(0) if n == 0 else f(n - 1) + 1
def work(depth):
    for _ in range(3):
        assert leaf(1) == 2
        try: assert f(depth) == depth + 1
        except RecursionError: pass
work(limit - 100)
work(limit)
threading.stack_size(512 * 1024)
thread = threading.Thread(target=work, args=(min(limit, 100_000) - 100,)); thread.start(); thread.join()
print("done")
"""
    assert run_apart(program, str(limit)).stdout == "done\n"


def test_recursion_error_is_the_same() -> None:
    """Same depth at which the limit strikes, same traceback length, and later calls are right."""

    def depths(jit: Callable[[Any], Any]) -> list[Any]:
        reached = [0]

        def deeper(n: int) -> int:
            reached[0] = n
            return deeper(n + 1)

        def f(n: int) -> int:
            return deeper(n)

        f = jit(f)
        seen = []
        for _ in range(5):
            try:
                f(0)
            except RecursionError as error:
                seen.append((reached[0], str(error), len(traceback.extract_tb(error.__traceback__))))
        return seen

    assert depths(pijit.jit) == depths(plain)


def test_recursion_limit_lowered_between_calls() -> None:
    """A trace that inlines deep calls does not run where CPython would raise."""

    def outcomes(jit: Callable[[Any], Any]) -> list[Any]:
        def g(n: int) -> int:
            return 0 if n == 0 else g(n - 1) + 1

        f = jit(lambda: g(60))
        limit = sys.getrecursionlimit()
        here = len(traceback.extract_stack())
        seen: list[Any] = []
        try:
            for room in (0, 0, 0, 30, 30, 0, 0):
                sys.setrecursionlimit(here + room + 10 if room else limit)
                try:
                    seen.append(f())
                except RecursionError:
                    seen.append("RecursionError")
                sys.setrecursionlimit(limit)
        finally:
            sys.setrecursionlimit(limit)
        return seen

    assert outcomes(pijit.jit) == outcomes(plain)


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


# ------------------------------------------------------------------------------------- generators and asynchronous code


def test_asynchronous_code_around() -> None:
    """Coroutines await, are cancelled and call jitted functions in between."""

    async def program(jit: Callable[[Any], Any]) -> list[Any]:
        log: list[Any] = []
        step = jit(lambda x: [x, x + 1])

        async def worker(n: int) -> Any:
            try:
                for i in range(4):
                    log.append((n, step(i)))
                    await asyncio.sleep(0)
                return n
            finally:
                log.append(("end", n))

        tasks = [asyncio.create_task(worker(n)) for n in range(3)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        log.append([str(result) for result in await asyncio.gather(*tasks, return_exceptions=True)])
        return log

    assert asyncio.run(program(pijit.jit)) == asyncio.run(program(plain))


def test_coroutine_made_inside() -> None:
    def results(jit: Callable[[Any], Any]) -> list[Any]:
        async def inner(x: int) -> int:
            await asyncio.sleep(0)
            return x + 1

        def f(x: int) -> Any:
            return asyncio.run(inner(x)), x

        f = jit(f)
        return [f(x) for x in (1, 1, 1, 2)]

    assert results(pijit.jit) == results(plain)


def test_generator_resumed_inside() -> None:
    """A generator that was started outside, and goes on outside."""

    def results(jit: Callable[[Any], Any]) -> list[Any]:
        def numbers() -> Iterator[int]:
            n = 0
            while True:
                sent = yield n
                n += sent or 1

        def f(it: Any) -> Any:
            return next(it), it.send(5), next(it)

        f = jit(f)
        it = numbers()
        out = [next(it)]
        for _ in range(4):
            out += [f(it), next(it)]
        return out

    assert results(pijit.jit) == results(plain)


# ------------------------------------------------------------------------------------------------------ forks and exits


def test_forked_child_is_plain() -> None:
    done = run_apart(
        """
import os, sys
import pijit
from pijit import _core
f = pijit.jit(lambda x: x + 1)
for _ in range(3): f(1)
def inside(x):
    pid = os.fork()
    if pid == 0:
        ok = not _core.hook_installed() and [x, f(1)] == [7, 2] and sum(i for i in range(3)) == 3
        os._exit(0 if ok else 1)
    return [x, os.waitpid(pid, 0)[1]]
g = pijit.jit(inside)
for _ in range(4): assert g(7) == [7, 0]
pid = os.fork()
if pid == 0:
    ok = not _core.hook_installed() and f(1) == 2
    h = pijit.jit(lambda x: x * 2)
    ok = ok and _core.hook_installed() and [h(2), h(2), h(2)] == [4, 4, 4] and pijit.status(h).state == "replaying"
    os._exit(0 if ok else 1)
assert os.waitpid(pid, 0)[1] == 0
assert _core.hook_installed() and f(1) == 2
"""
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("warm", [0, 1, 3])
def test_sys_exit_inside(warm: int) -> None:
    program = """
import sys
import pijit
def leave(x):
    if x: sys.exit(7)
def f(x):
    leave(x)
    return x
j = pijit.jit(f)
for _ in range(int(sys.argv[1])): j(0)
j(1)
"""
    assert run_apart(program, str(warm)).returncode == 7


@pytest.mark.parametrize("what", ["spin()", "looping(1)", "plain()"])
def test_interpreter_ends_with_daemon_threads(what: str) -> None:
    program = """
import threading, time
import pijit
f = pijit.jit(lambda x: x + 1)
for _ in range(3): f(1)
@pijit.jit
def looping(x):
    while True: x += 1
def spin():
    while True: f(1)
def leaf(): pass
def plain():
    while True: leaf()
for _ in range(4): threading.Thread(target=lambda: WHAT, daemon=True).start()
time.sleep(0.05)
""".replace("WHAT", what)
    for _ in range(5):
        assert run_apart(program).returncode == 0


def test_interpreter_ends_with_live_traces() -> None:
    """Traces and finalizers at the end of the interpreter."""
    program = """
import atexit, threading, time
import pijit
class C:
    def __del__(self): print("del", f(1))
f = pijit.jit(lambda x: x + 1)
for _ in range(3): f(1)
class M:
    def __call__(self, x): return [x]
m = pijit.jit(M())
m(1), m(1)
m.me = m
c = C()
atexit.register(lambda: print("atexit", f(1), m(2)))
threading.Thread(target=lambda: time.sleep(100), daemon=True).start()
time.sleep(0.05)
"""
    for _ in range(3):
        done = run_apart(program)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("atexit 2 [2]")


# ----------------------------------------------------------------------------------------------- exceptions and signals


def describe(error: BaseException) -> Any:
    frames = [(f.name, f.lineno, f.line) for f in traceback.extract_tb(error.__traceback__)]
    return type(error).__name__, str(error), frames, error.__context__ and describe(error.__context__)


def test_exceptions_through_roots() -> None:
    """Exceptions that go through several jitted functions, caught at each height, keep their tracebacks."""

    def results(jit: Callable[[Any], Any]) -> list[Any]:
        @jit
        def low(x: int) -> int:
            if x == 3:
                raise ValueError("low", x)
            return 10 // x

        @jit
        def middle(x: int) -> Any:
            try:
                return [low(x)]
            finally:
                log.append(x)

        @jit
        def high(x: int) -> Any:
            try:
                return middle(x)
            except ZeroDivisionError as error:
                return describe(error)

        log: list[int] = []
        out: list[Any] = []
        for x in (1, 1, 1, 0, 0, 3, 3, 1, 0, 3):
            try:
                out.append(high(x))
            except ValueError as error:
                out.append(describe(error))
        return [*out, log]

    assert results(pijit.jit) == results(plain)


def test_exception_state_is_restored() -> None:
    """sys.exc_info() before, in and after, in handlers around the call."""

    def results(jit: Callable[[Any], Any]) -> list[Any]:
        def f(x: int) -> Any:
            seen = [sys.exc_info()[0]]
            try:
                {}[x]
            except KeyError:
                seen.append(sys.exc_info()[0])
            seen.append(sys.exc_info()[0])
            return seen

        f = jit(f)
        out: list[Any] = []
        for _ in range(4):
            out.append(f(1))
            try:
                raise OSError
            except OSError:
                out.append(f(1))
                out.append(sys.exc_info()[0])
        return out

    assert results(pijit.jit) == results(plain)


def test_context_of_an_exception_raised_in_a_handler() -> None:
    def results(jit: Callable[[Any], Any]) -> list[Any]:
        def f(x: int) -> Any:
            return 1 // x

        f = jit(f)
        out: list[Any] = []
        for x in (1, 1, 0, 0, 0, 1, 0):
            try:
                try:
                    raise OSError("outer")
                except OSError:
                    out.append(f(x))
            except ZeroDivisionError as error:
                out.append(describe(error))
        return out

    assert results(pijit.jit) == results(plain)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
@pytest.mark.parametrize("warm", [0, 3])
@pytest.mark.parametrize("loop", ["python", "calls", "sleep"])
def test_keyboard_interrupt(loop: str, warm: int) -> None:
    """A signal while recording and while replaying ends the call soon; the next calls are right."""

    def g(x: int) -> int:
        return x + 1

    def f(n: int) -> int:
        x = 0
        if loop == "sleep":
            time.sleep(n / 1000)
            return n
        for _ in range(n):
            x = g(x) if loop == "calls" else x + 1
        return x

    jitted = pijit.jit(f)
    for _ in range(warm):
        assert jitted(5) == 5
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)

    def interrupted() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        jitted(50_000_000)

    try:
        for _ in range(3):
            started = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                interrupted()
            assert time.monotonic() - started < 5
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert sys.gettrace() is None
    assert [jitted(5) for _ in range(4)] == [5] * 4
    assert pijit.jit(lambda x: x + 1)(1) == 2


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
def test_signal_handler_runs_jitted_code() -> None:
    """A handler that calls jitted functions, also the one that it interrupts, and changes what they read."""
    config = {"k": 1}
    calls = [0]

    def g(x: int) -> int:
        return x + config["k"] - config["k"]

    def f(n: int) -> Any:
        out = []
        for i in range(n):
            out.append(g(i))
        return out

    f = pijit.jit(f)
    other = pijit.jit(lambda x: x * 2)

    def handler(number: int, frame: Any) -> None:
        calls[0] = now = calls[0] + 1  # another signal may come in between
        config["k"] += 1
        assert other(now) == 2 * now
        assert f(2) == [0, 1]
        if now % 10 == 0:
            pijit.reset()

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline:
            assert f(40) == list(range(40))
            pijit.reset(f)
            assert f(40) == list(range(40))
            assert f(40) == list(range(40))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert calls[0] > 20


# ---------------------------------------------------------------------------------------------------------- re-entrancy


def test_jitted_functions_call_each_other() -> None:
    def results(jit: Callable[[Any], Any]) -> list[Any]:
        k = [1]

        @jit
        def low(x: int) -> Any:
            return [x, k[0]]

        @jit
        def high(x: int) -> Any:
            return low(x), low(x + 1), [low(x)[0]]

        out = [high(1) for _ in range(4)] + [low(1) for _ in range(3)]
        k[0] = 2
        return out + [low(1) for _ in range(3)] + [high(1) for _ in range(3)]

    assert results(pijit.jit) == results(plain)


def test_jitted_recursion() -> None:
    def results(jit: Callable[[Any], Any]) -> list[Any]:
        @jit
        def fib(n: int) -> int:
            return n if n < 2 else fib(n - 1) + fib(n - 2)

        @jit
        def hanoi(n: int, log: list[Any]) -> None:
            if n:
                hanoi(n - 1, log)
                log.append(n)
                hanoi(n - 1, log)

        log: list[Any] = []
        for _ in range(3):
            hanoi(4, log)
        return [fib(n) for n in (5, 5, 5, 8, 1, 0, 8)] + log

    assert results(pijit.jit) == results(plain)


def test_property_and_descriptor_call_jitted_code() -> None:
    def results(jit: Callable[[Any], Any]) -> list[Any]:
        @jit
        def compute(x: int) -> int:
            return x * 3

        class C:
            v = 1

            @property
            def p(self) -> int:
                return compute(self.v)

            def __getattr__(self, name: str) -> int:
                return compute(len(name))

            def __eq__(self, other: object) -> bool:
                return compute(1) == 3

            def __hash__(self) -> int:
                return compute(2)

        c = C()

        @jit
        def f(x: int) -> Any:
            return c.p + x, c.unknown, c == x, {c: x}[c]

        out = [f(1) for _ in range(4)]
        c.v = 5
        return out + [f(1) for _ in range(4)]

    assert results(pijit.jit) == results(plain)


def test_jitted_function_as_key_and_callback() -> None:
    def results(jit: Callable[[Any], Any]) -> list[Any]:
        key = jit(lambda x: -x)

        @jit
        def f(items: list[int]) -> Any:
            return sorted(items, key=key), max(items, key=key), list(map(key, items)), [key(x) for x in items if key(x)]

        return [f(items) for items in ([3, 1, 2], [3, 1, 2], [3, 1, 2], [0, 5])]

    assert results(pijit.jit) == results(plain)


def test_methods_and_instances() -> None:
    """A jitted method per class, a jitted bound method, a jitted instance, beside plain ones of the same code."""

    class C:
        def __init__(self, k: int) -> None:
            self.k = k

        @pijit.jit
        def m(self, x: int) -> Any:
            return [self.k, x]

        def __call__(self, x: int) -> Any:
            return self.m(x) + [self.k]

    one, two, three = C(1), C(2), C(3)
    pijit.jit(two)
    bound = pijit.jit(three.__call__)
    for turn in range(6):
        assert one(turn % 2) == [1, turn % 2, 1]
        assert two(turn % 2) == [2, turn % 2, 2]
        assert bound(turn % 2) == [3, turn % 2, 3]
        assert three(0) == [3, 0, 3]
        assert [c.m(4) for c in (one, two, three)] == [[1, 4], [2, 4], [3, 4]]
        if turn == 3:
            one.k, two.k, three.k = 1, 2, 3
    assert report(two)["replays"] > 0
    assert api.root_of(one) < 0


def test_strict_raises_once_and_leaves_order() -> None:
    jitted = pijit.jit(lambda x: eval(x), strict=True)  # noqa: S307
    with pytest.raises(pijit.errors.StrictError) as caught:
        jitted("1")
    assert "eval" in str(caught.value)
    assert sys.gettrace() is None
    assert pijit.jit(lambda x: x + 1)(1) == 2


# --------------------------------------------------------------------------------------------------------------- frames


def chain() -> list[Any]:
    frame = sys._getframe(1)
    out = []
    while (
        frame is not None
        and frame.f_code.co_filename == __file__
        and frame.f_code.co_name not in {"results", "<listcomp>"}
    ):
        local = {k: v for k, v in frame.f_locals.items() if isinstance(v, (int, list, str))}
        out.append((frame.f_code.co_name, frame.f_lineno, repr(local), frame.f_lasti >= 0))
        frame = frame.f_back
    return out


def test_frames_at_exits() -> None:
    """A call that is not followed sees all frames, their lines and locals, in recording and replay."""

    def results(jit: Callable[[Any], Any]) -> list[Any]:
        class Context:
            def __enter__(self) -> int:
                return 5

            def __exit__(self, *error: object) -> None:
                seen.append(chain())

        def low(x: int) -> Any:
            doubled = x * 2
            return chain()

        def middle(x: int, *rest: int, k: int = 3, **more: int) -> Any:
            items = [x, k]
            for i in range(2):
                got = low(x + i)
            return got

        def with_block(x: int) -> Any:
            with Context() as five:
                return middle(five + x)

        class C:
            def __init__(self, x: int) -> None:
                self.found = low(x)

            @property
            def p(self) -> Any:
                return chain()

            def __len__(self) -> int:
                seen.append(chain())
                return 2

        def f(x: int) -> Any:
            y = [x]
            first = middle(x, 7, k=9, z=1)
            second = with_block(x)
            third = C(x)
            return first, second, third.found, third.p, len(third), [low(i) for i in range(2)]

        seen: list[Any] = []
        f = jit(f)
        return [f(x) for x in (1, 1, 1, 2)] + seen

    assert results(pijit.jit) == results(plain)


def test_frames_of_nested_functions_in_tracebacks() -> None:
    """An error deep in inlined calls: names, lines, locals of every frame."""

    def results(jit: Callable[[Any], Any]) -> list[Any]:
        def low(x: int) -> int:
            local = [x]
            return local[x]

        def middle(x: int) -> int:
            return low(x) + 1

        def f(x: int) -> Any:
            y = x + 1
            return [middle(i) for i in range(y)]

        f = jit(f)
        out: list[Any] = []
        for x in (0, 0, 0, 1, 1, 0):
            try:
                out.append(f(x))
            except IndexError as error:
                frames = []
                tb = error.__traceback__
                while tb is not None:
                    if tb.tb_frame.f_code.co_name != "results":
                        local = {k: v for k, v in tb.tb_frame.f_locals.items() if isinstance(v, (int, list))}
                        frames.append((tb.tb_frame.f_code.co_name, tb.tb_lineno, repr(local)))
                    tb = tb.tb_next
                out.append(frames)
        return out

    assert results(pijit.jit) == results(plain)


def test_frame_kept_after_the_call() -> None:
    """A frame object that outlives its call keeps its locals."""

    def results(jit: Callable[[Any], Any]) -> list[Any]:
        def low(x: int) -> Any:
            local = [x]
            return sys._getframe()

        def f(x: int) -> Any:
            y = x + 1
            return low(y)

        f = jit(f)
        out = []
        for x in (1, 1, 1, 2):
            frame = f(x)
            out.append((dict(frame.f_locals), frame.f_lineno, frame.f_back and frame.f_back.f_code.co_name))
        return out

    assert results(pijit.jit) == results(plain)


def test_locals_and_inspect() -> None:
    import inspect

    def results(jit: Callable[[Any], Any]) -> list[Any]:
        def f(x: int) -> Any:
            y = [x]
            names = [record.function for record in inspect.stack()[:2]]
            return locals(), names, inspect.currentframe().f_code.co_name, dir()

        f = jit(f)
        return [f(x) for x in (1, 1, 1, 2)]

    assert results(pijit.jit) == results(plain)


def test_foreign_evaluator_is_kept() -> None:
    """The evaluator that was there is called again after disable (there is none: CPython's own)."""
    done = run_apart(
        """
import sys
import pijit
from pijit import _core
for _ in range(50):
    pijit.enable(); pijit.disable()
assert not _core.hook_installed()
def f(n): return 0 if n == 0 else f(n - 1) + 1
sys.setrecursionlimit(60000)
assert f(50000) == 50000  # only without a hook do Python calls need no C stack
"""
    )
    assert done.returncode == 0, done.stderr


# ------------------------------------------------------------------------------------------------------ useless traces


def test_a_trace_that_is_always_left_is_recorded_anew() -> None:
    """What the first call found does not come back; what all later ones find is replayed to the end."""

    def f(source: random.Random) -> str:
        return "low" if source.random() < 0.5 else "high"

    source, jitted = random.Random(), pijit.jit(f)
    while (state := source.getstate()) and source.random() >= 0.5:  # a state after which "low" is next
        pass
    source.setstate(state)
    assert jitted(source) == "low"
    while (state := source.getstate()) and source.random() < 0.5:  # one after which "high" is
        pass
    results = []
    for _ in range(6):
        source.setstate(state)
        results.append(jitted(source))
    assert results == ["high"] * 6
    found = report(jitted)
    assert found["exits"] == 2
    assert found["records"] == 2
    assert found["replays"] == 5


@pytest.mark.parametrize("before", [20, 100])
def test_a_trace_that_is_left_for_good_is_recorded_anew(before: int) -> None:
    """It served until something changed that is looked at behind an opaque call, in a handler, where no entry helps."""

    @pijit.opaque
    def refuse() -> None:
        raise ValueError

    def f(text: str) -> str:
        try:
            refuse()
        except ValueError:
            return steps["step"](text) + text
        return ""

    steps: dict[str, Callable[[str], str]] = {"step": lambda text: text + "a"}
    jitted = pijit.jit(f)
    for change in range(12):
        mark = str(change)
        steps["step"] = lambda text, mark=mark: text + mark
        assert [jitted("x") for _ in range(before)] == [f"x{mark}x"] * before
        found = report(jitted)
        # Each time: one recording and the replays that are left before it; without end, where each trace has served.
        most = 12 if before > 70 else 5
        assert found["records"] == min(change + 1, most)
        if change < most:
            assert found["exits"] == 8 * change
            assert found["replays"] == before * (change + 1) - found["records"]


def test_a_replay_that_was_interrupted_does_not_save_its_trace() -> None:
    """A trace that is always left is recorded anew, too, when a signal came into its first replay."""
    seen: list[int] = []

    def f(ticks: Iterator[None], source: random.Random) -> str:
        next(ticks)
        return "low" if source.random() < 0.5 else "high"

    before = signal.signal(signal.SIGUSR1, lambda *arguments: seen.append(1))
    send = getattr(ctypes.PyDLL(None), "raise")  # unlike signal.raise_signal it leaves the handler to the evaluator
    ticks = map(send, [0, signal.SIGUSR1, *[0] * 6])  # signal 0 is none
    source, jitted = random.Random(), pijit.jit(f)
    try:
        while (state := source.getstate()) and source.random() >= 0.5:  # a state after which "low" is next
            pass
        source.setstate(state)
        assert jitted(ticks, source) == "low"
        while (state := source.getstate()) and source.random() < 0.5:  # one after which "high" is
            pass
        results = []
        for _ in range(7):
            source.setstate(state)
            results.append(jitted(ticks, source))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert results == ["high"] * 7
    assert seen == [1]
    found = report(jitted)
    assert found["exits"] == 2
    assert found["records"] == 2
    assert found["replays"] == 6


# --------------------------------------------------------------------------------------------- debuggers, interpreters


def test_debugger() -> None:
    """Under pdb each line is stopped at; without it the replay goes on."""
    program = """
import pdb, sys
import pijit
@pijit.jit
def f(x):
    y = x + 1
    return y * 2
assert [f(1), f(1), f(1)] == [4, 4, 4]
if sys.argv[1] == "run":
    assert pdb.Pdb(nosigint=True, readrc=False).runcall(f, 5) == 12
else:
    def g(x):
        return f(x) + h(x)
    def h(x):
        if x == 5:
            breakpoint()
        return x
    j = pijit.jit(g)
    assert [j(1), j(1), j(1), j(5), j(1)] == [5, 5, 5, 17, 5]
assert f(1) == 4
print("done")
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(pijit.__file__).parents[1])}
    stepping = "next\nnext\np ('y is', y)\ncontinue\n"
    looking = "up\np ('outer', x)\ncontinue\n"
    for how in ("run", "breakpoint"):
        done = subprocess.run(
            [sys.executable, "-c", program, how],
            env=environment,
            input=stepping if how == "run" else looking,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert ("('y is', 6)" if how == "run" else "('outer', 5)") in done.stdout
        assert done.stdout.endswith("done\n")


def test_subinterpreter() -> None:
    """Another interpreter of the process is told that it cannot have pijit; this one goes on."""
    done = run_apart(
        """
import sys
if sys.version_info >= (3, 13):
    import _interpreters as interpreters
    kind = ("legacy",)
else:
    import _xxsubinterpreters as interpreters
    kind = ()
import pijit
f = pijit.jit(lambda x: x + 1)
assert [f(1), f(1)] == [2, 2]
other = interpreters.create(*kind)
interpreters.run_string(other, '''
try:
    import pijit
except ImportError as error:
    print(error, flush=True)
''')
interpreters.destroy(other)
assert [f(1), f(2)] == [2, 3]
"""
    )
    assert (done.returncode, done.stdout) == (0, "pijit runs in the main interpreter only\n"), done.stderr
