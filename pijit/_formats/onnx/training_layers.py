"""Forms in ONNX of the backward operators of layers: embedding, convolution, pooling, resizing, views, attention.

Where a gradient goes to places of an array, it is scattered into zeros and added up.
"""

from typing import Any

import numpy as np

from pijit._formats.onnx import elementwise, numbers
from pijit._formats.onnx.arrays import diagonal, unfold
from pijit._formats.onnx.builder import Builder
from pijit._formats.onnx.creation import filled
from pijit._formats.onnx.indexing import getitem, place_of_each, put
from pijit._formats.onnx.layers import repeated, scaling, scores_of
from pijit._formats.onnx.training import sum_to
from pijit._formats.onnx.windows import averaging, conv_transpose, convolve, tuple_of


def embedding_backward(
    o: Builder, gradient: Any, x: Any, rows: Any, padding_index: Any, scale_by_frequency: bool = False
) -> Any:
    width = o.size(gradient, gradient.rank - 1)
    if scale_by_frequency:
        flat = o.reshape(x, (-1,))
        ones = filled(o, o.shape(flat), 1, gradient.dtype)
        counts = o.ScatterElements(filled(o, o.ints((rows,)), 0, gradient.dtype), flat, ones, axis=0, reduction="add")
        gradient = o.Div(gradient, o.unsqueeze(o.Gather(counts, x, axis=0), x.rank))
    places = o.reshape(x, (-1, 1))
    if not isinstance(padding_index, int) or padding_index >= 0:
        gradient = o.where(o.unsqueeze(o.compare("Equal", x, padding_index), x.rank), 0, gradient)
    zeros = filled(o, o.ints((rows, width)), 0, gradient.dtype)
    return o.ScatterND(zeros, o.cast(places, "int64"), o.reshape(gradient, (-1, width)), reduction="add")


