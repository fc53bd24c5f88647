# mypy: disable-error-code="no-untyped-call,no-any-return,func-returns-value,operator,unused-ignore"
"""Several backward passes in one step, of which one goes through what was made before another: all bits as in eager."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from taped_steps import Step, batches, compare, facts, runs, tapes
from torch import Tensor, nn
from torch.nn import functional as F

Parts = Callable[[nn.Module], Step]


class Adversaries(nn.Module):
    """Two networks with an optimizer each."""

    def __init__(self) -> None:
        super().__init__()
        self.maker = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 5))
        self.judge = nn.Sequential(nn.Linear(5, 8), nn.LeakyReLU(0.2, inplace=True), nn.Dropout(0.3), nn.Linear(8, 1))
        self.of_maker = torch.optim.Adam(self.maker.parameters(), lr=0.01)
        self.of_judge = torch.optim.SGD(self.judge.parameters(), lr=0.05, momentum=0.9)


def judged(out: Tensor, right: float) -> Tensor:
    return F.binary_cross_entropy_with_logits(out, torch.full_like(out, right))


def adversarial(model: Adversaries) -> Step:
    def step(x: Tensor, y: Tensor) -> Any:
        model.judge.zero_grad()
        real = judged(model.judge(x), 1.0)
        real.backward()
        made = model.maker(torch.randn(len(x), 4))
        fake = judged(model.judge(made.detach()), 0.0)
        fake.backward()
        model.of_judge.step()
        model.maker.zero_grad()
        loss = judged(model.judge(made), 1.0)
        loss.backward()
        model.of_maker.step()
        return real.detach(), fake, loss, made

    return step


def made_first(model: Adversaries) -> Step:
    """What the generator makes stands before both passes of the discriminator."""

    def step(x: Tensor, y: Tensor) -> Any:
        made = model.maker(torch.randn(len(x), 4))
        model.of_judge.zero_grad()
        judged(model.judge(x), 1.0).backward()
        judged(model.judge(made.detach()), 0.0).backward()
        model.of_judge.step()
        model.of_maker.zero_grad()
        loss = judged(model.judge(made), 1.0) + made.square().mean()
        loss.backward()
        model.of_maker.step()
        return loss

    return step


def heads(model: Adversaries) -> Step:
    """A head on what is detached, then one whose gradients reach what is before both."""

    def step(x: Tensor, y: Tensor) -> Any:
        hidden = model.maker(x[:, :4])
        model.zero_grad()
        first = model.judge(hidden.detach()).square().mean()
        first.backward()
        kept = [None if each.grad is None else each.grad.clone() for each in model.judge.parameters()]
        second = model.judge(torch.tanh(hidden)).mean()
        second.backward()
        return first, second, kept

    return step


def given_between(model: Adversaries) -> Step:
    """`torch.autograd.grad` stands between."""

    def step(x: Tensor, y: Tensor) -> Any:
        model.zero_grad()
        hidden = model.maker(x[:, :4])
        probe = hidden.detach().requires_grad_()
        (slope,) = torch.autograd.grad(model.judge(probe).sum(), probe)
        loss = (hidden * slope).mean() + model.judge(hidden).mean()
        loss.backward()
        return loss, slope

    return step


def decided(model: Adversaries) -> Step:
    """The replay is left between two passes, now and then."""

    def step(x: Tensor, y: Tensor) -> Any:
        made = model.maker(torch.randn(len(x), 4))
        model.zero_grad()
        loss = judged(model.judge(made.detach()), 0.0)
        loss.backward()
        if x[0, 0] > 0.9:
            made = made * 2
        other = judged(model.judge(made), 1.0)
        other.backward()
        return loss, other, made

    return step


def shared(model: Adversaries) -> Step:
    """Two passes through one graph, of which the first one keeps it."""

    def step(x: Tensor, y: Tensor) -> Any:
        hidden = model.maker(x[:, :4])
        model.zero_grad()
        model.judge(hidden).mean().backward(retain_graph=True)
        hidden.square().mean().backward()
        return hidden

    return step


STEPS = {adversarial: 12, made_first: 12, heads: 8, given_between: 8, decided: 6, shared: 0}


def with_model(parts: Callable[[Adversaries], Step]) -> tuple[nn.Module, Step]:
    model = Adversaries()
    return model, parts(model)


@pytest.mark.parametrize("parts", STEPS, ids=lambda parts: parts.__name__)
def test_as_eager(parts: Callable[[Adversaries], Step]) -> None:
    fast = compare(lambda: with_model(parts), batches(20, 5))
    assert runs(fast) >= STEPS[parts], tapes(fast)


@pytest.mark.parametrize("parts", [adversarial, made_first, heads], ids=lambda parts: parts.__name__)
def test_every_pass_has_a_tape(parts: Callable[[Adversaries], Step]) -> None:
    fast = compare(lambda: with_model(parts), batches(14, 5))
    assert all(row["runs"] >= 5 for row in tapes(fast)), tapes(fast)
    assert len(tapes(fast)) >= 2


@pytest.mark.parametrize("parts", STEPS, ids=lambda parts: parts.__name__)
def test_changes(parts: Callable[[Adversaries], Step]) -> None:
    """Sizes, modes, hooks and weights change between calls, once all tapes are there."""
    heard: list[list[Any]] = []

    def change(model: nn.Module, index: int) -> None:
        assert isinstance(model, Adversaries)
        if index in (9, 11):
            model.judge.train(index == 11)
        if index == 13:
            heard.append([])
            model.maker[0].weight.register_hook(lambda gradient, heard=heard[-1]: heard.append(facts(gradient)))
        if index == 16:
            model.judge[0].bias.requires_grad_(False)
        if index == 18:
            model.maker[3].weight.data = model.maker[3].weight.data * 0.5

    compare(lambda: with_model(parts), batches(24, 5, rows=lambda at: 7 if at % 6 == 5 else 4), change)
    assert heard[0] == heard[1]


def test_an_error_between_two_passes() -> None:
    """What stands before it is as in eager execution, and so is the next call."""

    def parts(model: Adversaries) -> Step:
        def step(x: Tensor, y: Tensor) -> Any:
            made = model.maker(torch.randn(len(x), 4))
            model.zero_grad()
            judged(model.judge(made.detach()), 0.0).backward()
            weights = torch.ones(5 if float(x[0, 0]) < 1 else 6)
            loss = (model.judge(made) + (made * weights).sum()).mean()
            loss.backward()
            return loss

        return step

    compare(lambda: with_model(parts), batches(24, 5))
