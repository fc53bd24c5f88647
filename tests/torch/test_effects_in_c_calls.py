"""C code that calls Python with effects, once for each item: followed, or one opaque call; the recording goes on."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import pijit

pytestmark = pytest.mark.torch


def doubled(tensor: Tensor) -> Tensor:
    return tensor.mul_(2)


def consumed(x: Tensor) -> Any:
    made = [x + 1, x * 3]
    deque(map(doubled, made), maxlen=0)
    return made[0] + made[1] * 2


def consumed_in_order(x: Tensor) -> Any:
    made = x + 1
    deque((made.add_(each) for each in (x, made, 3)), 0)
    return made * 2


def last_ones(x: Tensor) -> Any:
    kept = deque(map(doubled, [x + 1, x + 2, x + 3]), maxlen=2)
    return kept[0] * 2, kept, kept.maxlen


def reduced(x: Tensor) -> Any:
    return functools.reduce(lambda a, b: a.add_(b.mul_(2)), [x + 1, x * 2, x * 3]) * 2


def all_of(x: Tensor) -> Any:
    made = [x + 1, x * 3]
    found = all(bool((doubled(each) > -100).all()) for each in made)
    return found, made[0] * 2, made[1]


def with_state(x: Tensor) -> Any:
    seen: list[Tensor] = []
    deque(map(seen.append, [x + 1, x * 2]), maxlen=0)
    deque(map(doubled, seen), maxlen=0)
    return sum(seen) * 2


PROGRAMS: list[Callable[[Tensor], Any]] = [consumed, consumed_in_order, last_ones, reduced, all_of, with_state]


def told(found: Any) -> Any:
    if isinstance(found, Tensor):
        return found.tolist()
    if isinstance(found, tuple | list | deque):
        return [type(found).__name__, *map(told, found)]
    return found


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_calls_give_what_plain_python_gives(program: Callable[[Tensor], Any]) -> None:
    jitted = pijit.jit(program)
    for shift in (0.0, 1.0, -2.0, 5.0):
        x = torch.arange(3.0) + shift
        before = x.clone()
        assert told(jitted(x)) == told(program(x))
        assert torch.equal(x, before)
    x = torch.arange(6.0).reshape(2, 3)
    assert told(jitted(x)) == told(program(x))
    (trace, *_) = pijit.traces(jitted)
    assert "stopped recording" not in str(trace)
    assert pijit.status(jitted).state == "replaying"
