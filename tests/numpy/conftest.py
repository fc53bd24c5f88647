"""For tests of arrays: results of two calls, compared with all that a program can see of them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

Outcome = tuple[Any, ...]


def seen(value: Any) -> Any:
    """A result as bits: class, dtype, shape, strides, flags, bytes."""
    if isinstance(value, np.ndarray):
        content = value.tolist() if value.dtype.hasobject else value.tobytes()
        flags = value.flags.writeable, value.flags.owndata, value.flags.c_contiguous, value.flags.f_contiguous
        return type(value), value.dtype, value.shape, value.strides, flags, content
    if isinstance(value, np.generic):
        return type(value), value.dtype, value.tobytes()
    if isinstance(value, (tuple, list)):
        return type(value), [seen(item) for item in value]
    return type(value), repr(value)


@pytest.fixture
def outcome() -> Callable[..., Outcome]:
    """What a call gives or raises, what it warns of and for which line, and what its arguments are afterwards."""

    def run(function: Callable[..., Any], *args: Any) -> Outcome:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                result = seen(function(*args))
            except Exception as error:
                result = type(error), str(error)
        told = [(each.category, str(each.message), each.filename, each.lineno) for each in caught]
        return result, told, [seen(arg) for arg in args]

    return run
