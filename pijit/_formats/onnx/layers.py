"""Forms in ONNX of normalisation, dropout, attention and losses."""

import math
from typing import Any

import numpy as np

from pijit._formats.onnx import elementwise, numbers
from pijit._formats.onnx.activations import by_channel, log_softmax, logsigmoid
from pijit._formats.onnx.arrays import merged, reshape_as
from pijit._formats.onnx.builder import Builder
from pijit._formats.onnx.creation import filled
from pijit._formats.onnx.reductions import indices, var_mean
from pijit._formats.onnx.types import is_floating, numpy_type


def _layer_norm(o: Builder, x: Any, shape: Any, weight: Any, bias: Any, epsilon: float, outputs: int) -> Any:
    if weight is None:
        weight = filled(o, o.ints(shape), 1, x.dtype)
    operands = (x, weight) if bias is None else (x, weight, bias)
    return o.LayerNormalization(*operands, outputs=outputs, axis=-len(shape), epsilon=epsilon)


def layer_norm(o: Builder, x: Any, shape: Any, weight: Any = None, bias: Any = None, epsilon: float = 1e-05) -> Any:
    return _layer_norm(o, x, shape, weight, bias, epsilon, 1)


def native_layer_norm(o: Builder, x: Any, shape: Any, weight: Any, bias: Any, epsilon: float) -> Any:
    made, middle, scale = _layer_norm(o, x, shape, weight, bias, epsilon, 3)
    middle.shape = scale.shape = (*x.shape[: x.rank - len(shape)], *(1,) * len(shape))
    return made, middle, scale


def rms_norm(o: Builder, x: Any, shape: Any, weight: Any = None, epsilon: float | None = None) -> Any:
    own = x.dtype
    if epsilon is None:
        epsilon = 0.0078125 if own == "bfloat16" else float(np.finfo(numpy_type(own)).eps)
    x = x if own == "float64" else o.cast(x, "float32")
    square = o.reduce("ReduceMean", o.Mul(x, x), tuple(range(-len(shape), 0)), True)
    made = o.cast(o.Mul(x, o.Reciprocal(o.Sqrt(o.Add(square, epsilon)))), own)
    return made if weight is None else made * weight


def _channels(o: Builder, x: Any, *known: Any) -> Any:
    """The number of channels."""
    for each in known:
        if each is not None and isinstance(each.shape[0], int):
            return each.shape[0]
    return o.size(x, 1)


def _scale(o: Builder, x: Any, weight: Any, bias: Any, channels: Any) -> tuple[Any, Any]:
    """Weight and bias, 1 and 0 if there are none."""
    one, zero = (filled(o, o.ints((channels,)), each, x.dtype) for each in (1, 0))
    return one if weight is None else weight, zero if bias is None else bias


def normalised(o: Builder, x: Any, middle: Any, scale: Any, weight: Any, bias: Any) -> Any:
    """(x - middle) * scale * weight + bias, each with one number a channel."""
    made = (x - by_channel(o, middle, x)) * by_channel(o, scale, x)
    made = made if weight is None else made * by_channel(o, weight, x)
    return made if bias is None else made + by_channel(o, bias, x)


def statistics(o: Builder, x: Any, epsilon: float) -> tuple[Any, Any]:
    """For each channel the mean and 1 / sqrt(variance + epsilon) over the batch."""
    variance, middle = var_mean(o, x, (0, *range(2, x.rank)), 0)
    return middle, o.Reciprocal(o.Sqrt(variance + epsilon))


def native_batch_norm(
    o: Builder, x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, momentum: Any, epsilon: float
) -> Any:
    if training or mean is None:
        middle, scale = statistics(o, x, epsilon)
        return normalised(o, x, middle, scale, weight, bias), middle, scale
    weight, bias = _scale(o, x, weight, bias, _channels(o, x, mean))
    made = o.BatchNormalization(x, weight, bias, mean, variance, epsilon=epsilon)
    empty = o.const([], "float32")
    return made, empty, empty


