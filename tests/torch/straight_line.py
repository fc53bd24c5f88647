"""What tests of straight-line models share: models, their inputs, and three calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from side_by_side import Call, replayed
from torch import Tensor, nn


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


class Scaled(nn.Module):
    factor = 2.0

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.register_buffer("shift", torch.ones(3))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) * self.factor + self.shift


def thrice(call: Call) -> Iterator[Any]:
    yield call
    yield replayed(call)
    yield replayed(call)


def data(seed: int, *shape: int) -> Tensor:
    return torch.randn(*(shape or (2, 4)), generator=torch.Generator().manual_seed(seed))
