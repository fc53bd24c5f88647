"""What a call costs whose objects leave it: they are built at the end of the replay."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import pijit

pytestmark = pytest.mark.benchmark(group="escape")


@dataclass
class Output:
    """What a model returns."""

    state: Tensor
    hidden: tuple[Tensor, ...]
    names: dict[str, int]


def containers(x: Tensor) -> object:
    """Lists, tuples and dicts in each other."""
    parts = [x + i for i in range(4)]
    return {"parts": parts, "pairs": [(part, i) for i, part in enumerate(parts)], "more": {"x": x, "n": len(parts)}}


def instances(x: Tensor) -> object:
    """Objects of the program's classes."""
    return [Output(x * i, (x,), {"i": i}) for i in range(4)]


def closures(x: Tensor) -> object:
    """Functions with variables of their own."""
    return [lambda y, i=i: x + y + i for i in range(4)]


def nothing(x: Tensor) -> object:
    """As many objects, none of which leaves."""
    return sum(len(output.names) for output in [Output(x, (x,), {"i": i}) for i in range(4)])


@pytest.mark.parametrize("function", [containers, instances, closures, nothing], ids=lambda f: f.__name__)
@pytest.mark.parametrize("way", ["plain", "jitted"])
def test_objects(benchmark, way, function):
    call = pijit.jit(function) if way == "jitted" else function
    with torch.no_grad():
        benchmark(call, torch.ones(4))
