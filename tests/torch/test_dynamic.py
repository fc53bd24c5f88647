"""`jit(dynamic=)` and `pijit.dynamic`: which sizes of tensors a trace is for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import pijit
from pijit import _core, _varying_sizes
from pijit.errors import UsageError

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def no_marks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(_varying_sizes, "_sizes", {})
    _core.set_varying_sizes([])
    yield
    _core.set_varying_sizes([])


def halves(x: Any) -> Any:
    """Computes with sizes, and gives one back."""
    rows = x.shape[0]
    half = rows // 2
    return x.reshape(-1)[: half * x.size(1)].view(half, x.size(1)).relu() * rows, len(x)


def same(fast: Callable[..., Any], fn: Callable[..., Any], *given: Any) -> None:
    got, right = fast(*map(torch.clone, given)), fn(*map(torch.clone, given))
    assert torch.equal(got[0], right[0])
    assert got[0].stride() == right[0].stride()
    assert got[1:] == right[1:]


def test_sizes_are_free_unless_they_are_fixed() -> None:
    for dynamic, traces in ((None, 1), (True, 1), (False, 3)):
        fast = pijit.jit(halves, dynamic=dynamic)
        for rows, columns in ((4, 6), (8, 6), (4, 6), (8, 6), (4, 2), (4, 2), (8, 6), (4, 6)):
            same(fast, halves, torch.randn(rows, columns))
        assert len(pijit.traces(fast)) == traces
        assert pijit.status(fast).state == "replaying"


def test_fixed_sizes_are_constants_that_the_guards_check() -> None:
    fast = pijit.jit(halves, dynamic=False)
    same(fast, halves, torch.randn(4, 6))
    same(fast, halves, torch.randn(4, 6))
    (trace,) = pijit.traces(fast)
    assert "x: float32[4, 6] on cpu" in str(trace)
    assert not [node for node in trace.nodes if "size" in str(node)]
    same(fast, halves, torch.randn(10, 6))
    assert pijit.why(fast) == "x: float32[10, 6] now, float32[4, 6] before"
    same(fast, halves, torch.randn(10, 6))
    free = pijit.jit(halves)
    same(free, halves, torch.randn(4, 6))
    assert [node for node in pijit.traces(free)[0].nodes if "size" in str(node)]


def test_marked_sizes_stay_free() -> None:
    fast = pijit.jit(halves, dynamic=False)
    for rows in (5, 7, 10, 13):
        same(fast, halves, pijit.dynamic(torch.randn(rows, 6), 0))
    assert len(pijit.traces(fast)) == 1
    assert "x: float32[*, 6] on cpu" in str(pijit.traces(fast)[0])
    same(fast, halves, torch.randn(5, 4))
    same(fast, halves, torch.randn(5, 4))
    assert len(pijit.traces(fast)) == 2


def test_what_follows_from_a_marked_size_stays_free() -> None:
    def pairs(x: Any) -> Any:
        doubled = torch.cat([x, x])
        return doubled.sum(1) / doubled.shape[0], doubled.shape

    fast = pijit.jit(pairs, dynamic=False)
    for rows in (5, 7, 9):
        same(fast, pairs, pijit.dynamic(torch.randn(rows, 3), -2))
    assert len(pijit.traces(fast)) == 1


def test_a_size_that_the_program_fixes_is_no_error() -> None:
    def rows(x: Any) -> Any:
        total = x.new_zeros(x.shape[1])
        for row in range(x.shape[0]):
            total = total + x[row] * row
        return total, x.shape[0]

    for dynamic in (None, True, False):
        fast = pijit.jit(rows, dynamic=dynamic)
        for count in (3, 5, 3, 5):
            same(fast, rows, pijit.dynamic(torch.randn(count, 4), 0))


def test_sizes_that_change_during_the_call() -> None:
    def grown(x: Any, y: Any) -> Any:
        x.resize_(x.shape[0] + 1, x.shape[1]).fill_(1)
        return x.sum(0) * x.shape[0] + y.shape[0], x.shape, y.shape

    fast = pijit.jit(grown, dynamic=False)
    for count in (3, 3, 4, 4, 3):
        same(fast, grown, torch.randn(count, 4), torch.randn(count))
    for count in (3, 4):  # the second input is what the first operator changes
        one, other = torch.randn(count, 4), torch.randn(count, 4)
        assert [each for each in fast(one, one)[1:]] == [each for each in grown(other, other)[1:]]


def test_a_module_whose_parameters_change_their_sizes() -> None:
    layer = torch.nn.Linear(4, 3)

    def out(x: Any) -> Any:
        made = layer(x)
        return made, made.shape[1]

    fast = pijit.jit(out, dynamic=False)
    for features in (3, 3, 5, 5):
        layer.weight = torch.nn.Parameter(torch.randn(features, 4))
        layer.bias = torch.nn.Parameter(torch.randn(features))
        same(fast, out, torch.randn(2, 4))
    with torch.no_grad():
        layer.weight.set_(torch.randn(6, 4))
        layer.bias.set_(torch.randn(6))
    same(fast, out, torch.randn(2, 4))
    same(fast, out, torch.randn(2, 4))


def test_calls_within_recorded_code() -> None:
    def marked(x: Any) -> Any:
        return pijit.dynamic(x, 0) * 2, x.shape[0]

    fast = pijit.jit(marked)
    for rows in (3, 3, 5, 5):
        same(fast, marked, torch.randn(rows, 2))
    assert set(_varying_sizes.sizes()) == {3, 5}


def test_the_newest_sizes_are_kept() -> None:
    for size in range(2, 200):
        pijit.dynamic(torch.empty(size, 1, device="meta"), 0)
    pijit.dynamic(torch.empty(150, device="meta"))
    assert _varying_sizes.sizes()[-2:] == (199, 150)
    assert len(_varying_sizes.sizes()) == 64


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pijit.jit(halves, dynamic=2), "dynamic is True, False or None, not 2; pijit.dynamic"),
        (lambda: pijit.jit(dynamic="x")(halves), "dynamic is True, False or None, not 'x'"),
        (lambda: pijit.dynamic([1, 2], 0), "takes a tensor and its dimensions that vary, not"),
        (lambda: pijit.dynamic(torch.Tensor, 0), "takes a tensor and its dimensions that vary"),
        (lambda: pijit.dynamic(torch.ones(2, 3), 2), "has 2 dimensions, and none is 2"),
        (lambda: pijit.dynamic(torch.ones(2, 3), -3), "has 2 dimensions, and none is -3"),
        (lambda: pijit.dynamic(torch.ones(2, 3), "rows"), "a dimension is a whole number, not 'rows'"),
        (lambda: pijit.dynamic(torch.ones(2, 3), True), "a dimension is a whole number, not True"),
    ],
)
def test_bad_input(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()
    assert _varying_sizes.sizes() == ()
