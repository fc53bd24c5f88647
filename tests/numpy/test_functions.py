"""Small functions over arrays, whose arguments change from call to call, against plain NumPy bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from array_functions import FUNCTIONS

import pijit


class Derived(np.ndarray):
    """Arrays of a class of the program's."""


def changes() -> Iterator[tuple[str, Any, Any]]:
    """Arguments, each beside what it changes."""
    draw = np.random.default_rng(7)

    def pair(*shape: int) -> tuple[Any, Any]:
        return draw.normal(size=shape) * 3, draw.normal(size=shape)

    yield ("first", *pair(8))
    yield ("values", *pair(8))
    yield ("shape", *pair(12))
    x, y = pair(6, 4)
    yield "rank", x, y
    yield "strides", x.T, y.T
    yield "single", x.astype(np.float32), y.astype(np.float32)
    yield "whole", (x * 4).astype(np.int64), (y * 4).astype(np.int64)
    yield "complex", x + 1j * y, y + 0j
    yield "object", x[:, 0].astype(object), y[:, 0].astype(object)
    yield "derived", x[:, 0].copy().view(Derived), y[:, 0].copy()
    yield "empty", x[:0, 0], y[:0, 0]
    yield (
        "special",
        np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e308]),
        np.array([0.0, 1.0, -1.0, 1e-320, 2.0, 1e308]),
    )
    frozen = pair(8)[0]
    frozen.flags.writeable = False
    yield "frozen", frozen, frozen[::-1]
    yield ("again", *pair(8))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_changes(name: str, outcome: Callable[..., Any]) -> None:
    plain = FUNCTIONS[name]
    jitted = pijit.jit(plain)
    for change, x, y in changes():
        for _ in range(2):
            assert outcome(jitted, x, y) == outcome(plain, x, y), change


@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_raise(name: str, outcome: Callable[..., Any]) -> None:
    plain = FUNCTIONS[name]
    jitted = pijit.jit(plain)
    first, *_, special, _, last = changes()
    for state in ({}, {"all": "raise"}, {"all": "ignore"}, {"divide": "print", "invalid": "raise"}):
        for _, x, y in (first, special, last):
            with np.errstate(**state):
                assert outcome(jitted, x, y) == outcome(plain, x, y), state


# Those of which something is left to an opaque call.
OPAQUE = {"tile"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_whole(name: str) -> None:
    jitted = pijit.jit(FUNCTIONS[name])
    x, y = np.linspace(-2, 3, 8), np.linspace(1, 4, 8)
    jitted(x, y)
    jitted(x + 1, y)
    trace = pijit.traces(jitted)[0]
    whole = not trace.opaque_calls and trace.stop is None
    assert whole == (name not in OPAQUE), str(trace)


def test_dtypes_of_other_packages(outcome: Callable[..., Any]) -> None:
    """A package that adds dtypes adds loops to ufuncs. They are left to NumPy, also for arrays of such a dtype."""
    others = pytest.importorskip("ml_dtypes")

    def plain(x: Any, y: Any) -> Any:
        return np.maximum(x * y + x, y) - np.abs(y)

    jitted = pijit.jit(plain)
    x, y = np.linspace(-2, 3, 8), np.linspace(1, 4, 8)
    foreign = x.astype(others.bfloat16), y.astype(others.bfloat16)
    for x_now, y_now in ((x, y), (x + 1, y), foreign, (x, foreign[1]), (x - 1, y), foreign):
        assert outcome(jitted, x_now, y_now) == outcome(plain, x_now, y_now)
    assert not pijit.traces(jitted)[0].opaque_calls


ROWS: dict[str, Callable[..., Any]] = {
    "list": lambda x, y: [row * 2 for row in x],
    "zip": lambda x, y: [a * b for a, b in zip(x, y, strict=False)],
    "enumerate": lambda x, y: {i: row + i for i, row in enumerate(x)},
    "unpack": lambda x, y: [a + b for a, b, *_ in zip(x, y, x, strict=True)],
}


def writes_to_what_comes(x: Any, y: Any) -> Any:
    """The rows behind are read when their turn comes."""
    z = x.copy()
    seen = []
    for i, row in enumerate(z):
        if i + 1 < len(z):
            z[i + 1] = y[i]
        seen.append(row)
    return seen, z


def stops_early(x: Any, y: Any) -> Any:
    """A branch on what a row holds."""
    total = 0
    for row in x:
        if row.sum() > 1:
            break
        total = total + row
    return total


def fails_in_the_middle(x: Any, y: Any) -> Any:
    """CPython goes on with the iterator where it stands."""
    found = []
    for row in x:
        found.append(1 / np.abs(row).sum())
    return found


for function in (writes_to_what_comes, stops_early, fails_in_the_middle):
    ROWS[function.__name__] = function


@pytest.mark.parametrize("name", ROWS)
def test_rows(name: str, outcome: Callable[..., Any]) -> None:
    plain = ROWS[name]
    jitted = pijit.jit(plain)
    for change, x, y in changes():
        for _ in range(2):
            assert outcome(jitted, x, y) == outcome(plain, x, y), change
    table = np.arange(12.0).reshape(6, 2)
    for rows in (table, table[::-1], table[:3], np.zeros((6, 2)), np.zeros((70, 2)), np.array(3.0)):
        for _ in range(2):
            assert outcome(jitted, rows, table) == outcome(plain, rows, table)


TABLE = np.arange(12.0).reshape(6, 2)


def test_methods_of_a_module_level_array(outcome: Callable[..., Any]) -> None:
    def plain(x: Any) -> Any:
        return TABLE.sum() + x, TABLE.mean(0), TABLE.any(), TABLE.max(axis=-1), TABLE.std(), TABLE[:, 0] + x.sum()

    jitted = pijit.jit(plain)
    for step in range(4):
        TABLE[0] = step
        x = np.linspace(-2, step, 6)
        assert outcome(jitted, x) == outcome(plain, x)
    assert not any(trace.opaque_calls for trace in pijit.traces(jitted))
