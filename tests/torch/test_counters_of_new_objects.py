"""Objects that are made anew, and that count in their attributes: what one has shown is known of the next one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import pijit

pytestmark = pytest.mark.torch

OBJECTS, CALLS = 6, 12


class Meter:
    def __init__(self, start: int = 0) -> None:
        self.count, self.total, self.limit = start, 0.0, 3

    def step(self, x: torch.Tensor) -> Any:
        self.count += 1
        self.total += float(x.sum())
        return (x * self.count).tolist(), self.total / self.count, self.count % self.limit


class Slotted:
    __slots__ = ("__weakref__", "count", "last")

    def __init__(self, start: int = 0) -> None:
        self.count, self.last = start, -1

    def step(self, x: torch.Tensor) -> Any:
        self.last, self.count = self.count, self.count + 2
        return (x * self.count).tolist(), self.last


class Sized(Meter):
    """Its counter decides how many rounds there are."""

    def step(self, x: torch.Tensor) -> Any:
        self.count += 1
        for _ in range(self.count % 3):
            x = x + 1
        return x.tolist(), self.count


class Other(Meter):
    """The same attribute is a text, a bool or gone."""

    def __init__(self, start: int = 0) -> None:
        super().__init__(start)
        if start == 20:
            self.count = True
        if start == 30:
            self.count = 2.5  # type: ignore[assignment]
        if start == 40:
            del self.count

    def step(self, x: torch.Tensor) -> Any:
        if not hasattr(self, "count"):
            self.count = 7
        return super().step(x)


class Clock:
    """As a progress bar: a clock value and counters that are compared."""

    def __init__(self, start: int = 0) -> None:
        self.n, self.last_n, self.last_time, self.shown = start, start, time.monotonic(), 0

    def step(self, x: torch.Tensor) -> Any:
        self.n += 1
        if self.n - self.last_n >= 5:
            now = time.monotonic()
            if now - self.last_time > 1000.0:
                self.shown += 1
            self.last_n, self.last_time = self.n, now
        return (x * self.n).tolist(), self.last_n, self.shown


KINDS = [Meter, Slotted, Sized, Other, Clock]


def run(kind: Callable[[int], Any], jitted: bool) -> tuple[list[Any], list[float]]:
    found: list[Any] = []
    recorded: list[float] = []
    for i in range(OBJECTS):
        made = kind(i * 10)
        step = pijit.jit(made.step) if jitted else made.step
        before = pijit.stats()["records"]
        found.append([step(torch.full((2,), float(i + j))) for j in range(CALLS)])
        recorded.append(pijit.stats()["records"] - before)
    return found, recorded


@pytest.mark.parametrize("kind", KINDS)
def test_objects_that_count(kind: Callable[[int], Any]) -> None:
    plain, _ = run(kind, False)
    fast, recorded = run(kind, True)
    assert fast == plain
    if kind in (Meter, Slotted):
        assert all(each <= 1 for each in recorded[1:])


def test_iterators_of_a_loader() -> None:
    """Each epoch has an iterator of its own, which numbers what it gives."""
    data = TensorDataset(torch.arange(64.0).view(32, 2), torch.arange(32))
    loader = DataLoader(data, batch_size=4)

    def epoch(jitted: bool) -> tuple[list[Any], float]:
        iterator = iter(loader)
        following = pijit.jit(iterator.__next__) if jitted else iterator.__next__
        before = pijit.stats()["records"]
        found = [[each.tolist() for each in following()] for _ in range(8)]
        with pytest.raises(StopIteration):
            following()
        return found, pijit.stats()["records"] - before

    for turn in range(4):
        plain, _ = epoch(False)
        fast, recorded = epoch(True)
        assert fast == plain
        assert turn == 0 or recorded <= 2  # the first one, and the end
