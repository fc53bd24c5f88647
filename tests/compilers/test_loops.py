"""Long loops of functions with a compiling backend: the traces of their turns have segments and plans like any other.

Each function is called plainly and jitted, call after call, with other data and other numbers of turns. A backend of
these tests counts its runs, so that a test knows who answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from counted import Counted, Counting, registered
from torch import Tensor, nn

import pijit
from pijit import _core
from pijit.compilers import Options, market

pytestmark = pytest.mark.torch

STEPS = 200


@pytest.fixture
def counting() -> Iterator[Counting]:
    yield from registered("counting")


@pytest.fixture(autouse=True)
def _options() -> Iterator[None]:
    pijit.reset()
    before = pijit.config.update({"loops": "auto", "give_up": False})
    torch.manual_seed(0)
    with torch.no_grad():
        yield
    pijit.config.update(before)
    market.wait(60)
    pijit.reset()


def loops(fast: Any) -> list[Any]:
    return [trace for trace in pijit.traces(fast) if trace.entry.startswith("loop")]


def plans(fast: Any) -> list[Any]:
    return [plan for trace in loops(fast) for segment in trace.segments for key in segment.keys for plan in key.plans]


def tensors(value: Any) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else [each for item in value for each in tensors(item)]


def compare(fast: Any, fn: Any, *calls: tuple[Any, ...], close: bool = False) -> None:
    """Same bits, or close; what is compiled meanwhile is waited for."""
    for args in calls:
        got, expected = tensors(fast(*args)), tensors(fn(*args))
        assert len(got) == len(expected)
        for a, b in zip(got, expected, strict=True):
            assert torch.allclose(a, b, rtol=1e-4, atol=1e-4) if close else torch.equal(a, b)
        assert market.wait(60)


def recurrent(xs: Tensor, wx: Tensor, wh: Tensor, bias: Tensor) -> Tensor:
    """An LSTM cell by hand, in a loop over time."""
    h = c = torch.zeros(xs.shape[1:])
    for t in range(xs.shape[0]):
        i, f, o, u = (xs[t] @ wx + h @ wh + bias).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(u)
        h = torch.sigmoid(o) * torch.tanh(c)
    return h


def weights(size: int = 8) -> tuple[Tensor, ...]:
    return torch.randn(size, 4 * size), torch.randn(size, 4 * size), torch.randn(4 * size)


def states(xs: Tensor, wx: Tensor, wh: Tensor, bias: Tensor) -> Iterator[Tensor]:
    h = c = torch.zeros(xs.shape[1:])
    for t in range(xs.shape[0]):
        i, f, o, u = (xs[t] @ wx + h @ wh + bias).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(u)
        h = torch.sigmoid(o) * torch.tanh(c)
        yield h


def over_states(xs: Tensor, *given: Tensor) -> list[Any]:
    total = torch.zeros(xs.shape[1:])
    for number, state in enumerate(states(xs, *given)):
        total = total * 0.9 + torch.relu(state) - 0.1
    return [total, torch.full((1,), number)]


def test_a_network_that_is_a_generator(counting: Counting) -> None:
    fast, given = pijit.jit(over_states, backend="counting"), weights()
    xs = torch.randn(STEPS, 2, 8)
    compare(fast, over_states, *[(xs, *given)] * 4)
    assert plans(fast)
    compiled, runs = counting.compiled, counting.runs
    compare(fast, over_states, (torch.randn(STEPS, 2, 8), *given), (torch.randn(STEPS, 2, 8), *given))
    assert counting.compiled == compiled
    assert counting.runs - runs > STEPS


def test_a_recurrent_network(counting: Counting) -> None:
    fast, given = pijit.jit(recurrent, backend="counting"), weights()
    xs = torch.randn(STEPS, 2, 8)
    compare(fast, recurrent, *[(xs, *given)] * 4)
    assert plans(fast)
    compiled, runs = counting.compiled, counting.runs
    compare(fast, recurrent, (torch.randn(STEPS, 2, 8), *given), (torch.randn(STEPS, 2, 8), *given))
    assert counting.compiled == compiled  # no turn has a form of its own
    assert counting.runs - runs > STEPS
    compare(fast, recurrent, (torch.randn(STEPS + 30, 2, 8), *given), (torch.randn(STEPS, 3, 8), *given))
    assert pijit.stats()["segments"] >= len({plan.backend for plan in plans(fast)}) == 1


class Recurrent(nn.Module):
    """The loop is in `forward`, which the call of the module inlines; the list grows with each turn."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(size, size)
        self.out = nn.Linear(size, size)

    def forward(self, xs: Tensor) -> Tensor:
        h = c = xs.new_zeros(xs.shape[1:])
        outputs = []
        for x in xs.unbind(0):
            h, c = self.cell(x, (h, c))
            outputs.append(torch.tanh(self.out(h)) * 2 + h)
        return torch.stack(outputs)


def test_a_module_that_collects(counting: Counting) -> None:
    model, twin = Recurrent(8).eval(), Recurrent(8).eval()
    twin.load_state_dict(model.state_dict())
    fast = pijit.jit(model, backend="counting")
    compare(fast, twin, *[(torch.randn(STEPS, 2, 8),) for _ in range(8)])
    runs = counting.runs
    compare(fast, twin, (torch.randn(STEPS, 2, 8),), (torch.randn(STEPS + 20, 2, 8),), (torch.randn(STEPS, 2, 8),))
    assert counting.runs > runs


