"""Forms in ONNX of rows that compute each element by itself: arithmetic, functions, comparison, logic."""

import math
from typing import Any

import numpy as np

from pijit._formats.onnx.builder import Builder
from pijit._formats.onnx.types import NARROW, Tensor, category, is_floating, numpy_type


def floating(o: Builder, x: Any) -> Any:
    """Integers as float32, as torch's functions of real numbers take them."""
    return o.operands(x, floating=True)[0]


def binary(o: Builder, kind: str, x: Any, y: Any, *, floating: bool = False) -> Any:
    """Arithmetic; of bools it is logic, as in torch."""
    xs = o.operands(x, y, floating=floating)
    if xs[0].dtype == "bool":
        return o.add({"Add": "Or", "Mul": "And", "Max": "Or", "Min": "And"}[kind], *xs)
    return o.arithmetic(kind, *xs)


def scaled(o: Builder, x: Any, factor: Any) -> Any:
    """x times a number; x itself if that is 1."""
    return x if isinstance(factor, int | float) and factor == 1 else binary(o, "Mul", x, factor)


def add(o: Builder, x: Any, y: Any, alpha: Any = 1) -> Any:
    return binary(o, "Add", x, scaled(o, y, alpha))


def subtract(o: Builder, x: Any, y: Any, alpha: Any = 1) -> Any:
    return binary(o, "Sub", x, scaled(o, y, alpha))


def reverse_subtract(o: Builder, x: Any, y: Any, alpha: Any = 1) -> Any:
    return subtract(o, y, x, alpha)


def multiply(o: Builder, x: Any, y: Any) -> Any:
    return binary(o, "Mul", x, y)


def divide(o: Builder, x: Any, y: Any, rounding: str | None = None) -> Any:
    if rounding == "floor":
        return floor_divide(o, x, y)
    if rounding == "trunc":
        x, y = o.operands(x, y)
        made = o.arithmetic("Div", x, y)
        return trunc(o, made) if is_floating(x.dtype) else made
    return o.arithmetic("Div", x, y, floating=True)


def floor_divide(o: Builder, x: Any, y: Any) -> Any:
    x, y = o.operands(x, y)
    if is_floating(x.dtype):
        return _floor_of_floats(o, x, y)
    own = x.dtype
    if own in NARROW or own == "bool":
        wide = "int64" if own in {"uint32", "uint64"} else "int32"
        x, y = o.cast(x, wide), o.cast(y, wide)
    # ONNX divides integers towards 0; its Mod has the sign of y.
    quotient, rest = o.Div(x, y), o.Mod(x, y)
    below = o.And(o.Not(o.Equal(rest, 0)), o.Xor(o.Less(x, 0), o.Less(y, 0)))
    return o.cast(o.Where(below, o.Sub(quotient, 1), quotient), own)


def _floor_of_floats(o: Builder, x: Any, y: Any) -> Any:
    """As torch does it: from the exact remainder, since rounding x / y could reach the next integer."""
    ratio = x / y
    rest = o.Mod(x, y, fmod=1)
    quotient = (x - rest) / y
    below = o.And(o.Not(o.Equal(rest, 0)), o.Xor(o.Less(rest, 0), o.Less(y, 0)))
    quotient = o.Where(below, quotient - 1, quotient)
    made = o.Floor(quotient)
    made = o.Where(o.Greater(quotient - made, 0.5), made + 1, made)
    made = o.Where(o.Equal(quotient, 0), ratio * 0, made)  # 0 has the sign of the ratio
    return o.Where(o.Equal(y, 0), ratio, made)


def remainder(o: Builder, x: Any, y: Any) -> Any:
    x, y = o.operands(x, y)
    if not is_floating(x.dtype):
        return o.Mod(x, y)
    rest = o.Mod(x, y, fmod=1)
    other_sign = o.Xor(o.Less(rest, 0), o.Less(y, 0))
    return o.where(o.And(o.Not(o.Equal(rest, 0)), other_sign), rest + y, rest)


def fmod(o: Builder, x: Any, y: Any) -> Any:
    x, y = o.operands(x, y)
    return o.Mod(x, y, fmod=1)


