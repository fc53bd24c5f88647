"""Steps whose backward pass runs functions of Python, or keeps a graph: replayed to the end, all bits as in eager."""

# mypy: disable-error-code="no-untyped-call,no-any-return,func-returns-value,operator,unused-ignore,override"

from collections.abc import Callable
from typing import Any

import pytest
import torch
from taped_steps import Step, batches, compare, mlp, stepping
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

import pijit


def whole(fast: Step) -> int:
    """Replays of traces that go to the end of the step."""
    return sum(trace.replays for trace in pijit.traces(fast) if trace.stop is None)


def opaque(fast: Step) -> int:
    """Most opaque calls of a trace that is replayed from the first instruction to its end."""
    whole = [trace for trace in pijit.traces(fast) if trace.replays and trace.stop is None and not trace.entry]
    return max(sum(node.opaque for node in trace.nodes) for trace in whole)


# -- functions of a program


class Saving(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        ctx.factor = 1.5
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * gradient * ctx.factor


class WithContext(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, factor: float) -> Tensor:
        return x * factor

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, ctx.factor = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        x, output = ctx.saved_tensors
        return (gradient * ctx.factor + x * 0 + output * 0 if ctx.needs_input_grad[0] else None), None


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient


class Dirty(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient * 2


class Pair(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Any:
        top = x.argmax(1)
        ctx.mark_non_differentiable(top)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return x.sin(), x.exp(), top

    @staticmethod
    def backward(ctx: Any, first: Tensor | None, second: Tensor | None, _: Any) -> Any:
        (x,) = ctx.saved_tensors
        given = torch.zeros_like(x)
        if first is not None:
            given = given + first * x.cos()
        return given if second is None else given + second * x.exp()


class Counting(torch.autograd.Function):
    """It does more than compute."""

    passes: list[int] = []  # noqa: RUF012

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        Counting.passes.append(len(gradient))
        return gradient * (1 + len(Counting.passes) % 3)


FUNCTIONS: dict[str, Callable[[Tensor, nn.Module], Any]] = {
    "saving": lambda x, model: Saving.apply(x),
    "setup_context": lambda x, model: WithContext.apply(x, 3.0),
    "another number": lambda x, model: WithContext.apply(x, model.factor),
    "straight through": lambda x, model: Straight.apply(x),
    "dirty": lambda x, model: Dirty.apply(x.clone()),
    "first of a pair": lambda x, model: Pair.apply(x)[0],
    "both of a pair": lambda x, model: sum(Pair.apply(x)[:2]),
    "in a row": lambda x, model: Saving.apply(Straight.apply(x) + x),
    "counting": lambda x, model: Counting.apply(x),
}


def other_factor(model: nn.Module, index: int) -> None:
    model.factor = 3.0 if index < 6 else 0.5 + index  # type: ignore[assignment]


def freeze(model: nn.Module, index: int) -> None:
    other_factor(model, 0)
    model[0].requires_grad_(index % 4 != 3)  # type: ignore[operator, index]


@pytest.mark.parametrize("change", [other_factor, freeze])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, change: Callable[[nn.Module, int], None]) -> None:
    function = FUNCTIONS[name]
    Counting.passes.clear()

    def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Any:
        out = model[2](model[1](function(model[0](x), model)))  # type: ignore[index, operator]
        return F.cross_entropy(out, y), out

    if name == "counting":  # each side counts its own passes
        return once_each(lambda: stepping(mlp(nn.Tanh()), loss_of), change)
    fast = compare(lambda: stepping(mlp(nn.Tanh()), loss_of), batches(14, 5), change)
    assert whole(fast) >= (6 if change is other_factor else 2)
    assert opaque(fast) <= 3  # functions, and the engine


def once_each(make: Callable[[], Any], change: Callable[[nn.Module, int], None]) -> None:
    """One side after the other."""
    found = []
    for jitted in (False, True):
        Counting.passes.clear()
        torch.manual_seed(3)
        model, step = make()
        run = pijit.jit(step) if jitted else step
        losses = []
        for index, args in enumerate(batches(12, 5)):
            change(model, index)
            losses.append(run(*args)[0].item())
        found.append((losses, list(Counting.passes), [p.tolist() for p in model.parameters()]))
    assert found[0] == found[1]


def test_a_function_that_raises() -> None:
    class Raising(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:
            if gradient.abs().sum() > 0.1:
                raise ValueError(f"too much for {len(gradient)}")
            return gradient

    def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Any:
        out = Raising.apply(model(x))
        return (out * (0 if y[0] == 1 else 1)).sum(), out  # type: ignore[operator, union-attr]

    compare(lambda: stepping(mlp(nn.Tanh()), loss_of), batches(12, 5))


# -- hooks


def full_backward(model: nn.Module, seen: list[Any]) -> None:
    for each in model:  # type: ignore[attr-defined]
        each.register_full_backward_hook(
            lambda module, given, got: seen.append((type(module).__name__, got[0].tolist()))
        )


def full_backward_that_changes(model: nn.Module, seen: list[Any]) -> None:
    model[2].register_full_backward_hook(lambda module, given, got: (given[0] * 0.5,))  # type: ignore[index, union-attr, operator]


def full_backward_pre(model: nn.Module, seen: list[Any]) -> None:
    model[2].register_full_backward_pre_hook(lambda module, got: (got[0] * 0.5,))  # type: ignore[index, union-attr, operator]


def of_weights(model: nn.Module, seen: list[Any]) -> None:
    model[0].weight.register_hook(lambda gradient: seen.append(gradient.norm()) or gradient.clamp(-0.1, 0.1))  # type: ignore[index, union-attr, operator]


def post_accumulate(model: nn.Module, seen: list[Any]) -> None:
    for each in model.parameters():
        each.register_post_accumulate_grad_hook(lambda parameter: seen.append(parameter.grad.norm()))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "register",
    [full_backward, full_backward_that_changes, full_backward_pre, of_weights, post_accumulate],
    ids=lambda register: register.__name__,
)
def test_hooks(register: Callable[[nn.Module, list[Any]], None]) -> None:
    """Those that are there from the start; a layer is frozen at times."""

    def make() -> tuple[nn.Module, Step]:
        model, seen = mlp(nn.Tanh()), []
        register(model, seen)
        optimizer = torch.optim.AdamW(model.parameters())

        def step(x: Tensor, y: Tensor) -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            given = list(seen)
            seen.clear()
            return loss, given

        return model, step

    def change(model: nn.Module, index: int) -> None:
        model[0].bias.requires_grad_(index % 5 != 4)  # type: ignore[index, union-attr, operator]

    assert whole(compare(make, batches(15, 5), change)) >= 3


# -- graphs that are kept


def penalty(model: nn.Module, optimizer: Any, x: Tensor, y: Tensor) -> Any:
    """WGAN-GP."""
    made, share = torch.randn_like(x), torch.rand(len(x), 1)
    mixed = (share * x + (1 - share) * made).requires_grad_()
    out = model(mixed)
    (gradient,) = torch.autograd.grad(out, mixed, torch.ones_like(out), create_graph=True, retain_graph=True)
    loss = model(made).mean() - model(x).mean() + 10 * ((gradient.norm(2, dim=1) - 1) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss, gradient


def with_weights(weights: dict[str, Tensor], x: Tensor) -> Tensor:
    hidden = torch.tanh(F.linear(x, weights["0.weight"], weights["0.bias"]))
    return F.linear(hidden, weights["2.weight"], weights["2.bias"])


def inner_loop(model: nn.Module, optimizer: Any, x: Tensor, y: Tensor) -> Any:
    """MAML with two steps, written by hand."""
    weights = dict(model.named_parameters())
    for _ in range(2):
        loss = F.cross_entropy(with_weights(weights, x), y)
        given = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
        weights = {name: each - 0.1 * by for (name, each), by in zip(weights.items(), given, strict=True)}
    loss = F.cross_entropy(with_weights(weights, x.flip(0)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss, weights


def functional(model: nn.Module, optimizer: Any, x: Tensor, y: Tensor) -> Any:
    """MAML with two steps of a model that gets other weights."""
    weights = dict(model.named_parameters())
    for _ in range(2):
        loss = F.cross_entropy(torch.func.functional_call(model, weights, x), y)
        given = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
        weights = {name: each - 0.1 * by for (name, each), by in zip(weights.items(), given, strict=True)}
    loss = F.cross_entropy(torch.func.functional_call(model, weights, x.flip(0)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss, weights


def twice(model: nn.Module, optimizer: Any, x: Tensor, y: Tensor) -> Any:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward(create_graph=True)
    size = sum(each.grad.square().sum() for each in model.parameters())  # type: ignore[union-attr, misc]
    given = torch.autograd.grad(size, list(model.parameters()))
    with torch.no_grad():
        for each, by in zip(model.parameters(), given, strict=True):
            each.grad = each.grad.detach() + 0.1 * by  # type: ignore[union-attr]
    optimizer.step()
    return loss.detach(), size.detach()  # type: ignore[attr-defined, union-attr]


def second_derivatives(model: nn.Module, optimizer: Any, x: Tensor, y: Tensor) -> Any:
    """As of an equation that a network solves."""
    x = x.clone().requires_grad_()
    value = model(x)
    first = torch.autograd.grad(value.sum(), x, create_graph=True)[0]
    second = torch.autograd.grad(first[:, 0].sum(), x, create_graph=True)[0][:, 0]
    loss = (first[:, 1] - second).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss, second


def two_losses(model: nn.Module, optimizer: Any, x: Tensor, y: Tensor) -> Any:
    optimizer.zero_grad()
    out = model(x)
    first, second = F.cross_entropy(out, y), out.square().mean()
    first.backward(retain_graph=True)
    second.backward()
    optimizer.step()
    return first, second, out


KEPT = [penalty, inner_loop, functional, twice, second_derivatives, two_losses]


@pytest.mark.parametrize("step_of", KEPT, ids=lambda step_of: step_of.__name__)
@pytest.mark.filterwarnings("ignore:Using backward")
def test_graphs_that_are_kept(step_of: Callable[..., Any]) -> None:
    def make() -> tuple[nn.Module, Step]:
        model = mlp(nn.Tanh())
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        return model, lambda x, y: step_of(model, optimizer, x, y)

    def change(model: nn.Module, index: int) -> None:
        model[2].bias.requires_grad_(step_of in (inner_loop, functional) or index % 5 != 4)  # type: ignore[index, union-attr, operator]
        if index == 9:
            model.zero_grad()

    if step_of is twice:
        change = None  # type: ignore[assignment]
    fast = compare(make, batches(15, 5), change)
    assert whole(fast) >= 4
    said = [str(each) for trace in pijit.traces(fast) if trace.stop is None for each in trace.backwards]
    kept = [each for each in said if each.endswith("its graph is kept, or what it is called with is not known")]
    assert kept, said
