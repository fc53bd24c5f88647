"""skip, opaque and constant: who may be marked, what a mark does to recordings and roots, and how long it lives."""

from __future__ import annotations

import functools
import gc
import os
import subprocess
import sys
import types
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
            UsageError, match=r"pijit\.skip\(\): .* is not made from a Python function; mark one that calls it"
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


@pytest.mark.parametrize("mark", ["skip", "opaque"])
def test_its_effects_and_exceptions_are_those_of_each_call(mark):
    seen = []

    def note(x):
        seen.append(x)
        if x == "wrong":
            raise KeyError(x)
        return len(seen)

    MARKS[mark](note)
    fast = pijit.jit(lambda x: (x, note(x)))
    assert [fast("a") for _ in range(4)] == [("a", 1), ("a", 2), ("a", 3), ("a", 4)]
    for _ in range(3):
        with pytest.raises(KeyError, match="wrong") as caught:
            fast("wrong")
        assert [entry.name for entry in caught.traceback][-2:] == ["<lambda>", "note"]
    assert seen == ["a"] * 4 + ["wrong"] * 3
    assert fast("a") == ("a", 8)


def test_the_result_of_a_constant_function_is_kept():
    calls = []

    @pijit.constant
    def table(size):
        calls.append(size)
        return tuple(range(size))

    fast = pijit.jit(lambda: (table(3), table(2)))
    assert [fast() for _ in range(4)] == [((0, 1, 2), (0, 1))] * 4
    assert calls == [3, 2]
    pijit.reset(fast)
    assert fast() == ((0, 1, 2), (0, 1))
    assert calls == [3, 2, 3, 2]


def test_marked_functions_are_not_jitted():
    for mark in ("skip", "opaque"):
        MARKS[mark](inner)
        with pytest.raises(
            UsageError, match=rf"inner\(\): it was given to pijit\.{mark}\(\); jit a function that calls"
        ):
            pijit.jit(inner)
    fast = pijit.jit(outer)
    with pytest.raises(UsageError, match="'outer' was jitted; mark the function it was made from"):
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


MODULE = """
def add(x):
    return [x, 1]

def make(k):
    def inside(x):
        return [x, k]
    return inside
"""


@pytest.fixture
def module():
    """A Python module that is the program's own."""
    made = types.ModuleType("pijit_marked_module")
    exec(compile(MODULE, "pijit_marked_module.py", "exec"), vars(made))
    sys.modules[made.__name__] = made
    yield made
    del sys.modules[made.__name__]


def left_out(fast):
    """How many calls of each trace are not looked into."""
    return {sum(node.opaque for node in trace.nodes) for trace in pijit.traces(fast)}


@pytest.mark.parametrize("mark", ["skip", "opaque"])
def test_a_python_module(module, mark):
    inside = module.make(2)
    fast = pijit.jit(lambda x: (module.add(x), inside(x)))
    for x in ("a", "a", "b"):
        assert fast(x) == ([x, 1], [x, 2])
    assert left_out(fast) == {0}
    assert (pijit.skip(module, reason="noise") if mark == "skip" else pijit.opaque(module)) is module
    assert pijit.traces(fast) == ()
    for x in ("a", "a", "b"):
        assert fast(x) == ([x, 1], [x, 2])
    assert left_out(fast) == {2}
    for thing in (module, module.add, inside, module.make(3)):
        assert pijit.status(thing).state == "disabled"
        assert pijit.status(thing).reason.startswith(f"pijit.{mark}()")
    with pytest.raises(UsageError, match=r"it was given to pijit"):
        pijit.jit(module.add)
    _core.set_mark(module, "", "")
    pijit.reset(fast)
    assert fast("a") == fast("a") == (["a", 1], ["a", 2])
    assert left_out(fast) == {0}


class Layer:
    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return self.forward(x)

    def forward(self, x):
        return [x, self.by]

    def other(self, x):
        return [self.by, x]


def use(layer, x):
    """A function whose first argument is the layer, and which is no method of it."""
    return layer(x), layer.other(x)


@pytest.mark.parametrize("mark", ["skip", "opaque"])
def test_an_object(mark):
    one, two = Layer(1), Layer(2)
    fast = pijit.jit(lambda x: (use(one, x), use(two, x)))
    expected = (([1, 1], [1, 1]), ([1, 2], [2, 1]))
    assert [fast(1) for _ in range(3)] == [expected] * 3
    assert left_out(fast) == {0}
    assert MARKS[mark](one) is one
    assert pijit.status(one).state == "disabled"
    assert pijit.status(two).state == "cold"
    assert pijit.traces(fast) == ()
    assert [fast(1) for _ in range(3)] == [expected] * 3
    assert left_out(fast) == {2}  # the two calls of methods of `one`
    with pytest.raises(UsageError, match=r"this Layer was given to pijit"):
        pijit.jit(one)


class Wider(Layer):
    """Calls a method that it has from its base."""

    def around(self, x):
        return self.forward(x)


@pytest.mark.parametrize("mark", ["skip", "opaque"])
def test_an_object_leaves_the_traces_of_others_alone(mark):
    """Only what was recorded through its methods, or those of its bases, is recorded again."""
    wider, layer = Wider(1), Layer(2)
    through = pijit.jit(lambda x: wider.around(x))
    of_base = pijit.jit(lambda x: layer(x))
    beside = pijit.jit(lambda x: (outer(x), inner(x)))
    calls = {through: [1, 1], of_base: [1, 2], beside: (([1], 1), [1])}
    for fast, expected in calls.items():
        assert [fast(1) for _ in range(3)] == [expected] * 3
    kept = pijit.traces(beside)
    MARKS[mark](wider)
    assert pijit.traces(through) == pijit.traces(of_base) == ()
    assert len(kept) == len(pijit.traces(beside)) == 1
    assert pijit.status(beside).state == "replaying"
    for fast, expected in calls.items():
        assert [fast(1) for _ in range(3)] == [expected] * 3
    assert left_out(through) == {1}
    assert left_out(of_base) == left_out(beside) == {0}


def test_a_jitted_object_is_given_back_first():
    layer = pijit.jit(Layer(1))
    with pytest.raises(UsageError, match=r"Layer object was jitted; .* or pijit\.unjit\(\) it"):
        pijit.skip(layer)
    assert pijit.skip(pijit.unjit(layer)) is layer
    assert [layer(1), layer(1)] == [[1, 1], [1, 1]]
    assert pijit.status(layer).state == "disabled"


@pytest.mark.torch
def test_a_layer_under_enable():
    """What is found by itself is not the marked one, and a marked module inside is not followed."""
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

        def forward(self, x):
            return self.second(self.first(x))

    net, x = Net(), torch.ones(1, 3)
    expected = net(x)
    pijit.skip(net.first, reason="changes all the time")
    with pijit.enabled():
        for _ in range(4):
            assert torch.equal(net(x), expected)
    assert left_out(net) == {1}
    pijit.skip(net)
    with pijit.enabled():
        for _ in range(4):
            assert torch.equal(net(x), expected)
    assert pijit.traces(net) == ()
    assert pijit.status(net.first).reason == "pijit.skip(): changes all the time"


def test_the_mark_of_an_object_dies_with_it():
    layer = pijit.skip(Layer(1))
    dead = weakref.ref(layer)
    del layer
    gc.collect()
    assert dead() is None
    for _ in range(100):  # objects at reused addresses are not marked
        assert pijit.status(Layer(1)).state == "cold"
