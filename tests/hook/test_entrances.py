"""From CPython 3.12 on a jitted function is entered by a vectorcall of its own, and other calls are plain CPython's."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pijit
from pijit import _core, api

pytestmark = pytest.mark.skipif(sys.version_info < (3, 12), reason="functions have no vectorcall of their own")

# CPython specialises the read of a property only where there is no eval-frame hook; an error that leaves it does not
# know what was read then.
DEEP = """
import sys
import pijit
sys.setrecursionlimit(30_000)
def down(n): return 0 if n == 0 else down(n - 1) + 1
def fits():
    return down(20_000) == 20_000
class Lacking:
    @property
    def it(self): raise AttributeError("it")
lacking = Lacking()
def is_plain():
    for _ in range(50):
        try: lacking.it
        except AttributeError as error: name = error.name
    return name is None
"""


def outcome(program: str) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(pijit.__file__).parents[1])}
    command = [sys.executable, "-c", DEEP + program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def report(function: object) -> dict[str, Any]:
    return dict(_core.root_report(api.root_of(function)))


def test_recursion_beside_a_jitted_function() -> None:
    """Before its first call, while it is recorded and replayed, and where it is called at the bottom."""
    program = """
leaf = pijit.jit(lambda n: n + 1)
print(fits())
for n in range(4): assert leaf(n) == n + 1; print(fits())
def f(n): return leaf(0) if n == 0 else f(n - 1) + 1
print(f(20_000) == 20_001, f(20_000) == 20_001)
print(pijit.status(leaf).state)
"""
    assert outcome(program) == ["True"] * 7 + ["replaying"]


def test_recursion_that_is_too_deep_ends_where_it_does_without() -> None:
    program = """
def reached():
    deepest = [0]
    def deeper(n):
        deepest[0] = n
        deeper(n + 1)
    try: deeper(0)
    except RecursionError as error: return deepest[0], str(error)
before = reached()
leaf = pijit.jit(lambda n: n + 1)
assert [leaf(n) for n in range(4)] == [1, 2, 3, 4]
print(reached() == before)
"""
    assert outcome(program) == ["True"]


def test_hook_is_in_place_while_it_is_needed() -> None:
    """Under enable(), for a jitted object or generator function, and not any more afterwards."""
    program = """
leaf = pijit.jit(lambda n: n + 1)
with pijit.enabled(): print(is_plain())
print(is_plain())
class C:
    def __call__(self, n): return n + 1
c = pijit.jit(C())
print(is_plain())
pijit.unjit(c)
print(is_plain())
def numbers(n): yield n
def jitted():
    g = pijit.jit(numbers)
    assert list(g(1)) == [1]
    print(is_plain())
jitted()
assert leaf(1) == 2  # finds that the generator function is gone
print(is_plain())
pijit.disable()
print(is_plain(), leaf(1) == 2)
"""
    assert outcome(program) == ["False", "True", "False", "True", "False", "True", "True", "True"]


class Named(str):
    """Equal by a method in Python, which runs while a call binds."""

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def plain(a: object, b: int = 2, *rest: int, c: int = 3, **more: int) -> tuple[Any, ...]:
    return type(a).__name__, b, rest, c, more


def calls(f: Any) -> list[Any]:
    """What calls of all sorts give, or say where they do not bind."""

    class C:
        method = f

    found = [(f(1), f(2, n), C().method(n)) for n in range(50)]
    found += [f(1, c=4), f(*(1, 2, 3), **{"d": 5}), f(**{Named("a"): 1, Named("c"): 2}), f(b=1, a=2)]
    found += [*map(f, (1, 2, 3)), sorted([3, 1, 2], key=lambda x: f(x, x)[1]), functools.partial(f, 1)(c=2)]
    for wrong in (lambda: f(), lambda: f(1, a=2), lambda: f(1, **{"a": 1})):
        with pytest.raises(TypeError) as caught:
            wrong()
        found.append(str(caught.value))
    return found


def test_all_ways_to_call() -> None:
    """Each arrives, in loops that CPython has specialised, too; a call that does not bind says so as ever."""
    jitted = pijit.jit(plain)
    assert calls(jitted) == calls(plain)
    before = report(jitted)["replays"]
    assert calls(jitted) == calls(plain)
    assert report(jitted)["replays"] > before + 150


def test_a_jitted_function_that_another_one_calls() -> None:
    """The guard on the inner one needs a version of it, by which CPython would pass its entrance by."""
    inner = pijit.jit(lambda x, y=1: x + y)

    def loop(n: int) -> int:
        return sum([inner(i) for i in range(n)])

    outer = pijit.jit(loop)
    assert [outer(5) for _ in range(4)] == [15] * 4
    assert [loop(5) for _ in range(4)] == [15] * 4
    before = report(inner)["replays"]
    assert [loop(5) for _ in range(4)] == [15] * 4
    assert report(inner)["replays"] == before + 20
    inner.__defaults__ = (2,)
    assert [outer(5) for _ in range(4)] == [20] * 4
    assert [loop(5) for _ in range(4)] == [20] * 4
    inner.__code__ = (lambda x, y=1: x * y).__code__
    assert [outer(5) for _ in range(4)] == [20] * 4
    assert [loop(5) for _ in range(4)] == [20] * 4


def test_what_is_given_back_is_called_plainly() -> None:
    f = pijit.jit(lambda x: x + 1)
    assert [f(i) for i in range(4)] == [1, 2, 3, 4]
    given = report(f)["calls"]
    found = pijit.unjit(f)
    assert (given, [found(i) for i in range(4)]) == (4, [1, 2, 3, 4])
    assert fibonacci(f) == fibonacci(lambda x: x + 1)


def fibonacci(f: Any) -> list[int]:
    found = [0, 1]
    for _ in range(50):
        found.append(f(found[-1]) + found[-2] - 1)
    return found


def test_an_exception_leaves_and_comes_in() -> None:
    """Raised inside, raised by what is called, and handled around the call."""

    def f(x: object) -> object:
        return 1 / x  # type: ignore[operator]

    def caught(g: Any, x: object) -> Any:
        try:
            raise KeyError("outer")
        except KeyError:
            try:
                return g(x)
            except (ZeroDivisionError, TypeError) as error:
                trace = [entry.tb_lineno for entry in entries(error.__traceback__)]
                return type(error), str(error), repr(error.__context__), trace[1:]

    def entries(traceback: Any) -> Any:
        while traceback is not None:
            yield traceback
            traceback = traceback.tb_next

    jitted = pijit.jit(f)
    for x in (2, 0, 4, "text", 0, 2):
        assert caught(jitted, x) == caught(f, x)
    assert report(jitted)["replays"] > 0
