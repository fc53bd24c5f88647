"""Ufuncs of NumPy, and what their methods do, as operators of a graph.

`resolve_dtypes` of a ufunc says in which dtypes it computes. In those, an operator of torch with two operands of one
dtype does what the loop of the ufunc does; where it does not, there is a function here.
"""

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

from pijit.graph.build.array_values import Arrays, is_dtype_known
from pijit.graph.build.opaque_objects import UNKNOWN
from pijit.graph.model import Value

# ufunc -> operator of torch on operands of the dtypes in which NumPy computes. "!": the result is a bool.
_ROWS = {
    "add": "add.Tensor",
    "subtract": "sub.Tensor",
    "multiply": "mul.Tensor",
    "divide": "div.Tensor",
    "power": "pow.Tensor_Tensor",
    "float_power": "pow.Tensor_Tensor",
    "arctan2": "atan2",
    "hypot": "hypot",
    "copysign": "copysign.Tensor",
    "nextafter": "nextafter",
    "logaddexp": "logaddexp",
    "logaddexp2": "logaddexp2",
    "maximum": "maximum",
    "minimum": "minimum",
    "fmax": "fmax",
    "fmin": "fmin",
    "equal": "!eq.Tensor",
    "not_equal": "!ne.Tensor",
    "less": "!lt.Tensor",
    "less_equal": "!le.Tensor",
    "greater": "!gt.Tensor",
    "greater_equal": "!ge.Tensor",
    "logical_and": "!logical_and",
    "logical_or": "!logical_or",
    "logical_xor": "!logical_xor",
    "logical_not": "!logical_not",
    "bitwise_and": "bitwise_and.Tensor",
    "bitwise_or": "bitwise_or.Tensor",
    "bitwise_xor": "bitwise_xor.Tensor",
    "invert": "bitwise_not",
    "absolute": "abs",
    "fabs": "abs",
    "negative": "neg",
    "ceil": "ceil",
    "floor": "floor",
    "trunc": "trunc",
    "rint": "round",
    "square": "square",
    "exp": "exp",
    "exp2": "exp2",
    "expm1": "expm1",
    "log": "log",
    "log1p": "log1p",
    "log2": "log2",
    "log10": "log10",
    "sqrt": "sqrt",
    "sin": "sin",
    "cos": "cos",
    "tan": "tan",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "sinh": "sinh",
    "cosh": "cosh",
    "tanh": "tanh",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
    "isnan": "!isnan",
    "isinf": "!isinf",
    "isfinite": "!isfinite",
    "signbit": "!signbit",
}
# Those that take a number of Python as it is.
_WITH_NUMBERS = {"add.Tensor": "add.Tensor", "sub.Tensor": "sub.Tensor", "mul.Tensor": "mul.Tensor"}
_WITH_NUMBERS |= {"div.Tensor": "div.Tensor", "pow.Tensor_Tensor": "pow.Tensor_Scalar"}
_WITH_NUMBERS |= {f"{name}.Tensor": f"{name}.Scalar" for name in ("eq", "ne", "lt", "le", "gt", "ge")}
# Those that leave integers as they are.
_ROUNDING = {"ceil", "floor", "trunc", "rint"}
# Python's operators, and the ufuncs that they call.
OPERATORS = {
    operator.add: "add",
    operator.sub: "subtract",
    operator.mul: "multiply",
    operator.truediv: "divide",
    operator.floordiv: "floor_divide",
    operator.mod: "remainder",
    operator.pow: "power",
    operator.and_: "bitwise_and",
    operator.or_: "bitwise_or",
    operator.xor: "bitwise_xor",
    operator.lshift: "left_shift",
    operator.rshift: "right_shift",
    operator.matmul: "matmul",
    operator.neg: "negative",
    operator.pos: "positive",
    operator.invert: "invert",
    operator.lt: "less",
    operator.le: "less_equal",
    operator.eq: "equal",
    operator.ne: "not_equal",
    operator.gt: "greater",
    operator.ge: "greater_equal",
    abs: "absolute",
}
IN_PLACE = {
    operator.iadd: "add",
    operator.isub: "subtract",
    operator.imul: "multiply",
    operator.itruediv: "divide",
    operator.ifloordiv: "floor_divide",
    operator.imod: "remainder",
    operator.ipow: "power",
    operator.iand: "bitwise_and",
    operator.ior: "bitwise_or",
    operator.ixor: "bitwise_xor",
}


def _is_number(argument: Any) -> bool:
    return type(argument) in {int, float, bool}


def _is_scalar(argument: Any) -> bool:
    """A number of Python, or one that is made of sizes."""
    return _is_number(argument) or (isinstance(argument, Value) and argument.kind in {"int", "float"})


