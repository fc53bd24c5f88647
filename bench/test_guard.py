"""What it costs to find that a trace fits: calls with next to no work, and with few or many things to guard."""

import pytest
import torch
from torch import Tensor, nn

import pijit

pytestmark = pytest.mark.benchmark(group="guard")

LAYERS = 228  # modules in twelve layers of BERT


class Shift(nn.Module):
    """A module that costs one small operator and a few reads."""

    def __init__(self) -> None:
        super().__init__()
        self.by = nn.Parameter(torch.zeros(1))
        self.active = True

    def forward(self, x: Tensor) -> Tensor:
        """x, shifted if active."""
        return x + self.by if self.active else x


def increment(x: Tensor) -> Tensor:
    """The least that can be replayed."""
    return x + 1


@pytest.mark.parametrize("jitted", [False, True], ids=["plain", "jitted"])
def test_one_operator(benchmark, jitted):
    function = pijit.jit(increment) if jitted else increment
    with torch.no_grad():
        benchmark(function, torch.ones(4))


@pytest.mark.parametrize("jitted", [False, True], ids=["plain", "jitted"])
def test_many_modules(benchmark, jitted):
    model = nn.Sequential(*(Shift() for _ in range(LAYERS)))
    if jitted:
        pijit.jit(model)
    with torch.no_grad():
        benchmark(model, torch.ones(1))


def test_second_shape(benchmark):
    function = pijit.jit(increment)
    batches = [torch.ones(4), torch.ones(2, 3)]

    def both() -> None:
        for batch in batches:
            function(batch)

    with torch.no_grad():
        benchmark(both)
