"""Decompositions that torch does not have, in calls of torch; each takes the arguments of its operator."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from pijit.graph.decompose.own_losses import LOSSES
from pijit.graph.decompose.own_maths import MATHS
from pijit.graph.decompose.own_matrices import MATRICES


def _multi_head_attention(
    query: Any,
    key: Any,
    value: Any,
    embed_dim: int,
    heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    proj_weight: Any,
    proj_bias: Any,
    mask: Any = None,
    need_weights: bool = True,
    average: bool = True,
    mask_type: int | None = None,
) -> Any:
    import torch
    from torch.nn.functional import linear

    width = embed_dim // heads
    batch, length = query.shape[0], query.shape[1]
    places = zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
    split = [linear(x, w, b).reshape(batch, x.shape[1], heads, width).transpose(1, 2) for x, w, b in places]
    scores = (split[0] * (1 / math.sqrt(width))) @ split[1].transpose(-2, -1)
    if mask is not None:
        hidden = mask.to(torch.bool)
        if mask_type == 1:
            hidden = hidden.reshape(batch, 1, 1, key.shape[1])
        scores = scores.masked_fill(hidden, -math.inf)
    weights = scores.softmax(-1)
    if mask is not None:
        weights = weights.masked_fill(hidden, 0.0)  # also where everything is hidden
    out = linear((weights @ split[2]).transpose(1, 2).reshape(batch, length, embed_dim), proj_weight, proj_bias)
    if not need_weights:
        return out, None
    return out, weights.mean(1) if average else weights


def _encoder_layer(
    src: Any,
    embed_dim: int,
    heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    proj_weight: Any,
    proj_bias: Any,
    use_gelu: bool,
    norm_first: bool,
    epsilon: float,
    *rest: Any,
) -> Any:
    from torch.nn.functional import gelu, layer_norm, linear, relu

    (weight_1, bias_1, weight_2, bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2), masks = rest[:8], rest[8:]
    mask, mask_type = (*masks, None, None)[:2]
    own = (qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True, mask_type)

    def first(x: Any) -> Any:
        return layer_norm(x, (embed_dim,), weight_1, bias_1, epsilon)

    def second(x: Any) -> Any:
        return layer_norm(x, (embed_dim,), weight_2, bias_2, epsilon)

    def attention(x: Any) -> Any:
        return _multi_head_attention(x, x, x, embed_dim, heads, *own)[0]

    def feed_forward(x: Any) -> Any:
        return linear((gelu if use_gelu else relu)(linear(x, ffn_weight_1, ffn_bias_1)), ffn_weight_2, ffn_bias_2)

    if norm_first:
        x = src + attention(first(src))
        return x + feed_forward(second(x))
    x = first(src + attention(src))
    return second(x + feed_forward(x))


def _polar(length: Any, angle: Any) -> Any:
    import torch

    return torch.complex(length * angle.cos(), length * angle.sin())


def _lstm(
    x: Any,
    states: Any,
    weights: Any,
    bias: bool,
    layers: int,
    dropout: float,
    training: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    """Turn by turn; torch's own calls an operator of a library on the CPU."""
    import torch
    from torch.nn.functional import linear

    x = x.transpose(0, 1) if batch_first else x
    directions = 2 if bidirectional else 1
    count = len(weights) // (layers * directions)
    hidden, cells = [], []
    for layer in range(layers):
        sides = []
        for at in range(layer * directions, (layer + 1) * directions):
            own = weights[at * count : (at + 1) * count]
            gates = linear(x, own[0], own[2] if bias else None)
            h, c = states[0][at], states[1][at]
            turns = range(x.shape[0])
            outputs = []
            for turn in turns[::-1] if at % directions else turns:
                made = gates[turn] + linear(h, own[1], own[3] if bias else None)
                keep, forget, new, out = made.chunk(4, -1)
                c = forget.sigmoid() * c + keep.sigmoid() * new.tanh()
                h = out.sigmoid() * c.tanh()
                h = linear(h, own[-1]) if count in {3, 5} else h
                outputs.append(h)
            sides.append(torch.stack(outputs[::-1] if at % directions else outputs))
            hidden.append(h)
            cells.append(c)
        x = sides[0] if directions == 1 else torch.cat(sides, -1)
        if layer < layers - 1:
            x = torch.dropout(x, dropout, training)
    return x.transpose(0, 1) if batch_first else x, torch.stack(hidden), torch.stack(cells)


def _lstm_cell(x: Any, states: Any, *weights: Any) -> Any:
    from torch.nn.functional import linear

    w_input, w_hidden, b_input, b_hidden = (*weights, None, None)[:4]
    keep, forget, new, out = (linear(x, w_input, b_input) + linear(states[0], w_hidden, b_hidden)).chunk(4, -1)
    c = forget.sigmoid() * states[1] + keep.sigmoid() * new.tanh()
    return out.sigmoid() * c.tanh(), c


