"""Roots: which calls belong to which function or instance, limits, status, reset."""

from __future__ import annotations

import functools
import gc
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import pijit
from pijit import _core, api


def report(function: object) -> dict[str, Any]:
    return dict(_core.root_report(api.root_of(function)))


def test_states() -> None:
    jitted = pijit.jit(lambda x: x + 1)
    assert pijit.status(jitted).state == "cold"
    jitted(1)
    assert pijit.status(jitted).state == "recorded"
    jitted(1)
    assert pijit.status(jitted).state == "replaying"
    pijit.reset(jitted)
    assert pijit.status(jitted).state == "cold"
    assert len(pijit.traces(jitted)) == 0
    jitted(1), jitted(1)
    assert pijit.status(jitted).state == "replaying"


def test_what_replays_did_is_counted() -> None:
    """Opaque calls that replays made, replays that came to a stop, and code objects of which a trace ran."""

    @pijit.jit
    def opaque(x: int) -> int:
        print(end="")
        print(end="")
        return x

    @pijit.jit
    def stops(x: int) -> int:
        exec("x")
        return x

    before = pijit.stats()
    for _ in range(4):
        opaque(1), stops(1)
    after = pijit.stats()
    assert (report(opaque)["replays"], report(opaque)["opaque_calls"], report(opaque)["stopped"]) == (3, 6, 0)
    assert (report(stops)["replays"], report(stops)["opaque_calls"], report(stops)["stopped"]) == (3, 0, 3)
    assert after["opaque_calls"] - before["opaque_calls"] == 6
    assert after["replayed_codes"] - before["replayed_codes"] == 2


def test_functions_of_one_code_are_apart() -> None:
    """Closures of one code object, jitted and plain, each with its own traces."""

    def make(k: Any) -> Any:
        def f(x: int) -> Any:
            return [x, k]

        return f

    made = [make(k) for k in (1, 1.0, True, "k", [1])]
    jitted = [pijit.jit(f) if n % 2 == 0 else f for n, f in enumerate(made)]
    for _ in range(4):
        for n, k in enumerate((1, 1.0, True, "k", [1])):
            result = jitted[n](5)
            assert repr(result) == repr([5, k])
    assert [report(f)["replays"] for f in jitted[::2]] == [3, 3, 3]
    assert all(api.root_of(f) < 0 for f in jitted[1::2])


def test_jitted_twice() -> None:
    def f(x: int) -> int:
        return x + 1

    one, two = pijit.jit(f), pijit.jit(f)
    again = pijit.jit(one)
    assert len({api.root_of(g) for g in (one, two, again)}) == 3
    for _ in range(3):
        assert [one(1), two(2.0), again(3), f(4)] == [2, 3.0, 4, 5]
    assert [report(g)["records"] for g in (one, two, again)] == [1, 1, 1]


def test_instance_of_which_call_is_inherited() -> None:
    class A:
        def __call__(self, x: int) -> Any:
            return [type(self).__name__, x]

    class B(A):
        def __call__(self, x: int) -> Any:
            return super().__call__(x) + ["B"]

    a, b = pijit.jit(A()), pijit.jit(B())
    plain = B()
    for _ in range(4):
        assert a(1) == ["A", 1]
        assert b(1) == ["B", 1, "B"]
        assert plain(1) == ["B", 1, "B"]
    assert report(a)["replays"] == 3
    assert report(b)["replays"] == 3


def test_instance_jitted_again_and_many() -> None:
    class M:
        def __init__(self, k: int) -> None:
            self.k = k

        def __call__(self) -> Any:
            return [self.k]

    many = [pijit.jit(M(k)) for k in range(50)]
    for _ in range(3):
        assert [m() for m in many] == [[k] for k in range(50)]
    assert all(report(m)["replays"] == 2 for m in many)
    first = api.root_of(many[0])
    pijit.jit(many[0])
    assert api.root_of(many[0]) != first
    with pytest.raises(ValueError, match="no such root"):
        _core.root_report(first)
    assert [many[0]() for _ in range(3)] == [[0]] * 3


def test_call_replaced_on_the_class() -> None:
    class M:
        def __call__(self) -> str:
            return "old"

    m = pijit.jit(M())
    assert [m() for _ in range(3)] == ["old"] * 3
    M.__call__ = lambda self: "new"  # type: ignore[method-assign]
    assert [m() for _ in range(3)] == ["new"] * 3


