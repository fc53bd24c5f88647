"""Cases of the rows of `vocabulary.layers`."""

from __future__ import annotations

from typing import Any

from case_arrays import INF, NAN, a, b, f, i, over, p

from pijit.graph import Token

F64 = Token("dtype", "float64")


def _plain(**common: Any) -> list[dict[str, Any]]:
    """Usual arguments of an activation."""
    return [
        *over(
            "x", (f(2, 3, scale=3), f(), f(0, 3), f(4, dtype="float64"), a([INF, -INF, NAN, 0.0, 3.0, -3.0])), **common
        )
    ]


def _convolutions(n: int) -> list[dict[str, Any]]:
    space, kernel = (7, 6, 5)[:n], (3, 2, 2)[:n]
    x, weight = f(2, 4, *space), f(6, 4, *kernel)
    two = (2, 1, 2)[:n]
    return [
        {"x": x, "weight": weight},
        {"x": x, "weight": weight, "bias": f(6), "stride": two, "padding": (1, 0, 1)[:n]},
        {"x": x, "weight": weight, "stride": (2,), "padding": (1,), "dilation": (2, 3, 1)[:n]},
        {"x": x, "weight": f(6, 2, *kernel), "groups": 2, "padding": 1},
        {"x": x, "weight": f(4, 1, *kernel), "bias": f(4), "groups": 4},
        {"x": x, "weight": weight, "padding": "same", "dilation": (1, 2, 1)[:n]},
        {"x": x, "weight": weight, "padding": "valid", "stride": 2},
        {"x": f(4, *space), "weight": weight, "bias": f(6)},
        {"x": f(1, 4, *space, dtype="float64"), "weight": f(6, 4, *kernel, dtype="float64")},
    ]


def _transposed(n: int) -> list[dict[str, Any]]:
    space, kernel = (4, 3, 3)[:n], (3, 2, 2)[:n]
    x, weight = f(2, 4, *space), f(4, 6, *kernel)
    return [
        {"x": x, "weight": weight},
        {
            "x": x,
            "weight": weight,
            "bias": f(6),
            "stride": (2, 3, 2)[:n],
            "padding": (1, 0, 1)[:n],
            "output_padding": (1, 2, 0)[:n],
        },
        {"x": x, "weight": f(4, 3, *kernel), "groups": 2, "dilation": (2, 1, 2)[:n], "stride": (3,)},
        {"x": x, "weight": weight, "padding": (3, 2, 2)[:n], "stride": 3},
        {"x": f(4, *space), "weight": weight, "bias": f(6)},
    ]


def _pools(n: int) -> list[dict[str, Any]]:
    x = f(2, 3, *(7, 6, 5)[:n])
    return [
        {"x": x, "kernel": (3, 2, 2)[:n]},
        {"x": x, "kernel": (3,), "stride": (2,), "padding": (1,)},
        {"x": x, "kernel": 2, "stride": (3, 2, 1)[:n], "ceil_mode": True},
        {"x": x, "kernel": (3, 2, 3)[:n], "stride": 2, "padding": (1, 1, 0)[:n], "ceil_mode": True},
        {"x": f(3, *(4, 4, 4)[:n]), "kernel": (2,) * n, "stride": (1,) * n},
    ]


def _max_pools(n: int) -> list[dict[str, Any]]:
    x = f(2, 3, *(7, 6, 5)[:n])
    return [*_pools(n), {"x": x, "kernel": 2, "stride": 1, "dilation": (3, 2, 1)[:n]}]


def _mean_pools(n: int, divisor: bool) -> list[dict[str, Any]]:
    x = f(2, 3, *(7, 6, 5)[:n])
    more = [{"x": x, "kernel": (2,), "divisor": 3}] if divisor else []
    return [
        *_pools(n),
        {"x": x, "kernel": (3,), "stride": (2,), "padding": (1,), "count_include_pad": False},
        {"x": x, "kernel": (3,), "stride": (2,), "padding": (1,), "count_include_pad": False, "ceil_mode": True},
        *more,
    ]


def _sized(n: int) -> list[dict[str, Any]]:
    x = f(2, 3, *(7, 6, 5)[:n])
    return [
        {"x": x, "shape": (1,) * n},
        {"x": x, "shape": (3, 4, 5)[:n]},
        {"x": x, "shape": (9, 2, 5)[:n]},
        {"x": x[0], "shape": (2, 3, 1)[:n]},
    ]


