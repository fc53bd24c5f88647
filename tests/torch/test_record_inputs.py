"""Inputs of straight-line models: of other shapes, kinds and classes than those of the call before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import side_by_side
import torch
from side_by_side import Call, Jit, replayed
from straight_line import data, mlp, thrice
from torch import Tensor, nn
from torch.nn import functional

pytestmark = pytest.mark.torch

TABLE = side_by_side.Table()
scenario = TABLE.add


# inputs


@scenario()
def indexed_by_lists(jit: Jit) -> Iterator[Call]:
    def f(x: Tensor, at: int) -> Any:
        y = x.clone()
        y[[0, 2]] = 5
        y[:, [1]] = x[:, [-1]]
        n = x.size(1)
        return y, x[[1, 0, 1]], x[:, [-1, 0]], x[..., [n - 1, at], :1], x[[at]], 3 in x[:, [-1, 0]]

    f = jit(f)
    x = torch.arange(24.0).view(3, 4, 2)
    yield lambda: f(x, 0)
    yield replayed(lambda: f(x[:, :3].clone(), 0))
    for at in (1, 2, 0, -3, 3, -4, 0):
        yield lambda: f(x, at)
    yield lambda: f(x[:2], 0)
    yield replayed(lambda: f(x[:, :3], 1))
    yield lambda: f(x.double().requires_grad_(), 0)


@scenario(whole=False)
def indexed_by_other_lists(jit: Jit) -> Iterator[Call]:
    f = jit(lambda x: (x[[True, False, True]], x[[[0, 1], [1, 0]]], x[[]]))
    g = jit(lambda x: x[[0, 1.0]])
    for _ in range(3):
        yield lambda: f(data(1, 3))
        yield lambda: g(data(2, 3))


class Held:
    """What comes anew with every call, such as a batch."""

    def __init__(self, seed: int, *shape: int) -> None:
        self.x = data(seed, *shape)
        self.mask = self.x > 0
        self.steps = 0
        self.seen: list[Tensor] = []


@scenario()
def tensors_of_fresh_instances(jit: Jit) -> Iterator[Any]:
    def f(held: Held, weight: Tensor) -> Any:
        old = held.x
        held.x = functional.linear(held.x, weight).masked_fill(held.mask[:, :1], 0.5)
        held.seen.append(held.x)
        held.steps += 1
        held.x.mul_(2)
        del held.mask
        return old, held

    f = jit(f)
    weight = data(9, 3, 4)
    for seed in range(3):
        yield lambda: f(Held(seed), weight)
    for seed in range(3, 6):
        yield replayed(lambda: f(Held(seed), weight))
    for shape in ((5, 4), (1, 4), (5, 4)):
        yield lambda: f(Held(7, *shape), weight)
    same = Held(1)
    same.x = weight
    same.mask = weight > 0
    yield lambda: f(same, weight.t()[:, :3].t().contiguous())
    shared = Held(2, 4, 4)
    shared.x = shared.mask = weight[:, :4] > 0
    yield lambda: f(shared, weight)
    wrong = Held(3)
    wrong.x = None
    yield lambda: f(wrong, weight)
    yield lambda: f(Held(8), weight[:, :2])
    yield replayed(lambda: f(Held(9), weight))


@scenario()
def state_that_calls_hand_on(jit: Jit) -> Iterator[Any]:
    """One object all the time, whose tensors are other ones in each call."""

    class State:
        hidden = None

    def f(x: Tensor, state: State) -> Tensor:
        before = torch.zeros_like(x) if state.hidden is None else state.hidden
        state.hidden = torch.tanh(x + before)
        return state.hidden.sum()

    f = jit(f)
    for turn in range(3):
        state = State()
        for seed in range(5):
            call = lambda: (f(data(seed), state), state.hidden)  # noqa: E731
            yield call if turn < 2 else replayed(call)


@scenario()
def same_input(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    x = data(1)
    yield from thrice(lambda: model(x))


@scenario()
def other_values(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    yield lambda: model(data(1))
    for seed in range(2, 6):
        yield replayed(lambda: model(data(seed)))


@scenario()
def special_values(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    yield lambda: model(data(1))
    for value in (0.0, -0.0, float("inf"), float("nan"), 1e-42):
        yield replayed(lambda: model(torch.full((2, 4), value)))


@scenario()
def keyword_input(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    yield from thrice(lambda: model(input=data(1)))
    yield lambda: model(data(2))
    yield replayed(lambda: model(input=data(3)))
    yield replayed(lambda: model(data(4)))


@scenario()
def too_many_inputs(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    yield from thrice(lambda: model(data(1)))
    for _ in range(2):
        yield lambda: model(data(1), data(2))
        yield lambda: model()
        yield lambda: model(data(1), inputs=data(2))
    yield replayed(lambda: model(data(3)))


@scenario()
def other_dtype(jit: Jit) -> Iterator[Any]:
    model = jit(nn.Sequential(nn.ReLU(), nn.Flatten()))
    yield from thrice(lambda: model(data(1)))
    for dtype in (torch.float64, torch.bfloat16, torch.int64, torch.float16, torch.uint8):
        yield lambda: model(data(2).to(dtype))
        yield lambda: model(data(3).to(dtype))
    yield replayed(lambda: model(data(4)))


@scenario()
def other_dtype_raises(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    yield from thrice(lambda: model(data(1)))
    for _ in range(3):
        yield lambda: model(data(1).double())
    yield replayed(lambda: model(data(2)))


@scenario()
def other_shape(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    yield from thrice(lambda: model(data(1)))
    for rows in (1, 0, 7, 100, 2):
        yield lambda: model(data(2, rows, 4))
        yield lambda: model(data(3, rows, 4))


@scenario()
def other_shape_is_replayed(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    yield lambda: model(data(1, 3, 4))
    yield replayed(lambda: model(data(2, 5, 4)))


@scenario()
def other_dims(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    yield from thrice(lambda: model(data(1)))
    for shape in ((4,), (2, 3, 4), (1, 1, 1, 4), (2, 4)):
        yield lambda: model(data(2, *shape))
        yield replayed(lambda: model(data(3, *shape)))


@scenario()
def other_strides(jit: Jit) -> Iterator[Any]:
    model = jit(nn.Sequential(nn.ReLU(), nn.Softmax(-1), nn.Flatten(0)))
    yield from thrice(lambda: model(data(1)))
    for x in (data(1, 4, 2).t(), data(1, 2, 8)[:, ::2], data(1, 1, 4).expand(2, 4), data(1, 3, 5)[1:, 1:]):
        yield lambda: model(x)
        yield lambda: model(x)
    yield lambda: model(data(2))


@scenario()
def channels_last(jit: Jit) -> Iterator[Any]:
    model = jit(nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(1)))
    x = data(1, 2, 2, 8, 8)
    yield from thrice(lambda: model(x))
    yield lambda: model(x.to(memory_format=torch.channels_last))
    yield lambda: model(x.to(memory_format=torch.channels_last))
    yield lambda: model(x)
    yield lambda: model(data(1, 1, 2, 1, 1))


@scenario()
def input_that_requires_grad(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    x = data(1)
    yield from thrice(lambda: model(x))
    y = data(2).requires_grad_()
    yield lambda: model(y)
    yield replayed(lambda: model(y))
    yield replayed(lambda: model(x))
    z = y * 2
    yield lambda: model(z)
    yield lambda: model(z)


@scenario()
def input_requires_grad_first(jit: Jit) -> Iterator[Any]:
    model = jit(nn.Sequential(nn.ReLU(), nn.Tanh()))
    x = data(1).requires_grad_()
    yield from thrice(lambda: model(x))
    yield lambda: model(data(1))
    yield lambda: model(data(1))
    yield replayed(lambda: model(x))


@scenario()
def conjugated_and_complex(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: (x * 2).sum(-1))
    x = torch.complex(data(1), data(2))
    yield from thrice(lambda: f(x))
    yield lambda: f(x.conj())
    yield lambda: f(x.conj())
    yield lambda: f(x.conj().imag)
    yield lambda: f(x.conj().imag)
    yield lambda: f(x)


@scenario(bug="an error of the dispatcher while recording names the key of the operator eye")
def other_devices_and_layouts(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: x + x)
    yield from thrice(lambda: f(data(1)))
    for _ in range(2):
        yield lambda: f(data(1).to_sparse()).to_dense()
        yield lambda: f(data(1).to("meta")).shape
        yield lambda: f(torch.quantize_per_tensor(data(1), 0.1, 0, torch.quint8)).dequantize()
        yield lambda: f(torch.nested.nested_tensor([data(1, 2), data(2, 3)])).to_padded_tensor(0.0)
    yield replayed(lambda: f(data(2)))


@scenario()
def a_parameter_as_input(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    yield from thrice(lambda: model(data(1)))
    p = nn.Parameter(data(2))
    yield lambda: model(p)
    yield lambda: model(p)
    b = nn.Buffer(data(2))
    yield lambda: model(b)
    yield lambda: model(data(3))


@scenario()
def not_a_tensor(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: torch.relu(x) if isinstance(x, Tensor) else x)
    yield from thrice(lambda: f(data(1)))
    for x in (1, 2.5, None, "x", [1], data(1), 1):
        yield lambda: f(x)


@scenario()
def scalars_beside_a_tensor(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x, k: x * k + k)
    yield from thrice(lambda: f(data(1), 2))
    for k in (3, 2.0, 2.5, True, 1j, 0, -0.0, 2**40, float("nan"), 2):
        yield lambda: f(data(1), k)
        yield lambda: f(data(1).long(), k)


@scenario()
def zero_dim_scalars(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x, k: x * k)
    yield from thrice(lambda: f(data(1), torch.tensor(2.0)))
    for k in (torch.tensor(2), torch.tensor(2.0, dtype=torch.float64), torch.tensor([2.0]), torch.tensor(True), 2.0):
        yield lambda: f(data(1), k)
        yield lambda: f(data(1), k)


@scenario()
def same_tensor_twice(jit: Jit) -> Iterator[Any]:
    f = jit(lambda a, b: a.add_(1) * b)
    x, y = data(1), data(2)
    yield from thrice(lambda: f(x, y))
    yield lambda: (f(x, x), x)
    yield lambda: (f(x, x), x)
    yield lambda: (f(x, y), x, y)
    yield lambda: (f(x, x[:]), x)


@scenario()
def same_tensor_twice_first(jit: Jit) -> Iterator[Any]:
    f = jit(lambda a, b: (a is b, a.add_(1) * b))
    x, y = data(1), data(2)
    yield from thrice(lambda: f(x, x))
    yield lambda: (f(x, y), x, y)
    yield lambda: (f(x, y), x, y)
    yield lambda: (f(y, y), x, y)


@scenario()
def overlapping_inputs(jit: Jit) -> Iterator[Any]:
    def f(a: Tensor, b: Tensor) -> Tensor:
        a.mul_(2)
        return a + b

    f = jit(f)
    yield from thrice(lambda: f(data(1, 3), data(2, 3)))
    base = data(3, 4)
    yield lambda: (f(base[:3], base[1:]), base)
    yield lambda: (f(base[1:], base[:3]), base)
    yield lambda: (f(base[:1].expand(3), base[1:]), base)
    yield replayed(lambda: f(data(1, 3), data(2, 3)))


# subclasses


class Tagged(Tensor):
    """Plain but for its class."""


class Logged(Tensor):
    seen: list[str] = []

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen.append(getattr(function, "__name__", "?"))
        return super().__torch_function__(function, types, args, kwargs or {})


@scenario(whole=False)
def subclass_of_tensor(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    yield from thrice(lambda: model(data(1)))
    for _ in range(3):
        yield lambda: model(data(1).as_subclass(Tagged))

        def call() -> Any:
            Logged.seen = []
            return model(data(1).as_subclass(Logged)), list(Logged.seen)

        yield call
    yield replayed(lambda: model(data(1)))


@scenario(whole=False)
def subclass_first(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    for _ in range(3):
        yield lambda: model(data(1).as_subclass(Tagged))
    for _ in range(3):
        yield lambda: model(data(1))
    yield lambda: model(data(1).as_subclass(Tagged))


@scenario(whole=False)
def subclass_as_parameter(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    yield from thrice(lambda: model(data(1)))
    model[0].weight = nn.Parameter(data(9, 8, 4).as_subclass(Logged))
    for _ in range(3):

        def call() -> Any:
            Logged.seen = []
            return model(data(1)), list(Logged.seen)

        yield call


@pytest.mark.parametrize("name", TABLE.cases())
def test_same(name: str) -> None:
    TABLE.check(name, __file__)