def pow_(o: Builder, x: Any, y: Any) -> Any:
    base, exponent = o.operands(x, y)
    if isinstance(y, int | float) and not isinstance(x, int | float):
        if is_floating(base.dtype) and base.dtype != "float16" and abs(y) == 0.5:  # of -infinity it is NaN in torch
            return o.Sqrt(base) if y > 0 else o.Reciprocal(o.Sqrt(base))
        if not is_floating(base.dtype) and isinstance(y, int) and 0 < y <= _LARGEST_POWER:
            return _repeated(o, base, y)  # runtimes compute powers of integers as floats
    return o.arithmetic("Pow", base, exponent)


_LARGEST_POWER = 64


def _repeated(o: Builder, x: Any, count: int) -> Any:
    """x times itself."""
    made = None
    while count:
        if count & 1:
            made = x if made is None else binary(o, "Mul", made, x)
        count >>= 1
        x = binary(o, "Mul", x, x) if count else x
    return made


def abs_(o: Builder, x: Any) -> Any:
    return o.Abs(x)


def negative(o: Builder, x: Any) -> Any:
    return o.Neg(x)


def positive(o: Builder, x: Any) -> Any:
    return x


def sign(o: Builder, x: Any) -> Any:
    if x.dtype == "bool":
        return x
    # The sign of NaN is 0 in torch.
    return o.Where(o.IsNaN(x), o.const(0, x.dtype), o.Sign(x)) if is_floating(x.dtype) else o.Sign(x)


def _rounded(o: Builder, kind: str, x: Any) -> Any:
    return o.add(kind, x) if is_floating(x.dtype) else x


def ceil(o: Builder, x: Any) -> Any:
    return _rounded(o, "Ceil", x)


def floor(o: Builder, x: Any) -> Any:
    return _rounded(o, "Floor", x)


def round_(o: Builder, x: Any, decimals: int = 0) -> Any:
    if decimals == 0:
        return _rounded(o, "Round", x)
    factor = 10.0 ** (decimals if decimals > 0 else -decimals)
    return o.Round(x * factor) / factor if decimals > 0 else o.Round(x / factor) * factor


def trunc(o: Builder, x: Any) -> Any:
    if not is_floating(x.dtype):
        return x
    return o.Where(o.Less(x, 0), o.Ceil(x), o.Floor(x))


def frac(o: Builder, x: Any) -> Any:
    return x - trunc(o, x)


def _function(kind: str) -> Any:
    def lower(o: Builder, x: Any) -> Any:
        return o.add(kind, floating(o, x))

    return lower


exp, log, sqrt, reciprocal = map(_function, ("Exp", "Log", "Sqrt", "Reciprocal"))
sin, cos, tan, asin, acos, atan = map(_function, ("Sin", "Cos", "Tan", "Asin", "Acos", "Atan"))
sinh, cosh, tanh, asinh, acosh, atanh = map(_function, ("Sinh", "Cosh", "Tanh", "Asinh", "Acosh", "Atanh"))
erf = _function("Erf")


def exp2(o: Builder, x: Any) -> Any:
    x = floating(o, x)
    return o.Pow(o.const(2, x.dtype), x)


def expm1(o: Builder, x: Any) -> Any:
    x = floating(o, x)
    half = x * 0.5
    # exp(x) - 1 = 2 sinh(x / 2) exp(x / 2), which keeps its digits near 0.
    near = o.Sinh(half) * o.Exp(half) * 2.0
    return o.Where(o.Less(o.Abs(x), 1), near, o.Exp(x) - 1.0)


def log1p(o: Builder, x: Any) -> Any:
    x = floating(o, x)
    # log(1 + x) = 2 atanh(x / (2 + x)), which keeps its digits near 0.
    near = o.Atanh(x / (x + 2.0)) * 2.0
    return o.Where(o.Less(o.Abs(x), 0.5), near, o.Log(x + 1.0))


def log2(o: Builder, x: Any) -> Any:
    return log(o, x) * (1 / math.log(2))


def log10(o: Builder, x: Any) -> Any:
    return log(o, x) * (1 / math.log(10))


def rsqrt(o: Builder, x: Any) -> Any:
    return o.Reciprocal(sqrt(o, x))


def square(o: Builder, x: Any) -> Any:
    return x * x


