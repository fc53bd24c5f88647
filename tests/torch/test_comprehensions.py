"""Comprehensions whose loop goes on in a trace that begins in it: what they have made so far exists already."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

import pijit

pytestmark = pytest.mark.torch

CALLS, LAST = 60, 30


def drawn(generator: random.Random) -> Callable[[int], Any]:
    """A list that is filled by draws."""
    return lambda count: [generator.randrange(2, 50) for _ in range(count)]


def drawn_for_a_set(generator: random.Random) -> Callable[[int], Any]:
    return lambda count: sorted({generator.randrange(2, 50) for _ in range(count)})


def drawn_for_a_dict(generator: random.Random) -> Callable[[int], Any]:
    return lambda count: {i: generator.randrange(2, 50) for i in range(count)}


def drawn_behind_others(generator: random.Random) -> Callable[[int], Any]:
    return lambda count: [0, *[generator.randrange(2, 50) for _ in range(count)], *(generator.random(),)]


def nested(generator: random.Random) -> Callable[[int], Any]:
    return lambda count: [[generator.randrange(2, 50) * i for i in range(count)] for _ in range(count)]


def tensors(generator: random.Random) -> Callable[[int], Any]:
    return lambda count: [torch.full((2,), generator.random()).tolist() for _ in range(count)]


def with_a_condition(generator: random.Random) -> Callable[[int], Any]:
    return lambda count: [value for _ in range(count) if (value := generator.randrange(50)) % 2]


def that_raises(generator: random.Random) -> Callable[[int], Any]:
    def step(count: int) -> Any:
        try:
            return [10 // (generator.randrange(50) - 3) for _ in range(count)]
        except ZeroDivisionError as error:
            return str(error)

    return step


MAKERS = [
    drawn,
    drawn_for_a_set,
    drawn_for_a_dict,
    drawn_behind_others,
    nested,
    tensors,
    with_a_condition,
    that_raises,
]


@pytest.mark.parametrize("make", MAKERS)
def test_what_is_filled_is_what_python_fills(make: Callable[[random.Random], Callable[[int], Any]]) -> None:
    lengths = [3 + i * 7 % 9 for i in range(CALLS)] + [40, 41, 0, 1]
    plain = make(random.Random(7))
    wanted = [plain(count) for count in lengths]
    fast = pijit.jit(make(random.Random(7)))
    assert [fast(count) for count in lengths] == wanted


def test_a_function_that_is_made_anew_is_not_recorded_for_ever() -> None:
    """The function of a comprehension, before CPython 3.12, and one that stands in another are new in each call."""
    generator = random.Random(3)

    def step(count: int) -> Any:
        def total(n: int) -> int:
            found = 0
            while n > 0:
                found += generator.randrange(5)
                n -= 1
            return found

        return [generator.randrange(2, 50) for _ in range(count)], total(count)

    wanted = [step(3 + i * 7 % 9) for i in range(4 * CALLS)]
    generator.seed(3)
    generator = random.Random(3)
    fast = pijit.jit(step)
    assert [fast(3 + i * 7 % 9) for i in range(3 * CALLS)] == wanted[: 3 * CALLS]
    before = pijit.stats()
    assert [fast(3 + i * 7 % 9) for i in range(3 * CALLS, 4 * CALLS)] == wanted[3 * CALLS :]
    assert pijit.stats()["records"] - before["records"] <= 2