_image = f(2, 3, 4, 5)
_sizes = [{"shape": (8, 10)}, {"shape": (3, 7)}, {"shape": (4, 5)}, {"shape": (1, 1)}]
_scales = [{"shape": None, "scale": (2.0, 1.5)}, {"shape": None, "scale": (0.6, 0.7)}]
_corners = [{"align_corners": False}, {"align_corners": True}]
_losses = [
    {"x": p(4, 3), "y": p(4, 3)},
    {"x": p(4, 3), "y": p(4, 3), "reduction": 0},
    {"x": p(5), "y": p(5), "reduction": 2},
    {"x": p(5, dtype="float64"), "y": p(5, dtype="float64")},
]
_classes = i(4, low=0, high=3)
_ignoring = a([0, 2, 1, 2], "int64")
_chosen = [
    {"x": f(4, 3), "y": _classes},
    *(
        {"x": f(4, 3), "y": _ignoring, "weight": p(3), "reduction": reduction, "ignore_index": 2}
        for reduction in (0, 1, 2)
    ),
    {"x": f(3), "y": a(1, "int64")},
    {"x": f(2, 3, 4, 5), "y": i(2, 4, 5, low=0, high=3), "weight": p(3)},
]
_norm = {"weight": f(3), "bias": f(3), "mean": f(3), "variance": p(3), "momentum": 0.1, "epsilon": 1e-5}
_bare = {"weight": None, "bias": None, "mean": f(3), "variance": p(3), "momentum": 0.1, "epsilon": 1e-3}
_batches = [{"x": f(2, 3, 4, 5), **_norm}, {"x": f(6, 3), **_norm}, {"x": f(2, 3, 4), **_bare}]
_query, _key, _value = f(2, 3, 4, 8), f(2, 3, 6, 8), f(2, 3, 6, 8)
_hidden = a([[True, False, True, True, False, True], [False] * 6, [True] * 6, [False, True] * 3], "bool")
_attended = [
    {"query": _query, "key": _key, "value": _value},
    {"query": _query, "key": _key, "value": _value, "mask": f(4, 6)},
    {"query": _query, "key": _key, "value": _value, "is_causal": True},
    {"query": _query, "key": _key, "value": _value, "scale": 0.5},
]

