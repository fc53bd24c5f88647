"""Forms in ONNX of rows that give elements another shape or order, or join and part arrays."""

import itertools
from typing import Any

from pijit._formats.onnx import numbers
from pijit._formats.onnx.builder import Builder
from pijit._formats.onnx.reductions import indices
from pijit._formats.onnx.types import Tensor

LAST = 2**63 - 1
FIRST = -(2**63)


def reshape(o: Builder, x: Any, shape: Any) -> Any:
    return o.reshape(x, shape)


view = reshape


def reshape_as(o: Builder, x: Any, y: Any) -> Any:
    return o.Reshape(x, o.shape(y), shape=y.shape, allowzero=1)


def merged(o: Builder, x: Any, start: int, end: int, middle: tuple[Any, ...]) -> Any:
    """Axes start to end - 1 replaced by `middle`."""
    before = [dim if isinstance(dim, int) and dim else 0 for dim in x.shape[:start]]
    if 0 in x.shape or 0 in middle:
        return o.reshape(x, (*o.dims(x)[:start], *middle, *o.dims(x)[end:]))
    # 0: as it was. So a free size in front needs no node.
    return o.Reshape(x, o.ints((*before, *middle, *(o.size(x, axis) for axis in range(end, x.rank)))))


def flatten(o: Builder, x: Any, start: int = 0, end: int = -1) -> Any:
    if x.rank == 0:
        return o.reshape(x, (1,))
    start, end = o.axis(x, start), o.axis(x, end)
    return x if start == end else merged(o, x, start, end + 1, (-1,))


def ravel(o: Builder, x: Any) -> Any:
    return x if x.rank == 1 else o.reshape(x, (-1,))


def unflatten(o: Builder, x: Any, axis: int, shape: Any) -> Any:
    axis = o.axis(x, axis)
    return merged(o, x, axis, axis + 1, tuple(shape))


def permute_dims(o: Builder, x: Any, axes: Any) -> Any:
    return o.transpose(x, [o.axis(x, axis) for axis in axes])


def swapaxes(o: Builder, x: Any, axis1: int, axis2: int) -> Any:
    order = list(range(x.rank))
    if order:
        a, b = o.axis(x, axis1), o.axis(x, axis2)
        order[a], order[b] = b, a
    return o.transpose(x, order)


def t(o: Builder, x: Any) -> Any:
    return o.transpose(x, list(reversed(range(x.rank))))


def matrix_transpose(o: Builder, x: Any) -> Any:
    return swapaxes(o, x, -1, -2)