def atan2(o: Builder, x: Any, y: Any) -> Any:
    x, y = o.operands(x, y, floating=True)
    # Of two infinities the angle is that of two ones.
    far = o.And(isinf(o, x), isinf(o, y))
    angle = o.Atan(o.Where(far, o.Sign(x), x) / o.Where(far, o.Sign(y), y))
    turned = angle + o.where(signbit(o, x), -math.pi, math.pi)
    angle = o.where(signbit(o, y), turned, angle)
    zero = o.And(o.Equal(x, 0), o.Equal(y, 0))
    at_zero = o.where(signbit(o, y), math.pi, 0.0) * o.where(signbit(o, x), -1.0, 1.0)
    return o.where(zero, o.cast(at_zero, x.dtype), angle)


def hypot(o: Builder, x: Any, y: Any) -> Any:
    x, y = o.operands(x, y, floating=True)
    x, y = o.Abs(x), o.Abs(y)
    long, short = o.Max(x, y), o.Min(x, y)
    ratio = short / long  # its square is in range where those of x and y are not
    made = o.where(o.Equal(long, 0), 0.0, long * o.Sqrt(ratio * ratio + 1.0))
    return o.where(o.Or(o.Equal(x, math.inf), o.Equal(y, math.inf)), math.inf, made)


def copysign(o: Builder, x: Any, y: Any) -> Any:
    x, y = o.operands(x, y, floating=True)
    size = o.Abs(x)
    return o.Where(signbit(o, y), o.Neg(size), size)


def _logaddexp(o: Builder, x: Any, y: Any, base: float) -> Any:
    x, y = o.operands(x, y, floating=True)
    distance = o.Abs(x - y)
    rest = log1p(o, o.Exp(distance * -base)) * (1 / base)
    # Two equal infinities have no distance.
    return o.Max(x, y) + o.where(o.Equal(x, y), math.log(2) / base, rest)


def logaddexp(o: Builder, x: Any, y: Any) -> Any:
    return _logaddexp(o, x, y, 1.0)


def logaddexp2(o: Builder, x: Any, y: Any) -> Any:
    return _logaddexp(o, x, y, math.log(2))


def erfc(o: Builder, x: Any) -> Any:
    return 1.0 - erf(o, x)


def maximum(o: Builder, x: Any, y: Any) -> Any:
    return binary(o, "Max", x, y)


def minimum(o: Builder, x: Any, y: Any) -> Any:
    return binary(o, "Min", x, y)


def _without_nan(o: Builder, kind: str, x: Any, y: Any) -> Any:
    x, y = o.operands(x, y)
    if not is_floating(x.dtype):
        return binary(o, kind, x, y)
    return o.Where(o.IsNaN(x), y, o.Where(o.IsNaN(y), x, o.add(kind, x, y)))


def fmax(o: Builder, x: Any, y: Any) -> Any:
    return _without_nan(o, "Max", x, y)


def fmin(o: Builder, x: Any, y: Any) -> Any:
    return _without_nan(o, "Min", x, y)


def clip(o: Builder, x: Any, min: Any = None, max: Any = None) -> Any:
    given = [each for each in (x, min, max) if each is not None]
    x, *bounds = o.operands(*given)
    if min is not None:
        x = binary(o, "Max", x, bounds.pop(0))
    if max is not None:
        x = binary(o, "Min", x, bounds.pop(0))
    return x


def lerp(o: Builder, x: Any, y: Any, weight: Any) -> Any:
    return x + weight * (y - x)


def xlogy(o: Builder, x: Any, y: Any) -> Any:
    x, y = o.operands(x, y, floating=True)
    return o.where(o.And(o.Equal(x, 0), o.Not(o.IsNaN(y))), 0.0, x * o.Log(y))


