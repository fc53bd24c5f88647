"""Arrays for the cases of rows, the same in every process."""

from __future__ import annotations

from typing import Any

import numpy as np

_random = np.random.default_rng(0)


def f(*shape: int, scale: float = 1.0, dtype: str = "float32") -> Any:
    """Floats about 0."""
    return np.asarray(_random.standard_normal(shape) * scale, dtype)


def p(*shape: int, low: float = 0.05, high: float = 0.95, dtype: str = "float32") -> Any:
    """Floats in between, by default inside of (0, 1)."""
    return np.asarray(_random.uniform(low, high, shape), dtype)


def i(*shape: int, low: int = -5, high: int = 6, dtype: str = "int64") -> Any:
    """Integers from low to below high."""
    return np.asarray(_random.integers(low, high, shape), dtype)


def b(*shape: int) -> Any:
    """Truth values."""
    return np.asarray(_random.integers(0, 2, shape), np.bool_)


def a(values: Any, dtype: str = "float32") -> Any:
    """An array of these values."""
    return np.asarray(values, dtype)


def over(name: str, cases: Any, **common: Any) -> list[dict[str, Any]]:
    """A case for each value of one argument."""
    return [{name: value, **common} for value in cases]


INF, NAN = float("inf"), float("nan")
SPECIAL = a([0.0, -0.0, 1.0, -1.5, INF, -INF, NAN, 3.5, -2.5, 0.5])
