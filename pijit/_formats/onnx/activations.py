"""Forms in ONNX of activations. ONNX has operators for most of them, in float32; other dtypes are computed in parts."""

import math
from typing import Any

from pijit._formats.onnx import elementwise
from pijit._formats.onnx.builder import Builder
from pijit._formats.onnx.types import is_floating

_HALF = math.sqrt(0.5)
_TANH = math.sqrt(2 / math.pi)


def relu(o: Builder, x: Any) -> Any:
    return o.Relu(x) if is_floating(x.dtype) else o.arithmetic("Max", x, 0)


def gelu(o: Builder, x: Any, approximate: str = "none") -> Any:
    if x.dtype == "float32":
        return o.Gelu(x, approximate=approximate)
    if approximate == "tanh":
        return x * 0.5 * (o.Tanh((x + x * x * x * 0.044715) * _TANH) + 1.0)
    return x * 0.5 * (o.Erf(x * _HALF) + 1.0)


def silu(o: Builder, x: Any) -> Any:
    return o.Mul(x, o.Sigmoid(x))


def sigmoid(o: Builder, x: Any) -> Any:
    return o.Sigmoid(elementwise.floating(o, x))


def hardswish(o: Builder, x: Any) -> Any:
    return o.HardSwish(x) if x.dtype == "float32" else x * (elementwise.clip(o, x + 3, 0, 6) * (1 / 6))


def leaky_relu(o: Builder, x: Any, slope: Any = 0.01) -> Any:
    if x.dtype == "float32" and isinstance(slope, int | float):
        return o.LeakyRelu(x, alpha=float(slope))
    return o.Where(o.Greater(x, 0), x, x * slope)


def elu(o: Builder, x: Any, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Any:
    if x.dtype == "float32" and scale == input_scale == 1:
        return o.Elu(x, alpha=float(alpha))
    below = elementwise.expm1(o, elementwise.scaled(o, o.Min(x, 0), input_scale)) * alpha
    return elementwise.scaled(o, o.Where(o.Greater(x, 0), x, below), scale)


def by_channel(o: Builder, weight: Any, x: Any) -> Any:
    """A vector of one number a channel, so that it broadcasts with x."""
    if weight.rank == 1 and x.rank > 2 and weight.shape != (1,):
        return o.reshape(weight, (-1, *(1,) * (x.rank - 2)))
    return weight


def halves(o: Builder, x: Any, axis: int) -> Any:
    """The two halves along an axis."""
    axis = o.axis(x, axis)
    size = x.shape[axis]
    if isinstance(size, int):
        parts = o.Split(x, o.ints((size // 2, size // 2)), outputs=2, axis=axis)
        half: Any = size // 2
    else:
        parts = o.Split(x, outputs=2, axis=axis, num_outputs=2)
        half = None
    for part in parts:
        part.shape = tuple(half if at == axis else dim for at, dim in enumerate(x.shape))
    return parts


def _softmax(o: Builder, kind: str, x: Any, axis: int, dtype: Any) -> Any:
    x = o.cast(x, str(dtype)) if dtype is not None else x
    if x.rank == 0:
        return o.reshape(_softmax(o, kind, o.reshape(x, (1,)), 0, None), ())
    return o.add(kind, x, axis=o.axis(x, axis))


def softmax(o: Builder, x: Any, axis: int, dtype: Any = None) -> Any:
    return _softmax(o, "Softmax", x, axis, dtype)


def log_softmax(o: Builder, x: Any, axis: int, dtype: Any = None) -> Any:
    return _softmax(o, "LogSoftmax", x, axis, dtype)
