"""Forms of elementwise mathematics, comparison and logic over the namespace `self.xp`."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pijit.graph.forms import _types


class Base:
    """What all forms use: the namespace `xp` (numpy or jax.numpy), casts and promotion as in torch."""

    xp: Any

    def _as(self, x: Any, dtype: Any) -> Any:
        """An array of x in a dtype."""
        if _types.is_array(x):
            return x if x.dtype == dtype else x.astype(dtype)
        return self.xp.asarray(np.asarray(x).astype(dtype))

    def _together(self, *operands: Any) -> list[Any]:
        """Arrays of the operands in their common dtype."""
        dtype = _types.result_type(*operands)
        return [self._as(each, dtype) for each in operands]

    def _floating(self, x: Any) -> Any:
        """An array of x; integers become float32."""
        dtype = _types.dtype_of(x)
        return self._as(x, dtype if _types.category(dtype) > 1 else _types.FLOAT)

    def _floats(self, *operands: Any) -> list[Any]:
        """Arrays in their common dtype; integers become float32."""
        return [self._floating(each) for each in self._together(*operands)]

    def _matmul(self, x: Any, y: Any) -> Any:
        return self.xp.matmul(x, y)

    def _dtype(self, token: Any, otherwise: Any = None) -> Any:
        """The dtype that a token names, or another one if there is none."""
        return otherwise if token is None else _types.named(token)


def _is_one(factor: Any) -> bool:
    """A number that changes nothing; a traced one may be any."""
    return isinstance(factor, int | float) and factor == 1


def _is_integer(x: Any) -> bool:
    return _types.category(_types.dtype_of(x)) < 2


def _floating(name: str) -> Callable[[Base, Any], Any]:
    """A function of the namespace on floats."""
    return lambda self, x: getattr(self.xp, name)(self._floating(x))


def _rounding(name: str) -> Callable[[Base, Any], Any]:
    """A function of the namespace that leaves integers as they are."""
    return lambda self, x: x if _is_integer(x) else getattr(self.xp, name)(x)


def _binary(name: str) -> Callable[[Base, Any, Any], Any]:
    """A function of the namespace on operands of a common dtype."""
    return lambda self, x, y: getattr(self.xp, name)(*self._together(x, y))


def _binary_floating(name: str) -> Callable[[Base, Any, Any], Any]:
    """A function of the namespace on floats of a common dtype."""
    return lambda self, x, y: getattr(self.xp, name)(*self._floats(x, y))


def _logical(name: str) -> Callable[[Base, Any, Any], Any]:
    """A function of the namespace on truth values."""
    return lambda self, x, y: getattr(self.xp, name)(self._as(x, np.bool_), self._as(y, np.bool_))


class Elementwise(Base):
    """Forms of elementwise operators."""

    exp, exp2, expm1 = _floating("exp"), _floating("exp2"), _floating("expm1")
    log, log1p, log2, log10 = _floating("log"), _floating("log1p"), _floating("log2"), _floating("log10")
    sqrt = _floating("sqrt")
    sin, cos, tan = _floating("sin"), _floating("cos"), _floating("tan")
    asin, acos, atan = _floating("arcsin"), _floating("arccos"), _floating("arctan")
    sinh, cosh, tanh = _floating("sinh"), _floating("cosh"), _floating("tanh")
    asinh, acosh, atanh = _floating("arcsinh"), _floating("arccosh"), _floating("arctanh")
    ceil, floor, trunc = _rounding("ceil"), _rounding("floor"), _rounding("trunc")
    nextafter = _binary_floating("nextafter")
    atan2, hypot, copysign = _binary_floating("arctan2"), _binary_floating("hypot"), _binary_floating("copysign")
    logaddexp, logaddexp2 = _binary_floating("logaddexp"), _binary_floating("logaddexp2")
    maximum, minimum = _binary("maximum"), _binary("minimum")
    fmax, fmin, fmod = _binary("fmax"), _binary("fmin"), _binary("fmod")
    remainder, _power = _binary("remainder"), _binary("power")
    equal, not_equal = _binary("equal"), _binary("not_equal")
    less, less_equal = _binary("less"), _binary("less_equal")
    greater, greater_equal = _binary("greater"), _binary("greater_equal")
    bitwise_and, bitwise_or, bitwise_xor = _binary("bitwise_and"), _binary("bitwise_or"), _binary("bitwise_xor")
    bitwise_left_shift, bitwise_right_shift = _binary("left_shift"), _binary("right_shift")
    logical_and, logical_or = _logical("logical_and"), _logical("logical_or")
    logical_xor = _logical("logical_xor")
    isnan, isinf, isfinite = _floating("isnan"), _floating("isinf"), _floating("isfinite")

    def add(self, x: Any, y: Any, alpha: Any = 1) -> Any:
        x, y = self._together(x, y)
        return x + (y if _is_one(alpha) else self._as(alpha, y.dtype) * y)

    def subtract(self, x: Any, y: Any, alpha: Any = 1) -> Any:
        x, y = self._together(x, y)
        return x - (y if _is_one(alpha) else self._as(alpha, y.dtype) * y)

    def reverse_subtract(self, x: Any, y: Any, alpha: Any = 1) -> Any:
        return self.subtract(y, x, alpha)

    def multiply(self, x: Any, y: Any) -> Any:
        x, y = self._together(x, y)
        return x * y

    def divide(self, x: Any, y: Any, rounding: str | None = None) -> Any:
        if rounding == "floor":
            return self.floor_divide(x, y)
        x, y = self._together(x, y)
        if rounding is None:
            return self._floating(x) / self._floating(y)
        if not _is_integer(x):
            return self.xp.trunc(x / y)
        quotient = x // y
        return quotient + ((quotient < 0) & (quotient * y != x)).astype(x.dtype)

    def floor_divide(self, x: Any, y: Any) -> Any:
        x, y = self._together(x, y)
        return x // y

    def pow(self, x: Any, y: Any) -> Any:
        if isinstance(y, float) and abs(y) == 0.5 and _types.is_array(x):
            x = self._together(x, y)[0]
            if _types.category(x.dtype) == 2 and x.dtype != np.float16:  # of -infinity it is NaN in torch
                return self.sqrt(x) if y > 0 else self.rsqrt(x)
        return self._power(x, y)

    def abs(self, x: Any) -> Any:
        return self.xp.abs(x)

    def negative(self, x: Any) -> Any:
        return -x

    def positive(self, x: Any) -> Any:
        return x

    def sign(self, x: Any) -> Any:
        if _types.category(x.dtype) == 3:
            return self.xp.where(x == 0, self._as(0, x.dtype), x / self.xp.abs(x))
        return x if x.dtype == np.bool_ else (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)

    def round(self, x: Any, decimals: int = 0) -> Any:
        return x if _is_integer(x) else self.xp.round(x, decimals)

    def frac(self, x: Any) -> Any:
        return x - self.xp.trunc(x)

    def rsqrt(self, x: Any) -> Any:
        return 1 / self.sqrt(x)

    def square(self, x: Any) -> Any:
        return x * x

    def reciprocal(self, x: Any) -> Any:
        return 1 / self._floating(x)

    def erfc(self, x: Any) -> Any:
        return 1 - self.erf(x)

    def erf(self, x: Any) -> Any:
        raise NotImplementedError

    def clip(self, x: Any, min: Any = None, max: Any = None) -> Any:
        bounds = [each for each in (min, max) if each is not None]
        dtype = _types.result_type(x, *bounds)
        x = self._as(x, dtype)
        if min is not None:
            x = self.xp.maximum(x, self._as(min, dtype))
        return x if max is None else self.xp.minimum(x, self._as(max, dtype))

    def lerp(self, x: Any, y: Any, weight: Any) -> Any:
        return x + self._as(weight, x.dtype) * (y - x)

    def addcmul(self, x: Any, y: Any, z: Any, value: Any = 1) -> Any:
        return self.add(x, self.multiply(y, z), value)

    def addcdiv(self, x: Any, y: Any, z: Any, value: Any = 1) -> Any:
        return self.add(x, self.divide(y, z), value)

    def xlogy(self, x: Any, y: Any) -> Any:
        x, y = self._floats(x, y)
        product = x * self.xp.log(self.xp.where(x == 0, self._as(1, y.dtype), y))
        return self.xp.where(
            (x == 0) & ~self.xp.isnan(y), self._as(0, x.dtype), self.xp.where(self.xp.isnan(y), y, product)
        )

    def nan_to_num(self, x: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
        if _is_integer(x):
            return x
        return self.xp.nan_to_num(x, nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf)

    def real(self, x: Any) -> Any:
        return self.xp.real(x)

    def imag(self, x: Any) -> Any:
        return self.xp.imag(x)

    def conj(self, x: Any) -> Any:
        return self.xp.conj(x)

    def resolve_conj(self, x: Any) -> Any:
        return x

    def complex(self, x: Any, y: Any) -> Any:
        return self._as(x, _types.complex_of(_types.dtype_of(x))) + y * self._as(
            1j, _types.complex_of(_types.dtype_of(x))
        )

    def view_as_real(self, x: Any) -> Any:
        return self.xp.stack((self.xp.real(x), self.xp.imag(x)), axis=-1)

    def view_as_complex(self, x: Any) -> Any:
        return self.complex(x[..., 0], x[..., 1])

    def array_equal(self, x: Any, y: Any) -> Any:
        return bool(self.xp.array_equal(x, y))

    def signbit(self, x: Any) -> Any:
        return x < 0 if _is_integer(x) else self.xp.signbit(x)

    def isin(self, x: Any, y: Any, invert: bool = False) -> Any:
        x, y = self._together(x, y)
        return self.xp.isin(x, y, invert=invert)

    def logical_not(self, x: Any) -> Any:
        return ~self._as(x, np.bool_)

    def bitwise_invert(self, x: Any) -> Any:
        return ~x

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        x, y = self._together(x, y)
        return self.xp.where(self._as(condition, np.bool_), x, y)
