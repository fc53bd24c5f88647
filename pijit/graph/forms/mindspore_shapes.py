"""Functions of MindSpore's namespace that give elements other places, and those that make arrays."""

import math
from typing import Any

import numpy as np

from pijit.graph.forms import _types
from pijit.graph.forms.mindspore_array import Array, call, constant
from pijit.graph.forms.mindspore_folding import asarray, folded, in_arrays, in_numpy

_pad: Any = np.pad


@folded
def reshape(x: Any, shape: Any) -> Any:
    shape = (shape,) if isinstance(shape, int) else tuple(map(int, shape))
    if -1 in shape:
        shape = tuple(x.size // -math.prod(shape) if size == -1 else size for size in shape)
    return x if shape == x.shape else call("ops.reshape", x, shape)


@folded
def transpose(x: Any, axes: Any = None) -> Any:
    axes = range(x.ndim)[::-1] if axes is None else [axis % x.ndim for axis in axes]
    return x if list(axes) == list(range(x.ndim)) else call("ops.transpose", x, tuple(axes))


@folded
def swapaxes(x: Any, axis1: int, axis2: int) -> Any:
    axes = list(range(x.ndim))
    axes[axis1], axes[axis2] = axes[axis2], axes[axis1]
    return transpose(x, axes)


@folded
def moveaxis(x: Any, source: Any, destination: Any) -> Any:
    pairs = [[each % x.ndim for each in each_axis(axes)] for axes in (source, destination)]
    order = [axis for axis in range(x.ndim) if axis not in pairs[0]]
    for to, axis in sorted(zip(pairs[1], pairs[0], strict=True)):
        order.insert(to, axis)
    return transpose(x, order)


def each_axis(axis: Any) -> tuple[int, ...]:
    return tuple(axis) if isinstance(axis, tuple | list) else (axis,)


@folded
def expand_dims(x: Any, axis: int) -> Any:
    axis %= x.ndim + 1
    return reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))


@folded
def squeeze(x: Any, axis: Any = None) -> Any:
    axes = range(x.ndim) if axis is None else [each % x.ndim for each in each_axis(axis)]
    return reshape(x, tuple(n for i, n in enumerate(x.shape) if i not in axes or (axis is None and n != 1)))


@folded
def broadcast_to(x: Any, shape: Any) -> Any:
    shape = tuple(map(int, shape))
    if x.shape == shape:
        return x
    return constant(np.zeros(shape, x.dtype)) if 0 in shape else call("ops.broadcast_to", x, shape)


def broadcast_arrays(*arrays: Any) -> Any:
    arrays = tuple(map(asarray, arrays))
    shape = np.broadcast_shapes(*(each.shape for each in arrays))
    return tuple(broadcast_to(each, shape) for each in arrays)


@folded
def tile(x: Any, repeats: Any) -> Any:
    repeats = (1,) * (x.ndim - len(repeats)) + tuple(repeats)
    if 0 in repeats:
        return constant(np.zeros(np.tile(np.zeros(x.shape, np.bool_), repeats).shape, x.dtype))
    return call("ops.tile", reshape(x, (1,) * (len(repeats) - x.ndim) + x.shape), repeats)


def repeat(x: Any, repeats: Any, axis: int | None = None) -> Any:
    x, repeats = asarray(x), repeats.known() if isinstance(repeats, Array) else repeats
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    return take(x, np.repeat(np.arange(x.shape[axis]), repeats), axis=axis)


def concatenate(arrays: Any, axis: int = 0) -> Any:
    dtype = _types.result_type(*arrays)
    arrays = [asarray(each).astype(dtype) for each in arrays]
    kept = [each for each in arrays if each.size]
    return _joined(tuple(kept or arrays[:1]), axis)


def _joined(arrays: Any, axis: int) -> Any:
    if len(arrays) == 1:
        return arrays[0]
    return call("ops.cat", arrays, axis % arrays[0].ndim)


def stack(arrays: Any, axis: int = 0) -> Any:
    arrays = list(map(asarray, arrays))
    if arrays[0].size == 0:
        return in_arrays(np.stack([in_numpy(each) for each in arrays], axis))
    return concatenate([expand_dims(each, axis) for each in arrays], axis)


