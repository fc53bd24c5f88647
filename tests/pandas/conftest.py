"""For tests of frames: results of two calls, compared with all that a program can see of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

try:
    import numpy as np
    import pandas as pd
except ImportError:  # an environment without them
    collect_ignore_glob = ["test_*"]

sys.path.insert(0, str(Path(__file__).parent))


def seen_index(index: Any) -> Any:
    return type(index), index.dtype, list(index.names), repr(index.tolist())


def seen_value(value: Any) -> Any:
    """A result: class, dtypes, names, labels, values to the bit."""
    if isinstance(value, pd.DataFrame):
        columns = [seen_value(value.iloc[:, i]) for i in range(value.shape[1])]
        return type(value), seen_index(value.columns), seen_index(value.index), columns, value.attrs, value.flags
    if isinstance(value, pd.Series):
        array = value.to_numpy()
        content = repr(value.tolist()) if array.dtype.hasobject else array.tobytes()
        return type(value), value.dtype, repr(value.name), seen_index(value.index), content, value.attrs
    if isinstance(value, pd.Index):
        return seen_index(value)
    if isinstance(value, np.ndarray):
        content = repr(value.tolist()) if value.dtype.hasobject else value.tobytes()
        return type(value), value.dtype, value.shape, value.flags.writeable, content
    if isinstance(value, np.generic):
        return type(value), value.dtype, value.tobytes()
    if isinstance(value, (tuple, list)):
        return type(value), [seen_value(item) for item in value]
    if isinstance(value, dict):
        return type(value), [(key, seen_value(item)) for key, item in value.items()]
    return type(value), repr(value)


@pytest.fixture
def seen() -> Callable[[Any], Any]:
    return seen_value
