"""Forms in ONNX of rows that pick elements, put elements, or order them.

An index is taken apart as torch does it: first numbers, slices, new axes and the ellipsis, then arrays of integers and
masks. What lies at several arrays is GatherND of the transposed array. To put elements somewhere, the same index picks
from the places 0, 1, 2, ... in the shape of the array, and the elements go there in the flat array.
"""

from typing import Any

import numpy as np

from pijit._formats.onnx import numbers
from pijit._formats.onnx.arrays import LAST, ravel, reshape_as
from pijit._formats.onnx.builder import Builder
from pijit._formats.onnx.elementwise import scaled
from pijit._formats.onnx.reductions import indices as counted
from pijit._formats.onnx.types import NARROW, Tensor, is_floating


def _is_array(item: Any) -> bool:
    return isinstance(item, Tensor) and not item.number


def _expanded(o: Builder, x: Any, index: Any) -> list[Any]:
    """The index with one item an axis of x, and None for new axes."""
    given = index if isinstance(index, tuple) else (index,)
    items = [each for item in given for each in (_listed(o, item) if isinstance(item, tuple) else (item,))]
    used = sum(_axes_of(item) for item in items)
    full = slice(None)
    at = next((at for at, item in enumerate(items) if item is Ellipsis), None)
    missing = x.rank - used
    if at is None:
        return items + [full] * missing
    return items[:at] + [full] * missing + items[at + 1 :]


def _listed(o: Builder, items: tuple[Any, ...]) -> list[Tensor]:
    """A list in an index as arrays of integers: one, or of a list of bools one for each axis that it is for."""
    flat, shape = _flattened(o, items)
    if flat and all(isinstance(each, bool) for each in flat):
        return [o.const(each, "int64") for each in np.nonzero(np.reshape(np.array(flat), shape))]
    if any(isinstance(each, Tensor) for each in flat):
        return [o.reshape(o.ints(flat), shape)]
    return [o.const(np.reshape(np.array(flat, np.int64), shape), "int64")]


def _flattened(o: Builder, items: Any) -> tuple[list[Any], tuple[int, ...]]:
    """The numbers in nested lists, and the shape of these."""
    if not isinstance(items, tuple | list):
        return [o.plain(items)], ()
    inner = [_flattened(o, each) for each in items]
    return [each for flat, _ in inner for each in flat], (len(items), *(inner[0][1] if inner else ()))


def _axes_of(item: Any) -> int:
    """The number of axes of the array that an item of an index takes."""
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    if _is_array(item) and item.dtype in {"bool", "uint8"}:
        return int(item.rank)
    return 1


def getitem(o: Builder, x: Any, index: Any) -> Any:
    items = _expanded(o, x, index)
    x = _sliced(o, x, items)
    # What is left: for each axis of x, in order, a whole axis, a number, an array or a new axis.
    left: list[Any] = []
    axis = 0
    for item in items:
        if item is None or isinstance(item, bool):
            x = o.unsqueeze(x, axis)
            left.append(None if item is None or item else o.const([], "int64"))
            axis += 1
        elif _is_array(item):
            left.append(item)
            axis += _axes_of(item)
        elif isinstance(item, slice):
            left.append(None)
            axis += 1
        else:
            x = o.Gather(x, o.cast(item, "int64"), axis=axis)
    return index_(o, x, tuple(left)) if any(item is not None for item in left) else x


def _sliced(o: Builder, x: Any, items: list[Any]) -> Any:
    """The slices of an index, all at once."""
    axis, found = 0, []
    for item in items:
        if isinstance(item, slice):
            start, stop, step = (o.plain(part) for part in (item.start, item.stop, item.step))
            step = 1 if step is None else step
            start = (0 if start is None else start) if isinstance(start, Tensor) or start else 0
            whole = isinstance(start, int) and start == 0 and (stop is None or stop == LAST) and step == 1
            if not whole and not (
                isinstance(stop, Tensor) and stop.symbol and stop.symbol == x.shape[axis] and not start
            ):
                found.append((axis, start, LAST if stop is None else stop, step))
        axis += _axes_of(item)
    if not found:
        return x
    axes, starts, stops, steps = zip(*found, strict=True)
    return o.Slice(x, o.ints(starts), o.ints(stops), o.ints(axes), o.ints(steps))


def _integers(o: Builder, items: Any) -> tuple[list[tuple[int, Any]], int]:
    """Axis and array of integers for each array in an index; a mask gives several."""
    found, axis = [], 0
    for item in items:
        if item is None:
            axis += 1
        elif item.dtype in {"bool", "uint8"}:
            places = o.NonZero(o.cast(item, "bool"))
            for at in range(item.rank):
                found.append((axis + at, o.Gather(places, o.const(at, "int64"), axis=0, shape=(None,))))
            axis += item.rank
        else:
            found.append((axis, o.cast(item, "int64")))
            axis += 1
    return found, axis


