"""Cases of the rows of `vocabulary.maths`."""

from __future__ import annotations

from typing import Any

import numpy as np
from case_arrays import INF, NAN, SPECIAL, a, b, f, i, over, p

from pijit.graph import Token
from pijit.graph.vocabulary.maths import OF_FLOATS

F64, I32, F32 = Token("dtype", "float64"), Token("dtype", "int32"), Token("dtype", "float32")


def _unary(*cases: Any) -> list[dict[str, Any]]:
    return over("x", cases)


def _binary(*cases: Any) -> list[dict[str, Any]]:
    return [{"x": x, "y": y} for x, y in cases]


_own = np.random.default_rng(1)


def _matrix(*shape: int, dtype: str = "float32") -> Any:
    return np.asarray(_own.standard_normal(shape), dtype)


def _definite(*shape: int, dtype: str = "float32") -> Any:
    """Symmetric matrices with positive eigenvalues, far from each other."""
    made = _matrix(*shape, dtype=dtype)
    steps = np.asarray(np.diag(np.arange(1, shape[-1] + 1) * 3), dtype)
    return made @ np.swapaxes(made, -1, -2) + steps


_any = (f(2, 3), f(), f(0, 3), f(4, dtype="float64"), i(5), SPECIAL)
_positive = (p(2, 3, high=4), p(), p(0, 3), p(4, dtype="float64"), i(5, low=1), a([0.0, INF, NAN, 1e-20, 1e20]))
_inner = (p(2, 3, low=-0.9, high=0.9), p(), p(0, 3), p(4, dtype="float64"), i(5, low=0, high=1), a([1.0, -1.0, NAN]))
_pairs = (
    (f(2, 3), f(2, 3)),
    (f(2, 3), f(3)),
    (f(2, 1), f(1, 3)),
    (f(0, 3), f(3)),
    (f(3), 2.5),
    (f(3), 2),
    (i(4), i(4, low=1)),
    (i(4), f(4)),
    (i(4), 1.5),
    (f(3), f(dtype="float64")),
    (f(3, dtype="float64"), f(3)),
    (f(), f()),
    (i(3, dtype="int32"), i(low=1)),
)
_floats = (*(_pairs[:4]), (f(3), f()), (SPECIAL, SPECIAL[::-1]), (f(3, dtype="float64"), f(3, dtype="float64")))
_compared = (*_pairs, (SPECIAL, SPECIAL[::-1]), (i(6), i(6)), (b(6), b(6)), (i(6), 2), (i(6), 2.0))
_truths = ((b(6), b(6)), (f(2, 3), b(3)), (i(4, low=0, high=2), i(4, low=0, high=2)), (b(2, 1), b(1, 3)), (b(0), b(0)))
_bits = (
    (i(6), i(6)),
    (b(6), b(6)),
    (i(2, 1, dtype="int32"), i(3, dtype="int32")),
    (i(6), 3),
    (b(6), True),
    (i(3, low=0, high=200, dtype="uint8"), 7),
    (i(0), i(0)),
)
_shifts = ((i(6), i(6, low=0, high=5)), (i(6, dtype="int32"), 3), (i(2, 1), i(3, low=0, high=4)))
_joined = (
    {"x": f(2, 3, 4)},
    {"x": f(2, 3, 4), "axis": (1,)},
    {"x": f(2, 3, 4), "axis": (0, -1), "keepdims": True},
    {"x": f(2, 3, 4), "axis": (-2,), "keepdims": False},
    {"x": f(3, dtype="float64")},
    {"x": f()},
)
_typed = (
    *_joined,
    {"x": f(2, 3), "axis": (1,), "dtype": F64},
    {"x": f(2, 3), "dtype": F64},
    {"x": i(2, 3), "dtype": F32},
    {"x": f(2, 3), "axis": ()},
    {"x": f(0, 3), "axis": (0,)},
)
_summed = ({"x": i(2, 3)}, {"x": b(2, 3)}, {"x": i(2, 3, dtype="int32"), "axis": (0,)}, {"x": b(2, 3), "axis": (1,)})
_corrected = (
    *_joined,
    {"x": f(2, 5), "axis": (1,), "correction": 0},
    {"x": f(2, 5), "axis": (1,), "correction": None},
    {"x": f(2, 5), "correction": True},
    {"x": f(2, 5), "correction": False},
    {"x": f(2, 5), "axis": (0,), "correction": 1.5, "keepdims": True},
)
_tied = a([[1.0, 3.0, 3.0], [2.0, 2.0, 0.0]])
_picked = (
    {"x": f(2, 3, 4), "axis": 1},
    {"x": f(2, 3, 4), "axis": -1, "keepdims": True},
    {"x": i(3, 4), "axis": 0},
    {"x": _tied, "axis": 1},
    {"x": f(), "axis": 0},
)
_extreme = (*_joined, {"x": i(2, 3)}, {"x": i(2, 3), "axis": (0,)}, {"x": b(4)}, {"x": a([1.0, NAN, 2.0])})
_located = (*_picked, {"x": f(2, 3)}, {"x": f(2, 3), "keepdims": True}, {"x": a([1.0, NAN, 2.0])})
_tested = (
    {"x": b(2, 3)},
    {"x": f(2, 3), "axis": 1},
    {"x": i(2, 3, low=0, high=2), "axis": (0, 1)},
    {"x": b(2, 3, 4), "axis": (-1, 0), "keepdims": True},
    {"x": b(0, 3)},
    {"x": b(0, 3), "axis": 0},
    {"x": i(2, 3, low=0, high=2, dtype="uint8")},
    {"x": i(2, 3, low=0, high=2), "axis": ()},
)
_running = (
    {"x": f(2, 3), "axis": 1},
    {"x": f(2, 3, 2), "axis": -2},
    {"x": i(4), "axis": 0},
    {"x": b(4), "axis": 0},
    {"x": i(4, dtype="int32"), "axis": 0, "dtype": I32},
    {"x": f(3), "axis": 0, "dtype": F64},
    {"x": f(0, 3), "axis": 0},
    {"x": f(), "axis": 0},
)
_products = (
    {"x": f(2, 3), "a": f(2, 4), "b": f(4, 3)},
    {"x": f(3), "a": f(2, 4), "b": f(4, 3), "beta": 0.5, "alpha": 2},
    {"x": a([NAN, 1.0, 2.0]), "a": f(2, 4), "b": f(4, 3), "beta": 0},
)
_batched = (
    {"x": f(2, 3, 5), "a": f(2, 3, 4), "b": f(2, 4, 5)},
    {"x": f(5), "a": f(2, 3, 4), "b": f(2, 4, 5), "beta": 0.5, "alpha": 2.5},
    {"x": f(1, 1, 1), "a": f(2, 3, 4), "b": f(2, 4, 5), "beta": 0},
)
_complex = f(2, 3) + 1j * f(2, 3)
_c = _complex.astype("complex64")
_spectra = (
    {"x": f(2, 8)},
    {"x": f(2, 8), "n": 6, "axis": 0},
    {"x": f(2, 8), "norm": "ortho"},
    {"x": f(2, 8, dtype="float64"), "n": 10, "norm": "forward"},
)
_many_spectra = (
    {"x": f(2, 8)},
    {"x": f(2, 3, 8), "axes": (-2, -1)},
    {"x": f(2, 3, 8), "shape": (4, 6), "axes": (0, 2), "norm": "ortho"},
    {"x": _c},
)
_numbers = [{"x": 7, "y": 2}, {"x": -7, "y": 2}, {"x": 2, "y": 2}]
_float_numbers = [*_numbers, {"x": 7.5, "y": 2}, {"x": -7.5, "y": 2.5}]
_one_number = [{"x": 3}, {"x": -3}, {"x": 0}]