def functional_batch_norm(
    o: Builder, x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, momentum: Any, epsilon: float
) -> Any:
    found = native_batch_norm(o, x, weight, bias, mean, variance, training, momentum, epsilon)
    if not training:
        return *found, mean, variance
    batch = var_mean(o, x, (0, *range(2, x.rank)), 1)[::-1]
    after = (
        o.Add(o.Mul(old, 1 - momentum), o.Mul(o.cast(new, old.dtype), momentum))
        for old, new in zip((mean, variance), batch, strict=True)
    )
    return *found, *after


def batch_norm(
    o: Builder, x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, momentum: Any, epsilon: float
) -> Any:
    return native_batch_norm(o, x, weight, bias, mean, variance, training, momentum, epsilon)[0]


def group_norm(o: Builder, x: Any, groups: int, weight: Any = None, bias: Any = None, epsilon: float = 1e-05) -> Any:
    grouped = o.Reshape(x, o.ints((0, groups, -1)))
    if x.dtype == "float32":
        one, zero = (filled(o, o.ints((groups,)), each, x.dtype) for each in (1, 0))
        made = o.InstanceNormalization(grouped, one, zero, epsilon=epsilon)
    else:
        variance, middle = var_mean(o, grouped, -1, 0, True)
        made = (grouped - middle) * o.Reciprocal(o.Sqrt(variance + epsilon))
    made = reshape_as(o, made, x)
    made = made if weight is None else o.Mul(made, by_channel(o, weight, x))
    return made if bias is None else o.Add(made, by_channel(o, bias, x))


def native_group_norm(
    o: Builder, x: Any, weight: Any, bias: Any, n: Any, c: Any, area: Any, groups: int, epsilon: float
) -> Any:
    variance, middle = var_mean(o, o.Reshape(x, o.ints((0, groups, -1))), -1, 0)
    return group_norm(o, x, groups, weight, bias, epsilon), middle, o.Reciprocal(o.Sqrt(variance + epsilon))


def instance_norm(
    o: Builder,
    x: Any,
    weight: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    use_input_stats: bool,
    momentum: Any,
    epsilon: float,
) -> Any:
    if not use_input_stats:
        return batch_norm(o, x, weight, bias, mean, variance, False, momentum, epsilon)
    weight, bias = _scale(o, x, weight, bias, _channels(o, x, weight, bias))
    return o.InstanceNormalization(x, weight, bias, epsilon=epsilon)


# ---- Dropout


def dropped(o: Builder, x: Any, p: float, like: Any) -> tuple[Any, Any]:
    """x with some elements 0 at random and the others larger, and which are kept."""
    kept = o.GreaterOrEqual(o.RandomUniformLike(like, low=0.0, high=1.0), p)
    factor = 0.0 if p == 1 else 1 / (1 - p)
    return o.Mul(x, o.Mul(o.cast(kept, x.dtype), factor)), kept


def dropout(o: Builder, x: Any, p: float, training: bool) -> Any:
    return dropped(o, x, p, x)[0] if training and p else x


def feature_dropout(o: Builder, x: Any, p: float, training: bool) -> Any:
    if not training or not p:
        return x
    like = filled(o, o.ints((o.size(x, 0), o.size(x, 1), *(1,) * (x.rank - 2))), 0, x.dtype)
    return dropped(o, x, p, like)[0]


# ---- Attention


def _causal(o: Builder, query: Any, key: Any) -> Any:
    """Which places a query may look at: those that are not behind it."""
    rows, columns = (indices(o, o.size(each, each.rank - 2)) for each in (query, key))
    return o.GreaterOrEqual(o.unsqueeze(rows, 1), o.unsqueeze(columns, 0))


def scaling(o: Builder, query: Any, scale: Any) -> Any:
    """The factor of the scores."""
    if scale is not None:
        return scale
    width = o.size(query, query.rank - 1)
    if isinstance(width, int):
        return 1 / math.sqrt(width)
    return o.Reciprocal(o.Sqrt(o.cast(width, query.dtype)))


