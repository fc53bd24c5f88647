"""Cases of the rows of `vocabulary.arrays`."""

from __future__ import annotations

from typing import Any

import numpy as np
from case_arrays import INF, NAN, a, b, f, i, over

from pijit.graph import Token

F64, F32, F16 = Token("dtype", "float64"), Token("dtype", "float32"), Token("dtype", "float16")
I64, I32, BOOL = Token("dtype", "int64"), Token("dtype", "int32"), Token("dtype", "bool")
CPU = Token("device", "cpu")

_created = [
    {"shape": (2, 3)},
    {"shape": ()},
    {"shape": (0, 2), "dtype": I64},
    {"shape": (2,), "dtype": BOOL, "device": CPU},
    {"shape": (3,), "dtype": F16},
]
_alike = [{"x": f(2, 3)}, {"x": i(3)}, {"x": f(2), "dtype": I64}, {"x": b(2), "device": CPU}, {"x": f()}]
_new = [
    {"x": f(2), "shape": (2, 3)},
    {"x": i(2), "shape": ()},
    {"x": f(2), "shape": (1,), "dtype": BOOL, "device": CPU},
]
_one = [{"x": f(2, 3)}, {"x": i(3)}, {"x": f()}]
_pads = ((1, 1), (2, 1), (0, 2))
_images = f(2, 8, 2, 3)
_places = i(2, 4, low=0, high=3)
_unique = np.argsort(f(2, 5), axis=1)

