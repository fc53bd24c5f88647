"""Optimizers, schedulers, clipping, scaling and modes around training steps: whatever a step changes equals eager's."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import side_by_side
import torch
from side_by_side import Jit, replayed
from torch import Tensor, nn
from torch.optim import lr_scheduler
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import pijit
from pijit import _core, api

pytestmark = pytest.mark.torch

TABLE = side_by_side.Table()
scenario = TABLE.add
Make = Callable[[Any], torch.optim.Optimizer]


def data(seed: int, *shape: int) -> Tensor:
    return torch.randn(*(shape or (3, 4)), generator=torch.Generator().manual_seed(seed))


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.3), nn.Tanh(), nn.Linear(6, 2))


def state(model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> list[Any]:
    found = [*model.parameters(), *model.buffers(), *(parameter.grad for parameter in model.parameters())]
    return found if optimizer is None else [*found, optimizer.state_dict()]


def with_gradients(model: nn.Module, seed: int) -> None:
    for place, parameter in enumerate(model.parameters()):
        parameter.grad = data(seed + place, *parameter.shape)


# optimizers: the step alone, and what is set of it between two calls

OPTIMIZERS: dict[str, Make] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "sgd_for_loop": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=False),
    "sgd_momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01),
    "sgd_nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, foreach=True),
    "sgd_maximize": lambda p: torch.optim.SGD(p, lr=0.1, maximize=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.1, weight_decay=0.1),
    "adam_foreach": lambda p: torch.optim.Adam(p, lr=0.1, foreach=True),
    "adam_for_loop": lambda p: torch.optim.Adam(p, lr=0.1, foreach=False, amsgrad=True),
    "adam_tensor_lr": lambda p: torch.optim.Adam(p, lr=torch.tensor(0.1)),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1),
    "adamw_foreach": lambda p: torch.optim.AdamW(p, lr=0.1, foreach=True),
    "adamw_for_loop": lambda p: torch.optim.AdamW(p, lr=0.1, foreach=False),
    "adamw_fused": lambda p: torch.optim.AdamW(p, lr=0.1, fused=True),
    "adamw_groups": lambda p: torch.optim.AdamW([{"params": [q], "lr": 0.1 / n} for n, q in enumerate(p, 1)]),
    "adadelta": lambda p: torch.optim.Adadelta(p, lr=0.1),
    "adamax": lambda p: torch.optim.Adamax(p, lr=0.1),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.1),
    "radam": lambda p: torch.optim.RAdam(p, lr=0.1),
    "rprop": lambda p: torch.optim.Rprop(p, lr=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_step(name: str) -> None:
    """Steps with other gradients and another learning rate each; then with one gradient less, and all again."""

    def body(jit: Jit) -> Iterator[Any]:
        model = net()
        optimizer = OPTIMIZERS[name](model.parameters())
        step = jit(lambda: optimizer.step())
        parameters = list(model.parameters())

        def call(seed: int, gone: int | None = None) -> Any:
            with_gradients(model, seed)
            if gone is not None:
                parameters[gone].grad = None
            result = step()
            for group in optimizer.param_groups:
                group["lr"] = group["lr"] * 0.9
            return result, state(model, optimizer)

        for seed, gone in [(seed, None) for seed in range(6)] + [(6, 0), (7, 0), (8, None), (9, None)]:
            yield lambda: call(seed, gone)

    side_by_side.check(body, whole=False)


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "weight_decay": lambda o, m: o.param_groups[0].update(weight_decay=0.5),
    "betas": lambda o, m: o.param_groups[0].update(betas=(0.5, 0.9)),
    "betas_of_other_types": lambda o, m: o.param_groups[0].update(betas=(0, 0.9)),
    "eps": lambda o, m: o.param_groups[0].update(eps=1e-3),
    "lr_is_int": lambda o, m: o.param_groups[0].update(lr=1),
    "lr_is_zero": lambda o, m: o.param_groups[0].update(lr=0.0),
    "lr_is_negative_zero": lambda o, m: o.param_groups[0].update(lr=-0.0),
    "lr_is_nan": lambda o, m: o.param_groups[0].update(lr=math.nan),
    "lr_is_a_tensor": lambda o, m: o.param_groups[0].update(lr=torch.tensor(0.3)),
    "maximize": lambda o, m: o.param_groups[0].update(maximize=True),
    "amsgrad": lambda o, m: (o.state.clear(), o.param_groups[0].update(amsgrad=True)),
    "foreach": lambda o, m: o.param_groups[0].update(foreach=True),
    "state_cleared": lambda o, m: o.state.clear(),
    "state_loaded": lambda o, m: o.load_state_dict(o.state_dict()),
    "state_of_one_replaced": lambda o, m: o.state[m[0].weight].update(exp_avg=torch.ones(6, 4)),
    "step_set_back": lambda o, m: o.state[m[0].weight]["step"].zero_(),
    "group_added": lambda o, m: o.add_param_group({"params": [nn.Parameter(torch.ones(2))], "lr": 0.5}),
    "parameter_exchanged": lambda o, m: o.param_groups[0]["params"].__setitem__(0, nn.Parameter(torch.ones(6, 4))),
    "parameter_gone": lambda o, m: o.param_groups[0]["params"].pop(),
    "parameter_in_place": lambda o, m: m[0].weight.data.mul_(2),
    "data_exchanged": lambda o, m: setattr(m[0].weight, "data", torch.ones(6, 4)),
    "not_required": lambda o, m: m[0].weight.requires_grad_(False),
    "gradient_is_the_parameter_of_another": lambda o, m: setattr(m[0].bias, "grad", m[1].weight.detach()),
    "gradient_shared": lambda o, m: setattr(m[1].bias, "grad", m[0].bias.grad),
    "step_patched": lambda o, m: setattr(o, "step", lambda: "patched"),
    "class_patched": lambda o, m: setattr(type(o), "_init_group", lambda *args: False),
}


@pytest.mark.parametrize("change", CHANGES)
def test_change_between_steps(change: str) -> None:
    """What AdamW reads is changed after three steps, and seen by the fourth."""

    def body(jit: Jit) -> Iterator[Any]:
        class Mine(torch.optim.AdamW):
            """Patched without harm to others."""

        model = net()
        optimizer = Mine(model.parameters(), lr=0.1)
        step = jit(lambda: optimizer.step())
        for turn in range(7):
            if turn == 3:
                CHANGES[change](optimizer, model)
            elif "gradient" not in change or turn < 3:
                with_gradients(model, turn)
            yield lambda: (step(), state(model), list(optimizer.state.values()))

    side_by_side.check(body, whole=False)


@scenario(whole=False)
def closures(jit: Jit) -> Iterator[Any]:
    model = net()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    calls = itertools.count()

    def closure() -> Tensor:
        next(calls)
        optimizer.zero_grad()
        loss = model(data(1)).pow(2).sum()
        loss.backward()
        return loss

    step = jit(lambda: optimizer.step(closure))
    for _ in range(4):
        yield lambda: (step(), state(model), next(calls))


@scenario(whole=False)
def zero_grad_both_ways(jit: Jit) -> Iterator[Any]:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    clear = jit(lambda to_none: optimizer.zero_grad(set_to_none=to_none))
    for seed, to_none in enumerate((True, True, True, False, False, True, False, True)):

        def call() -> Any:
            with_gradients(model, seed)
            before = [parameter.grad for parameter in model.parameters()]
            return clear(to_none), before, state(model)

        yield call


@scenario()
def all_parameters_of_a_module(jit: Jit) -> Iterator[Any]:
    """What walks through parameters, of which some are there twice, remembers them in a set."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.BatchNorm1d(4))

    def f(required: bool) -> Any:
        model.zero_grad()
        model.requires_grad_(required)
        return len(list(model.parameters())), [name for name, _ in model.named_parameters()]

    f = jit(f)
    for turn in range(7):
        if turn == 4:
            model[1].weight = model[0].weight

        def call() -> Any:
            with_gradients(model, turn)
            return f(turn != 2), state(model)

        yield call


