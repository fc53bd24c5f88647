"""Families of operators, tensors and modes: each is recorded, called in the trace or left opaque, with eager's answer.

`whole` scenarios must be recorded to their end without an opaque call; of the others only the answers count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import side_by_side
import torch
from side_by_side import Call, Jit, replayed
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

pytestmark = pytest.mark.torch

TABLE = side_by_side.Table()
scenario = TABLE.add


def data(seed: int, *shape: int) -> Tensor:
    return torch.randn(*(shape or (3, 4)), generator=torch.Generator().manual_seed(seed))


def again(*calls: Call) -> Iterator[Any]:
    """Each call twice, the second one replayed."""
    for call in calls:
        yield call
        yield replayed(call)


# writing


@scenario()
def in_place(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, y: Tensor) -> Tensor:
        x = x.clone()
        x.add_(y, alpha=2).mul_(0.5).clamp_(min=-1).relu_()
        x[0] = 3
        x[1:, 2] += y[1:, 2]
        x.masked_fill_(y > 0, -1.0).copy_(x.t().contiguous().t()).unsqueeze_(0).squeeze_(0)
        x -= y
        x /= 2
        x **= 2
        x.index_copy_(0, torch.zeros(1, dtype=torch.int64), y[:1]).scatter_(1, torch.ones(3, 1, dtype=torch.int64), 5.0)
        return x

    f = jit(f)
    yield from again(lambda: f(data(1), data(2)))
    yield lambda: f(data(1), data(2).double())
    yield lambda: f(data(1, 5, 4), data(2, 5, 4))
    yield replayed(lambda: f(data(3), data(4)))


@scenario()
def in_place_on_aliases(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        row = x[0]
        row.add_(1)
        y.mul_(2)
        whole = x.view(-1)
        whole[1] = 7
        return x + y, row, whole

    f = jit(f)
    for pair in (lambda: (data(1), data(2)), lambda: (data(3),) * 2, lambda: (data(4), data(5))):
        yield lambda: f(*pair())

    def overlapping() -> Any:
        base = data(6, 4, 4)
        return f(base[:3], base[1:]), base

    yield overlapping
    yield overlapping


@scenario()
def out_of_all_kinds(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, out: Tensor, values: Tensor, indices: Tensor) -> Any:
        torch.matmul(x, x.t(), out=out)
        pair = torch.topk(x, 2, out=(values, indices))
        return torch.cat([x, x], out=torch.empty(0)), pair, out, values, indices

    f = jit(f)

    def call(kind: torch.dtype = torch.float32, size: int = 3) -> Any:
        return f(data(1), torch.zeros(size, size), torch.zeros(3, 2, dtype=kind), torch.zeros(3, 2, dtype=torch.int64))

    yield from again(call)
    yield lambda: call(torch.float64)
    yield lambda: call(size=2)
    yield replayed(call)


@scenario()
def views_of_views(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> list[Tensor]:
        y, z = x * 1, x * 2
        views = [
            y.view(-1), y.t(), y[1:], y[..., None], y.expand(2, 3, 4), y.unfold(1, 2, 1), y.narrow(0, 1, 2),
            y.diagonal(), y.as_strided((2, 2), (1, 2)), y.detach(), y.select(1, 0), y.swapaxes(0, 1),
            y.unflatten(1, (2, 2)), y.T, y.mT, y.reshape(4, 3), y.view(torch.int32), y.real, *z.split(2),
            *z.unbind(1), *z.chunk(2, 1), y.movedim(0, 1),
        ]  # fmt: skip
        with torch.no_grad():
            y.add_(1)
        return [*views, x.view_as(x), x.contiguous(), x.flatten(), x.squeeze()]

    f = jit(f)
    yield from again(lambda: f(data(1)), lambda: f(data(2)))
    yield lambda: f(data(1, 4, 3).t())
    yield lambda: f(data(1).requires_grad_())


# making


@scenario()
def factories(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, n: int) -> list[Tensor]:
        return [
            torch.zeros(n, 2), torch.ones_like(x), torch.full((n,), 2.5), torch.arange(n), torch.arange(0, 1, 0.25),
            torch.linspace(0, 1, n), torch.eye(n), x.new_zeros(n), x.new_full((2, n), 3),
            torch.zeros_like(x).fill_(n), torch.tril_indices(n, n), torch.hann_window(4), torch.tensor([n, 1]),
            torch.tensor(2.5), torch.as_tensor([1.0]), torch.scalar_tensor(n), torch.ones(x.shape, dtype=x.dtype),
            torch.empty(n).zero_(), x.new_tensor([1, n]), torch.logspace(0, 1, 3),
            torch.zeros((n, 2), dtype=torch.int64), torch.complex(x, x), torch.full_like(x, n),
        ]  # fmt: skip

    f = jit(f)
    yield from again(lambda: f(data(1), 3), lambda: f(data(2), 3))
    for n in (4, 5, 6, 6):
        yield lambda: f(data(1), n)
    torch.set_default_dtype(torch.float64)
    yield lambda: f(data(1), 3)
    torch.set_default_dtype(torch.float32)
    yield lambda: f(data(1), 3)


@scenario()
def random_operators(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> list[Tensor]:
        positive = x.abs() + 0.1
        return [
            torch.rand(3), torch.randn(2, 2), torch.randint(0, 9, (4,)), torch.randperm(6), torch.rand_like(x),
            torch.randn_like(x), torch.randint_like(x, 5), torch.bernoulli(positive.clamp(max=1)),
            torch.poisson(positive), torch.normal(x, positive), torch.normal(0.0, 1.0, (3,)),
            torch.multinomial(positive, 2), functional.dropout(x, 0.5), functional.alpha_dropout(x, 0.5),
            functional.dropout1d(x, 0.3), functional.rrelu(x, training=True), torch.empty(3).uniform_(1, 2),
            torch.empty(3).normal_(), torch.empty(3).exponential_(), torch.empty(3).random_(7),
            torch.empty(3).bernoulli_(0.5), functional.gumbel_softmax(x), torch.empty(3).geometric_(0.5),
            torch.empty(3).cauchy_(), torch.empty(3).log_normal_(),
        ]  # fmt: skip

    f = jit(f)
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        yield lambda: f(data(1))
    yield replayed(lambda: f(data(2)))


@scenario()
def own_generator(jit: Jit) -> Iterator[Any]:
    generator = torch.Generator().manual_seed(3)
    f = jit(lambda x, g: (torch.rand(3, generator=g), torch.bernoulli(x.sigmoid(), generator=g), torch.randperm(4)))
    yield from again(lambda: f(data(1), generator))
    generator.manual_seed(3)
    yield lambda: f(data(1), generator)
    yield lambda: f(data(1), torch.Generator().manual_seed(4))


# many tensors at once


@scenario(whole=False)
def foreach(jit: Jit) -> Iterator[Any]:
    def f(xs: list[Tensor], ys: list[Tensor]) -> Any:
        torch._foreach_add_(xs, ys, alpha=0.5)
        torch._foreach_mul_(xs, 2.0)
        torch._foreach_addcdiv_(xs, ys, [y + 9 for y in ys])
        return torch._foreach_norm(xs), torch._foreach_sqrt(torch._foreach_abs(ys)), xs

    f = jit(f)
    for count in (2, 2, 2, 3, 1):
        yield lambda: f([data(i) for i in range(count)], [data(9 + i) for i in range(count)])
    x = data(1)
    yield lambda: f([x, x], [x, data(2)])


@scenario(whole=False)
def fused_and_foreach_optimizers(jit: Jit) -> Iterator[Any]:
    for make in (
        lambda parameters: torch.optim.Adam(parameters, 0.1, fused=True),
        lambda parameters: torch.optim.AdamW(parameters, 0.1, foreach=True),
        lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9, fused=True),
    ):
        torch.manual_seed(1)
        model = nn.Linear(4, 2)
        optimizer = make(model.parameters())

        def step(x: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        step = jit(step)
        for seed in range(4):
            yield lambda: (step(data(seed)), [p.detach().clone() for p in model.parameters()])


# operators of others

LIBRARY = torch.library.Library("pijit_families", "DEF")
LIBRARY.define("twice(Tensor x) -> Tensor")
LIBRARY.impl("twice", lambda x: x + x, "CompositeExplicitAutograd")
CALLS: list[int] = []


@torch.library.custom_op("pijit_families::scaled", mutates_args=())
def scaled(x: Tensor, by: float) -> Tensor:
    CALLS.append(len(CALLS))
    return x * by


@scaled.register_fake
def _(x: Tensor, by: float) -> Tensor:
    return torch.empty_like(x)


scaled.register_autograd(
    lambda context, grad: (grad * context.by, None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1]),
)


@torch.library.custom_op("pijit_families::fill_with", mutates_args={"x"})
def fill_with(x: Tensor, by: float) -> None:
    CALLS.append(len(CALLS))
    x.fill_(by)


@scenario(whole=False)
def custom_operators(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, by: float) -> Any:
        y = torch.ops.pijit_families.twice(x) + scaled(x, by)
        fill_with(y[0], by)
        return y, torch.ops.aten.mul.Tensor(y, x)

    f = jit(f)
    CALLS.clear()
    for by in (2.0, 2.0, 3.0):
        yield lambda: (f(data(1), by), list(CALLS))

    def trained(x: Tensor) -> Any:
        x.requires_grad_()
        f(x, 2.0)[0].sum().backward()
        return x.grad

    yield lambda: trained(data(1))
    yield lambda: trained(data(1))


class Clamped(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, low: float) -> Tensor:
        context.save_for_backward(x)
        context.low = low
        return x.clamp(min=low)

    @staticmethod
    def backward(context: Any, grad: Tensor) -> Any:
        (x,) = context.saved_tensors
        return grad * (x > context.low), None


@scenario(whole=False)
def custom_function(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x, low: Clamped.apply(x * 2, low) + 1)

    def trained(low: float) -> Any:
        x = data(1).requires_grad_()
        y = f(x, low)
        y.sum().backward()
        return y, x.grad

    for low in (0.0, 0.0, 0.5):
        yield lambda: trained(low)
    with torch.no_grad():
        yield lambda: f(data(1), 0.0)


# tensors of other kinds


def sparse(seed: int) -> Tensor:
    return (data(seed) * (data(seed) > 0)).to_sparse()


@scenario(whole=False)
def sparse_tensors(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, y: Tensor) -> Any:
        z = torch.sparse.mm(x, y) if x.is_sparse else x @ y
        return z, (x * 2).to_dense(), x.is_sparse, x.layout

    f = jit(f)
    for x in (
        sparse(1),
        sparse(1),
        data(1),
        sparse(2),
        sparse(2).coalesce().to_dense().to_sparse_csr(),
        data(2),
        sparse(3),
    ):
        yield lambda: f(x, data(5, 4, 2))


@scenario(whole=False)
def sparse_made_inside(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Any:
        y = x.to_sparse()
        return y.to_dense() + 1, y._nnz(), torch.sparse.sum(y)

    f = jit(f)
    for seed in (1, 1, 2):
        yield lambda: f(data(seed).relu())


@scenario(whole=False)
def quantised_tensors(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Any:
        y = x if x.is_quantized else torch.quantize_per_tensor(x, 0.1, 10, torch.quint8)
        return y.dequantize(), y.int_repr(), y.q_scale(), functional.relu(y).dequantize()

    f = jit(f)
    for x in (data(1), data(1), torch.quantize_per_tensor(data(2), 0.2, 3, torch.quint8), data(2)):
        yield lambda: f(x)
    g = jit(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127) * 2)
    yield from again(lambda: g(data(1)))


@scenario()
def complex_tensors(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Any:
        y = torch.fft.fft(x)
        z = torch.view_as_real(y * (1 + 2j)).sum(-1)
        return y.abs(), y.angle(), y.real + y.imag, z, torch.fft.ifft(y), torch.polar(y.abs(), y.angle()), y @ y.mH

    f = jit(f)
    yield from again(lambda: f(data(1)), lambda: f(data(2)))
    yield lambda: f(torch.complex(data(1), data(2)))
    yield lambda: f(torch.complex(data(1), data(2)).conj())
    yield lambda: f(data(3))


@scenario(whole=False)
def meta_tensors(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: (x @ x.t() + torch.zeros(3, 3, device=x.device)).relu())
    for device in ("meta", "meta", "cpu", "meta", "cpu"):
        yield lambda: tuple(f(data(1).to(device)).shape)
    yield lambda: f(data(1))
    with torch.device("meta"):
        yield lambda: tuple(f(torch.zeros(3, 4)).shape)
    g = jit(nn.Linear(4, 2, device="meta"))
    yield lambda: g(data(1).to("meta")).device.type
    yield lambda: g(data(1).to("meta")).device.type


class Tagged(Tensor):
    """Its class goes on to results, as eager decides."""


class Logged(Tensor):
    seen: list[str] = []

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen.append(function.__name__)
        return super().__torch_function__(function, types, args, kwargs or {})


class Wrapped(Tensor):
    """Dispatches in Python."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> Any:
        made = Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        plain = torch.utils._pytree.tree_map_only(Wrapped, lambda wrapped: wrapped.inner, (args, kwargs or {}))
        found = function(*plain[0], **plain[1])
        return Wrapped(found) if isinstance(found, Tensor) else found


