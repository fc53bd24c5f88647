"""`pijit.wait`: what it counts; and what is said of work that is under way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from counted import Counted, Counting, registered
from torch import nn

import pijit
from pijit import _core, api
from pijit.compilers import market
from pijit.errors import UsageError

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    pijit.reset()  # functions of other tests, whose next calls would offer something
    assert market.wait(60)
    with torch.no_grad():
        yield
    market.wait(60)


@pytest.fixture
def counting() -> Iterator[Counting]:
    yield from registered("counting")


def layers() -> nn.Module:
    return nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(4))).eval()


def with_market(fn: Callable[..., Any], *backends: Counted, automatic: bool = False) -> Any:
    fast = pijit.jit(fn)
    _core.set_market(api.root_of(fast), market.Market(backends, automatic=automatic, turns=automatic))
    return fast


def key_of(fast: Any) -> Any:
    return pijit.traces(fast)[0].segments[0].keys[0]


@pytest.mark.parametrize("automatic", [False, True])
def test_what_the_next_calls_will_offer_counts(automatic: bool) -> None:
    module, backend, x = layers(), Counted("one"), torch.randn(2, 8)
    fast = with_market(lambda x: module(x), backend, automatic=automatic)
    assert pijit.wait(0)  # it was not called
    fast(x)
    assert not pijit.wait(0)
    assert not pijit.wait(0)  # asking alone brings nothing forward
    calls = 1
    while not pijit.wait(10):
        assert torch.equal(fast(x), module(x))
        calls += 1
    assert backend.compiled == [False]
    assert calls == (3 if automatic else 2)
    assert [row.state for row in market.of(fast).outcomes] == ["installed"]


def test_without_a_timeout_it_ends_where_only_a_call_brings_something_forward() -> None:
    module, x = layers(), torch.randn(2, 8)
    fast = with_market(lambda x: module(x), Counted("one"))
    fast(x)
    assert not pijit.wait()
    fast(x)
    assert pijit.wait()
    assert [row.state for row in market.of(fast).outcomes] == ["installed"]


def test_what_is_called_once_only_is_not_waited_for_for_ever() -> None:
    once, often, x = layers(), layers(), torch.randn(2, 8)
    setup = with_market(lambda x: once(x), Counted("one"))
    fast = with_market(lambda x: often(x), Counted("two"))
    setup(x)
    for _ in range(20):
        fast(x)
        if pijit.wait(2):  # no longer: another thread of the program, as pytest-xdist has one, might call
            break
    else:
        raise AssertionError("it never ended")
    assert [row.state for row in market.of(fast).outcomes] == ["installed"]


def test_calls_of_another_thread_are_waited_for() -> None:
    module, x = layers(), torch.randn(2, 8)
    fast = with_market(lambda x: module(x), Counted("one"))
    fast(x)

    def call_later() -> None:
        time.sleep(0.2)
        with torch.no_grad():
            fast(x)

    thread = threading.Thread(target=call_later)
    thread.start()
    assert pijit.wait(30)
    thread.join()
    assert [row.state for row in market.of(fast).outcomes] == ["installed"]


def test_the_time_is_over_while_something_compiles_and_it_says_what() -> None:
    module, backend, x = layers(), Counted("slow"), torch.randn(2, 8)
    backend.begins = threading.Event()
    fast = with_market(lambda x: module(x), backend)
    fast(x)
    fast(x)
    while not backend.compiled:
        time.sleep(0.01)
    began = time.monotonic()
    assert not pijit.wait(0.1)
    assert 0.1 <= time.monotonic() - began < 5
    time.sleep(0.2)
    said = key_of(fast)
    assert 0.2 < said.compiling["slow"] < 60
    assert "compiling with slow for " in str(said)
    assert "offered" not in str(pijit.traces(fast)[0].segments[0])
    assert pijit.status(fast).reason.startswith("compiling with slow for ")
    backend.begins.set()
    assert pijit.wait(60)
    assert not key_of(fast).compiling
    assert pijit.status(fast).reason == ""


@pytest.mark.parametrize("timeout", [-1, "3", True, float("nan")])
def test_a_timeout_is_a_number_of_seconds(timeout: Any) -> None:
    with pytest.raises(UsageError, match="a number of seconds"):
        pijit.wait(timeout)


def test_infinity_is_no_timeout() -> None:
    assert pijit.wait(float("inf"))
    assert pijit.wait(1)


class TestToldOnce:
    """What a backend of the program does wrong is said once, with its traceback."""

    def run(self, fn: Any, backend: str) -> None:
        fast, x = pijit.jit(fn, backend=backend), torch.randn(2, 8)
        right = fn(x)
        for _ in range(4):
            assert torch.equal(fast(x), right)
            assert market.wait(60)

    @pytest.fixture(autouse=True)
    def said(self, caplog: pytest.LogCaptureFixture) -> None:
        from pijit.compilers import _failures

        _failures.forget()
        self.log = caplog

    def only(self, name: str) -> str:
        (record,) = [each for each in self.log.records if f"'{name}'" in each.getMessage()]
        assert record.levelname == "WARNING"
        return record.getMessage()

    def test_it_raises_while_it_compiles(self) -> None:
        def compiler_that_raises(module: Any, examples: Any) -> Any:
            raise ZeroDivisionError("of mine")

        pijit.register_backend("raises", compiler_that_raises)
        for module in (layers(), layers()):
            self.run(lambda x, module=module: module(x), "raises")
        said = self.only("raises")
        assert "ZeroDivisionError: of mine; native replay answers" in said
        assert "in compiler_that_raises" in said
        assert said.endswith("ZeroDivisionError: of mine")
        assert "pijit/compilers" not in said

    def test_it_gives_what_cannot_be_called(self) -> None:
        pijit.register_backend("gives", lambda module, examples: 3)  # type: ignore[arg-type,return-value]
        for module in (layers(), layers()):
            self.run(lambda x, module=module: module(x), "gives")
        assert "gave int object, which cannot be called" in self.only("gives")

    def test_its_code_raises(self) -> None:
        def code(*inputs: Any) -> Any:
            raise KeyError("of mine")

        pijit.register_backend("dies", lambda module, examples: code)
        for module in (layers(), layers()):
            self.run(lambda x, module=module: module(x), "dies")
        said = self.only("dies")
        assert "what it has compiled raised KeyError" in said
        assert "in code" in said

    def test_its_code_gives_no_tensor(self) -> None:
        pijit.register_backend("words", lambda module, examples: lambda *inputs: ["no tensor"])
        for module in (layers(), layers()):
            self.run(lambda x, module=module: module(x), "words")
        assert "gave str object in the place of a tensor" in self.only("words")

    def test_its_code_raises_later(self, counting: Counting) -> None:
        module, x = layers(), torch.randn(2, 8)
        fast = pijit.jit(lambda x: module(x), backend="counting")
        for _ in range(4):
            fast(x)
            assert market.wait(60)
        assert counting.runs

        def raises(outputs: Any) -> Any:
            raise KeyError("now")

        counting.around = raises
        for _ in range(4):
            assert torch.equal(fast(x), module(x))
        assert "what it has compiled raised KeyError" in self.only("counting")
