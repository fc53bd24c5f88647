"""Straight-line models recorded and replayed: every call equals the plain one, whatever changes between two calls."""

from __future__ import annotations

import copy
import random
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

import pijit

pytestmark = pytest.mark.torch

TABLE = side_by_side.Table()
scenario = TABLE.add


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def thrice(call: Call) -> Iterator[Any]:
    yield call
    yield replayed(call)
    yield replayed(call)


def data(seed: int, *shape: int) -> Tensor:
    return torch.randn(*(shape or (2, 4)), generator=torch.Generator().manual_seed(seed))


# recording


def test_state_of_a_module() -> None:
    model = mlp()
    given = model
    model = pijit.jit(model)
    assert model is given
    assert pijit.status(model).state == "cold"
    model(data(1))
    assert pijit.status(model) == pijit.Status("recorded", "")
    model(data(2))
    assert pijit.status(model) == pijit.Status("replaying", "")
    (trace,) = pijit.traces(model)
    assert trace.ends == "return"
    assert trace.stop is None
    assert trace.opaque_calls == 0
    assert [node.op for node in trace.nodes if "torch.ops.aten." in node.text] != []
    assert sum("aten.linear(" in node.text for node in trace.nodes) == 2
    assert sum("aten.relu(" in node.text for node in trace.nodes) == 1
    assert trace.guards


def test_only_this_instance() -> None:
    model, other = mlp(), mlp()
    pijit.jit(model)
    for seed in range(3):
        other(data(seed))
        model(data(seed))
    assert pijit.status(other).state == "cold"
    assert pijit.traces(other) == ()
    assert pijit.traces(model)[0].replays == 2


def test_state_dict_and_copies() -> None:
    model, plain = mlp(), mlp()
    before = list(model.state_dict())
    pijit.jit(model)
    model(data(1))
    model(data(1))
    assert list(model.state_dict()) == before
    assert list(vars(model)) == list(vars(plain))
    twin = copy.deepcopy(model)
    assert pijit.status(twin).state == "cold"
    assert torch.equal(twin(data(2)), model(data(2)))


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


# errors