def test_class_of_the_instance_changes() -> None:
    class A:
        def __call__(self) -> Any:
            return "A", self.name

        name = "a"

    class B(A):
        name = "b"

    m = pijit.jit(A())
    assert [m() for _ in range(3)] == [("A", "a")] * 3
    m.__class__ = B
    assert [m() for _ in range(3)] == [("A", "b")] * 3


def test_first_argument_rebound_at_once() -> None:
    """The root is the instance that is called, whatever the name self becomes."""

    class M:
        def __call__(self, other: Any) -> Any:
            self = other
            return self

    m = pijit.jit(M())
    other = M()
    for x in (other, other, m, other, 3):
        assert m(x) is x
        assert other(m) is m


def test_partial_and_bound_methods() -> None:
    class C:
        def m(self, x: int, k: int = 2) -> Any:
            return [x, k]

        @classmethod
        def c(cls, x: int) -> Any:
            return [cls.__name__, x]

    thing = C()
    bound, partial, of_class = (
        pijit.jit(thing.m),
        pijit.jit(functools.partial(thing.m.__func__, thing, k=5)),
        pijit.jit(C.c),
    )
    for _ in range(3):
        assert bound(1) == [1, 2]
        assert partial(1) == [1, 5]
        assert of_class(1) == ["C", 1]
        assert thing.m(1) == [1, 2]
    assert all(pijit.status(f).state == "replaying" for f in (bound, partial, of_class))


def test_limit_of_traces() -> None:
    jitted = pijit.jit(lambda x: [x])
    for k in range(30):
        text = "x" * k
        assert jitted(text) == [text]
    assert len(pijit.traces(jitted)) <= 8
    for k in range(30):
        assert jitted("x" * k) == ["x" * k]


def test_raising_calls_do_not_disable_what_is_replayed() -> None:
    """Calls that raise give no trace; those that do not are replayed all the same."""
    jitted = pijit.jit(lambda x: 10 // x)
    for _ in range(3):
        assert jitted(5) == 2
    for _ in range(10):
        with pytest.raises(ZeroDivisionError):
            jitted(0)
    before = report(jitted)["replays"]
    assert [jitted(5) for _ in range(5)] == [2] * 5
    assert report(jitted)["replays"] == before + 5


def test_removed_root() -> None:
    jitted = pijit.jit(lambda x: x + 1)
    assert [jitted(1) for _ in range(3)] == [2] * 3
    root = api.root_of(jitted)
    _core.remove_root(root)
    assert api.root_of(jitted) == -1
    assert [jitted(1) for _ in range(3)] == [2] * 3
    assert pijit.status(jitted).state == "cold"


def test_reset_of_all() -> None:
    made = [pijit.jit(eval(f"lambda x: x + {k}")) for k in range(5)]  # noqa: S307
    for f in made:
        f(1), f(1)
    pijit.reset()
    assert {pijit.status(f).state for f in made} == {"cold"}
    assert [f(1) for f in made] == [1, 2, 3, 4, 5]


def test_root_of_odd_things() -> None:
    for thing in (print, int, object, types, lambda: 1, [].append, functools.partial(print)):
        assert api.root_of(thing) == -1
        assert pijit.status(thing).state == "cold"
        pijit.reset(thing)
    for thing in (None, 1, "text", object()):
        assert api.root_of(thing) == -1
        with pytest.raises(pijit.errors.UsageError, match=r"pijit\.status\(\) takes"):
            pijit.status(thing)
        if thing is not None:  # that is everything
            with pytest.raises(pijit.errors.UsageError, match=r"pijit\.reset\(\) takes"):
                pijit.reset(thing)


def test_no_root_is_left() -> None:
    gc.collect()
    before = _core.stats()["traces"]
    for k in range(20):
        f = pijit.jit(lambda x: [x])
        f(k), f(k)
    del f
    gc.collect()
    assert _core.stats()["traces"] == before


def test_a_function_with_other_code_goes_after_its_traces() -> None:
    """The code that it was jitted with is held by nobody else then, and still has to be told."""
    program = """
import gc, pijit
def make():
    names = {}
    exec("def f(n): return n + 1", names)
    exec("def other(n): return n * 100", names)
    f = names["f"] = pijit.jit(names["f"])
    assert [f(2), f(2), f(2)] == [3, 3, 3]
    f.__code__ = names["other"].__code__
    assert [f(2), f(2), f(2)] == [200, 200, 200]
    pijit.reset(f)
    gc.collect()
for _ in range(5):
    make()
    gc.collect()
assert pijit.stats()["traces"] == 0
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(pijit.__file__).parents[1]), "PYTHONMALLOC": "debug"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
