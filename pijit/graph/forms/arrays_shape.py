"""Forms of shapes over the namespace `self.xp`: the same elements in other places."""

import math
from typing import Any

import numpy as np

from pijit.graph.forms.arrays_elementwise import Base


def as_tuple(value: Any) -> tuple[Any, ...]:
    """A tuple of one number or of several."""
    return tuple(value) if isinstance(value, tuple | list) else (value,)


class Shape(Base):
    """Forms that give elements another shape, order or number."""

    def reshape(self, x: Any, shape: Any) -> Any:
        return self.xp.reshape(x, tuple(shape))

    def view(self, x: Any, shape: Any) -> Any:
        return self.xp.reshape(x, tuple(shape))

    def reshape_as(self, x: Any, y: Any) -> Any:
        return self.xp.reshape(x, y.shape)

    def flatten(self, x: Any, start: int = 0, end: int = -1) -> Any:
        if x.ndim == 0:
            return self.xp.reshape(x, (1,))
        start, end = start % x.ndim, end % x.ndim
        return self.xp.reshape(x, (*x.shape[:start], math.prod(x.shape[start : end + 1]), *x.shape[end + 1 :]))

    def ravel(self, x: Any) -> Any:
        return self.xp.reshape(x, (x.size,))

    def unflatten(self, x: Any, axis: int, shape: Any) -> Any:
        axis, shape = axis % x.ndim, list(shape)
        if -1 in shape:
            shape[shape.index(-1)] = x.shape[axis] // -math.prod(shape)
        return self.xp.reshape(x, (*x.shape[:axis], *shape, *x.shape[axis + 1 :]))

    def permute_dims(self, x: Any, axes: Any) -> Any:
        return self.xp.transpose(x, tuple(axes))

    def swapaxes(self, x: Any, axis1: int, axis2: int) -> Any:
        return self.xp.swapaxes(x, axis1, axis2) if x.ndim else x

    def t(self, x: Any) -> Any:
        return self.xp.transpose(x)

    def matrix_transpose(self, x: Any) -> Any:
        return self.xp.swapaxes(x, -1, -2)

    def moveaxis(self, x: Any, source: Any, destination: Any) -> Any:
        return self.xp.moveaxis(x, source, destination)

    def expand_dims(self, x: Any, axis: int) -> Any:
        return self.xp.expand_dims(x, axis)

    def squeeze(self, x: Any, axis: Any = None) -> Any:
        axes = range(x.ndim) if axis is None else [each % max(x.ndim, 1) for each in as_tuple(axis)]
        return self.xp.squeeze(x, axis=tuple(each for each in axes if each < x.ndim and x.shape[each] == 1))

    def broadcast_to(self, x: Any, shape: Any) -> Any:
        own = (1,) * (len(shape) - x.ndim) + tuple(x.shape)
        return self.xp.broadcast_to(x, tuple(own[i] if size == -1 else size for i, size in enumerate(shape)))

    def expand_as(self, x: Any, y: Any) -> Any:
        return self.xp.broadcast_to(x, y.shape)

    def tile(self, x: Any, repeats: Any) -> Any:
        return self.xp.tile(x, as_tuple(repeats))

    def repeat(self, x: Any, repeats: Any, axis: int | None = None, length: int | None = None) -> Any:
        return self.xp.repeat(x, repeats, axis=axis)

    def concat(self, arrays: Any, axis: int = 0) -> Any:
        kept = [each for each in self._together(*arrays) if each.shape != (0,)]  # torch leaves out such
        return self.xp.concatenate(kept or self._together(*arrays), axis=axis)

    def stack(self, arrays: Any, axis: int = 0) -> Any:
        return self.xp.stack(self._together(*arrays), axis=axis)

    def hstack(self, arrays: Any) -> Any:
        return self.xp.hstack(self._together(*arrays))

    def vstack(self, arrays: Any) -> Any:
        return self.xp.vstack(self._together(*arrays))

    def unstack(self, x: Any, axis: int = 0) -> Any:
        return tuple(self.xp.take(x, i, axis=axis) for i in range(x.shape[axis]))

    def _cut(self, x: Any, ends: Any, axis: int) -> Any:
        """Parts of x along an axis that end at these indices."""
        starts = (0, *ends[:-1])
        before = (slice(None),) * (axis % x.ndim)
        return tuple(x[(*before, slice(start, end))] for start, end in zip(starts, ends, strict=True))

    def split(self, x: Any, size: Any, axis: int = 0) -> Any:
        if isinstance(size, tuple | list):
            return self._cut(x, tuple(np.cumsum(size).tolist()), axis)
        length = x.shape[axis]
        return self._cut(x, tuple(min(i + size, length) for i in range(0, max(length, 1), max(size, 1))), axis)

    def chunk(self, x: Any, chunks: int, axis: int = 0) -> Any:
        return self.split(x, -(-x.shape[axis] // chunks) or 1, axis)

    def tensor_split(self, x: Any, parts: Any, axis: int = 0) -> Any:
        length = x.shape[axis]
        if isinstance(parts, tuple | list):
            return self._cut(x, (*parts, length), axis)
        sizes = [length // parts + (i < length % parts) for i in range(parts)]
        return self._cut(x, tuple(np.cumsum(sizes).tolist()), axis)

    def roll(self, x: Any, shift: Any, axis: Any = None) -> Any:
        if axis is None or axis in ((), []):
            return self.xp.roll(x, shift if isinstance(shift, int) else shift[0])
        return self.xp.roll(x, as_tuple(shift), axis=as_tuple(axis))

    def flip(self, x: Any, axis: Any) -> Any:
        return self.xp.flip(x, axis=as_tuple(axis))

    def pad(self, x: Any, padding: Any, mode: str = "constant", value: Any = None) -> Any:
        widths = [(padding[i], padding[i + 1]) for i in range(0, len(padding), 2)][::-1]
        widths = [(0, 0)] * (x.ndim - len(widths)) + widths
        inside = tuple(
            slice(max(-low, 0), size - max(-high, 0)) for (low, high), size in zip(widths, x.shape, strict=True)
        )
        x, widths = x[inside], [(max(low, 0), max(high, 0)) for low, high in widths]
        if mode != "constant":
            return self.xp.pad(x, widths, mode={"replicate": "edge", "circular": "wrap"}.get(mode, mode))
        return self.xp.pad(x, widths, constant_values=self._as(0 if value is None else value, x.dtype))

    def reflection_pad(self, x: Any, padding: Any) -> Any:
        return self.pad(x, padding, "reflect")

    def replication_pad(self, x: Any, padding: Any) -> Any:
        return self.pad(x, padding, "replicate")

    def diagonal(self, x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        return self.xp.diagonal(x, offset, axis1, axis2)

    def diag_embed(self, x: Any, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Any:
        size = x.shape[-1] + abs(offset)
        places = self.xp.asarray(np.eye(size, k=offset, dtype=np.bool_))
        rows = self.xp.pad(x, [(0, 0)] * (x.ndim - 1) + [(max(-offset, 0), max(offset, 0))])
        full = self.xp.where(places, rows[..., :, None], self._as(0, x.dtype))
        return self.xp.moveaxis(full, (-2, -1), (axis1, axis2))

    def unfold(self, x: Any, axis: int, size: int, step: int) -> Any:
        if x.ndim == 0:
            return self.xp.reshape(x, (1,))[:size]
        axis %= x.ndim
        starts = np.arange(0, x.shape[axis] - size + 1, step)
        windows = x[(slice(None),) * axis + (starts[:, None] + np.arange(size),)]
        return self.xp.moveaxis(windows, axis + 1, -1)

    def pixel_shuffle(self, x: Any, factor: int) -> Any:
        *rest, c, h, w = x.shape
        x = self.xp.reshape(x, (*rest, c // factor**2, factor, factor, h, w))
        n = len(rest)
        x = self.xp.transpose(x, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
        return self.xp.reshape(x, (*rest, c // factor**2, h * factor, w * factor))

    def pixel_unshuffle(self, x: Any, factor: int) -> Any:
        *rest, c, h, w = x.shape
        x = self.xp.reshape(x, (*rest, c, h // factor, factor, w // factor, factor))
        n = len(rest)
        x = self.xp.transpose(x, (*range(n), n, n + 2, n + 4, n + 1, n + 3))
        return self.xp.reshape(x, (*rest, c * factor**2, h // factor, w // factor))

    def channel_shuffle(self, x: Any, groups: int) -> Any:
        n, c, *rest = x.shape
        return self.xp.reshape(self.xp.swapaxes(self.xp.reshape(x, (n, groups, c // groups, *rest)), 1, 2), x.shape)

    def meshgrid(self, arrays: Any, indexing: str = "ij") -> Any:
        return tuple(self.xp.meshgrid(*arrays, indexing=indexing))

    def broadcast_arrays(self, arrays: Any) -> Any:
        return tuple(self.xp.broadcast_arrays(*arrays))

    def size(self, x: Any, axis: int) -> int:
        return int(x.shape[axis])

    def ndim(self, x: Any) -> int:
        return int(x.ndim)

    def numel(self, x: Any) -> int:
        return int(x.size)