def tagged(seed: int) -> Any:
    return data(seed).as_subclass(Tagged)


@scenario(whole=False)
def subclasses(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: ((x + 1) * x).sum(1))
    for x in (data(1), tagged(1), data(2), tagged(2), data(1).as_subclass(Logged), nn.Parameter(tagged(1)), data(3)):
        for _ in range(2):
            yield lambda: (f(x), type(f(x)).__name__, list(Logged.seen), Logged.seen.clear())
    for _ in range(2):
        yield lambda: f(Wrapped(data(1))).inner
    inside = jit(lambda x: (x.as_subclass(Tagged) * 2, x * 2))
    for _ in range(2):
        yield lambda: [(type(y).__name__, y.sum().item()) for y in inside(data(1))]


# modes


class Doubling(TorchFunctionMode):
    """Adds are made twice as large."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        return found * 2 if function in (torch.add, Tensor.add) else found


class Counting(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


@scenario()
def modes_around(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: torch.add(x, x).relu())

    def within(mode: Any) -> Any:
        with mode:
            return f(data(1)), getattr(mode, "names", None)

    yield from again(lambda: f(data(1)))
    for make in (Doubling, Counting):
        yield lambda: within(make())
        yield lambda: within(make())
        yield replayed(lambda: f(data(1)))


@scenario(whole=False)
def modes_inside(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, make: Any) -> Any:
        y = x * 2
        with make() as mode:
            y = torch.add(y, x)
        return y + 1, getattr(mode, "names", None)

    f = jit(f)
    for make in (Doubling, Doubling, Counting, Doubling, Counting):
        yield lambda: f(data(1), make)


@pytest.mark.parametrize("name", TABLE.cases())
def test_same(name: str) -> None:
    TABLE.check(name, __file__)
