"""Hooks of modules, tensors, graphs, optimizers: added late, removed, added by a call; the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import side_by_side
import torch
from side_by_side import Jit, replayed
from torch import Tensor, nn
from torch.nn.modules import module as hooks_of_all

pytestmark = pytest.mark.torch

TABLE = side_by_side.Table()
scenario = TABLE.add
Seen = list[Any]
Register = Callable[[nn.Module, Seen], Any]


def data(seed: int, *shape: int) -> Tensor:
    return torch.randn(*(shape or (2, 4)), generator=torch.Generator().manual_seed(seed))


class Scaled(nn.Module):
    """A layer that takes a keyword."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: Tensor, *, by: float = 1.0) -> Tensor:
        return self.inner(x) * by


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = Scaled()
        self.act = nn.Tanh()
        self.last = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.act(self.first(x, by=0.5)))


def shapes(values: Any) -> Any:
    """What a hook was given, without keeping it."""
    if isinstance(values, Tensor):
        return (tuple(values.shape), float(values.detach().sum()), values.requires_grad)
    if isinstance(values, dict):
        return {key: shapes(value) for key, value in values.items()}
    return [shapes(value) for value in values] if isinstance(values, (tuple, list)) else values


def forward(model: nn.Module, seen: Seen) -> Any:
    return model.last.register_forward_hook(lambda m, args, out: seen.append(("fw", shapes(args), shapes(out))))


def forward_changes(model: nn.Module, seen: Seen) -> Any:
    return model.first.register_forward_hook(lambda m, args, out: (seen.append("changes"), out + 1)[1])


def forward_first(model: nn.Module, seen: Seen) -> Any:
    model.first.register_forward_hook(lambda *_: seen.append("before"))
    return model.first.register_forward_hook(lambda *_: seen.append("prepended"), prepend=True)


def forward_always(model: nn.Module, seen: Seen) -> Any:
    return model.act.register_forward_hook(lambda *_: seen.append("always"), always_call=True)


def forward_with_kwargs(model: nn.Module, seen: Seen) -> Any:
    def hook(module: nn.Module, args: Any, kwargs: Any, out: Tensor) -> Tensor:
        seen.append(("kw", shapes(args), dict(kwargs)))
        return out * kwargs["by"]

    return model.first.register_forward_hook(hook, with_kwargs=True)


def before(model: nn.Module, seen: Seen) -> Any:
    return model.last.register_forward_pre_hook(lambda m, args: (seen.append("pre"), (args[0] * 2,))[1])


def before_with_kwargs(model: nn.Module, seen: Seen) -> Any:
    def hook(module: nn.Module, args: Any, kwargs: Any) -> Any:
        seen.append(("pre", dict(kwargs)))
        return args, {"by": 2.0}

    return model.first.register_forward_pre_hook(hook, with_kwargs=True)


def full_backward(model: nn.Module, seen: Seen) -> Any:
    def hook(module: nn.Module, inner: Any, outer: Any) -> Any:
        seen.append(("bw", shapes(inner), shapes(outer)))
        return tuple(grad if grad is None else grad * 3 for grad in inner)

    return model.last.register_full_backward_hook(hook)


def full_backward_before(model: nn.Module, seen: Seen) -> Any:
    return model.last.register_full_backward_pre_hook(lambda m, outer: (seen.append("bwp"), (outer[0] * 2,))[1])


def of_all(model: nn.Module, seen: Seen) -> Any:
    return hooks_of_all.register_module_forward_hook(lambda m, args, out: seen.append(("all", type(m).__name__)))


def of_all_before(model: nn.Module, seen: Seen) -> Any:
    return hooks_of_all.register_module_forward_pre_hook(lambda m, args: seen.append(("all pre", type(m).__name__)))


def of_all_backward(model: nn.Module, seen: Seen) -> Any:
    return hooks_of_all.register_module_full_backward_hook(
        lambda m, inner, outer: seen.append(("all bw", type(m).__name__, shapes(outer)))
    )


