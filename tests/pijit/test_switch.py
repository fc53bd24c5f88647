"""enable, disable, enabled and unjit: what runs plain and what is replayed, before and after."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pijit
from pijit import _core
from pijit.api import root_of
from pijit.errors import UsageError


@pytest.fixture(autouse=True)
def _on_again():
    """Other tests rely on nothing here, and this leaves the switch as it was."""
    was_on = bool(pijit.enabled())
    yield
    pijit.disable()
    if was_on:
        pijit.jit(lambda: None)


def replays(fn):
    return _core.root_report(root_of(fn))["replays"]


def scale(x):
    return [x, x + 1]


def warm(fast):
    """Called until numbers that differ are replayed."""
    for x in range(8):
        fast(x)
    return fast


def test_disable_stops_what_was_jitted():
    fast = warm(pijit.jit(scale))
    assert [fast(1), fast(2), fast(3)] == [[1, 2], [2, 3], [3, 4]]
    before = replays(fast)
    assert before > 0
    assert pijit.enabled()
    pijit.disable()
    assert not pijit.enabled()
    assert not _core.hook_installed()
    assert fast(4) == [4, 5]
    assert replays(fast) == before
    assert pijit.status(fast).state == "disabled"
    assert "pijit.disable() was called" in pijit.status(fast).reason
    pijit.enable()
    assert fast(5) == [5, 6]
    assert replays(fast) == before + 1
    assert pijit.status(fast).state == "replaying"
    pijit.disable()
    other = pijit.jit(scale)
    assert pijit.enabled()
    assert [fast(6), other(6)] == [[6, 7], [6, 7]]
    assert replays(fast) == before + 2


def test_disable_within_a_call():
    """A jitted function that switches off: it goes on in CPython, recorded or replayed, and later calls are plain."""

    def stops(off):
        if off:
            pijit.disable()
        return [off, bool(pijit.enabled())]

    fast = pijit.jit(stops)
    for off in (False, False, True, False, True):
        pijit.jit(scale)
        assert fast(off) == [off, not off]
        assert bool(pijit.enabled()) is not off


def test_a_block_gives_back_what_was_there():
    fast = warm(pijit.jit(scale))
    pijit.disable()
    before = replays(fast)
    for block in (pijit.enabled, pijit.enable):
        with block(max_nodes=4321) as scope:
            assert scope
            assert pijit.config.max_nodes == 4321
            assert fast(3) == [3, 4]
        assert not pijit.enabled()
        assert pijit.config.max_nodes != 4321
        assert fast(4) == [4, 5]
    assert replays(fast) == before + 2
    with pijit.enabled():
        pijit.jit(scale)
    assert pijit.enabled()  # what was jitted inside goes on
    pijit.enable()
    with pijit.enabled():
        pijit.disable()
        assert not pijit.enabled()
    assert _core.hook_installed()
    assert pijit.enabled()


def test_one_block_twice_and_nested():
    pijit.disable()
    scope = pijit.enabled()
    for _ in range(2):
        with scope:
            with scope:
                assert pijit.enabled()
            assert pijit.enabled()
        assert not pijit.enabled()


def test_as_decorator():
    pijit.disable()

    @pijit.enabled(max_nodes=4321)
    def evaluate(depth):
        inner = evaluate(depth - 1) if depth else ()
        return (bool(pijit.enabled()), pijit.config.max_nodes, *inner)

    assert evaluate(1) == (True, 4321) * 2
    assert not pijit.enabled()
    with pytest.raises(UsageError, match=r"write @pijit\.enabled\(\)"):

        @pijit.enabled
        def wrong():
            pass

    with pytest.raises(UsageError, match="decorates no generator or coroutine function"):

        @pijit.enabled()
        def makes():
            yield

    with pytest.raises(UsageError, match=r"takes options only; write @pijit\.enable\(\)"):
        pijit.enable(scale)
    with pytest.raises(UsageError, match="by keyword, not 3"):
        pijit.enable(3)


def test_unjit():
    fast = warm(pijit.jit(scale))
    assert [fast(1), fast(2)] == [[1, 2], [2, 3]]
    assert pijit.traces(fast)
    assert pijit.unjit(fast) is fast
    assert pijit.traces(fast) == ()
    assert pijit.status(fast) == pijit.Status("cold", "neither jitted nor found under enable()")
    assert fast(3) == [3, 4]
    assert pijit.traces(fast) == ()
    with pytest.raises(UsageError, match=r"function 'scale' was not jitted; pijit\.skip\(\) leaves"):
        pijit.unjit(fast)
    with pytest.raises(UsageError, match="the function itself, not its name 'scale'"):
        pijit.unjit("scale")
    again = warm(pijit.jit(fast))
    assert [again(1), again(2)] == [[1, 2], [2, 3]]
    assert replays(again) >= 2


def test_unjit_of_objects_and_methods():
    class Scaler:
        def __init__(self, by):
            self.by = by

        def __call__(self, x):
            return [x * self.by]

        def method(self, x):
            return [x + self.by]

    one, other = warm(pijit.jit(Scaler(2))), warm(pijit.jit(Scaler(3)))
    method = warm(pijit.jit(one.method))
    before = replays(other)
    for x in (1, 2):
        assert (one(x), other(x), method(x)) == ([2 * x], [3 * x], [x + 2])
    assert pijit.unjit(one) is one
    assert pijit.unjit(method) is method
    for x in (1, 2):
        assert (one(x), other(x), method(x)) == ([2 * x], [3 * x], [x + 2])
    assert root_of(one) == root_of(method) == -1
    assert replays(other) == before + 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_in_a_forked_child():
    fast = warm(pijit.jit(scale))
    child = os.fork()
    if child == 0:
        good = not pijit.enabled() and "forked child" in pijit.status(fast).reason and fast(1) == [1, 2]
        before = replays(fast)
        pijit.enable()
        os._exit(0 if good and fast(1) == [1, 2] and replays(fast) == before + 1 else 3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert pijit.enabled()


SAYS = "import pijit; pijit.enable(); f = pijit.jit(lambda: 1); print(bool(pijit.enabled()), pijit.status(f).reason)"


@pytest.mark.parametrize(
    ("value", "prints", "says"),
    [
        *[(value, f"False PIJIT={value.strip()} in the environment\n", "") for value in ("0", "off", "False", " no ")],
        *[(value, "True \n", "") for value in ("1", "on", "true", "Yes", "")],
        ("maybe", "True \n", "PIJIT=maybe in the environment is neither off (0, off, false, no) nor on; it is on\n"),
    ],
)
def test_environment(value, prints, says):
    environment = {**os.environ, "PIJIT": value, "PYTHONPATH": str(Path(pijit.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", SAYS], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == prints
    assert done.stderr == (says and f"pijit: {says}")
