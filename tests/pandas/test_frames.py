"""Small functions over frames, whose arguments change from call to call, against plain pandas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from frame_functions import FUNCTIONS

import pijit


class Derived(pd.DataFrame):
    """Frames of a class of the program's."""

    @property
    def _constructor(self) -> Any:
        return Derived


def frame(rows: int, seed: int = 0) -> Any:
    draw = np.random.default_rng(seed)
    b = draw.normal(size=rows).round(2)
    b[::3] = np.nan
    columns = {"a": draw.normal(size=rows).round(2) * 2, "b": b, "n": draw.integers(0, 4, rows)}
    return pd.DataFrame({**columns, "key": draw.choice(["x", "y", "z"], rows), "flag": draw.random(rows) > 0.5})


def changes() -> Iterator[tuple[str, Any]]:
    """Frames, each beside what it changes."""
    yield "first", frame(8)
    yield "values", frame(8, 1)
    yield "length", frame(13)
    yield "index", frame(8).set_index(np.arange(8)[::-1] * 2)
    yield "labels", frame(8).set_index(pd.Index(list("abcdefgh"), name="label"))
    yield "dates", frame(8).set_index(pd.date_range("2024-01-01", periods=8))
    yield "dtypes", frame(8).astype({"a": "float32", "n": "int32"})
    yield "nullable", frame(8).convert_dtypes()
    yield "category", frame(8).astype({"key": "category"})
    yield "object", frame(8).astype({"a": object, "key": object})
    yield "order", frame(8)[["key", "n", "b", "a"]]
    yield "missing", frame(8).drop(columns="b")
    yield "duplicates", pd.concat([frame(4), frame(4)])
    yield "empty", frame(0)
    yield "one", frame(1)
    told = frame(8)
    told.attrs["source"] = ["a list"]
    yield "attrs", told
    yield "derived", Derived(frame(8))
    yield "special", frame(6).assign(a=[np.nan, np.inf, -np.inf, 0.0, -0.0, 1e308])
    yield "again", frame(8, 2)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_changes(name: str, outcome: Callable[..., Any]) -> None:
    plain = FUNCTIONS[name]
    jitted = pijit.jit(plain)
    for change, given in changes():
        for _ in range(2):
            assert outcome(jitted, given.copy()) == outcome(plain, given.copy()), change


# What writes to a frame, calls a function of the program or goes over groups: so many opaque calls in steady state.
OPAQUE = {"applied": 1, "assigned": 4, "written": 4, "shared": 1, "in_place": 2, "shaped": 1, "looped": 20, "piped": 2}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_steady_state(name: str, outcome: Callable[..., Any]) -> None:
    """Frames of one form, again and again."""
    plain = FUNCTIONS[name]
    jitted = pijit.jit(plain)
    for seed in range(6):
        given = frame(9 + seed % 2, 10 + seed)
        assert outcome(jitted, given.copy()) == outcome(plain, given.copy())
    most = max(pijit.traces(jitted), key=lambda trace: trace.replays)
    assert most.replays >= 4
    assert most.opaque_calls <= OPAQUE.get(name, 0), str(most)
