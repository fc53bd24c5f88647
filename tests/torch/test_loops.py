"""Loops over tensors: long ones get traces of their own, and branches inside them go on natively.

Each test runs a function plainly and jitted with the same inputs, call after call, and compares bits.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pijit
from pijit import _core, api

pytestmark = pytest.mark.torch

TURNS = 120


@pytest.fixture(autouse=True, params=["auto", "body"])
def _options(request: pytest.FixtureRequest) -> Iterator[None]:
    pijit.reset()
    before = pijit.config.update({"loops": request.param, "give_up": False})
    torch.manual_seed(0)
    yield
    pijit.config.update(before)
    pijit.reset()


def entry_replays() -> int:
    return sum(entry["replays"] for entry in _core.entries())


def native_ends(fast: Callable[..., Any]) -> int:
    """Calls that ended in a replay: each that one was left in went on in another."""
    rows = [_core.root_report(api.root_of(fast)), *_core.entries()]
    return sum(row["replays"] - row["exits"] for row in rows)


def tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        return [each for item in value.values() for each in tensors(item)]
    if isinstance(value, list | tuple):
        return [each for item in value for each in tensors(item)]
    return []


def check(fn: Callable[..., Any], calls: list[tuple[Any, ...]], times: int = 4) -> Callable[..., Any]:
    fast = pijit.jit(fn)
    for _ in range(times):
        for args in calls:
            got, expected = fast(*args), fn(*args)
            assert len(tensors(got)) == len(tensors(expected)) > 0
            for a, b in zip(tensors(got), tensors(expected), strict=True):
                assert a.dtype == b.dtype
                assert torch.equal(a, b)
    return fast


class Cell(nn.Module):
    """An LSTM cell by hand."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.x = nn.Linear(size, 4 * size)
        self.h = nn.Linear(size, 4 * size)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        i, f, o, u = (self.x(x) + self.h(h)).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(u)
        return torch.sigmoid(o) * torch.tanh(c), c


class Recurrent(nn.Module):
    """A Python loop over time steps, which is inlined where `forward` is called."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.cell = Cell(size)

    def forward(self, xs: Tensor) -> tuple[Tensor, Tensor]:
        h = c = xs.new_zeros(xs.shape[1:])
        outputs = []
        for t in range(xs.shape[0]):
            h, c = self.cell(xs[t], h, c)
            outputs.append(h)
        return torch.stack(outputs), c


def test_recurrent() -> None:
    model = Recurrent(4)
    calls = [(torch.randn(TURNS, 2, 4),), (torch.randn(TURNS, 2, 4),), (torch.randn(TURNS + 7, 2, 4),)]
    with torch.no_grad():
        check(model, calls)
    assert entry_replays() > 0


def test_a_list_that_grows_is_not_looked_into() -> None:
    model = Recurrent(4)
    with torch.no_grad():
        fast = check(model, [(torch.randn(TURNS, 2, 4),), (torch.randn(TURNS + 7, 2, 4),)], times=8)
        (loop, *_) = [trace for trace in pijit.traces(fast) if trace.entry.startswith("loop") and trace.replays]
        assert loop.opaque_calls == 0
        before = entry_replays()
        xs = torch.randn(TURNS, 2, 4)
        expected = model.forward(xs)
        assert all(torch.equal(a, b) for a, b in zip(fast(xs), expected, strict=True))
        assert entry_replays() > before + 10


def test_gradients_through_a_loop() -> None:
    model, twin = Recurrent(4), Recurrent(4)
    twin.load_state_dict(model.state_dict())
    fast = pijit.jit(model)
    for step in range(5):
        xs = torch.randn(TURNS, 2, 4, generator=torch.Generator().manual_seed(step))
        for each in (fast, twin):
            outputs, c = each(xs)
            each.zero_grad()
            (outputs.square().mean() + c.sum()).backward()
        for a, b in zip(model.parameters(), twin.parameters(), strict=True):
            assert torch.equal(a.grad, b.grad)
        with torch.no_grad():
            for each in (model, twin):
                for parameter in each.parameters():
                    parameter -= 0.1 * parameter.grad
    assert entry_replays() > 0


def states(cell: Cell, xs: Tensor) -> Iterator[Tensor]:
    """A recurrent network as a generator: its state lives in the generator's frame."""
    h = c = xs.new_zeros(xs.shape[1:])
    for t in range(xs.shape[0]):
        h, c = cell(xs[t], h, c)
        yield h


