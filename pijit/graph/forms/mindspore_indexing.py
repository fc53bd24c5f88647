"""Indexing as in NumPy, and writing to places, made of operators of MindSpore.

An index of numbers and slices is one strided slice. One of arrays is a gather from flat positions, which are constants
where the index is; a write is a scatter to flat positions.
"""

import math
from typing import Any

import numpy as np

from pijit.graph.forms.mindspore_array import Array, call, constant
from pijit.graph.forms.mindspore_elementwise import where
from pijit.graph.forms.mindspore_folding import asarray
from pijit.graph.forms.mindspore_shapes import broadcast_to, reshape, take, transpose


def _is_array(item: Any) -> bool:
    return isinstance(item, Array | np.ndarray | list) or (isinstance(item, np.generic) and item.dtype == np.bool_)


def _expanded(index: Any, ndim: int) -> list[Any]:
    """The items of an index, one for each axis and new axis: no Ellipsis, no masks, no lists."""
    items: list[Any] = []
    for item in index if isinstance(index, tuple) else (index,):
        each = np.asarray(item) if isinstance(item, list) else item
        if _is_array(each) and each.dtype == np.bool_:
            found = np.nonzero(each.known() if isinstance(each, Array) else each)
            items += found if each.ndim else [None, np.arange(int(bool(found[0].size)))]
        else:
            items.append(each)
    rest = ndim - sum(each is not None and each is not Ellipsis for each in items)
    at = next((at for at, each in enumerate(items) if each is Ellipsis), None)
    if at is None:
        return items + [slice(None)] * rest
    return items[:at] + [slice(None)] * rest + items[at + 1 :]


def picked(x: Any, index: Any) -> Any:
    """x[index]."""
    items = _expanded(index, x.ndim)
    arrays = [each for each in items if _is_array(each)]
    if not arrays:
        return _sliced(x, items)
    # numbers beside arrays are arrays, as NumPy has it; slices come first
    basic = [each if each is None or isinstance(each, slice) else slice(None) for each in items]
    x = _sliced(x, basic)
    places = [at for at, each in enumerate(items) if not (each is None or isinstance(each, slice))]
    return _gathered(x, [items[at] for at in places], places)


def _sliced(x: Any, items: list[Any]) -> Any:
    """x at numbers, slices and new axes."""
    if x.constant is not None:
        return constant(x.constant[tuple(items)])
    starts, stops, steps, shape, axis = [], [], [], [], 0
    for each in items:
        if each is None:
            shape.append(1)
            continue
        size = x.shape[axis]
        axis += 1
        if isinstance(each, slice):
            start, stop, step = each.indices(size)
            count = len(range(start, stop, step))
            shape.append(count)
            stop = stop if step > 0 or stop >= 0 else -size - 1
        else:
            start, step = int(each) % size, 1
            stop = start + 1
        starts.append(start)
        stops.append(stop)
        steps.append(step)
    if 0 in shape or x.size == 0:
        return constant(np.zeros(shape, x.dtype))
    if any(a or b < n or c != 1 for a, b, c, n in zip(starts, stops, steps, x.shape, strict=True)):
        x = call("ops.strided_slice", x, starts, stops, steps)
    return reshape(x, tuple(shape))


def _wrapped(index: Any, size: int) -> Any:
    """The index with those below 0 counted from the end."""
    if isinstance(index, Array):
        if index.constant is None:
            index = index.astype(np.int64)
            return where(index < 0, index + size, index)
        index = index.constant
    index = np.asarray(index, np.int64)
    return np.where(index < 0, index + size, index)


def _gathered(x: Any, indices: list[Any], axes: list[int]) -> Any:
    """x at one array for each of these axes, as NumPy places the result."""
    flat: Any = 0
    for each, axis in zip(indices, axes, strict=True):
        size = x.shape[axis]
        flat = flat * size + _wrapped(each, size)
    flat = asarray(flat)
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    first = axes[0] if together else 0
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    front = rest[:first] + axes + rest[first:]
    x = transpose(x, front)
    sizes = x.shape
    x = reshape(x, (*sizes[:first], math.prod(sizes[first : first + len(axes)]), *sizes[first + len(axes) :]))
    return take(x, flat, axis=first)


_SCATTERS = {
    "set": "ops.tensor_scatter_update",
    "add": "ops.tensor_scatter_add",
    "multiply": "ops.tensor_scatter_mul",
    "max": "ops.tensor_scatter_max",
    "min": "ops.tensor_scatter_min",
}


def put(x: Any, index: Any, value: Any, how: str) -> Any:
    """A copy of x whose elements at an index are set, or to which the value is applied."""
    x = asarray(x)
    places = picked(constant(np.arange(x.size).reshape(x.shape)), index)
    if places.size == 0:
        return x
    value = asarray(value).astype(x.dtype)
    value = reshape(broadcast_to(value, places.shape), (places.size,))
    places = reshape(places, (places.size, 1))
    return reshape(call(_SCATTERS[how], reshape(x, (x.size,)), places, value), x.shape)
