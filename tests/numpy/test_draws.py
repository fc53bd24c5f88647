"""Random draws, by a Generator or the legacy functions: one that is replayed leaves the generator as a call does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pijit

DRAWS: dict[str, Callable[..., Any]] = {
    "normal": lambda rng, x: x + rng.normal(size=x.shape),
    "scaled": lambda rng, x: rng.normal(x, 2.0),
    "one": lambda rng, x: (rng.random(), x * rng.normal(1.0)),
    "uniform": lambda rng, x: rng.uniform(-1, 1, len(x)) * x,
    "integers": lambda rng, x: x[rng.integers(0, len(x), 5)],
    "permutation": lambda rng, x: x[rng.permutation(len(x))],
    "into": lambda rng, x: rng.standard_normal(out=np.empty(len(x))) + x,
    "exponential": lambda rng, x: rng.exponential(np.abs(x) + 1) + rng.poisson(3.0, len(x)),
    "branch": lambda rng, x: x if rng.random() > 0.5 else x * rng.standard_normal(len(x)),
    "wrong": lambda rng, x: rng.normal(0.0, -1.0, 3) + rng.integers(5, 2),
    "loop": lambda rng, x: sum(rng.random(3).sum() for _ in range(4)) + x,
}
LEGACY: dict[str, Callable[..., Any]] = {
    "rand": lambda x: x + np.random.rand(len(x)),
    "randn": lambda x: np.random.randn(2, 3) * x[0],
    "normal": lambda x: np.random.normal(x, 2.0),
    "uniform": lambda x: np.random.uniform(0, 1, x.shape) * x,
    "randint": lambda x: x[np.random.randint(0, len(x))],
    "permutation": lambda x: np.random.permutation(len(x)),
    "wrong": lambda x: np.random.randint(5, 2),
}


@pytest.mark.parametrize("name", DRAWS)
def test_generator(name: str, outcome: Callable[..., Any]) -> None:
    ours, theirs = np.random.default_rng(7), np.random.default_rng(7)
    plain = DRAWS[name]
    jitted = pijit.jit(plain)
    for size in (8, 8, 5, 8, 12):
        x = np.linspace(-2, 3, size)
        got, expected = outcome(lambda x: jitted(ours, x), x), outcome(lambda x: plain(theirs, x), x)
        assert got == expected, size
        assert ours.bit_generator.state == theirs.bit_generator.state


@pytest.mark.parametrize("name", LEGACY)
def test_legacy(name: str, outcome: Callable[..., Any]) -> None:
    plain = LEGACY[name]
    jitted = pijit.jit(plain)
    for seed, size in enumerate((8, 8, 5, 8, 12)):
        x = np.linspace(-2, 3, size)
        ways = []
        for function in (jitted, plain):
            np.random.seed(seed)
            ways.append((outcome(function, x), np.random.random()))
        assert ways[0] == ways[1]


def test_whole() -> None:
    rng = np.random.default_rng(0)
    x = np.linspace(-2, 3, 8)
    for name, function in DRAWS.items():
        if name in ("wrong", "loop"):  # the built-in sum of numbers of NumPy is an opaque call
            continue
        jitted = pijit.jit(function)
        for _ in range(3):
            jitted(rng, x.copy())
        assert not any(trace.opaque_calls for trace in pijit.traces(jitted)), name
    for name, function in LEGACY.items():
        if name == "wrong":
            continue
        jitted = pijit.jit(function)
        for _ in range(3):
            jitted(x.copy())
        assert not any(trace.opaque_calls for trace in pijit.traces(jitted)), name


def test_another_generator() -> None:
    jitted = pijit.jit(DRAWS["normal"])
    x = np.linspace(-2, 3, 8)
    for seed in (1, 2, 3, 1):
        for make in (np.random.default_rng, np.random.RandomState):
            assert jitted(make(seed), x).tobytes() == DRAWS["normal"](make(seed), x).tobytes()


def test_derived_generator() -> None:
    class Fixed(np.random.Generator):
        def normal(self, *args: Any, **keywords: Any) -> Any:
            return 4.0

    jitted = pijit.jit(DRAWS["normal"])
    x = np.linspace(-2, 3, 8)
    bits = np.random.PCG64(1)
    assert jitted(np.random.default_rng(1), x).tobytes() == DRAWS["normal"](np.random.default_rng(1), x).tobytes()
    assert jitted(Fixed(bits), x).tobytes() == (x + 4).tobytes()
    assert jitted(Fixed(bits), x).tobytes() == (x + 4).tobytes()