# schedulers

SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "step": lambda o: lr_scheduler.StepLR(o, 2),
    "multi_step": lambda o: lr_scheduler.MultiStepLR(o, [1, 4]),
    "exponential": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "linear": lambda o: lr_scheduler.LinearLR(o, total_iters=3),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 4),
    "restarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2),
    "cyclic": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=2),
    "one_cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.2, total_steps=20),
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 1 / (epoch + 1)),
    "polynomial": lambda o: lr_scheduler.PolynomialLR(o, 5),
    "sequential": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o, 0.1, 2), lr_scheduler.ExponentialLR(o, 0.9)], [2]
    ),
    "chained": lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.LinearLR(o), lr_scheduler.StepLR(o, 2)]),
}


@pytest.mark.parametrize("where", ["inside", "outside"])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_scheduler(name: str, where: str) -> None:
    def body(jit: Jit) -> Iterator[Any]:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        scheduler = SCHEDULERS[name](optimizer)

        def step(seed: Tensor) -> Any:
            optimizer.zero_grad()
            loss = model(seed).pow(2).sum()
            loss.backward()
            optimizer.step()
            if where == "inside":
                scheduler.step()
            return loss.detach(), scheduler.get_last_lr()

        step = jit(step)
        for seed in range(7):

            def call() -> Any:
                result = step(data(seed))
                if where == "outside":
                    scheduler.step()
                return result, state(model, optimizer), scheduler.last_epoch

            yield call

    side_by_side.check(body, whole=False)


