"""Sizes are numbers of the trace: one trace serves every shape on which Python takes the same way, and a side trace
where it takes another.
"""

from __future__ import annotations

import copy
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
LENGTHS = (5, 3, 4, 17, 2, 100, 5)


def data(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@scenario()
def new_lengths(jit: Jit) -> Iterator[Any]:
    def heads(x: Tensor) -> Any:
        batch, length, width = x.shape
        split = x.view(batch, length, 2, width // 2).transpose(1, 2)
        places = torch.arange(length) + x.size(-1)
        ones = x.new_ones(batch, 1, length).expand(-1, 3, -1)
        return split, places, ones, x[:, : length - 1], x.reshape(batch * length, -1), x.shape[:-1] + (7,), x.numel()

    f = jit(heads)
    for seed in range(2):
        yield lambda: f(data(seed, 2, 6, 8))
    for length in LENGTHS:
        yield replayed(lambda: f(data(length, 3, length, 4)))
    yield replayed(lambda: f(data(1, 1, 1, 2)))
    yield lambda: f(data(1, 0, 5, 2))
    yield lambda: f(data(1, 2, 3))
    yield lambda: f(data(1, 2, 0, 4))


@scenario()
def arithmetic_of_sizes(jit: Jit) -> Iterator[Any]:
    def numbers(x: Tensor) -> Any:
        n, m = x.size(0), len(x[0])
        flags = n < m, n <= m, n != 3, not n, n == m - 1, bool(m), n > 2.5, -n < 0.5
        return (
            n + m,
            n - m,
            n * m,
            n / m,
            n // m,
            n % m,
            -n,
            +n,
            n + 0.5,
            1.5 * n,
            n / 2.0,
            (n - 8) // 3,
            (n - 8) % 5,
            flags,
        )

    f = jit(numbers)
    yield lambda: f(data(1, 3, 4))
    yield replayed(lambda: f(data(1, 3, 4)))
    for n, m in ((3, 5), (3, 400), (3, 4)):
        yield replayed(lambda: f(data(1, n, m)))
    for n, m in ((2, 4), (9, 2), (1, 1), (3, 4)) * 3:
        yield lambda: f(data(1, n, m))


@scenario()
def sizes_kept_and_compared(jit: Jit) -> Iterator[Any]:
    longest = {"length": 0}

    def f(x: Tensor, y: Tensor, seen: list[Any]) -> Any:
        if x.shape == y.shape:
            seen.append(x.shape)
        longest["length"] = max(longest["length"], x.size(1))
        table = {x.size(1): "x", "sizes": tuple(y.shape)}
        return table, f"{x.size(1)} of {y.size(1):>4}", sum(x.shape), x.size(1) in (3, 5), [*x.shape, 1][::-1]

    f = jit(f)
    seen: list[Any] = []
    for a, b in ((3, 3), (3, 3), (4, 4), (5, 5), (5, 4), (5, 4), (5, 4), (7, 2), (3, 3)):
        yield lambda: (f(data(1, 2, a), data(2, 2, b), seen), list(seen), dict(longest))


@scenario()
def branch_on_a_length(jit: Jit) -> Iterator[Any]:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.short, self.long = nn.Linear(4, 4), nn.Linear(4, 4)
            self.calls = 0

        def forward(self, x: Tensor) -> Tensor:
            if x.size(1) > 8:
                return self.long(x).relu() * x.size(1)
            return self.short(x).tanh()

    torch.manual_seed(0)
    model = Layer()
    f = jit(model)
    for length in (4, 4, 5, 9, 9, 9, 9):
        yield lambda: f(data(length, 2, length, 4))
    for length in (4, 10, 5, 30, 8, 9):
        yield replayed(lambda: f(data(length, 2, length, 4)))
    with torch.no_grad():
        model.long.weight.mul_(2)
        model.short.bias = nn.Parameter(torch.ones(4))
    yield lambda: f(data(1, 2, 3, 4))
    yield lambda: f(data(1, 2, 9, 4))
    model.long = nn.Linear(4, 4)
    for length in (3, 9) * 3:
        yield lambda: f(data(1, 2, length, 4))


@scenario()
def branches_on_values(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, log: list[str]) -> Any:
        log.append("start")
        y = x * 2
        if y.sum() > 0:
            log.append("up")
            y = y + 1
        else:
            y = y - 1
        z = torch.cat([y, x])
        if z.max() > 3:
            log.append("high")
            return z, len(log)
        return z.min().item(), log[-1]

    f = jit(f)
    values = [torch.full((3,), value) for value in (1.0, -1.0, 2.0, -2.0, 0.25)]
    order = [0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4]
    for at in (*order, *order):
        log = [str(at)]
        yield lambda: (f(values[at], log), log)
    for at in (0, 2, 1, 0, 2):
        log = [str(at)]
        yield replayed(lambda: (f(values[at], log), log))


@scenario()
def fails_in_a_side_trace(jit: Jit) -> Iterator[Any]:
    def inner(x: Tensor, other: Tensor) -> Tensor:
        if x.size(0) == 2:
            return x @ other
        return x + other

    def f(x: Tensor, other: Tensor) -> Any:
        try:
            return inner(x, other) * 2
        except RuntimeError as error:
            return str(error)

    f = jit(f)
    for _ in range(3):
        yield lambda: f(data(1, 3), data(2, 3))
    for _ in range(5):
        yield lambda: f(data(1, 2), data(2, 2))
    yield lambda: f(data(1, 2), data(2, 3))
    yield lambda: f(data(1, 4), data(2, 3))
    yield replayed(lambda: f(data(1, 2), data(2, 2)))
    yield replayed(lambda: f(data(1, 4), data(2, 4)))


@pytest.mark.parametrize("name", TABLE.cases())
def test_same(name: str) -> None:
    TABLE.check(name, __file__)


def test_one_trace_for_every_length() -> None:
    """No call at a length never seen makes a trace or leaves one."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).train()
    f = pijit.jit(copy.deepcopy(layer))
    with torch.random.fork_rng():
        for length in (6, 6, 7, 3, 20, 2):
            torch.manual_seed(length)
            expected = layer(data(length, 2, length, 8))
            torch.manual_seed(length)
            assert torch.equal(f(data(length, 2, length, 8)), expected)
    (trace,) = pijit.traces(f)
    assert trace.opaque_calls == 0
    assert (trace.replays, trace.exits) == (5, 0)


def test_side_trace_is_made_once() -> None:
    """Calls that alternate between two ways are replayed to the end, by two traces."""

    def f(x: Tensor) -> Tensor:
        y = x + 1
        return y * 2 if x.size(0) > 4 else y - 1

    fast = pijit.jit(f)
    for turn in range(40):
        x = data(turn, 3 if turn % 2 else 6)
        assert torch.equal(fast(x), f(x))
    traces = [trace for trace in pijit.traces(fast) if not trace.entry]
    assert len(traces) == 2
    assert sum(trace.exits for trace in traces) <= 6