def damped(states: Iterator[Tensor], rate: float) -> Iterator[Tensor]:
    mean = None
    for state in states:
        mean = state if mean is None else mean + rate * (state - mean)
        yield mean


def follows(cell: Cell, xs: Tensor) -> Tensor:
    total = xs.new_zeros(xs.shape[1:])
    for state in states(cell, xs):
        total = total * 0.9 + state
    return total


def follows_two(cell: Cell, xs: Tensor, at: float) -> list[Tensor]:
    found = []
    for mean in damped(states(cell, xs), 0.25):
        found.append(mean)
        if mean.sum() > at:
            break
    return found


def test_the_generator_is_part_of_the_turn() -> None:
    cell = Cell(4)
    calls = [(cell, torch.randn(n, 2, 4)) for n in (TURNS, TURNS, 4 * TURNS, 3)]
    with torch.no_grad():
        fast = check(follows, calls, times=8)
        loops = [trace for trace in pijit.traces(fast) if trace.entry.startswith("loop") and trace.replays]
        assert loops
        assert all(trace.opaque_calls == 0 for trace in loops)
        before = entry_replays()
        for _ in range(4):
            xs = torch.randn(4 * TURNS, 2, 4)
            assert torch.equal(fast(cell, xs), follows(cell, xs))
        assert entry_replays() > before + 10


def test_generators_over_generators() -> None:
    cell = Cell(4)
    calls = [(cell, torch.randn(TURNS, 2, 4), at) for at in (1e9, 1e9, 0.5, 1e9)]
    with torch.no_grad():
        check(follows_two, calls, times=6)
    assert entry_replays() > 0


def windows(cell: Cell, xs: Tensor, width: int) -> Iterator[Tensor]:
    """Many steps for each item, some of which data decides on."""
    h = c = xs.new_zeros(xs.shape[1:])
    for start in range(0, xs.shape[0], width):
        for t in range(start, min(start + width, xs.shape[0])):
            h, c = cell(xs[t], h, c)
        if h.sum() > 0:
            h = h * 0.5
        yield h


def numbers_windows(cell: Cell, xs: Tensor, width: int) -> Tensor:
    total = xs.new_zeros(xs.shape[1:])
    for number, window in enumerate(windows(cell, xs, width)):
        total = total + window * number
    return total


def test_windows_of_many_steps() -> None:
    cell = Cell(4)
    calls = [(cell, torch.randn(n, 2, 4), width) for n, width in ((300, 100), (300, 100), (300, 3), (310, 100))]
    with torch.no_grad():
        check(numbers_windows, calls, times=6)
    assert entry_replays() > 0


def test_gradients_through_a_generator() -> None:
    cell, twin = Cell(4), Cell(4)
    twin.load_state_dict(cell.state_dict())
    fast = pijit.jit(follows)
    for step in range(5):
        xs = torch.randn(TURNS, 2, 4, generator=torch.Generator().manual_seed(step))
        for run, each in ((fast, cell), (follows, twin)):
            each.zero_grad()
            run(each, xs).square().sum().backward()
        for a, b in zip(cell.parameters(), twin.parameters(), strict=True):
            assert torch.equal(a.grad, b.grad)
    assert entry_replays() > 0


def converges(x: Tensor, target: Tensor) -> tuple[Tensor, int]:
    """A fixed-point iteration, whose end is a question about data."""
    turns = 0
    while (x - target).abs().max() > 1e-3:
        x = x - 0.05 * (x - target) + 0.0
        x = torch.where(x.isnan(), target, x)
        x = (x * 2.0 + x) / 3.0
        turns += 1
    return x, turns


def test_a_loop_until_a_tensor_says_so() -> None:
    calls = [(torch.full((3,), start), torch.zeros(3)) for start in (4.0, 90.0, 0.0, 4000.0, 17.0)]
    check(converges, calls)
    assert entry_replays() > 0


