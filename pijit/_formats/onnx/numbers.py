"""Forms in ONNX of rows that compute with numbers of Python: ints, floats and bools made from sizes.

A number that is known is Python's, and its row is computed at once. Else it is a tensor without axes.
"""

import math
import operator
from collections.abc import Callable
from typing import Any

from onnx import GraphProto, TensorProto, helper

from pijit._formats.onnx import elementwise
from pijit._formats.onnx.builder import Builder
from pijit._formats.onnx.types import Tensor

_INT = TensorProto.INT64
_TYPES = {"turn": _INT, "go": TensorProto.BOOL, "one": _INT, "other": _INT}  # what a turn of a loop is given


def _typed(o: Builder, *given: Any, dtype: str | None = None) -> list[Tensor]:
    """The numbers in one dtype: float64 if one is a float, else int64."""
    if dtype is None:
        floats = any(x.dtype == "float64" if isinstance(x, Tensor) else isinstance(x, float) for x in given)
        dtype = "float64" if floats else "int64"
    return [o.strong(o.cast(x, dtype)) for x in given]


def _number(python: Callable[..., Any], lower: Callable[..., Any], dtype: str | None = None) -> Callable[..., Any]:
    def form(o: Builder, x: Any, *rest: Any, **named: Any) -> Any:
        given = [o.plain(each) for each in (x, *rest, *named.values())]
        if not any(isinstance(each, Tensor) for each in given):
            return python(*given)
        return lower(o, *_typed(o, *given, dtype=dtype))

    return form


def _compare(kind: str) -> Callable[..., Any]:
    return lambda o, x, y: o.add(kind, x, y)


scalar_add = _number(operator.add, lambda o, x, y: o.Add(x, y))
scalar_subtract = _number(operator.sub, lambda o, x, y: o.Sub(x, y))
scalar_multiply = _number(operator.mul, lambda o, x, y: o.Mul(x, y))
scalar_divide = _number(operator.truediv, lambda o, x, y: o.Div(x, y), "float64")
scalar_floor_divide = _number(operator.floordiv, elementwise.floor_divide)
scalar_remainder = _number(operator.mod, elementwise.remainder)
scalar_pow = _number(operator.pow, lambda o, x, y: o.Pow(x, y))
scalar_negative = _number(operator.neg, lambda o, x: o.Neg(x))
scalar_abs = _number(operator.abs, lambda o, x: o.Abs(x))
scalar_min = _number(min, lambda o, x, y: o.Min(x, y))
scalar_max = _number(max, lambda o, x, y: o.Max(x, y))
scalar_equal = _number(operator.eq, _compare("Equal"))
scalar_not_equal = _number(operator.ne, lambda o, x, y: o.Not(o.Equal(x, y)))
scalar_less = _number(operator.lt, _compare("Less"))
scalar_less_equal = _number(operator.le, _compare("LessOrEqual"))
scalar_greater = _number(operator.gt, _compare("Greater"))
scalar_greater_equal = _number(operator.ge, _compare("GreaterOrEqual"))
scalar_invert = _number(operator.inv, lambda o, x: o.BitwiseNot(x))
scalar_left_shift = _number(operator.lshift, elementwise.bitwise_left_shift)
scalar_right_shift = _number(operator.rshift, elementwise.bitwise_right_shift)
scalar_not = _number(operator.not_, lambda o, x: o.Not(x), "bool")
scalar_truth = _number(bool, lambda o, x: x, "bool")
scalar_float = _number(float, lambda o, x: x, "float64")
scalar_sqrt, scalar_exp, scalar_log, scalar_log2, scalar_log10, scalar_log1p, scalar_expm1 = (
    _number(getattr(math, name), getattr(elementwise, name), "float64")
    for name in ("sqrt", "exp", "log", "log2", "log10", "log1p", "expm1")
)
scalar_sin, scalar_cos, scalar_tan, scalar_asin, scalar_acos, scalar_atan = (
    _number(getattr(math, name), getattr(elementwise, name), "float64")
    for name in ("sin", "cos", "tan", "asin", "acos", "atan")
)
scalar_sinh, scalar_cosh, scalar_tanh, scalar_erf = (
    _number(getattr(math, name), getattr(elementwise, name), "float64") for name in ("sinh", "cosh", "tanh", "erf")
)
scalar_hypot, scalar_atan2, scalar_fmod = (
    _number(getattr(math, name), getattr(elementwise, name), "float64") for name in ("hypot", "atan2", "fmod")
)
scalar_floor, scalar_ceil, scalar_trunc = (
    _number(getattr(math, name), lambda o, x, name=name: o.cast(getattr(elementwise, name)(o, x), "int64"), "float64")
    for name in ("floor", "ceil", "trunc")
)


