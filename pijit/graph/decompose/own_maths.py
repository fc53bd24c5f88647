"""Decompositions of functions of mathematics and of scans that torch does not have, in calls of torch.

Each takes the arguments of its operator. Approximations are as exact as float32.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_SHIFT = 8  # series in 1 / x are taken this far to the right


def _polynomial(x: Any, factors: Sequence[float]) -> Any:
    """The highest power first."""
    made = x * factors[0] + factors[1]
    for factor in factors[2:]:
        made = made * x + factor
    return made


def _fraction(x: Any) -> Any:
    return x - x.floor()


def _lgamma(x: Any) -> Any:
    """Stirling's series; on the left by reflection."""
    import torch

    left = x < 0.5
    y = torch.where(left, 1 - x, x)
    near = y < _SHIFT
    z = torch.where(near, y + _SHIFT, y)
    shifted = torch.where(near, y, 1.0)
    product = shifted
    for step in range(1, _SHIFT):
        product = product * (shifted + step)
    series = (z - 0.5) * z.log() - z + math.log(2 * math.pi) / 2 + 1 / (12 * z) - 1 / (360 * z**3)
    made = series - torch.where(near, product, 1.0).log()
    made = torch.where(y == math.inf, math.inf, made)
    made = torch.where(left, math.log(math.pi) - (_fraction(x) * math.pi).sin().abs().log() - made, made)
    return torch.where(((x <= 0) & (x == x.floor())) | (x == -math.inf), math.inf, made)


def _mvlgamma(x: Any, p: int) -> Any:
    made = _lgamma(x)
    for step in range(1, p):
        made = made + _lgamma(x - step / 2)
    return made + p * (p - 1) / 4 * math.log(math.pi)


def _digamma(x: Any) -> Any:
    import torch

    left = x < 0.5
    y = torch.where(left, 1 - x, x)
    z = y + _SHIFT
    square = 1 / (z * z)
    made = z.log() - 0.5 / z - square * (1 / 12 - square * (1 / 120 - square / 252))
    for step in range(_SHIFT):
        made = made - 1 / (y + step)
    made = torch.where(y == math.inf, math.inf, made)
    made = torch.where(left, made - math.pi / (_fraction(x) * math.pi).tan(), made)
    made = torch.where((x < 0) & (x == x.floor()), math.nan, made)
    return torch.where(x == 0, math.copysign(math.inf, -1.0), made)


def _polygamma(n: int, x: Any) -> Any:
    """The first two."""
    import torch

    if n == 0:
        return _digamma(x)
    if n != 1:
        raise NotImplementedError("polygamma above 1")
    left = x < 0.5
    y = torch.where(left, 1 - x, x)
    z = y + _SHIFT
    square = 1 / (z * z)
    made = 1 / z + square / 2 + square / z * (1 / 6 - square * (1 / 30 - square / 42))
    for step in range(_SHIFT):
        made = made + 1 / (y + step) ** 2
    made = torch.where(left, (math.pi / (_fraction(x) * math.pi).sin()) ** 2 - made, made)
    return torch.where(x == math.inf, 0.0, made)


# Of Giles, Approximating the erfinv function.
_CENTRAL = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503),
    *(-0.00417768164, 0.246640727, 1.50140941),
)
_TAIL = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613),
    *(0.00943887047, 1.00167406, 2.83297682),
)


def _erfinv(x: Any) -> Any:
    import torch

    w = -((1 - x) * (1 + x)).log()
    tail = w >= 5
    inside = torch.where(w < 5, w, 2.5)
    outside = torch.where(tail & (w < math.inf), w, 9.0)
    made = x * torch.where(tail, _polynomial(outside.sqrt() - 3, _TAIL), _polynomial(inside - 2.5, _CENTRAL))
    made = torch.where(x.abs() == 1, x * math.inf, made)
    return torch.where(x.abs() > 1, math.nan, made)


# Of Abramowitz and Stegun, 9.8.1 and 9.8.2.
_NEAR = (0.0045813, 0.0360768, 0.2659732, 1.2067492, 3.0899424, 3.5156229, 1.0)
_FAR = (0.00392377, -0.01647633, 0.02635537, -0.02057706, 0.00916281, -0.00157565, 0.00225319, 0.01328592, 0.39894228)


def _bessel_i0(x: Any) -> Any:
    import torch

    size = x.abs()
    near = size <= 3.75
    inside, outside = torch.where(near, size, 0.0), torch.where(near, 3.75, size)
    far = outside.exp() / outside.sqrt() * _polynomial(3.75 / outside, _FAR)
    return torch.where(near, _polynomial((inside / 3.75) ** 2, _NEAR), far)


