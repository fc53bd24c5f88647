"""Cases of the rows of `vocabulary.training`."""

from __future__ import annotations

from typing import Any

import numpy as np
from case_arrays import a, b, f, i, p

from pijit.graph import Token

F32 = Token("dtype", "float32")


def _activation(width: float = 3, **common: Any) -> list[dict[str, Any]]:
    return [
        {"gradient": f(2, 5), "x": f(2, 5, scale=width), **common},
        {"gradient": f(), "x": f(), **common},
        {"gradient": f(4), "x": a([-3.0, 3.0, 0.0, 1.0]), **common},
        {"gradient": f(3, dtype="float64"), "x": f(3, dtype="float64"), **common},
    ]


_softened = [
    {"gradient": f(2, 3), "y": p(2, 3), "axis": 1, "dtype": F32},
    {"gradient": f(2, 3, 4), "y": p(2, 3, 4), "axis": -2, "dtype": F32},
]
_classes = a([0, 2, 1, 2], "int64")
_wide = i(2, 4, 5, low=0, high=3)
_masks = ((True, True, True), (True, False, True), (False, True, False))
_norm = {"weight": f(3), "mean": f(3), "variance": p(3), "save_mean": f(3), "save_rstd": p(3), "epsilon": 1e-5}


def _convolution(x: Any, weight: Any, shape: Any, **changes: Any) -> dict[str, Any]:
    n = weight.ndim - 2
    usual = {
        "stride": (1,) * n,
        "padding": (0,) * n,
        "dilation": (1,) * n,
        "transposed": False,
        "output_padding": (0,) * n,
        "groups": 1,
        "mask": (True,) * 3,
    }
    out = weight.shape[1] * changes.get("groups", 1) if changes.get("transposed") else weight.shape[0]
    return {"gradient": f(x.shape[0], out, *shape), "x": x, "weight": weight, "bias_shape": (out,), **usual, **changes}


_image = f(2, 3, 6, 5)
_square = {"kernel": (3, 2), "stride": (2, 1), "padding": (1, 0)}
_qkv = {"query": f(2, 3, 4, 8), "key": f(2, 3, 6, 8), "value": f(2, 3, 6, 8)}

