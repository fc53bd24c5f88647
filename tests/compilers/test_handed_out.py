"""What replays hand out where compiled code answers: memory that is the program's own, and the program's own errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from counted import Counting, registered
from plans import backends
from torch.nn import functional

import pijit
from pijit.compilers import market

pytestmark = pytest.mark.torch


@pytest.fixture
def counting() -> Iterator[Counting]:
    yield from registered("counting")


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def settled(fast: Any, *args: Any) -> None:
    """Calls until whatever is compiled is there."""
    for _ in range(3):
        fast(*args)
        assert market.wait(120)


def same(found: Any, expected: Any) -> None:
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", backends("torchscript", "onnxruntime", "openvino", "xla"))
def test_a_replay_hands_out_no_constant_twice(backend: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        return torch.tanh(x), torch.ones(4) * 2

    fast = pijit.jit(fn, backend=backend)
    settled(fast, torch.randn(4))
    for _ in range(3):
        x = torch.randn(4)
        found = fast(x)
        same(found, fn(x))
        found[1].add_(1)


@pytest.mark.parametrize("how", ["kept", "same tuple", "twice", "input"])
def test_what_a_backend_keeps_is_copied_and_what_it_gives_twice_is_two(counting: Counting, how: str) -> None:
    kept: list[Any] = []

    def around(outputs: Any) -> Any:
        if how == "twice":
            return (outputs[0], outputs[0])
        kept.append(tuple(outputs))
        return kept[0] if how == "same tuple" else outputs

    def fn(x: torch.Tensor) -> Any:
        return x.tanh() * 2, x.tanh() * 2

    fast = pijit.jit(fn, backend="counting")
    x = torch.randn(4)
    settled(fast, x)
    counting.around = around
    for _ in range(3):
        found, expected = fast(x), fn(x)
        same(found, expected)
        found[0].add_(1)
        assert torch.equal(found[1], expected[1])
    assert counting.runs > 2


def test_an_output_is_the_input_itself_where_eager_gives_it(counting: Counting) -> None:
    def fn(x: torch.Tensor) -> Any:
        y = (x.exp() * 2).sin().tanh()
        return y, x.contiguous(), y.view(2, 2), x[1:]

    fast = pijit.jit(fn, backend="counting")
    settled(fast, torch.randn(4))
    runs = counting.runs
    for _ in range(2):
        x = torch.randn(4)
        found = fast(x)
        assert found[1] is x
        assert found[2].untyped_storage().data_ptr() == found[0].untyped_storage().data_ptr()
        assert found[3].data_ptr() == x[1:].data_ptr()
        same(found, fn(x))
    assert counting.runs == runs + 2


@pytest.mark.parametrize("backend", backends("onnxruntime", "xla", "openvino", "torchscript"))
def test_the_programs_own_error_is_eagers_and_ends_no_plan(backend: str) -> None:
    weight = torch.randn(5, 8)

    def fn(i: torch.Tensor) -> torch.Tensor:
        x = functional.embedding(i, weight).tanh()
        return (x * 2).exp() + x.sin()

    fast = pijit.jit(fn, backend=backend)
    good, bad = torch.tensor([0, 4]), torch.tensor([0, 5])
    settled(fast, good)
    for _ in range(2):
        with pytest.raises(IndexError, match="index out of range in self") as raised:
            fast(bad)
        assert raised.traceback[-1].name == "embedding"
        same([fast(good)], [fn(good)])
    (key,) = pijit.traces(fast)[0].segments[0].keys
    assert not key.refused
    assert key.plans[0].runs == 3


def test_a_plan_that_raises_where_native_replay_does_not_is_dropped(counting: Counting) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x.exp().tanh() * 2

    def fails(outputs: Any) -> Any:
        raise ValueError("it is broken")

    fast = pijit.jit(fn, backend="counting")
    x = torch.randn(4)
    settled(fast, x)
    counting.around = fails
    assert torch.equal(fast(x), fn(x))
    assert "it is broken" in str(pijit.traces(fast)[0].segments[0].keys[0].refused)