def _weight_gradient(
    o: Builder, x: Any, gradient: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    """Of a convolution: x convolved with the gradient, where the batch is what is summed over."""
    count = x.rank - 2
    parts = o.Reshape(x, o.ints((0, groups, -1, *(o.size(x, 2 + at) for at in range(count)))))
    parts = o.transpose(parts, (2, 1, 0, *range(3, 3 + count)))
    images = o.Reshape(parts, o.ints((0, -1, *(o.size(x, 2 + at) for at in range(count)))))
    filters = o.transpose(gradient, (1, 0, *range(2, 2 + count)))
    made = o.Conv(
        images,
        filters,
        strides=dilation,
        dilations=stride,
        pads=padding * 2,
        group=groups,
        shape=(None, gradient.shape[1], *(None,) * count),
    )
    # Strides leave out what is behind the last window, so the result may be longer than the kernel.
    cut = (slice(None), slice(None), *(slice(0, each) for each in kernel))
    return o.transpose(getitem(o, made, cut), (1, 0, *range(2, 2 + count)))


def convolution_backward(
    o: Builder,
    gradient: Any,
    x: Any,
    weight: Any,
    bias_shape: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    mask: Any,
) -> Any:
    count = x.rank - 2
    stride, padding, dilation = (tuple_of(each, count) for each in (stride, padding, dilation))
    kernel = weight.shape[2:]
    for_x = for_weight = None
    if mask[0] and transposed:
        for_x = convolve(o, gradient, weight, None, stride, padding, dilation, groups)
    elif mask[0]:
        sizes = (x.shape[2:], gradient.shape[2:])
        if not all(isinstance(size, int) for part in sizes for size in part):
            o.fail("the gradient of a convolution needs sizes that are known")
        more = tuple(
            size - ((made - 1) * s - 2 * p + d * (k - 1) + 1)
            for size, made, s, p, d, k in zip(*sizes, stride, padding, dilation, kernel, strict=True)
        )
        for_x = conv_transpose(o, gradient, weight, None, stride, padding, more, groups, dilation)
    if mask[1]:
        images, filters = (gradient, x) if transposed else (x, gradient)
        for_weight = _weight_gradient(o, images, filters, kernel, stride, padding, dilation, groups)
    return for_x, for_weight, sum_to(o, gradient, 0, *range(2, x.rank)) if mask[2] else None


def _scattered(o: Builder, gradient: Any, x: Any, places: Any) -> Any:
    """The gradient of a pool that took the element at a place of each flat image."""
    lead = x.rank - 2
    height, width = (o.size(x, lead + at) for at in range(2))
    flat = filled(o, o.shape(x), 0, gradient.dtype)
    keep = (0,) * lead
    flat, places, gradient = (o.Reshape(each, o.ints((*keep, -1))) for each in (flat, places, gradient))
    made = o.ScatterElements(flat, places, gradient, axis=lead, reduction="add")
    return o.Reshape(made, o.ints((*keep, height, width)))


def max_pool2d_backward(
    o: Builder,
    gradient: Any,
    x: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    indices: Any,
) -> Any:
    return _scattered(o, gradient, x, indices)


def adaptive_max_pool2d_backward(o: Builder, gradient: Any, x: Any, indices: Any) -> Any:
    return _scattered(o, gradient, x, indices)


def _along(o: Builder, x: Any, axis: int, matrix: Any) -> Any:
    """Each row along an axis times a matrix."""
    order = [*(each for each in range(x.rank) if each != axis), axis]
    made = o.MatMul(o.transpose(x, order), matrix)
    return o.transpose(made, [order.index(each) for each in range(x.rank)])


def adaptive_avg_pool2d_backward(o: Builder, gradient: Any, x: Any) -> Any:
    for axis in (x.rank - 2, x.rank - 1):
        count = gradient.shape[axis]
        if not isinstance(count, int):
            o.fail("the number of windows is not known")
        matrix = averaging(o, o.size(x, axis), count, gradient.dtype)
        gradient = _along(o, gradient, axis, o.transpose(matrix, (1, 0)))
    return gradient


def avg_pool2d_backward(
    o: Builder,
    gradient: Any,
    x: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: Any,
) -> Any:
    lead = x.rank - 2
    kernel, padding = tuple_of(kernel, 2), tuple_of(padding, 2)
    stride = tuple_of(stride, 2) if stride not in ((), []) else kernel
    factor: Any = 1.0
    for at in range(2):
        axis = lead + at
        size, count = x.shape[axis], gradient.shape[axis]
        if not isinstance(size, int) or not isinstance(count, int):
            o.fail("the gradient of a pool needs sizes that are known")
        inside, lengths = np.zeros((count, size)), np.zeros(count)
        for each in range(count):
            first = each * stride[at] - padding[at]
            last = min(first + kernel[at], size + padding[at])
            low, high = max(first, 0), min(last, size)
            inside[each, low:high] = 1
            lengths[each] = last - first if count_include_pad else high - low
        gradient = _along(o, gradient, axis, o.const(inside / (1 if divisor else lengths[:, None]), gradient.dtype))
    if divisor:
        factor = 1 / divisor
    return elementwise.scaled(o, gradient, factor)


def _linear_matrix(old: int, new: int, align: bool, scale: Any) -> np.ndarray[Any, Any]:
    """(new, old): how much each old place gives to each new one."""
    matrix = np.zeros((new, old))
    if align:
        step = (old - 1) / (new - 1) if new > 1 else 0.0
    else:
        step = 1 / scale if scale else old / new
    for at in range(new):
        place = at * step if align else max((at + 0.5) * step - 0.5, 0.0)
        low = min(int(place), old - 1)
        high, rest = min(low + 1, old - 1), place - low
        matrix[at, low] += 1 - rest
        matrix[at, high] += rest
    return matrix


def _nearest_matrix(old: int, new: int, scale: Any) -> np.ndarray[Any, Any]:
    matrix = np.zeros((new, old))
    step = np.float32(1 / scale if scale else old / new)
    for at in range(new):
        matrix[at, min(int(np.float32(at) * step), old - 1)] = 1
    return matrix


def _resized_backward(o: Builder, gradient: Any, shape: Any, input_shape: Any, make: Any) -> Any:
    sizes = [o.plain(each) for each in (*shape[-2:], *input_shape[-2:])]
    if not all(isinstance(each, int) for each in sizes):
        o.fail("the gradient of an image in another size needs sizes that are known")
    for at in range(2):
        matrix = make(at, sizes[2 + at], sizes[at])
        gradient = _along(o, gradient, gradient.rank - 2 + at, o.const(matrix, gradient.dtype))
    return gradient


def upsample_nearest2d_backward(
    o: Builder, gradient: Any, shape: Any, input_shape: Any, scale_h: Any = None, scale_w: Any = None
) -> Any:
    scales = (scale_h, scale_w)
    return _resized_backward(
        o, gradient, shape, input_shape, lambda at, old, new: _nearest_matrix(old, new, scales[at])
    )


def upsample_bilinear2d_backward(
    o: Builder,
    gradient: Any,
    shape: Any,
    input_shape: Any,
    align_corners: bool,
    scale_h: Any = None,
    scale_w: Any = None,
) -> Any:
    scales = (scale_h, scale_w)

    def make(at: int, old: int, new: int) -> Any:
        return _linear_matrix(old, new, align_corners, scales[at])

    return _resized_backward(o, gradient, shape, input_shape, make)


# ---- Views: zeros, and the gradient where the view was


def _viewed(o: Builder, gradient: Any, shape: Any, view: Any, accumulate: bool = False) -> Any:
    zeros = filled(o, o.ints(shape), 0, gradient.dtype)
    return put(o, zeros, view(place_of_each(o, zeros)), gradient, accumulate)


def select_backward(o: Builder, gradient: Any, shape: Any, axis: int, index: Any) -> Any:
    axis %= len(shape)
    return _viewed(o, gradient, shape, lambda places: getitem(o, places, (*(slice(None),) * axis, index)))


def slice_backward(o: Builder, gradient: Any, shape: Any, axis: int, start: Any, stop: Any, step: Any) -> Any:
    axis %= len(shape)
    cut = (*(slice(None),) * axis, slice(start, stop, step))
    return _viewed(o, gradient, shape, lambda places: getitem(o, places, cut))


def diagonal_backward(o: Builder, gradient: Any, shape: Any, offset: int, axis1: int, axis2: int) -> Any:
    return _viewed(o, gradient, shape, lambda places: diagonal(o, places, offset, axis1, axis2))


def unfold_backward(o: Builder, gradient: Any, shape: Any, axis: int, size: Any, step: Any) -> Any:
    return _viewed(o, gradient, shape, lambda places: unfold(o, places, axis, size, step), accumulate=True)


# ---- Attention


def flash_attention_backward(
    o: Builder,
    gradient: Any,
    query: Any,
    key: Any,
    value: Any,
    y: Any,
    logsumexp: Any,
    dropout: float,
    is_causal: bool,
    mask: Any = None,
    scale: Any = None,
) -> Any:
    if dropout:
        o.fail("the gradient of attention with dropout")
    own, key, value = key, repeated(o, key, query), repeated(o, value, query)
    scores, _ = scores_of(o, query, key, mask, is_causal, scale)
    weights = o.Exp(scores - o.unsqueeze(logsumexp, logsumexp.rank))
    turned = [*range(query.rank - 2), query.rank - 1, query.rank - 2]
    for_value = o.MatMul(o.transpose(weights, turned), gradient)
    for_weights = o.MatMul(gradient, o.transpose(value, turned))
    average = o.reduce("ReduceSum", gradient * y, -1, True)
    for_scores = weights * (for_weights - average) * scaling(o, query, scale)
    for_key = o.MatMul(o.transpose(for_scores, turned), query)
    return o.MatMul(for_scores, key), _of_heads(o, for_key, own), _of_heads(o, for_value, own)


def _of_heads(o: Builder, gradient: Any, key: Any) -> Any:
    """The sum over the heads of queries that one head of keys or values serves."""
    axis = key.rank - 3
    heads = o.size(key, axis)
    times = numbers.scalar_floor_divide(o, o.size(gradient, axis), heads)
    if times == 1:
        return gradient
    sizes = [o.size(gradient, each) for each in range(gradient.rank)]
    return o.reduce(
        "ReduceSum", o.reshape(gradient, (*sizes[:axis], heads, times, *sizes[axis + 1 :])), axis + 1, False
    )