def _together(o: Builder, arrays: list[Any]) -> Any:
    """Arrays of integers in one shape, on a new last axis."""
    made = []
    for own in arrays:
        wide = own
        for other in arrays:
            if other is not own and other.rank and (other.shape != wide.shape or None in wide.shape):
                wide = o.Expand(wide, o.shape(other))
        made.append(o.unsqueeze(wide, wide.rank))
    return o.Concat(*made, axis=-1)


def index_(o: Builder, x: Any, indices: Any) -> Any:
    found, _ = _integers(o, indices)
    if not found:
        return x
    if len(found) == 1:
        return o.Gather(x, found[0][1], axis=found[0][0])
    axes = [axis for axis, _ in found]
    rank = max(each.rank for _, each in found)
    rest = [axis for axis in range(x.rank) if axis not in axes]
    picked = o.GatherND(o.transpose(x, axes + rest), _together(o, [each for _, each in found]))
    if axes != list(range(axes[0], axes[0] + len(axes))) or axes[0] == 0:
        return picked
    # Arrays side by side: what they pick stands where they stood.
    first = axes[0]
    order = [*range(rank, rank + first), *range(rank), *range(rank + first, rank + len(rest))]
    return o.transpose(picked, order)


def place_of_each(o: Builder, x: Any) -> Any:
    """0, 1, 2, ... in the shape of x."""
    return reshape_as(o, counted(o, numbers.numel(o, x)), x)


def put(o: Builder, x: Any, places: Any, y: Any, accumulate: bool) -> Any:
    """x with y at places of the flat array."""
    y = o.cast(y, x.dtype)
    if y.shape != places.shape or y.shape is None or None in y.shape:
        while y.shape is not None and y.rank > places.rank:
            y = o.squeeze(y, 0)
        y = o.Expand(y, o.shape(places))
    reduction = "add" if accumulate else None
    made = o.ScatterElements(ravel(o, x), o.reshape(places, (-1,)), o.reshape(y, (-1,)), axis=0, reduction=reduction)
    return reshape_as(o, made, x)


def setitem(o: Builder, x: Any, index: Any, value: Any) -> Any:
    if _is_array(index) and index.dtype == "bool" and (not isinstance(value, Tensor) or value.rank == 0):
        mask = o.unsqueeze(index, *range(index.rank, x.rank)) if index.rank < x.rank else index
        return o.Where(mask, o.cast(value, x.dtype), x)
    if index is Ellipsis or (isinstance(index, slice) and index == slice(None)):
        return o.Expand(o.cast(value, x.dtype), o.shape(x), shape=x.shape)
    return put(o, x, getitem(o, place_of_each(o, x), index), value, False)


def index_put(o: Builder, x: Any, indices: Any, y: Any, accumulate: bool = False) -> Any:
    if len(indices) == 1 and _is_array(indices[0]) and indices[0].dtype == "bool" and y.rank == 0 and not accumulate:
        return setitem(o, x, indices[0], y)
    padded = (*indices, *(None,) * (x.rank - sum(1 if each is None else _axes_of(each) for each in indices)))
    return put(o, x, index_(o, place_of_each(o, x), padded), y, accumulate)


def select(o: Builder, x: Any, axis: int, index: Any) -> Any:
    return o.Gather(x, o.cast(o.plain(index), "int64"), axis=o.axis(x, axis))


def slice_(o: Builder, x: Any, axis: int = 0, start: Any = None, stop: Any = None, step: Any = 1) -> Any:
    return getitem(o, x, (*(slice(None),) * o.axis(x, axis), slice(start, stop, step)))


def narrow(o: Builder, x: Any, axis: int, start: Any, length: Any) -> Any:
    axis = o.axis(x, axis)
    start = o.plain(start)
    if isinstance(start, Tensor):
        start.number = True
    elif start < 0:
        start = numbers.scalar_add(o, start, o.size(x, axis))
    return o.slice(x, axis, start, numbers.scalar_add(o, start, length))


def take(o: Builder, x: Any, axis: int, indices: Any) -> Any:
    if x.rank == 0:
        return o.reshape(x, ()) if indices.rank == 0 else o.reshape(x, (1,))
    indices = o.reshape(indices, (1,)) if indices.rank == 0 else indices
    return o.Gather(x, o.cast(indices, "int64"), axis=o.axis(x, axis))


def take_flat(o: Builder, x: Any, indices: Any) -> Any:
    return o.Gather(ravel(o, x), indices, axis=0)


def embedding(o: Builder, weight: Any, x: Any) -> Any:
    return o.Gather(weight, x, axis=0)


def gather(o: Builder, x: Any, axis: int, indices: Any) -> Any:
    if x.rank == 0:
        return o.Expand(x, o.shape(indices))
    if indices.rank == 0:
        return o.Gather(x, indices, axis=0)
    return o.GatherElements(x, indices, axis=o.axis(x, axis))


