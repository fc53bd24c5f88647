"""What stands in for pandas' own steps gives what these give: values to the bit, dtypes, names, indices."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pijit._pandas import SHORTCUTS

NUMBERS = [0, 1, -2, 2.5, float("nan"), float("inf"), True, 10**30, np.float64(2), np.int64(3), None, "x"]
LISTS = [[0, 1], [1.5, 2], [], ["x"], [np.nan, 0], (1, 2), [True], [None], [1, "x"]]


def frame(rows: int) -> Any:
    draw = np.random.default_rng(rows)
    f = draw.normal(size=rows).round(1)
    f[::3], f[1::4], f[2::5] = np.nan, -0.0, np.inf
    columns = {"f": f, "i": draw.integers(-3, 4, rows), "b": draw.random(rows) > 0.5, "h": f[::-1].copy()}
    return pd.DataFrame({**columns, "s": ["x"] * rows})


def columns_of(table: Any) -> list[Any]:
    f, i = table["f"], table["i"]
    others = [f.rename(None), i.rename(3), i.astype("int32"), f.astype("float32"), f.set_axis(np.arange(len(f)) + 1)]
    return [*(table[name] for name in table), *others, i.astype("Int64"), f.rename(("a", 1))]


def agree(function: Any, *args: Any, **named: Any) -> int:
    """1: the shortcut answered, as the function does; 0: it left these operands to it."""
    try:
        got = SHORTCUTS[function](*args, **named)
    except Exception:  # noqa: BLE001 - whatever it raises counts as no answer
        return 0
    if got is NotImplemented:
        return 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wanted = function(*args, **named)
    assert type(got) is type(wanted)
    assert list(vars(got)) == list(vars(wanted))
    assert type(got.index) is type(wanted.index)
    if isinstance(wanted, pd.Series):
        pd.testing.assert_series_equal(got, wanted, check_exact=True)
        assert got.to_numpy().tobytes() == wanted.to_numpy().tobytes()
        assert type(got.name) is type(wanted.name)
        column = next(arg for arg in args if isinstance(arg, pd.Series))
        for one in (operator.is_, lambda a, b: a.is_(b)):
            assert one(got.index, column.index) == one(wanted.index, column.index)
        return 1
    for written in (False, True):
        for each in (got, wanted) if written else ():
            each["new"] = 1
            if len(each):
                each.iloc[0, 0] = each.iloc[-1, 0]
        pd.testing.assert_frame_equal(got, wanted, check_exact=True)
        assert got.columns.dtype == wanted.columns.dtype
        assert type(got.columns) is type(wanted.columns)
    return 1


def merges(table: Any) -> Iterator[tuple[Any, Any, str]]:
    size = len(table)
    rights = [
        pd.DataFrame({"i": [0, 1, 2], "r": [0.1, 0.2, 0.3]}),
        pd.DataFrame({"q": np.arange(5, 12), "i": np.arange(-3, 4), "r": 1.0}),
        pd.DataFrame({"i": [0, 0], "r": [1, 2]}),
        pd.DataFrame({"i": [1.0, 2.0], "r": 1}),
        pd.DataFrame({"i": [1], "f": [2.0]}),
        pd.DataFrame({"i": [1], "w": ["a"]}),
        pd.DataFrame({"i": np.arange(3, -4, -1)}),
        pd.DataFrame({"i": np.arange(size), "k": np.arange(size)}),
    ]
    lefts = [table, table.iloc[::-1], table.set_axis(np.arange(size) + 5), table[["i", "f"]], table[["i"]]]
    for left, right, how in product(lefts, rights, ("left", "inner")):
        yield left, right, how


@pytest.mark.parametrize("rows", [0, 1, 2, 17])
def test_operators(rows: int) -> None:
    columns, answered = columns_of(frame(rows)), 0
    functions = [function for function in SHORTCUTS if function.__name__ in operator.__all__]
    for function in functions:
        if function is operator.invert:
            answered += sum(agree(function, column) for column in columns)
        elif function is not operator.getitem:
            pairs = [*product(columns, columns), *product(columns, NUMBERS), *product(NUMBERS, columns)]
            answered += sum(agree(function, left, right) for left, right in pairs)
    assert answered > 300


@pytest.mark.parametrize("rows", [1, 2, 17])
def test_methods(rows: int) -> None:
    table = frame(rows)
    columns, answered = columns_of(table), []
    bounds = [None, *NUMBERS]
    answered.append(sum(agree(pd.Series.clip, *each) for each in product(columns, bounds, bounds)))
    answered.append(sum(agree(pd.Series.fillna, *each) for each in product(columns, NUMBERS)))
    answered.append(sum(agree(pd.Series.where, *each) for each in product(columns, columns, NUMBERS)))
    answered.append(sum(agree(pd.Series.isin, *each) for each in product(columns, LISTS)))
    keys = (["f"], ["i", "f"], ["s", "b", "f"], ["f", "f"], ["z"], ["b"], [], [1], "f")
    answered.append(sum(agree(operator.getitem, table, key) for key in keys))
    answered.append(sum(agree(pd.DataFrame.merge, left, right, on="i", how=how) for left, right, how in merges(table)))
    assert all(answered), answered
