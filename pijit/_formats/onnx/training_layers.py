"""Forms in ONNX of the backward operators of layers: embedding, convolution, pooling, resizing, views, attention.

Where a gradient goes to places of an array, it is scattered into zeros and added up.
"""

from typing import Any

from pijit._formats.onnx.arrays import diagonal, unfold
from pijit._formats.onnx.builder import Builder
from pijit._formats.onnx.creation import filled
from pijit._formats.onnx.indexing import getitem, place_of_each, put


def weight_gradient(
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