def moveaxis(o: Builder, x: Any, source: Any, destination: Any) -> Any:
    sources = [o.axis(x, axis) for axis in (source if isinstance(source, tuple) else (source,))]
    places = [o.axis(x, axis) for axis in (destination if isinstance(destination, tuple) else (destination,))]
    order = [axis for axis in range(x.rank) if axis not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return o.transpose(x, order)


def expand_dims(o: Builder, x: Any, axis: int) -> Any:
    return o.unsqueeze(x, axis % (x.rank + 1))


def squeeze(o: Builder, x: Any, axis: Any = None) -> Any:
    axes = o.axes(x, axis) if x.rank else ()
    result = o.node.results[0] if o.node is not None and o.node.results else None
    if result is not None and result.shape is not None and len(result.shape) in (x.rank, x.rank - len(axes)):
        return o.squeeze(x, *axes) if len(result.shape) < x.rank else x
    return o.squeeze(x, *(each for each in axes if o.is_one(x.shape[each])))


def broadcast_to(o: Builder, x: Any, shape: Any) -> Any:
    # Expand leaves an axis as it is where 1 is asked for.
    items = tuple(1 if isinstance(item, int) and item == -1 else item for item in map(o.plain, shape))
    if x.shape is not None and tuple(item if isinstance(item, int) else item.symbol for item in items) == x.shape:
        return x
    return o.Expand(x, o.ints(items))


def expand_as(o: Builder, x: Any, y: Any) -> Any:
    if x.shape is not None and x.shape == y.shape and None not in x.shape:
        return x
    return o.Expand(x, o.shape(y))


def tile(o: Builder, x: Any, repeats: Any) -> Any:
    missing = len(repeats) - x.rank
    if missing > 0:
        x = o.unsqueeze(x, *range(missing))
    repeats = (*(1,) * -missing, *repeats)
    sizes = [
        size * times if isinstance(size, int) and isinstance(times, int) else None
        for size, times in zip(x.shape, map(o.plain, repeats), strict=True)
    ]
    return o.Tile(x, o.ints(repeats), shape=tuple(sizes)) if repeats else x


def repeat(o: Builder, x: Any, repeats: Any, axis: Any = None, length: Any = None) -> Any:
    if axis is None:
        x, axis = ravel(o, x), 0
    axis = o.axis(x, axis)
    repeats = o.plain(repeats)
    if not isinstance(repeats, Tensor) or repeats.number:
        wide = o.Expand(o.unsqueeze(x, axis + 1), o.ints((*(1,) * (axis + 1), repeats, *(1,) * (x.rank - axis - 1))))
        size = x.shape[axis]
        known = size * repeats if isinstance(size, int) and isinstance(repeats, int) else -1
        return merged(o, wide, axis, axis + 2, (known,))
    ends = o.CumSum(o.Expand(o.cast(ravel(o, repeats), "int64"), o.ints((o.size(x, axis),))), 0)
    total = o.ReduceMax(ends, keepdims=0) if length is None else length
    # Place i takes the element whose repeats end behind i: as many as there are ends not above i.
    passed = o.LessOrEqual(o.unsqueeze(ends, 0), o.unsqueeze(indices(o, total), 1))
    picked = o.reduce("ReduceSum", o.cast(passed, "int64"), 1, False)
    return o.Gather(x, picked, axis=axis)


def concat(o: Builder, arrays: Any, axis: int = 0) -> Any:
    # torch leaves out vectors without elements.
    kept = [x for x in arrays if x.shape != (0,)] or arrays[:1]
    kept = o.operands(*kept)
    return kept[0] if len(kept) == 1 else o.Concat(*kept, axis=o.axis(kept[0], axis))


def stack(o: Builder, arrays: Any, axis: int = 0) -> Any:
    axis %= arrays[0].rank + 1
    arrays = [o.unsqueeze(x, axis) for x in o.operands(*arrays)]
    return arrays[0] if len(arrays) == 1 else o.Concat(*arrays, axis=axis)


def hstack(o: Builder, arrays: Any) -> Any:
    arrays = [x if x.rank else o.reshape(x, (1,)) for x in arrays]
    return concat(o, arrays, 0 if arrays[0].rank == 1 else 1)


def vstack(o: Builder, arrays: Any) -> Any:
    arrays = [x if x.rank > 1 else o.reshape(x, (1, -1)) for x in arrays]
    return concat(o, arrays, 0)


def _taken(o: Builder) -> list[bool]:
    """For each result of the node, whether the program took it."""
    return [] if o.node is None else [result is not None for result in o.node.results]


def unstack(o: Builder, x: Any, axis: int = 0) -> Any:
    axis = o.axis(x, axis)
    taken = _taken(o)
    return [o.Gather(x, o.const(at, "int64"), axis=axis) if each else None for at, each in enumerate(taken)]


def split(o: Builder, x: Any, size: Any, axis: int = 0) -> Any:
    axis = o.axis(x, axis)
    taken = _taken(o)
    if isinstance(size, tuple):
        return _parts(o, x, size, axis)
    whole = o.size(x, axis)
    if isinstance(size, int) and isinstance(whole, int):
        sizes = [min(size, whole - start) for start in range(0, whole, size)] if size and whole else [whole]
        return _parts(o, x, tuple(sizes), axis)
    bounds = [numbers.scalar_multiply(o, size, at) for at in range(len(taken))]
    return [
        o.slice(x, axis, bound, bounds[at + 1] if at + 1 < len(taken) else LAST) if taken[at] else None
        for at, bound in enumerate(bounds)
    ]


def _parts(o: Builder, x: Any, sizes: tuple[Any, ...], axis: int) -> Any:
    if len(sizes) == 1:
        return [x]
    parts = o.Split(x, o.ints(sizes), outputs=len(sizes), axis=axis)
    for part, size in zip(parts, sizes, strict=True):
        known = size if isinstance(size, int) else size.symbol
        part.shape = tuple(known if at == axis else dim for at, dim in enumerate(x.shape))
    return list(parts)


def chunk(o: Builder, x: Any, chunks: int, axis: int = 0) -> Any:
    axis = o.axis(x, axis)
    whole = o.size(x, axis)
    if isinstance(whole, int):
        return split(o, x, max(-(-whole // chunks), 1), axis)
    if len(_taken(o)) != chunks:
        o.unknown("the number of parts depends on a free size", whole)
    parts = o.Split(x, outputs=chunks, axis=axis, num_outputs=chunks) if chunks > 1 else (x,)
    for part in parts:
        part.shape = tuple(None if at == axis else dim for at, dim in enumerate(x.shape))
    return list(parts)


def tensor_split(o: Builder, x: Any, parts: Any, axis: int = 0) -> Any:
    axis = o.axis(x, axis)
    if isinstance(parts, tuple):
        bounds = [0, *parts, LAST]
        return [o.slice(x, axis, start, stop) for start, stop in itertools.pairwise(bounds)]
    whole = o.size(x, axis)
    if not isinstance(whole, int):
        o.unknown("the size of the axis is free", whole)
    each, longer = divmod(whole, parts)
    return _parts(o, x, tuple(each + (at < longer) for at in range(parts)), axis)


def roll(o: Builder, x: Any, shift: Any, axis: Any = None) -> Any:
    shifts = shift if isinstance(shift, tuple) else (shift,)
    if axis is None or axis == ():
        return reshape_as(o, roll(o, ravel(o, x), shifts, (0,)), x)
    for each, along in zip(shifts, axis if isinstance(axis, tuple) else (axis,), strict=True):
        at = o.axis(x, along)
        start = numbers.scalar_remainder(o, numbers.scalar_negative(o, each), o.size(x, at))
        if isinstance(start, int) and start == 0:
            continue
        shape = x.shape
        x = o.Concat(o.slice(x, at, start, LAST), o.slice(x, at, 0, start), axis=at)
        x.shape = shape
    return x


def flip(o: Builder, x: Any, axis: Any) -> Any:
    axes = o.axes(x, axis) if axis != () else ()
    if not axes:
        return x
    count = len(axes)
    bounds = (o.ints((each,) * count) for each in (-1, FIRST))
    return o.Slice(x, *bounds, o.ints(axes), o.ints((-1,) * count), shape=x.shape)


_MODES = {"constant": None, "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def pad(o: Builder, x: Any, padding: Any, mode: str = "constant", value: Any = None) -> Any:
    padding = tuple(map(o.plain, padding))
    axes = [x.rank - 1 - at for at in range(len(padding) // 2)]
    if not axes or all(isinstance(item, int) and item == 0 for item in padding):
        return x
    fill = o.cast(value or 0, x.dtype) if mode == "constant" else None
    made = o.Pad(x, o.ints((*padding[::2], *padding[1::2])), fill, o.ints(tuple(axes)), mode=_MODES[mode])
    sizes = list(x.shape)
    for at, axis in enumerate(axes):
        parts = (sizes[axis], padding[2 * at], padding[2 * at + 1])
        sizes[axis] = sum(parts) if all(isinstance(part, int) for part in parts) else None
    made.shape = tuple(sizes)
    return made


def reflection_pad(o: Builder, x: Any, padding: Any) -> Any:
    return pad(o, x, padding, "reflect")


def replication_pad(o: Builder, x: Any, padding: Any) -> Any:
    return pad(o, x, padding, "replicate")


def diagonal(o: Builder, x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    a, b = o.axis(x, axis1), o.axis(x, axis2)
    x = o.transpose(x, [*(axis for axis in range(x.rank) if axis not in (a, b)), a, b])
    down, right = max(-offset, 0), max(offset, 0)
    rows, columns = o.size(x, x.rank - 2), o.size(x, x.rank - 1)
    count = numbers.scalar_min(o, numbers.scalar_subtract(o, rows, down), numbers.scalar_subtract(o, columns, right))
    count = max(count, 0) if isinstance(count, int) else count
    steps = indices(o, count)
    places = o.Add(o.Mul(steps, o.cast(numbers.scalar_add(o, columns, 1), "int64")), 0)
    start = numbers.scalar_add(o, numbers.scalar_multiply(o, columns, down), right)
    places = o.Add(places, o.cast(start, "int64"))
    return o.Gather(merged(o, x, x.rank - 2, x.rank, (-1,)), places, axis=x.rank - 2)


def diag_embed(o: Builder, x: Any, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Any:
    more = abs(offset)
    x = pad(o, x, (0, more)) if more else x
    count = numbers.scalar_add(o, o.size(x, x.rank - 1), 0)
    rows, columns = o.unsqueeze(indices(o, count), 1), o.unsqueeze(indices(o, count), 0)
    there = o.Equal(o.Sub(columns, rows), offset)
    made = o.where(there, o.unsqueeze(x, x.rank if offset >= 0 else x.rank - 1), 0)
    return moveaxis(o, made, (-2, -1), (axis1, axis2))


def windows(o: Builder, x: Any, axis: int, size: Any, step: int, dilation: int = 1, *, first: bool = False) -> Any:
    """An axis replaced by two: the windows and the places in each, or the other way round."""
    whole = o.size(x, axis)
    reach = numbers.scalar_multiply(o, numbers.scalar_subtract(o, size, 1), dilation)
    last = numbers.scalar_subtract(o, numbers.scalar_subtract(o, whole, reach), 1)
    count = numbers.scalar_add(o, numbers.scalar_floor_divide(o, last, step), 1)
    starts = o.Mul(indices(o, count), step)
    inside = o.Mul(indices(o, size), dilation)
    places = o.Add(o.unsqueeze(starts, 0 if first else 1), o.unsqueeze(inside, 1 if first else 0))
    return o.Gather(x, places, axis=axis)


def unfold(o: Builder, x: Any, axis: int, size: Any, step: Any) -> Any:
    if x.rank == 0:
        return o.reshape(x, (1,))
    axis = o.axis(x, axis)
    return moveaxis(o, windows(o, x, axis, size, step), axis + 1, -1)


def im2col(o: Builder, x: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    batched = x.rank == 4
    x = x if batched else o.unsqueeze(x, 0)
    x = pad(o, x, (padding[1], padding[1], padding[0], padding[0]))
    x = windows(o, x, 2, kernel[0], stride[0], dilation[0], first=True)
    x = windows(o, x, 4, kernel[1], stride[1], dilation[1], first=True)
    x = o.transpose(x, (0, 1, 2, 4, 3, 5))
    channels = x.shape[1]
    rows = channels * kernel[0] * kernel[1] if isinstance(channels, int) else o.unknown("channels are free", channels)
    x = o.Reshape(x, o.ints((0, rows, -1)))
    return x if batched else o.squeeze(x, 0)


def pixel_shuffle(o: Builder, x: Any, factor: int) -> Any:
    lead = x.rank - 3
    channels, height, width = o.dims(x)[-3:]
    x = merged(o, x, lead, lead + 1, (numbers.scalar_floor_divide(o, channels, factor * factor), factor, factor))
    order = (*range(lead), lead, lead + 3, lead + 1, lead + 4, lead + 2)
    x = o.transpose(x, order)
    sizes = (numbers.scalar_multiply(o, height, factor), numbers.scalar_multiply(o, width, factor))
    return merged(o, x, lead + 1, lead + 5, sizes)


def pixel_unshuffle(o: Builder, x: Any, factor: int) -> Any:
    lead = x.rank - 3
    channels, height, width = o.dims(x)[-3:]
    sizes = (
        numbers.scalar_floor_divide(o, height, factor),
        factor,
        numbers.scalar_floor_divide(o, width, factor),
        factor,
    )
    x = merged(o, x, lead + 1, lead + 3, sizes)
    x = o.transpose(x, (*range(lead), lead, lead + 2, lead + 4, lead + 1, lead + 3))
    return merged(o, x, lead, lead + 3, (numbers.scalar_multiply(o, channels, factor * factor),))


def channel_shuffle(o: Builder, x: Any, groups: int) -> Any:
    channels = o.size(x, 1)
    each = numbers.scalar_floor_divide(o, channels, groups)
    x = merged(o, x, 1, 2, (groups, each))
    return merged(o, swapaxes(o, x, 1, 2), 1, 3, (channels,))


def meshgrid(o: Builder, arrays: Any, indexing: str = "ij") -> Any:
    arrays = [ravel(o, x) if x.rank else o.reshape(x, (1,)) for x in arrays]
    swapped = indexing == "xy" and len(arrays) > 1
    order = [1, 0, *range(2, len(arrays))] if swapped else list(range(len(arrays)))
    shape = [o.size(x, 0) for x in arrays]
    shape = [shape[at] for at in order]
    made = []
    for at, x in enumerate(arrays):
        place = order.index(at)
        axes = [axis for axis in range(len(arrays)) if axis != place]
        made.append(o.Expand(o.unsqueeze(x, *axes), o.ints(shape)))
    return made


def broadcast_arrays(o: Builder, arrays: Any) -> Any:
    made = []
    for own in arrays:
        wide = own
        for other in arrays:
            if other is not own and (other.shape != wide.shape or None in wide.shape):
                wide = o.Expand(wide, o.shape(other))
        made.append(wide)
    return made
