"""Recorded forwards and whole training steps: gradients, parameters and optimizer state equal the plain ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import side_by_side
import torch
from side_by_side import Call, Jit, replayed
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import pijit

pytestmark = pytest.mark.torch

TABLE = side_by_side.Table()
scenario = TABLE.add


def data(seed: int, *shape: int) -> Tensor:
    return torch.randn(*(shape or (2, 4)), generator=torch.Generator().manual_seed(seed))


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 3))


def small_alexnet() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 8, kernel_size=5, stride=2, padding=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(kernel_size=3, stride=2),
        nn.Conv2d(8, 12, kernel_size=3, padding=1),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d((2, 2)),
        nn.Flatten(1),
        nn.Dropout(0.5),
        nn.Linear(48, 32),
        nn.ReLU(inplace=True),
        nn.Linear(32, 10),
    )


def gradients(model: nn.Module) -> list[Any]:
    return [parameter.grad for parameter in model.parameters()]


def state(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[Any]:
    return [*model.parameters(), *model.buffers(), *gradients(model), optimizer.state_dict()["state"]]


# forward recorded, the rest outside


@scenario()
def backward_outside(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())

    def call() -> Any:
        model.zero_grad()
        loss = (model(data(1)) ** 2).sum()
        loss.backward()
        return loss, gradients(model)

    yield call
    for _ in range(3):
        yield replayed(call)


@scenario()
def gradients_accumulate(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    for seed in range(5):

        def call() -> Any:
            model(data(seed)).sum().backward()
            return gradients(model)

        yield call if seed == 0 else replayed(call)


@scenario()
def gradient_of_the_input(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    for seed in range(4):

        def call() -> Any:
            x = data(seed).requires_grad_()
            y = model(x)
            return torch.autograd.grad(y.sum(), x), y

        yield call if seed == 0 else replayed(call)


@scenario()
def double_backward(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    for seed in range(4):

        def call() -> Any:
            x = data(seed).requires_grad_()
            (first,) = torch.autograd.grad(model(x).pow(2).sum(), x, create_graph=True)
            first.pow(2).sum().backward()
            return first, x.grad, gradients(model)

        yield call


@scenario()
def backward_twice_raises(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    for seed in range(3):

        def call() -> Any:
            loss = model(data(seed)).pow(2).sum()
            loss.backward()
            loss.backward()

        yield call


@scenario()
def retained(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, w: Tensor) -> Any:
        y = x @ w
        y.retain_grad()
        return y, y.exp().sum()

    f = jit(f)
    w = data(1, 4, 3).requires_grad_()
    for seed in range(4):

        def call() -> Any:
            y, loss = f(data(seed), w)
            loss.backward()
            return y, w

        yield call


@scenario()
def hooks_of_a_parameter(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    seen: list[Any] = []

    def call() -> Any:
        seen.clear()
        model.zero_grad()
        model(data(1)).sum().backward()
        return gradients(model), list(seen)

    yield call
    yield replayed(call)
    hook = model[0].weight.register_hook(lambda grad: (seen.append("hook"), grad * 2)[1])
    yield call
    yield call
    model[3].bias.register_post_accumulate_grad_hook(lambda parameter: seen.append("post"))
    yield call
    yield call
    hook.remove()
    yield call
    yield call


@scenario(whole=False)
def hooks_of_an_intermediate(jit: Jit) -> Iterator[Any]:
    seen: list[Any] = []

    def f(x: Tensor, w: Tensor) -> Tensor:
        y = x @ w
        if y.requires_grad:
            y.register_hook(lambda grad: seen.append(tuple(grad.shape)))
        return y.exp().sum()

    f = jit(f)
    w = data(1, 4, 3).requires_grad_()
    for seed in range(4):

        def call() -> Any:
            f(data(seed), w).backward()
            return w, list(seen)

        yield call


@scenario(whole=False)
def module_backward_hooks(jit: Jit) -> Iterator[Any]:
    model = mlp()
    seen: list[Any] = []
    model[1].register_full_backward_hook(lambda module, grad_in, grad_out: seen.append((grad_in, grad_out)))
    model = jit(model)
    for seed in range(4):

        def call() -> Any:
            model(data(seed)).sum().backward()
            return gradients(model), list(seen)

        yield call


@scenario()
def requires_grad_toggled(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())

    def call() -> Any:
        model.zero_grad()
        y = model(data(1))
        if y.requires_grad:
            y.sum().backward()
        return y, gradients(model)

    yield call
    yield replayed(call)
    for layer, flag in ((0, False), (3, False), (0, True), (3, True)):
        model[layer].requires_grad_(flag)
        yield call
        yield replayed(call)


@scenario()
def input_changed_before_backward(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x, w: (x * w).sum())
    w = data(2).requires_grad_()
    for seed in range(3):

        def call() -> Any:
            x = data(seed)
            loss = f(x, w)
            x.add_(1)
            loss.backward()

        yield call


@scenario()
def in_place_on_a_leaf(jit: Jit) -> Iterator[Any]:
    def f(w: Tensor) -> Tensor:
        with torch.no_grad():
            w.mul_(0.5)
        return (w * 2).sum()

    f = jit(f)
    w = data(1).requires_grad_()
    for _ in range(4):

        def call() -> Any:
            w.grad = None
            f(w).backward()
            return w, w.grad

        yield call


@scenario()
def views_and_in_place(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, w: Tensor) -> Tensor:
        y = x * w
        y[0].mul_(2)
        y[:, 1:].add_(y[:, :-1].clone())
        return y.view(-1).sum()

    f = jit(f)
    w = data(1).requires_grad_()
    for seed in range(4):

        def call() -> Any:
            f(data(seed), w).backward()
            return w

        yield call


@scenario()
def detached_branch(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, w: Tensor) -> Tensor:
        y = x * w
        return (y * y.detach()).sum() + w.data.sum()

    f = jit(f)
    w = data(1).requires_grad_()
    for seed in range(4):

        def call() -> Any:
            f(data(seed), w).backward()
            return w

        yield call


# everything inside


@scenario(whole=False)
def backward_inside(jit: Jit) -> Iterator[Any]:
    model = mlp()

    def f(x: Tensor) -> Tensor:
        model.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        return loss.detach()

    f = jit(f)
    for seed in range(4):
        yield lambda: (f(data(seed)), gradients(model))
    yield lambda: (f(data(1, 3, 4)), gradients(model))
    yield lambda: f(data(1, 3, 5))
    yield lambda: (f(data(2)), gradients(model))


@scenario(whole=False)
def grad_inside(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, w: Tensor) -> Any:
        return torch.autograd.grad((x * w).exp().sum(), [w])

    f = jit(f)
    w = data(1).requires_grad_()
    for seed in range(4):
        yield lambda: f(data(seed), w)
    yield lambda: f(data(1), w.detach())
    yield lambda: f(data(1), w)


def training(name: str, make: Any, **flags: Any) -> None:
    """Four steps of a small network with an optimizer, then a change of its learning rate, then two more."""

    def body(jit: Jit) -> Iterator[Any]:
        model = mlp()
        optimizer = make(model.parameters())

        def step(x: Tensor, target: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), target)
            loss.backward()
            optimizer.step()
            return loss.detach()

        step = jit(step)
        for seed in range(6):
            if seed == 4:
                optimizer.param_groups[0]["lr"] *= 0.5
            yield lambda: (step(data(seed, 5, 4), torch.arange(5) % 3), state(model, optimizer))

    body.__name__ = name
    TABLE.add(whole=False, **flags)(body)


training("sgd", lambda p: torch.optim.SGD(p, lr=0.1))
training("sgd_momentum", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True))
training("sgd_foreach", lambda p: torch.optim.SGD(p, lr=0.1, foreach=True))
training("adam", lambda p: torch.optim.Adam(p, lr=0.1))
training("adamw_amsgrad", lambda p: torch.optim.AdamW(p, lr=0.1, amsgrad=True))
training("adam_fused", lambda p: torch.optim.Adam(p, lr=0.1, fused=True))
training("rmsprop", lambda p: torch.optim.RMSprop(p, lr=0.1, momentum=0.1))
training("adagrad", lambda p: torch.optim.Adagrad(p, lr=0.1))


@scenario(whole=False)
def alexnet_step(jit: Jit) -> Iterator[Any]:
    model = small_alexnet()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)

    def step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model(batch).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = jit(step)
    call: Call = lambda: (step(model, optimizer, data(seed, 2, 3, 32, 32)), state(model, optimizer))  # noqa: E731
    for seed in range(7):  # the first step finds no gradients; its trace is forgotten when two more have left it
        yield call if seed < 4 else replayed(call)
    model.eval()
    yield call
    yield call
    model.train()
    yield replayed(call)


@scenario(bug="the engine of autograd is an opaque call")
def step_of_sgd(jit: Jit) -> Iterator[Any]:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    model(data(1)).sum().backward()
    optimizer.step()  # imports what is imported late
    optimizer.zero_grad()

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = jit(step)
    yield from (lambda: (step(data(seed)), state(model, optimizer)) for seed in range(3))


@scenario(whole=False)
def scheduler_and_clipping(jit: Jit) -> Iterator[Any]:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)

    def step(x: Tensor) -> Any:
        optimizer.zero_grad()
        loss = model(x).pow(2).sum()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
        return loss.item(), norm

    step = jit(step)
    for seed in range(6):
        yield lambda: (step(data(seed)), state(model, optimizer), scheduler.get_last_lr())


@scenario(whole=False)
def autocast_and_scaler(jit: Jit) -> Iterator[Any]:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")

    def step(x: Tensor) -> Any:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(x).pow(2).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach(), scaler.get_scale()

    step = jit(step)
    for seed in range(4):
        yield lambda: (step(data(seed)), state(model, optimizer))


# custom functions and checkpoints


class Doubling(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * 3 * x.sign()


@scenario(whole=False)
def custom_function(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x, w: Doubling.apply(x * w).sum())
    w = data(1).requires_grad_()
    for seed in range(5):

        def call() -> Any:
            w.grad = None
            loss = f(data(seed), w)
            loss.backward()
            return loss, w

        yield call


@scenario(whole=False)
def custom_function_changed(jit: Jit) -> Iterator[Any]:
    class Scaling(torch.autograd.Function):
        factor = 2

        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * Scaling.factor

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad * Scaling.factor

    f = jit(lambda x: Scaling.apply(x * 1).sum())
    x = data(1).requires_grad_()
    for step in range(6):
        if step == 3:
            Scaling.factor = 5

        def call() -> Any:
            x.grad = None
            loss = f(x)
            loss.backward()
            return loss, x

        yield call


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("where", ["inside", "outside"])
def test_checkpoint(reentrant: bool, where: str) -> None:
    def body(jit: Jit) -> Iterator[Any]:
        model = mlp()
        head = nn.Linear(3, 2)
        if where == "inside":

            def f(x: Tensor) -> Tensor:
                return head(checkpoint(model, x, use_reentrant=reentrant))

            f = jit(f)
        else:
            jit(model)

            def f(x: Tensor) -> Tensor:
                return head(checkpoint(model, x, use_reentrant=reentrant))

        for seed in range(4):

            def call() -> Any:
                x = data(seed).requires_grad_()
                loss = f(x).pow(2).sum()
                loss.backward()
                return loss, x.grad, gradients(model), gradients(head)

            yield call

    side_by_side.check(body, whole=False)


def test_backward_of_a_replay_outlives_the_model() -> None:
    """A graph made by a replay holds what its backward needs."""

    def make(jit: Jit) -> Any:
        torch.manual_seed(0)
        model = jit(nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1)))
        x = data(1).requires_grad_()
        model(x)
        loss = model(x).sum()
        del model
        if jit is pijit.jit:
            pijit.reset()
        loss.backward()
        return x.grad.tolist()

    assert make(pijit.jit) == make(lambda thing: thing)


@pytest.mark.parametrize("name", TABLE.cases())
def test_same(name: str) -> None:
    TABLE.check(name, __file__)
