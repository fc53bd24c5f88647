"""For tests of arrays: results of two calls, compared with all that a program can see of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))


def seen_value(value: Any) -> Any:
    """A result as bits: class, dtype, shape, strides, flags, bytes."""
    if isinstance(value, np.ndarray):
        content = value.tolist() if value.dtype.hasobject else value.tobytes()
        flags = value.flags.writeable, value.flags.owndata, value.flags.c_contiguous, value.flags.f_contiguous
        return type(value), value.dtype, value.shape, value.strides, flags, content
    if isinstance(value, np.generic):
        return type(value), value.dtype, value.tobytes()
    if isinstance(value, (tuple, list)):
        return type(value), [seen_value(item) for item in value]
    return type(value), repr(value)


@pytest.fixture
def seen() -> Callable[[Any], Any]:
    return seen_value
