"""The hook: on and off, generators and asynchronous code, forks and exits, re-entrancy, debuggers, interpreters."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jitted_apart import plain, report, run_apart

import pijit
from pijit import api

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