def decodes(table: Tensor, mix: Tensor, first: int, n: int) -> Tensor:
    """Token by token, with a cache that grows."""
    ids = torch.tensor([[first]])
    keys = table[ids[0]]
    for _ in range(n):
        query = table[ids[:, -1]]
        keys = torch.cat([keys, query @ mix])
        scores = torch.softmax(query @ keys.T / 4.0, -1)
        following = (scores @ keys @ table.T).argmax(-1)
        ids = torch.cat([ids, following[:, None]], -1)
    return torch.cat([ids.float().flatten(), keys.sum(0)])


def test_token_by_token(counting: Counting) -> None:
    fast, table, mix = pijit.jit(decodes, backend="counting"), torch.randn(40, 8), torch.randn(8, 8)
    compare(fast, decodes, *[(table, mix, 1, 150)] * 4)
    assert plans(fast)
    runs = counting.runs
    compare(fast, decodes, (table, mix, 1, 150), (torch.randn(40, 8), mix, 1, 150))
    assert counting.runs > runs
    compare(fast, decodes, (table, mix, 7, 150), (table, mix, 1, 170), (table, mix, 1, 150))


def test_who_asked_for_native_replay_gets_that(counting: Counting) -> None:
    """Both functions are over the same code, and so are their loops."""
    given, xs = weights(), torch.randn(STEPS, 2, 8)

    def helper(xs: Tensor) -> Tensor:
        return recurrent(xs, *given)

    compiling, native = pijit.jit(lambda xs: helper(xs) * 1, backend="counting"), pijit.jit(lambda xs: helper(xs) + 0)
    for _ in range(4):
        compare(compiling, helper, (xs,))
        compare(native, helper, (xs,))
    runs = counting.runs
    compare(native, helper, (torch.randn(STEPS, 2, 8),))
    assert counting.runs == runs
    assert not plans(native)
    assert loops(native)
    compare(compiling, helper, (torch.randn(STEPS, 2, 8),))
    assert counting.runs > runs
    assert plans(compiling)


def test_a_plan_that_is_wrong_in_a_loop_is_dropped(counting: Counting) -> None:
    fast, given = pijit.jit(recurrent, backend="counting"), weights()
    compare(fast, recurrent, *[(torch.randn(STEPS, 2, 8), *given)] * 4)
    assert plans(fast)
    runs = counting.runs

    def fails(outputs: Any) -> Any:
        raise RuntimeError("not today")

    counting.around = fails
    compare(fast, recurrent, (torch.randn(STEPS, 2, 8), *given), (torch.randn(STEPS, 2, 8), *given))
    assert counting.runs > runs
    assert not plans(fast)
    runs = counting.runs
    compare(fast, recurrent, (torch.randn(STEPS, 2, 8), *given))
    assert counting.runs == runs


def leaves(x: Tensor, n: int, at: int) -> tuple[Tensor, Tensor]:
    """What was computed in the turn in which the loop is left is looked at behind it."""
    before = x
    for number in range(n):
        before = x
        x = torch.tanh(x * 1.5 + 0.1) + x.sin() * 0.1 - before * 0.01
        y = x * 2 + before
        if number == at:
            break
    return x + y, before


def test_variables_of_the_last_turn(counting: Counting) -> None:
    fast = pijit.jit(leaves, backend="counting")
    for at in (1000, 1000, 150, 1000, 151, 150, 1000, 152):
        compare(fast, leaves, (torch.randn(4), STEPS, at), (torch.randn(4), STEPS, at))
    runs = counting.runs
    compare(fast, leaves, (torch.randn(4), STEPS, 153), (torch.randn(4), STEPS, 1000))
    assert counting.runs > runs


def test_an_operator_that_fails_in_a_loop(counting: Counting) -> None:
    def fails(x: Tensor, wrong: Tensor, at: int) -> Tensor:
        for number in range(STEPS):
            x = torch.tanh(x * 1.5) + x.sin() * 0.1
            if number == at:
                x = x + wrong
        return x

    fast = pijit.jit(fails, backend="counting")
    x = torch.randn(3)
    for at in (STEPS + 1, STEPS + 1, 150, 150, 151, STEPS + 1):
        for wrong in (torch.ones(3), torch.ones(2)):
            said = []
            for each in (fast, fails):
                try:
                    said.append(each(x, wrong, at).tolist())
                except RuntimeError as error:
                    said.append(str(error))
            assert said[0] == said[1]
            assert market.wait(60)


def test_free_sizes() -> None:
    """A cache that grows has another size in each turn: one plan serves them."""
    backend = Counted("free")
    fast = pijit.jit(decodes)
    from pijit import api

    _core.set_market(api.root_of(fast), market.Market([backend], Options(threads=1)))
    table, mix = torch.randn(40, 8), torch.randn(8, 8)
    compare(fast, decodes, *[(table, mix, 1, 150)] * 5)
    runs = backend.runs
    compare(fast, decodes, (table, mix, 1, 150), (torch.randn(40, 8), mix, 1, 150))
    assert backend.runs > runs
    assert any(key.shared for trace in loops(fast) for segment in trace.segments for key in segment.keys)


@pytest.mark.parametrize("name", ["torchscript", "onnxruntime"])
def test_real_backends(name: str) -> None:
    if (state := pijit.backends()[name]) != "usable":
        pytest.skip(state)
    fast, given = pijit.jit(recurrent, backend=name), weights()
    compare(fast, recurrent, *[(torch.randn(STEPS, 2, 8), *given)] * 4, close=True)
    compare(fast, recurrent, (torch.randn(STEPS, 2, 8), *given), (torch.randn(STEPS + 9, 2, 8), *given), close=True)
    assert any(plan.runs for plan in plans(fast))
