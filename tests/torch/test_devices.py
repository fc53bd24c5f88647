"""Tensors of a second device, `twin`: what is replayed there equals eager, kernel by kernel and stream by stream.

`twin` is a backend outside of PyTorch that computes in the memory of the CPU (devices/twin.cpp). So what a GPU needs of
pijit is tested where there is none. The scenarios that CUDA runs too are in devices/scenarios.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import side_by_side
import torch
from devices import scenarios, twin
from devices.child import Child
from devices.scenarios import DEVICE, data
from side_by_side import Jit, replayed
from torch import nn

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(twin.compiler() is None, reason="needs a C++ compiler"),
]

TABLE = side_by_side.Table(scenarios.TABLE)
scenario = TABLE.add


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    made = Child(__file__)
    yield made
    made.end()


@scenario(whole=False)
def a_draw_that_fails(jit: Jit) -> Iterator[Any]:
    """What it has drawn before it failed is not drawn twice."""
    f = jit(lambda x, rate: x.clone().exponential_(rate))
    for rate in (1.0, 1.0, 13.0, 1.0, 13.0):
        yield lambda: f(data(1), rate)
    own = torch.Generator(DEVICE)
    g = jit(lambda x, rate: torch.empty_like(x).exponential_(rate, generator=own))
    for rate in (1.0, 1.0, 13.0, 1.0):
        yield lambda: (g(data(1), rate), own.get_state().sum())


@scenario(whole=False)
def during_a_capture(jit: Jit) -> Iterator[Any]:
    """Neither recorded nor replayed."""
    f = jit(lambda x: x * 2 + 1)
    yield lambda: f(data(1))
    for _ in range(2):
        torch.twin.capture(True)
        try:
            yield lambda: f(data(2))
        finally:
            torch.twin.capture(False)
        yield replayed(lambda: f(data(3)))


@scenario(whole=False)
def a_capture_within(jit: Jit) -> Iterator[Any]:
    def f(x: Any) -> Any:
        y = x + 1
        torch.twin.capture(True)
        try:
            return y * 2
        finally:
            torch.twin.capture(False)

    f = jit(f)
    for seed in range(4):
        yield lambda: f(data(seed))


@scenario()
def moved_by_its_own_method(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: (x.twin() * 2, x.is_twin))
    yield lambda: f(data(1, device="cpu"))
    yield replayed(lambda: f(data(2, device="cpu")))


@scenario()
def text_model(jit: Jit) -> Iterator[Any]:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    made = transformers.BertModel(transformers.BertConfig(vocab_size=50, **sizes))
    model = jit(scenarios.filled(made).eval())
    with torch.no_grad():
        for seed in range(3):
            words = torch.randint(50, (1, 6), generator=torch.Generator().manual_seed(seed)).to(DEVICE)
            call = lambda words=words: model(words).last_hidden_state  # noqa: E731
            yield replayed(call) if seed else call
    assert isinstance(made, nn.Module)


@pytest.mark.parametrize("name", TABLE.cases())
def test_same_on_twin(child: Child, name: str) -> None:
    assert child.ask(name) == ""
