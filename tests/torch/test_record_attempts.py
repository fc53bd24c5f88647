"""An attempt with a size of a tensor that varies is repeated only as if nothing had been tried."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from itertools import accumulate, chain, cycle, dropwhile, islice, pairwise, takewhile, zip_longest
from typing import Any

import pytest
import torch

import pijit

A, B = datetime.date(2020, 1, 3), datetime.date(2020, 1, 1)

# Dates have an order that is not computed while recording: what compares them is not understood once it drew them.
ATTEMPTS: dict[str, Callable[[int], Any]] = {
    "sorted": lambda n: sorted(iter([A, B]), reverse=n),
    "max": lambda n: max(iter([B, A]), default=n),
    "min": lambda n: min(iter([A, B]), default=n),
    "chain": lambda n: max(chain([A], [B, A]), default=n),
    "cycle": lambda n: sorted(islice(cycle([A, B]), 3), reverse=n),
    "dropwhile": lambda n: sorted(dropwhile(lambda day: day is A, [A, B, A]), reverse=n),
    "takewhile": lambda n: sorted(takewhile(lambda day: day is A, [A, A, B]), reverse=n),
    "accumulate": lambda n: sorted(accumulate([A, B, A], lambda a, b: b, initial=B), reverse=n),
    "pairwise": lambda n: sorted(pairwise([A, B, A]), reverse=n),
    "zip_longest": lambda n: sorted(zip_longest([A], [B, A], fillvalue=B), reverse=n),
    "map": lambda n: sorted(map(lambda day: day, [A, B]), reverse=n),
    "generator": lambda n: sorted((day for day in [A, B]), reverse=n),
}


@pytest.mark.torch
@pytest.mark.parametrize("attempt", list(ATTEMPTS))
def test_a_size_that_varies(attempt: str) -> None:
    function = ATTEMPTS[attempt]

    def f(x: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return x + 1, function(x.shape[0] - 1)

    fast = pijit.jit(f)
    for size in (1, 2, 3, 3, 1, 2, 4):
        x = torch.arange(float(size))
        actual, expected = fast(x), f(x)
        assert torch.equal(actual[0], expected[0])
        assert actual[1] == expected[1], size