def of_a_parameter(model: nn.Module, seen: Seen) -> Any:
    return model.last.weight.register_hook(lambda grad: (seen.append(("grad", shapes(grad))), grad * 2)[1])


def after_accumulation(model: nn.Module, seen: Seen) -> Any:
    return model.last.weight.register_post_accumulate_grad_hook(
        lambda parameter: seen.append(("sum", shapes(parameter.grad)))
    )


KINDS: tuple[Register, ...] = (
    forward,
    forward_changes,
    forward_first,
    forward_always,
    forward_with_kwargs,
    before,
    before_with_kwargs,
    full_backward,
    full_backward_before,
    of_all,
    of_all_before,
    of_all_backward,
    of_a_parameter,
    after_accumulation,
)


def added_and_removed(register: Register) -> None:
    """Three steps without the hook, three with it, three with two of it, and all of that backwards."""

    def body(jit: Jit) -> Iterator[Any]:
        plain, seen = Net(), []
        model = jit(plain)

        def call() -> Any:
            seen.clear()
            model.zero_grad()
            x = data(1).requires_grad_()
            out = model(x)
            out.pow(2).sum().backward()
            return out, x.grad, [parameter.grad for parameter in plain.parameters()], list(seen)

        handles: list[Any] = []
        try:
            for change in ("nothing", "add", "add", "remove", "remove"):
                if change == "add":
                    handles.append(register(plain, seen))
                elif change == "remove":
                    handles.pop(0).remove()
                for _ in range(3):
                    yield call
        finally:
            for handle in handles:
                handle.remove()

    body.__name__ = register.__name__
    TABLE.add()(body)


for kind in KINDS:
    added_and_removed(kind)


@pytest.mark.parametrize("register", KINDS, ids=lambda kind: kind.__name__)
def test_there_from_the_start(register: Register) -> None:
    """The first call is recorded with the hook in place; then it goes."""

    def body(jit: Jit) -> Iterator[Any]:
        plain, seen = Net(), []
        handle = register(plain, seen)
        model = jit(plain)

        def call() -> Any:
            seen.clear()
            out = model(data(1))
            out.sum().backward()
            return out, [parameter.grad for parameter in plain.parameters()], list(seen)

        try:
            yield from [call] * 3
            yield torch.no_grad()(lambda: (model(data(2)), list(seen)))
            yield call
        finally:
            handle.remove()
        yield from [call] * 3

    side_by_side.check(body, whole=False)


@scenario(whole=False)
def all_kinds_at_once(jit: Jit) -> Iterator[Any]:
    plain, seen = Net(), []
    handles = [register(plain, seen) for register in KINDS]
    model = jit(plain)
    for seed in (1, 2, 1, 3):

        def call() -> Any:
            seen.clear()
            out = model(data(seed))
            out.sum().backward()
            return out, [parameter.grad for parameter in plain.parameters()], list(seen)

        yield call
    for handle in reversed(handles):
        handle.remove()
        yield call


@scenario(whole=False)
def hook_that_removes_itself(jit: Jit) -> Iterator[Any]:
    plain, seen, handles = Net(), [], []

    def once(module: nn.Module, args: Any, out: Tensor) -> Tensor:
        seen.append("once")
        handles.pop().remove()
        return out * 2

    model = jit(plain)
    for turn in range(8):
        if turn in {0, 3, 4}:
            handles.append(plain.act.register_forward_hook(once))
        yield lambda: (model(data(1)), list(seen))


@scenario(whole=False)
def hook_added_by_forward(jit: Jit) -> Iterator[Any]:
    class Adds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 4)
            self.seen: Seen = []

        def forward(self, x: Tensor, add: bool) -> Tensor:
            y = self.inner(x)
            if add:
                self.inner.register_forward_hook(lambda m, args, out: (self.seen.append("late"), out + 1)[1])
            return y + self.inner(x)

    plain = Adds()
    model = jit(plain)
    for add in (False, False, False, True, False, False, True, True, False):
        yield lambda: (model(data(1), add), list(plain.seen))


