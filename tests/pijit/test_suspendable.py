"""jit of generator, coroutine and async generator functions: the body is CPython's, what it calls is recorded."""

from __future__ import annotations

import asyncio
import contextlib
import inspect

import pytest

import pijit
from pijit import _core
from pijit.api import root_of
from pijit.errors import UsageError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def make_step():
    """A function that no other test has called."""

    def step(x, by):
        return x * by + 1

    return step


def report(fn):
    return _core.root_report(root_of(fn)) if root_of(fn) >= 0 else None


@pytest.fixture(autouse=True)
def _found_by_nothing_else():
    pijit.disable()
    yield
    pijit.jit(lambda: None)


def check(run, step, kind):
    """`run(xs)` gives what plain CPython gives at each of its calls, and `step` is recorded under it."""
    xs = [torch.full((3,), float(i)) for i in range(4)]
    for by in (2.0, 2.0, 3.0):
        given = run(xs, by)
        assert [tuple(y.tolist()) for y in given] == [tuple((x * by + 1).tolist()) for x in xs]
    assert report(step)["replays"] > 0
    assert kind.state == "disabled"


def test_generator():
    step = make_step()

    @pijit.jit
    def produce(xs, by):
        for x in xs:
            yield step(x, by)

    assert inspect.isgeneratorfunction(produce)
    check(lambda xs, by: list(produce(xs, by)), step, pijit.status(produce))
    assert pijit.status(produce).reason == (
        "the body of a generator runs in CPython; the functions that it calls are recorded"
    )
    before = report(step)["replays"]
    assert torch.equal(step(torch.ones(3), 3.0), torch.full((3,), 4.0))  # outside it is plain
    assert report(step)["replays"] == before
    pijit.unjit(produce)
    list(produce([torch.ones(3)] * 3, 3.0))
    assert report(step)["replays"] == before
    assert pijit.status(produce).state == "cold"


def test_coroutine():
    step = make_step()

    @pijit.jit
    async def serve(xs, by):
        out = []
        for x in xs:
            await asyncio.sleep(0)
            out.append(step(x, by))
        return out

    assert inspect.iscoroutinefunction(serve)
    check(lambda xs, by: asyncio.run(serve(xs, by)), step, pijit.status(serve))
    assert "the body of a coroutine runs in CPython" in pijit.status(serve).reason


def test_async_generator():
    step = make_step()

    @pijit.jit
    async def stream(xs, by):
        for x in xs:
            await asyncio.sleep(0)
            yield step(x, by)

    async def collect(xs, by):
        return [y async for y in stream(xs, by)]

    check(lambda xs, by: asyncio.run(collect(xs, by)), step, pijit.status(stream))
    assert "the body of an async generator runs in CPython" in pijit.status(stream).reason


def test_methods_and_objects():
    step = make_step()

    class Source:
        @pijit.jit
        def method(self, xs, by):
            for x in xs:
                yield step(x, by)

    class Loader:
        def __call__(self, xs, by):
            for x in xs:
                yield other(x, by)

    check(lambda xs, by: list(Source().method(xs, by)), step, pijit.status(Source().method))
    other = make_step()
    loader = pijit.jit(Loader())
    check(lambda xs, by: list(loader(xs, by)), other, pijit.status(loader))
    count = report(other)["replays"]
    list(Loader()([torch.ones(3)] * 3, 3.0))  # another object is plain
    assert report(other)["replays"] == count


def test_send_throw_and_close():
    step = make_step()
    log = []

    def talk(x):
        try:
            while True:
                try:
                    x = yield step(x, 2.0)
                except KeyError:
                    log.append("caught")
                    x = torch.zeros(2)
        finally:
            log.append("closed")

    def use(make):
        log.clear()
        talking = make(torch.ones(2))
        out = [next(talking), talking.send(torch.full((2,), 5.0)), talking.throw(KeyError("x"))]
        talking.close()
        with contextlib.suppress(StopIteration):
            next(talking)
        return [y.tolist() for y in out], list(log)

    expected = use(talk)
    fast = pijit.jit(talk)
    assert [use(fast) for _ in range(4)] == [expected] * 4
    assert report(step)["replays"] > 0


def test_strict_cannot_be_had():
    def produce():
        yield 1

    async def serve():
        return 1

    for fn, kind in ((produce, "a generator"), (serve, "a coroutine")):
        with pytest.raises(UsageError, match=f"strict=True cannot be had: the body of {kind} runs in CPython"):
            pijit.jit(fn, strict=True)
    assert list(pijit.jit(produce)()) == list(pijit.jit(produce)()) == [1]


def test_explain():
    def produce(n):
        yield n

    report = pijit.explain(produce, 3)
    assert list(report.result) == [3]
    assert "the body of a generator runs in CPython" in report.status.reason
    assert pijit.status(produce).state == "cold"
