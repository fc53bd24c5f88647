"""Dtypes as torch promotes them, for arrays of NumPy and JAX.

An array with axes decides within a category (bool, int, float, complex) before one without axes, and that one before a
number of Python. A float among integers gives float32, the usual float of torch; NumPy would give float64.
"""

from functools import reduce
from typing import Any

import numpy as np

FLOAT, COMPLEX = np.dtype("float32"), np.dtype("complex64")
_OF_NUMBER = {bool: np.dtype("bool"), int: np.dtype("int64"), float: FLOAT, complex: COMPLEX}


def named(token: Any) -> np.dtype[Any]:
    """The dtype that a token names."""
    name = str(token)
    if name.startswith(("bfloat16", "float8")):
        import ml_dtypes  # NumPy has no such numbers by itself; JAX comes with the package

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return found
    return np.dtype(name)


def category(dtype: np.dtype[Any]) -> int:
    """0: bool, 1: int, 2: float, 3: complex."""
    if dtype.kind == "b":
        return 0
    if dtype.kind in "iu":
        return 1
    return 3 if dtype.kind == "c" else 2


def epsilon(dtype: np.dtype[Any]) -> float:
    """The distance from 1 to the next number."""
    return 2.0**-7 if dtype.name == "bfloat16" else float(np.finfo(dtype).eps)


def is_array(x: Any) -> bool:
    """An array or a scalar of NumPy, not a number of Python."""
    return hasattr(x, "dtype")


def dtype_of(x: Any) -> np.dtype[Any]:
    """Of an array or number."""
    return np.dtype(x.dtype) if is_array(x) else _OF_NUMBER[type(x)]


def promoted(a: np.dtype[Any] | None, b: np.dtype[Any] | None) -> np.dtype[Any] | None:
    """The dtype that holds two of equal rank; None is none."""
    if a is None or b is None or a == b:
        return b if a is None else a
    low, high = sorted((a, b), key=category)
    if category(low) == category(high):
        return FLOAT if {low.name, high.name} == {"float16", "bfloat16"} else np.promote_types(low, high)
    if category(high) == 3 and category(low) == 2:
        return np.promote_types(low, high)
    return high


def _ranked(high: np.dtype[Any] | None, low: np.dtype[Any] | None) -> np.dtype[Any] | None:
    """The first one, unless the second is of a higher category."""
    if high is None or low is None:
        return low if high is None else high
    if category(high) == 3 or category(low) <= category(high):
        return high
    return promoted(high, low) if category(high) < 2 else complex_of(high)


def complex_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The complex dtype of a float."""
    return np.dtype("complex128") if dtype == np.float64 else COMPLEX


def real_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the parts of a complex number."""
    return np.dtype("float64") if dtype == np.complex128 else FLOAT


def result_type(*operands: Any) -> np.dtype[Any]:
    """The dtype that torch gives an operator on these arrays and numbers."""
    ranks: list[list[np.dtype[Any] | None]] = [[], [], []]
    for each in operands:
        ranks[2 if not is_array(each) else 0 if each.ndim else 1].append(dtype_of(each))
    arrays, scalars, numbers = (reduce(promoted, rank, None) for rank in ranks)
    found = _ranked(_ranked(arrays, scalars), numbers)
    assert found is not None
    return found