MATHS: dict[str, list[dict[str, Any]]] = {
    **{
        name: [*_binary(*_pairs), {"x": f(3), "y": f(3), "alpha": 2.5}, {"x": i(3), "y": i(3), "alpha": 2}]
        for name in ("add", "subtract", "reverse_subtract")
    },
    "multiply": _binary(*_pairs, (b(3), b(3)), (b(3), 2), (_c, f(3)), (b(3), 1.5)),
    "divide": [
        *_binary(*_pairs, (i(3), 2), (_c, _c)),
        *(
            {"x": x, "y": y, "rounding": how}
            for how in ("floor", "trunc")
            for x, y in ((f(6, scale=5), 2.0), (i(8), i(8, low=1)), (i(8), -3), (f(6, scale=5), f(6)))
        ),
    ],
    "floor_divide": _binary((f(6, scale=5), f(6)), (i(8), 3), (i(8), -3), (f(4, scale=5), 2), (i(8), i(8, low=1))),
    "remainder": _binary(
        (f(6, scale=5), p(6)), (i(8), 3), (i(8), -3), (f(4, scale=5), 2), (i(8), i(8, low=1)), (7, i(4, low=1))
    ),
    "fmod": _binary((f(6, scale=5), p(6)), (i(8), 3), (i(8), -3), (f(4, scale=5), 2), (i(8), i(8, low=1))),
    "pow": _binary(
        (p(2, 3), f(3)),
        (f(2, 3), 2),
        (f(2, 3), 3),
        (p(4), 0.5),
        (p(4), -0.5),
        (p(4), -1),
        (2, f(3)),
        (2.5, i(3)),
        (i(4), 2),
        (i(4, low=1), f(4)),
        (i(4), 0.5),
        (f(3), 0),
        (p(4, dtype="float64"), 1.5),
        (i(4), i(4, low=0)),
        (2, i(4, low=0)),
    ),
    "abs": _unary(f(2, 3), i(4), SPECIAL, f(0), _c),
    "negative": _unary(f(2, 3), i(4), f(0), f()),
    "positive": _unary(f(2, 3), i(4)),
    "sign": _unary(f(2, 3), i(4), SPECIAL, b(4)),
    "nextafter": _binary(*_floats[:5], (f(3, dtype="float64"), f(3, dtype="float64"))),
    "vecdot": [*_binary((f(2, 3), f(2, 3)), (f(4, 1, 3), f(2, 3)), (_c, _c)), {"x": f(3, 2), "y": f(3, 2), "axis": 0}],
    "diff": [
        {"x": f(2, 5)},
        {"x": i(2, 5), "n": 2, "axis": -2},
        {"x": f(2, 5), "axis": 0, "prepend": f(1, 5), "append": f(2, 5)},
        {"x": b(6)},
    ],
    "complex_fftn": [
        {"x": _c, "axes": axes, "normalization": how, "forward": forward}
        for axes, how, forward in (
            ((0, 1), 0, True),
            ((1,), 1, True),
            ((0,), 2, True),
            ((0, 1), 2, False),
            ((1,), 0, False),
        )
    ],
    **{name: _unary(f(2, 3, scale=4), i(4), SPECIAL, f(0)) for name in ("ceil", "floor", "trunc")},
    "frac": _unary(f(2, 3, scale=4), a([0.5, -1.5, 2.0])),
    "round": [
        *_unary(f(2, 3, scale=4), i(4), SPECIAL),
        {"x": f(5, scale=10), "decimals": 1},
        {"x": f(5, scale=50), "decimals": -1},
    ],
    **{
        name: _unary(*_any)
        for name in ("exp", "exp2", "expm1", "sin", "cos", "sinh", "cosh", "tanh", "atan", "asinh", "erf", "erfc")
    },
    "tan": _unary(*_any),
    **{name: _unary(*_positive) for name in ("log", "log1p", "log2", "log10", "sqrt", "rsqrt")},
    "square": _unary(f(2, 3), i(4), f()),
    "reciprocal": _unary(f(2, 3), i(4, low=1), a([INF, 2.0])),
    **{name: _unary(*_inner) for name in ("asin", "acos", "atanh")},
    "acosh": _unary(p(2, 3, low=1.1, high=5), i(4, low=1), p(3, low=1, high=4, dtype="float64"), a([1.0, 0.5])),
    **{name: _binary(*_floats) for name in ("atan2", "logaddexp", "logaddexp2")},
    "hypot": _binary(*_floats),
    "copysign": _binary(*_floats, (f(4), -1.0), (i(4), f(4))),
    **{name: _binary(*_floats, (i(4), i(4)), (i(4), f(4))) for name in ("maximum", "minimum")},
    **{name: _binary(*_floats, (i(4), i(4))) for name in ("fmax", "fmin")},
    "clip": [
        {"x": f(2, 3), "min": -0.5, "max": 0.5},
        {"x": f(2, 3), "min": 0},
        {"x": f(2, 3), "max": 0.25},
        {"x": i(6), "min": -1, "max": 2},
        {"x": i(6), "min": 0.5},
        {"x": f(2, 3), "min": f(3), "max": f(2, 1)},
        {"x": f(2, 3), "max": f(3)},
        {"x": SPECIAL, "min": -1, "max": 1},
        {"x": f(3), "min": 1.0, "max": -1.0},
    ],
    "lerp": [
        {"x": f(2, 3), "y": f(3), "weight": 0.3},
        {"x": f(2, 3), "y": f(2, 3), "weight": p(3)},
        {"x": f(3), "y": f(3), "weight": 0.75},
    ],
    **{
        name: [
            {"x": f(2, 3), "y": f(3), "z": p(2, 1)},
            {"x": f(3), "y": f(3), "z": p(3), "value": -0.1},
            {"x": f(3, dtype="float64"), "y": f(3, dtype="float64"), "z": p(3, dtype="float64"), "value": 2},
        ]
        for name in ("addcmul", "addcdiv")
    },
    "xlogy": _binary(
        (f(4), p(4)), (a([0.0, 0.0, 1.0, 0.0]), a([0.0, NAN, 2.0, INF])), (2.0, p(3)), (f(3), 2.0), (i(3), i(3, low=1))
    ),
    "nan_to_num": [{"x": SPECIAL}, {"x": SPECIAL, "nan": 1.0, "posinf": 2.0, "neginf": -3.0}, {"x": i(3)}],
    "real": _unary(_c, _complex),
    "imag": _unary(_c, _complex),
    "conj": _unary(_c, f(3)),
    "resolve_conj": _unary(_c, f(3)),
    "complex": _binary((f(2, 3), f(2, 3)), (f(3, dtype="float64"), f(3, dtype="float64"))),
    "view_as_real": _unary(_c, _complex),
    "view_as_complex": _unary(f(3, 2), f(2, 3, 2, dtype="float64")),
    **{name: _binary(*_compared) for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")},
    "array_equal": _binary((a([1, 2]), a([1, 2])), (a([1, 2]), a([1, 3])), (a([1, 2]), a([1]))),
    **{name: _unary(SPECIAL, f(2, 3), i(3), f(0)) for name in ("isnan", "isinf", "isfinite")},
    "signbit": _unary(SPECIAL[:6], i(4), f(2, 3)),
    "isin": [*_binary((i(6), i(3)), (i(2, 3), 2), (f(4), f(2))), {"x": i(6), "y": i(3), "invert": True}],
    **{name: _binary(*_truths) for name in ("logical_and", "logical_or", "logical_xor")},
    "logical_not": _unary(b(4), f(3), i(4, low=0, high=2), a([0.0, NAN])),
    **{name: _binary(*_bits) for name in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    "bitwise_invert": _unary(i(4), b(4), i(3, dtype="int32"), i(3, low=0, high=9, dtype="uint8")),
    **{name: _binary(*_shifts) for name in ("bitwise_left_shift", "bitwise_right_shift")},
    "where": [
        {"condition": b(2, 3), "x": f(2, 3), "y": f(3)},
        {"condition": b(3), "x": f(2, 3), "y": 0.5},
        {"condition": b(3), "x": 1.0, "y": f(3)},
        {"condition": b(3), "x": 1.0, "y": -INF},
        {"condition": b(3), "x": i(3), "y": f(3)},
        {"condition": b(3), "x": i(3), "y": 0},
        {"condition": b(2, 1), "x": f(3), "y": f()},
    ],
    "sum": [*_typed, *_summed],
    "mean": [*_typed],
    "prod": [
        {"x": f(2, 3)},
        {"x": f(2, 3), "axis": 1},
        {"x": f(2, 3), "axis": -2, "keepdims": True},
        {"x": i(3)},
        {"x": b(3)},
        {"x": f(3), "dtype": F64},
        {"x": f(0)},
    ],
    "var": [*_corrected],
    "std": [*_corrected],
    "var_mean": [*_corrected],
    "max": [*_extreme],
    "min": [*_extreme],
    "max_with_indices": [*_picked],
    "min_with_indices": [*_picked],
    "any": [*_tested],
    "all": [*_tested],
    "argmax": [*_located],
    "argmin": [*_located],
    "count_nonzero": [{"x": i(2, 3, low=0, high=2)}, {"x": f(2, 3), "axis": 1}, {"x": b(2, 3, 4), "axis": (0, -1)}],
    "cumulative_sum": [*_running],
    "cumulative_prod": [*_running],
    "logsumexp": [
        {"x": f(2, 3), "axis": (1,)},
        {"x": f(2, 3, 4, scale=50), "axis": (0, -1), "keepdims": True},
        {"x": a([[-INF, -INF], [INF, 0.0]]), "axis": (1,)},
    ],
    "vector_norm": [
        *({"x": f(2, 3), "ord": ord} for ord in (2, 1, 0, INF, -INF, 3, 0.5)),
        {"x": f(2, 3, 4), "ord": 2, "axis": (1,), "keepdims": True},
        {"x": f(2, 3, 4), "ord": 1, "axis": (0, -1)},
        {"x": f(2, 3), "axis": (1,), "dtype": F64},
        {"x": f(2, 3)},
    ],
    "matmul": _binary(
        (f(2, 3), f(3, 4)),
        (f(3), f(3)),
        (f(3), f(3, 2)),
        (f(2, 3), f(3)),
        (f(5, 2, 3), f(3, 4)),
        (f(5, 1, 2, 3), f(4, 3, 2)),
        (i(2, 3), i(3, 2)),
        (f(2, 0), f(0, 3)),
    ),
    "dot": _binary((f(5), f(5)), (i(5), i(5))),
    "det": over("x", (f(3, 3), f(2, 4, 4), f(2, 3, 2, 2, dtype="float64"), f(0, 2, 2))),
    "inv": over("x", (f(3, 3), f(2, 4, 4), f(2, 3, 2, 2, dtype="float64"), f(0, 2, 2))),
    "solve": [
        {"x": _definite(3, 3), "y": _matrix(3, 2)},
        {"x": _definite(3, 3), "y": _matrix(3)},
        {"x": _definite(2, 4, 4), "y": _matrix(2, 4)},
        {"x": _definite(2, 4, 4), "y": _matrix(2, 4, 3)},
        {"x": _definite(3, 3), "y": _matrix(2, 3), "left": False},
        {"x": _definite(3, 3, dtype="float64"), "y": _matrix(3, 2, dtype="float64")},
    ],
    "cholesky": [
        *over("x", (_definite(3, 3), _definite(2, 4, 4), _definite(3, 3, dtype="float64"))),
        {"x": _definite(3, 3), "upper": True},
        {"x": _definite(3, 3) + np.triu(_matrix(3, 3), 1)},
    ],
    "qr": [
        *over("x", (_matrix(4, 3), _matrix(3, 4), _matrix(2, 3, 3))),
        *over("mode", ("complete", "r"), x=_matrix(4, 3)),
    ],
    "singular_values": over("x", (_matrix(4, 3), _matrix(3, 4), _matrix(2, 3, 3))),
    "eigenvalues": [
        *over("x", (_definite(3, 3), _definite(2, 4, 4), _definite(3, 3) + np.triu(_matrix(3, 3), 1))),
        {"x": _matrix(3, 3), "triangle": "U"},
    ],
    "outer": _binary((f(2), f(3)), (i(2), i(3)), (f(0), f(3))),
    "addmm": [*_products],
    "baddbmm": [*_batched],
    "addbmm": [{**each, "x": f(3, 5)} for each in _batched],
    "linear": [
        {"x": f(2, 3), "weight": f(4, 3)},
        {"x": f(2, 5, 3), "weight": f(4, 3), "bias": f(4)},
        {"x": f(3), "weight": f(4, 3), "bias": f(4)},
        {"x": f(0, 3), "weight": f(4, 3), "bias": f(4)},
        {"x": f(2, 3, dtype="float64"), "weight": f(4, 3, dtype="float64")},
    ],
    "bilinear": [
        {"x": f(5, 2), "y": f(5, 3), "weight": f(4, 2, 3)},
        {"x": f(6, 5, 2), "y": f(6, 5, 3), "weight": f(4, 2, 3), "bias": f(4)},
    ],
    "einsum": [
        {"equation": "ij,jk->ik", "arrays": (f(2, 3), f(3, 4))},
        {"equation": "b h i d, b h j d -> b h i j", "arrays": (f(2, 3, 4, 5), f(2, 3, 6, 5))},
        {"equation": "...ij->...ji", "arrays": (f(2, 3, 4),)},
        {"equation": "ii", "arrays": (f(3, 3),)},
        {"equation": "i,j,k->ijk", "arrays": (f(2), f(3), f(4))},
    ],
    "tensordot": [
        {"x": f(2, 3, 4), "y": f(4, 3, 5), "axes1": (1, 2), "axes2": (1, 0)},
        {"x": f(2, 3), "y": f(3, 2), "axes1": (-1,), "axes2": (0,)},
    ],
    **{
        name: [{"x": f(3, 4)}, {"x": f(2, 4, 3), "diagonal": 1}, {"x": i(3, 3), "diagonal": -1}, {"x": b(3, 3)}]
        for name in ("tril", "triu")
    },
    "trace": _unary(f(3, 3), f(2, 4), i(3, 3)),
    "cross": [{"x": f(2, 3), "y": f(2, 3)}, {"x": f(3, 2), "y": f(3, 2), "axis": 0}],
    "cdist": [
        {"x": f(4, 3), "y": f(5, 3)},
        {"x": f(2, 4, 3), "y": f(2, 5, 3), "p": 1.0},
        {"x": f(4, 3), "y": f(5, 3), "p": INF},
    ],
    "cosine_similarity": [{"x": f(2, 3), "y": f(2, 3)}, {"x": f(2, 3, 4), "y": f(3, 4), "axis": -1, "epsilon": 1e-6}],
    "fft": [*_spectra, {"x": _c}],
    "ifft": [*_spectra, {"x": _c}],
    "rfft": [*_spectra],
    "irfft": [{"x": _c}, {"x": _c, "n": 5}, {"x": _c, "n": 4, "axis": 0, "norm": "ortho"}],
    "fftn": [*_many_spectra],
    "ifftn": [*_many_spectra],
    **{
        f"scalar_{name}": _float_numbers
        for name in (
            "add",
            "subtract",
            "multiply",
            "divide",
            "floor_divide",
            "remainder",
            "min",
            "max",
            "equal",
            "not_equal",
            "less",
            "less_equal",
            "greater",
            "greater_equal",
        )
    },
    "scalar_pow": [{"x": 7, "y": 2}, {"x": 2.0, "y": 0.5}],
    **{
        f"scalar_{name}": [{"x": 6, "y": 3}, {"x": True, "y": False}]
        for name in ("and", "or", "xor", "left_shift", "right_shift")
    },
    **{f"scalar_{name}": [*_one_number, {"x": 2.5}] for name in ("negative", "abs", "not", "truth", "int", "float")},
    "scalar_invert": [*_one_number],
    **{f"scalar_{name}": [{"x": 2}, {"x": 0.75}] for name in OF_FLOATS if name not in {"asin", "acos"}},
    **{f"scalar_{name}": [{"x": 1}, {"x": -0.75}] for name in ("asin", "acos")},
    **{f"scalar_{name}": [{"x": 5}, {"x": 2.5}, {"x": -2.5}] for name in ("floor", "ceil", "trunc", "round")},
    "scalar_isqrt": [{"x": 15}, {"x": 16}],
    "scalar_gcd": [{"x": 12, "y": 18}, {"x": 7, "y": 0}],
    **{f"scalar_{name}": [{"x": 5, "y": 3}, {"x": -2.5, "y": 1.5}] for name in ("hypot", "atan2", "fmod")},
    "check": [{"x": 3, "expected": 3}, {"x": True, "expected": True}],
}
