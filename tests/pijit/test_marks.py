"""skip, opaque and constant: who may be marked, what a mark does to recordings and roots, and how long it lives."""

from __future__ import annotations

import functools
import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

import pijit
from pijit import _core
from pijit.errors import UsageError


def inner(x):
    return [x]


def outer(x):
    return inner(x), x


@pytest.fixture(autouse=True)
def _unmarked():
    yield
    for function in (inner, outer):
        _core.set_mark(function, "", "")


MARKS = {"skip": pijit.skip, "opaque": pijit.opaque, "constant": pijit.constant}


@pytest.mark.parametrize("mark", MARKS)
def test_the_same_function_comes_back(mark):
    before = dict(vars(inner))
    assert MARKS[mark](inner) is inner
    assert vars(inner) == before
    assert _core.mark_of(inner)[0] == mark
    assert inner(1) == [1]


def test_reasons():
    @pijit.skip(reason="talks to the network")
    def f():
        return 1

    assert pijit.status(f) == pijit.Status("disabled", "pijit.skip(): talks to the network")
    assert pijit.status(pijit.opaque(inner)) == pijit.Status("disabled", "pijit.opaque()")
    assert pijit.status(pijit.constant(outer)).state == "cold"
    with pytest.raises(UsageError, match="reason is text, not 3"):
        pijit.skip(inner, reason=3)


def test_what_may_be_marked():
    class Thing:
        def method(self):
            return self

        @pijit.skip
        @staticmethod
        def static():
            return 1

        @pijit.skip
        @classmethod
        def of_class(cls):
            return cls

    thing = Thing()
    method = thing.method
    assert pijit.skip(method) is method
    assert _core.mark_of(Thing.method)[0] == "skip"
    assert Thing.static() == 1
    assert Thing.of_class() is Thing
    assert _core.mark_of(Thing.static)[0] == _core.mark_of(Thing.of_class.__func__)[0] == "skip"
    partial = functools.partial(inner, 1)
    assert pijit.opaque(partial) is partial
    assert _core.mark_of(inner)[0] == "opaque"
    for wrong in (len, 3, Thing, thing, functools.partial(print)):
        with pytest.raises(
            UsageError, match=r"pijit\.skip\(\): .* is not made from a Python function; mark the function"
        ):
            pijit.skip(wrong)


@pytest.mark.parametrize("mark", ["skip", "opaque"])
def test_a_recording_does_not_follow_it(mark):
    def callee(x):
        return [x]

    def caller(x):
        return callee(x), x

    fast = pijit.jit(caller)
    assert [fast(1) for _ in range(3)] == [([1], 1)] * 3
    assert len(pijit.traces(fast)) == 1
    assert pijit.traces(fast)[0].stop is None
    MARKS[mark](callee)
    assert pijit.traces(fast) == ()  # it had followed the function
    assert [fast(1) for _ in range(3)] == [([1], 1)] * 3
    frames = [frame.name for trace in pijit.traces(fast) for at in trace.snapshots for frame in at.frames]
    assert not any(name.endswith("callee") for name in frames)
    followed = [guard for trace in pijit.traces(fast) for guard in trace.guards if "callee" in guard.source]
    assert followed == []


def test_marked_functions_are_not_jitted():
    for mark in ("skip", "opaque"):
        MARKS[mark](inner)
        with pytest.raises(
            UsageError, match=rf"inner\(\): it was given to pijit\.{mark}\(\); jit a function that calls"
        ):
            pijit.jit(inner)
    fast = pijit.jit(outer)
    with pytest.raises(UsageError, match="outer was jitted; mark the function it was made from"):
        pijit.skip(fast)
    pijit.skip(outer)  # the plain one of the same code
    assert pijit.status(fast).state == "cold"
    assert [fast(1) for _ in range(3)] == [([1], 1)] * 3


def test_a_mark_dies_with_its_function():
    def make():
        def f():
            return 1

        return pijit.skip(f, reason="once")

    f = make()
    dead = weakref.ref(f)
    del f
    gc.collect()
    assert dead() is None
    for _ in range(100):  # functions at reused addresses are not marked
        assert pijit.status(lambda: 1).state == "cold"


def test_switched_off():
    code = "import pijit\n@pijit.skip(reason='x')\ndef f(): return 1\nprint(f(), pijit.status(f).reason)"
    environment = {**os.environ, "PIJIT": "0", "PYTHONPATH": str(Path(pijit.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "1 PIJIT=0 in the environment\n"