def repeated(o: Builder, x: Any, query: Any) -> Any:
    """Heads of keys or values, each as often as queries need it."""
    mine, wanted = o.size(x, x.rank - 3), o.size(query, query.rank - 3)
    times = numbers.scalar_floor_divide(o, wanted, mine)
    if times == 1:
        return x
    axis = x.rank - 3
    wide = o.Expand(o.unsqueeze(x, axis + 1), o.ints((*(1,) * (axis + 1), times, 1, 1)))
    return merged(o, wide, axis, axis + 2, (wanted,))


def scores_of(o: Builder, query: Any, key: Any, mask: Any, is_causal: bool, scale: Any) -> tuple[Any, Any]:
    """The scores that attention's softmax takes, and which places may be looked at (None: all)."""
    order = [*range(key.rank - 2), key.rank - 1, key.rank - 2]
    scores = o.Mul(o.MatMul(query, o.transpose(key, order)), scaling(o, query, scale))
    keep = _causal(o, query, key) if is_causal else None
    if mask is not None and mask.dtype == "bool":
        keep = mask if keep is None else o.And(keep, mask)
    elif mask is not None:
        scores = scores + mask
    if keep is not None:
        scores = o.Where(keep, scores, o.const(-math.inf, scores.dtype))
    return scores, keep


def scaled_dot_product_attention(
    o: Builder,
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    scale: Any = None,
    enable_gqa: bool = False,
) -> Any:
    if enable_gqa:
        key, value = repeated(o, key, query), repeated(o, value, query)
    scores, keep = scores_of(o, query, key, mask, is_causal, scale)
    weights = o.Softmax(scores, axis=-1)
    if mask is not None and keep is not None:
        # A query that may look at nothing gets 0, not NaN.
        weights = o.Where(keep, weights, o.const(0, weights.dtype))
    if dropout:
        weights = dropped(o, weights, dropout, weights)[0]
    return o.MatMul(weights, value)


def flash_attention(
    o: Builder,
    query: Any,
    key: Any,
    value: Any,
    dropout: float = 0.0,
    is_causal: bool = False,
    mask: Any = None,
    scale: Any = None,
) -> Any:
    key, value = repeated(o, key, query), repeated(o, value, query)
    scores, _ = scores_of(o, query, key, mask, is_causal, scale)
    total = o.reduce("ReduceLogSumExp", scores, -1, False)
    return scaled_dot_product_attention(o, query, key, value, mask, dropout, is_causal, scale), total


# ---- Losses


def reduced(o: Builder, loss: Any, reduction: int) -> Any:
    """All losses, their mean, or their sum."""
    if reduction == 0:
        return loss
    return o.reduce("ReduceMean" if reduction == 1 else "ReduceSum", loss, None, False)


def chosen(o: Builder, y: Any, weight: Any, ignore_index: int, dtype: str) -> tuple[Any, Any]:
    """Classes that are safe to pick, and the weight of each example: 0 if it is ignored."""
    valid = o.Not(o.Equal(y, ignore_index))
    safe = o.Where(valid, y, o.const(0, y.dtype))
    factor = o.cast(valid, dtype)
    return safe, factor if weight is None else o.Mul(factor, o.Gather(weight, safe, axis=0))


