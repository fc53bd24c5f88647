"""Forms in ONNX of the backward operators, and of forward ones that keep what those need.

ONNX has no gradients: each is written out. Where a gradient goes to places of an array (pooling, embedding, slices),
it is scattered into zeros and added up.
"""

import math
from typing import Any

from pijit._formats.onnx import elementwise
from pijit._formats.onnx.activations import by_channel, logsigmoid
from pijit._formats.onnx.arrays import reshape_as
from pijit._formats.onnx.builder import Builder
from pijit._formats.onnx.creation import filled
from pijit._formats.onnx.layers import chosen, dropped, statistics


def sum_to(o: Builder, x: Any, *axes: int) -> Any:
    """The sum over axes, which go."""
    return o.reduce("ReduceSum", x, axes, False) if axes else x


# ---- Activations


def threshold_backward(o: Builder, gradient: Any, x: Any, threshold: Any) -> Any:
    return o.Where(o.compare("LessOrEqual", x, threshold), o.const(0, gradient.dtype), gradient)


def gelu_backward(o: Builder, gradient: Any, x: Any, approximate: str = "none") -> Any:
    if approximate == "none":
        below = (o.Erf(x * math.sqrt(0.5)) + 1.0) * 0.5
        return gradient * (below + x * o.Exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi)))
    factor = math.sqrt(2 / math.pi)
    bent = o.Tanh((x + x * x * x * 0.044715) * factor)
    slope = (1.0 - bent * bent) * (x * x * (3 * 0.044715) + 1.0) * factor
    return gradient * ((bent + 1.0) * 0.5 + x * 0.5 * slope)


def silu_backward(o: Builder, gradient: Any, x: Any) -> Any:
    gate = o.Sigmoid(x)
    return gradient * gate * (x * (1.0 - gate) + 1.0)


def mish_backward(o: Builder, gradient: Any, x: Any) -> Any:
    gate = o.Sigmoid(x)
    bent = o.Tanh(o.Softplus(x))
    return gradient * (bent + x * gate * (1.0 - bent * bent))


def tanh_backward(o: Builder, gradient: Any, y: Any) -> Any:
    return gradient * (1.0 - y * y)


def sigmoid_backward(o: Builder, gradient: Any, y: Any) -> Any:
    return gradient * y * (1.0 - y)


def _inside(o: Builder, x: Any, low: Any, high: Any, inner: Any, outer: Any) -> Any:
    """`inner` where x is strictly between the bounds."""
    return o.where(o.And(o.compare("Greater", x, low), o.compare("Less", x, high)), inner, outer)


def hardswish_backward(o: Builder, gradient: Any, x: Any) -> Any:
    zero = o.const(0, gradient.dtype)
    above = o.Where(o.GreaterOrEqual(x, 3), gradient, zero)
    return _inside(o, x, -3, 3, gradient * (x * (1 / 3) + 0.5), above)


def hardsigmoid_backward(o: Builder, gradient: Any, x: Any) -> Any:
    return _inside(o, x, -3, 3, gradient * (1 / 6), 0)


def hardtanh_backward(o: Builder, gradient: Any, x: Any, min: Any, max: Any) -> Any:
    return _inside(o, x, min, max, gradient, 0)


def leaky_relu_backward(o: Builder, gradient: Any, x: Any, slope: Any, is_result: bool) -> Any:
    return o.Where(o.Greater(x, 0), gradient, gradient * slope)


def elu_backward(o: Builder, gradient: Any, alpha: Any, scale: Any, input_scale: Any, is_result: bool, x: Any) -> Any:
    if is_result:
        below = gradient * input_scale * (x + alpha * scale)
    else:
        below = gradient * (input_scale * alpha * scale) * o.Exp(x * input_scale)
    return o.Where(o.Greater(x, 0), elementwise.scaled(o, gradient, scale), below)


def softplus_backward(o: Builder, gradient: Any, x: Any, beta: Any, threshold: Any) -> Any:
    scaled = elementwise.scaled(o, x, beta)
    return o.Where(o.Greater(scaled, threshold), gradient, gradient * o.Sigmoid(scaled))


def log_sigmoid_forward(o: Builder, x: Any) -> Any:
    return logsigmoid(o, x), o.Exp(o.Neg(o.Abs(x)))


def log_sigmoid_backward(o: Builder, gradient: Any, x: Any, buffer: Any) -> Any:
    return gradient * o.Sigmoid(o.Neg(x))


def prelu_backward(o: Builder, gradient: Any, x: Any, weight: Any) -> Any:
    above, zero = o.Greater(x, 0), o.const(0, x.dtype)
    return o.Where(above, gradient, weight * gradient), o.Where(above, zero, x * gradient)


def glu_backward(o: Builder, gradient: Any, x: Any, axis: int) -> Any:
    axis = o.axis(x, axis)
    first, second = o.Split(x, outputs=2, axis=axis, num_outputs=2)
    second.shape = first.shape
    gate = o.Sigmoid(second)
    return o.Concat(gradient * gate, gradient * gate * (1.0 - gate) * first, axis=axis)


def softmax_backward(o: Builder, gradient: Any, y: Any, axis: int, dtype: Any = None) -> Any:
    both = gradient * y
    made = both - y * o.reduce("ReduceSum", both, axis, True)
    return made if dtype is None else o.cast(made, str(dtype))


