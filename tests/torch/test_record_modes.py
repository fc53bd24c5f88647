"""Modes around and inside straight-line models: each is another one at some call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import side_by_side
import torch
from side_by_side import Jit, replayed
from straight_line import data, mlp, thrice
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import pijit

pytestmark = pytest.mark.torch

TABLE = side_by_side.Table()
scenario = TABLE.add


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


@pytest.mark.parametrize("name", TABLE.cases())
def test_same(name: str) -> None:
    TABLE.check(name, __file__)