@scenario(whole=False)
def reduced_on_a_plateau(jit: Jit) -> Iterator[Any]:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    step = jit(lambda metric: (scheduler.step(metric), optimizer.param_groups[0]["lr"]))
    for metric in (3.0, 2.0, 2.5, 2.5, 2.5, math.nan, 1.0, 1.0):
        yield lambda: (step(metric), scheduler.num_bad_epochs)


# scaling and clipping


@scenario(whole=False)
def clipping(jit: Jit) -> Iterator[Any]:
    model = net()

    def clip(norm: float, kind: float) -> Any:
        return nn.utils.clip_grad_norm_(model.parameters(), norm, norm_type=kind)

    clip = jit(clip)
    for seed, norm, kind in [(1, 0.5, 2.0), (2, 0.5, 2.0), (3, 0.5, 2.0), (4, 9.0, 2.0), (5, 0.5, math.inf), (6, 1, 1)]:

        def call() -> Any:
            with_gradients(model, seed)
            return clip(norm, kind), state(model)

        yield call
    yield lambda: (model.zero_grad(), clip(0.5, 2.0))


@scenario(whole=False)
def clipping_by_value(jit: Jit) -> Iterator[Any]:
    model = net()
    clip = jit(lambda value: nn.utils.clip_grad_value_(model.parameters(), value))
    for seed, value in enumerate((0.5, 0.5, 0.5, 0.1, 0.2, 0.3)):

        def call() -> Any:
            with_gradients(model, seed)
            return clip(value), state(model)

        yield call


@scenario(whole=False)
def clipping_of_what_is_not_finite(jit: Jit) -> Iterator[Any]:
    model = net()
    clip = jit(lambda: nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True))
    for turn in range(6):

        def call() -> Any:
            with_gradients(model, turn)
            if turn % 3 == 2:
                model[0].weight.grad[0, 0] = math.inf
            return clip()

        yield call


@scenario(whole=False)
def scaler_that_skips_steps(jit: Jit) -> Iterator[Any]:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)

    def step(x: Tensor, factor: float) -> Any:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(x).pow(2).sum() * factor
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss.detach(), norm, scaler.get_scale()

    step = jit(step)
    for seed, factor in enumerate((1.0, 1.0, 1.0, math.inf, 1.0, 1.0, math.nan, 1.0)):
        yield lambda: (step(data(seed), factor), state(model, optimizer))


# whole steps


@scenario(whole=False)
def accumulation(jit: Jit) -> Iterator[Any]:
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)

    def step(batches: list[Tensor]) -> Tensor:
        total = torch.zeros(())
        for batch in batches:
            loss = model(batch).pow(2).mean() / len(batches)
            loss.backward()
            total = total + loss.detach()
        optimizer.step()
        optimizer.zero_grad()
        return total

    step = jit(step)
    for turn, count in enumerate((2, 2, 2, 3, 1, 2)):
        yield lambda: (step([data(turn + place) for place in range(count)]), state(model, optimizer))