def take_along_axis(o: Builder, x: Any, indices: Any, axis: Any = None) -> Any:
    if axis is None:
        return gather(o, ravel(o, x), 0, ravel(o, indices))
    axis = o.axis(x, axis)
    both = (x, indices)
    made = []
    for array, other in (both, both[::-1]):
        dims = [1 if at == axis else o.size(other, at) for at in range(other.rank)]
        same = all(
            a == b and a is not None
            for at, (a, b) in enumerate(zip(array.shape, other.shape, strict=True))
            if at != axis
        )
        made.append(array if same else o.Expand(array, o.ints(dims)))
    return o.GatherElements(*made, axis=axis)


def _source(o: Builder, x: Any, indices: Any, y: Any) -> Any:
    """What goes to each of the indices."""
    y = o.cast(y, x.dtype)
    if y.rank == 0:
        return o.Expand(y, o.shape(indices)) if indices.rank else y
    if y.shape == indices.shape and None not in y.shape:
        return y
    zeros, ends, axes = o.ints((0,) * y.rank), o.shape(indices), o.ints(tuple(range(y.rank)))
    return o.Slice(y, zeros, ends, axes, o.ints((1,) * y.rank), shape=indices.shape)


def _scattered(o: Builder, x: Any, axis: int, indices: Any, y: Any, reduction: str | None = None) -> Any:
    own = x.dtype
    if (own == "bool" and reduction) or own in NARROW:
        x, y = o.cast(x, "int32"), o.cast(y, "int32")
    if x.rank == 0:
        made = _scattered(o, o.reshape(x, (1,)), 0, o.reshape(indices, (1,)), o.reshape(y, (1,)), reduction)
        return o.reshape(made, ())
    return o.cast(o.ScatterElements(x, indices, y, axis=o.axis(x, axis), reduction=reduction), own)


def scatter(o: Builder, x: Any, axis: int, indices: Any, y: Any) -> Any:
    return _scattered(o, x, axis, indices, _source(o, x, indices, y))


def scatter_add(o: Builder, x: Any, axis: int, indices: Any, y: Any) -> Any:
    return _scattered(o, x, axis, indices, _source(o, x, indices, y), "add")


_REDUCE = {"sum": ("add", 0), "prod": ("mul", 1), "amax": ("max", None), "amin": ("min", None), "mean": ("add", 0)}


def scatter_reduce(o: Builder, x: Any, axis: int, indices: Any, y: Any, reduce: str, include_self: bool = True) -> Any:
    y = _source(o, x, indices, y)
    kind, neutral = _REDUCE[reduce]
    base = x
    if not include_self:
        if neutral is None:
            # Any element that goes there does: the largest of it and the others is the largest of the others.
            base = _scattered(o, x, axis, indices, y)
        else:
            base = _scattered(o, x, axis, indices, o.Expand(o.const(neutral, x.dtype), o.shape(indices)))
    made = _scattered(o, base, axis, indices, y, kind)
    if reduce != "mean":
        return made
    one = o.Expand(o.const(1, x.dtype), o.shape(indices))
    start = o.Expand(o.const(1, x.dtype), o.shape(x))
    if not include_self:
        start = _scattered(o, start, axis, indices, o.Expand(o.const(0, x.dtype), o.shape(indices)))
    count = _scattered(o, start, axis, indices, one, "add")
    return made / count if is_floating(x.dtype) else o.Div(made, count)


def _along(o: Builder, x: Any, axis: int, indices: Any, y: Any) -> tuple[int, Any, Any]:
    """Indices of an axis in the shape of y, and y."""
    axis = o.axis(x, axis)
    y = o.cast(y, x.dtype)
    if x.rank and y.rank < x.rank:
        y = o.unsqueeze(y, axis)
    indices = o.reshape(o.cast(indices, "int64"), (*(1,) * axis, -1, *(1,) * (x.rank - axis - 1)))
    return axis, o.Expand(indices, o.shape(y)) if x.rank else indices, y


def index_add(o: Builder, x: Any, axis: int, indices: Any, y: Any, alpha: Any = 1) -> Any:
    axis, indices, y = _along(o, x, axis, indices, y)
    return _scattered(o, x, axis, indices, scaled(o, y, alpha), "add")


def index_copy(o: Builder, x: Any, axis: int, indices: Any, y: Any) -> Any:
    return _scattered(o, x, *_along(o, x, axis, indices, y))


