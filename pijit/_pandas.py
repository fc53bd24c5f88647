"""What pandas does for simple operands, in fewer steps: a replay asks here first.

A shortcut gives NotImplemented where an operand is not simple, and whatever it raises counts as that: pandas does it
then. Simple is a column of float64, int64 or bool that NumPy keeps, beside columns with the very same index, or plain
numbers. The result is what pandas makes: values, dtype, index, name. What pandas asks before (is this a date, an
extension, a list?), and the objects that it makes on the way, are left out. For long columns that is nothing, so those
are pandas' own.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

try:
    from pandas import DataFrame, RangeIndex, Series
    from pandas import Index as Labels
    from pandas._libs.hashtable import Int64HashTable
    from pandas._libs.internals import BlockPlacement
    from pandas.core.algorithms import isin
    from pandas.core.array_algos.take import take_nd
    from pandas.core.internals.blocks import NumpyBlock
    from pandas.core.internals.managers import BlockManager, SingleBlockManager
except ImportError:
    COMPLETE = False
else:
    COMPLETE = True

LONGEST = 20_000
FLOAT, WHOLE, TRUTH = np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.bool_)
NUMBERS = (FLOAT, WHOLE)
EXACT = 2**53


def values_of(column: Any) -> Any:
    """The array of a plain column; None: it is not simple."""
    if type(column) is not Series or not column._flags._allows_duplicate_labels:
        return None
    values = column._mgr.blocks[0].values
    return values if type(values) is np.ndarray and len(values) <= LONGEST else None


def column_of(values: Any, index: Any, name: Any) -> Any:
    """A column as pandas makes it."""
    block = NumpyBlock(values, placement=BlockPlacement(slice(0, len(values))), ndim=1)
    made = Series._from_mgr(SingleBlockManager(block, index), [index])
    object.__setattr__(made, "_name", name)
    return made


def rewritten(values: Any, column: Any) -> Any:
    """The column with other values, as a method that goes over its blocks makes it: with an index of its own."""
    return column_of(values, column._mgr.axes[0].view(), column._name)


def same_index(left: Any, right: Any) -> bool:
    return bool(left is right or left.is_(right))


def is_plain_name(name: Any) -> bool:
    return name is None or type(name) is str


def is_number(value: Any) -> bool:
    kind = type(value)
    return kind is float or (kind is int and -EXACT < value < EXACT)


def binary(function: Any, kinds: tuple[Any, ...], numbers: bool) -> Callable[..., Any]:
    """left `function` right, of columns with one index, or of a column and a number."""

    def shortcut(left: Any, right: Any) -> Any:
        if type(left) is Series:
            x = values_of(left)
            if x is None or x.dtype not in kinds:
                return NotImplemented
            index, name = left._mgr.axes[0], left._name
            if numbers and is_number(right):
                with np.errstate(all="ignore"):
                    return column_of(function(x, right), index, name)
            y = values_of(right)
            if y is None or y.dtype not in kinds or not same_index(index, right._mgr.axes[0]):
                return NotImplemented
            if name is not right._name and not (is_plain_name(name) and is_plain_name(right._name)):
                return NotImplemented
            with np.errstate(all="ignore"):
                return column_of(function(x, y), index, name if name == right._name else None)
        if not numbers or not is_number(left):
            return NotImplemented
        y = values_of(right)
        if y is None or y.dtype not in kinds:
            return NotImplemented
        with np.errstate(all="ignore"):
            return column_of(function(left, y), right._mgr.axes[0], right._name)

    return shortcut


def invert(column: Any) -> Any:
    x = values_of(column)
    if x is None or x.dtype != TRUTH or len(x) == 0:
        return NotImplemented
    return rewritten(~x, column)


def clip(column: Any, lower: Any = None, upper: Any = None) -> Any:
    x = values_of(column)
    if x is None or x.dtype not in NUMBERS or len(x) == 0 or (lower is None and upper is None):
        return NotImplemented
    for bound in (lower, upper):
        if bound is not None and (
            not is_number(bound) or math.isnan(bound) or (type(bound) is float and x.dtype == WHOLE)
        ):
            return NotImplemented
    if lower is not None and upper is not None and lower > upper:
        return NotImplemented
    if lower is not None:
        x = np.where(x < lower, x.dtype.type(lower), x)
    if upper is not None:
        x = np.where(x > upper, x.dtype.type(upper), x)
    return rewritten(x, column)


def fillna(column: Any, value: Any) -> Any:
    x = values_of(column)
    if x is None or x.dtype != FLOAT or not is_number(value):
        return NotImplemented
    return rewritten(np.where(np.isnan(x), FLOAT.type(value), x), column)


def where(column: Any, condition: Any, other: Any) -> Any:
    x, c = values_of(column), values_of(condition)
    if x is None or c is None or x.dtype != FLOAT or c.dtype != TRUTH or len(x) == 0 or not is_number(other):
        return NotImplemented
    if not same_index(column._mgr.axes[0], condition._mgr.axes[0]):
        return NotImplemented
    return rewritten(np.where(c, x, FLOAT.type(other)), column)


def is_in(column: Any, values: Any) -> Any:
    x = values_of(column)
    if x is None or x.dtype not in NUMBERS or type(values) not in (list, tuple):
        return NotImplemented
    return column_of(isin(x, values), column._mgr.axes[0], column._name)


def get_item(table: Any, key: Any) -> Any:
    """Columns by a list of their names."""
    if type(table) is not DataFrame or type(key) is not list or not key:
        return NotImplemented
    columns = table._mgr.axes[0]
    if type(columns) is not Labels or not columns.is_unique:
        return NotImplemented
    places = []
    for name in key:
        place = columns.get_loc(name) if type(name) is str else None
        if type(place) is not int:
            return NotImplemented
        places.append(place)
    return table.take(np.array(places, dtype=np.intp), axis=1)


def merge(left: Any, right: Any, how: Any = "inner", on: Any = None) -> Any:
    """One key of int64 that is unique on the right, and what is there on the right joins the rows on the left."""
    if how != "left" or type(on) is not str or type(left) is not DataFrame or type(right) is not DataFrame:
        return NotImplemented
    if not (left._flags._allows_duplicate_labels and right._flags._allows_duplicate_labels):
        return NotImplemented
    columns, others = left._mgr.axes[0], right._mgr.axes[0]
    if type(columns) is not Labels or type(others) is not Labels or columns.dtype != others.dtype:
        return NotImplemented
    names = set(columns)
    if columns.names != others.names or columns.name is not None or len(names) != len(columns):
        return NotImplemented
    place, added = others.get_loc(on), [name for name in others if name not in names]
    if type(place) is not int or len(added) + 1 != len(others) or not 0 < len(left) <= LONGEST:
        return NotImplemented
    mine, theirs = left._mgr.iget_values(columns.get_loc(on)), right._mgr.iget_values(place)
    if type(mine) is not np.ndarray or type(theirs) is not np.ndarray:
        return NotImplemented
    if mine.dtype != WHOLE or theirs.dtype != WHOLE or not 0 < len(theirs) <= LONGEST:
        return NotImplemented
    found = Int64HashTable(len(theirs))
    found.map_locations(np.ascontiguousarray(theirs))
    if len(found) != len(theirs):
        return NotImplemented
    rows = found.lookup(np.ascontiguousarray(mine))
    blocks = [block.copy(deep=False) for block in left._mgr.blocks]
    at = len(columns)
    for i in range(len(others)):
        if i == place:
            continue
        values = right._mgr.iget_values(i)
        if type(values) is not np.ndarray or values.dtype not in NUMBERS:
            return NotImplemented
        taken = take_nd(values, rows)
        blocks.append(NumpyBlock(taken.reshape(1, -1), placement=BlockPlacement(slice(at, at + 1)), ndim=2))
        at += 1
    axes = [columns.append(others.delete(place)), RangeIndex(len(rows))]
    return DataFrame._from_mgr(BlockManager(tuple(blocks), axes, verify_integrity=False), axes)


def table() -> dict[Any, Any]:
    """By the callable that each stands in for."""
    made: dict[Any, Any] = {
        operator.invert: invert,
        operator.getitem: get_item,
        Series.clip: clip,
        Series.fillna: fillna,
        Series.where: where,
        Series.isin: is_in,
        DataFrame.merge: merge,
    }
    for function in (operator.add, operator.sub, operator.mul, operator.truediv):
        made[function] = binary(function, NUMBERS, True)
    for function in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
        made[function] = binary(function, NUMBERS, True)
    for function in (operator.and_, operator.or_, operator.xor):
        made[function] = binary(function, (TRUTH,), False)
    return made


SHORTCUTS: dict[Any, Any] = table() if COMPLETE else {}