def _log_ndtr(x: Any) -> Any:
    """On the left Mills' ratio as a continued fraction."""
    import torch

    left = x < -2
    y = torch.where(left, -x, 2.0)
    ratio = y
    for step in range(30, 0, -1):
        ratio = y + step / ratio
    tail = -y * y / 2 - math.log(2 * math.pi) / 2 - ratio.log()
    return torch.where(left, tail, (torch.where(left, 0.0, -x * math.sqrt(0.5)).erfc() / 2).log())


def _frexp(x: Any) -> Any:
    import torch

    special = (x == 0) | ~x.isfinite()
    size = torch.where(special, 1.0, x.abs())
    exponent = size.log2().floor() + 1
    mantissa = size * (-exponent).exp2()
    large, small = mantissa >= 1, mantissa < 0.5
    exponent = exponent + large.to(x.dtype) - small.to(x.dtype)
    mantissa = torch.where(large, mantissa / 2, torch.where(small, mantissa * 2, mantissa))
    return torch.where(special, x, mantissa * x.sign()), torch.where(special, 0.0, exponent).to(torch.int32)


def _angle(x: Any) -> Any:
    import torch

    if x.is_complex():
        return torch.atan2(x.imag, x.real)
    if not x.is_floating_point():
        x = x.to(torch.get_default_dtype())
    return torch.where(x.isnan(), x, torch.where(x < 0, math.pi, 0.0).to(x.dtype))


def _cumulative_extremes(x: Any, axis: int, largest: bool) -> Any:
    """Of a square of all pairs, as logcumsumexp; of equal elements the last."""
    import torch

    if x.dim() == 0 or not (x.is_floating_point() or x.dtype in {torch.int32, torch.int64}):
        raise NotImplementedError("of these")
    whole = not x.is_floating_point()
    least = torch.iinfo(x.dtype).min if whole else -math.inf
    beyond = (torch.iinfo(x.dtype).max if whole else math.inf) if not largest else least
    x = x.movedim(axis, -1)
    places = torch.arange(x.shape[-1], device=x.device)
    later = places.unsqueeze(0) > places.unsqueeze(1)
    pairs = x.unsqueeze(-2).masked_fill(later, beyond)
    made = pairs.amax(-1) if largest else pairs.amin(-1)
    same = x.unsqueeze(-2) == made.unsqueeze(-1)
    if not whole:
        same = same | (x.unsqueeze(-2).isnan() & made.unsqueeze(-1).isnan())
    found = torch.where(same & ~later, places, 0).amax(-1)
    return made.movedim(-1, axis), found.movedim(-1, axis)


def _cummax(x: Any, axis: int) -> Any:
    return _cumulative_extremes(x, axis, True)


def _cummin(x: Any, axis: int) -> Any:
    return _cumulative_extremes(x, axis, False)