TRAINING: dict[str, list[dict[str, Any]]] = {
    "threshold_backward": _activation(threshold=0),
    "gelu_backward": [*_activation(), *_activation(1, approximate="tanh")],
    **{
        name: _activation() for name in ("silu_backward", "mish_backward", "hardswish_backward", "hardsigmoid_backward")
    },
    **{
        name: [{"gradient": f(2, 3), "y": p(2, 3)}, {"gradient": f(), "y": p()}]
        for name in ("tanh_backward", "sigmoid_backward")
    },
    "hardtanh_backward": _activation(min=-1.0, max=2.0),
    "leaky_relu_backward": _activation(slope=0.2, is_result=False),
    "elu_backward": [
        *_activation(alpha=0.5, scale=1.5, input_scale=2.0, is_result=False),
        {"gradient": f(4), "x": p(4, low=-0.4), "alpha": 0.5, "scale": 1.0, "input_scale": 1.0, "is_result": True},
    ],
    "softplus_backward": [*_activation(beta=1, threshold=20), *_activation(beta=2.0, threshold=1)],
    "log_sigmoid_forward": [{"x": f(2, 3, scale=3)}, {"x": f()}],
    "log_sigmoid_backward": [{"gradient": f(3), "x": x, "buffer": np.exp(-np.abs(x))} for x in (f(3), f(3, scale=4))],
    "prelu_backward": [
        {"gradient": f(2, 3), "x": f(2, 3), "weight": f(1, 3)},
        {"gradient": f(2, 3, 4), "x": f(2, 3, 4), "weight": f(1, 1, 1)},
    ],
    "glu_backward": [{"gradient": f(2, 3), "x": f(2, 6), "axis": -1}, {"gradient": f(2, 3), "x": f(4, 3), "axis": 0}],
    "softmax_backward": [*_softened],
    "log_softmax_backward": [{**each, "y": np.log(each["y"])} for each in _softened],
    "nll_loss_forward": [
        *(
            {"x": f(4, 3), "y": _classes, "weight": weight, "reduction": reduction, "ignore_index": 2}
            for weight in (None, p(3))
            for reduction in (0, 1, 2)
        ),
        {"x": f(2, 3, 4, 5), "y": _wide, "weight": p(3), "reduction": 1, "ignore_index": -100},
        {"x": f(3), "y": a(1, "int64"), "weight": None, "reduction": 1, "ignore_index": -100},
    ],
    "nll_loss_backward": [
        *(
            {
                "gradient": f(),
                "x": f(4, 3),
                "y": _classes,
                "weight": weight,
                "reduction": reduction,
                "ignore_index": 1,
                "total": p(),
            }
            for weight in (None, p(3))
            for reduction in (1, 2)
        ),
        {
            "gradient": f(4),
            "x": f(4, 3),
            "y": _classes,
            "weight": p(3),
            "reduction": 0,
            "ignore_index": -100,
            "total": p(),
        },
        {
            "gradient": f(),
            "x": f(2, 3, 4, 5),
            "y": _wide,
            "weight": p(3),
            "reduction": 1,
            "ignore_index": 0,
            "total": p(),
        },
    ],
    "mse_loss_backward": [
        {"gradient": f(), "x": f(2, 3), "y": f(2, 3), "reduction": 1},
        {"gradient": f(2, 3), "x": f(2, 3), "y": f(2, 3), "reduction": 0},
        {"gradient": f(), "x": f(4), "y": f(4), "reduction": 2},
    ],
    "smooth_l1_loss_backward": [
        {"gradient": f(), "x": f(2, 3), "y": f(2, 3), "reduction": 1, "beta": 1.0},
        {"gradient": f(4), "x": f(4), "y": f(4), "reduction": 0, "beta": 0.3},
    ],
    "huber_loss_backward": [
        {"gradient": f(), "x": f(2, 3), "y": f(2, 3), "reduction": 1, "delta": 1.0},
        {"gradient": f(4), "x": f(4), "y": f(4), "reduction": 0, "delta": 0.3},
    ],
    "binary_cross_entropy_backward": [
        {"gradient": f(), "x": p(2, 3), "y": p(2, 3)},
        {"gradient": f(4), "x": p(4), "y": p(4), "weight": p(4), "reduction": 0},
    ],
    "layer_norm_backward": [
        {
            "gradient": f(2, 3, 4),
            "x": f(2, 3, 4),
            "shape": (4,),
            "mean": f(2, 3, 1),
            "rstd": p(2, 3, 1),
            "weight": f(4),
            "bias": f(4),
            "mask": mask,
        }
        for mask in _masks
    ]
    + [
        {
            "gradient": f(2, 3, 4),
            "x": f(2, 3, 4),
            "shape": (3, 4),
            "mean": f(2, 1, 1),
            "rstd": p(2, 1, 1),
            "weight": None,
            "bias": None,
            "mask": (True, False, False),
        }
    ],
    "batch_norm_backward": [
        *(
            {"gradient": f(2, 3, 4, 5), "x": f(2, 3, 4, 5), **_norm, "training": training, "mask": mask}
            for training in (True, False)
            for mask in _masks
        ),
        {"gradient": f(6, 3), "x": f(6, 3), **_norm, "weight": None, "training": True, "mask": (True, False, False)},
    ],
    "group_norm_backward": [
        {
            "gradient": f(2, 6, 4, 5),
            "x": f(2, 6, 4, 5),
            "mean": f(2, 3),
            "rstd": p(2, 3),
            "weight": f(6),
            "n": 2,
            "c": 6,
            "area": 20,
            "groups": 3,
            "mask": (True,) * 3,
        },
        {
            "gradient": f(2, 6, 4),
            "x": f(2, 6, 4),
            "mean": f(2, 2),
            "rstd": p(2, 2),
            "weight": f(6),
            "n": 2,
            "c": 6,
            "area": 4,
            "groups": 2,
            "mask": (True, False, False),
        },
    ],
    "native_dropout": [
        {"x": f(2, 3), "p": 0.5, "training": False},
        {"x": f(2, 3), "p": 0.0, "training": True},
        {"x": f(2, 3), "p": 1.0, "training": True},
    ],
    "dropout_backward": [
        {"gradient": f(2, 3), "kept": b(2, 3), "scale": 2.0},
        {"gradient": f(3), "kept": b(3), "scale": 1.25},
    ],
    "embedding_backward": [
        {"gradient": f(2, 4, 3), "x": i(2, 4, low=0, high=5), "rows": 5, "padding_index": -1},
        {"gradient": f(6, 3), "x": i(6, low=0, high=3), "rows": 4, "padding_index": 1, "scale_by_frequency": True},
    ],
    "convolution_backward": [
        _convolution(f(2, 4, 7), f(6, 4, 3), (5,)),
        _convolution(f(2, 4, 7), f(6, 2, 3), (3,), stride=(2,), groups=2, mask=(True, True, False)),
        *(
            _convolution(
                f(2, 4, 8, 6),
                f(6, 2, 3, 2),
                (4, 6),
                stride=(2, 1),
                padding=(1, 1),
                dilation=(1, 2),
                groups=2,
                mask=mask,
            )
            for mask in _masks
        ),
        _convolution(f(2, 4, 6, 6), f(4, 1, 3, 3), (6, 6), padding=(1, 1), groups=4),
        _convolution(f(1, 2, 5, 4, 6), f(3, 2, 2, 2, 3), (2, 3, 2), stride=(2, 1, 2)),
        _convolution(
            f(2, 4, 5), f(4, 3, 3), (13,), stride=(3,), padding=(1,), output_padding=(0,), transposed=True, groups=2
        ),
        _convolution(
            f(2, 4, 4, 3), f(4, 6, 3, 2), (8, 8), stride=(2, 3), padding=(1, 0), output_padding=(1, 0), transposed=True
        ),
    ],
    "max_pool2d_backward": [
        {
            "gradient": f(2, 3, 3, 4),
            "x": _image,
            **_square,
            "dilation": (1, 1),
            "ceil_mode": False,
            "indices": a(np.broadcast_to(np.arange(12).reshape(3, 4) * 2, (2, 3, 3, 4)), "int64"),
        },
        {
            "gradient": f(3, 3, 2),
            "x": _image[0],
            "kernel": (2, 2),
            "stride": (),
            "padding": (0, 0),
            "dilation": (1, 1),
            "ceil_mode": False,
            "indices": i(3, 3, 2, low=0, high=30),
        },
    ],
    "avg_pool2d_backward": [
        {
            "gradient": f(2, 3, 3, 4),
            "x": _image,
            **_square,
            "ceil_mode": False,
            "count_include_pad": include,
            "divisor": None,
        }
        for include in (True, False)
    ]
    + [
        {
            "gradient": f(2, 3, 3, 3),
            "x": _image,
            "kernel": (2, 2),
            "stride": (2, 2),
            "padding": (0, 0),
            "ceil_mode": True,
            "count_include_pad": True,
            "divisor": 3,
        }
    ],
    "adaptive_avg_pool2d_backward": [
        {"gradient": f(2, 3, 2, 3), "x": _image},
        {"gradient": f(3, 1, 1), "x": _image[0]},
    ],
    "adaptive_max_pool2d_backward": [
        {"gradient": f(2, 3, 2, 2), "x": _image, "indices": i(2, 3, 2, 2, low=0, high=30)},
        {"gradient": f(3, 2, 1), "x": _image[0], "indices": i(3, 2, 1, low=0, high=30)},
    ],
    "upsample_nearest2d_backward": [
        {"gradient": f(2, 3, 8, 7), "shape": (8, 7), "input_shape": (2, 3, 4, 5)},
        {"gradient": f(1, 2, 2, 3), "shape": (2, 3), "input_shape": (1, 2, 4, 5)},
    ],
    "upsample_bilinear2d_backward": [
        {"gradient": f(2, 3, 8, 7), "shape": (8, 7), "input_shape": (2, 3, 4, 5), "align_corners": corners}
        for corners in (False, True)
    ],
    "select_backward": [
        {"gradient": f(2, 4), "shape": (2, 3, 4), "axis": 1, "index": 2},
        {"gradient": f(2, 3), "shape": (2, 3, 4), "axis": -1, "index": -1},
    ],
    "slice_backward": [
        {"gradient": f(2, 2), "shape": (2, 5), "axis": 1, "start": 1, "stop": 5, "step": 2},
        {"gradient": f(2, 3), "shape": (4, 3), "axis": 0, "start": -2, "stop": 9223372036854775807, "step": 1},
    ],
    "diagonal_backward": [
        {"gradient": f(3), "shape": (3, 4), "offset": 0, "axis1": 0, "axis2": 1},
        {"gradient": f(2, 2), "shape": (2, 3, 3), "offset": 1, "axis1": -2, "axis2": -1},
    ],
    "unfold_backward": [
        {"gradient": f(3, 3), "shape": (7,), "axis": 0, "size": 3, "step": 2},
        {"gradient": f(2, 4, 3, 3), "shape": (2, 6, 3), "axis": 1, "size": 3, "step": 1},
    ],
    "flash_attention_backward": [
        {
            "gradient": f(2, 3, 4, 8),
            **_qkv,
            "y": f(2, 3, 4, 8),
            "logsumexp": p(2, 3, 4, low=2, high=3),
            "dropout": 0.0,
            "is_causal": causal,
            "mask": mask,
            "scale": scale,
        }
        for causal, mask, scale in ((False, None, None), (True, None, 0.5), (False, f(4, 6), None))
    ]
    + [
        {
            "gradient": f(2, 6, 4, 8),
            **{"query": f(2, 6, 4, 8), "key": f(2, 3, 4, 8), "value": f(2, 3, 4, 8), "y": f(2, 6, 4, 8)},
            **{"logsumexp": p(2, 6, 4, low=2, high=3), "dropout": 0.0, "is_causal": True},
        }
    ],
}
