"""Where both a tape and a plan may answer for a training step, the faster one does. Both leave what eager leaves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from counted import Counted
from torch import nn

import pijit
from pijit import _backend_names, _core
from pijit._roots import root_of
from pijit.compilers import market

pytestmark = pytest.mark.torch


@pytest.fixture
def backends(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Counted]]:
    def made(name: str) -> Counted:
        backend = Counted(name)
        backend.training = True
        monkeypatch.setitem(_backend_names.registered, name, backend)
        return backend

    yield made
    market.wait(60)


class Twins:
    """A training step that is jitted, and an equal one that is not."""

    def __init__(self, backend: Any, width: int = 8, rate: float = 0.1) -> None:
        self.rate = rate
        self.models = [self.model(width) for _ in range(2)]
        steps = [self.step_of(model) for model in self.models]
        self.plain, self.fast = steps[0], pijit.jit(steps[1], backend=backend)
        self.width = width

    @staticmethod
    def model(width: int) -> nn.Module:
        torch.manual_seed(0)
        layers = [layer for _ in range(6) for layer in (nn.Linear(width, width), nn.Tanh())]
        return nn.Sequential(*layers, nn.Linear(width, 1))

    def step_of(self, model: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
        optimizer = torch.optim.SGD(model.parameters(), lr=self.rate)

        def step(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss: torch.Tensor = model(x).square().mean()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            return loss

        return step

    def take(self, steps: int, rows: int = 4, *, waits: bool = False) -> None:
        for at in range(steps):
            x = torch.randn(rows, self.width, generator=torch.Generator().manual_seed(at if self.rate else 0))
            found, expected = self.fast(x), self.plain(x)
            assert torch.equal(found, expected)
            assert (found.grad_fn and found.grad_fn.name()) == (expected.grad_fn and expected.grad_fn.name())
            for mine, theirs in zip(self.models[1].parameters(), self.models[0].parameters(), strict=True):
                assert torch.equal(mine, theirs)
                assert mine.grad is not None
                assert theirs.grad is not None
                assert torch.equal(mine.grad, theirs.grad)
            if waits:
                assert market.wait(60)

    def taped(self) -> int:
        return sum(row["runs"] for trace in _core.root_traces(root_of(self.fast)) for row in trace["tapes"])


def test_a_tape_answers_until_a_plan_is_there(backends: Callable[[str], Counted]) -> None:
    late, other = backends("late"), backends("other")
    late.begins = other.begins = threading.Event()
    twins = Twins(["late", "other"])
    try:
        twins.take(20)
        assert twins.taped() >= 10
        assert late.runs == other.runs == 0
    finally:
        late.begins.set()
    twins.take(60, waits=True)
    assert late.runs > 0


def test_the_tape_is_faster(backends: Callable[[str], Counted]) -> None:
    slow, other = backends("slow"), backends("other")
    slow.seconds = other.seconds = 0.02
    twins = Twins(["slow", "other"])
    twins.take(8, waits=True)
    twins.take(120)
    assert slow.runs + other.runs > 0
    before, plans = twins.taped(), slow.runs + other.runs
    twins.take(40)
    assert twins.taped() == before + 40
    assert slow.runs + other.runs == plans


def test_the_plan_is_faster(backends: Callable[[str], Counted]) -> None:
    """Nothing changes from step to step, so that a plan can give what it gave at first."""
    fast, other = backends("fast"), backends("other")
    fast.remembers = other.remembers = True
    twins = Twins(["fast", "other"], width=192, rate=0.0)
    twins.take(8, rows=192, waits=True)
    twins.take(120, rows=192)
    before, plans = twins.taped(), fast.runs + other.runs
    assert before > 0
    twins.take(40, rows=192)
    assert twins.taped() == before
    assert fast.runs + other.runs >= plans + 40


def test_a_backend_that_is_named_answers(backends: Callable[[str], Counted]) -> None:
    named = backends("named")
    named.seconds = 0.01
    twins = Twins("named")
    twins.take(12, waits=True)
    before, plans = twins.taped(), named.runs
    twins.take(10)
    assert (twins.taped(), named.runs) == (before, plans + 10)


def test_other_sizes(backends: Callable[[str], Counted]) -> None:
    """A form that no tape has is offered, too."""
    one, other = backends("one"), backends("other")
    twins = Twins(["one", "other"])
    for rows in (4, 7, 4, 5, 7):
        twins.take(24, rows, waits=True)
    assert one.compiled
    assert other.compiled
    assert twins.taped() > 0


def test_the_market_goes_in_the_middle(backends: Callable[[str], Counted]) -> None:
    """Once without a backend, once with one, and back: what answers is what the next call finds."""
    backends("one")
    twins = Twins("one")
    twins.take(6, waits=True)
    step = twins.step_of(twins.models[1])
    twins.fast = pijit.jit(step)
    twins.take(8)
    assert twins.taped() > 0
    twins.fast = pijit.jit(step, backend="one")
    twins.take(8, waits=True)