LAYERS: dict[str, list[dict[str, Any]]] = {
    **{f"conv{n}d": _convolutions(n) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": _transposed(n) for n in (1, 2, 3)},
    "convolution": [
        {
            "x": f(2, 4, 7),
            "weight": f(6, 4, 3),
            "bias": f(6),
            "stride": (2,),
            "padding": (1,),
            "dilation": (1,),
            "transposed": False,
            "output_padding": (0,),
            "groups": 1,
        },
        {
            "x": f(2, 4, 5, 6),
            "weight": f(6, 2, 3, 2),
            "bias": None,
            "stride": (1, 2),
            "padding": (1, 0),
            "dilation": (2, 1),
            "transposed": False,
            "output_padding": (0, 0),
            "groups": 2,
        },
        {
            "x": f(2, 4, 5, 6),
            "weight": f(4, 3, 3, 2),
            "bias": f(6),
            "stride": (3, 2),
            "padding": (1, 0),
            "dilation": (2, 1),
            "transposed": True,
            "output_padding": (1, 0),
            "groups": 2,
        },
    ],
    **{f"max_pool{n}d": _max_pools(n) for n in (1, 2, 3)},
    "max_pool2d_with_indices": [
        *_max_pools(2),
        {"x": a([[[1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0, 2.0]]]), "kernel": (2, 2)},
    ],
    "avg_pool1d": _mean_pools(1, False),
    "avg_pool2d": _mean_pools(2, True),
    "avg_pool3d": _mean_pools(3, True),
    **{f"adaptive_avg_pool{n}d": _sized(n) for n in (1, 2, 3)},
    **{f"adaptive_max_pool{n}d": _sized(n) for n in (1, 2)},
    "upsample_nearest": [
        *({"x": _image, **each} for each in (*_sizes, *_scales)),
        {"x": f(2, 3, 4), "shape": (7,)},
        {"x": f(1, 2, 3, 3, 3), "shape": (4, 5, 6)},
    ],
    "upsample_nearest2d": [
        *({"x": _image, **each} for each in _sizes),
        {"x": _image, "shape": (8, 10), "scale_h": 2.0, "scale_w": 2.0},
    ],
    "upsample_linear": [
        *({"x": _image, **size, **corners} for size in (*_sizes, *_scales) for corners in _corners),
        {"x": f(2, 3, 4), "shape": (7,), "align_corners": False},
        {"x": f(1, 2, 3, 3, 3), "shape": (4, 5, 2), "align_corners": True},
    ],
    "upsample_bilinear2d": [
        *({"x": _image, **size, **corners} for size in _sizes for corners in _corners),
        {"x": _image, "shape": (6, 9), "align_corners": False, "scale_h": 1.6, "scale_w": 1.9},
    ],
    "upsample_bicubic": [{"x": _image, **size, **corners} for size in (*_sizes, *_scales) for corners in _corners],
    **{
        name: _plain()
        for name in ("relu", "relu6", "silu", "sigmoid", "hardsigmoid", "hardswish", "selu", "mish", "logsigmoid")
    },
    "gelu": [*_plain()[:-1], *_plain(approximate="tanh")[:-1]],
    "hardtanh": [*_plain(), *_plain(min=-2.0, max=0.5), {"x": i(5)}],
    "leaky_relu": [*_plain(), *_plain(slope=0.2)],
    "elu": [*_plain(), *_plain(alpha=0.5, scale=1.5, input_scale=2)],
    "celu": [*_plain(), *_plain(alpha=0.5)],
    "softplus": [*_plain(), *_plain(beta=2, threshold=1)],
    "prelu": [{"x": f(2, 3, 4), "weight": f(3)}, {"x": f(2, 3), "weight": f(1)}, {"x": f(4), "weight": f(1)}],
    "threshold": _plain(threshold=0.5, value=-7.0),
    "softshrink": [*_plain(), *_plain(lambd=1.0)],
    "hardshrink": [*_plain(), *_plain(lambd=1.0)],
    "glu": [{"x": f(2, 6)}, {"x": f(4, 3, 2), "axis": 0}],
    **{
        name: [
            {"x": f(2, 3), "axis": 1},
            {"x": f(2, 3, 4, scale=100), "axis": -2},
            {"x": f(2, 3), "axis": 0, "dtype": F64},
            {"x": i(2, 3), "axis": -1, "dtype": Token("dtype", "float32")},
            {"x": a([[0.0, -INF, 1.0]]), "axis": 1},
            {"x": f(), "axis": 0},
            {"x": f(0, 3), "axis": 1},
        ]
        for name in ("softmax", "log_softmax")
    },
    "safe_softmax": [
        {"x": f(2, 3), "axis": 1},
        {"x": a([[-INF, -INF], [0.0, -INF]]), "axis": -1},
        {"x": f(2, 3), "axis": 0, "dtype": F64},
    ],
    "logit": [{"x": p(2, 3)}, {"x": a([0.0, 0.5, 1.0]), "epsilon": 1e-3}, {"x": a([0.0, 1.0, 2.0])}],
    "layer_norm": [
        {"x": f(2, 3, 4), "shape": (4,)},
        {"x": f(2, 3, 4), "shape": (4,), "weight": f(4), "bias": f(4), "epsilon": 1e-12},
        {"x": f(2, 3, 4), "shape": (3, 4), "weight": f(3, 4)},
        {"x": f(4, dtype="float64"), "shape": (4,)},
    ],
    "native_layer_norm": [
        {"x": f(2, 3, 4), "shape": (4,), "weight": f(4), "bias": f(4), "epsilon": 1e-5},
        {"x": f(2, 3, 4), "shape": (3, 4), "weight": None, "bias": None, "epsilon": 1e-3},
    ],
    "rms_norm": [
        {"x": f(2, 3, 4), "shape": (4,)},
        {"x": f(2, 3, 4), "shape": (3, 4), "weight": f(3, 4), "epsilon": 1e-3},
    ],
    "batch_norm": [{**each, "training": training} for each in _batches for training in (False, True)],
    "native_batch_norm": [
        *({**each, "training": training} for each in _batches for training in (False, True)),
        {**_batches[0], "mean": None, "variance": None, "training": True},
    ],
    "functional_batch_norm": [{**each, "training": training} for each in _batches for training in (False, True)],
    "group_norm": [
        {"x": f(2, 6, 4), "groups": 3},
        {"x": f(2, 6, 4, 5), "groups": 2, "weight": f(6), "bias": f(6), "epsilon": 1e-3},
    ],
    "native_group_norm": [
        {"x": f(2, 6, 4, 5), "weight": f(6), "bias": f(6), "n": 2, "c": 6, "area": 20, "groups": 3, "epsilon": 1e-5},
        {"x": f(2, 6, 4), "weight": None, "bias": None, "n": 2, "c": 6, "area": 4, "groups": 2, "epsilon": 1e-3},
    ],
    "instance_norm": [
        {**each, **own, "use_input_stats": bool(own)}
        for each in (_batches[0], _batches[2])
        for own in ({"mean": None, "variance": None}, {})
    ],
    "dropout": [
        {"x": f(2, 3), "p": 0.5, "training": False},
        {"x": f(2, 3), "p": 0.0, "training": True},
        {"x": f(2, 3), "p": 1.0, "training": True},
    ],
    "feature_dropout": [
        {"x": f(2, 3, 4, 5), "p": 0.5, "training": False},
        {"x": f(2, 3, 4, 5), "p": 0.0, "training": True},
    ],
    "scaled_dot_product_attention": [
        *_attended,
        {"query": _query, "key": _key, "value": _value, "mask": _hidden},
        {"query": f(2, 6, 4, 8), "key": f(2, 3, 5, 8), "value": f(2, 3, 5, 8), "enable_gqa": True},
        {"query": f(4, 8), "key": f(6, 8), "value": f(6, 5)},
        {"query": f(2, 4, 8), "key": f(2, 6, 8), "value": f(2, 6, 8), "mask": b(2, 1, 6), "scale": 0.3},
    ],
    "flash_attention": [
        *_attended,
        {"query": f(2, 6, 4, 8), "key": f(2, 3, 4, 8), "value": f(2, 3, 4, 8), "is_causal": True},
    ],
    "cross_entropy_loss": [
        *_chosen,
        {"x": f(4, 3), "y": _ignoring, "ignore_index": 2, "label_smoothing": 0.1},
        *(
            {"x": f(4, 3), "y": _ignoring, "weight": p(3), "label_smoothing": 0.2, "reduction": reduction}
            for reduction in (0, 1, 2)
        ),
        {"x": f(4, 3), "y": p(4, 3)},
        {"x": f(4, 3), "y": p(4, 3), "weight": p(3), "label_smoothing": 0.1},
        *({"x": f(2, 3, 4), "y": p(2, 3, 4), "reduction": reduction} for reduction in (0, 2)),
    ],
    "nll_loss": [*_chosen],
    "mse_loss": [*_losses],
    "l1_loss": [*_losses],
    "smooth_l1_loss": [*_losses, {"x": f(5, scale=3), "y": f(5), "beta": 0.5}],
    "huber_loss": [*_losses, {"x": f(5, scale=3), "y": f(5), "delta": 0.5}],
    "binary_cross_entropy": [
        *_losses,
        {"x": p(4, 3), "y": b(4, 3).astype("float32"), "weight": p(3)},
        {"x": a([0.0, 1.0]), "y": a([1.0, 0.5])},
    ],
    "binary_cross_entropy_with_logits": [
        *_losses,
        {"x": f(4, 3, scale=9), "y": p(4, 3), "weight": p(3), "pos_weight": p(3)},
    ],
    "kl_div": [*_losses, {"x": f(4, 3), "y": f(4, 3), "log_target": True}, {"x": f(3), "y": a([0.0, 0.5, 0.5])}],
}


def _recurrent(name: str) -> list[dict[str, Any]]:
    """Layers of a recurrent row: one, two in both directions, the batch first, without a bias, of packed sequences."""
    gates = {"lstm": 4, "gru": 3}.get(name, 1)

    def case(
        layers: int,
        bidirectional: bool,
        bias: bool,
        batch_first: bool,
        dtype: str = "float32",
        counts: tuple[int, ...] = (),
    ) -> dict[str, Any]:
        sides, weights = 2 if bidirectional else 1, []
        for layer in range(layers):
            width = 4 if not layer else 3 * sides
            for _ in range(sides):
                weights += [f(gates * 3, width, dtype=dtype), f(gates * 3, 3, dtype=dtype)]
                weights += [f(gates * 3, dtype=dtype), f(gates * 3, dtype=dtype)] if bias else []
        batch = counts[0] if counts else 2
        state = f(layers * sides, batch, 3, dtype=dtype)
        states = {"states": (state, f(layers * sides, batch, 3, dtype=dtype))} if name == "lstm" else {"state": state}
        padded = f(2, 5, 4, dtype=dtype) if batch_first else f(5, 2, 4, dtype=dtype)
        return {
            "x": f(sum(counts), 4, dtype=dtype) if counts else padded,
            **states,
            "weights": tuple(weights),
            "bias": bias,
            "layers": layers,
            "dropout": 0.0,
            "training": False,
            "bidirectional": bidirectional,
            **({"counts": a(counts, "int64")} if counts else {"batch_first": batch_first}),
        }

    return [
        case(1, False, True, False),
        case(2, True, True, True),
        case(2, False, False, True),
        case(1, True, False, False, "float64"),
        case(2, True, True, False, counts=(3, 2, 2, 1)),
        case(1, False, False, False, counts=(4, 4)),
    ]


LAYERS |= {name: _recurrent(name) for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")}
LAYERS |= {
    "pack_sequences": [
        {"x": f(4, 3, 2), "lengths": a([4, 3, 1], "int64")},
        {"x": f(3, 6, 2), "lengths": a([4, 4, 2], "int64"), "batch_first": True},
        {"x": i(5, 2), "lengths": a([1, 1], "int64")},
    ],
    "pad_sequences": [
        {"x": f(8, 2), "counts": a([3, 2, 2, 1], "int64"), "batch_first": False, "padding": 0.0},
        {"x": f(8, 2), "counts": a([3, 2, 2, 1], "int64"), "batch_first": True, "padding": 1.5, "length": 6},
        {"x": f(4), "counts": a([2, 2], "int64"), "batch_first": False, "padding": -1.0, "length": 2},
    ],
}
