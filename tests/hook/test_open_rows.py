"""Loops over the rows of a tensor that has more or fewer of them in each call: they are left to traces of their own.

Each test runs a function plainly and jitted, again and again with other tensors, and compares everything.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pijit
from pijit import _core, api

pytestmark = pytest.mark.torch
torch: Any = None  # imported by the fixture: where these tests are not run, nothing may import it

LENGTHS = [5, 3, 7, 4, 9, 2, 6, 8, 3, 5, 1, 0, 7, 6, 4, 9, 2, 8, 5, 3]


@pytest.fixture(autouse=True)
def _everything_is_kept() -> Iterator[None]:
    global torch
    torch = pytest.importorskip("torch")
    pijit.reset()
    before = pijit.config.update({"give_up": False, "record_budget": 0})
    yield
    pijit.config.update(before)
    pijit.reset()


def records(fn: Any) -> int:
    """Those in the middle of the function included."""
    inside = sum(entry["records"] for entry in _core.entries())
    return int(_core.root_report(api.root_of(fn))["records"]) + inside


def same(fn: Callable[..., Any], calls: list[tuple[Any, ...]], seen: Callable[[Any], Any] = lambda got: got) -> Any:
    """Compares all of these calls, time and again; what is random is the same on both sides."""
    fast = pijit.jit(fn)
    for turn in range(2):
        for args in calls:
            torch.manual_seed(turn)
            expected = seen(fn(*copy.deepcopy(args)))
            torch.manual_seed(turn)
            assert seen(fast(*copy.deepcopy(args))) == expected, args
    return fast


def rows(width: int = 3) -> list[Any]:
    torch.manual_seed(0)
    return [torch.randn(length, width) for length in LENGTHS]


def folded(sequence: Any) -> float:
    state = torch.zeros(3)
    for row in sequence:
        state = torch.tanh(state + row)
    return state.sum().item()


def test_any_length_is_replayed() -> None:
    fast = same(folded, [(each,) for each in rows()])
    assert records(fast) == 4  # a call with five rows, one that leaves them open, a turn, and what is behind the loop
    replays = _core.root_report(api.root_of(fast))["replays"]
    for each in rows():
        assert fast(each) == folded(each)
    assert records(fast) == 4
    assert _core.root_report(api.root_of(fast))["replays"] == replays + len(LENGTHS)


def test_gradients_go_through_the_rows() -> None:
    def stepped(sequence: Any, weight: Any) -> tuple[list[float], list[float]]:
        state, kept = torch.zeros(3), []
        for row in sequence:
            state = torch.tanh(weight @ state + row)
            kept.append(state.sum())
        loss = state.sum() + sum(kept)
        loss.backward()
        return weight.grad.tolist(), [each.item() for each in kept]

    torch.manual_seed(1)
    weight = torch.randn(3, 3, requires_grad=True)
    same(stepped, [(each, weight) for each in rows() if len(each) > 0])


def test_a_loop_that_is_left_in_its_middle() -> None:
    def until(sequence: Any, most: float, forced: bool) -> tuple[int, float, str]:
        turns, total = 0, 0.0
        for row in sequence:
            total += row.abs().sum().item()
            turns += 1
            if total > most:
                return turns, total, "over"
            if forced:
                continue
            total *= 0.5
        else:
            return turns, total, "ended"
        raise AssertionError

    draw = random.Random(0)
    same(until, [(each, draw.choice([2.0, 5.0, 50.0]), draw.random() < 0.5) for each in rows()])


def test_the_loop_of_a_layer() -> None:
    class Cell(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(3, 3)

        def forward(self, sequence: Any) -> tuple[Any, list[float]]:
            state, norms = torch.zeros(3), []
            for row in sequence:
                state = torch.relu(self.inner(state) + row)
                norms.append(state.norm().item())
            return state, norms

    torch.manual_seed(2)
    cell = Cell()

    def forward(sequence: Any) -> tuple[list[float], list[float]]:
        state, norms = cell(sequence)
        return state.tolist(), norms

    same(forward, [(each,) for each in rows()])


def test_random_numbers_are_drawn_as_before() -> None:
    def dropped(sequence: Any) -> tuple[float, float]:
        total = torch.zeros(3)
        for row in sequence:
            total = total + torch.dropout(row, 0.5, train=True)
        return total.sum().item(), torch.rand(()).item()

    same(dropped, [(each,) for each in rows()])


def test_a_tensor_without_rows_raises_as_before() -> None:
    def walked(tensor: Any) -> Any:
        try:
            return [row.sum().item() for row in tensor], sum(row.item() for row in tensor.flatten())
        except TypeError as error:
            return str(error)

    def walked_plainly(tensor: Any) -> Any:
        total = 0.0
        try:
            for row in tensor:
                total += row.sum().item()
        except TypeError as error:
            return str(error)
        return total

    tensors = [*rows(), torch.tensor(1.0), *rows(2)[:4], torch.zeros(2, 2, 2)]
    same(walked, [(each,) for each in tensors])
    same(walked_plainly, [(each,) for each in tensors])


def test_rows_are_views() -> None:
    def written(tensor: Any) -> list[float]:
        for row in tensor:
            row.mul_(2).add_(1)
        return tensor.flatten().tolist()

    same(written, [(each,) for each in rows()])
