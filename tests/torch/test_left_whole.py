"""What recordings leave to CPython as one call by what it does, and decisions on None behind operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pijit

pytestmark = pytest.mark.torch


def run(f: Callable[..., Any], calls: list[tuple[Any, ...]]) -> pijit.traces.Traces:
    """Each call twice, and all of them once more; gives the traces."""
    fast = pijit.jit(f)
    for args in [*(each for each in calls for _ in range(2)), *calls]:
        made, expected = fast(*args), f(*args)
        assert torch.equal(made, expected) if isinstance(expected, Tensor) else made == expected
    return pijit.traces(fast)


def opaque(traces: Any) -> list[list[str]]:
    return [[node.text for node in trace.nodes if node.opaque] for trace in traces]


@pytest.mark.parametrize("gradients", [True, False])
def test_a_decision_on_data(gradients: bool) -> None:
    """torch traces both sides anew at each call: followed, that is some 200 nodes."""
    weight = torch.randn(8, 8)

    def f(x: Tensor) -> Tensor:
        y = torch.tanh(x @ weight) + 1
        y = torch.cond(y.sum() > 40, lambda a: torch.sin(a) * 2, lambda a: torch.cos(a @ weight), (y,))
        return torch.relu(y) * 3 - 1

    small, large = torch.full((4, 8), -1.0), torch.ones(8, 8)
    with torch.set_grad_enabled(gradients):
        traces = run(f, [(small,), (large,), (torch.zeros(0, 8),)])
    for texts in opaque(traces):
        (text,) = texts
        assert "torch.cond(" in text


def test_the_order_of_a_contraction() -> None:
    pytest.importorskip("opt_einsum")
    a, b = torch.randn(2, 3), torch.randn(3, 4)
    traces = run(lambda a, b, c: torch.einsum("ij,jk,kl->il", a, b, c), [(a, b, torch.randn(4, n)) for n in (5, 9)])
    assert all(not any("rest_of" in text for text in texts) for texts in opaque(traces))
    assert len(traces[0].nodes) < 30


class Chunks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.arange(24.0))

    def added(self, x: Tensor, bias: Tensor | None) -> Tensor:
        return x + bias if bias is not None else x

    def forward(self, x: Tensor) -> Tensor:
        a, b, c = self.bias.chunk(3)
        return self.added(x, a) * (c if b is not None else x)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(8, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y, state = self.gru(x.reshape(1, -1, 8))
        if state is None:
            return x
        y, state = self.gru(y, state)
        return y if state is not None else x


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(8, 2, kdim=4, vdim=4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        keys = x.reshape(1, -1, 4)
        return self.inner(x.reshape(1, -1, 8), keys, keys, need_weights=False)[0]


@pytest.mark.parametrize("make", [Chunks, Recurrent, Attention])
def test_no_result_of_an_operator_is_none(make: type[nn.Module]) -> None:
    torch.manual_seed(0)
    model = make().eval()
    inputs = [(torch.randn(n, 8),) for n in (1, 5, 1)]
    with torch.no_grad():
        assert opaque(run(model, inputs)) == [[]]
        for (x,) in inputs[:2]:
            assert not pijit.graph.capture(model, x).breaks


def test_what_c_code_gives_may_be_none() -> None:
    """The class of the result is not known before the call: the replay asks."""
    found = {"a": torch.ones(2), "b": None}

    def f(key: str, x: Tensor) -> Tensor:
        held = max([found], key=len)[key]
        return x if held is None else x + held

    x = torch.randn(2)
    run(f, [("a", x), ("b", x)])
    found["a"], found["b"] = None, torch.zeros(2)
    run(f, [("a", x), ("b", x)])
