"""Long replays beside a thread that wants the GIL: it has it in between, and may change what the trace is about."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import pytest
import torch

import pijit
from pijit import _core, api

pytestmark = pytest.mark.torch

SIZE, LAYERS = 384, 40
within: ContextVar[int] = ContextVar("within", default=0)


class Model:
    """Long enough for many changes of threads."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.weight = torch.randn(SIZE, SIZE) / SIZE**0.5
        self.bias = 1

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        token = within.set(1)
        for _ in range(LAYERS):
            x = (x @ self.weight).tanh()
        within.reset(token)
        return x + self.bias


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.no_grad():
        yield
    torch.set_num_threads(threads)


@contextmanager
def beside(work: Callable[[], object]) -> Iterator[list[int]]:
    """A thread does the work again and again; gives how often it has."""
    turns, ends = [0], threading.Event()

    def spin() -> None:
        while not ends.is_set():
            work()
            turns[0] += 1

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        yield turns
    finally:
        ends.set()
        thread.join()


def market(place: Any, inputs: Any, outputs: Any) -> None:
    """Takes offers, and makes no plan of them."""


def completed(fast: Any) -> int:
    """How many replays went through their whole segment."""
    (key,) = [key for trace in pijit.traces(fast) for segment in trace.segments for key in segment.keys]
    return int(key.native_runs)


def jitted(model: Model) -> Any:
    fast = pijit.jit(model)
    _core.set_market(api.root_of(fast), market)
    return fast


def test_the_other_thread_gets_on_within_a_replay() -> None:
    model = Model()
    fast, x = jitted(model), torch.randn(SIZE, SIZE)
    right = model(x)
    assert torch.equal(fast(x), right)
    assert torch.equal(fast(x), right)
    gained: list[int] = []
    with beside(lambda: None) as turns:
        for _ in range(6):
            before = turns[0]
            assert torch.equal(fast(x), right)
            gained.append(turns[0] - before)
    report = _core.root_report(api.root_of(fast))
    assert report["records"] == 1
    assert report["replays"] >= 7
    assert completed(fast) == report["replays"]
    assert min(gained) > 100
    assert within.get() == 0


def test_the_other_thread_gets_on_between_short_replays() -> None:
    """Each call frees the GIL for a moment, when its result dies, so that nobody ever asks for it."""
    fast, x = pijit.jit(lambda x: (x * 2).tanh() + 1), torch.randn(8, 8)
    right = fast(x)
    gained: list[int] = []
    with beside(lambda: None) as turns:
        for _ in range(8):
            before, until = turns[0], time.monotonic() + 0.15
            while time.monotonic() < until:
                assert torch.equal(fast(x), right)
            gained.append(turns[0] - before)
    assert min(gained) > 100


def test_a_weight_that_is_replaced_all_the_time() -> None:
    """By an equal one: what the registers hold must not die with the one before."""
    model = Model()
    fast, x = jitted(model), torch.randn(SIZE, SIZE)
    right = model(x)
    for _ in range(2):
        assert torch.equal(fast(x), right)

    def replace() -> None:
        model.weight = model.weight.clone()
        time.sleep(0.003)

    with beside(replace) as turns:
        for _ in range(8):
            assert torch.equal(fast(x), right)
    assert turns[0] > 8


def test_what_changes_in_between_is_seen() -> None:
    """The last thing that the call reads was changed while its products were computed."""
    model = Model()
    fast, x = jitted(model), torch.randn(SIZE, SIZE)
    model.bias = 0
    base = model(x)
    for _ in range(2):
        assert torch.equal(fast(x), base)
    changed: list[float] = []

    def change() -> None:
        while not started.is_set():
            time.sleep(0.0005)
        until = time.perf_counter() + 0.015
        while time.perf_counter() < until:  # it wants the GIL all the time
            pass
        model.bias += 1
        changed.append(time.perf_counter())

    seen = 0
    for _ in range(40):
        started = threading.Event()
        thread = threading.Thread(target=change)
        thread.start()
        before = model.bias
        began = time.perf_counter()
        started.set()
        result = fast(x)
        ended = time.perf_counter()
        thread.join()
        if began < changed[-1] < ended - 0.01:
            seen += 1
            assert torch.equal(result, base + model.bias)
        else:
            assert torch.equal(result, base + before) or torch.equal(result, base + model.bias)
    assert seen > 0