def log_softmax_backward(o: Builder, gradient: Any, y: Any, axis: int, dtype: Any = None) -> Any:
    made = gradient - o.Exp(y) * o.reduce("ReduceSum", gradient, axis, True)
    return made if dtype is None else o.cast(made, str(dtype))


# ---- Losses


def nll_loss_backward(
    o: Builder, gradient: Any, x: Any, y: Any, weight: Any, reduction: int, ignore_index: int, total: Any
) -> Any:
    axis = min(x.rank - 1, 1)
    safe, factor = chosen(o, y, weight, ignore_index, x.dtype)
    if reduction == 1:
        gradient = o.Div(gradient, total)
    each = o.unsqueeze(o.Neg(o.Mul(gradient, factor)), axis)
    zeros = filled(o, o.shape(x), 0, x.dtype)
    return o.ScatterElements(zeros, o.unsqueeze(safe, axis), each, axis=axis)


def _mean(o: Builder, made: Any, x: Any, reduction: int) -> Any:
    """The gradient of a loss, shared out if the loss is a mean."""
    return made if reduction != 1 else o.Div(made, o.cast(o.Size(x, shape=()), x.dtype))


def mse_loss_backward(o: Builder, gradient: Any, x: Any, y: Any, reduction: int) -> Any:
    return _mean(o, gradient * (x - y) * 2.0, x, reduction)


def smooth_l1_loss_backward(o: Builder, gradient: Any, x: Any, y: Any, reduction: int, beta: float) -> Any:
    away = x - y
    slope = o.Sign(away) if beta == 0 else elementwise.clip(o, away * (1 / beta), -1, 1)
    return _mean(o, gradient * slope, x, reduction)


def huber_loss_backward(o: Builder, gradient: Any, x: Any, y: Any, reduction: int, delta: float) -> Any:
    return _mean(o, gradient * elementwise.clip(o, x - y, -delta, delta), x, reduction)


def binary_cross_entropy_backward(
    o: Builder, gradient: Any, x: Any, y: Any, weight: Any = None, reduction: int = 1
) -> Any:
    made = gradient * (x - y) / o.Max((1.0 - x) * x, 1e-12)
    return _mean(o, made if weight is None else made * weight, x, reduction)


# ---- Normalisation and dropout


def layer_norm_backward(
    o: Builder, gradient: Any, x: Any, shape: Any, mean: Any, rstd: Any, weight: Any, bias: Any, mask: Any
) -> Any:
    lead = x.rank - len(shape)
    axes, batch = tuple(range(lead, x.rank)), tuple(range(lead))
    normal = (x - mean) * rstd
    own = gradient if weight is None else gradient * weight
    average = o.reduce("ReduceMean", own, axes, True)
    bent = normal * o.reduce("ReduceMean", own * normal, axes, True)
    return (
        (own - average - bent) * rstd if mask[0] else None,
        sum_to(o, gradient * normal, *batch) if mask[1] and weight is not None else None,
        sum_to(o, gradient, *batch) if mask[2] and bias is not None else None,
    )


def batch_norm_backward(
    o: Builder,
    gradient: Any,
    x: Any,
    weight: Any,
    mean: Any,
    variance: Any,
    save_mean: Any,
    save_rstd: Any,
    training: bool,
    epsilon: float,
    mask: Any,
) -> Any:
    axes = (0, *range(2, x.rank))
    if training and save_mean is not None:
        middle, scale = save_mean, save_rstd
    elif training:
        middle, scale = statistics(o, x, epsilon)
    else:
        middle, scale = mean, o.Reciprocal(o.Sqrt(variance + epsilon))
    middle, scale = by_channel(o, middle, x), by_channel(o, scale, x)
    normal = (x - middle) * scale
    factor = scale if weight is None else scale * by_channel(o, weight, x)
    away = gradient
    if training:
        bent = normal * o.reduce("ReduceMean", gradient * normal, axes, True)
        away = gradient - o.reduce("ReduceMean", gradient, axes, True) - bent
    return (
        away * factor if mask[0] else None,
        sum_to(o, gradient * normal, *axes) if mask[1] else None,
        sum_to(o, gradient, *axes) if mask[2] else None,
    )


def group_norm_backward(
    o: Builder,
    gradient: Any,
    x: Any,
    mean: Any,
    rstd: Any,
    weight: Any,
    n: Any,
    c: Any,
    area: Any,
    groups: int,
    mask: Any,
) -> Any:
    grouped = o.ints((0, groups, -1))
    middle, scale = (o.unsqueeze(each, 2) for each in (mean, rstd))
    normal = (o.Reshape(x, grouped) - middle) * scale
    own = o.Reshape(gradient if weight is None else gradient * by_channel(o, weight, x), grouped)
    average = o.reduce("ReduceMean", own, -1, True)
    bent = normal * o.reduce("ReduceMean", own * normal, -1, True)
    axes = (0, *range(2, x.rank))
    return (
        reshape_as(o, (own - average - bent) * scale, x) if mask[0] else None,
        sum_to(o, gradient * reshape_as(o, normal, x), *axes) if mask[1] else None,
        sum_to(o, gradient, *axes) if mask[2] else None,
    )


def native_dropout(o: Builder, x: Any, p: float, training: Any) -> Any:
    if training is False or p == 0:
        return x, filled(o, o.shape(x), True, "bool")
    return dropped(o, x, p, x)


def dropout_backward(o: Builder, gradient: Any, kept: Any, scale: Any) -> Any:
    return gradient * o.cast(kept, gradient.dtype) * scale
