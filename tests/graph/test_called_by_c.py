"""What C code calls or computes of tensors, between two calls of Python, is operators of one graph."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, func, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import pijit

pytestmark = pytest.mark.torch


def made(*sizes: int) -> Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes)))


W, NET = made(3), nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3))
with torch.no_grad():
    for each in NET.parameters():
        each.copy_(made(*each.shape))


def keyed(x: Tensor) -> Any:
    kept = {W: x, x: W}
    y = x * 2
    kept[y] = y + 1
    return kept[W] * kept[x], kept[y], len({x, W, y, x}) * x


def tied(x: Tensor) -> Any:
    seen: set[Tensor] = set()
    total = x.sum()
    for parameter in [*NET.parameters(), *NET.parameters()]:
        if parameter not in seen:
            seen.add(parameter)
            total = total + parameter.square().sum()
    return total


def counted(x: Tensor) -> Any:
    """The frames that C code calls have effects."""
    calls = []

    def noted(row: Tensor) -> Tensor:
        calls.append(len(calls))
        return row * len(calls)

    return (
        list(map(noted, [x, x + 1])),
        sorted([2, 1], key=lambda number: calls.append(number) or -number),
        x + len(calls),
    )


CASES: dict[str, Callable[[Tensor], Any]] = {
    "reduce": lambda x: functools.reduce(operator.mul, [x, x + 1, 2.0]),
    "reduce_of_torch": lambda x: functools.reduce(torch.maximum, [x, x.abs() - 1, x * 2]),
    "map": lambda x: torch.cat(list(map(torch.relu, [x, x + 1]))),
    "starmap": lambda x: list(itertools.starmap(torch.add, [(x, x), (x, 2)])),
    "accumulate": lambda x: torch.stack(list(itertools.accumulate([x, x + 1, x * 2], torch.mul, initial=x))),
    "pairwise": lambda x: [a * b for a, b in itertools.pairwise([x, x + 1, x * 2])],
    "zip_longest": lambda x: [a * b for a, b in itertools.zip_longest([x, x + 1], [x], fillvalue=2)],
    "getters": lambda x: (
        operator.itemgetter(0, -1)(x) + (operator.methodcaller("sum", dim=0)(x), operator.attrgetter("T")(x))
    ),
    "in_place": lambda x: operator.iadd(x.clone(), operator.mul(x, 2)),
    "setitem": lambda x: (y := x.clone(), operator.setitem(y, 0, 7.0))[0],
    "compared": lambda x: operator.and_(operator.gt(x, 0), operator.lt(x, 1)),
    "keyed": keyed,
    "tied": tied,
    "counted": counted,
    "functional_call": lambda x: func.functional_call(NET, dict(NET.named_parameters()), (x,)) + 1,
    "functional_call_of_others": lambda x: func.functional_call(NET, {"0.bias": x[0, 0].expand(4)}, x),
}


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_graphs_are_whole_and_have_the_same_bits(name: str) -> None:
    graph = pijit.graph.capture(CASES[name], made(4, 3))
    assert graph.breaks == ()
    for x in (made(4, 3), made(4, 3) * 2, made(7, 3)):
        expected = torch.utils._pytree.tree_leaves(CASES[name](x))
        given = torch.utils._pytree.tree_leaves(graph.run(x.clone()))
        for one, other in zip(given, expected, strict=True):
            assert one == other if isinstance(other, int) else torch.equal(one, other)


class Packed(nn.Module):
    def __init__(self, kind: Any, is_sorted: bool) -> None:
        super().__init__()
        self.rnn, self.is_sorted = kind(3, 5, num_layers=2, bidirectional=True, batch_first=True), is_sorted

    def forward(self, x: Tensor, lengths: Tensor) -> Any:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=self.is_sorted)
        made, state = self.rnn(packed)
        padded, counts = pad_packed_sequence(made, batch_first=True)
        return padded * 2, counts, state


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("is_sorted", [True, False])
@torch.no_grad()
def test_packed_sequences_go_through_layers(kind: Any, is_sorted: bool) -> None:
    torch.manual_seed(0)
    model = Packed(kind, is_sorted).eval()
    calls = [
        (made(3, 6, 3), torch.tensor([6, 4, 2] if is_sorted else [4, 6, 2])),
        (made(2, 5, 3), torch.tensor([5, 1])),
    ]
    fast = pijit.jit(lambda x, lengths: model(x, lengths))
    for x, lengths in [*calls, *calls]:
        expected = torch.utils._pytree.tree_leaves(model(x, lengths))
        for one, other in zip(torch.utils._pytree.tree_leaves(fast(x, lengths)), expected, strict=True):
            assert torch.equal(one, other)
    assert any(trace.replays for trace in pijit.traces(fast))
    assert all(trace.opaque_calls == 0 for trace in pijit.traces(fast))