def nan_to_num(o: Builder, x: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    if not is_floating(x.dtype):
        return x
    limit = 3.3895313892515355e38 if x.dtype == "bfloat16" else float(np.finfo(numpy_type(x.dtype)).max)
    x = o.where(o.IsNaN(x), 0.0 if nan is None else nan, x)
    x = o.where(o.Equal(x, math.inf), limit if posinf is None else posinf, x)
    return o.where(o.Equal(x, -math.inf), -limit if neginf is None else neginf, x)


# ---- Comparison and logic


def equal(o: Builder, x: Any, y: Any) -> Any:
    return o.compare("Equal", x, y)


def not_equal(o: Builder, x: Any, y: Any) -> Any:
    return o.Not(o.compare("Equal", x, y))


def less(o: Builder, x: Any, y: Any) -> Any:
    return o.compare("Less", x, y)


def less_equal(o: Builder, x: Any, y: Any) -> Any:
    return o.compare("LessOrEqual", x, y)


def greater(o: Builder, x: Any, y: Any) -> Any:
    return o.compare("Greater", x, y)


def greater_equal(o: Builder, x: Any, y: Any) -> Any:
    return o.compare("GreaterOrEqual", x, y)


def array_equal(o: Builder, x: Any, y: Any) -> Any:
    if x.shape is None or y.shape is None or x.rank != y.rank:
        o.fail("the shapes have to be known to be of one length")
    if any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(x.shape, y.shape, strict=True)):
        return False
    if x.shape != y.shape:
        o.unknown("the shapes are not known to be equal", *x.shape, *y.shape)
    same = o.cast(o.compare("Equal", x, y), "int32")
    return o.cast(o.ReduceMin(same, keepdims=0), "bool")


def isnan(o: Builder, x: Any) -> Any:
    return o.IsNaN(x) if is_floating(x.dtype) else o.compare("Less", x, x)


def isinf(o: Builder, x: Any) -> Any:
    return o.Equal(o.Abs(x), math.inf) if is_floating(x.dtype) else o.compare("Less", x, x)


def isfinite(o: Builder, x: Any) -> Any:
    return o.Less(o.Abs(x), math.inf) if is_floating(x.dtype) else o.compare("Equal", x, x)


def signbit(o: Builder, x: Any) -> Any:
    below = o.compare("Less", x, 0)
    if not is_floating(x.dtype):
        return below
    return o.Or(below, o.And(o.Equal(x, 0), o.Less(o.Reciprocal(x), 0)))


def isin(o: Builder, x: Any, y: Any, invert: bool = False) -> Any:
    x, y = o.operands(x, y)
    same = o.cast(o.compare("Equal", o.unsqueeze(x, x.rank), o.reshape(y, (-1,))), "int32")
    found = o.cast(o.reduce("ReduceMax", same, -1, False), "bool")
    return o.Not(found) if invert else found


def logical_and(o: Builder, x: Any, y: Any) -> Any:
    return o.And(o.cast(x, "bool"), o.cast(y, "bool"))


def logical_or(o: Builder, x: Any, y: Any) -> Any:
    return o.Or(o.cast(x, "bool"), o.cast(y, "bool"))


def logical_xor(o: Builder, x: Any, y: Any) -> Any:
    return o.Xor(o.cast(x, "bool"), o.cast(y, "bool"))


def logical_not(o: Builder, x: Any) -> Any:
    return o.Not(o.cast(x, "bool"))


def _bitwise(o: Builder, kind: str, x: Any, y: Any) -> Any:
    x, y = o.operands(x, y)
    return o.add(kind if x.dtype == "bool" else f"Bitwise{kind}", x, y)


def bitwise_and(o: Builder, x: Any, y: Any) -> Any:
    return _bitwise(o, "And", x, y)


def bitwise_or(o: Builder, x: Any, y: Any) -> Any:
    return _bitwise(o, "Or", x, y)


def bitwise_xor(o: Builder, x: Any, y: Any) -> Any:
    return _bitwise(o, "Xor", x, y)


def bitwise_invert(o: Builder, x: Any) -> Any:
    return o.Not(x) if x.dtype == "bool" else o.BitwiseNot(x)


def _power_of_2(o: Builder, x: Any, y: Any) -> tuple[Any, Any]:
    x, y = o.operands(x, y)
    # ONNX shifts only integers without a sign.
    return x, o.arithmetic("Pow", o.const(2, y.dtype), y)


def bitwise_left_shift(o: Builder, x: Any, y: Any) -> Any:
    x, factor = _power_of_2(o, x, y)
    return o.arithmetic("Mul", x, factor)


def bitwise_right_shift(o: Builder, x: Any, y: Any) -> Any:
    return floor_divide(o, *_power_of_2(o, x, y))


def where(o: Builder, condition: Any, x: Any, y: Any) -> Any:
    return o.where(condition, x, y)


def is_integer(x: Any) -> bool:
    """A tensor or number of integers."""
    if isinstance(x, Tensor):
        return category(x.dtype) == 1
    return isinstance(x, int) and not isinstance(x, bool)
