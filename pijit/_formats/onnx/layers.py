"""Forms in ONNX of normalisation, dropout and attention."""

import math
from typing import Any

from pijit._formats.onnx import numbers
from pijit._formats.onnx.activations import by_channel
from pijit._formats.onnx.arrays import merged, reshape_as
from pijit._formats.onnx.builder import Builder
from pijit._formats.onnx.creation import filled
from pijit._formats.onnx.reductions import indices, var_mean


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


def native_dropout(o: Builder, x: Any, p: float, training: Any) -> Any:
    if training is False or p == 0:
        return x, filled(o, o.shape(x), True, "bool")
    return dropped(o, x, p, x)


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
