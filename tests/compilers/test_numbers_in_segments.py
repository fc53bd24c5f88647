"""Numbers that functions of Python compute of sizes stand in segments: the key of a plan fixes them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from counted import Counting, registered
from torch.nn import functional as F

import pijit
from pijit import _core
from pijit.compilers import market
from pijit.graph.build import python_calls

pytestmark = pytest.mark.torch


@pytest.fixture
def counting() -> Iterator[Counting]:
    yield from registered("counting")


@pytest.fixture(autouse=True)
def without_gradients(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PIJIT_PASSES", "-replacements")  # plans of these tests have the bits of eager execution
    with torch.no_grad():
        yield


def heads(queries: int, keys: int) -> list[torch.Tensor]:
    return [torch.randn(2, 3, length, 8) for length in (queries, keys, keys)]


def shares(fast: Any) -> list[float]:
    return [segment.share for segment in pijit.traces(fast)[0].segments]


def check(counting: Counting, fn: Callable[..., Any], calls: list[list[Any]]) -> Any:
    """Each form is answered by a plan in the end, for other data, and every call gives the bits of eager execution."""
    fast = pijit.jit(fn, backend="counting")
    for given in calls:
        for _ in range(3):
            assert torch.equal(fast(*given), fn(*given))
            assert market.wait(60)
        runs, other = counting.runs, [each + 1 if isinstance(each, torch.Tensor) else each for each in given]
        assert torch.equal(fast(*other), fn(*other))
        assert counting.runs == runs + 1
    assert not any(key.refused for segment in pijit.traces(fast)[0].segments for key in segment.keys)
    return fast


def test_attention_as_it_is_written(counting: Counting) -> None:
    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        return F.softmax(scores, dim=-1) @ v * 2

    fast = check(counting, attention, [heads(4, 6), heads(7, 2), heads(4, 6)])
    assert shares(fast) == [1]
    assert any("softmax" in each for each in counting.operators[0])
    assert any("matmul" in each for each in counting.operators[0])


def test_padding_as_it_is_computed(counting: Counting) -> None:
    def same(x: Any, weight: Any) -> Any:
        rows, columns = x.shape[-2:]
        high = max((math.ceil(rows / 2) - 1) * 2 + 3 - rows, 0)
        wide = max((math.ceil(columns / 2) - 1) * 2 + 3 - columns, 0)
        x = F.pad(x, [wide // 2, wide - wide // 2, high // 2, high - high // 2])
        return F.conv2d(x, weight, stride=2).relu() * round(rows / columns, 1) + abs(rows - columns)

    weight = torch.randn(4, 2, 3, 3)
    fast = check(counting, same, [[torch.randn(1, 2, n, m), weight] for n, m in ((8, 9), (7, 7), (5, 12))])
    assert shares(fast) == [1]


@pytest.mark.parametrize("function", _core.number_functions() or (), ids=lambda each: each.__name__)
def test_each_function_that_segments_have_has_a_row(function: Callable[..., Any]) -> None:
    rows = {id(each) for each in python_calls._ROWS}
    assert id(function) in rows


def test_a_function_without_a_row_ends_a_segment(counting: Counting) -> None:
    def scaled(x: Any) -> Any:
        y = (x.exp() + 1).tanh() * 2
        return (y * math.lgamma(x.shape[0])).exp().sum(0) - 1

    fast = pijit.jit(scaled, backend="counting")
    for rows in (3, 5):
        for _ in range(3):
            x = torch.randn(rows, 4)
            assert torch.equal(fast(x), scaled(x))
            assert market.wait(60)
    assert len(shares(fast)) == 2
    assert counting.runs


def test_a_number_of_the_program_that_differs_ends_a_segment(counting: Counting) -> None:
    """What is no size, and no number of the key, may be another object in each call."""

    class Settings:
        factor = 2.5

    def scaled(x: Any, settings: Any) -> Any:
        y = (x.exp() + 1).tanh()
        return (y * math.sqrt(settings.factor)).exp() * operator.add(settings.factor, x.shape[0])

    fast, settings = pijit.jit(scaled, backend="counting"), Settings()
    for factor in (2.5, 2.5, 2.5, 4.0, 9.0, 2.5, 16.0):
        settings.factor = factor
        x = torch.randn(3, 4)
        assert torch.equal(fast(x, settings), scaled(x, settings))
        assert market.wait(60)


def test_a_number_that_data_gives_is_in_no_segment(counting: Counting) -> None:
    def scaled(x: Any) -> Any:
        y = (x.exp() + 1).tanh()
        return (y * math.sqrt(abs(x.sum().item()) + x.shape[0])).exp().relu() + 1

    fast = pijit.jit(scaled, backend="counting")
    for _ in range(5):
        x = torch.randn(3, 4)
        assert torch.equal(fast(x), scaled(x))
        assert market.wait(60)


def test_what_is_computed_is_there_where_a_replay_is_left(counting: Counting) -> None:
    def decides(x: Any) -> Any:
        factor = math.sqrt(x.shape[0]) + 1
        whole = int(factor)
        hidden = (x * factor).tanh() * whole
        other = hidden.exp() + factor
        if other.sum() > 100:
            return hidden, factor, whole, sorted(locals())
        return other

    fast = pijit.jit(decides, backend="counting")
    for _ in range(3):
        fast(torch.zeros(3, 4))
        assert market.wait(60)
    large = torch.full((3, 4), 9.0)
    runs, right, got = counting.runs, decides(large), fast(large)
    assert counting.runs > runs
    assert torch.equal(got[0], right[0])
    assert got[1:] == right[1:]
    assert [type(each) for each in got[1:3]] == [float, int]


def test_a_number_that_the_program_is_given(counting: Counting) -> None:
    def scaled(x: Any) -> Any:
        factor = math.sqrt(x.shape[0])
        y = (x * factor).exp().tanh() + 1
        return y, factor, y * factor

    fast = pijit.jit(scaled, backend="counting")
    for rows in (3, 5, 3, 3, 5, 5):
        x = torch.randn(rows, 4)
        got, right = fast(x), scaled(x)
        assert torch.equal(got[0], right[0])
        assert torch.equal(got[2], right[2])
        assert got[1] == right[1]
        assert type(got[1]) is float
        assert market.wait(60)


def test_sizes_that_are_free(counting: Counting) -> None:
    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-2))
        return torch.softmax(scores, -1) @ v * math.ceil(q.shape[-2] / 2)

    fast = pijit.jit(attention, backend="counting", dynamic=True)
    for queries, keys in ((4, 6), (7, 2), (5, 3), (9, 9), (4, 6)):
        for _ in range(2):
            given = heads(queries, keys)
            assert torch.equal(fast(*given), attention(*given))
            assert market.wait(60)