def branches(x: Tensor) -> Tensor:
    """Eight decisions on data in a row: 256 ways."""
    y = torch.relu(x[0]) if x[0] > 0 else x[0] - 1
    y = y * x[1] + 1 if x[1] > 0 else y.cos()
    y = y - x[2] if x[2] > 0 else (y + 1).sigmoid()
    y = y.sin() if x[3] > 0 else y * y
    y = y + x[4] if x[4] > 0 else y - 2
    y = y * 0.5 if x[5] > 0 else y.tanh()
    y = y.exp() if x[6] > 0 else y + x[6]
    return y.abs() if x[7] > 0 else -y


def test_eight_branches_in_a_row() -> None:
    ways = [torch.tensor([1.0 if way >> bit & 1 else -1.0 for bit in range(8)]) for way in range(256)]
    fast = check(branches, [(x,) for x in ways], times=5)
    ended = native_ends(fast)
    records = _core.stats()["records"]
    for x in ways:
        assert torch.equal(fast(x), branches(x))
    assert _core.stats()["records"] == records
    assert native_ends(fast) - ended == 256
    assert _core.stats()["traces"] <= 25


def decodes(table: Tensor, weights: Tensor, first: int, n: int, stop: int) -> Tensor:
    """Token by token, with a cache that grows."""
    ids = torch.tensor([[first]])
    cache: list[Tensor] = []
    keys = table[ids[0]]
    for _ in range(n):
        query = table[ids[:, -1]]
        cache.append(query)
        keys = torch.cat([keys, query @ weights])
        scores = torch.softmax(query @ keys.T / 4.0, -1)
        following = (scores @ keys @ table.T).argmax(-1)
        ids = torch.cat([ids, following[:, None]], -1)
        if following.item() == stop:
            break
    else:
        ids = torch.cat([ids, ids.new_full((1, 1), -1)], -1)
    return torch.cat([ids.float().flatten(), torch.cat(cache).sum(0), keys.sum(0)])


def test_token_by_token() -> None:
    table, weights = torch.randn(40, 8), torch.randn(8, 8)
    calls = [(table, weights, first, n, stop) for first, n, stop in [(1, 60, -1), (1, 90, -1), (5, 60, 3), (7, 75, -1)]]
    with torch.no_grad():
        check(decodes, calls)
        assert entry_replays() > 0
        pijit.reset()
        made = []
        for n in (150, 400):
            kept = check(decodes, [(table, weights, 1, n, -1)])
            made.append(_core.stats()["bytes"])
            pijit.reset(kept)
    assert made[1] < 1.5 * made[0]


class Held:
    """What a turn hands to the next one, as a cache of keys and values."""

    def __init__(self) -> None:
        self.sum: Tensor | None = None

    def update(self, x: Tensor) -> Tensor:
        self.sum = x if self.sum is None else self.sum * 0.5 + x
        return self.sum


@pijit.opaque
def looks_into(parts: dict[str, Any]) -> bool:
    return parts["held"] is not None


@pijit.opaque
def looks(x: Tensor) -> None:
    pass


def hands_on(x: Tensor, turns: int) -> Tensor:
    """Foreign code finds an object in one turn, and the next turn looks at it."""
    held, n = Held(), 0
    while n < turns:
        for at in range(40):
            x = torch.sigmoid(x * 2 + at) - 0.5
        parts = {"x": held.update(x), "held": held}
        if looks_into(parts):
            held, x = parts["held"], parts["x"]
        looks(x)
        n += 1
    return x


def test_what_a_turn_looks_at_was_found_in_the_one_before() -> None:
    with torch.no_grad():
        fast = check(hands_on, [(torch.ones(2, 3), 40), (torch.zeros(2, 3), 60)])
    assert entry_replays() > 0
    assert max(len(trace.nodes) for trace in pijit.traces(fast)) < 1000  # a turn has 170


def scans(x: Tensor, table: dict[str, Tensor]) -> dict[str, Tensor]:
    """Writes what the caller sees, in and after the loop."""
    for at, row in enumerate(x.unbind(0)):
        table[f"row{at % 3}"] = row + table.get(f"row{at % 3}", torch.zeros(3))
        x[at].mul_(0.5)
    return table


def test_writes_in_a_loop() -> None:
    fast = pijit.jit(scans)
    for turn in range(5):
        x = torch.randn(TURNS, 3, generator=torch.Generator().manual_seed(turn))
        a, b = x.clone(), x.clone()
        got, expected = fast(a, {}), scans(b, {})
        assert list(got) == list(expected)
        assert all(torch.equal(got[key], expected[key]) for key in got)
        assert torch.equal(a, b)


