"""Decompositions that torch does not have, in calls of torch; each takes the arguments of its operator."""

import math
from collections.abc import Callable, Mapping
from typing import Any


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


def _multilabel_margin_loss(x: Any, target: Any, reduction: int = 1) -> Any:
    import torch

    classes = x.shape[-1]
    places = torch.arange(classes, device=x.device)
    ended = (target < 0).to(torch.int64).cumsum(-1) > 0  # what stands behind the first that is no class
    known = target.masked_fill(ended, 0)
    is_target = ((known.unsqueeze(-1) == places) & ~ended.unsqueeze(-1)).any(-2)
    margins = (1 - x.gather(-1, known).unsqueeze(-1) + x.unsqueeze(-2)).clamp(min=0)
    counted = ~ended.unsqueeze(-1) & ~is_target.unsqueeze(-2)
    loss = (margins * counted.to(x.dtype)).sum((-2, -1)) / classes
    return loss.mean() if reduction == 1 else loss.sum() if reduction == 2 else loss


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


# By the paths of the operators.
OWN: Mapping[str, Callable[..., Any]] = {
    "torch.ops.aten._native_multi_head_attention.default": _multi_head_attention,
    "torch.ops.aten._transformer_encoder_layer_fwd.default": _encoder_layer,
    "torch.ops.aten.lstm.input": _lstm,
    "torch.ops.aten.lstm_cell.default": _lstm_cell,
    "torch.ops.aten.gru_cell.default": _gru_cell,
    "torch.ops.aten.polar.default": _polar,
    # Torch's own counts what stands behind a -1.
    "torch.ops.aten.multilabel_margin_loss.default": _multilabel_margin_loss,
}