@scenario()
def wrong_shape(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    yield from thrice(lambda: model(data(1)))
    for _ in range(3):
        yield lambda: model(data(1, 2, 5))
    yield replayed(lambda: model(data(2)))
    for _ in range(3):
        yield lambda: model(data(1, 5))
        yield lambda: model(data(1, 1))
    yield replayed(lambda: model(data(2)))


@scenario(whole=False)
def wrong_shape_first(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    yield lambda: model(data(1, 2, 5))
    yield lambda: model(data(2))
    yield lambda: model(data(3))
    yield replayed(lambda: model(data(4)))
    yield lambda: model(data(1, 2, 5))
    yield lambda: model(torch.zeros(()))
    yield replayed(lambda: model(data(4)))


@scenario()
def wrong_argument(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    yield from thrice(lambda: model(data(1)))
    for wrong in (None, 1, "x", [data(1)], object):
        yield lambda: model(wrong)
    yield replayed(lambda: model(data(2)))


@scenario()
def wrong_shape_deep_inside(jit: Jit) -> Iterator[Any]:
    class Inner(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            z = x + 1
            return torch.matmul(z, y) * 2

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            total = torch.zeros(())
            for i in range(3):
                total = total + self.inner(x, y).sum() * i
            return total

    model = jit(Outer())
    yield from thrice(lambda: model(data(1), data(2, 4, 2)))
    for _ in range(2):
        yield lambda: model(data(1), data(2, 3, 2))
        yield lambda: model(data(1), data(2, 3))
    yield replayed(lambda: model(data(1), data(2, 4, 2)))


@scenario()
def index_out_of_range(jit: Jit) -> Iterator[Any]:
    model = jit(nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 2)))
    yield from thrice(lambda: model(torch.tensor([1, 2])))
    for wrong in (5, -1, 10**10):
        yield lambda: model(torch.tensor([1, wrong]))
    yield replayed(lambda: model(torch.tensor([4, 0])))


@scenario()
def caught_inside(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, y: Tensor) -> Any:
        seen = [1]
        try:
            x.add_(1)
            seen.append(2)
            return torch.matmul(x, y), seen
        except RuntimeError as error:
            seen.append(str(error))
            return x * 2, seen
        finally:
            x.add_(1)
            seen.append(3)

    f = jit(f)
    yield from thrice(lambda: f(data(1), data(2, 4, 2)))
    for _ in range(2):
        yield lambda: f(data(1), data(2, 3, 2))
    yield replayed(lambda: f(data(1), data(2, 4, 2)))


# modes


@scenario()
def grad_modes(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    x = data(1)
    yield from thrice(lambda: model(x))
    for _ in range(3):
        for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad):

            def call() -> Tensor:
                with mode():
                    return model(x)

            yield call
    yield replayed(lambda: model(x))


@scenario()
def grad_mode_first(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    x = data(1)
    yield from thrice(torch.no_grad()(lambda: model(x)))
    yield lambda: model(x)
    yield replayed(lambda: model(x))
    yield lambda: model(x).sum().backward()
    yield replayed(torch.no_grad()(lambda: model(x)))


@scenario()
def inference_mode_first(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    x = data(1)
    yield torch.inference_mode()(lambda: model(x))
    yield torch.inference_mode()(lambda: model(x))
    yield torch.inference_mode()(lambda: model(x))
    yield lambda: model(x)
    yield lambda: model(x)


@scenario()
def inference_tensor_as_input(jit: Jit) -> Iterator[Any]:
    model = jit(nn.Sequential(nn.ReLU(), nn.Tanh()))
    yield from thrice(lambda: model(data(1)))
    x = torch.inference_mode()(lambda: data(1) * 2)()
    yield lambda: model(x)
    yield lambda: model(x)
    yield replayed(lambda: model(data(1)))
    linear = jit(mlp())
    yield lambda: linear(data(1))
    yield lambda: linear(x)
    yield lambda: linear(x)


@scenario()
def modes_inside(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, w: Tensor) -> Any:
        with torch.no_grad():
            a = x @ w
        b = x @ w
        with torch.autocast("cpu", dtype=torch.bfloat16):
            c = x @ w
        with torch.set_grad_enabled(False):
            d = x @ w
        return a, b, c, d

    f = jit(f)
    x, w = data(1), data(2, 4, 3).requires_grad_()
    yield lambda: f(x, w)
    yield lambda: f(x, w)
    yield lambda: f(x, w)
    yield torch.no_grad()(lambda: f(x, w))
    yield torch.no_grad()(lambda: f(x, w))
    yield lambda: f(x, data(3, 3, 3))
    yield lambda: f(x, w)


@scenario()
def autocast(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    x = data(1)
    yield from thrice(lambda: model(x))
    for dtype in (torch.bfloat16, torch.float16, torch.bfloat16):
        for enabled in (True, False):
            for cache in (True, False):

                def call() -> Tensor:
                    with torch.autocast("cpu", dtype=dtype, enabled=enabled, cache_enabled=cache):
                        return model(x), model(x)

                yield call
    yield replayed(lambda: model(x))


@scenario()
def autocast_first(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    x = data(1)

    def call() -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x)

    yield from thrice(call)
    yield lambda: model(x)
    yield replayed(lambda: model(x))
    yield replayed(call)
    model[0].weight.data.mul_(2)
    yield replayed(call)


@scenario()
def autocast_raises(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, w: Tensor) -> Tensor:
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            return (x @ w).float()

    f = jit(f)
    yield lambda: f(data(1), data(2, 4, 3))
    yield lambda: f(data(1), data(2, 4, 3))
    for _ in range(3):
        yield lambda: f(data(1), data(2, 3, 3))
    yield lambda: f(data(1), data(2, 4, 3))


@scenario()
def default_dtype(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: (x * 2 + torch.ones(3), x / 2, x.float().mean()))
    x = torch.arange(3)
    yield from thrice(lambda: f(x))
    for dtype in (torch.float64, torch.float32, torch.float64):

        def call() -> Any:
            torch.set_default_dtype(dtype)
            try:
                return f(x)
            finally:
                torch.set_default_dtype(torch.float32)

        yield call
        yield call
    yield replayed(lambda: f(x))


@scenario()
def default_device(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: torch.ones(3) + 1)

    def call() -> Any:
        with torch.device("meta"):
            return f(x).device, f(x).shape

    x = data(1)
    yield from thrice(lambda: f(x))
    for _ in range(5):
        yield call
    yield lambda: f(x)


@scenario()
def default_device_comes_back(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: x + 1)

    def call() -> Any:
        with torch.device("cpu"):
            return f(data(1))

    yield from thrice(lambda: f(data(1)))
    for _ in range(5):
        yield call
    yield replayed(lambda: f(data(1)))


@scenario()
def deterministic_mode(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: torch.empty_like(x).fill_(1) + x)

    def call() -> Any:
        torch.use_deterministic_algorithms(True)
        try:
            return f(data(1))
        finally:
            torch.use_deterministic_algorithms(False)

    yield from thrice(lambda: f(data(1)))
    yield call
    yield call
    yield replayed(lambda: f(data(1)))


class Counting(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(getattr(function, "__name__", "?"))
        return function(*args, **(kwargs or {}))


class Dispatching(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("kind", [Counting, Dispatching])
def test_modes_are_seen(kind: type) -> None:
    """A mode pushed around or between calls sees what it sees of plain ones."""

    def make(jit: Jit) -> Any:
        torch.manual_seed(0)
        model = jit(mlp())
        result = []
        for turn in range(12):
            mode = kind()
            if turn % 4 == 3:
                with mode:
                    y = model(data(turn))
            else:
                y = model(data(turn))
            result.append((mode.seen, y.tolist()))
        return result, model

    expected, _ = make(lambda thing: thing)
    actual, model = make(pijit.jit)
    assert actual == expected


@pytest.mark.parametrize("kind", [Counting, Dispatching])
def test_a_mode_does_not_disable(kind: type) -> None:
    """Calls under a mode that is stepped aside for do not count against the model."""
    model = pijit.jit(mlp())
    for _ in range(5):
        with kind():
            model(data(1))
    model(data(1))
    model(data(1))
    assert pijit.status(model).state == "replaying"


@scenario()
def modes_pushed_inside(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    yield from thrice(lambda: model(data(1)))
    for kind in (Counting, Dispatching, Counting, Dispatching):

        def call() -> Any:
            with kind() as mode:
                return model(data(1)), mode.seen

        yield call
    yield replayed(lambda: model(data(1)))


@scenario()
def vmap_and_grad(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: (x * x).sum())
    yield from thrice(lambda: f(data(1)))
    for _ in range(2):
        yield lambda: torch.vmap(f)(data(1))
        yield lambda: torch.func.grad(f)(data(1))
        yield lambda: torch.func.jvp(f, (data(1),), (data(2),))
    yield replayed(lambda: f(data(1)))


@scenario()
def vmap_and_grad_first(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: (x * x).sum())
    yield lambda: torch.vmap(f)(data(1))
    yield lambda: torch.func.grad(f)(data(1))
    yield from thrice(lambda: f(data(1)))


@scenario()
def saved_tensor_hooks(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x, w: (x @ w).exp().sum())
    x, w = data(1), data(2, 4, 3).requires_grad_()
    yield from thrice(lambda: f(x, w))

    def call() -> Any:
        seen = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: (seen.append(tuple(t.shape)), t)[1], lambda t: t):
            return torch.autograd.grad(f(x, w), w), seen

    yield call
    yield call
    yield replayed(lambda: f(x, w))


@scenario()
def anomaly_mode(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: (x * 0 / 0).sqrt().sum())
    x = data(1).requires_grad_()
    yield from thrice(lambda: f(x))

    def call() -> Any:
        with torch.autograd.detect_anomaly(check_nan=True):
            try:
                f(x).backward()
            except RuntimeError as error:
                return str(error)

    yield call
    yield replayed(lambda: f(x))


@scenario()
def profiled(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: torch.relu(x) @ x.t())

    def call() -> Any:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            f(data(1))
        found = sorted((event.key, event.count) for event in profile.key_averages())
        return [row for row in found if not row[0].startswith("pijit: ")]

    yield from thrice(lambda: f(data(1)))
    yield call
    yield call
    yield replayed(lambda: f(data(1)))


# modules


@scenario()
def train_and_eval(jit: Jit) -> Iterator[Any]:
    model = jit(nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.BatchNorm1d(8)))
    x = data(1, 6, 4)
    yield from thrice(lambda: model(x))
    model.eval()
    yield from thrice(lambda: model(x))
    for _ in range(3):
        model.train()
        yield replayed(lambda: model(x))
        model.eval()
        yield replayed(lambda: model(x))
    model[1].train()
    yield lambda: model(x)
    yield replayed(lambda: model(x))


@scenario()
def batch_norm_statistics(jit: Jit) -> Iterator[Any]:
    model = nn.Sequential(nn.BatchNorm1d(4))
    model = jit(model)
    for seed in range(4):
        yield lambda: (model(data(seed)), model[0].running_mean, model[0].running_var, model[0].num_batches_tracked)
    yield lambda: model(data(1, 1, 4))
    yield lambda: (model(data(1)), model[0].running_mean, model[0].num_batches_tracked)
    model[0].reset_running_stats()
    model[0].momentum = None
    for seed in range(4):
        yield lambda: (model(data(seed)), model[0].running_mean, model[0].running_var, model[0].num_batches_tracked)


@scenario()
def dropout_draws(jit: Jit) -> Iterator[Any]:
    model = jit(nn.Sequential(nn.Linear(4, 50), nn.Dropout(0.3), nn.Dropout(0.3)))
    for _ in range(5):
        yield lambda: (model(data(1)), torch.rand(2))
    torch.manual_seed(7)
    yield replayed(lambda: (model(data(1)), torch.rand(2)))
    model[1].p = 0.9
    yield lambda: (model(data(1)), torch.rand(2))
    yield replayed(lambda: (model(data(1)), torch.rand(2)))
    model[1].p = 0.0
    yield lambda: (model(data(1)), torch.rand(2))


@scenario(whole=False)
def seeds_inside(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Any:
        torch.manual_seed(3)
        a = torch.rand(2)
        return a, functional.dropout(x), torch.randn(2, generator=torch.Generator().manual_seed(5))

    f = jit(f)
    for _ in range(4):
        yield lambda: (f(data(1)), torch.rand(1))


@scenario(whole=False)
def generator_argument(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x, g: x + torch.rand(4, generator=g))
    g, h = torch.Generator().manual_seed(1), torch.Generator().manual_seed(2)
    for chosen in (g, g, g, h, g, None, None, h):
        yield lambda: f(data(1), chosen)


def change(name: str, build: Any = mlp, bug: str = "") -> Any:
    """A scenario: three calls, a change of the model, and four calls."""

    def enter(mutate: Any) -> Any:
        def body(jit: Jit) -> Iterator[Any]:
            model = jit(build())
            x = data(1)
            yield from thrice(lambda: model(x))
            undo = mutate(model)
            for seed in (1, 2, 3, 1):
                yield lambda: model(data(seed))
            if callable(undo):
                undo()
                for seed in (1, 2, 3, 1):
                    yield lambda: model(data(seed))

        body.__name__ = name
        TABLE.add(bug=bug)(body)
        return mutate

    return enter


@change("parameter_replaced")
def _(model: Any) -> Any:
    model[0].weight = nn.Parameter(data(9, 8, 4))
    old = model[2].bias
    model[2].bias = None
    return lambda: setattr(model[2], "bias", old)


@change("parameter_of_other_shape")
def _(model: Any) -> Any:
    model[2].weight = nn.Parameter(data(9, 5, 8))
    model[2].bias = nn.Parameter(data(9, 5))


@change("parameter_of_wrong_shape")
def _(model: Any) -> Any:
    old = model[2].weight
    model[2].weight = nn.Parameter(data(9, 5, 7))
    return lambda: setattr(model[2], "weight", old)


@change("parameter_data_assigned")
def _(model: Any) -> Any:
    model[0].weight.data = data(9, 8, 4)
    model[0].bias.data = torch.zeros(8)


@change("parameter_data_of_other_shape")
def _(model: Any) -> Any:
    model[2].weight.data = data(9, 5, 8)
    model[2].bias.data = data(9, 5)


@change("parameter_data_of_other_dtype")
def _(model: Any) -> Any:
    old = model[2].weight.data
    model[2].weight.data = old.double()
    return lambda: setattr(model[2].weight, "data", old)


@change("parameter_data_of_other_strides")
def _(model: Any) -> Any:
    model[2].weight.data = model[2].weight.data.t().contiguous().t()


@change("parameter_written_in_place")
def _(model: Any) -> Any:
    with torch.no_grad():
        model[0].weight.mul_(2)
        model[2].bias.zero_()


@change("state_loaded")
def _(model: Any) -> Any:
    old = copy.deepcopy(model.state_dict())
    model.load_state_dict({name: value * 2 for name, value in old.items()})
    return lambda: model.load_state_dict(old)


@change("state_loaded_by_assignment")
def _(model: Any) -> Any:
    old = copy.deepcopy(model.state_dict())
    model.load_state_dict({name: value * 2 for name, value in old.items()}, assign=True)
    return lambda: model.load_state_dict(old, assign=True)


@change("module_to_double")
def _(model: Any) -> Any:
    model.double()
    return model.float


@change("module_to_bfloat16_and_back")
def _(model: Any) -> Any:
    model.to(torch.bfloat16).float()


@change("one_layer_to_double")
def _(model: Any) -> Any:
    model[2].double()
    return model[2].float


@change("grad_not_required")
def _(model: Any) -> Any:
    model.requires_grad_(False)
    return model.requires_grad_


@change("grad_of_one_not_required")
def _(model: Any) -> Any:
    model[2].weight.requires_grad_(False)
    return model[2].weight.requires_grad_


@change("tensors_swapped")
def _(model: Any) -> Any:
    torch.utils.swap_tensors(model[0].weight, nn.Parameter(data(9, 8, 4)))


@change("forward_hook")
def _(model: Any) -> Any:
    return model[1].register_forward_hook(lambda module, args, output: output + 1).remove


@change("forward_hook_on_the_root")
def _(model: Any) -> Any:
    return model.register_forward_hook(lambda module, args, output: (output, args[0])).remove


@change("forward_pre_hook")
def _(model: Any) -> Any:
    return model[0].register_forward_pre_hook(lambda module, args: (args[0] * 2,)).remove


@change("forward_hook_with_kwargs")
def _(model: Any) -> Any:
    hook = lambda module, args, kwargs, output: output * 3  # noqa: E731
    return model[2].register_forward_hook(hook, with_kwargs=True, always_call=True).remove


@change("forward_pre_hook_with_kwargs")
def _(model: Any) -> Any:
    hook = lambda module, args, kwargs: ((args[0] + 1,), kwargs)  # noqa: E731
    return model.register_forward_pre_hook(hook, with_kwargs=True, prepend=True).remove


@change("hook_that_raises")
def _(model: Any) -> Any:
    def hook(module: Any, args: Any, output: Any) -> None:
        raise ValueError("hook", tuple(output.shape))

    return model[1].register_forward_hook(hook).remove


@change("full_backward_hook")
def _(model: Any) -> Any:
    return model[1].register_full_backward_hook(lambda module, grad_in, grad_out: None).remove


@change("global_forward_hook")
def _(model: Any) -> Any:
    return nn.modules.module.register_module_forward_hook(lambda module, args, output: output + 1).remove


@change("global_forward_pre_hook")
def _(model: Any) -> Any:
    return nn.modules.module.register_module_forward_pre_hook(lambda module, args: (args[0] + 1,)).remove


@change("submodule_replaced")
def _(model: Any) -> Any:
    old = model[1]
    model[1] = nn.Tanh()
    return lambda: model.__setitem__(1, old)


@change("submodule_appended")
def _(model: Any) -> Any:
    model.append(nn.Sigmoid())
    return lambda: model.pop(3)


@change("submodule_deleted")
def _(model: Any) -> Any:
    del model[1]


@change("submodules_reordered")
def _(model: Any) -> Any:
    relu = model._modules.pop("1")
    model._modules["3"] = relu


@change("submodule_is_none")
def _(model: Any) -> Any:
    old = model[1]
    model._modules["1"] = None
    return lambda: model._modules.__setitem__("1", old)


@change("forward_of_the_instance")
def _(model: Any) -> Any:
    model[1].forward = lambda x: x * 5
    return lambda: delattr(model[1], "forward")


@change("forward_of_the_root")
def _(model: Any) -> Any:
    plain = model.forward
    model.forward = lambda input: plain(input) * 2
    return lambda: delattr(model, "forward")


@change("forward_of_the_class")
def _(model: Any) -> Any:
    plain = nn.ReLU.forward
    nn.ReLU.forward = lambda self, x: plain(self, x) - 1
    return lambda: setattr(nn.ReLU, "forward", plain)


@change("call_of_the_class")
def _(model: Any) -> Any:
    plain = nn.Module.__call__
    nn.ReLU.__call__ = lambda self, x: plain(self, x) - 1
    return lambda: delattr(nn.ReLU, "__call__")


@change("code_of_forward")
def _(model: Any) -> Any:
    plain = nn.ReLU.forward.__code__

    def forward(self, input):
        return F.relu(input) * 7  # noqa: F821

    nn.ReLU.forward.__code__ = forward.__code__
    return lambda: setattr(nn.ReLU.forward, "__code__", plain)


@change("functional_patched")
def _(model: Any) -> Any:
    plain = functional.relu
    functional.relu = lambda x, inplace=False: plain(x) + 2
    return lambda: setattr(functional, "relu", plain)


@change("operator_patched")
def _(model: Any) -> Any:
    plain = torch.relu
    torch.relu = lambda x: plain(x) + 2
    return lambda: setattr(torch, "relu", plain)


@change("class_of_an_instance")
def _(model: Any) -> Any:
    model[1].__class__ = nn.Tanh
    return lambda: setattr(model[1], "__class__", nn.ReLU)


@change("class_of_the_root")
def _(model: Any) -> Any:
    class Doubled(nn.Sequential):
        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input) * 2

    model.__class__ = Doubled
    return lambda: setattr(model, "__class__", nn.Sequential)


@change("attribute_of_a_submodule")
def _(model: Any) -> Any:
    model[1].inplace = True
    return lambda: setattr(model[1], "inplace", False)


class Scaled(nn.Module):
    factor = 2.0

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.register_buffer("shift", torch.ones(3))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) * self.factor + self.shift


@change("class_attribute", Scaled)
def _(model: Any) -> Any:
    Scaled.factor = 3.0
    return lambda: setattr(Scaled, "factor", 2.0)


@change("instance_over_class_attribute", Scaled)
def _(model: Any) -> Any:
    model.factor = torch.tensor(5.0)
    return lambda: delattr(model, "factor")


@change("buffer_replaced", Scaled)
def _(model: Any) -> Any:
    model.shift = torch.zeros(3, dtype=torch.float64)
    return lambda: setattr(model, "shift", torch.zeros(3))


@change("buffer_written", Scaled)
def _(model: Any) -> Any:
    model.shift.mul_(7)


@change("module_turned_into_a_parameter", Scaled)
def _(model: Any) -> Any:
    model.linear = None
    return lambda: setattr(model, "linear", nn.Linear(4, 3))


@change("patched_getattr", Scaled)
def _(model: Any) -> Any:
    Scaled.__getattr__ = lambda self, name: nn.Module.__getattr__(self, name) if name != "shift" else 100
    return lambda: delattr(Scaled, "__getattr__")


@change("parametrized")
def _(model: Any) -> Any:
    class Twice(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * 2

    torch.nn.utils.parametrize.register_parametrization(model[0], "weight", Twice())
    return lambda: torch.nn.utils.parametrize.remove_parametrizations(model[0], "weight")


@change("weight_norm")
def _(model: Any) -> Any:
    torch.nn.utils.parametrizations.weight_norm(model[0])


@change("tied_parameters", lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)))
def _(model: Any) -> Any:
    model[2].weight = model[0].weight


@change("tensor_method_patched", lambda: nn.Sequential(nn.Flatten(0)))
def _(model: Any) -> Any:
    plain = Tensor.flatten
    Tensor.flatten = lambda self, *args: plain(self, *args) + 1
    return lambda: setattr(Tensor, "flatten", plain)


@scenario()
def functional_call(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    yield from thrice(lambda: model(data(1)))
    state = {name: value.detach() * 2 for name, value in model.state_dict().items()}
    for _ in range(3):
        yield lambda: torch.func.functional_call(model, state, data(1))
    yield replayed(lambda: model(data(1)))


@scenario()
def two_instances(jit: Jit) -> Iterator[Any]:
    model, other = jit(mlp()), jit(mlp())
    for seed in range(4):
        yield lambda: model(data(seed))
        yield lambda: other(data(seed))


@scenario()
def shared_submodule(jit: Jit) -> Iterator[Any]:
    inner = nn.Linear(4, 4)
    model = jit(nn.Sequential(inner, nn.ReLU(), inner))
    yield from thrice(lambda: model(data(1)))
    inner.weight = nn.Parameter(data(5, 4, 4))
    yield lambda: model(data(1))
    yield lambda: model(data(1))


# results


@scenario()
def results_held(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    x = data(1)
    yield from thrice(lambda: model(x))

    def two() -> Any:
        a, b = model(x), model(x)
        a.detach().zero_()
        return a, b, a.data_ptr() == b.data_ptr()

    yield two
    yield two


@scenario()
def view_of_the_input(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: (x.view(-1), x[0], x.t(), x[:, 1:3], x.unsqueeze(0), x))
    for seed in range(4):
        x = data(seed)

        def call() -> Any:
            views = f(x)
            views[1].fill_(9)
            return views, x

        yield call if seed == 0 else replayed(call)
    y = data(1).requires_grad_()
    yield lambda: f(y)
    yield lambda: f(y)
    yield lambda: f(data(1, 1, 4))
    yield lambda: f(data(1, 4, 6)[::2])


@scenario()
def the_input_itself(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: functional.dropout(x, 0.5, training=False).contiguous().to(torch.float32).float().add_(1))
    for seed in range(3):
        x = data(seed)
        yield lambda: (f(x), x)
    y = data(1).t()
    yield lambda: (f(y), y)
    z = data(1).double()
    yield lambda: (f(z), z)
    yield lambda: (f(z), z)


@scenario()
def in_place_on_the_input(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Tensor:
        x.add_(1)
        x[0] = 0
        x[:, 1] *= 2
        return x

    f = jit(f)
    x = data(1)
    for _ in range(3):
        yield lambda: (f(x), x)
    y = data(1).requires_grad_()
    yield lambda: f(y)
    yield lambda: f(y)
    yield lambda: f(y * 1)
    yield lambda: f(y * 1)
    yield lambda: f(data(1)[:, :2])
    yield lambda: f(data(1, 1, 4).expand(2, 4))
    yield lambda: (f(x), x)


@scenario()
def attributes_of_the_input(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Any:
        return x * 2, x.shape, x.size(0), x.dtype, x.device, x.dim(), x.requires_grad, x.is_leaf, x.numel(), x.stride()

    f = jit(f)
    yield from thrice(lambda: f(data(1)))
    for x in (data(1, 1, 4), data(1, 4), data(1).t(), data(1).double(), data(1).requires_grad_(), data(1)):
        yield lambda: f(x)
        yield lambda: f(x)


@scenario()
def shapes_in_python(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Any:
        rows, columns = x.shape
        if rows > 3:
            return x.reshape(columns, rows) * rows
        return x.view(-1, rows * columns) / columns

    f = jit(f)
    yield from thrice(lambda: f(data(1)))
    for rows in (1, 2, 3, 4, 5, 0, 4, 3):
        yield lambda: f(data(1, rows, 4))
    yield lambda: f(data(1, 4))
    yield lambda: f(data(1))


@scenario()
def loop_over_rows(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Tensor:
        total = torch.zeros(4)
        for i in range(x.size(0)):
            total = total * 2 + x[i]
        return total

    f = jit(f)
    yield from thrice(lambda: f(data(1, 3, 4)))
    for rows in (4, 2, 0, 1, 3):
        yield lambda: f(data(1, rows, 4))


@scenario(whole=False)
def iterating_a_tensor(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Any:
        a, b = x
        return a * 2 + b, [row.sum() for row in x], len(x)

    f = jit(f)
    for rows in (2, 2, 2, 3, 2, 1, 2):
        yield lambda: f(data(1, rows, 4))


@scenario()
def branch_on_values(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: x * 2 if x.sum() > 0 else x - 1)
    up, down = torch.ones(2, 2), -torch.ones(2, 2)
    yield from thrice(lambda: f(up))
    for x in (down, down, up, down, up, torch.full((2, 2), float("nan")), torch.zeros(2, 2)):
        yield lambda: f(x)
    yield replayed(lambda: f(up))


@scenario()
def branch_the_other_way_first(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Any:
        seen = []
        while x.max() > 1:
            x = x / 2
            seen.append(x.mean().item())
        if not x.any():
            seen.append("zero")
        return x, seen

    f = jit(f)
    for value in (-1.0, -2.0, 4.0, 4.0, 0.5, 0.0, 100.0, 4.0, -3.0):
        yield lambda: f(torch.full((2,), value))


@scenario(whole=False)
def ambiguous_truth(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Any:
        if x:
            return x + 1
        return x - 1

    f = jit(f)
    for x in (
        torch.ones(1),
        torch.ones(1),
        torch.zeros(1),
        torch.ones(2),
        torch.ones(()),
        torch.ones(0),
        torch.ones(1),
    ):
        yield lambda: f(x)


@scenario()
def items(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: (x.sum().item() * 2, x * x[0, 0].item(), int(x[0, 0]), float(x[0, 1])))
    for value in (1.5, 1.5, 2.5, -0.0, 1e30, 3.0):
        yield lambda: f(torch.full((2, 2), value))
    for value in (float("nan"), float("inf")):
        yield lambda: f(torch.full((2, 2), value))
    for dtype in (torch.int64, torch.bool, torch.float64, torch.bfloat16):
        yield lambda: f(torch.ones(2, 2, dtype=dtype))
        yield lambda: f(torch.zeros(2, 2, dtype=dtype))


@scenario(bug="stops at tolist()")
def as_lists(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: (x * 2).tolist())
    for value in (1.5, 1.5, 2.5):
        yield lambda: f(torch.full((2, 2), value))


@scenario()
def input_with_attributes(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: x.flatten(0) * 2)
    x = data(1)
    x.tag = "mine"
    yield from thrice(lambda: f(x))


@scenario()
def int_of_an_item(jit: Jit) -> Iterator[Any]:
    f = jit(lambda n: int(n.item()))
    for n in (3, 3, 4, 3):
        yield lambda: f(torch.tensor(n))


@scenario()
def item_as_size(jit: Jit) -> Iterator[Any]:
    f = jit(lambda n: torch.ones(int(n.item())) * 2)
    for n in (3, 3, 3, 4, 0, 3, -1, 3):
        yield lambda: f(torch.tensor(n))


@scenario()
def containers(jit: Jit) -> Iterator[Any]:
    def f(batch: dict[str, Any]) -> Any:
        result = {"sum": batch["a"] + batch["b"][0], "list": [batch["a"], batch["b"]], "all": (batch["a"] * 2,)}
        result["count"] = len(batch["b"])
        return result

    f = jit(f)
    batch = {"a": data(1), "b": [data(2), data(3)]}
    yield lambda: f(batch)
    yield lambda: f(batch)
    yield lambda: f({"a": data(4), "b": [data(2), data(3)]})
    yield lambda: f({"a": data(4), "b": [data(5), data(6)]})
    batch["b"].append(1)
    yield lambda: f(batch)
    del batch["a"]
    yield lambda: f(batch)


@scenario()
def global_tensor(jit: Jit) -> Iterator[Any]:
    holder = {"w": data(1)}

    def f(x: Tensor) -> Tensor:
        return x * holder["w"] + weight

    weight = data(2)
    f = jit(f)
    yield from thrice(lambda: f(data(3)))
    holder["w"] = data(4)
    yield lambda: f(data(3))
    weight = data(5)
    yield lambda: f(data(3))
    weight.mul_(2)
    yield lambda: f(data(3))
    weight = weight.double()
    yield lambda: f(data(3))
    yield lambda: f(data(3))


@scenario()
def constants_made_inside(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: (torch.arange(4), torch.tensor([1.0, 2.0]), torch.zeros(2, 2), x.new_ones(2), torch.eye(2)))

    def call() -> Any:
        made = f(data(1))
        for tensor in made:
            tensor.add_(1)
        return made

    for _ in range(4):
        yield call


@scenario()
def out_argument(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x, out: torch.add(x, 1, out=out))
    x, out = data(1), torch.zeros(2, 4)
    yield from thrice(lambda: f(x, out))
    yield lambda: (f(x, x), x)
    yield lambda: f(x, torch.empty(0))
    yield lambda: f(x, torch.zeros(2, 4, dtype=torch.int64))
    yield lambda: f(x, out.double())


@scenario()
def out_is_an_operand_once(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x, out: torch.abs(x, out=out))
    x = data(1)
    yield lambda: (f(x, x), x)
    for seed in range(2):
        y, out = data(seed), torch.zeros(2, 4)
        yield lambda: (f(y, out), out, y)


@scenario()
def outs(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x, *out: torch.max(x, 1, out=out))
    for shape in ((2, 4), (2, 4), (2, 5), (2, 0), (2, 4)):
        values, indices = torch.zeros(2), torch.zeros(2, dtype=torch.int64)
        yield lambda: (f(data(1, *shape), values, indices), values, indices)


@scenario()
def out_that_cannot_grow(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x, out: torch.abs(x, out=out))

    def kept(size: int) -> Any:
        out = torch.zeros(2, 4)
        out.numpy()  # from now on the storage keeps its size
        try:
            return f(data(1, 2, size), out)
        except RuntimeError as error:  # what it says of `out` would be read behind the end of the storage
            return str(error), out.shape

    for size in (4, 4, 8, 4):
        yield lambda: kept(size)


@scenario()
def results_that_are_operands(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x, y: torch.broadcast_tensors(x, y))
    x = data(1)
    yield lambda: f(x, x)
    yield replayed(lambda: f(x, data(2)))
    yield lambda: f(nn.Parameter(data(3)), data(1, 1, 4))
    yield lambda: f(nn.Parameter(data(3)), data(4))
    yield lambda: nn.functional.l1_loss(*f(x, data(4)))


@scenario()
def random_numbers_of_a_call_that_fails(jit: Jit) -> Iterator[Any]:
    f = jit(lambda p, out: torch.multinomial(p, 3, out=out))
    for wide in (True, True, False, True):
        out = torch.zeros(3 if wide else 1, dtype=torch.int64).expand(3)
        yield lambda: f(torch.ones(9), out)


@scenario()
def rows_in_a_loop(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> int:
        count = 0
        for row in x > 0:
            if not row:
                break
            count += 1
        return count

    f = jit(f)
    for values in ((1.0, 1.0, -1.0), (1.0, 1.0, -1.0), (1.0, -1.0, 1.0), (1.0, 1.0, 1.0), (1.0,), ()):
        yield lambda: f(torch.tensor(values))


@scenario()
def rows_unpacked(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Tensor:
        first, second = x * 2
        return first - second

    f = jit(f)
    yield from thrice(lambda: f(data(1)))
    yield lambda: f(data(1, 3, 4))
    yield replayed(lambda: f(data(2)))


@scenario()
def recurrent(jit: Jit) -> Iterator[Any]:
    for cell in (
        nn.LSTM(4, 3, num_layers=2, bidirectional=True),
        nn.GRU(4, 3),
        nn.RNN(4, 3),
        nn.LSTM(4, 3, proj_size=2),
    ):
        f = jit(cell)
        yield from thrice(lambda: f(data(1, 5, 2, 4)))
        yield replayed(lambda: f(data(2, 5, 2, 4)))
        yield lambda: f(data(2, 7, 4))
        cell.weight_ih_l0 = nn.Parameter(torch.ones_like(cell.weight_ih_l0))  # noticed through a weak reference
        yield lambda: f(data(3, 5, 2, 4))


@scenario()
def norms(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: (x.norm(), torch.norm(x, 2, 1), nn.functional.normalize(x), x.device.type, x.dtype.itemsize))
    yield from thrice(lambda: f(data(1)))
    yield replayed(lambda: f(data(2)))
    yield lambda: f(data(2).double())


@scenario()
def results_of_unknown_class(jit: Jit) -> Iterator[Any]:
    f = jit(lambda p, q: p.expand_as(q).reshape(2, 4).type_as(q).unsqueeze(0).shape)
    for p in (nn.Parameter(data(1)), data(2), nn.Parameter(data(3)), nn.Parameter(data(4, 1, 4))):
        yield lambda: f(p, data(1))
    g = jit(lambda p: nn.functional.dropout(p, training=False).grad_fn)
    for p in (nn.Parameter(data(1)), data(2), nn.Parameter(data(3))):
        yield lambda: g(p)


@scenario()
def sizes_of_integers(jit: Jit) -> Iterator[Any]:
    f = jit(
        lambda x, n: (
            torch.Size([n, 4]),
            x.expand(torch.Size((n, *x.shape))),
            torch.broadcast_shapes(x.shape, (n, 1, 1)),
        )
    )
    for n in (2, 2, 3, 3):
        yield lambda: f(data(1), n)


@scenario()
def tensors_of_constants(jit: Jit) -> Iterator[Any]:
    """Each call makes fresh ones, of the numbers as they are now."""
    kept = [1.5, -0.0]

    def f(x: Tensor, n: int) -> Any:
        a = torch.tensor([], dtype=x.dtype, device=x.device)
        b = torch.tensor([[1, 2], [3, 4]])
        b[0] = n
        c = torch.tensor(kept, dtype=x.dtype)
        d = torch.tensor((True, n > 0)), torch.tensor([n, 1]), torch.tensor(1 + 2j), torch.tensor(2.5)
        e = torch.tensor([1.0], requires_grad=True)
        c += 1
        return a, b, c, d, e, torch.cat([a, x.flatten()])

    f = jit(f)
    for n in range(3):
        yield lambda n=n: f(data(n), n)
    yield lambda: f(data(1).double(), 1)
    kept[0] = 3
    yield lambda: f(data(1), 1)
    with torch.inference_mode():
        yield lambda: f(data(1), 1)
        yield replayed(lambda: f(data(2), 1))


@scenario()
def tensors_of_numbers_in_tuples(jit: Jit) -> Iterator[Any]:
    """Tuples that C code made, of numbers that differ from call to call."""

    def f(x: Tensor, n: int) -> Any:
        pairs = torch.tensor(list(zip([n, 1], [2, n], strict=True)))
        return pairs, torch.tensor(list(enumerate([n, 2]))), torch.tensor(list({1: n, 2: n + 1}.items())) + x[0, 0]

    f = jit(f)
    for n in (1, 1, 2, 3, 4, 5, 7, 1):
        yield lambda n=n: f(data(n), n)


@scenario(bug="stops at y.tag = ...")
def attributes_set_on_results(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Tensor:
        y = x * 2
        y.tag = "mine"
        return y

    f = jit(f)
    for seed in range(4):
        yield lambda: f(data(seed))


@scenario()
def detach_and_requires_grad(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, w: Tensor) -> Any:
        y = (x * w).detach()
        y.requires_grad_()
        z = (y * 2).sum()
        return y, z, w.data, w.detach()

    f = jit(f)
    w = data(2).requires_grad_()
    for seed in range(4):
        yield lambda: f(data(seed), w)
    yield lambda: f(data(1), w.detach())


@scenario()
def counters_of_the_model(jit: Jit) -> Iterator[Any]:
    class Counts(Scaled):
        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            self.last = y = self.linear(x)
            return y * self.calls

    model = jit(Counts())
    for seed in range(5):
        yield lambda: (model(data(seed)), model.calls, model.last)
    model.calls = 10
    yield lambda: (model(data(1)), model.calls, model.last)


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


# much


@pytest.mark.parametrize("seed", range(40))
def test_random_changes(seed: int) -> None:
    """Random models, random changes and random inputs."""

    def body(jit: Jit) -> Iterator[Any]:
        choose = random.Random(seed)
        layers: list[Any] = []
        for _ in range(choose.randint(1, 5)):
            layers.append(
                choose.choice(
                    [
                        lambda: nn.Linear(4, 4),
                        nn.ReLU,
                        nn.Tanh,
                        lambda: nn.Dropout(0.5),
                        nn.GELU,
                        lambda: nn.LayerNorm(4),
                        nn.Softplus,
                        lambda: nn.BatchNorm1d(4),
                        nn.Identity,
                    ]
                )()
            )
        model = jit(nn.Sequential(*layers))
        removes: list[Any] = []
        for _ in range(25):
            act = choose.randrange(12)
            if act == 0:
                model.train(choose.random() < 0.5)
            elif act == 1:
                model[choose.randrange(len(model))] = choose.choice([nn.ReLU, nn.Identity, lambda: nn.Linear(4, 4)])()
            elif act == 2:
                removes.append(model[choose.randrange(len(model))].register_forward_hook(lambda m, a, o: o * 2))
            elif act == 3 and removes:
                removes.pop().remove()
            elif act == 4:
                for parameter in model.parameters():
                    parameter.requires_grad_(choose.random() < 0.5)
            elif act == 5:
                for parameter in model.parameters():
                    parameter.data.mul_(1.5)
            elif act == 6:
                model.double() if choose.random() < 0.3 else model.float()
            shape = choose.choice([(2, 4), (2, 4), (2, 4), (3, 4), (1, 4), (2, 5), (2, 3, 4)])
            x = data(choose.randrange(100), *shape)
            if choose.random() < 0.2:
                x.requires_grad_()
            mode = choose.choice([torch.enable_grad, torch.enable_grad, torch.enable_grad, torch.no_grad])

            def call() -> Any:
                with mode():
                    return model(x), x

            yield call

    side_by_side.check(body, whole=False)


@pytest.mark.parametrize("name", TABLE.cases())
def test_same(name: str) -> None:
    TABLE.check(name, __file__)