def _gru_cell(x: Any, state: Any, *weights: Any) -> Any:
    from torch.nn.functional import linear

    w_input, w_hidden, b_input, b_hidden = (*weights, None, None)[:4]
    reset, update, new = linear(x, w_input, b_input).chunk(3, -1)
    own_reset, own_update, own_new = linear(state, w_hidden, b_hidden).chunk(3, -1)
    new = (new + (reset + own_reset).sigmoid() * own_new).tanh()
    return new + (update + own_update).sigmoid() * (state - new)


def _embedding_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_by_frequency: bool,
    mode: int,
    sparse: bool,
    weights: Any,
    last_offset: bool,
    padding: int | None,
) -> Any:
    """What the bags hold; where an index stands belongs to its gradient, and is not given."""
    import torch

    offsets = offsets[:-1] if last_offset else offsets
    places = torch.arange(indices.shape[0], device=indices.device)
    bags = (places.unsqueeze(1) >= offsets).sum(1) - 1
    values = weight.index_select(0, indices)
    counted = torch.ones_like(values[:, :1])
    if padding is not None:
        counted = (indices != padding).to(values.dtype).unsqueeze(1)
    rows = (offsets.shape[0], values.shape[1])
    number = torch.zeros((offsets.shape[0], 1), dtype=values.dtype).index_add(0, bags, counted)
    if mode == 2:
        values = values.masked_fill(counted == 0, -math.inf)
        least = torch.full(rows, -math.inf, dtype=values.dtype)
        most = least.scatter_reduce(0, bags.unsqueeze(1).expand_as(values), values, "amax")
        return most.masked_fill(number == 0, 0.0), None, None, None
    values = values * counted if weights is None else values * counted * weights.unsqueeze(1)
    total = torch.zeros(rows, dtype=values.dtype).index_add(0, bags, values)
    return (total / number.clamp(min=1) if mode == 1 else total), None, None, None


def _cov(x: Any, correction: int = 1, frequencies: Any = None, weights: Any = None) -> Any:
    if frequencies is not None or weights is not None:
        raise NotImplementedError("weights of observations")
    x = x.reshape(1, -1) if x.dim() < 2 else x
    rest = x - x.mean(1, keepdim=True)
    made = rest @ rest.mT.conj() / max(x.shape[1] - correction, 0)
    return made.squeeze()


def _corrcoef(x: Any) -> Any:
    made = _cov(x)
    if made.dim() == 0:
        return made / made
    scale = made.diagonal().sqrt()
    return (made / scale.unsqueeze(1) / scale.unsqueeze(0)).clamp(-1, 1)