def index_fill(o: Builder, x: Any, axis: int, indices: Any, value: Any) -> Any:
    axis = o.axis(x, axis)
    indices = o.reshape(indices, (-1,))
    hit = o.Equal(o.unsqueeze(counted(o, o.size(x, axis)), 1), o.unsqueeze(o.cast(indices, "int64"), 0))
    negative = o.Add(o.unsqueeze(o.cast(indices, "int64"), 0), o.cast(o.size(x, axis), "int64"))
    hit = o.Or(hit, o.Equal(o.unsqueeze(counted(o, o.size(x, axis)), 1), negative))
    mask = o.cast(o.reduce("ReduceMax", o.cast(hit, "int32"), 1, False), "bool")
    mask = o.reshape(mask, (-1, *(1,) * (x.rank - axis - 1)))
    return o.Where(mask, o.cast(value, x.dtype), x)


def masked_fill(o: Builder, x: Any, mask: Any, value: Any) -> Any:
    return o.Where(o.cast(mask, "bool"), o.cast(value, x.dtype), x)


def masked_select(o: Builder, x: Any, mask: Any) -> Any:
    if x.shape != mask.shape or None in x.shape:
        x, mask = (o.Expand(each, o.shape(other)) for each, other in ((x, mask), (mask, x)))
    return o.Compress(ravel(o, x), ravel(o, mask), shape=(None,))


def masked_scatter(o: Builder, x: Any, mask: Any, y: Any) -> Any:
    if x.shape != mask.shape or None in x.shape:
        x, mask = (o.Expand(each, o.shape(other)) for each, other in ((x, mask), (mask, x)))
    order = o.Sub(o.CumSum(o.cast(ravel(o, mask), "int64"), o.const(0, "int64")), 1)
    picked = o.Gather(ravel(o, o.cast(y, x.dtype)), o.Max(order, 0), axis=0)
    return reshape_as(o, o.Where(ravel(o, mask), picked, ravel(o, x)), x)


def nonzero(o: Builder, x: Any) -> Any:
    return o.Transpose(o.NonZero(o.cast(x, "bool")), perm=(1, 0))


def unique(o: Builder, x: Any, sorted: bool = True, inverse: bool = False, counts: bool = False) -> Any:
    plain = (
        x if x.dtype in {"float32", "float64", "int64"} else o.cast(x, "float32" if is_floating(x.dtype) else "int64")
    )
    values, _, places, numbers = o.Unique(ravel(o, plain), outputs=4, sorted=1)
    places.dtype = numbers.dtype = "int64"
    values.shape = places.shape = numbers.shape = (None,)
    none = o.const((), "int64")
    return o.cast(values, x.dtype), reshape_as(o, places, x) if inverse else none, numbers if counts else none


def one_hot(o: Builder, x: Any, classes: Any = -1) -> Any:
    if isinstance(classes, int) and classes == -1:
        classes = o.Add(o.ReduceMax(x, keepdims=0), 1)
    return o.cast(o.Equal(o.unsqueeze(x, x.rank), o.cast(counted(o, classes), x.dtype)), "int64")


def _sorted(o: Builder, x: Any, k: Any, axis: int, largest: bool) -> tuple[Any, Any]:
    if x.rank == 0:
        return x, o.const(0, "int64")
    own = x.dtype
    if own == "bool" or own in NARROW:
        x = o.cast(x, "int64" if own == "uint32" else "int32")
    axis = o.axis(x, axis)
    values, places = o.TopK(x, o.ints((k,)), outputs=2, axis=axis, largest=int(largest), sorted=1)
    known = k if isinstance(k, int) else k.symbol
    shape = tuple(known if at == axis else dim for at, dim in enumerate(x.shape))
    values.shape = places.shape = shape
    places.dtype = "int64"
    return o.cast(values, own), places


def topk(o: Builder, x: Any, k: Any, axis: int = -1, largest: bool = True) -> Any:
    return _sorted(o, x, o.plain(k), axis, largest)


def sort(o: Builder, x: Any, axis: int = -1, descending: bool = False) -> Any:
    return _sorted(o, x, o.size(x, axis) if x.rank else 1, axis, descending)


def argsort(o: Builder, x: Any, axis: int = -1, descending: bool = False) -> Any:
    return sort(o, x, axis, descending)[1]


def searchsorted(
    o: Builder, boundaries: Any, x: Any, int32: bool = False, right: bool = False, side: str | None = None
) -> Any:
    right = side == "right" if side is not None else right
    x, boundaries = o.operands(x, boundaries)
    if boundaries.rank > 1:
        boundaries = o.unsqueeze(boundaries, boundaries.rank - 1)
    # Not "less": NaN goes behind all of them.
    below = o.Not(o.compare("Greater" if right else "GreaterOrEqual", boundaries, o.unsqueeze(x, x.rank)))
    return o.cast(o.reduce("ReduceSum", o.cast(below, "int32"), -1, False), "int32" if int32 else "int64")


def bucketize(o: Builder, x: Any, boundaries: Any, int32: bool = False, right: bool = False) -> Any:
    return searchsorted(o, boundaries, x, int32, right)
