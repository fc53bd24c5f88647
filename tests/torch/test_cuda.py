"""On a GPU: what is replayed there equals eager, with streams, generators, autocast, captures and copies.

The scenarios are those that run on `twin` where there is no GPU (devices/scenarios.py), and what CUDA alone has.
`make test-cuda` builds and runs them with the Python and torch that are there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import side_by_side
import torch
import torch.nn.functional as F
from devices import scenarios
from devices.scenarios import data, filled
from side_by_side import Jit, replayed
from torch import Tensor, nn

pytestmark = [
    pytest.mark.torch,
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]

TABLE = side_by_side.Table(scenarios.TABLE)
scenario = TABLE.add


@pytest.fixture(autouse=True)
def _modes_of_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "MORE_MODES", [scenarios.modes])


@scenario(whole=False)
def during_a_capture(jit: Jit) -> Iterator[Any]:
    """Neither recorded nor replayed: the graph holds what eager puts into it."""
    f, x = jit(lambda x: torch.softmax(x * 2, -1)), data(1)

    def captured() -> Tensor:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = f(x)
        x.copy_(data(7))
        graph.replay()
        return y.clone()

    yield lambda: f(x)
    yield replayed(lambda: f(x))
    yield captured
    yield replayed(lambda: f(data(2)))
    yield captured


@scenario(whole=False)
def recorded_first_during_a_capture(jit: Jit) -> Iterator[Any]:
    f, x = jit(lambda x: x * 2 + 1), data(1)

    def captured() -> Tensor:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = f(x)
        graph.replay()
        return y.clone()

    yield captured
    yield lambda: f(x)
    yield lambda: f(x)


@scenario(whole=False)
def a_capture_within(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Tensor:
        still, graph = x.clone(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = still * 2 + 1
        graph.replay()
        return y.clone()

    f = jit(f)
    for seed in range(3):
        yield lambda: f(data(seed))


@scenario(whole=False)
def streams_and_devices_of_cuda(jit: Jit) -> Iterator[Any]:
    side = torch.cuda.Stream()

    def f(x: Tensor) -> Any:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.device(0), torch.cuda.stream(side):
            y = x @ x.t()
            y.record_stream(torch.cuda.current_stream())
        torch.cuda.current_stream().wait_stream(side)
        return y, torch.cuda.current_device(), torch.cuda.is_current_stream_capturing()

    f = jit(f)
    for seed in range(4):
        yield lambda: f(data(seed))


@scenario(whole=False)
def scaled_gradients(jit: Jit) -> Iterator[Any]:
    model = scenarios.mlp()
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cuda")

    def step(x: Tensor, y: Tensor) -> Any:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach(), scaler.get_scale()

    step = jit(step)
    for seed in range(4):
        yield lambda: (step(data(seed), data(seed + 1, 3, 2)), scenarios.gradients(model))


@scenario()
def attention_of_torch(jit: Jit) -> Iterator[Any]:
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    model = jit(filled(layer))
    for seed in range(3):
        call = lambda seed=seed: model(data(seed, 2, 5, 16))  # noqa: E731
        yield replayed(call) if seed else call


@scenario(whole=False)
def draws_that_raise(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x, p: (x.clone().uniform_(), x.clone().bernoulli_(p)))
    for p in (0.5, 0.5, 2.0, 0.5):
        yield lambda: f(data(1), p)


@pytest.mark.parametrize("name", TABLE.cases())
def test_same_on_cuda(name: str) -> None:
    TABLE.check(name, __file__)
