# mypy: disable-error-code="no-untyped-call,no-any-return,func-returns-value,operator,unused-ignore"
"""`torch.autograd.grad` behind the pass that it goes through is replayed as operators: all bits as in plain Python."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from taped_steps import Side, Step, batches, compare, facts, mlp, runs, seen, tapes
from torch import Tensor, nn
from torch.nn import functional as F


def of(given: Any) -> Any:
    """What a program sees of gradients, with whom they share memory, and which of them are one object."""
    marks = [(each._is_view(), facts(each._base) if each is not None and each._is_view() else None) for each in given]
    same = [[one is other for other in given] for one in given]
    return list(given), marks, same


def with_model(make: Callable[[nn.Module], Step]) -> tuple[nn.Module, Step]:
    model = mlp(nn.Tanh())
    return model, make(model)


def attack(model: nn.Module) -> Step:
    """The gradient of what goes in; those of the weights are left out."""

    def step(x: Tensor, y: Tensor) -> Any:
        x = x.clone().requires_grad_()
        loss = F.cross_entropy(model(x), y)
        (gradient,) = torch.autograd.grad(loss, x)
        return of([gradient]), (x + 0.1 * gradient.sign()).clamp(-1, 1).detach(), loss.detach()

    return step


def by_hand(model: nn.Module) -> Step:
    """A step of gradient descent; what comes of `t()` is a view."""

    def step(x: Tensor, y: Tensor) -> Any:
        parameters = list(model.parameters())
        given = torch.autograd.grad(F.cross_entropy(model(x), y), parameters)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, given, strict=True):
                parameter -= 0.05 * gradient
        return of(given)

    return step


def unused(model: nn.Module) -> Step:
    def step(x: Tensor, y: Tensor) -> Any:
        other = torch.zeros(3, requires_grad=True)
        given = torch.autograd.grad(model(x).square().mean(), [other, *model.parameters()], allow_unused=True)
        return given[0], of(given[1:])

    return step


def in_the_middle(model: nn.Module) -> Step:
    """Of a tensor that is no leaf, beside one behind it."""

    def step(x: Tensor, y: Tensor) -> Any:
        hidden = model[1](model[0](x))
        out = model[2](hidden)
        given = torch.autograd.grad(F.cross_entropy(out, y), [hidden, model[0].weight])
        return of(given), out, hidden.detach()

    return step


def weighted(model: nn.Module) -> Step:
    def step(x: Tensor, y: Tensor) -> Any:
        out = model(x)
        given = torch.autograd.grad([out, out.sum()], [model[2].bias, model[0].bias], [x[:, :4], torch.tensor(2.0)])
        return of(given)

    return step


def twice_the_same(model: nn.Module) -> Step:
    """Both summands get one tensor."""

    def step(x: Tensor, y: Tensor) -> Any:
        bias = model[0].bias
        other = (bias * 2).detach().requires_grad_()
        given = torch.autograd.grad((bias + other).square().sum(), [bias, other])
        return of(given)

    return step


def leapfrog(model: nn.Module) -> Step:
    """Hamiltonian dynamics: several calls of the engine in one call."""

    def potential(q: Tensor) -> Tensor:
        return 0.5 * (q * q).sum() + F.softplus(model(q)).sum()

    def slope(q: Tensor) -> Tensor:
        q = q.detach().requires_grad_(True)
        return torch.autograd.grad(potential(q), q)[0]

    def step(q: Tensor, y: Tensor) -> Any:
        p = torch.randn_like(q)
        p = p - 0.05 * slope(q)
        for _ in range(3):
            q = q + 0.1 * p
            p = p - 0.1 * slope(q)
        return q, p, potential(q).detach()

    return step


def decided(model: nn.Module) -> Step:
    """What is done with the gradient hangs on its value."""

    def step(x: Tensor, y: Tensor) -> Any:
        (gradient,) = torch.autograd.grad(model(x).square().mean(), [model[0].weight])
        if gradient.norm() > 0.6:
            gradient = gradient / gradient.norm()
        return gradient.mul_(2), gradient._version

    return step


def and_backward(model: nn.Module) -> Step:
    """A pass for a gradient, then a pass for those of leaves."""

    def step(x: Tensor, y: Tensor) -> Any:
        (slope,) = torch.autograd.grad(model(x).sum(), [model[2].weight])
        model.zero_grad()
        loss = F.cross_entropy(model(x), y) + slope.square().mean()
        loss.backward()
        return loss, slope

    return step


STEPS = [
    attack, by_hand, unused, in_the_middle, weighted, twice_the_same, leapfrog, decided, and_backward,
]  # fmt: skip


@pytest.mark.parametrize("make", STEPS, ids=lambda make: make.__name__)
def test_as_eager(make: Callable[[nn.Module], Step]) -> None:
    fast = compare(lambda: with_model(make), batches(14, 5))
    assert runs(fast) >= 6, tapes(fast)


@pytest.mark.parametrize("make", [attack, by_hand, in_the_middle], ids=lambda make: make.__name__)
def test_changes(make: Callable[[nn.Module], Step]) -> None:
    """Weights that need no gradients any more, hooks, other sizes, a mode."""
    heard: list[list[Any]] = []

    def change(model: nn.Module, index: int) -> None:
        weight = model[0].weight
        if index == 7:
            heard.append([])
            weight.register_hook(lambda gradient, heard=heard[-1]: heard.append(facts(gradient)))
        if index == 9:
            model[2].bias.requires_grad_(make is not attack)
        if index == 11:
            model[0].weight.data = model[0].weight.data * 0.5

    fast = compare(lambda: with_model(make), batches(18, 5, rows=lambda at: 6 if at % 5 else 4), change)
    assert runs(fast) >= 2, tapes(fast)
    assert heard[0] == heard[1]


def test_the_graph_is_freed() -> None:
    """A second call raises; so does one behind a graph that a loss still shows."""

    def make(model: nn.Module) -> Step:
        def step(x: Tensor, y: Tensor) -> Any:
            loss = F.cross_entropy(model(x), y)
            return torch.autograd.grad(loss, model[2].weight), loss

        return step

    sides = [Side(lambda: with_model(make), jitted) for jitted in (False, True)]
    for x, y in batches(10, 5):
        found = []
        for side in sides:
            (gradient,), loss = side.call(x, y)
            with pytest.raises(RuntimeError) as again:
                torch.autograd.grad(loss, side.model[2].weight)
            found.append((seen((gradient, loss)), str(again.value)))
        assert found[0] == found[1]
    assert runs(sides[1].run) >= 5, tapes(sides[1].run)


def test_part_of_the_graph_is_left() -> None:
    """What no input lies behind is not gone through: the next pass finds it as it was."""

    def make(model: nn.Module) -> Step:
        def step(x: Tensor, y: Tensor) -> Any:
            hidden = model[0](x)
            first = hidden.sin().sum()
            second = hidden.cos().sum()
            given = torch.autograd.grad(model[2](hidden).sum() + first, [model[2].weight])
            second.backward()
            return of(given), hidden

        return step

    compare(lambda: with_model(make), batches(10, 5))


def test_nothing_is_kept() -> None:
    def make(model: nn.Module) -> Step:
        return attack(model)

    side = Side(lambda: with_model(make), True)
    gone = []
    for x, y in batches(10, 5):
        (gradients, *_), *_ = side.call(x, y)
        gone.append(weakref.ref(gradients[0]))
        del gradients
    gc.collect()
    assert runs(side.run) >= 5
    assert [each() for each in gone] == [None] * len(gone)


def test_errors() -> None:
    """One input is not used, and nobody allows that; another does not need gradients."""

    def make(model: nn.Module) -> Step:
        def step(x: Tensor, y: Tensor) -> Any:
            out = model(x)
            wanted = model[0].weight if int(y[0]) < 2 else nn.Parameter(torch.ones(2))
            return of(torch.autograd.grad(out.sum(), wanted))

        return step

    compare(lambda: with_model(make), batches(16, 5))
