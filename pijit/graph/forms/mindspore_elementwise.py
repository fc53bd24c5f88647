"""Elementwise functions of MindSpore's namespace. Some names are those of Python's own functions, which they hide."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pijit.graph.forms import _types
from pijit.graph.forms.mindspore_array import call, constant
from pijit.graph.forms.mindspore_folding import asarray, binary, folded, named, paired, together, unary

exp, exp2, expm1, log, log1p = (unary(name) for name in ("exp", "exp2", "expm1", "log", "log1p"))
log2, log10, sqrt, ceil, floor, trunc = (unary(name) for name in ("log2", "log10", "sqrt", "ceil", "floor", "trunc"))
sin, cos, tan, sinh, cosh, tanh = (unary(name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh"))
arcsin, arccos, arctan = (unary(f"arc{name}", f"ops.a{name}") for name in ("sin", "cos", "tan"))
arcsinh, arccosh, arctanh = (unary(f"arc{name}", f"ops.a{name}") for name in ("sinh", "cosh", "tanh"))
negative = unary("negative", "ops.neg")
subtract, multiply = binary("subtract", "ops.sub"), binary("multiply", "ops.mul")
divide = binary("divide", "ops.div")
hypot = binary("hypot")
arctan2 = binary("arctan2", "ops.atan2")
equal, not_equal = binary("equal"), binary("not_equal")
less, less_equal, greater, greater_equal = (binary(n) for n in ("less", "less_equal", "greater", "greater_equal"))
left_shift, right_shift = (binary(f"{side}_shift", f"ops.bitwise_{side}_shift") for side in ("left", "right"))
power = binary("power", "ops.pow")
logical_xor = binary("logical_xor")


def _logic(name: str) -> Callable[..., Any]:
    def function(x: Any, y: Any) -> Any:
        return call(f"ops.{'logical' if x.dtype == np.bool_ else 'bitwise'}_{name}", x, y)

    return named(f"bitwise_{name}", function, paired)


bitwise_and, bitwise_or = _logic("and"), _logic("or")
logical_and, logical_or = (binary(f"logical_{name}") for name in ("and", "or"))


@paired
def bitwise_xor(x: Any, y: Any) -> Any:
    return call("ops.logical_xor" if x.dtype == np.bool_ else "ops.bitwise_xor", x, y)


@paired
def add(x: Any, y: Any) -> Any:
    return call("ops.logical_or", x, y) if x.dtype == np.bool_ else call("ops.add", x, y)


@folded
def invert(x: Any) -> Any:
    if x.dtype == np.bool_:
        return call("ops.logical_not", x)
    return bitwise_xor(x, constant(np.asarray(-1).astype(x.dtype)))


@paired
def floor_divide(x: Any, y: Any) -> Any:
    if _types.category(x.dtype) < 2:
        return call("ops.floor_div", x, y)
    # the nearest whole number to (x - remainder) / y: x / y is rounded, and may be one too large
    rest = remainder(x, y)
    near = round(divide(subtract(x, rest), y))
    return where(equal(y, 0), divide(x, y), near)


@paired
def remainder(x: Any, y: Any) -> Any:
    if _types.category(x.dtype) < 2:
        return call("ops.floor_mod", x, y)
    rest = fmod(x, y)
    return where(logical_and(not_equal(rest, 0), less(rest, 0) ^ less(y, 0)), add(rest, y), rest)


@paired
def fmod(x: Any, y: Any) -> Any:
    return call("ops.fmod", x, y)


def _extreme(name: str) -> Callable[..., Any]:
    def function(x: Any, y: Any) -> Any:
        if _types.category(x.dtype) < 2:
            return call(f"ops.{name}", x, y)
        # MindSpore gives NaN only where the second operand is NaN
        if y.constant is not None and not np.isnan(y.constant).any():
            return call(f"ops.{name}", y, x)
        if x.constant is not None and not np.isnan(x.constant).any():
            return call(f"ops.{name}", x, y)
        return where(isnan(x), x, call(f"ops.{name}", x, y))

    return named(name, function, paired)


maximum, minimum = _extreme("maximum"), _extreme("minimum")


def _without_nan(name: str, of: Callable[..., Any]) -> Callable[..., Any]:
    def function(x: Any, y: Any) -> Any:
        return where(isnan(x), y, where(isnan(y), x, of(x, y)))

    return named(name, function, paired)


fmax, fmin = _without_nan("fmax", maximum), _without_nan("fmin", minimum)


def _log_of_sum(name: str, power: Callable[..., Any], log: Callable[..., Any]) -> Callable[..., Any]:
    def function(x: Any, y: Any) -> Any:
        top, low = maximum(x, y), minimum(x, y)
        return where(
            equal(x, y), add(x, constant(np.asarray(log(np.float64(2))).astype(x.dtype))), top + _less(top, low)
        )

    def _less(top: Any, low: Any) -> Any:
        rest = log1p(power(subtract(low, top)))
        return rest if name == "logaddexp" else multiply(rest, constant(np.asarray(1 / math.log(2)).astype(top.dtype)))

    return named(name, function, paired)


logaddexp, logaddexp2 = _log_of_sum("logaddexp", exp, np.log), _log_of_sum("logaddexp2", exp2, np.log2)


@folded
def isnan(x: Any) -> Any:
    if _types.category(x.dtype) == 3:
        return logical_or(isnan(real(x)), isnan(imag(x)))
    return not_equal(x, x)


@folded
def isinf(x: Any) -> Any:
    if _types.category(x.dtype) == 3:
        return logical_or(isinf(real(x)), isinf(imag(x)))
    return equal(abs(x), math.inf)


@folded
def isfinite(x: Any) -> Any:
    if _types.category(x.dtype) == 3:
        return logical_and(isfinite(real(x)), isfinite(imag(x)))
    return less(abs(x), math.inf) if _types.category(x.dtype) == 2 else constant(np.ones(x.shape, np.bool_))


@folded
def isneginf(x: Any) -> Any:
    return equal(x, -math.inf)


@folded
def signbit(x: Any) -> Any:
    return logical_or(less(x, 0), logical_and(equal(x, 0), less(call("ops.reciprocal", x), 0)))


@paired
def copysign(x: Any, y: Any) -> Any:
    size = abs(x)
    return where(signbit(y), negative(size), size)


@paired
def nextafter(x: Any, y: Any) -> Any:
    shape = np.broadcast_shapes(x.shape, y.shape)  # MindSpore's own broadcasting gives wrong numbers here
    return call("ops.nextafter", *(call("ops.broadcast_to", each, shape) for each in (x, y)))


@folded
def abs(x: Any) -> Any:
    if _types.category(x.dtype) == 3:
        return hypot(real(x), imag(x))
    return x if x.dtype.kind in "ub" else call("ops.abs", x)


@folded
def round(x: Any, decimals: int = 0) -> Any:
    if not decimals:
        return call("ops.round", x)
    factor = constant(np.asarray(10.0 ** math.fabs(decimals)).astype(x.dtype))
    if decimals > 0:
        return divide(call("ops.round", multiply(x, factor)), factor)
    return multiply(call("ops.round", divide(x, factor)), factor)


@folded
def real(x: Any) -> Any:
    return call("ops.real", x) if _types.category(x.dtype) == 3 else x


@folded
def imag(x: Any) -> Any:
    return call("ops.imag", x) if _types.category(x.dtype) == 3 else constant(np.zeros(x.shape, x.dtype))


@folded
def conj(x: Any) -> Any:
    return call("ops.conj", x) if _types.category(x.dtype) == 3 else x


@folded
def nan_to_num(x: Any, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    limits = np.finfo(x.dtype)
    high, low = (limits.max if posinf is None else posinf), (limits.min if neginf is None else neginf)
    x = where(isnan(x), nan, x)
    return where(equal(x, math.inf), high, where(equal(x, -math.inf), low, x))


def where(condition: Any, x: Any, y: Any) -> Any:
    return _where(asarray(condition), *together(x, y))


_where = named("where", lambda condition, x, y: call("ops.where", condition, x, y))


@folded
def clip(x: Any, low: Any, high: Any) -> Any:
    return minimum(maximum(x, low), high)