ARRAYS: dict[str, list[dict[str, Any]]] = {
    **{
        name: [
            *over("shape", [(6,), (3, 2), (-1, 2), (1, 6, 1), (2, 3)], x=f(2, 3)),
            {"x": f(), "shape": (1,)},
            {"x": f(1), "shape": ()},
            {"x": f(0, 3), "shape": (3, 0)},
        ]
        for name in ("reshape", "view")
    },
    "reshape_as": [{"x": f(2, 3), "y": f(6)}, {"x": i(4), "y": f(2, 2)}],
    "flatten": [
        {"x": f(2, 3, 4)},
        {"x": f(2, 3, 4), "start": 1},
        {"x": f(2, 3, 4), "start": -3, "end": -2},
        {"x": f()},
        {"x": f(0, 2)},
    ],
    "ravel": [*_one],
    "unflatten": [{"x": f(2, 6), "axis": 1, "shape": (2, 3)}, {"x": f(6, 2), "axis": -2, "shape": (-1, 3)}],
    "permute_dims": [
        {"x": f(2, 3, 4), "axes": (2, 0, 1)},
        {"x": f(2, 3, 4), "axes": (0, -1, 1)},
        {"x": f(), "axes": ()},
    ],
    "swapaxes": [
        {"x": f(2, 3, 4), "axis1": 0, "axis2": 2},
        {"x": f(2, 3, 4), "axis1": -1, "axis2": -2},
        {"x": f(), "axis1": 0, "axis2": -1},
    ],
    "t": [{"x": f(2, 3)}, {"x": f(3)}, {"x": f()}],
    "matrix_transpose": [{"x": f(2, 3)}, {"x": f(2, 3, 4)}],
    "moveaxis": [
        {"x": f(2, 3, 4), "source": 0, "destination": -1},
        {"x": f(2, 3, 4), "source": (0, 1), "destination": (2, 0)},
    ],
    "expand_dims": over("axis", [0, 1, -1, -3], x=f(2, 3)),
    "squeeze": [
        {"x": f(1, 2, 1)},
        {"x": f(1, 2, 1), "axis": 0},
        {"x": f(1, 2, 1), "axis": 1},
        {"x": f(1, 2, 1), "axis": (0, -1)},
        {"x": f(1, 2, 1), "axis": (-1, 1)},
        {"x": f(), "axis": 0},
    ],
    "broadcast_to": [
        {"x": f(3), "shape": (2, 3)},
        {"x": f(2, 1), "shape": (4, -1, 3)},
        {"x": f(), "shape": (2, 2)},
        {"x": f(1, 3), "shape": (0, 3)},
    ],
    "expand_as": [{"x": f(3), "y": f(2, 3)}, {"x": f(2, 1), "y": i(2, 4)}],
    "tile": [{"x": f(2, 3), "repeats": (2, 1)}, {"x": f(3), "repeats": (2, 2)}, {"x": f(2, 3), "repeats": (1, 0)}],
    "repeat": [
        {"x": f(2, 3), "repeats": 2},
        {"x": f(2, 3), "repeats": 3, "axis": 1},
        {"x": f(2, 3), "repeats": 2, "axis": -2},
        {"x": f(3), "repeats": a([1, 0, 2], "int64"), "axis": 0, "length": 3},
    ],
    "concat": [
        {"arrays": (f(2, 3), f(1, 3))},
        {"arrays": (f(2, 3), f(2, 1)), "axis": -1},
        {"arrays": (i(2), f(3))},
        {"arrays": (f(0), f(2, 3))},
        {"arrays": (f(0, 3), f(2, 3))},
    ],
    "stack": [
        {"arrays": (f(2, 3), f(2, 3))},
        {"arrays": (f(2), f(2), f(2)), "axis": -1},
        {"arrays": (i(2), f(2)), "axis": 1},
        {"arrays": (f(), f())},
    ],
    "hstack": [{"arrays": (f(2, 3), f(2, 1))}, {"arrays": (f(2), f(3))}],
    "vstack": [{"arrays": (f(2, 3), f(1, 3))}, {"arrays": (f(3), f(3))}],
    "unstack": [{"x": f(2, 3)}, {"x": f(2, 3), "axis": -1}],
    "split": [
        {"x": f(5, 2), "size": 2},
        {"x": f(2, 6), "size": 3, "axis": -1},
        {"x": f(2, 6), "size": (1, 2, 3), "axis": 1},
        {"x": f(2, 3), "size": 9},
    ],
    "chunk": [
        {"x": f(6), "chunks": 3},
        {"x": f(2, 7), "chunks": 3, "axis": 1},
        {"x": f(5, 2), "chunks": 4, "axis": -2},
    ],
    "tensor_split": [
        {"x": f(7), "parts": 3},
        {"x": f(2, 6), "parts": (1, 4), "axis": 1},
        {"x": f(2, 5), "parts": 2, "axis": -1},
    ],
    "roll": [
        {"x": f(2, 3), "shift": (1,)},
        {"x": f(2, 3), "shift": (1, -1), "axis": (0, 1)},
        {"x": f(2, 3), "shift": (-2,), "axis": (1,)},
        {"x": f(2, 3), "shift": 4, "axis": ()},
    ],
    "flip": [{"x": f(2, 3), "axis": (0,)}, {"x": f(2, 3, 2), "axis": (0, -1)}],
    "pad": [
        {"x": f(2, 3), "padding": (1, 2)},
        {"x": f(2, 3), "padding": (1, 2, 3, 0), "value": 1.5},
        {"x": f(2, 5), "padding": (-1, 2, 0, -1)},
        {"x": i(3), "padding": (1, 1), "value": 7},
        *({"x": f(2, 3, 4), "padding": (2, 1), "mode": mode} for mode in ("reflect", "replicate", "circular")),
        *({"x": f(1, 2, 3, 4), "padding": (2, 1, 1, 2), "mode": mode} for mode in ("reflect", "replicate", "circular")),
    ],
    "reflection_pad": [
        {"x": f(2, 3, 4), "padding": (2, 1)},
        {"x": f(1, 2, 3, 4), "padding": (2, 1, 1, 2)},
        {"x": f(2, 3, 4), "padding": (1, 0, 1, 1)},
    ],
    "replication_pad": [
        {"x": f(2, 3, 4), "padding": (2, 5)},
        {"x": f(1, 2, 3, 4), "padding": (2, 1, 1, 2)},
        {"x": f(1, 1, 2, 3, 4), "padding": (1, 1, 2, 2, 3, 0)},
    ],
    "diagonal": [
        {"x": f(3, 4)},
        {"x": f(2, 3, 4), "offset": 1, "axis1": -2, "axis2": -1},
        {"x": f(3, 3), "offset": -1},
    ],
    "diag_embed": [{"x": f(3)}, {"x": f(2, 3), "offset": 1}, {"x": f(2, 3), "offset": -2, "axis1": 0, "axis2": 2}],
    "unfold": [
        {"x": f(7), "axis": 0, "size": 3, "step": 2},
        {"x": f(2, 6, 3), "axis": 1, "size": 2, "step": 1},
        {"x": f(2, 6), "axis": -1, "size": 6, "step": 1},
    ],
    "im2col": [
        {"x": f(2, 3, 4, 5), "kernel": (2, 3), "dilation": (1, 1), "padding": (0, 0), "stride": (1, 1)},
        {"x": f(1, 2, 6, 6), "kernel": (3, 2), "dilation": (1, 2), "padding": (1, 0), "stride": (2, 1)},
    ],
    "pixel_shuffle": [{"x": _images, "factor": 2}, {"x": f(4, 2, 3), "factor": 2}],
    "pixel_unshuffle": [{"x": f(2, 3, 4, 6), "factor": 2}, {"x": f(1, 3, 3), "factor": 3}],
    "channel_shuffle": [{"x": _images, "groups": 2}, {"x": f(1, 6, 4, 1), "groups": 3}],
    "meshgrid": [
        {"arrays": (f(2), f(3))},
        {"arrays": (f(2), f(3)), "indexing": "xy"},
        {"arrays": (i(2), i(3), i(4)), "indexing": "ij"},
    ],
    "broadcast_arrays": [{"arrays": (f(2, 1), f(3))}, {"arrays": (f(), i(2))}],
    "size": over("axis", [0, 1, -1], x=f(2, 3)),
    "ndim": [*_one],
    "numel": [*_one],
    "getitem": [
        *(
            {"x": f(4, 5, 6), "index": index}
            for index in (
                0,
                -1,
                (0, 1),
                (slice(None), 2),
                (slice(1, 3), Ellipsis, -1),
                (Ellipsis, None),
                None,
                (None, slice(None), 1, slice(None, None, 2)),
                (slice(None), slice(-3, None)),
                (Ellipsis, slice(0, 100)),
                (slice(2, 2),),
                Ellipsis,
                (slice(None), (0, 2)),
                (slice(None), slice(None), (-1, 0)),
                (0, slice(None), i(3, low=0, high=6)),
                (i(2, low=0, high=4), slice(None), i(2, low=0, high=6)),
                (slice(None), i(2, 2, low=0, high=5)),
                (i(3, low=0, high=4), 1),
                (None, i(3, low=0, high=4), Ellipsis, 0),
                (i(2, 1, low=0, high=4), i(3, low=0, high=5)),
                i(3, low=-4, high=4),
            )
        ),
        {"x": f(), "index": None},
        {"x": f(), "index": Ellipsis},
    ],
    "setitem": [
        *(
            {"x": f(4, 5, 6), "index": index, "value": value}
            for index, value in (
                (0, 1.5),
                ((slice(None), 2), f(4, 6)),
                ((slice(1, 3), Ellipsis, -1), f(5)),
                (Ellipsis, 0),
                ((slice(None), (0, 2)), f(6)),
                ((0, slice(None), a([1, 3], "int64")), f(5, 2)),
                (a([2, 0], "int64"), f(1, 2, 5, 6)),
                ((slice(None, None, 2), 1), f(1, 6)),
                ((1, a([1, 0], "int64")), 7),
                (slice(0, 0), 3.0),
            )
        ),
        {"x": f(3, 4), "index": b(3, 4), "value": 0.5},
        {"x": i(4), "index": slice(1, 3), "value": f(2, scale=5)},
        {"x": f(3), "index": 1, "value": f()},
    ],
    "select": [
        {"x": f(2, 3), "axis": 1, "index": 2},
        {"x": f(2, 3, 4), "axis": -2, "index": -1},
        {"x": f(2), "axis": 0, "index": 0},
    ],
    "slice": [
        {"x": f(5, 4)},
        {"x": f(5, 4), "start": 1, "stop": 3},
        {"x": f(5, 4), "axis": -1, "start": -3, "stop": 100, "step": 2},
        {"x": f(5), "start": 4, "stop": 2},
    ],
    "narrow": [
        {"x": f(5, 4), "axis": 0, "start": 1, "length": 3},
        {"x": f(5, 4), "axis": -1, "start": -2, "length": 2},
        {"x": f(5), "axis": 0, "start": 5, "length": 0},
    ],
    "take": [
        {"x": f(4, 3), "axis": 0, "indices": i(5, low=0, high=4)},
        {"x": f(4, 3), "axis": -1, "indices": i(2, low=0, high=3, dtype="int32")},
        {"x": f(4), "axis": 0, "indices": i(0)},
    ],
    "take_flat": [{"x": f(4, 3), "indices": i(5, low=0, high=12)}, {"x": f(4, 3), "indices": i(2, 2, low=-12, high=0)}],
    "take_along_axis": [
        {"x": f(2, 3), "indices": i(2, 4, low=0, high=3), "axis": 1},
        {"x": f(2, 3), "indices": i(1, 3, low=0, high=2), "axis": 0},
        {"x": f(2, 1, 3), "indices": i(1, 4, 2, low=0, high=3), "axis": -1},
        {"x": f(2, 3), "indices": i(5, low=0, high=6)},
    ],
    "gather": [
        {"x": f(2, 3), "axis": 1, "indices": i(2, 4, low=0, high=3)},
        {"x": f(3, 4), "axis": 0, "indices": i(2, 2, low=0, high=3)},
        {"x": f(2, 3, 4), "axis": -1, "indices": i(1, 2, 5, low=0, high=4)},
        {"x": f(3), "axis": 0, "indices": i(low=0, high=3)},
    ],
    "scatter": [
        {"x": f(2, 5), "axis": 1, "indices": _unique[:, :4], "y": f(2, 5)},
        {"x": f(3, 5), "axis": -1, "indices": _unique[:, :3], "y": 1.5},
        {"x": i(5, 2), "axis": 0, "indices": np.argsort(f(3, 2), axis=0), "y": i(3, 2)},
    ],
    "scatter_add": [
        {"x": f(2, 3), "axis": 1, "indices": _places, "y": f(2, 5)},
        {"x": f(4, 5), "axis": 0, "indices": _places, "y": f(3, 4)},
        {"x": i(2, 3), "axis": -1, "indices": _places, "y": i(2, 4)},
    ],
    "scatter_reduce": [
        {"x": f(2, 3), "axis": 1, "indices": _places, "y": f(2, 4), "reduce": how, "include_self": include}
        for how in ("sum", "prod", "mean", "amax", "amin")
        for include in (True, False)
    ],
    "index": [
        {"x": f(4, 5, 6), "indices": (i(3, low=0, high=4),)},
        {"x": f(4, 5, 6), "indices": (None, i(2, 2, low=-5, high=5))},
        {"x": f(4, 5, 6), "indices": (i(3, low=0, high=4), None, i(3, low=0, high=6))},
        {"x": f(4, 5), "indices": (i(3, 1, low=0, high=4), i(2, low=0, high=5))},
    ],
    "index_put": [
        {"x": f(4, 5), "indices": (a([2, 0], "int64"),), "y": f(2, 5)},
        {"x": f(4, 5), "indices": (None, a([2, 0, 2], "int64")), "y": f(3), "accumulate": True},
        {"x": f(4, 5), "indices": (a([1, 2], "int64"), a([0, 3], "int64")), "y": f()},
        {"x": f(4, 5), "indices": (b(4, 5),), "y": f()},
        {"x": i(4), "indices": (a([1, 1, 2], "int64"),), "y": i(3), "accumulate": True},
    ],
    "index_add": [
        {"x": f(4, 3), "axis": 0, "indices": i(5, low=0, high=4), "y": f(5, 3)},
        {"x": f(4, 3), "axis": -1, "indices": i(2, low=0, high=3), "y": f(4, 2), "alpha": 0.5},
    ],
    "index_copy": [
        {"x": f(4, 3), "axis": 0, "indices": a([2, 0], "int64"), "y": f(2, 3)},
        {"x": f(4, 3), "axis": -1, "indices": a([1], "int64"), "y": f(4, 1)},
    ],
    "index_fill": [
        {"x": f(4, 3), "axis": 0, "indices": a([2, 0], "int64"), "value": 1.5},
        {"x": i(4, 3), "axis": -1, "indices": a([1], "int64"), "value": 7},
    ],
    "masked_fill": [
        {"x": f(2, 3), "mask": b(2, 3), "value": -INF},
        {"x": f(2, 3), "mask": b(3), "value": 1},
        {"x": i(2, 3), "mask": b(2, 1), "value": 9},
        {"x": f(2, 3), "mask": b(1, 3), "value": f()},
    ],
    "masked_select": [
        {"x": f(2, 3), "mask": b(2, 3)},
        {"x": f(2, 3), "mask": b(3)},
        {"x": i(3), "mask": a([False] * 3, "bool")},
    ],
    "masked_scatter": [{"x": f(2, 3), "mask": b(2, 3), "y": f(6)}, {"x": f(2, 3), "mask": b(3), "y": f(2, 4)}],
    "nonzero": [{"x": i(2, 3, low=0, high=2)}, {"x": b(4)}, {"x": f(0, 2)}],
    "unique": [
        {"x": i(2, 3), "inverse": True, "counts": True},
        {"x": a([2, 1, 2, 3])},
        {"x": b(6), "counts": True},
    ],
    "embedding": [
        {"weight": f(5, 3), "x": i(2, 4, low=0, high=5)},
        {"weight": f(5, 3), "x": i(low=0, high=5)},
        {"weight": f(5, 3), "x": i(0, 2, dtype="int32")},
    ],
    "one_hot": [
        {"x": i(2, 3, low=0, high=4), "classes": 5},
        {"x": a([2, 0, 3], "int64")},
        {"x": i(low=0, high=4), "classes": 4},
    ],
    "topk": [
        {"x": f(2, 6), "k": 2},
        {"x": f(6, 2), "k": 3, "axis": 0, "largest": False},
        {"x": i(7, low=0, high=100), "k": 7},
        {"x": f(2, 6), "k": 0},
    ],
    "sort": [
        {"x": f(2, 6)},
        {"x": f(6, 2), "axis": 0, "descending": True},
        {"x": a([2.0, NAN, 1.0, INF])},
        {"x": a([2.0, NAN, 1.0]), "descending": True},
        {"x": f()},
        {"x": i(2, 0)},
    ],
    "argsort": [{"x": f(2, 6)}, {"x": f(6, 2), "axis": 0, "descending": True}],
    "searchsorted": [
        {"boundaries": a([1, 3, 5, 7]), "x": a([[3, 6], [0, 9]])},
        {"boundaries": a([1, 3, 5, 7]), "x": a([3.0, 1.0]), "right": True},
        {"boundaries": a([1, 3, 5, 7]), "x": a([3.0, 1.0]), "side": "right", "int32": True},
        {"boundaries": np.sort(f(2, 5)), "x": f(2, 3)},
        {"boundaries": np.sort(i(2, 5)), "x": i(2, 3), "right": True},
        {"boundaries": a([1, 3, 5]), "x": 3.0},
    ],
    "bucketize": [
        {"x": f(2, 3), "boundaries": a([-1, 0, 1])},
        {"x": i(5), "boundaries": a([-1, 0, 1], "int64"), "right": True},
        {"x": 0.0, "boundaries": a([-1, 0, 1]), "int32": True},
    ],
    "item": [{"x": f()}, {"x": i(1)}, {"x": b(1, 1)}],
    **{f"item_{kind}": [{"x": f()}, {"x": i(1)}, {"x": a([[0]], "int64")}] for kind in ("int", "float", "bool", "not")},
    "zeros": _created,
    "ones": _created,
    "empty": _created,
    "full": [
        {"shape": (2, 3), "value": 1.5},
        {"shape": (2,), "value": 3},
        {"shape": (), "value": True},
        {"shape": (2,), "value": 3, "dtype": F32},
        {"shape": (0,), "value": -INF, "device": CPU},
        {"shape": (2,), "value": 2.5, "dtype": I64},
    ],
    "arange": [
        {"stop": 5},
        {"stop": 2.5},
        {"start": 2, "stop": 7},
        {"start": 1, "stop": 10, "step": 3},
        {"start": 5, "stop": 0, "step": -2},
        {"start": 0.0, "stop": 1.0, "step": 0.1},
        {"stop": 4, "dtype": F32},
        {"start": 0, "stop": 8, "step": 2, "dtype": I32, "device": CPU},
        {"stop": 0},
    ],
    "linspace": [
        {"start": 0, "stop": 1, "num": 5},
        {"start": -1.5, "stop": 2.0, "num": 4, "dtype": F64},
        {"start": 3, "stop": 1, "num": 1},
        {"start": 0, "stop": 1, "num": 0},
    ],
    "eye": [
        {"rows": 3},
        {"rows": 2, "columns": 4},
        {"rows": 2, "dtype": I64},
        {"rows": 3, "columns": 2, "dtype": BOOL, "device": CPU},
    ],
    "asarray": [
        {"value": 1.5},
        {"value": 3},
        {"value": True},
        {"value": (1, 2, 3)},
        {"value": ((1.0, 2), (3, 4))},
        {"value": 2, "dtype": F32},
        {"value": (), "dtype": I64},
        {"value": ()},
        {"value": f(2, 3)},
        {"value": i(2), "dtype": F32},
        {"value": 1.5, "dtype": F64, "device": CPU},
    ],
    **{f"{name}_like": _alike for name in ("zeros", "ones", "empty")},
    "full_like": [{**each, "value": 2} for each in _alike],
    **{f"new_{name}": _new for name in ("zeros", "ones", "empty")},
    "new_full": [{**each, "value": 2} for each in _new],
    "astype": [
        {"x": f(2, 3)},
        {"x": f(2, 3, scale=4), "dtype": I64},
        {"x": i(3), "dtype": F32},
        {"x": f(4), "dtype": BOOL},
        {"x": b(3), "dtype": I32, "copy": True},
        {"x": f(3), "dtype": F64, "device": CPU},
        {"x": f(3), "device": CPU},
        {"x": f(3), "dtype": F16},
        {"x": i(3, low=-1), "dtype": Token("dtype", "uint8")},
        {"x": f(3), "dtype": Token("dtype", "bfloat16")},
    ],
    "type_as": [{"x": f(2, 3, scale=4), "y": i(1)}, {"x": i(3), "y": f(1)}],
    **{name: [*_one] for name in ("copy", "contiguous", "detach", "alias", "zero")},
    "assign": [{"x": f(2, 3), "y": f(3)}, {"x": i(2), "y": f(2, scale=4)}, {"x": f(2), "y": f()}],
    "fill": [{"x": f(2, 3), "value": 1.5}, {"x": i(2), "value": 3}, {"x": f(2), "value": f()}],
}