def _nanmedian(x: Any, axis: int, keepdim: bool = False) -> Any:
    import torch

    if not x.is_floating_point():
        raise NotImplementedError("of whole numbers")
    missing = x.isnan()
    values, places = x.masked_fill(missing, math.inf).sort(axis)
    count = (~missing).to(torch.int64).sum(axis, keepdim=True)
    middle = ((count - 1) // 2).clamp(min=0)
    made = torch.where(count == 0, math.nan, values.gather(axis, middle))
    place = places.gather(axis, middle)
    return (made, place) if keepdim else (made.squeeze(axis), place.squeeze(axis))


def _nanmedian_of_all(x: Any) -> Any:
    return _nanmedian(x.reshape(-1), 0)[0]


def _unique_consecutive(x: Any, inverse: bool = False, counts: bool = False, axis: int | None = None) -> Any:
    import torch

    if axis is not None:
        raise NotImplementedError("along an axis")
    flat = x.reshape(-1)
    first = torch.arange(flat.shape[0], device=x.device) == 0
    before = torch.cat([flat[:1], flat[:-1]])
    starts = first | (flat != before)
    number = starts.to(torch.int64).cumsum(0) - 1
    made = flat[starts]
    of_each = torch.zeros_like(made, dtype=torch.int64).index_add(0, number, torch.ones_like(number))
    return made, number.reshape(x.shape) if inverse else None, of_each if counts else None


def _index_reduce(x: Any, axis: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    shape = [1] * source.dim()
    shape[axis] = -1
    return x.scatter_reduce(axis, index.reshape(shape).expand_as(source), source, reduce, include_self=include_self)


def _diagonal_scatter(x: Any, source: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    import torch

    places = torch.arange(source.shape[-1], device=x.device)
    first = x.movedim((dim1, dim2), (0, 1))
    rows = (places + max(-offset, 0), places + max(offset, 0))
    return first.index_put(rows, source.movedim(-1, 0)).movedim((0, 1), (dim1, dim2))


def _histogram(x: Any, bins: int = 100, least: Any = 0, most: Any = 0) -> Any:
    import torch

    if least == most:
        raise NotImplementedError("between numbers that data decides")
    flat = x.reshape(-1)
    inside = (flat >= least) & (flat <= most)
    place = ((torch.where(inside, flat, least) - least) / (most - least) * bins).to(torch.int64).clamp(0, bins - 1)
    return torch.zeros(bins, dtype=x.dtype, device=x.device).index_add(0, place, inside.to(x.dtype))


def _pairwise_distances(x: Any, p: float = 2.0) -> Any:
    import torch

    places = torch.arange(x.shape[0], device=x.device)
    return torch.cdist(x, x, p)[places.unsqueeze(1) < places.unsqueeze(0)]


def _kron(x: Any, y: Any) -> Any:
    rank = max(x.dim(), y.dim())
    x, y = (each.reshape((1,) * (rank - each.dim()) + tuple(each.shape)) for each in (x, y))
    wide = [size for each in x.shape for size in (each, 1)]
    other = [size for each in y.shape for size in (1, each)]
    made = x.reshape(wide) * y.reshape(other)
    return made.reshape([a * b for a, b in zip(x.shape, y.shape, strict=True)])


def _take_along(x: Any, index: Any, axis: int | None = None) -> Any:
    if axis is None:
        return x.reshape(-1).gather(0, index.reshape(-1))
    axis %= x.dim()

    def wide(each: Any, other: Any) -> Any:
        sizes = zip(each.shape, other.shape, strict=True)
        return each.expand([a if at == axis or a != 1 else b for at, (a, b) in enumerate(sizes)])

    return wide(x, index).gather(axis, wide(index, x))


def _vander(x: Any, count: int | None = None, increasing: bool = False) -> Any:
    import torch

    powers = torch.arange(x.shape[-1] if count is None else count, device=x.device)
    return x.unsqueeze(-1) ** (powers if increasing else powers.flip(0))


def _multi_dot(matrices: Sequence[Any]) -> Any:
    """In the order of the program."""
    first, *between, last = matrices
    made = first.unsqueeze(0) if first.dim() == 1 else first
    for each in between:
        made = made @ each
    made = made @ (last.unsqueeze(1) if last.dim() == 1 else last)
    made = made.squeeze(-1) if last.dim() == 1 else made
    return made.squeeze(0) if first.dim() == 1 else made


def _chain_matmul(matrices: Sequence[Any]) -> Any:
    return matrices[0] if len(matrices) == 1 else _multi_dot(matrices)


def _logspace(
    start: Any, end: Any, steps: Any, base: float = 10.0, *, dtype: Any = None, device: Any = None, **more: Any
) -> Any:
    import torch

    step = (end - start) / torch.sym_max(steps - 1, 1)  # type: ignore[no-untyped-call]
    made = base ** (torch.arange(steps, dtype=torch.float64, device=device) * step + start)
    return made.to(torch.get_default_dtype() if dtype is None else dtype)


def _allclose(x: Any, y: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    import torch

    return torch.isclose(x, y, rtol, atol, equal_nan).all().item()


# By the paths of the operators.
MATHS: Mapping[str, Callable[..., Any]] = {
    "torch.ops.aten.lgamma.default": _lgamma,
    "torch.ops.aten.mvlgamma.default": _mvlgamma,
    "torch.ops.aten.digamma.default": _digamma,
    "torch.ops.aten.polygamma.default": _polygamma,
    "torch.ops.aten.erfinv.default": _erfinv,
    "torch.ops.aten.special_erfinv.default": _erfinv,
    "torch.ops.aten.i0.default": _bessel_i0,
    "torch.ops.aten.special_i0.default": _bessel_i0,
    "torch.ops.aten.special_log_ndtr.default": _log_ndtr,
    "torch.ops.aten.frexp.Tensor": _frexp,
    "torch.ops.aten.angle.default": _angle,
    "torch.ops.aten.cummax.default": _cummax,
    "torch.ops.aten.cummin.default": _cummin,
    "torch.ops.aten.nanmedian.dim": _nanmedian,
    "torch.ops.aten.nanmedian.default": _nanmedian_of_all,
    "torch.ops.aten.unique_consecutive.default": _unique_consecutive,
    "torch.ops.aten.index_reduce.default": _index_reduce,
    "torch.ops.aten.diagonal_scatter.default": _diagonal_scatter,
    "torch.ops.aten.histc.default": _histogram,
    "torch.ops.aten._pdist_forward.default": _pairwise_distances,
    "torch.ops.aten.kron.default": _kron,
    "torch.ops.aten.take_along_dim.default": _take_along,
    "torch.ops.aten.vander.default": _vander,
    "torch.ops.aten.linalg_multi_dot.default": _multi_dot,
    "torch.ops.aten.chain_matmul.default": _chain_matmul,
    "torch.ops.aten.logspace.default": _logspace,
    "torch.ops.aten.allclose.default": _allclose,
}
