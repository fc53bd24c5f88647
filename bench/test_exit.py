"""What a call costs that leaves its trace and goes on in CPython."""

import pytest
import torch
from torch import Tensor

import pijit

pytestmark = pytest.mark.benchmark(group="exit")


def multiply(x: Tensor, y: Tensor) -> str:
    """The operator fails where the shapes do not fit: no side trace helps."""
    try:
        return str((x @ y).dim())
    except RuntimeError:
        return "no"


def deeper(x: Tensor, y: Tensor, depth: int) -> str:
    """The same, some frames further in."""
    return multiply(x, y) if depth == 0 else deeper(x, y, depth - 1)


@pytest.mark.parametrize("depth", [0, 20])
@pytest.mark.parametrize("way", ["plain", "jitted"])
def test_failing_operator(benchmark, way, depth):
    function = pijit.jit(deeper) if way == "jitted" else deeper
    x, fits, fails = torch.ones(2, 3), torch.ones(3, 2), torch.ones(4, 2)
    assert function(x, fits, depth) == "2"
    assert benchmark(function, x, fails, depth) == "no"
    if way == "jitted":
        (trace,) = pijit.traces(function)
        assert trace.exits == trace.replays > 0


def branch(x: Tensor) -> Tensor:
    """A branch on a value, which a side trace serves."""
    return x * 2 if x.sum() > 0 else x - 1


@pytest.mark.parametrize("way", ["plain", "jitted"])
def test_side_trace(benchmark, way):
    function = pijit.jit(branch) if way == "jitted" else branch
    signs = [torch.ones(4), -torch.ones(4)]

    def both() -> None:
        for x in signs:
            function(x)

    for _ in range(20):
        both()
    benchmark(both)
