"""Forms of indexing over the namespace `self.xp`. Writes give a new array: `_put` is a framework's own."""

from typing import Any

import numpy as np

from pijit.errors import ExportError
from pijit.graph.forms import _types
from pijit.graph.forms.arrays_elementwise import Base
from pijit.graph.forms.arrays_shape import as_tuple


def _is_known(items: Any) -> bool:
    """Nothing but numbers stands in nested lists."""
    return all(map(_is_known, items)) if isinstance(items, list | tuple) else isinstance(items, bool | int)


class Indexing(Base):
    """Forms that pick elements or put them."""

    def _put(self, x: Any, index: Any, value: Any, how: str = "set") -> Any:
        """A copy of x whose elements at an index are set, or to which the value is applied: add, multiply, max, min."""
        raise NotImplementedError

    def getitem(self, x: Any, index: Any) -> Any:
        basic, arrays = self._parts(index, x.ndim)
        x = x[basic]
        return x if arrays is None else x[arrays]

    def setitem(self, x: Any, index: Any, value: Any) -> Any:
        value = self._as(value, x.dtype)
        if (filled := self._where_masked(x, index, value)) is not None:
            return filled
        basic, arrays = self._parts(index, x.ndim)
        if arrays is None:
            return self._put(x, basic, self._fitted(value, x[basic].shape))
        places = self.xp.arange(x.size).reshape(x.shape)[basic][arrays]
        out = self._put(self.xp.reshape(x, (x.size,)), (places,), self._fitted(value, places.shape))
        return self.xp.reshape(out, x.shape)

    def _where_masked(self, x: Any, index: Any, value: Any) -> Any:
        """x with one value where a mask that is the whole index holds, or None: no size depends on the mask then."""
        mask = index[0] if isinstance(index, tuple) and len(index) == 1 else index
        if not _types.is_array(mask) or mask.dtype != np.bool_ or value.ndim > 0:
            return None
        return self.xp.where(self.xp.reshape(mask, (*mask.shape, *(1,) * (x.ndim - mask.ndim))), value, x)

    def _fitted(self, value: Any, shape: Any) -> Any:
        """Without leading axes of length 1 that the place lacks, as torch takes it."""
        lead = value.ndim - len(shape)
        return self.xp.reshape(value, value.shape[lead:]) if lead > 0 else value

    def _parts(self, index: Any, ndim: int) -> tuple[Any, Any]:
        """The index in two steps, as torch takes it: numbers, slices and new axes; then arrays, or None."""
        items = [
            self._listed(each) if isinstance(each, list | tuple) else each
            for each in (index if isinstance(index, tuple) else (index,))
        ]
        arrays = [_types.is_array(each) and (each.ndim > 0 or each.dtype == np.bool_) for each in items]
        if not any(arrays):
            return tuple(items), None
        widths = [
            0 if each is None or each is Ellipsis else each.ndim if is_array and each.dtype == np.bool_ else 1
            for each, is_array in zip(items, arrays, strict=True)
        ]
        basic: list[Any] = []
        later: list[Any] = []
        for each, is_array, width in zip(items, arrays, widths, strict=True):
            if each is Ellipsis:
                basic += [slice(None)] * (ndim - sum(widths))
                later += [slice(None)] * (ndim - sum(widths))
            elif is_array:
                basic += [slice(None)] * width
                later.append(each)
            else:
                basic.append(each)
                later += [slice(None)] * (each is None or isinstance(each, slice))
        return tuple(basic), tuple(later)

    def _listed(self, items: Any) -> Any:
        """A list in an index as an array: a mask if it has nothing but bools, else integers, some of them sizes."""
        if not _is_known(items):
            return self.xp.asarray(items)
        made = np.asarray(items)
        return made if made.dtype == np.bool_ else made.astype(np.int64)

    def select(self, x: Any, axis: int, index: Any) -> Any:
        return x[(*self._before(x, axis), index)]

    def _before(self, x: Any, axis: int) -> tuple[Any, ...]:
        return (slice(None),) * int(axis % x.ndim)

    def slice(self, x: Any, axis: int = 0, start: Any = None, stop: Any = None, step: int = 1) -> Any:
        return x[(*self._before(x, axis), slice(start, stop, step))]

    def narrow(self, x: Any, axis: int, start: int, length: int) -> Any:
        start = start % x.shape[axis] if start < 0 else start
        return x[(*self._before(x, axis), slice(start, start + length))]

    def take(self, x: Any, axis: int, indices: Any) -> Any:
        return self.xp.take(x, indices, axis=axis) if x.ndim else x

    def take_flat(self, x: Any, indices: Any) -> Any:
        return self.xp.reshape(x, (x.size,))[indices]

    def take_along_axis(self, x: Any, indices: Any, axis: int | None = None) -> Any:
        if axis is None:
            return self.xp.reshape(x, (x.size,))[self.xp.reshape(indices, (indices.size,))]
        axis %= x.ndim
        sizes = np.broadcast_shapes(*(tuple(s for i, s in enumerate(a.shape) if i != axis) for a in (x, indices)))
        x, indices = (self.xp.broadcast_to(a, (*sizes[:axis], a.shape[axis], *sizes[axis:])) for a in (x, indices))
        return self.xp.take_along_axis(x, indices, axis=axis)

    def _places(self, indices: Any, axis: int) -> tuple[Any, ...]:
        """The index of all axes for indices of one of them; those of the others are counted."""
        places: list[Any] = list(np.ogrid[tuple(slice(size) for size in indices.shape)])
        places[axis] = indices
        return tuple(places)

    def gather(self, x: Any, axis: int, indices: Any) -> Any:
        if indices.ndim == 0 or x.ndim == 0:
            return self.xp.reshape(
                self.xp.reshape(x, (x.size,))[self.xp.reshape(indices, (indices.size,))], indices.shape
            )
        return x[self._places(indices, axis)]

    def _source(self, x: Any, indices: Any, y: Any) -> Any:
        """What a scatter puts: the part of y that the indices cover."""
        return self._as(y, x.dtype) if not _types.is_array(y) or y.ndim == 0 else y[tuple(map(slice, indices.shape))]

    def _scattered(self, x: Any, axis: int, indices: Any, y: Any, how: str) -> Any:
        if x.ndim == 0:
            return self.xp.reshape(
                self._scattered(x[None], 0, indices.reshape(-1), self._as(y, x.dtype).reshape(-1), how), ()
            )
        return self._put(x, self._places(indices, axis), self._source(x, indices, y), how)

    def scatter(self, x: Any, axis: int, indices: Any, y: Any) -> Any:
        return self._scattered(x, axis, indices, y, "set")

    def scatter_add(self, x: Any, axis: int, indices: Any, y: Any) -> Any:
        return self._scattered(x, axis, indices, y, "add")

    def scatter_reduce(self, x: Any, axis: int, indices: Any, y: Any, reduce: str, include_self: bool = True) -> Any:
        places, y = self._places(indices, axis), self._source(x, indices, y)
        how = {"sum": "add", "mean": "add", "prod": "multiply", "amax": "max", "amin": "min"}[reduce]
        start = x
        if not include_self:
            integer = x.dtype.kind in "iu"
            low, high = (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max) if integer else (-np.inf, np.inf)
            neutral = {"add": 0, "multiply": 1, "max": low, "min": high}[how]
            start = self._put(x, places, self._as(neutral, x.dtype))
        out = self._put(start, places, y, how)
        if reduce != "mean":
            return out
        ones = self.xp.ones(indices.shape, dtype=np.int64)
        count = self._put(self.xp.full(x.shape, int(include_self), dtype=np.int64), places, ones, "add")
        count = self._as(self.xp.maximum(count, 1), x.dtype)
        return out // count if x.dtype.kind in "iu" else out / count

    def _whole(self, indices: Any) -> tuple[Any, ...]:
        return tuple(slice(None) if each is None else each for each in indices)

    def index(self, x: Any, indices: Any) -> Any:
        return x[self._whole(indices)]

    def index_put(self, x: Any, indices: Any, y: Any, accumulate: bool = False) -> Any:
        y = self._as(y, x.dtype)
        filled = None if accumulate else self._where_masked(x, tuple(indices), y)
        return self._put(x, self._whole(indices), y, "add" if accumulate else "set") if filled is None else filled

    def index_add(self, x: Any, axis: int, indices: Any, y: Any, alpha: Any = 1) -> Any:
        y = y if alpha == 1 else self._as(alpha, y.dtype) * y
        return self._put(x, (*self._before(x, axis), indices), y, "add")

    def index_copy(self, x: Any, axis: int, indices: Any, y: Any) -> Any:
        return self._put(x, (*self._before(x, axis), indices), y)

    def index_fill(self, x: Any, axis: int, indices: Any, value: Any) -> Any:
        return self._put(x, (*self._before(x, axis), indices), self._as(value, x.dtype))

    def masked_fill(self, x: Any, mask: Any, value: Any) -> Any:
        return self.xp.where(mask, self._as(value, x.dtype), x)

    def masked_select(self, x: Any, mask: Any) -> Any:
        x, mask = self.xp.broadcast_arrays(x, mask)
        return x[mask]

    def masked_scatter(self, x: Any, mask: Any, y: Any) -> Any:
        mask = self.xp.broadcast_to(mask, x.shape)
        order = self.xp.cumsum(self.xp.reshape(mask, (x.size,)), dtype=np.int64) - 1
        picked = self.xp.reshape(y, (y.size,))[self.xp.clip(order, 0, y.size - 1)]
        return self.xp.where(mask, self.xp.reshape(picked, x.shape), x)

    def nonzero(self, x: Any) -> Any:
        if x.ndim == 0:
            return self.xp.zeros((int(bool(x)), 0), dtype=np.int64)
        return self._as(self.xp.stack(self.xp.nonzero(x), axis=-1), np.int64)

    def unique(self, x: Any, sorted: bool = True, inverse: bool = False, counts: bool = False) -> Any:
        values, places, numbers = self.xp.unique(x, return_inverse=True, return_counts=True)
        none = self.xp.zeros((0,), dtype=np.int64)
        places, numbers = (self._as(each, np.int64) for each in (places, numbers))
        return values, self.xp.reshape(places, x.shape) if inverse else none, numbers if counts else none

    def embedding(self, weight: Any, x: Any) -> Any:
        return weight[x]

    def one_hot(self, x: Any, classes: int = -1) -> Any:
        count = int(x.max()) + 1 if classes == -1 else classes
        return self._as(x[..., None] == np.arange(count), np.int64)

    def _order(self, x: Any, axis: int, descending: bool) -> Any:
        """Indices that sort x along an axis, equal elements in their order."""
        if not descending:
            return self.xp.argsort(x, axis=axis, stable=True)
        backwards = self.xp.argsort(self.xp.flip(x, axis=axis), axis=axis, stable=True)
        return x.shape[axis] - 1 - self.xp.flip(backwards, axis=axis)

    def sort(self, x: Any, axis: int = -1, descending: bool = False) -> Any:
        if x.ndim == 0:
            return x, self.xp.zeros((), dtype=np.int64)
        order = self._order(x, axis, descending)
        return self.xp.take_along_axis(x, order, axis=axis), self._as(order, np.int64)

    def argsort(self, x: Any, axis: int = -1, descending: bool = False) -> Any:
        return self.sort(x, axis, descending)[1]

    def topk(self, x: Any, k: int, axis: int = -1, largest: bool = True) -> Any:
        values, order = self.sort(x, axis, largest)
        if x.ndim == 0:
            return values, order
        return self.narrow(values, axis, 0, k), self.narrow(order, axis, 0, k)

    def searchsorted(
        self, boundaries: Any, x: Any, int32: bool = False, right: bool = False, side: str | None = None
    ) -> Any:
        side, dtype = side or ("right" if right else "left"), np.int32 if int32 else np.int64
        x = x if _types.is_array(x) else self._as(x, boundaries.dtype)
        if boundaries.ndim == 1:
            return self._as(self.xp.searchsorted(boundaries, x, side=side), dtype)
        less = self.xp.less_equal if side == "right" else self.xp.less
        return self._as(self.xp.sum(less(boundaries[..., None, :], x[..., None]), axis=-1), dtype)

    def bucketize(self, x: Any, boundaries: Any, int32: bool = False, right: bool = False) -> Any:
        return self.searchsorted(boundaries, x, int32, right)


