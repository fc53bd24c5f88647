"""Whole training steps on plans leave in parameters, gradients and optimizers what eager steps leave there.

Every test takes steps beside an equal pair of model and optimizer that takes them in eager execution, waits for the
plan, changes something, and takes more steps.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from counted import Counting, registered
from torch import nn

import pijit
import pijit.compilers
from pijit.compilers import market
from pijit.compilers._queue import Job

pytestmark = pytest.mark.torch


@pytest.fixture
def counting() -> Iterator[Counting]:
    yield from registered("counting")


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    """What torch imports and makes at the first step of a process is not what these tests are about."""
    for make in (sgd, adamw):
        model = mlp()
        classify(model, make(model), torch.randn(5, 8), torch.zeros(5, dtype=torch.int64))


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def momentum(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=0.01)


def mlp() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))


def classify(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


Step = Callable[..., torch.Tensor]


class Pair:
    """A model and an optimizer whose steps are jitted, and an equal pair whose steps are not."""

    def __init__(
        self,
        counting: Counting,
        step: Step = classify,
        make: Callable[[nn.Module], torch.optim.Optimizer] = sgd,
        backend: str = "counting",
    ) -> None:
        self.counting = counting
        self.model, self.plain = mlp(), mlp()
        self.optimizer, self.plain_optimizer = make(self.model), make(self.plain)
        self.fast = pijit.jit(lambda x, y: step(self.model, self.optimizer, x, y), backend=backend)
        self.slow = lambda x, y: step(self.plain, self.plain_optimizer, x, y)
        self.generator = torch.Generator().manual_seed(1)

    def batch(self, rows: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(rows, 8, generator=self.generator), torch.randint(0, 4, (rows,), generator=self.generator)

    @property
    def trace(self) -> Any:
        """The newest that begins with the step."""
        return [trace for trace in pijit.traces(self.fast) if not trace.entry][-1]

    def take(self, steps: int = 1, rows: int = 5) -> int:
        """Steps of both; gives how many the plan took."""
        runs = self.counting.runs
        for _ in range(steps):
            x, y = self.batch(rows)
            mine, theirs = self.fast(x, y), self.slow(x, y)
            torch.testing.assert_close(mine.detach(), theirs.detach(), rtol=1e-5, atol=1e-6)
            assert mine.requires_grad is theirs.requires_grad
            assert (mine.grad_fn and mine.grad_fn.name()) == (theirs.grad_fn and theirs.grad_fn.name())
            self.compare()
        return self.counting.runs - runs

    def compare(self) -> None:
        for mine, theirs in zip(self.model.parameters(), self.plain.parameters(), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)
            assert (mine.grad is None) is (theirs.grad is None)
            if mine.grad is not None and theirs.grad is not None:
                torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-6)
                assert mine.grad.stride() == theirs.grad.stride()
            held, expected = self.optimizer.state[mine], self.plain_optimizer.state[theirs]
            assert held.keys() == expected.keys()
            for key, value in held.items():
                torch.testing.assert_close(value, expected[key], rtol=1e-4, atol=1e-6)

    def settle(self) -> None:
        for _ in range(10):
            self.take()
            assert market.wait(60)


@pytest.mark.parametrize("make", [sgd, momentum])
def test_a_step(counting: Counting, make: Any) -> None:
    pair = Pair(counting, make=make)
    pair.settle()
    assert pair.take(5) == 5, pair.trace.segments
    (segment,) = pair.trace.segments
    assert segment.share == 1
    assert pair.take(1, rows=3) == 0  # another key
    pair.settle()
    market.wait(60)
    assert pair.take(3, rows=5) == 3


@pytest.mark.parametrize("backend", ["onnxruntime", "xla"])
def test_a_step_whose_numbers_come_from_tensors(counting: Counting, backend: str) -> None:
    """AdamW reads how many steps there were, and computes with that in Python."""
    if pijit.compilers.get(backend).usable():
        pytest.skip(f"{backend} is not there")
    pair = Pair(counting, make=adamw, backend=backend)
    pair.settle()
    (segment,) = pair.trace.segments
    assert segment.share == 1

    def runs() -> int:
        return sum(plan.runs for key in pair.trace.segments[0].keys for plan in key.plans)

    before = runs()
    pair.take(3)
    assert runs() == before + 3
    for optimizer in (pair.optimizer, pair.plain_optimizer):
        for held in optimizer.state.values():
            held["step"].fill_(100)
    pair.take(3)


def test_the_state_is_changed_in_between(counting: Counting) -> None:
    pair = Pair(counting, make=momentum)
    pair.settle()
    with torch.no_grad():
        for model in (pair.model, pair.plain):
            model[0].weight.mul_(0.5)
            model[2].bias.data = torch.ones(16)
    assert pair.take(2) == 2
    for optimizer in (pair.optimizer, pair.plain_optimizer):
        for held in optimizer.state.values():
            held["momentum_buffer"].zero_()
    assert pair.take(2) == 2
    for model, optimizer in ((pair.model, pair.optimizer), (pair.plain, pair.plain_optimizer)):
        saved = copy.deepcopy(optimizer.state_dict())
        model.load_state_dict({name: torch.full_like(value, 0.01) for name, value in model.state_dict().items()})
        optimizer.load_state_dict(saved)
    pair.take(3)


def test_a_second_backward_pass(counting: Counting) -> None:
    pair = Pair(counting)
    pair.settle()
    x, y = pair.batch()
    mine, theirs = pair.fast(x, y), pair.slow(x, y)
    messages = []
    for loss in (mine, theirs):
        with pytest.raises(RuntimeError) as raised:
            loss.backward()
        messages.append(str(raised.value))
    assert messages[0] == messages[1]
    pair.compare()
    assert pair.take(2) == 2


def test_hooks_are_called(counting: Counting) -> None:
    pair = Pair(counting)
    pair.settle()
    assert pair.take() == 1
    seen: list[float] = []
    for model in (pair.model, pair.plain):
        model[0].weight.register_hook(lambda gradient: seen.append(float(gradient.sum())))
    assert pair.take() == 0
    assert len(seen) == 2
    seen.clear()
    for model in (pair.model, pair.plain):
        model[0].weight._backward_hooks.clear()
        model[2].weight.register_post_accumulate_grad_hook(lambda leaf: seen.append(float(leaf.grad.sum())))
    assert pair.take() == 0
    assert len(seen) == 2


def test_under_a_profiler(counting: Counting) -> None:
    pair = Pair(counting)
    pair.settle()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        assert pair.take() == 1
    counts = {event.key: event.count for event in profile.key_averages()}
    assert counts["Optimizer.step#SGD.step"] == 1  # that of the plain model: compiled code has no such marks
    assert any(key.startswith("pijit: ") and "counting" in key for key in counts)
    assert pair.take() == 1


def test_gradients_are_switched_off_for_a_part(counting: Counting) -> None:
    pair = Pair(counting)
    pair.settle()
    for model in (pair.model, pair.plain):
        model[0].requires_grad_(False)
    pair.take(2)
    market.wait(60)
    for model in (pair.model, pair.plain):
        model[0].requires_grad_(True)
    pair.take(3)


def test_gradients_are_clipped(counting: Counting) -> None:
    def step(model: nn.Module, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.01, foreach=False)
        optimizer.step()
        return loss.detach()

    pair = Pair(counting, step, momentum)
    pair.settle()
    assert pair.take(3) > 0


def test_gradients_are_accumulated(counting: Counting) -> None:
    def step(model: nn.Module, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    pair = Pair(counting, step)
    pair.settle()
    pair.take(3)  # who answers is not said; what they hold is


def test_a_step_that_keeps_its_graph(counting: Counting) -> None:
    def step(model: nn.Module, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward(retain_graph=True)
        return loss

    pair = Pair(counting, step)
    pair.settle()
    assert pair.take() == 0
    x, y = pair.batch()
    for loss in (pair.fast(x, y), pair.slow(x, y)):
        loss.backward()
    pair.compare()


def test_the_backend_fails(counting: Counting) -> None:
    pair = Pair(counting, make=momentum)
    pair.settle()
    assert pair.take() == 1

    def fail(outputs: Any) -> Any:
        raise RuntimeError("no")

    counting.around = fail
    pair.take(2)
    assert "no" in pair.trace.segments[0].keys[0].refused["counting"]
    pair.take(2)


def test_the_backend_gives_something_else(counting: Counting) -> None:
    pair = Pair(counting, make=momentum)
    pair.settle()
    counting.around = lambda outputs: (*outputs[:-1], outputs[-1].double())
    pair.take(2)
    assert pair.trace.segments[0].keys[0].refused
    pair.take(2)


def test_the_logits_come_with_the_loss(counting: Counting) -> None:
    kept: list[torch.Tensor] = []

    def step(model: nn.Module, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        logits = model(x)
        kept.append(logits)
        loss = nn.functional.cross_entropy(logits, y)
        loss.backward()
        optimizer.step()
        return loss

    pair = Pair(counting, step)
    pair.settle()
    kept.clear()
    pair.take(2)
    for mine, theirs in (kept[:2], kept[2:]):
        torch.testing.assert_close(mine, theirs)
        assert mine.requires_grad
        assert theirs.requires_grad


def test_a_part_that_no_gradient_goes_through(counting: Counting) -> None:
    def step(model: nn.Module, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        other = model[0](x).sum()  # of which a gradient may still be wanted
        loss.backward()
        optimizer.step()
        return other

    pair = Pair(counting, step)
    pair.settle()
    assert pair.take() == 0
    x, y = pair.batch()
    for other in (pair.fast(x, y), pair.slow(x, y)):
        assert other.requires_grad


def test_what_is_written_shares_memory(counting: Counting) -> None:
    """A buffer keeps what a weight was, and one holds a part of a weight: plans compute each tensor by itself."""

    def step(model: nn.Module, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        before = model[0].weight.detach().clone()
        optimizer.step()
        with torch.no_grad():
            model.before.copy_(before)
        return loss.detach()

    pair = Pair(counting, step)
    for model in (pair.model, pair.plain):
        model.before = torch.zeros(16, 8)
    pair.settle()
    for _ in range(3):
        pair.take()
        torch.testing.assert_close(pair.model.before, pair.plain.before)

    pair = Pair(counting)
    pair.settle()
    assert pair.take() == 1
    for model in (pair.model, pair.plain):
        model[2].weight.data = model[0].weight.data.view(8, 16)[:, :].repeat(2, 1)
        model[4].bias.data = model[0].bias.data[:4]  # two parameters, one memory
    pair.take(3)


def test_a_gradient_that_is_kept_within(counting: Counting) -> None:
    kept: list[torch.Tensor] = []

    def step(model: nn.Module, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        hidden = model[0](x)
        hidden.retain_grad()
        kept.append(hidden)
        loss = nn.functional.cross_entropy(model[1:](hidden), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    pair = Pair(counting, step)
    pair.settle()
    kept.clear()
    pair.take(2)
    for mine, theirs in (kept[:2], kept[2:]):
        assert mine.grad is not None
        torch.testing.assert_close(mine.grad, theirs.grad)


def test_there_are_no_gradients_while_it_compiles(counting: Counting) -> None:
    pair, gate = Pair(counting), threading.Event()
    market._worker.submit(Job(lambda: gate.wait(60) or None))
    pair.take(6)
    for optimizer in (pair.optimizer, pair.plain_optimizer):
        optimizer.zero_grad()
    gate.set()
    assert market.wait(60)
    pair.take(2)
    assert pair.take(2) == 2