def ufunc_rule(ufunc: Any) -> Callable[[Arrays, list[Any], dict[str, Any], Any], Any] | None:
    """What a call of the ufunc is in a graph; None: nothing."""
    own = _OWN.get(ufunc.__name__)
    if own is None and ufunc.__name__ not in _ROWS:
        return None
    own = own or functools.partial(_plain, ufunc.__name__)

    def rule(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
        named = dict(named)
        out = named.pop("out", None) if len(args) <= ufunc.nin else args[ufunc.nin]
        out = out[0] if isinstance(out, tuple) and len(out) == 1 else out
        out = None if out is Ellipsis else out  # an array, also where NumPy gives a number
        if named.get("casting", "same_kind") in {"same_kind", "unsafe"} and named.get("where", True) is True:
            named = {key: each for key, each in named.items() if key not in {"casting", "subok", "where"}}
        if named or ufunc.nout != 1 or len(args) < ufunc.nin:
            return UNKNOWN
        operands = args[: ufunc.nin]
        try:
            *given, made_dtype = ufunc.resolve_dtypes((*map(arrays.dtype, operands), None))
        except TypeError:
            return UNKNOWN
        if not all(map(is_dtype_known, (*given, made_dtype))):
            return UNKNOWN
        made = own(arrays, operands, given)
        if made is UNKNOWN or out is None:
            return made
        return arrays.write(out, arrays.cast(made, made_dtype))

    return rule


def ufunc_named(name: str) -> Any:
    """The ufunc of NumPy."""
    import numpy

    return getattr(numpy, name)


def _plain(name: str, arrays: Arrays, operands: list[Any], dtypes: list[Any]) -> Any:
    row = _ROWS[name]
    result = bool if row.startswith("!") else None
    row = row.removeprefix("!")
    if (name in _ROUNDING and dtypes[0].kind in "iub") or (name == "absolute" and dtypes[0].kind == "b"):
        return arrays.copied(arrays.tensor(operands[0], dtypes[0]))
    if name == "invert" and dtypes[0].kind == "b":
        return arrays.op(bool, "aten::logical_not", arrays.tensor(operands[0], dtypes[0]))
    if name in {"isnan", "isinf", "isfinite", "signbit"} and dtypes[0].kind == "c":
        return UNKNOWN
    if name in {"add", "multiply"} and _is_scalar(operands[0]):
        operands, dtypes = operands[::-1], dtypes[::-1]
    if len(operands) == 2 and row in _WITH_NUMBERS and _is_scalar(operands[1]) and not _is_scalar(operands[0]):
        return arrays.op(result, f"aten::{_WITH_NUMBERS[row]}", arrays.tensor(operands[0], dtypes[0]), operands[1])
    given = [arrays.tensor(each, dtype) for each, dtype in zip(operands, dtypes, strict=True)]
    if name == "absolute" and dtypes[0].kind == "c":
        return arrays.op("float64" if dtypes[0].itemsize == 16 else "float32", "aten::abs", *given)
    return arrays.op(result, f"aten::{row}", *given)


def _power(arrays: Arrays, operands: list[Any], dtypes: list[Any]) -> Any:
    """Integers to the power of what may be negative raise in NumPy, as data decide."""
    if dtypes[0].kind in "iu" and not (_is_number(operands[1]) and operands[1] >= 0):
        return UNKNOWN
    return _plain("power", arrays, operands, dtypes)


def _conjugate(arrays: Arrays, operands: list[Any], dtypes: list[Any]) -> Any:
    return UNKNOWN if dtypes[0].kind == "c" else _positive(arrays, operands, dtypes)


def _positive(arrays: Arrays, operands: list[Any], dtypes: list[Any]) -> Any:
    return arrays.copied(arrays.tensor(operands[0], dtypes[0]))


def _sign(arrays: Arrays, operands: list[Any], dtypes: list[Any]) -> Any:
    """NaN has one of its own, which is 0 in torch."""
    x = arrays.tensor(operands[0], dtypes[0])
    made = arrays.op(None, "aten::sign", x)
    if dtypes[0].kind != "f":
        return made if dtypes[0].kind in "iu" else UNKNOWN
    return arrays.op(dtypes[0], "aten::where.self", arrays.op(bool, "aten::isnan", x), x, made)


def _reciprocal(arrays: Arrays, operands: list[Any], dtypes: list[Any]) -> Any:
    if dtypes[0].kind not in "fc":
        return UNKNOWN
    return arrays.op(None, "aten::reciprocal", arrays.tensor(operands[0], dtypes[0]))


def _cbrt(arrays: Arrays, operands: list[Any], dtypes: list[Any]) -> Any:
    x = arrays.tensor(operands[0], dtypes[0])
    root = arrays.op(None, "aten::pow.Tensor_Scalar", arrays.op(None, "aten::abs", x), 1 / 3)
    return arrays.op(None, "aten::copysign.Tensor", root, x)


def _scaled(factor: float) -> Callable[..., Any]:
    def rule(arrays: Arrays, operands: list[Any], dtypes: list[Any]) -> Any:
        return arrays.op(None, "aten::mul.Tensor", arrays.tensor(operands[0], dtypes[0]), factor)

    return rule


def _quotient(row: str) -> Callable[..., Any]:
    """Integers by 0 are 0 in NumPy, and raise, or are anything, elsewhere."""

    def rule(arrays: Arrays, operands: list[Any], dtypes: list[Any]) -> Any:
        x = arrays.tensor(operands[0], dtypes[0])
        if dtypes[0].kind == "b":
            return UNKNOWN
        plain = dtypes[0].kind == "f" or (_is_number(operands[1]) and operands[1] not in {0, -1})
        if plain and _is_number(operands[1]):
            scalar = {"floor_divide": "floor_divide", "remainder": "remainder.Scalar", "fmod": "fmod.Scalar"}
            return arrays.op(dtypes[0], f"aten::{scalar[row]}", x, operands[1])
        y = arrays.tensor(operands[1], dtypes[1])
        names = {"floor_divide": "floor_divide", "remainder": "remainder.Tensor", "fmod": "fmod.Tensor"}
        if plain:
            return arrays.op(dtypes[0], f"aten::{names[row]}", x, y)
        zero, one = (arrays.tensor(each, dtypes[0]) for each in (0, 1))
        none = arrays.op(bool, "aten::eq.Scalar", y, 0)
        minus = arrays.op(bool, "aten::eq.Scalar", y, -1) if dtypes[0].kind == "i" else none
        safe = arrays.op(dtypes[0], "aten::where.self", arrays.op(bool, "aten::logical_or", none, minus), one, y)
        made = arrays.op(dtypes[0], f"aten::{names[row]}", x, safe)
        if dtypes[0].kind == "i":
            other = arrays.op(dtypes[0], "aten::neg", x) if row == "floor_divide" else zero
            made = arrays.op(dtypes[0], "aten::where.self", minus, other, made)
        return arrays.op(dtypes[0], "aten::where.self", none, zero, made)

    return rule


def _shift(row: str) -> Callable[..., Any]:
    """By more bits than there are, frameworks differ."""

    def rule(arrays: Arrays, operands: list[Any], dtypes: list[Any]) -> Any:
        if type(operands[1]) is not int or not 0 <= operands[1] < dtypes[0].itemsize * 8:
            return UNKNOWN
        y = arrays.tensor(operands[1], dtypes[0])
        return arrays.op(None, f"aten::{row}.Tensor", arrays.tensor(operands[0], dtypes[0]), y)

    return rule


def _clip(arrays: Arrays, operands: list[Any], dtypes: list[Any]) -> Any:
    """The larger of the lower bound, then the smaller of the upper one."""
    made = arrays.tensor(operands[0], dtypes[0])
    for bound, dtype, row in zip(operands[1:], dtypes[1:], ("maximum", "minimum"), strict=True):
        made = arrays.op(None, f"aten::{row}", made, arrays.tensor(bound, dtype))
    return made


def _matmul(arrays: Arrays, operands: list[Any], dtypes: list[Any]) -> Any:
    if dtypes[0].kind == "b" or any(not isinstance(each, Value) for each in operands):
        return UNKNOWN
    return arrays.op(
        None, "aten::matmul", *(arrays.tensor(each, dtype) for each, dtype in zip(operands, dtypes, strict=True))
    )


_OWN: dict[str, Callable[[Arrays, list[Any], list[Any]], Any]] = {
    "power": _power,
    "positive": _positive,
    "conjugate": _conjugate,
    "sign": _sign,
    "reciprocal": _reciprocal,
    "cbrt": _cbrt,
    "degrees": _scaled(180 / math.pi),
    "rad2deg": _scaled(180 / math.pi),
    "radians": _scaled(math.pi / 180),
    "deg2rad": _scaled(math.pi / 180),
    "floor_divide": _quotient("floor_divide"),
    "remainder": _quotient("remainder"),
    "fmod": _quotient("fmod"),
    "left_shift": _shift("bitwise_left_shift"),
    "right_shift": _shift("bitwise_right_shift"),
    "clip": _clip,
    "matmul": _matmul,
}


# -- methods

# ufunc -> what folds an array with it.
_FOLDS = {
    "add": "sum.dim_IntList",
    "multiply": "prod.dim_int",
    "maximum": "amax",
    "minimum": "amin",
    "logical_or": "any.dims",
    "logical_and": "all.dims",
    "bitwise_or": "any.dims",
    "bitwise_and": "all.dims",
}


def axes_of(arrays: Arrays, value: Value, axis: Any) -> tuple[int, ...] | None:
    """The axes of an argument, from 0 on; None: they are not known."""
    rank = arrays.rank(value)
    if axis is None:
        return tuple(range(rank))
    given = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    if not all(type(each) is int for each in given):
        return None
    return tuple(sorted(each % rank if rank else 0 for each in given)) if rank else ()


def fold(arrays: Arrays, name: str, value: Value, axis: Any, keepdims: bool, dtype: Any) -> Any:
    """`ufunc.reduce`; `dtype`: of the result."""
    axes = axes_of(arrays, value, axis)
    if axes is None:
        return UNKNOWN
    row = _FOLDS[name]
    if row.startswith(("any", "all")):
        if name.startswith("bitwise") and arrays.dtype(value).kind != "b":
            return UNKNOWN
        value = arrays.cast(value, arrays.dtype(value))
        made = arrays.op(bool, "aten::ne.Scalar", value, 0) if arrays.dtype(value).kind != "b" else value
        return arrays.copied(made) if not axes else arrays.op(bool, f"aten::{row}", made, axes, keepdims)
    value = arrays.cast(value, dtype)
    if not axes:
        return arrays.copied(value)
    if row.startswith("am"):
        if dtype.kind == "c":
            return UNKNOWN
        return arrays.op(dtype, f"aten::{row}", value, axes, keepdims)
    if row.startswith("prod"):
        for each in reversed(axes):
            value = arrays.op(dtype, f"aten::{row}", value, each, keepdims, **arrays.word(dtype))
        return value
    return arrays.op(dtype, f"aten::{row}", value, axes, keepdims, **arrays.word(dtype))


def _given(names: tuple[str, ...], args: list[Any], named: dict[str, Any]) -> dict[str, Any] | None:
    """Arguments by name, without those that are not given; None: there are others."""
    import numpy

    given = dict(zip(names, args, strict=False)) | named
    missing = getattr(numpy, "_NoValue", None)
    given = {
        key: each
        for key, each in given.items()
        if each is not None and getattr(each, "made", each) is not missing and not (key == "where" and each is True)
    }
    return given if given.keys() <= set(names) and len(args) <= len(names) else None


def reduce_rule(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
    """`ufunc.reduce(array, axis=0, dtype=None, out=None, keepdims=False)`."""
    ufunc = getattr(args[0], "made", args[0])
    parameters = ("array", "axis", "dtype", "out", "keepdims", "initial", "where")
    given = _given(parameters, args[1:], named)
    name = getattr(ufunc, "__name__", "")
    if given is None or given.keys() & {"out", "initial", "where"} or name not in _FOLDS:
        return UNKNOWN
    if not isinstance(given.get("array"), Value):
        return UNKNOWN
    axis = 0 if len(args) < 3 and "axis" not in named else (args[2] if len(args) > 2 else named["axis"])
    return fold(arrays, name, given["array"], axis, bool(given.get("keepdims", False)), example.dtype)


def accumulate_rule(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
    """`ufunc.accumulate(array, axis=0)`."""
    ufunc = getattr(args[0], "made", args[0])
    rows = {"add": "cumsum", "multiply": "cumprod"}
    given = _given(("array", "axis"), args[1:], named)
    if given is None or getattr(ufunc, "__name__", "") not in rows or not isinstance(given["array"], Value):
        return UNKNOWN
    value = arrays.cast(given["array"], example.dtype)
    return arrays.op(None, f"aten::{rows[ufunc.__name__]}", value, given.get("axis", 0), **arrays.word(example.dtype))


def outer_rule(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
    """`ufunc.outer(x, y)`: x with as many axes more as y has."""
    ufunc = getattr(args[0], "made", args[0])
    rule = ufunc_rule(ufunc)
    if rule is None or named or len(args) != 3 or not all(isinstance(each, Value) for each in args[1:]):
        return UNKNOWN
    x, y = args[1:]
    held = arrays.examples[x.name]
    for _ in range(arrays.rank(y)):
        x = arrays.op(held.dtype, "aten::unsqueeze", x, -1)
        held = held[..., None]
        arrays.examples[x.name] = held
    return rule(arrays, [x, y], {}, example)