class Creation(Base):
    """Forms that make arrays, cast them and copy them."""

    def _usual(self, value: Any) -> Any:
        return _types.dtype_of(value)

    def full(self, shape: Any, value: Any, dtype: Any = None, device: Any = None) -> Any:
        value_dtype = self._dtype(dtype, self._usual(value))
        return self.xp.broadcast_to(self._as(value, value_dtype), tuple(shape))

    def zeros(self, shape: Any, dtype: Any = None, device: Any = None) -> Any:
        return self.xp.zeros(tuple(shape), dtype=self._dtype(dtype, _types.FLOAT))

    def ones(self, shape: Any, dtype: Any = None, device: Any = None) -> Any:
        return self.xp.ones(tuple(shape), dtype=self._dtype(dtype, _types.FLOAT))

    def empty(self, shape: Any, dtype: Any = None, device: Any = None) -> Any:
        return self.zeros(shape, dtype)

    def arange(self, start: Any = 0, stop: Any = None, step: Any = 1, dtype: Any = None, device: Any = None) -> Any:
        usual = _types.FLOAT if any(isinstance(each, float) for each in (start, stop, step)) else np.dtype("int64")
        wide = np.arange(start, stop, step, dtype=usual if usual.kind == "i" else np.float64)
        return self.xp.asarray(wide.astype(self._dtype(dtype, usual)))

    def linspace(self, start: Any, stop: Any, num: int, dtype: Any = None, device: Any = None) -> Any:
        return self.xp.asarray(np.linspace(start, stop, num).astype(self._dtype(dtype, _types.FLOAT)))

    def eye(self, rows: int, columns: int | None = None, dtype: Any = None, device: Any = None) -> Any:
        return self.xp.eye(rows, columns, dtype=self._dtype(dtype, _types.FLOAT))

    def asarray(self, value: Any, dtype: Any = None, device: Any = None) -> Any:
        if _types.is_array(value):
            return self._as(value, self._dtype(dtype, value.dtype))
        found = np.asarray(value)
        usual = {"f": _types.FLOAT, "c": _types.COMPLEX}.get(found.dtype.kind, found.dtype)
        return self.xp.asarray(found.astype(self._dtype(dtype, usual if found.size else _types.FLOAT)))

    def zeros_like(self, x: Any, dtype: Any = None, device: Any = None) -> Any:
        return self.xp.zeros(x.shape, dtype=self._dtype(dtype, x.dtype))

    def ones_like(self, x: Any, dtype: Any = None, device: Any = None) -> Any:
        return self.xp.ones(x.shape, dtype=self._dtype(dtype, x.dtype))

    def empty_like(self, x: Any, dtype: Any = None, device: Any = None) -> Any:
        return self.zeros_like(x, dtype)

    def full_like(self, x: Any, value: Any, dtype: Any = None, device: Any = None) -> Any:
        return self.xp.broadcast_to(self._as(value, self._dtype(dtype, x.dtype)), x.shape)

    def new_zeros(self, x: Any, shape: Any, dtype: Any = None, device: Any = None) -> Any:
        return self.xp.zeros(as_tuple(shape), dtype=self._dtype(dtype, x.dtype))

    def new_ones(self, x: Any, shape: Any, dtype: Any = None, device: Any = None) -> Any:
        return self.xp.ones(as_tuple(shape), dtype=self._dtype(dtype, x.dtype))

    def new_empty(self, x: Any, shape: Any, dtype: Any = None, device: Any = None) -> Any:
        return self.new_zeros(x, shape, dtype)

    def new_full(self, x: Any, shape: Any, value: Any, dtype: Any = None, device: Any = None) -> Any:
        return self.xp.broadcast_to(self._as(value, self._dtype(dtype, x.dtype)), as_tuple(shape))

    def astype(self, x: Any, dtype: Any = None, device: Any = None, copy: bool = False) -> Any:
        return self._as(x, self._dtype(dtype, _types.dtype_of(x)))

    def type_as(self, x: Any, y: Any) -> Any:
        return self._as(x, y.dtype)

    def copy(self, x: Any) -> Any:
        return x

    def contiguous(self, x: Any) -> Any:
        return x

    def detach(self, x: Any) -> Any:
        return x

    def alias(self, x: Any) -> Any:
        return x

    def assign(self, x: Any, y: Any) -> Any:
        return self.xp.broadcast_to(self._as(y, x.dtype), x.shape)

    def fill(self, x: Any, value: Any) -> Any:
        return self.xp.broadcast_to(self._as(value, x.dtype), x.shape)

    def zero(self, x: Any) -> Any:
        return self.xp.zeros(x.shape, dtype=x.dtype)

    def _at_random(self, what: str) -> ExportError:
        return ExportError(
            f"{what} in training draws random numbers, which no two frameworks have in common; "
            "call the module in evaluation (`module.eval()`), or with a probability of 0"
        )
