"""Compiled code for functions of arrays, by consent: what it gives, and when native replay answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pijit

pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def chain(x: Any, y: Any) -> Any:
    z = (x + y) * x - 0.5 * y
    z = np.maximum(z, -1) * y + x
    return np.where(z > y, np.sqrt(np.abs(z - y)), z / 2) + x, z.sum(axis=-1), np.mean(z)


def writes_between(x: Any, y: Any) -> Any:
    z = np.exp(-x) * y + x - 1
    z[0] = 7
    y += 1
    return z * y + x - z, y


def decides(x: Any, y: Any) -> Any:
    z = (x * y + x) * 2 - y
    if z.sum() > 0:
        return z * x + y - 1
    return z


def runs_of(function: Any) -> int:
    segments = [segment for trace in pijit.traces(function) for segment in trace.segments]
    return sum(plan.runs for segment in segments for key in segment.keys for plan in key.plans)


def leaves(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


def assert_alike(made: Any, expected: Any) -> None:
    for one, other in zip(leaves(made), leaves(expected), strict=True):
        assert (type(one), one.dtype, one.shape, one.strides) == (type(other), other.dtype, other.shape, other.strides)
        single = one.dtype == np.float32
        np.testing.assert_allclose(one, other, rtol=2e-4 if single else 1e-9, atol=1e-4 if single else 1e-9)


def changes() -> list[tuple[Any, Any]]:
    draw = np.random.default_rng(5)

    def pair(*shape: int) -> tuple[Any, Any]:
        return draw.normal(size=shape), draw.normal(size=shape)

    x, y = pair(6, 4)
    frozen = pair(6, 4)[0]
    frozen.flags.writeable = False
    return [
        (x, y),
        pair(6, 4),
        pair(5, 3),
        (x.T, y.T),
        (x.astype(np.float32), y.astype(np.float32)),
        (x, y.astype(np.float32)),
        ((x * 4).astype(np.int64), (y * 4).astype(np.int64)),
        (x[::-1], y[::-1]),
        (frozen, y),
        (x[::2], y[::2]),
        pair(6, 4),
    ]


def compare(plain: Callable[..., Any], backend: str, given: list[tuple[Any, Any]]) -> None:
    jitted = pijit.jit(plain, backend=backend)
    for x, y in given:
        for turn in range(4):
            first, second = y.copy(order="K"), y.copy(order="K")
            with np.errstate(all="ignore"):
                assert_alike(jitted(x, first), plain(x, second))
            np.testing.assert_array_equal(first, second)
            if turn == 1:
                pijit.wait(20)
    assert runs_of(jitted) > 0


@pytest.mark.parametrize("plain", [chain, writes_between, decides], ids=lambda plain: plain.__name__)
def test_changes(plain: Callable[..., Any]) -> None:
    compare(plain, "torchscript", changes())


@pytest.mark.parametrize("backend", ["onnxruntime", "xla"])
def test_compilers(backend: str) -> None:
    if pijit.backends()[backend] != "usable":
        pytest.skip(f"{backend} is not installed")
    compare(chain, backend, [changes()[at] for at in (0, 1, 6)])


def test_errors_that_raise_are_raised() -> None:
    jitted = pijit.jit(chain, backend="torchscript")
    x, y = np.linspace(1, 2, 8), np.linspace(2, 3, 8)
    for _ in range(4):
        assert_alike(jitted(x, y), chain(x, y))
        pijit.wait(20)
    before = runs_of(jitted)
    assert before > 0
    huge = x * 1e308
    with np.errstate(over="raise"):
        with pytest.raises(FloatingPointError):
            jitted(huge, y)
        with pytest.raises(FloatingPointError):
            chain(huge, y)
        assert_alike(jitted(x, y), chain(x, y))
    assert runs_of(jitted) == before
    heard: list[str] = []
    with np.errstate(over="call", call=lambda kind, flag: heard.append(kind)):
        with np.errstate(invalid="ignore"):
            jitted(huge, y)
        told = list(heard)
        chain(huge, y)
    assert told == heard[len(told) :]


def test_nothing_is_compiled_without_consent() -> None:
    jitted = pijit.jit(chain)
    x, y = np.linspace(1, 2, 8), np.linspace(2, 3, 8)
    for _ in range(4):
        assert_alike(jitted(x, y), chain(x, y))
    assert not runs_of(jitted)
    assert not any(trace.segments for trace in pijit.traces(jitted))
