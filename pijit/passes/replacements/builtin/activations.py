"""GELU, in both forms, and SiLU written out become the operators for them."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import functional as F

from pijit.passes.replacements.forms import Replacement

_ROOT = math.sqrt(2.0 / math.pi)

_CUBES: tuple[Callable[[Any], Any], ...] = (lambda x: torch.pow(x, 3.0), lambda x: x * x * x)
_HALVES: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, rest: 0.5 * x * rest,
    lambda x, rest: 0.5 * (x * rest),
    lambda x, rest: x * (0.5 * rest),
)


def _examples() -> tuple[Any, ...]:
    return (torch.linspace(-4, 4, 24).reshape(2, 3, 4),)


def _patterns() -> Iterator[tuple[Callable[..., Any], Callable[..., Any], str]]:
    for half in _HALVES:
        for cube in _CUBES:
            yield (
                lambda x, half=half, cube=cube: half(x, 1.0 + torch.tanh(_ROOT * (x + 0.044715 * cube(x)))),
                _tanh,
                "tanh",
            )
        yield lambda x, half=half: half(x, 1.0 + torch.tanh(x * _ROOT * (1.0 + 0.044715 * x * x))), _tanh, "tanh"
        yield lambda x, half=half: half(x, 1.0 + torch.erf(x / math.sqrt(2.0))), _exact, "erf"
        yield lambda x, half=half: half(x, 1.0 + torch.erf(x * (1 / math.sqrt(2.0)))), _exact, "erf"
    yield lambda x: x * torch.sigmoid(x), F.silu, "sigmoid"


def _tanh(x: Any) -> Any:
    return F.gelu(x, approximate="tanh")


def _exact(x: Any) -> Any:
    return F.gelu(x)


REPLACEMENTS = tuple(
    Replacement(
        "silu" if part == "sigmoid" else "gelu", pattern, made, _examples, names=("x",), operators=frozenset({part})
    )
    for pattern, made, part in _patterns()
)
