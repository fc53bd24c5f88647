"""Traces of tensor functions as text that can be read again: operators with all that they are given, inputs, modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import pijit
from pijit import _core

pytestmark = pytest.mark.torch

LINEAR = nn.Linear(3, 2)
NORM = nn.BatchNorm1d(3)
LIST = [1.0, 2.0, float("nan")]


def x() -> torch.Tensor:
    return torch.arange(6.0).reshape(2, 3)


def literals(t: torch.Tensor) -> Any:
    return t + torch.tensor(LIST), t.to(torch.float64), torch.zeros(2, device="cpu"), t.clamp(min=-float("inf"))


def lists(t: torch.Tensor) -> Any:
    first, *others = t.split([1, 2], dim=1)
    return torch.cat([first, *others, first], dim=-1), t.permute(1, 0), t.max(dim=1)


def indexing(t: torch.Tensor) -> Any:
    t[0, 1:] = 5
    return t[..., None], t[:, ::2], t[[0, 1]], t[t > 1]


def random(t: torch.Tensor) -> Any:
    return F.dropout(t, 0.5, training=True).sum() * 0, torch.rand(2).shape


def layers(t: torch.Tensor) -> Any:
    return LINEAR(NORM(t))


def gradient(t: torch.Tensor) -> Any:
    y = LINEAR(t).sum()
    y.backward()
    grad = LINEAR.weight.grad
    LINEAR.weight.grad = None
    return grad


def decisions(t: torch.Tensor) -> Any:
    if t.sum().item() > 1 and t.any():
        return t.shape[0] * t.mean().item()
    return None


def opaque(t: torch.Tensor) -> Any:
    text = repr(t)
    return len(text), t * 2


def complex_numbers(t: torch.Tensor) -> Any:
    return t * (1 + 2j), torch.full((2,), True), t.bernoulli(0.5).shape


CASES = [literals, lists, indexing, random, layers, gradient, decisions, opaque, complex_numbers]


@pytest.mark.parametrize("function", CASES)
def test_read_and_printed(function: Callable[[torch.Tensor], Any]) -> None:
    """The same text, the same operators; and another trace of other modes is another text."""
    replayed = pijit.jit(function)
    for _ in range(3):
        replayed(x())
    root = _core.root_of(replayed)
    first = _core.trace_text(root, 0)
    with torch.no_grad():
        if function is not gradient:
            for _ in range(3):
                replayed(x().double() if function is not layers else x())
    texts = [_core.trace_text(root, index) for index in range(len(_core.root_traces(root)))]
    assert len(set(texts)) == len(texts)
    assert len(texts) > 1 or function is gradient
    for index, text in enumerate([*texts, first]):
        parsed = _core.parse_trace(text)
        assert parsed.text() == text
        if index < len(texts):
            nodes = _core.trace_data(root, index)["nodes"]
            assert parsed.operators() == [node["call"]["name"] for node in nodes if "call" in node]


def test_what_an_operator_is_given() -> None:
    """Registers, literals, defaults and keywords, what is written, what the results share."""

    def f(t: torch.Tensor) -> Any:
        return t.add_(2, alpha=3).view(-1), t.sum(dtype=torch.float64)

    replayed = pijit.jit(f)
    for _ in range(2):
        assert torch.equal(replayed(x())[0], f(x())[0])
    text = _core.trace_text(_core.root_of(replayed), 0)
    assert "do aten::add_.Tensor(self!=r1, other=2, alpha*=3) -> (_~0)" in text
    assert "dtype*=global(torch).float64)" in text
    assert "aten::view(self=r1, size=list(-1)) -> (r2~0) repeatable" in text