@scenario(whole=False)
def modes_of_a_loop(jit: Jit) -> Iterator[Any]:
    """Training and evaluation in turn."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(x: Tensor) -> Tensor:
        model.train()
        optimizer.zero_grad()
        loss = model(x).pow(2).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    @torch.no_grad()
    def evaluate(x: Tensor) -> Any:
        model.eval()
        return model(x), torch.is_grad_enabled()

    train, evaluate = jit(train), jit(evaluate)
    for seed in range(5):
        yield lambda: (train(data(seed)), state(model, optimizer))
        yield lambda: (evaluate(data(seed)), model.training)


@scenario()
def batch_norm_toggled(jit: Jit) -> Iterator[Any]:
    """After the first time, neither mode is recorded again."""
    model = jit(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5)))
    for turn in range(10):
        model.train(turn % 2 == 0)
        call = lambda: (model(data(turn)), list(model.buffers()))  # noqa: E731
        yield call if turn < 3 else replayed(call)


def in_modes(name: str, *modes: Callable[[], Any]) -> None:
    """One step under each of these modes in turn, which are around the call, and as often again."""

    def body(jit: Jit) -> Iterator[Any]:
        model = net()

        def step(x: Tensor) -> Any:
            out = model(x)
            loss = out.float().pow(2).sum()
            if loss.requires_grad:
                loss.backward()
            return out, loss, torch.is_grad_enabled(), torch.is_inference_mode_enabled()

        step = jit(step)
        for seed in range(3):
            for mode in modes:

                def call() -> Any:
                    model.zero_grad()
                    with mode():
                        return step(data(seed)), state(model)

                yield call

    body.__name__ = name
    TABLE.add(whole=False)(body)


in_modes("under_no_grad", torch.enable_grad, torch.no_grad, torch.enable_grad)
in_modes("under_inference_mode", torch.no_grad, torch.inference_mode, torch.enable_grad)
in_modes("under_autocast", lambda: torch.autocast("cpu", dtype=torch.bfloat16), torch.enable_grad)
in_modes(
    "under_several",
    lambda: torch.autocast("cpu", dtype=torch.float16),
    torch.no_grad,
    lambda: torch.autocast("cpu", enabled=False),
    lambda: torch.autograd.set_grad_enabled(False),
)


def decorated(name: str, decorator: Any) -> None:
    """The mode is a decorator: of the root, of what it calls, and around the jitted function."""

    def body(jit: Jit) -> Iterator[Any]:
        w = data(1, 4, 4).requires_grad_()

        @decorator
        def inner(x: Tensor) -> Any:
            return x @ w, torch.is_grad_enabled()

        def outer(x: Tensor) -> Any:
            return inner(x), x @ w, torch.is_grad_enabled()

        plain = lambda x: (x @ w, torch.is_grad_enabled())  # noqa: E731
        functions = [jit(outer), decorator(jit(plain)), jit(decorator(plain))]
        for seed in range(3):
            for function in functions:
                yield lambda: function(data(seed))

    body.__name__ = name
    TABLE.add(whole=False)(body)


decorated("decorated_no_grad", torch.no_grad())
decorated("decorated_enable_grad", torch.enable_grad())
decorated("decorated_inference_mode", torch.inference_mode())
decorated("decorated_autocast", torch.autocast("cpu", dtype=torch.bfloat16))


@scenario()
def grad_mode_set_between_calls(jit: Jit) -> Iterator[Any]:
    model = jit(nn.Linear(4, 3))
    for enabled in (True, True, False, False, True, False, True):

        def call() -> Any:
            before = torch.is_grad_enabled()
            torch.set_grad_enabled(enabled)
            try:
                return model(data(1))
            finally:
                torch.set_grad_enabled(before)

        yield call


@scenario()
def grad_mode_left_changed(jit: Jit) -> Iterator[Any]:
    """The call itself leaves the mode other than it found it."""

    def f(x: Tensor, w: Tensor) -> Any:
        torch.set_grad_enabled(not torch.is_grad_enabled())
        return x @ w

    f = jit(f)
    w = data(1, 4, 4).requires_grad_()
    try:
        for seed in range(6):
            yield lambda: (f(data(seed), w), torch.is_grad_enabled())
    finally:
        torch.set_grad_enabled(True)


# graphs


@scenario(whole=False)
def gradients_of_gradients(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, w: Tensor) -> Any:
        y = (x * w).sin().sum()
        (first,) = torch.autograd.grad(y, w, create_graph=True)
        (second,) = torch.autograd.grad(first.pow(2).sum(), w, create_graph=True)
        return y, first, second, torch.autograd.grad(second.sum(), [x, w], allow_unused=True)

    f = jit(f)
    for seed in range(4):
        yield lambda: f(data(seed).requires_grad_(), data(9).requires_grad_())


@scenario(whole=False)
def gradients_of_what_is_unused(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, w: Tensor, allow: bool) -> Any:
        return torch.autograd.grad((x * 2).sum(), [x, w], allow_unused=allow)

    f = jit(f)
    for allow in (True, True, False, False, True):
        yield lambda: f(data(1).requires_grad_(), data(2).requires_grad_(), allow)


@scenario(whole=False)
def graph_retained(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, w: Tensor, retain: bool) -> Any:
        loss = (x * w).exp().sum()
        loss.backward(retain_graph=retain)
        loss.backward(torch.tensor(2.0))
        return loss

    f = jit(f)
    for retain in (True, True, False, False, True):
        w = data(2).requires_grad_()
        yield lambda: (f(data(1), w, retain), w)


@scenario(whole=False)
def backward_with_inputs(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, w: Tensor, v: Tensor) -> Any:
        torch.autograd.backward([(x * w * v).sum(), (x + v).sum()], inputs=[v])
        return w.grad, v.grad

    f = jit(f)
    w, v = data(2).requires_grad_(), data(3).requires_grad_()
    for seed in range(4):
        yield lambda: f(data(seed), w, v)


@scenario(whole=False)
def grad_read_and_set(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, w: Tensor, how: str) -> Any:
        before = w.grad
        if how == "none":
            w.grad = None
        elif how == "tensor":
            w.grad = x * 2
        elif how == "wrong":
            w.grad = x[0]
        elif how == "in place" and w.grad is not None:
            w.grad.mul_(2)
        elif how == "del":
            del w.grad
        return before, w.grad, w.grad is before

    f = jit(f)
    w = data(2).requires_grad_()
    for how in ("read", "read", "tensor", "tensor", "read", "in place", "in place", "none", "none", "wrong", "wrong"):
        yield lambda: (f(data(1), w, how), w)
    for how in ("tensor", "tensor", "del", "read", "in place", "wrong", "read"):
        yield lambda: (f(data(1), w, how), w)


@scenario(whole=False)
def grad_of_a_result(jit: Jit) -> Iterator[Any]:
    """Reading the gradient of what is no leaf warns, once."""

    def f(x: Tensor, w: Tensor) -> Any:
        y = x * w
        y.sum().backward()
        return y.grad, w.grad

    f = jit(f)
    w = data(2).requires_grad_()
    for seed in range(3):
        yield lambda: f(data(seed), w)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints(reentrant: bool) -> None:
    """Dropout inside, so that random number states matter; nested, in a sequence, without them preserved."""

    def body(jit: Jit) -> Iterator[Any]:
        model = net()

        def f(x: Tensor, how: str) -> Tensor:
            if how == "nested":
                outer = lambda y: checkpoint(model, y, use_reentrant=reentrant) * 2  # noqa: E731
                return checkpoint(outer, x, use_reentrant=reentrant)
            if how == "sequence":
                return checkpoint_sequential(model, 2, x, use_reentrant=reentrant)
            return checkpoint(model, x, use_reentrant=reentrant, preserve_rng_state=how == "preserved")

        f = jit(f)
        for how in ("preserved", "preserved", "preserved", "not", "nested", "sequence", "nested", "preserved"):

            def call() -> Any:
                model.zero_grad()
                x = data(1).requires_grad_()
                loss = f(x, how).pow(2).sum()
                loss.backward()
                return loss, x.grad, state(model), torch.rand(2)

            yield call

    side_by_side.check(body, whole=False)


class Clamped(torch.autograd.Function):
    """Non-tensor arguments, several results, one of them not differentiable, and needs_input_grad."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, low: float) -> Any:
        ctx.save_for_backward(x, w)
        ctx.low = low
        mask = x > low
        ctx.mark_non_differentiable(mask)
        return x * w * mask, mask

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Any) -> Any:
        x, w = ctx.saved_tensors
        assert ctx.needs_input_grad[2] is False
        return grad * w * (x > ctx.low), grad * x if ctx.needs_input_grad[1] else None, None


