"""Functions that write to arrays: in place, to items, to `out=`. Arguments change, and are compared afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_functions import changes

import pijit


def adds(x: Any, y: Any) -> Any:
    x += y
    x -= 0.5
    x *= y
    return x


def divides(x: Any, y: Any) -> Any:
    x /= y
    return x.sum()


def remainders(x: Any, y: Any) -> Any:
    x %= 3
    x **= 2
    x //= 2
    return x * 2


def integers(x: Any, y: Any) -> Any:
    z = (np.abs(x.ravel()) * 8).astype(np.int64)
    z |= 1
    z ^= 6
    z &= 255
    z <<= 2
    z >>= 1
    return z


def items(x: Any, y: Any) -> Any:
    x[0] = y[-1]
    x[-1] = 2
    x[1:3] = y[1:3] * 2.5
    x[x > 1.5] = 1.5
    return x.sum()


def adds_to_items(x: Any, y: Any) -> Any:
    x[0] += y[0]
    x[2:4] *= 2
    return x[0]


def views(x: Any, y: Any) -> Any:
    inner = x[1:-1]
    inner += y[1:-1]
    x[1:] += x[:-1]
    return inner, x


def into(x: Any, y: Any) -> Any:
    z = np.zeros(x.shape)
    np.add(x, y, out=z)
    np.multiply(z, 2, z)
    z2 = np.tanh(z, out=z)
    return z2 is z, z


def into_reduction(x: Any, y: Any) -> Any:
    total = np.zeros(x.shape[1:])
    np.sum(x, axis=0, out=total)
    return total


def fills(x: Any, y: Any) -> Any:
    z = np.empty(x.shape)
    z.fill(3)
    z[...] = z + x.real
    np.copyto(z, y.real)
    z[0] = 9
    w = x.ravel().copy()
    w.sort()
    return z, w


def reads_between(x: Any, y: Any) -> Any:
    first = x.sum()
    x += 1
    second = x.sum()
    if second > y.sum():
        x *= 2
    return first, second, x[0]


def heat(x: Any, y: Any) -> Any:
    u = x.ravel() * 1.0
    for _ in range(20):
        u[1:-1] += 0.1 * (u[:-2] - 2 * u[1:-1] + u[2:])
    return u


def sums_scalars(x: Any, y: Any) -> Any:
    total = x[0] * 0
    count = 0
    for i in range(3):
        total += x[i]
        count += 1
    return total, count


def lists(x: Any, y: Any) -> Any:
    found = [1.0]
    found += x.ravel()[:2].tolist()
    found *= 2
    return found


def fails_late(x: Any, y: Any) -> Any:
    x *= 1e200
    x *= x
    return x


WRITES = {
    each.__name__: each
    for each in (
        *(adds, divides, remainders, integers, items, adds_to_items, views, into, into_reduction, fills),
        *(reads_between, heat, sums_scalars, lists, fails_late),
    )
}


def copies(x: Any, y: Any) -> tuple[Any, Any]:
    """Arrays of the same kind, order and flags, which a call may write to."""

    def copied(array: Any) -> Any:
        made = array.copy(order="K")
        made.flags.writeable = array.flags.writeable
        return made

    return copied(x), copied(y)


@pytest.mark.parametrize("name", WRITES)
def test_changes(name: str, outcome: Callable[..., Any]) -> None:
    plain = WRITES[name]
    jitted = pijit.jit(plain)
    for change, x, y in changes():
        for _ in range(2):
            assert outcome(jitted, *copies(x, y)) == outcome(plain, *copies(x, y)), change


@pytest.mark.parametrize("name", WRITES)
def test_errors(name: str, outcome: Callable[..., Any]) -> None:
    """What is raised for an element is raised once: what was written before stands as NumPy leaves it."""
    plain = WRITES[name]
    jitted = pijit.jit(plain)
    first, *_, special, _, last = changes()
    for state in ({}, {"all": "raise"}, {"all": "ignore"}, {"divide": "print", "invalid": "raise"}):
        for _, x, y in (first, special, last, special, first):
            with np.errstate(**state):
                assert outcome(jitted, *copies(x, y)) == outcome(plain, *copies(x, y)), state


@pytest.mark.parametrize("name", sorted(WRITES))
def test_whole(name: str) -> None:
    jitted = pijit.jit(WRITES[name])
    x, y = np.linspace(-2, 3, 8), np.linspace(1, 4, 8)
    with np.errstate(all="ignore"):
        for shift in (0, 1, 2):
            jitted(x + shift, y.copy())
    trace = pijit.traces(jitted)[0]
    assert not trace.opaque_calls, str(trace)
    assert trace.stop is None


def test_two_names_of_one_array(outcome: Callable[..., Any]) -> None:
    def plain(x: Any, y: Any) -> Any:
        x += y
        y[1:] = x[:-1]
        return x, y

    jitted = pijit.jit(plain)
    x = np.linspace(-2, 3, 8)
    for pair in (lambda a: (a, a.copy()), lambda a: (a, a), lambda a: (a, a[::-1]), lambda a: (a[::2], a[1::2])):
        for _ in range(2):
            assert outcome(jitted, *pair(x.copy())) == outcome(plain, *pair(x.copy()))


def test_module_level_array(outcome: Callable[..., Any]) -> None:
    state = np.zeros(8)

    def plain(x: Any) -> Any:
        nonlocal state
        state += x
        state[0] = 1
        return state.sum()

    jitted = pijit.jit(plain)
    expected = np.zeros(8)
    for step in range(4):
        x = np.linspace(0, step, 8)
        result = jitted(x)
        expected += x
        expected[0] = 1
        assert result == expected.sum()
        assert state.tobytes() == expected.tobytes()


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 100, 128, 129, 1000, 4096, 5000])
def test_reductions_have_the_same_bits(size: int, outcome: Callable[..., Any]) -> None:
    def plain(x: Any) -> Any:
        wide = np.stack([x, x * 0.1])
        deep = np.stack([wide, wide + x, wide])
        last = deep.sum(-1), deep.max(2), deep.min(axis=-1), deep.mean(-1), deep.sum(axis=-1, keepdims=True)
        tall = wide.T.copy()
        return (
            last,
            tall.sum(1),
            tall.mean(axis=1),
            np.max(tall, axis=-1),
            x.sum(),
            x.mean(),
            x.max(),
            x.min(),
            x.prod(),
            np.mean(x),
            wide.mean(0),
            wide.mean(axis=1),
            wide.mean(),
        )

    jitted = pijit.jit(plain)
    draw = np.random.default_rng(size)
    rows = [draw.normal(size=size) * 10.0 ** draw.integers(-9, 9, size) for _ in range(3)]
    rows += [
        np.full(size, -0.0),
        np.full(size, np.nan),
        rows[0][::-1],
        rows[1].astype(np.float32),
        np.full(size, 1e308),
    ]
    rows += [np.arange(size), rows[2] > 0, np.where(np.arange(size) % 2, 0.0, -0.0)]
    for row in rows:
        for _ in range(2):
            assert outcome(jitted, row) == outcome(plain, row)
