"""Numbers that differ from call to call (arguments, attributes, globals, items of dicts) are read anew at each replay,
and are constants again only where something needs to know them.
"""

from __future__ import annotations

import math
import types
from collections.abc import Iterator
from typing import Any

import pytest
import side_by_side
import torch
from side_by_side import Jit, replayed
from torch import Tensor, nn

import pijit

pytestmark = pytest.mark.torch

TABLE = side_by_side.Table()
scenario = TABLE.add
SCALE = 1.0


def data(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


@scenario()
def arguments(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, k: Any, more: list[Any], *, by: Any = 2) -> Any:
        return x * k + more[0], k + by, k, more[1] * 2, x / by, f"{k}", [k, by]

    f = jit(f)
    yield lambda: f(data(3), 2, [1, 0.5])
    yield lambda: f(data(3), 3, [7, 0.25])
    yield lambda: f(data(3), 4, [8, 0.5])
    for k in range(5, 20):
        yield replayed(lambda: f(data(3), k, [k - 30, k / 8]))
    yield lambda: f(data(3), 5, [1, 2.0], by=3)
    for k in range(4):
        yield lambda: f(data(3), 5, [1, 2.0], by=k)
    for k in (2**62, 2**64, -(2**63), 2**63 - 1, 0, True, 2.5, -0.0, math.nan, 3 + 1j, "a", None, 4):
        yield lambda: f(data(3), k, [1, 2.0])
        yield lambda: f(data(3), k, [1, 2.0])


@scenario(whole=False)
def calls_with_keywords_that_need_to_know_them(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: (math.prod(x.shape[:1], start=x.shape[0]), sorted(x.shape, reverse=len(x) > 3), x.sum()))
    for size in (2, 3, 3, 4, 5, 2, 3):
        yield lambda: f(data(size, 3))


@scenario()
def identity_of_what_was_passed(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, a: Any, b: Any) -> Any:
        return a is b, a == b, a, b, x + a

    f = jit(f)
    big, same = 10**15, int("1" + "0" * 15)
    for a, b in ((5, 5), (6, 6), (7, 8), (big, big), (big, same), (1.5, 1.5), (1.5, 1), (9, 9), (big, same)):
        yield lambda: f(data(2), a, b)


@scenario()
def dimensions_and_sizes(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, at: int, n: int) -> Any:
        y = x.flatten(at)
        return (
            y.dim(),
            y.shape,
            x.sum(at),
            x.unsqueeze(at),
            x[at],
            x[:, :n],
            torch.zeros(n, 2),
            x.repeat(n, 1, 1),
            n // 2,
        )

    f = jit(f)
    for at, n in ((0, 1), (1, 2), (0, 3), (1, 1), (-1, 2), (1, 0), (0, 4), (-2, 2), (1, 3), (5, 2), (0, -1), (1, 1)):
        yield lambda: f(data(2, 3, 4), at, n)


@scenario()
def rounds_of_a_loop(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, n: int, parts: list[str]) -> Any:
        for i in range(n):
            x = x * i + 1
        return x, parts[n], {0: "none", 1: "one"}.get(n), "ab" * n, n in (1, 2), (10, 20, 30, 40)[n]

    f = jit(f)
    for n in (1, 2, 3, 0, 1, 2, 3, 0):
        yield lambda: f(data(2), n, list("abcd"))
    for n in (3, 1, 0, 2):
        yield replayed(lambda: f(data(2), n, list("abcd")))
    yield lambda: f(data(2), 4, list("abcd"))


@scenario()
def branches(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, step: int, rate: float) -> Any:
        if step % 4 == 0:
            return x * rate
        if rate > 0.5 and step:
            return x - step
        return x + step

    f = jit(f)
    for step in range(64):
        yield lambda: f(data(2), step, 1 / (step + 1))
    for step in (4, 8, 41, 43):
        yield replayed(lambda: f(data(2), step, 0.25))


@scenario()
def attributes_globals_and_cells(jit: Jit) -> Iterator[Any]:
    global SCALE
    shift = 1.0

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rate, self.options = 0.5, {"lr": 0.1, "name": "a"}
            self.plain = types.SimpleNamespace(eps=1e-5)

        def forward(self, x: Tensor) -> Any:
            return x * self.rate + self.options["lr"] * SCALE - shift + self.plain.eps, self.options["name"]

    layer = Layer()
    f = jit(layer)
    SCALE = 1.0
    yield lambda: f(data(2))
    yield replayed(lambda: f(data(2)))
    for i in range(6):
        layer.rate, layer.options["lr"], layer.plain.eps = 1.0 / (i + 2), i * 0.25, 1e-6 * i
        SCALE, shift = i + 0.5, i * 2.0
        if i < 4:
            yield lambda: f(data(2))
        else:
            yield replayed(lambda: f(data(2)))
    layer.options["name"] = "b"
    yield lambda: f(data(2))
    layer.rate = 3
    yield lambda: f(data(2))
    layer.rate = 0.5
    yield lambda: f(data(2))
    layer.rate = torch.ones(2)
    yield lambda: f(data(2))
    del layer.options["lr"]
    yield lambda: f(data(2))
    SCALE = 1.0


@pytest.mark.parametrize("name", TABLE.cases())
def test_same(name: str) -> None:
    TABLE.check(name, __file__)


def test_one_trace_for_every_number() -> None:
    f = pijit.jit(lambda x, k: x * k + 1)
    for k in range(100):
        assert torch.equal(f(data(3), k), data(3) * k + 1)
    (trace,) = pijit.traces(f)
    assert (trace.replays, trace.exits) == (97, 0)


def test_two_numbers_are_two_ways() -> None:
    """Each has its trace, in which the number is a constant."""
    f = pijit.jit(lambda x, k: x * 2 if k > 1 else x)
    for k in (1, 2) * 10:
        assert torch.equal(f(data(3), k), data(3) * k)
    traces = pijit.traces(f)
    assert [trace.replays for trace in traces] == [9, 9]
    assert sum(trace.exits for trace in traces) == 0


def test_a_number_of_rounds_is_a_guard() -> None:
    """What a recording had to know of a number is asked before the replay, not in the middle of it."""

    def f(x: Tensor, n: int) -> Tensor:
        for _ in range(n):
            x = x + 1
        return x

    fast = pijit.jit(f)
    for n in (1, 2, 3, 1, 2, 3, 1, 2, 3):
        assert torch.equal(fast(data(3), n), f(data(3), n))
    traces = pijit.traces(fast)
    assert len(traces) == 3
    assert sum(trace.exits for trace in traces) == 0
