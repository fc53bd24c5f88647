"""Functions of Python on tensors: iteration, functions that C code calls, those of operator, tensors as keys."""

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


# The first copy gives the class what later ones find there, in a call that stays opaque.
copy.copy(Settings(torch.bool))


def with_settings(x: Tensor) -> Any:
    made = Settings(x.dtype, scale=3, other=None)
    kept, other = copy.deepcopy(made.__dict__), copy.deepcopy(made)
    other.scale += 1
    made.nested["dtypes"].append(torch.bool)
    nested = kept["nested"]["dtypes"], other.nested["dtypes"], made.nested["dtypes"]
    return x.to(kept["dtype"]) * other.scale, made.scale, list(other.__dict__), *nested


W, V = torch.full((3,), 2.0), torch.full((3,), 3.0)
LAST, RELU = operator.itemgetter(-1), operator.methodcaller("relu")


def written_list(rows: list[Tensor]) -> Any:
    operator.setitem(rows, 0, rows[1])
    operator.delitem(rows, 1)
    return rows


def in_place(x: Tensor) -> Any:
    before = x
    x = operator.iadd(x, 1)
    x = operator.imul(x, x)
    x = operator.itruediv(operator.isub(x, 0.5), 3)
    return x, operator.ipow(x, 2), before


def keyed(x: Tensor) -> Any:
    kept = {W: 1, V: x}
    y = x + 1
    kept[y] = x * 2
    kept[W] += 1
    there = [key in kept for key in (W, x, y, V)]
    del kept[V]
    return there, kept[y], kept[W] * x, len(kept), y, [key * 2 for key in kept]


def members(x: Tensor) -> Any:
    seen = set()
    for tensor in (x, W, x, V, W):
        if tensor in seen:
            seen.discard(tensor)
        else:
            seen.add(tensor)
    return len(seen), V in seen, x in seen, x + W


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
    "reduce_of_mul": lambda x: functools.reduce(operator.mul, x, 2.5),
    "reduce_of_maximum": lambda x: functools.reduce(torch.maximum, [x, x + 1, x * 2]) + x,
    "reduce_of_matmul": lambda x: functools.reduce(torch.matmul, [x, x.T, x + 1]),
    "reduce_of_methods": lambda x: functools.reduce(torch.Tensor.sub, [x, x[0], x]),
    "map_of_relu": lambda x: [row * 2 for row in list(map(torch.relu, [x, x + 1]))],
    "map_of_a_method": lambda x: torch.stack(list(map(torch.Tensor.sin, x))),
    "map_of_two": lambda x: tuple(map(torch.mul, [x, x + 1], [x, 2.0])),
    "map_of_numbers": lambda x: list(map(operator.mul, [x, x + 1], [3, x])),
    "map_of_sums": lambda x: torch.stack(list(map(torch.sum, x))),
    "map_in_a_loop": lambda x: [row + 1 for row in map(torch.exp, x)],
    "starmap": lambda x: list(itertools.starmap(torch.add, [(x, x), (x, 2)])),
    "accumulate": lambda x: list(itertools.accumulate([x, x + 1, x * 2])),
    "accumulate_of_mul": lambda x: list(itertools.accumulate(x, torch.mul)),
    "accumulate_with_a_start": lambda x: torch.stack(list(itertools.accumulate(x, operator.mul, initial=x[0]))),
    "accumulate_of_python": lambda x: list(itertools.accumulate(x, lambda a, b: (a * b).sin())),
    "accumulate_in_a_loop": lambda x: [row * at for at, row in enumerate(itertools.accumulate(x))],
    "accumulate_of_sizes": lambda x: (x * 2, list(itertools.accumulate(x.shape, operator.mul, initial=1))),
    "pairwise": lambda x: [a * b for a, b in itertools.pairwise([x, x + 1, x * 2])],
    "pairwise_of_rows": lambda x: [a - b for a, b in itertools.pairwise(x)],
    "itemgetter": lambda x: operator.itemgetter(0)(x) + operator.itemgetter(slice(0, 2))(x),
    "itemgetter_of_two": lambda x: operator.itemgetter(0, -1)(x),
    "a_known_itemgetter": lambda x: LAST(x) + 1,
    "attrgetter": lambda x: operator.attrgetter("T")(x) + 1,
    "methodcaller": lambda x: operator.methodcaller("sum", 0)(x),
    "a_known_methodcaller": lambda x: RELU(x) * x,
    "map_of_a_methodcaller": lambda x: list(map(RELU, [x, x * 2])),
    "map_of_an_itemgetter": lambda x: list(map(LAST, [x, x * 2])),
    "setitem": lambda x: (operator.setitem(x, 0, 7.0), x * 2),
    "setitem_of_a_list": lambda x: written_list([x, x + 1]),
    "in_place_functions": lambda x: in_place(x.clone()),
    "comparing_functions": lambda x: (operator.lt(x, 0), operator.ge(x, x[0]), operator.eq(x, x), operator.ne(0, x)),
    "other_functions": lambda x: (operator.floordiv(x, 2), operator.mod(x, 2), operator.pow(x, 2), 2 - x[0]),
    "bits": lambda x: (operator.and_(x > 0, x < 1), operator.or_(x > 0, x < 1), operator.xor(x > 0, x < 1)),
    "identity": lambda x: (operator.is_(x, None), operator.is_not(x, None), operator.is_(x, x), x * 2),
    "keys": lambda x: keyed(x),
    "keys_of_results": lambda x: {x: 1, x + 1: 2}[x] * x,
    "members": lambda x: (len({x, W, x, V}), x in {W, x}, W in {x, V}, (x + 1) in {x, W}, x * 2),
    "members_that_come_and_go": lambda x: members(x),
    "a_dict_of_pairs": lambda x: dict(zip([x, W], [1, x], strict=True))[W],
    "keys_with_defaults": lambda x: ({W: x}.get(V), {W: x}.get(W), {W: x}.pop(W), {W: x}.setdefault(V, x)),
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
