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


def relu6(o: Builder, x: Any) -> Any:
    return elementwise.clip(o, x, 0, 6)


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


def hardsigmoid(o: Builder, x: Any) -> Any:
    return elementwise.clip(o, x + 3, 0, 6) * (1 / 6)


def hardswish(o: Builder, x: Any) -> Any:
    return o.HardSwish(x) if x.dtype == "float32" else x * hardsigmoid(o, x)


def hardtanh(o: Builder, x: Any, min: Any = -1, max: Any = 1) -> Any:
    return o.cast(elementwise.clip(o, x, min, max), x.dtype)


def leaky_relu(o: Builder, x: Any, slope: Any = 0.01) -> Any:
    if x.dtype == "float32" and isinstance(slope, int | float):
        return o.LeakyRelu(x, alpha=float(slope))
    return o.Where(o.Greater(x, 0), x, x * slope)


def elu(o: Builder, x: Any, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Any:
    if x.dtype == "float32" and scale == input_scale == 1:
        return o.Elu(x, alpha=float(alpha))
    below = elementwise.expm1(o, elementwise.scaled(o, o.Min(x, 0), input_scale)) * alpha
    return elementwise.scaled(o, o.Where(o.Greater(x, 0), x, below), scale)


def selu(o: Builder, x: Any) -> Any:
    return elu(o, x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


def celu(o: Builder, x: Any, alpha: float = 1.0) -> Any:
    return elu(o, x, alpha, 1, 1 / alpha)


def softplus(o: Builder, x: Any, beta: Any = 1, threshold: Any = 20) -> Any:
    x_beta = elementwise.scaled(o, x, beta)
    made = elementwise.log1p(o, o.Exp(o.Neg(o.Abs(x_beta)))) + o.Max(x_beta, 0)
    made = made if beta == 1 else made / beta
    return o.Where(o.Greater(x_beta, threshold), x, made)


def mish(o: Builder, x: Any) -> Any:
    return o.Mul(x, o.Tanh(softplus(o, x)))


def by_channel(o: Builder, weight: Any, x: Any) -> Any:
    """A vector of one number a channel, so that it broadcasts with x."""
    if weight.rank == 1 and x.rank > 2 and weight.shape != (1,):
        return o.reshape(weight, (-1, *(1,) * (x.rank - 2)))
    return weight


def prelu(o: Builder, x: Any, weight: Any) -> Any:
    return o.Where(o.Greater(x, 0), x, x * by_channel(o, weight, x))


def threshold(o: Builder, x: Any, threshold: Any, value: Any) -> Any:
    return o.Where(o.compare("LessOrEqual", x, threshold), o.cast(value, x.dtype), x)


def softshrink(o: Builder, x: Any, lambd: float = 0.5) -> Any:
    nearer = o.Sub(x, o.Mul(o.Sign(x), lambd))
    return o.Where(o.LessOrEqual(o.Abs(x), lambd), o.const(0, x.dtype), nearer)


def hardshrink(o: Builder, x: Any, lambd: float = 0.5) -> Any:
    return o.Where(o.LessOrEqual(o.Abs(x), lambd), o.const(0, x.dtype), x)


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


def glu(o: Builder, x: Any, axis: int = -1) -> Any:
    first, second = halves(o, x, axis)
    return o.Mul(first, o.Sigmoid(second))


def _softmax(o: Builder, kind: str, x: Any, axis: int, dtype: Any) -> Any:
    x = o.cast(x, str(dtype)) if dtype is not None else x
    if x.rank == 0:
        return o.reshape(_softmax(o, kind, o.reshape(x, (1,)), 0, None), ())
    return o.add(kind, x, axis=o.axis(x, axis))


def softmax(o: Builder, x: Any, axis: int, dtype: Any = None) -> Any:
    return _softmax(o, "Softmax", x, axis, dtype)


def safe_softmax(o: Builder, x: Any, axis: int, dtype: Any = None) -> Any:
    made = softmax(o, x, axis, dtype)
    hidden = o.compare("Equal", o.reduce("ReduceMax", x, axis, True), -math.inf)
    return o.Where(hidden, o.const(0, made.dtype), made)


def log_softmax(o: Builder, x: Any, axis: int, dtype: Any = None) -> Any:
    return _softmax(o, "LogSoftmax", x, axis, dtype)


def logsigmoid(o: Builder, x: Any) -> Any:
    return o.Sub(o.Min(x, 0), elementwise.log1p(o, o.Exp(o.Neg(o.Abs(x)))))


def logit(o: Builder, x: Any, epsilon: Any = None) -> Any:
    x = elementwise.floating(o, x)
    if epsilon is not None:
        x = elementwise.clip(o, x, epsilon, 1 - epsilon)
    return o.Log(x / (1.0 - x))
