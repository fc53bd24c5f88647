"""Forms of pooling and resampling over the namespace `self.xp`.

Means of windows and interpolation are products with a matrix for each axis, whose transpose gives the gradient.
"""

import itertools
import math
from typing import Any

import numpy as np

from pijit.graph.forms.arrays_convolution import per_axis
from pijit.graph.forms.arrays_shape import Shape, as_tuple


class Pooling(Shape):
    """Forms of pooling over the last axes."""

    def _counts(self, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> list[int]:
        """How many windows there are on each axis; one that begins behind the padded end is none."""
        counts = []
        for size, k, s, p, d in zip(x.shape[-len(kernel) :], kernel, stride, padding, dilation, strict=True):
            room = size + 2 * p - d * (k - 1) - 1
            count = (-(-room // s) if ceil_mode else room // s) + 1
            counts.append(count - (ceil_mode and (count - 1) * s >= size + p))
        return counts

    def _windows(self, x: Any, settings: Any, ceil_mode: bool, filler: Any) -> Any:
        """Windows of x as last axes, one for each axis of the kernel, with a filler around x."""
        kernel, stride, padding, dilation = settings
        counts = self._counts(x, kernel, stride, padding, dilation, ceil_mode)
        n, widths = len(kernel), []
        for size, c, k, s, p, d in zip(x.shape[-len(kernel) :], counts, kernel, stride, padding, dilation, strict=True):
            widths.append((p, max((c - 1) * s + d * (k - 1) + 1 - size - p, 0)))
        x = self.xp.pad(x, [(0, 0)] * (x.ndim - n) + widths, constant_values=self._as(filler, x.dtype))
        return self._picked(x, counts, kernel, stride, dilation)

    def _picked(self, x: Any, counts: Any, kernel: Any, stride: Any, dilation: Any) -> Any:
        """So many windows of x on each axis."""
        n, index = len(kernel), []
        for i, (c, k, s, d) in enumerate(zip(counts, kernel, stride, dilation, strict=True)):
            places = np.arange(c)[:, None] * s + np.arange(k) * d
            shape = [1] * (2 * n)
            shape[i], shape[n + i] = places.shape
            index.append(places.reshape(shape))
        return x[(..., *index)]

    def _settings(self, n: int, kernel: Any, stride: Any, padding: Any, dilation: Any = 1) -> list[tuple[int, ...]]:
        stride = kernel if stride in ((), [], None) else stride
        return [per_axis(each, n) for each in (kernel, stride, padding, dilation)]

    def _least(self, x: Any) -> Any:
        return np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -math.inf

    def _max_pool(self, n: int, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
        windows = self._windows(x, self._settings(n, kernel, stride, padding, dilation), ceil_mode, self._least(x))
        return self.xp.max(windows, axis=tuple(range(-n, 0)))

    def max_pool1d(
        self, x: Any, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
    ) -> Any:
        return self._max_pool(1, x, kernel, stride, padding, dilation, ceil_mode)

    def max_pool2d(
        self, x: Any, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
    ) -> Any:
        return self._max_pool(2, x, kernel, stride, padding, dilation, ceil_mode)

    def max_pool3d(
        self, x: Any, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
    ) -> Any:
        return self._max_pool(3, x, kernel, stride, padding, dilation, ceil_mode)

    def max_pool2d_with_indices(
        self, x: Any, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
    ) -> Any:
        settings = self._settings(2, kernel, stride, padding, dilation)
        windows = self._windows(x, settings, ceil_mode, self._least(x))
        flat = self.xp.reshape(windows, (*windows.shape[:-2], -1))
        places = self.xp.asarray(np.arange(math.prod(x.shape[-2:])).reshape(x.shape[-2:]))
        places = self._windows(places, settings, ceil_mode, -1)
        places = self.xp.broadcast_to(self.xp.reshape(places, (*places.shape[:-2], -1)), flat.shape)
        at = self.xp.argmax(self.xp.where(places < 0, self._as(self._least(x), x.dtype), flat), axis=-1)[..., None]
        picked = (self.xp.take_along_axis(each, at, axis=-1)[..., 0] for each in (flat, places))
        return tuple(picked)

    def _flat_put(self, gradient: Any, shape: Any, indices: Any) -> Any:
        """Zeros in a shape, to which the gradient is added at flat indices of the last two axes."""
        rows = math.prod(shape[:-2])
        zeros = self.xp.zeros((rows, math.prod(shape[-2:])), dtype=gradient.dtype)
        out = self._put(
            zeros,
            (np.arange(rows)[:, None], self.xp.reshape(indices, (rows, -1))),
            self.xp.reshape(gradient, (rows, -1)),
            "add",
        )
        return self.xp.reshape(out, shape)

    def _put(self, x: Any, index: Any, value: Any, how: str = "set") -> Any:
        raise NotImplementedError

    def max_pool2d_backward(
        self,
        gradient: Any,
        x: Any,
        kernel: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        ceil_mode: bool,
        indices: Any,
    ) -> Any:
        return self._flat_put(gradient, x.shape, indices)

    def adaptive_max_pool2d_backward(self, gradient: Any, x: Any, indices: Any) -> Any:
        return self._flat_put(gradient, x.shape, indices)

    def _means(self, size: int, k: int, s: int, p: int, count: int, inner: bool) -> tuple[Any, Any]:
        """For an axis the matrix that sums windows, and how many elements each has: inner ones, or with padding."""
        starts = np.arange(count) * s - p
        ends = np.minimum(starts + k, size + p)
        within = np.arange(size)
        matrix = (within >= starts[:, None]) & (within < ends[:, None])
        return matrix, (np.minimum(ends, size) - np.maximum(starts, 0)) if inner else ends - starts

    def _averages(
        self, shape: Any, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, include: bool, divisor: Any
    ) -> tuple[list[Any], Any]:
        """For each axis the matrix that sums windows, and what the sums are divided by."""
        like = np.empty((0, *shape[-len(kernel) :]))
        counts = self._counts(like, kernel, stride, padding, (1,) * len(kernel), ceil_mode)
        axes = zip(like.shape[1:], kernel, stride, padding, counts, strict=True)
        found = [self._means(*each, not include) for each in axes]
        number = math.prod(np.meshgrid(*(n for _, n in found), indexing="ij"), start=np.array(1))
        return [matrix for matrix, _ in found], np.full_like(number, divisor) if divisor else number

    def _along(self, x: Any, matrices: Any) -> Any:
        """The product of each of the last axes with its matrix."""
        for i, matrix in enumerate(matrices):
            axis = x.ndim - len(matrices) + i
            product = self._matmul(self.xp.moveaxis(x, axis, -1), self._as(matrix.T, x.dtype))
            x = self.xp.moveaxis(product, -1, axis)
        return x

    def avg_pool2d(
        self,
        x: Any,
        kernel: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor: int | None = None,
        n: int = 2,
    ) -> Any:
        kernel, stride, padding, _ = self._settings(n, kernel, stride, padding)
        sums, number = self._averages(x.shape, kernel, stride, padding, ceil_mode, count_include_pad, divisor)
        return self._along(x, sums) / self._as(number, x.dtype)

    def avg_pool1d(
        self,
        x: Any,
        kernel: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Any:
        return self.avg_pool2d(x, kernel, stride, padding, ceil_mode, count_include_pad, None, 1)

    def avg_pool3d(
        self,
        x: Any,
        kernel: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor: int | None = None,
    ) -> Any:
        return self.avg_pool2d(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor, 3)

    def avg_pool2d_backward(
        self,
        gradient: Any,
        x: Any,
        kernel: Any,
        stride: Any,
        padding: Any,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor: int | None,
    ) -> Any:
        kernel, stride, padding, _ = self._settings(2, kernel, stride, padding)
        sums, number = self._averages(x.shape, kernel, stride, padding, ceil_mode, count_include_pad, divisor)
        return self._along(gradient / self._as(number, gradient.dtype), [each.T for each in sums])

    def _spans(self, size: int, count: int | None) -> list[tuple[int, int]]:
        """Start and end of each adaptive window of an axis."""
        count = size if count is None else count
        return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]

    def _adaptive(self, sizes: Any, counts: Any) -> list[Any]:
        """For each axis the matrix that takes the mean of its adaptive windows."""
        matrices = []
        for size, count in zip(sizes, counts, strict=True):
            spans = self._spans(size, count)
            within = np.arange(size)
            rows = [((within >= start) & (within < end)) / (end - start) for start, end in spans]
            matrices.append(np.array(rows).reshape(len(spans), size))
        return matrices

    def adaptive_avg_pool1d(self, x: Any, shape: Any) -> Any:
        shape = as_tuple(shape)
        return self._along(x, self._adaptive(x.shape[-len(shape) :], shape))

    def adaptive_avg_pool2d(self, x: Any, shape: Any) -> Any:
        return self.adaptive_avg_pool1d(x, per_axis(shape, 2))

    def adaptive_avg_pool3d(self, x: Any, shape: Any) -> Any:
        return self.adaptive_avg_pool1d(x, per_axis(shape, 3))

    def adaptive_avg_pool2d_backward(self, gradient: Any, x: Any) -> Any:
        return self._along(gradient, [each.T for each in self._adaptive(x.shape[-2:], gradient.shape[-2:])])

    def adaptive_max_pool1d(self, x: Any, shape: Any) -> Any:
        shape = as_tuple(shape)
        sizes = x.shape[-len(shape) :]
        places = np.arange(math.prod(sizes)).reshape(sizes)
        values, indices = [], []
        for spans in itertools.product(*map(self._spans, sizes, shape)):
            window = tuple(slice(start, end) for start, end in spans)
            flat = self.xp.reshape(x[(..., *window)], (*x.shape[: -len(shape)], -1))
            at = self.xp.argmax(flat, axis=-1)
            values.append(self.xp.take_along_axis(flat, at[..., None], axis=-1)[..., 0])
            indices.append(self.xp.asarray(places[window].reshape(-1))[at])
        full = (*x.shape[: -len(shape)], *(len(self._spans(*each)) for each in zip(sizes, shape, strict=True)))
        return tuple(self.xp.reshape(self.xp.stack(each, axis=-1), full) for each in (values, indices))

    def adaptive_max_pool2d(self, x: Any, shape: Any) -> Any:
        return self.adaptive_max_pool1d(x, per_axis(shape, 2))

    def im2col(self, x: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
        settings = self._settings(2, kernel, stride, padding, dilation)
        windows = self._windows(x, settings, False, 0)
        n = x.ndim - 2
        columns = self.xp.transpose(windows, (*range(n), n + 2, n + 3, n, n + 1))
        return self.xp.reshape(columns, (*x.shape[: n - 1], x.shape[n - 1] * math.prod(settings[0]), -1))


def _interpolation(kind: str, size: int, count: int, align_corners: bool, scale: float | None) -> Any:
    """The matrix (count, size) that interpolates an axis: 'nearest', 'linear' or 'cubic'."""
    ratio = 1 / scale if scale else size / count
    if kind == "nearest":
        nearest = np.minimum(
            np.floor(np.arange(count, dtype=np.float32) * np.float32(ratio)).astype(np.int64), size - 1
        )
        return np.eye(size)[nearest]
    if align_corners:
        at = np.arange(count) * ((size - 1) / (count - 1) if count > 1 else 0.0)
    else:
        at = (np.arange(count) + 0.5) * ratio - 0.5
        at = np.maximum(at, 0) if kind == "linear" else at
    low = np.floor(at).astype(np.int64)
    part = at - low
    if kind == "linear":
        weights = {0: 1 - part, 1: part}
    else:
        a = -0.75
        near = [((a + 2) * t - (a + 3)) * t * t + 1 for t in (part, 1 - part)]
        far = [((a * t - 5 * a) * t + 8 * a) * t - 4 * a for t in (part + 1, 2 - part)]
        weights = {-1: far[0], 0: near[0], 1: near[1], 2: far[1]}
    matrix = np.zeros((count, size))
    for step, weight in weights.items():
        np.add.at(matrix, (np.arange(count), np.clip(low + step, 0, size - 1)), weight)
    return matrix


class Resampling(Pooling):
    """Forms of interpolation."""

    def _matrices(self, kind: str, sizes: Any, counts: Any, corners: bool, scales: Any) -> list[Any]:
        each = zip(sizes, counts, scales or (None,) * len(sizes), strict=True)
        return [_interpolation(kind, size, count, corners, scale) for size, count, scale in each]

    def _resampled(self, kind: str, x: Any, shape: Any, corners: bool, scale: Any) -> Any:
        sizes = x.shape[2:]
        counts = [math.floor(n * s) for n, s in zip(sizes, scale, strict=True)] if shape is None else shape
        matrices = self._matrices(kind, sizes, counts, corners, scale)
        if kind != "nearest":
            return self._along(x, matrices)
        index = np.ix_(*(matrix.argmax(axis=1) for matrix in matrices))
        return x[(..., *index)]

    def upsample_nearest(self, x: Any, shape: Any = None, scale: Any = None) -> Any:
        return self._resampled("nearest", x, shape, False, scale)

    def upsample_nearest2d(self, x: Any, shape: Any, scale_h: Any = None, scale_w: Any = None) -> Any:
        return self._resampled("nearest", x, shape, False, (scale_h, scale_w))

    def upsample_linear(self, x: Any, shape: Any, align_corners: bool = False, scale: Any = None) -> Any:
        return self._resampled("linear", x, shape, align_corners, scale)

    def upsample_bilinear2d(
        self, x: Any, shape: Any, align_corners: bool = False, scale_h: Any = None, scale_w: Any = None
    ) -> Any:
        return self._resampled("linear", x, shape, align_corners, (scale_h, scale_w))

    def upsample_bicubic(self, x: Any, shape: Any, align_corners: bool = False, scale: Any = None) -> Any:
        return self._resampled("cubic", x, shape, align_corners, scale)

    def _returned(self, kind: str, gradient: Any, sizes: Any, counts: Any, corners: bool, scales: Any) -> Any:
        """The gradient of an interpolation for images of these sizes, which made so many of each axis."""
        matrices = self._matrices(kind, sizes, counts, corners, scales)
        return self._along(gradient, [matrix.T for matrix in matrices])

    def upsample_nearest2d_backward(
        self, gradient: Any, shape: Any, input_shape: Any, scale_h: Any = None, scale_w: Any = None
    ) -> Any:
        return self._returned("nearest", gradient, input_shape[2:], shape, False, (scale_h, scale_w))

    def upsample_bilinear2d_backward(
        self, gradient: Any, shape: Any, input_shape: Any, align_corners: bool, scale_h: Any = None, scale_w: Any = None
    ) -> Any:
        return self._returned("linear", gradient, input_shape[2:], shape, align_corners, (scale_h, scale_w))
