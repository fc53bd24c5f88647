"""Functions that C code calls, and that write to what existed before: the call of the C code is an opaque one."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import pijit

pytestmark = pytest.mark.torch

CALLS = 30


class State:
    def __init__(self) -> None:
        self.log: list[Any] = []
        self.table: dict[Any, int] = {}
        self.seen: set[int] = set()
        self.count = 0
        self.rows = [(i * 7 % 5, torch.full((2,), float(i))) for i in range(12)]

    def appends(self, row: Any) -> Any:
        self.log.append(row[0])
        return row[0]

    def counts(self, row: Any) -> Any:
        self.count += 1
        return row[0] + self.count % 2

    def puts(self, row: Any) -> Any:
        self.table[row[0]] = self.table.get(row[0], 0) + 1
        return row[0]

    def adds(self, row: Any) -> Any:
        self.seen.add(row[0])
        return row[0]

    def raises(self, row: Any) -> Any:
        self.log.append(row[0])
        return 1 // (row[0] - (4 if len(self.log) > 100 else 9))


KEYS = [State.appends, State.counts, State.puts, State.adds, State.raises]


def by_sorted(state: State, key: Any, x: torch.Tensor) -> Any:
    return sum(v * x for _, v in sorted(state.rows, key=key))


def by_min(state: State, key: Any, x: torch.Tensor) -> Any:
    return min(state.rows, key=key)[1] * x, max(state.rows, key=key)[1]


def by_map(state: State, key: Any, x: torch.Tensor) -> Any:
    return x * sum(map(key, state.rows))


def by_filter(state: State, key: Any, x: torch.Tensor) -> Any:
    return x * len(list(filter(key, state.rows))), x + 1


def by_reduce(state: State, key: Any, x: torch.Tensor) -> Any:
    return x * functools.reduce(lambda total, row: total + key(row), state.rows, 0)


def by_sort_in_place(state: State, key: Any, x: torch.Tensor) -> Any:
    rows = list(state.rows)
    rows.sort(key=key)
    return rows[0][1] * x


USES = [by_sorted, by_min, by_map, by_filter, by_reduce, by_sort_in_place]


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, (tuple, list)):
        return [plain(each) for each in value]
    return value


def run(use: Callable[..., Any], key: Any, jitted: bool) -> list[Any]:
    state = State()
    bound = functools.partial(key, state) if key is State.adds else key.__get__(state)
    step = lambda x: use(state, bound, x)  # noqa: E731
    fast = pijit.jit(step) if jitted else step
    found: list[Any] = []
    for i in range(CALLS):
        try:
            found.append(plain(fast(torch.full((2,), float(i)))))
        except ZeroDivisionError as error:
            found.append(str(error))
        found.append((list(state.log), dict(state.table), sorted(state.seen), state.count))
    return copy.deepcopy(found)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("key", KEYS)
def test_what_they_write_is_what_python_writes(use: Callable[..., Any], key: Any) -> None:
    before = pijit.stats()
    assert run(use, key, True) == run(use, key, False)
    after = pijit.stats()
    if key is not State.raises:
        assert after["replays"] - before["replays"] >= CALLS - 6
        assert after["aborts"] == before["aborts"]