def hstack(arrays: Any) -> Any:
    arrays = [reshape(each, (1,)) if each.ndim == 0 else each for each in arrays]
    return concatenate(arrays, min(arrays[0].ndim - 1, 1))


def vstack(arrays: Any) -> Any:
    return concatenate([reshape(each, (1, -1)) if each.ndim < 2 else each for each in arrays])


@folded
def take(x: Any, indices: Any, axis: int = 0) -> Any:
    if isinstance(indices, int):
        return x[(slice(None),) * (axis % x.ndim) + (indices,)]
    indices = asarray(indices)
    if indices.size == 0:
        shape = (*x.shape[: axis % x.ndim], *indices.shape, *x.shape[axis % x.ndim + 1 :])
        return constant(np.zeros(shape, x.dtype))
    return call("ops.gather", asarray(x), indices, axis % x.ndim)


def take_along_axis(x: Any, indices: Any, axis: int) -> Any:
    places: list[Any] = list(np.ogrid[tuple(map(slice, indices.shape))])
    places[axis] = indices
    return asarray(x)[tuple(places)]


def split(x: Any, parts: int, axis: int = 0) -> Any:
    size, before = x.shape[axis] // parts, (slice(None),) * (axis % x.ndim)
    return [x[(*before, slice(at * size, (at + 1) * size))] for at in range(parts)]


@folded
def roll(x: Any, shift: Any, axis: Any = None) -> Any:
    if axis is None:
        return reshape(roll(reshape(x, (x.size,)), shift, 0), x.shape)
    for by, at in zip(each_axis(shift), each_axis(axis), strict=True):
        start = -by % x.shape[at]
        before = (slice(None),) * (at % x.ndim)
        if start:
            x = concatenate((x[(*before, slice(start, None))], x[(*before, slice(0, start))]), at)
    return x


@folded
def flip(x: Any, axis: Any) -> Any:
    return call("ops.flip", x, tuple(each % x.ndim for each in each_axis(axis))) if x.ndim and axis != () else x


def pad(x: Any, widths: Any, mode: str = "constant", constant_values: Any = 0) -> Any:
    x, filler = asarray(x), constant_values
    filler = filler.known() if isinstance(filler, Array) else np.asarray(filler).astype(x.dtype)
    for axis, (low, high) in enumerate(widths):
        if not low and not high:
            continue
        if mode != "constant":
            x = take(x, _pad(np.arange(x.shape[axis]), (low, high), mode=mode), axis=axis)
            continue
        shapes = ((*x.shape[:axis], n, *x.shape[axis + 1 :]) for n in (low, high))
        before, after = (constant(np.full(shape, filler)) for shape in shapes)
        x = concatenate([each for each in (before, x, after) if each.shape[axis]], axis)
    return x


@folded
def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    x = moveaxis(x, (axis1, axis2), (-2, -1))
    rows, columns = x.shape[-2:]
    places = np.diagonal(np.arange(rows * columns).reshape(rows, columns), offset)
    return take(reshape(x, (*x.shape[:-2], rows * columns)), places, axis=-1)


def meshgrid(*arrays: Any, indexing: str = "ij") -> Any:
    sizes, n, made = [each.size for each in arrays], len(arrays), []
    order = [1, 0, *range(2, n)] if indexing == "xy" and n > 1 else list(range(n))
    for at, each in enumerate(arrays):
        own = [1] * n
        own[order.index(at)] = each.size
        made.append(broadcast_to(reshape(each, tuple(own)), [sizes[i] for i in order]))
    return made


def zeros(shape: Any, dtype: Any) -> Any:
    return constant(np.zeros(shape, dtype))


def ones(shape: Any, dtype: Any) -> Any:
    return constant(np.ones(shape, dtype))


def full(shape: Any, value: Any, dtype: Any) -> Any:
    return constant(np.full(shape, value, dtype))


def eye(rows: int, columns: int | None = None, dtype: Any = None) -> Any:
    return constant(np.eye(rows, columns, dtype=dtype))


def arange(*args: Any) -> Any:
    return constant(np.arange(*args))
