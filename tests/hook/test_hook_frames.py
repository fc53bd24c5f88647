"""Frames of jitted code: depth of the stack, exceptions and signals, and who looks at frames."""

from __future__ import annotations

import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from jitted_apart import plain, run_apart

import pijit

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
@pytest.mark.parametrize("interval", [0.001, 0.00015])
def test_signal_handler_runs_jitted_code(interval: float) -> None:
    """A handler that calls jitted functions, also the one that it interrupts, and changes what they read.

    With the shorter interval a signal is often waiting while pijit describes what a guard has met: the handler would
    free the object that is described, if it could run there.
    """
    config = {"k": 1000}  # above the numbers that CPython keeps
    calls = [0]
    depth = [0]

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
        if depth[0] > 20:
            return  # on a slow machine they would pile up
        depth[0] += 1
        calls[0] = now = calls[0] + 1  # another signal may come in between
        config["k"] += 1
        assert other(now) == 2 * now
        assert f(2) == [0, 1]
        if now % 10 == 0:
            pijit.reset()
        depth[0] -= 1

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, interval, interval)
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
