"""Functions of Python on tensors: iteration, abs, functions of operator, methods by their special names, conj."""

from __future__ import annotations

import copy
import functools
import itertools
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from test_sums import described
from torch import Tensor

import pijit

Case = Callable[[Tensor], Any]


def star(first: Tensor, *rest: Tensor) -> Any:
    return first + len(rest)


def noted(x: Tensor) -> Any:
    kept = []
    for at, row in enumerate(x):
        kept.append(row * at)
        if row.sum() > 0:
            break
    return kept


class Settings:
    """As a configuration of a model: an attribute may be a property, and what is set goes through a method."""

    def __init__(self, dtype: torch.dtype, **given: Any) -> None:
        self.dtype, self.nested = dtype, {"dtypes": [torch.float16, None]}
        self.scale = 2
        for name, value in given.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)

    @property
    def scale(self) -> int:
        return self._scale

    @scale.setter
    def scale(self, value: int) -> None:
        self._scale = value + 1


def with_settings(x: Tensor) -> Any:
    made = Settings(x.dtype, scale=3, other=None)
    kept, other = copy.deepcopy(made.__dict__), copy.deepcopy(made)
    other.scale += 1
    made.nested["dtypes"].append(torch.bool)
    nested = kept["nested"]["dtypes"], other.nested["dtypes"], made.nested["dtypes"]
    return x.to(kept["dtype"]) * other.scale, made.scale, list(other.__dict__), *nested


CASES: dict[str, Case] = {
    "copies of settings": with_settings,
    "list": lambda x: list(x),
    "tuple": lambda x: torch.stack(tuple(x)),
    "unpacked": lambda x: [*x, x],
    "arguments": lambda x: star(*x),
    "iter": lambda x: next(iter(x)),
    "hasattr": lambda x: (hasattr(x, "shape"), hasattr(x, "ndim"), x * 2),
    "hasattr decides": lambda x: x * 2 if hasattr(x[0], "shape") and not hasattr(x, "shapes") else x,
    "enumerate": lambda x: [row * at for at, row in enumerate(x)],
    "zip": lambda x: [a - b for a, b in zip(x, x.flip(0), strict=True)],
    "zip_of_a_dict": lambda x: dict(zip("ab", x, strict=False))["b"],
    "reversed": lambda x: list(reversed(x)),
    "map": lambda x: list(map(lambda row: row.sin(), x)),
    "filter": lambda x: list(filter(lambda row: row.sum() > 0, x)),
    "sum": lambda x: sum(x),
    "reduce": lambda x: functools.reduce(lambda a, b: a * b, x),
    "reduce_of_add": lambda x: functools.reduce(operator.add, x),
    "reduce_from_a_number": lambda x: functools.reduce(operator.add, x, 1),
    "chain": lambda x: list(itertools.chain(x, [x])),
    "broken_off": noted,
    "abs": lambda x: abs(x),
    "pow": lambda x: pow(x, 2),
    "operators": lambda x: (operator.mul(x, 2), operator.sub(x, x[0]), operator.neg(x), operator.truediv(x, 3)),
    "matmul": lambda x: operator.matmul(x, x.T),
    "special_methods": lambda x: (x.__add__(1), x.__mul__(x), x.__truediv__(2), x.__radd__(2.5)),
    "in_place": lambda x: x.__iadd__(1),
    "conj": lambda x: (x.conj(), torch.complex(x, x).conj().imag),
    "of_a_row": lambda x: list(x[0]),
    "of_no_axes": lambda x: list(x.sum()),
    "sizes_of_lists": lambda x: x.reshape([x.shape[0]] + list(x.shape[1:])),
}
# They compare or count by data, so that a replay may leave.
LEAVES = {"filter", "broken_off", "of_no_axes"}


def outcome(function: Case, seed: int, rows: int, grad: bool) -> Any:
    x = torch.randn(rows, 3, generator=torch.Generator().manual_seed(seed))
    if grad:
        x = (x.requires_grad_() * 1.5).clone()
    try:
        given = described(function(x))
    except (TypeError, RuntimeError) as error:
        given = type(error), str(error)
    return given, described(x)


@pytest.mark.parametrize("name", CASES)
def test_calls_give_what_plain_python_gives(name: str) -> None:
    plain, fast = CASES[name], pijit.jit(CASES[name])
    for seed in range(8):
        rows = 3 if seed < 5 else 2 + seed % 3
        assert outcome(fast, seed, rows, False) == outcome(plain, seed, rows, False)
    for seed in range(8, 12):
        assert outcome(fast, seed, 3, True) == outcome(plain, seed, 3, True)
    if name not in LEAVES:
        assert any(trace.replays > 0 for trace in pijit.traces(fast))


@pytest.mark.parametrize("name", sorted(CASES.keys() - LEAVES))
def test_no_call_of_them_is_opaque(name: str) -> None:
    fast = pijit.jit(CASES[name])
    for seed in range(3):
        outcome(fast, seed, 3, False)
    assert all(trace.opaque_calls == 0 for trace in pijit.traces(fast))