def _median(x: Any, axis: int, keepdim: bool = False) -> Any:
    """Of equal elements torch does not say which one it finds."""
    made, place = _kthvalue(x, (x.shape[axis] + 1) // 2, axis, keepdim)
    if not x.is_floating_point():
        return made, place
    missing = x.isnan()
    first = missing.to(x.dtype).argmax(axis, keepdim=keepdim)
    missing = missing.any(axis, keepdim=keepdim)
    return made.masked_fill(missing, math.nan), first.where(missing, place)


def _median_of_all(x: Any) -> Any:
    return _median(x.reshape(-1), 0)[0]


def _kthvalue(x: Any, k: int, axis: int = -1, keepdim: bool = False) -> Any:
    found = (each.select(axis, k - 1) for each in x.sort(axis))
    made, place = (each.unsqueeze(axis) if keepdim else each for each in found)
    return made, place


def _mode(x: Any, axis: int = -1, keepdim: bool = False) -> Any:
    """The smallest of those that are there most often, and where the last of them is."""
    import torch

    if x.dim() == 0 or x.dtype == torch.bool:
        raise NotImplementedError("of these")
    x = x.movedim(axis, -1)
    counts = (x.unsqueeze(-1) == x.unsqueeze(-2)).to(torch.int64).sum(-1)
    greatest = math.inf if x.is_floating_point() else torch.iinfo(x.dtype).max
    made = x.masked_fill(counts != counts.amax(-1, keepdim=True), greatest).amin(-1, keepdim=True)
    places = torch.arange(x.shape[-1], device=x.device)
    found = torch.where(x == made, places, 0).amax(-1, keepdim=True)
    made, found = (each.movedim(-1, axis) for each in (made, found))
    return (made, found) if keepdim else (made.squeeze(axis), found.squeeze(axis))


def _logcumsumexp(x: Any, axis: int) -> Any:
    """Of a square of all pairs: sums up to each place lose nothing where numbers differ much."""
    import torch

    x = x.movedim(axis, -1)
    places = torch.arange(x.shape[-1], device=x.device)
    pairs = x.unsqueeze(-2).masked_fill(places.unsqueeze(0) > places.unsqueeze(1), -math.inf)
    return pairs.logsumexp(-1).movedim(-1, axis)


def _cumulative_trapezoid(y: Any, *, dx: Any = 1, dim: int = -1) -> Any:
    length = y.shape[dim]
    return ((y.narrow(dim, 1, length - 1) + y.narrow(dim, 0, length - 1)) * (dx / 2)).cumsum(dim)


def _bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    import torch

    length: Any = (x.max() + 1).clamp(min=minlength).item()
    torch._check(length >= 0)  # type: ignore[no-untyped-call]
    if weights is None:
        weights = torch.ones_like(x, dtype=torch.int64)
    elif not weights.is_floating_point():
        weights = weights.to(torch.float64)
    return torch.zeros(length, dtype=weights.dtype).index_add(0, x.to(torch.int64), weights)


def _fake_quantize(x: Any, scale: float, zero: int, least: int, most: int) -> Any:
    return (((x * (1 / scale)).round() + zero).clamp(least, most) - zero) * scale


def _real_fft(x: Any, axes: Any, normalization: int, onesided: bool) -> Any:
    import torch

    made = torch._fft_c2c(torch.complex(x, torch.zeros_like(x)), axes, normalization, True)
    return made.narrow(axes[-1], 0, x.shape[axes[-1]] // 2 + 1) if onesided else made


def _real_inverse_fft(x: Any, axes: Any, normalization: int, length: int) -> Any:
    """The half that is left out is that of a real signal."""
    import torch

    last = axes[-1]
    x = torch._fft_c2c(x, axes[:-1], normalization, False) if len(axes) > 1 else x
    x = x.narrow(last, 0, length // 2 + 1)
    rest = torch.conj_physical(x.narrow(last, 1, (length - 1) // 2).flip(last))
    return torch._fft_c2c(torch.cat([x, rest], last), [last], normalization, False).real


def _fill_diagonal(x: Any, value: Any, wrap: bool = False) -> Any:
    """Of more than two axes all are of one length; with `wrap` it begins again below a tall matrix."""
    import torch

    places = [torch.arange(size, device=x.device) for size in x.shape]
    rows, columns = places[0], places[-1]
    if wrap and x.dim() == 2:
        rows = rows % (x.shape[1] + 1)
    there = rows.reshape(-1, *(1,) * (x.dim() - 1)) == columns
    for axis in range(1, x.dim() - 1):
        there = there & (places[axis].reshape(-1, *(1,) * (x.dim() - 1 - axis)) == columns)
    return x.masked_fill(there, value)


def _put(x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    return x.reshape(-1).index_put((index.reshape(-1),), source.reshape(-1), accumulate).reshape(x.shape)


def _rrelu(x: Any, lower: Any = 0.125, upper: Any = 1 / 3, training: bool = False, generator: Any = None) -> Any:
    import torch

    if training:
        raise NotImplementedError("random numbers")
    return torch.where(x >= 0, x, x * ((lower + upper) / 2))


# By the paths of the operators.
OWN: Mapping[str, Callable[..., Any]] = {
    **LOSSES,
    **MATHS,
    **MATRICES,
    "torch.ops.aten._native_multi_head_attention.default": _multi_head_attention,
    "torch.ops.aten._transformer_encoder_layer_fwd.default": _encoder_layer,
    "torch.ops.aten.embedding_bag.padding_idx": _embedding_bag,
    "torch.ops.aten.bincount.default": _bincount,
    "torch.ops.aten.fake_quantize_per_tensor_affine.default": _fake_quantize,
    "torch.ops.aten._fft_r2c.default": _real_fft,
    "torch.ops.aten._fft_c2r.default": _real_inverse_fft,
    "torch.ops.aten.cov.default": _cov,
    "torch.ops.aten.corrcoef.default": _corrcoef,
    "torch.ops.aten.median.dim": _median,
    "torch.ops.aten.median.default": _median_of_all,
    "torch.ops.aten.kthvalue.default": _kthvalue,
    "torch.ops.aten.mode.default": _mode,
    "torch.ops.aten.logcumsumexp.default": _logcumsumexp,
    "torch.ops.aten.cumulative_trapezoid.dx": _cumulative_trapezoid,
    "torch.ops.aten.rrelu.default": _rrelu,
    "torch.ops.aten.put.default": _put,
    "torch.ops.aten.fill_diagonal_.default": _fill_diagonal,
    "torch.ops.aten.lstm.input": _lstm,
    "torch.ops.aten.lstm_cell.default": _lstm_cell,
    "torch.ops.aten.gru_cell.default": _gru_cell,
    "torch.ops.aten.polar.default": _polar,
}