@scenario(whole=False)
def hook_on_a_graph_node(jit: Jit) -> Iterator[Any]:
    seen: Seen = []

    def f(x: Tensor, w: Tensor) -> Tensor:
        y = (x @ w).exp()
        y.grad_fn.register_hook(lambda inner, outer: seen.append(("node", shapes(inner), shapes(outer))))
        y.grad_fn.register_prehook(lambda outer: seen.append(("pre", shapes(outer))))
        return y.sum()

    f = jit(f)
    w = data(1, 4, 3).requires_grad_()
    for seed in range(4):

        def call() -> Any:
            f(data(seed), w).backward()
            return w.grad, list(seen)

        yield call


@scenario(whole=False)
def hook_of_several_tensors(jit: Jit) -> Iterator[Any]:
    seen: Seen = []

    def f(x: Tensor, w: Tensor) -> Any:
        y, z = x * w, x + w
        handle = torch.autograd.graph.register_multi_grad_hook((y, z), lambda grads: seen.append(shapes(grads)))
        return (y * z).sum(), handle

    f = jit(f)
    w = data(2).requires_grad_()
    for seed in range(5):

        def call() -> Any:
            loss, handle = f(data(seed), w)
            if seed == 3:
                handle.remove()
            loss.backward()
            return w.grad, list(seen)

        yield call


@scenario(whole=False)
def hooks_of_saved_tensors(jit: Jit) -> Iterator[Any]:
    seen: Seen = []

    def pack(tensor: Tensor) -> Any:
        seen.append(("pack", shapes(tensor)))
        return tensor * 2

    def unpack(tensor: Tensor) -> Tensor:
        seen.append(("unpack", shapes(tensor)))
        return tensor / 2

    def f(x: Tensor, w: Tensor) -> Tensor:
        y = x * w
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = y * w
        return y.exp().sum()

    f = jit(f)
    w = data(2).requires_grad_()
    for seed in range(4):

        def call() -> Any:
            w.grad = None
            f(data(seed), w).backward()
            return w.grad, list(seen)

        yield call


@scenario(whole=False)
def hooks_of_an_optimizer(jit: Jit) -> Iterator[Any]:
    plain, seen = Net(), []
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = plain(x).pow(2).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = jit(step)
    call = lambda: (step(data(1)), list(plain.parameters()), list(seen))  # noqa: E731
    yield from [call] * 3
    handles = [
        optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append(("pre", args, kwargs))),
        optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append(("post", len(args)))),
    ]
    yield from [call] * 3
    handles.pop().remove()
    yield from [call] * 2
    handles.pop().remove()
    yield from [call] * 2


@scenario(whole=False)
def hooks_of_state_dicts(jit: Jit) -> Iterator[Any]:
    plain, seen = Net(), []
    f = jit(lambda: sorted(plain.state_dict()))
    yield f
    yield f
    handle = plain.last._register_state_dict_hook(lambda m, state, prefix, more: seen.append(prefix))
    yield lambda: (f(), list(seen))
    yield lambda: (f(), list(seen))
    handle.remove()
    yield lambda: (f(), list(seen))


@scenario()
def hooks_dict_replaced(jit: Jit) -> Iterator[Any]:
    """The dict of a module's hooks is exchanged as a whole."""
    plain, seen = Net(), []
    model = jit(plain)
    call = lambda: (model(data(1)), list(seen))  # noqa: E731
    yield call
    yield replayed(call)
    before = plain.last._forward_hooks
    plain.last._forward_hooks = type(before)({7: lambda m, args, out: (seen.append("other"), out * 2)[1]})
    yield call
    yield call
    plain.last._forward_hooks = before
    yield call
    yield replayed(call)


@pytest.mark.parametrize("name", TABLE.cases())
def test_same(name: str) -> None:
    TABLE.check(name, __file__)
