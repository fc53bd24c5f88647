"""Forms in ONNX of convolution, pooling, and images in another size."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pijit._formats.onnx import numbers
from pijit._formats.onnx.arrays import merged, pad
from pijit._formats.onnx.builder import Builder
from pijit._formats.onnx.reductions import argmax, indices, max_
from pijit._formats.onnx.types import is_floating


def tuple_of(value: Any, count: int) -> tuple[Any, ...]:
    """One number for each axis."""
    items = tuple(value) if isinstance(value, tuple | list) else (value,)
    return items * count if len(items) == 1 else items


def _batched(o: Builder, x: Any, axes: int) -> tuple[Any, bool]:
    """x with a batch axis; whether it had one."""
    return (x, True) if x.rank == axes + 2 else (o.unsqueeze(x, 0), False)


def _restored(o: Builder, x: Any, batched: bool) -> Any:
    return x if batched else o.squeeze(x, 0)


def convolve(o: Builder, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """A convolution over all axes but the first two of the weight."""
    count = weight.rank - 2
    x, batched = _batched(o, x, count)
    kernel = weight.shape[2:]
    strides, dilations = tuple_of(stride, count), tuple_of(dilation, count)
    if padding == "same":
        total = [d * (k - 1) for d, k in zip(dilations, kernel, strict=True)]
        pads = [*(each // 2 for each in total), *(each - each // 2 for each in total)]
    else:
        pads = [*tuple_of(0 if padding == "valid" else padding, count)] * 2
    known = [isinstance(size, int) and isinstance(k, int) for size, k in zip(x.shape[2:], kernel, strict=True)]
    sizes = [
        (x.shape[2 + at] + pads[at] + pads[count + at] - dilations[at] * (kernel[at] - 1) - 1) // strides[at] + 1
        if known[at]
        else None
        for at in range(count)
    ]
    operands = (x, weight) if bias is None else (x, weight, bias)
    made = o.Conv(
        *operands,
        strides=strides,
        pads=pads,
        dilations=dilations,
        group=groups,
        kernel_shape=tuple(kernel) if all(isinstance(k, int) for k in kernel) else None,
        shape=(x.shape[0], weight.shape[0], *sizes),
    )
    return _restored(o, made, batched)


def _conv(
    o: Builder,
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    return convolve(o, x, weight, bias, stride, padding, dilation, groups)


conv1d = conv2d = conv3d = _conv


def conv_transpose(
    o: Builder,
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """A transposed convolution over all axes but the first two of the weight."""
    count = weight.rank - 2
    x, batched = _batched(o, x, count)
    kernel = weight.shape[2:]
    strides, dilations = tuple_of(stride, count), tuple_of(dilation, count)
    pads, more = tuple_of(padding, count), tuple_of(output_padding, count)
    sizes = [
        (size - 1) * strides[at] - 2 * pads[at] + dilations[at] * (kernel[at] - 1) + more[at] + 1
        if isinstance(size, int)
        else None
        for at, size in enumerate(x.shape[2:])
    ]
    operands = (x, weight) if bias is None else (x, weight, bias)
    made = o.ConvTranspose(
        *operands,
        strides=strides,
        pads=pads * 2,
        dilations=dilations,
        group=groups,
        output_padding=more,
        kernel_shape=tuple(kernel),
        shape=(x.shape[0], weight.shape[1] * groups, *sizes),
    )
    return _restored(o, made, batched)


conv_transpose1d = conv_transpose2d = conv_transpose3d = conv_transpose


def convolution(
    o: Builder,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Any:
    if transposed:
        return conv_transpose(o, x, weight, bias, stride, padding, output_padding, groups, dilation)
    return convolve(o, x, weight, bias, stride, padding, dilation, groups)


# ---- Pooling


def _pool_sizes(
    o: Builder, x: Any, kernel: Any, strides: Any, pads: Any, dilations: Any, ceil_mode: bool
) -> tuple[list[Any], list[int]]:
    """Sizes of the result, and how much longer the padding behind has to be where they are rounded up."""
    sizes: list[Any] = []
    more = []
    for size, k, s, p, d in zip(x.shape[2:], kernel, strides, pads, dilations, strict=True):
        if not isinstance(size, int):
            sizes.append(None)
            more.append(0)
            continue
        reach = d * (k - 1) + 1
        count = (size + 2 * p - reach) // s + 1
        if ceil_mode:
            count = -((size + 2 * p - reach) // -s) + 1
            # The last window has to begin inside the array or the padding before it.
            if (count - 1) * s >= size + p:
                count -= 1
        sizes.append(count)
        more.append(max((count - 1) * s + reach - size - 2 * p, 0))
    return sizes, more


def _max_pool(
    o: Builder, axes: int, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, outputs: int
) -> Any:
    x, batched = _batched(o, x, axes)
    kernel = tuple_of(kernel, axes)
    strides = tuple_of(stride, axes) if stride not in ((), []) else kernel
    pads, dilations = tuple_of(padding, axes), tuple_of(dilation, axes)
    sizes, more = _pool_sizes(o, x, kernel, strides, pads, dilations, ceil_mode)

    def pooled(array: Any, outputs: int) -> Any:
        return o.MaxPool(
            array,
            outputs=outputs,
            kernel_shape=kernel,
            strides=strides,
            pads=(*pads, *(p + m for p, m in zip(pads, more, strict=True))),
            dilations=dilations if any(each != 1 for each in dilations) else None,
            ceil_mode=int(ceil_mode and None in sizes) or None,
            shape=(*x.shape[:2], *sizes),
        )

    def exact(values: Any) -> Any:
        """Runtimes pass over NaN and -infinity: a pool of its own finds windows that have a NaN, or nothing else."""
        if not is_floating(x.dtype):
            return values
        kinds = o.Where(o.IsNaN(x), o.const(2.0, "float32"), o.cast(o.Greater(x, -math.inf), "float32"))
        kinds = pooled(kinds, 1)
        values = o.where(o.Greater(kinds, 0.5), values, -math.inf)
        return o.where(o.Greater(kinds, 1.5), math.nan, values)

    if outputs == 1:
        return _restored(o, exact(pooled(x, 1)), batched)
    values, places = pooled(o.where(o.IsNaN(x), math.inf, x), 2)
    places.dtype, places.shape = "int64", values.shape
    area = numbers.scalar_multiply(o, o.size(x, 2), o.size(x, 3))
    # ONNX counts through the whole array, torch through one channel of one image.
    places = o.Mod(places, o.cast(area, "int64"))
    return _restored(o, exact(values), batched), _restored(o, places, batched)


def max_pool1d(
    o: Builder, x: Any, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Any:
    return _max_pool(o, 1, x, kernel, stride, padding, dilation, ceil_mode, 1)


def max_pool2d(
    o: Builder, x: Any, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Any:
    return _max_pool(o, 2, x, kernel, stride, padding, dilation, ceil_mode, 1)


def max_pool3d(
    o: Builder, x: Any, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Any:
    return _max_pool(o, 3, x, kernel, stride, padding, dilation, ceil_mode, 1)


def max_pool2d_with_indices(
    o: Builder, x: Any, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Any:
    return _max_pool(o, 2, x, kernel, stride, padding, dilation, ceil_mode, 2)


def _sum_pool(o: Builder, x: Any, kernel: Any, strides: Any, sizes: Any) -> Any:
    mean = o.AveragePool(x, kernel_shape=kernel, strides=strides, shape=(*x.shape[:2], *sizes))
    return o.Mul(mean, float(math.prod(kernel)))


def _avg_pool(
    o: Builder,
    axes: int,
    x: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: Any,
) -> Any:
    own = x.dtype
    x, batched = _batched(o, o.cast(x, "float32"), axes)
    kernel = tuple_of(kernel, axes)
    strides = tuple_of(stride, axes) if stride not in ((), []) else kernel
    pads = tuple_of(padding, axes)
    sizes, more = _pool_sizes(o, x, kernel, strides, pads, (1,) * axes, ceil_mode)
    shape = (*x.shape[:2], *sizes)
    if not any(more) and divisor is None:
        made = o.AveragePool(
            x,
            kernel_shape=kernel,
            strides=strides,
            pads=pads * 2,
            count_include_pad=int(count_include_pad),
            ceil_mode=int(ceil_mode and None in sizes) or None,
            shape=shape,
        )
        return _restored(o, o.cast(made, own), batched)
    inner = [each for p in reversed(pads) for each in (p, p)]
    outer = [each for m in reversed(more) for each in (0, m)]
    total = _sum_pool(o, pad(o, pad(o, x, inner), outer), kernel, strides, sizes)
    if divisor is not None:
        return _restored(o, o.cast(o.Div(total, float(divisor)), own), batched)
    ones = o.const(np.ones((1, 1, *x.shape[2:])), "float32")
    ones = pad(o, pad(o, ones, inner, value=float(count_include_pad)), outer)
    made = o.Div(total, _sum_pool(o, ones, kernel, strides, sizes))
    return _restored(o, o.cast(made, own), batched)


def avg_pool1d(
    o: Builder,
    x: Any,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    return _avg_pool(o, 1, x, kernel, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    o: Builder,
    x: Any,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor: Any = None,
) -> Any:
    return _avg_pool(o, 2, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor)


def avg_pool3d(
    o: Builder,
    x: Any,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor: Any = None,
) -> Any:
    return _avg_pool(o, 3, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor)


def averaging(o: Builder, size: Any, count: int, dtype: str) -> Any:
    """A matrix (size, count) that gives the means of `count` windows that cover an axis."""
    if isinstance(size, int):
        matrix = np.zeros((size, count))
        for at in range(count):
            first, last = at * size // count, -(-(at + 1) * size // count)
            matrix[first:last, at] = 1 / (last - first)
        return o.const(matrix, dtype)
    whole, steps = o.cast(size, "int64"), indices(o, count)
    first = o.Div(o.Mul(steps, whole), count)
    last = o.Div(o.Add(o.Mul(o.Add(steps, 1), whole), count - 1), count)
    places = o.unsqueeze(indices(o, size), 1)
    inside = o.And(o.GreaterOrEqual(places, first), o.Less(places, last))
    return o.Div(o.cast(inside, dtype), o.cast(o.Sub(last, first), dtype))


def _adaptive_avg_pool(o: Builder, axes: int, x: Any, shape: Any) -> Any:
    lead = x.rank - axes
    wanted = [None if each is None else o.plain(each) for each in tuple_of(shape, axes)]
    if all(each == 1 for each in wanted):
        return o.reduce("ReduceMean", x, tuple(range(lead, x.rank)), True)
    for at, count in enumerate(wanted):
        axis = lead + at
        if count is None or count == x.shape[axis]:
            continue
        if not isinstance(count, int):
            o.unknown("the number of windows is not known", count)
        order = [*(each for each in range(x.rank) if each != axis), axis]
        mean = o.MatMul(o.transpose(x, order), averaging(o, o.size(x, axis), count, x.dtype))
        x = o.transpose(mean, [order.index(each) for each in range(x.rank)])
    return x


def adaptive_avg_pool1d(o: Builder, x: Any, shape: Any) -> Any:
    return _adaptive_avg_pool(o, 1, x, shape)


def adaptive_avg_pool2d(o: Builder, x: Any, shape: Any) -> Any:
    return _adaptive_avg_pool(o, 2, x, shape)


def adaptive_avg_pool3d(o: Builder, x: Any, shape: Any) -> Any:
    return _adaptive_avg_pool(o, 3, x, shape)


def _adaptive_max_pool(o: Builder, axes: int, x: Any, shape: Any) -> Any:
    lead = x.rank - axes
    spatial = x.shape[lead:]
    if not all(isinstance(size, int) for size in spatial):
        o.unknown("the sizes of the image have to be known", *spatial)
    wanted = [size if each is None else each for each, size in zip(tuple_of(shape, axes), spatial, strict=True)]
    places: list[Any] = []
    for at, (size, count) in enumerate(zip(spatial, wanted, strict=True)):
        bounds = [(each * size // count, -(-(each + 1) * size // count)) for each in range(count)]
        longest = max(last - first for first, last in bounds)
        # Shorter windows see their last element several times.
        places.append(np.array([[min(first + step, last - 1) for step in range(longest)] for first, last in bounds]))
        x = o.Gather(x, o.const(places[-1], "int64"), axis=lead + 2 * at)
    order = [*range(lead), *(lead + 2 * at for at in range(axes)), *(lead + 2 * at + 1 for at in range(axes))]
    x = merged(o, o.transpose(x, order), lead + axes, lead + 2 * axes, (math.prod(each.shape[1] for each in places),))
    flat: Any = 0
    for at, each in enumerate(places):
        form = [1] * (2 * axes)
        form[at], form[axes + at] = each.shape
        flat = flat * spatial[at] + each.reshape(form)
    flat = flat.reshape(*wanted, -1)
    best = argmax(o, x, -1, True)
    table = o.Expand(o.const(flat, "int64"), o.ints((*(1,) * x.rank,)))
    picked = o.GatherElements(o.Expand(table, o.shape(x)), best, axis=x.rank - 1)
    return max_(o, x, -1, False), o.squeeze(picked, x.rank - 1)


def adaptive_max_pool1d(o: Builder, x: Any, shape: Any) -> Any:
    return _adaptive_max_pool(o, 1, x, shape)


def adaptive_max_pool2d(o: Builder, x: Any, shape: Any) -> Any:
    return _adaptive_max_pool(o, 2, x, shape)


# ---- Images in another size


def _resize(o: Builder, x: Any, shape: Any, scales: Sequence[Any] | None, mode: str, align: bool, **more: Any) -> Any:
    """Resize over the last axes.

    Args:
        x: (batch, channels, ...).
        shape: the new sizes, or None.
        scales: how much longer each axis gets, or None.
        mode: of Resize.
        align: corners lie on corners.
        more: further attributes.
    """
    count = x.rank - 2
    if mode == "linear" and count == 1:
        # Runtimes interpolate images and volumes only.
        wide = o.unsqueeze(x, 2)
        shape = None if shape is None else (1, *shape)
        return o.squeeze(_resize(o, wide, shape, None if scales is None else (1.0, *scales), mode, align), 2)
    if scales is not None and any(each is None for each in scales):
        scales = None
    sizes: list[Any]
    if scales is not None:
        sizes = [int(size * s) if isinstance(size, int) else None for size, s in zip(x.shape[2:], scales, strict=True)]
        operands = (x, None, o.const([float(each) for each in scales], "float32"))
    else:
        sizes = [each if isinstance(each, int) else each.symbol for each in map(o.plain, shape)]
        operands = (x, None, None, o.ints(shape))  # type: ignore[assignment]
    coordinates = "align_corners" if align else more.pop("coordinates", "half_pixel")
    return o.Resize(
        *operands,
        mode=mode,
        axes=tuple(range(2, x.rank)),
        coordinate_transformation_mode=coordinates,
        shape=(*x.shape[:2], *sizes),
        **more,
    )


def upsample_nearest(o: Builder, x: Any, shape: Any = None, scale: Any = None) -> Any:
    return _resize(o, x, shape, scale, "nearest", False, coordinates="asymmetric", nearest_mode="floor")


def upsample_nearest2d(o: Builder, x: Any, shape: Any, scale_h: Any = None, scale_w: Any = None) -> Any:
    return upsample_nearest(o, x, shape, (scale_h, scale_w))


def upsample_linear(o: Builder, x: Any, shape: Any, align_corners: bool = False, scale: Any = None) -> Any:
    return _resize(o, x, shape, scale, "linear", align_corners)


def upsample_bilinear2d(
    o: Builder, x: Any, shape: Any, align_corners: bool = False, scale_h: Any = None, scale_w: Any = None
) -> Any:
    return upsample_linear(o, x, shape, align_corners, (scale_h, scale_w))


def upsample_bicubic(o: Builder, x: Any, shape: Any, align_corners: bool = False, scale: Any = None) -> Any:
    return _resize(o, x, shape, scale, "cubic", align_corners, cubic_coeff_a=-0.75)