def draws(n: int) -> Tensor:
    total = torch.zeros(3)
    for _ in range(n):
        total = total * 0.9 + torch.randn(3) + torch.rand(3) * 2
        total = torch.nn.functional.dropout(total, 0.25)
    return total


def test_random_numbers_in_a_loop() -> None:
    fast = pijit.jit(draws)
    for n in (TURNS, TURNS, TURNS + 5, TURNS, TURNS + 5):
        torch.manual_seed(n)
        got, state = fast(n), torch.get_rng_state()
        torch.manual_seed(n)
        assert torch.equal(got, draws(n))
        assert torch.equal(state, torch.get_rng_state())


def fails(x: Tensor, wrong: Tensor, at: int) -> Tensor:
    for number in range(TURNS):
        x = torch.tanh(x * 1.5) + x.sin() * 0.1
        if number == at:
            x = x + wrong
    return x


def test_an_operator_that_fails_in_a_loop() -> None:
    fast = pijit.jit(fails)
    x = torch.randn(3)
    for at in (TURNS + 1, TURNS + 1, 90, 90, 91, TURNS + 1):
        for wrong in (torch.ones(3), torch.ones(2)):
            said = []
            for each in (fast, fails):
                try:
                    said.append(each(x, wrong, at).tolist())
                except RuntimeError as error:
                    said.append(str(error))
            assert said[0] == said[1]


@pytest.mark.slow
def test_generate() -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=128, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=256,
        )
    ).eval()  # fmt: skip
    ids = torch.randint(0, 128, (1, 8))

    def generate(ids: Tensor, n: int) -> Tensor:
        return model.generate(ids, max_new_tokens=n, do_sample=False, pad_token_id=0)

    fast = pijit.jit(generate)
    with torch.no_grad():
        for n in (*[24] * 9, 25, 30, 24):
            assert torch.equal(fast(ids, n), generate(ids, n))
    assert entry_replays() > 20
    assert _core.stats()["traces"] < 12


class Parts(nn.Module):
    """A loop over the parts of a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = Cell(6)

    def forward(self, xs: Tensor) -> tuple[Tensor, list[Tensor]]:
        h = c = torch.zeros(1, 6)
        out = []
        for x in xs.unbind(0):
            h, c = self.cell(x, h, c)
            out.append(h)
        return torch.stack(out).sum(0), out


def test_the_first_call_of_a_module_is_native() -> None:
    module = Parts()
    plain = copy.deepcopy(module)
    fast = pijit.jit(module)
    for number, length in enumerate((200, 150, 200)):
        xs = torch.randn(length, 1, 6)
        with torch.no_grad():
            (ours, ours_out), (expected, expected_out) = fast(xs), plain(xs)
        assert torch.equal(ours, expected)
        assert all(torch.equal(a, b) for a, b in zip(ours_out, expected_out, strict=True))
        if number == 0:
            assert entry_replays() > 5


def settling(x: Tensor, weight: Tensor, n: int) -> tuple[Tensor, float]:
    """Turns go different ways, by what tensors hold."""
    total = 0.0
    for turn in range(n):
        x = torch.tanh(x @ weight + 0.1)
        if x.sum() > 0:
            x = x * -0.5
        if turn % 7 == 3:
            x = torch.nn.functional.dropout(x, 0.25)
        mean = x.mean().item()
        if mean > 0.02:
            total += mean
        elif mean < -0.02:
            total -= 2 * mean
    return x, total


def test_the_call_that_is_recorded_goes_on_in_the_traces() -> None:
    fast = pijit.jit(settling)
    weight = torch.randn(8, 8) * 0.5
    for number, n in enumerate((400, 250, 400)):
        x = torch.randn(2, 8)
        torch.manual_seed(number)
        ours, total = fast(x, weight, n)
        state = torch.random.get_rng_state()
        torch.manual_seed(number)
        expected, expected_total = settling(x, weight, n)
        assert torch.equal(ours, expected)
        assert total == expected_total
        assert torch.equal(state, torch.random.get_rng_state())
        if number == 0:
            assert entry_replays() > 50