class Doubled(torch.autograd.Function):
    """In place, with setup_context, and differentiable twice."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.mul_(2)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_dirty(inputs[0])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * 2


@scenario(whole=False)
def custom_functions(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, w: Tensor, low: float) -> Any:
        y, mask = Clamped.apply(x * 1, w, low)
        return Doubled.apply(y.sin()).sum(), mask

    f = jit(f)
    for seed, low, needs in ((1, 0.0, True), (2, 0.0, True), (3, 0.5, True), (4, 0.5, False), (5, 0.5, True)):

        def call() -> Any:
            x, w = data(seed).requires_grad_(), data(9).requires_grad_(needs)
            loss, mask = f(x, w, low)
            (first,) = torch.autograd.grad(loss, x, create_graph=True)
            first.sum().backward()
            return loss, mask, first, x.grad, w.grad

        yield call


@scenario(whole=False)
def dropout_with_states(jit: Jit) -> Iterator[Any]:
    """The state of the generator is saved before a call and set back after it."""
    model = jit(net())
    for turn in range(5):

        def call() -> Any:
            before = torch.get_rng_state()
            first = model(data(1))
            after = torch.get_rng_state()
            torch.set_rng_state(before)
            second = model(data(1))
            with torch.random.fork_rng():
                torch.manual_seed(turn)
                third = model(data(1))
            return first, second, third, torch.equal(first, second), torch.equal(after, torch.get_rng_state())

        yield call


@scenario(whole=False)
def states_inside(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Any:
        before = torch.get_rng_state()
        first = nn.functional.dropout(x)
        torch.set_rng_state(before)
        second = nn.functional.dropout(x)
        with torch.random.fork_rng():
            torch.manual_seed(5)
            third = nn.functional.dropout(x)
        return first, second, third

    f = jit(f)
    for seed in range(4):
        yield lambda: (f(data(seed)), torch.rand(1))


# how often a step is recorded


@pytest.mark.parametrize("name", ["sgd", "sgd_momentum", "adam", "adamw", "adamw_foreach"])
def test_steps_come_to_rest(name: str) -> None:
    """One trace serves all later steps, though the learning rate is another each time."""
    model = net()
    optimizer = OPTIMIZERS[name](model.parameters())
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.99)
    step = pijit.jit(lambda: optimizer.step())
    seen = []
    for seed in range(12):
        with_gradients(model, seed)
        step()
        scheduler.step()
        report = _core.root_report(api.root_of(step))
        seen.append((report["records"], report["exits"], report["replays"]))
    assert seen[-1][0] == seen[-4][0], seen
    assert seen[-1][1] == seen[-4][1], seen
    assert seen[-1][2] == seen[-4][2] + 3, seen


def clipped_steps(layers: int, jit: Jit) -> tuple[list[Any], Any]:
    """What steps with clipped gradients gave, and the step; the last of so many layers has no bias."""
    torch.manual_seed(0)
    sizes = [nn.Linear(4, 4, bias=layer + 1 < layers) for layer in range(layers)]
    model = nn.Sequential(*sizes)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        return torch.stack([loss.detach(), norm])

    step = jit(step)
    given = [step(data(seed), data(seed + 1)) for seed in range(12)]
    return [*given, *(parameter.detach() for parameter in model.parameters())], step


@pytest.mark.parametrize("layers", [5, 16])
def test_gradients_of_many_parameters_are_clipped_in_one_trace(layers: int) -> None:
    """`clip_grad_norm_` makes a list of a generator that compares each parameter with those before it."""
    expected, _ = clipped_steps(layers, lambda function: function)
    actual, step = clipped_steps(layers, pijit.jit)
    assert len(expected) - 12 == 2 * layers - 1
    assert all(map(torch.equal, expected, actual))
    assert "PJ211" not in [trace.stop.code for trace in pijit.traces(step) if trace.stop is not None]
    report = _core.root_report(api.root_of(step))
    assert report["records"] <= 2, report  # the first step finds no gradients and no momentum
    assert report["replays"] >= 9, report


def test_generators_that_c_drives_write_in_place() -> None:
    """An exit in the middle of one has nothing to do again."""

    def f(tensors: list[Tensor], above: float) -> Any:
        a, b, c = (tensor.add_(1) for tensor in tensors[:3])
        told = list("above" if tensor.mul_(2).sum() > above else "below" for tensor in tensors)
        kept = [a]
        kept.extend(tensor.sub_(1) for tensor in tensors)
        told.append(any(tensor.mul_(2).sum() > above for tensor in tensors))
        return a + b + c, told, kept, [*(tensor.neg_() for tensor in tensors), tensors[0] * 2]

    def calls(function: Any) -> list[Any]:
        given = []
        for above in (20.0, 20.0, 20.0, 50.0, 0.0, 20.0, 50.0):
            tensors = [torch.full((2,), float(number)) for number in range(12)]
            given.append(([str(part) for part in function(tensors, above)], str(tensors)))
        return given

    jitted = pijit.jit(f)
    assert calls(f) == calls(jitted)
    assert all(trace.stop is None for trace in pijit.traces(jitted))
    assert _core.root_report(api.root_of(jitted))["replays"] > 0


@pytest.mark.parametrize("name", TABLE.cases())
def test_same(name: str) -> None:
    TABLE.check(name, __file__)