def _greatest_divisor(o: Builder, x: Tensor, y: Tensor) -> Any:
    """Of Euclid, in turns."""
    names = {word: o.reserve(word) for word in ("turn", "go", "one", "other")}
    one, other = (Tensor(o, names[word], "int64", (), number=True) for word in ("one", "other"))
    body = GraphProto(name=o.reserve("divide"))
    body.input.extend(helper.make_tensor_value_info(names[word], _TYPES[word], ()) for word in names)
    with o.within() as nodes:
        rest = o.Mod(one, other)
        for each, kind in ((o.Not(o.Equal(rest, 0)), TensorProto.BOOL), (o.Identity(other), _INT), (rest, _INT)):
            body.output.append(helper.make_tensor_value_info(each.name, kind, ()))
        o.take({})
        body.node.extend(nodes)
    y = o.Abs(y)
    made = o.add("Loop", None, o.Not(o.Equal(y, 0)), o.Abs(x), y, outputs=2, dtype="int64", shape=(), body=body)
    return made[0]


scalar_gcd = _number(math.gcd, _greatest_divisor, "int64")
scalar_isqrt = _number(math.isqrt, lambda o, x: o.cast(o.Floor(o.Sqrt(x)), "int64"), "float64")


def scalar_round(o: Builder, x: Any, y: Any = None) -> Any:
    x, y = o.plain(x), o.plain(y)
    if not isinstance(x, Tensor):
        return round(x, y)
    if isinstance(y, Tensor):
        o.fail("round() to a number of digits that is computed has no form in ONNX")
    wide = o.strong(o.cast(x, "float64"))
    if y is None:
        return o.cast(o.Round(wide), "int64")
    return o.Div(o.Round(o.Mul(wide, o.const(10.0**y, "float64"))), o.const(10.0**y, "float64"))


def _logic(python: Callable[..., Any], kind: str) -> Callable[..., Any]:
    def form(o: Builder, x: Any, y: Any) -> Any:
        x, y = o.plain(x), o.plain(y)
        if not isinstance(x, Tensor) and not isinstance(y, Tensor):
            return python(x, y)
        if all(each.dtype == "bool" if isinstance(each, Tensor) else isinstance(each, bool) for each in (x, y)):
            return o.add(kind, o.cast(x, "bool"), o.cast(y, "bool"))
        return o.add(f"Bitwise{kind}", *_typed(o, x, y))

    return form


scalar_and = _logic(operator.and_, "And")
scalar_or = _logic(operator.or_, "Or")
scalar_xor = _logic(operator.xor, "Xor")


def scalar_int(o: Builder, x: Any) -> Any:
    x = o.plain(x)
    return o.cast(x, "int64") if isinstance(x, Tensor) else int(x)


def size(o: Builder, x: Any, axis: Any) -> Any:
    return o.size(x, axis)


def ndim(o: Builder, x: Any) -> Any:
    return x.rank


def numel(o: Builder, x: Any) -> Any:
    if x.shape is not None and all(isinstance(dim, int) for dim in x.shape):
        total = 1
        for dim in x.shape:
            total *= dim
        return total
    return o.Size(x, shape=())


def _item(kind: str) -> Callable[..., Any]:
    return lambda o, x: o.cast(item(o, x), kind)


item_int, item_float, item_bool = _item("int64"), _item("float64"), _item("bool")


def item_not(o: Builder, x: Any) -> Any:
    return o.Not(o.cast(item(o, x), "bool"))


def item(o: Builder, x: Any) -> Any:
    return o.Reshape(x, o.const([], "int64"), shape=()) if x.shape != () else o.Identity(x)