def nll_loss_forward(o: Builder, x: Any, y: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    axis = min(x.rank - 1, 1)
    safe, factor = chosen(o, y, weight, ignore_index, x.dtype)
    picked = o.squeeze(o.GatherElements(x, o.unsqueeze(safe, axis), axis=axis), axis)
    losses = o.Neg(o.Mul(picked, factor))
    total = o.reduce("ReduceSum", factor, None, False)
    if reduction == 0:
        return losses, o.const(0, x.dtype)
    loss = o.reduce("ReduceSum", losses, None, False)
    return o.Div(loss, total) if reduction == 1 else loss, total


def nll_loss(o: Builder, x: Any, y: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100) -> Any:
    return nll_loss_forward(o, x, y, weight, reduction, ignore_index)[0]


def cross_entropy_loss(
    o: Builder,
    x: Any,
    y: Any,
    weight: Any = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Any:
    axis = min(x.rank - 1, 1)
    logs = log_softmax(o, x, axis)
    classes = _channels(o, x, weight) if axis == 1 else o.size(x, 0)
    per_class = None if weight is None else o.reshape(weight, (-1, *(1,) * (x.rank - axis - 1)))
    if is_floating(y.dtype):
        if label_smoothing:
            y = y * (1 - label_smoothing) + o.Div(o.const(label_smoothing, x.dtype), o.cast(classes, x.dtype))
        terms = o.Mul(logs, y)
        terms = terms if per_class is None else o.Mul(terms, per_class)
        losses = o.Neg(o.reduce("ReduceSum", terms, axis, False))
        if reduction != 1:
            return reduced(o, losses, reduction)
        return o.reduce("ReduceMean", losses, None, False)
    plain = nll_loss(o, logs, y, weight, reduction, ignore_index)
    if not label_smoothing:
        return plain
    spread = logs if per_class is None else o.Mul(logs, per_class)
    valid = o.Not(o.Equal(y, ignore_index))
    smooth = o.Neg(o.reduce("ReduceSum", spread, axis, False))
    smooth = o.Where(valid, smooth, o.const(0, x.dtype))
    if reduction:
        smooth = o.reduce("ReduceSum", smooth, None, False)
    if reduction == 1:
        smooth = o.Div(smooth, o.reduce("ReduceSum", chosen(o, y, weight, ignore_index, x.dtype)[1], None, False))
    share = o.Div(o.const(label_smoothing, x.dtype), o.cast(classes, x.dtype))
    return o.Add(o.Mul(plain, 1 - label_smoothing), o.Mul(smooth, share))


def mse_loss(o: Builder, x: Any, y: Any, reduction: int = 1) -> Any:
    away = x - y
    return reduced(o, away * away, reduction)


def l1_loss(o: Builder, x: Any, y: Any, reduction: int = 1) -> Any:
    return reduced(o, o.Abs(x - y), reduction)


def smooth_l1_loss(o: Builder, x: Any, y: Any, reduction: int = 1, beta: float = 1.0) -> Any:
    away = o.Abs(x - y)
    if beta == 0:
        return reduced(o, away, reduction)
    return reduced(o, o.Where(o.Less(away, beta), away * away * (0.5 / beta), away - 0.5 * beta), reduction)


def huber_loss(o: Builder, x: Any, y: Any, reduction: int = 1, delta: float = 1.0) -> Any:
    away = o.Abs(x - y)
    inside, outside = away * away * 0.5, (away - 0.5 * delta) * delta
    return reduced(o, o.Where(o.LessOrEqual(away, delta), inside, outside), reduction)


def _weighted(o: Builder, losses: Any, weight: Any, reduction: int) -> Any:
    return reduced(o, losses if weight is None else losses * weight, reduction)


def binary_cross_entropy(o: Builder, x: Any, y: Any, weight: Any = None, reduction: int = 1) -> Any:
    yes, no = (o.Max(o.Log(each), -100) for each in (x, 1.0 - x))
    return _weighted(o, (y - 1.0) * no - y * yes, weight, reduction)


def binary_cross_entropy_with_logits(
    o: Builder, x: Any, y: Any, weight: Any = None, pos_weight: Any = None, reduction: int = 1
) -> Any:
    logs = logsigmoid(o, x)
    losses = (1.0 - y) * x
    factor = logs if pos_weight is None else ((pos_weight - 1.0) * y + 1.0) * logs
    return _weighted(o, losses - factor, weight, reduction)


def kl_div(o: Builder, x: Any, y: Any, reduction: int = 1, log_target: bool = False) -> Any:
    if log_target:
        return reduced(o, o.Exp(y) * (y - x), reduction)
    return reduced(o, elementwise.xlogy(o, y, y) - y * x, reduction)
