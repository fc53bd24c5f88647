"""Forms that all frameworks share: numbers of Python, checks of what the program decided on, and decisions themselves.

The graphs in "cond" and "while" are functions here, which take arrays and numbers and give tuples.
"""

import math
import operator
from collections.abc import Callable
from typing import Any

from pijit.errors import ExportError
from pijit.graph.vocabulary.maths import OF_FLOATS


def check(x: Any, expected: Any) -> None:
    """Raises an ExportError if the number is not what the recorded call decided on."""
    if x != expected:
        raise ExportError(
            f"the recorded call decided on {expected!r} where these inputs give {x!r}, so the graph does not hold for "
            "them: its program takes another way; capture it with inputs like these, or without `dynamic`"
        )


def cond(condition: Any, then: Any, otherwise: Any, operands: Any = ()) -> Any:
    """What one of two functions gives for the operands."""
    return tuple((then if condition else otherwise)(*operands))


def while_(condition: Any, body: Any, carried: Any, operands: Any = ()) -> Any:
    """What is carried, after turns of a function."""
    while condition(*carried, *operands):
        carried = body(*carried, *operands)
    return tuple(carried)


def _binary(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def form(x: Any, y: Any) -> Any:
        return function(x, y)

    return form


def _unary(function: Callable[[Any], Any]) -> Callable[..., Any]:
    def form(x: Any) -> Any:
        return function(x)

    return form


FORMS: dict[str, Callable[..., Any]] = {
    "scalar_add": _binary(operator.add),
    "scalar_subtract": _binary(operator.sub),
    "scalar_multiply": _binary(operator.mul),
    "scalar_divide": _binary(operator.truediv),
    "scalar_floor_divide": _binary(operator.floordiv),
    "scalar_remainder": _binary(operator.mod),
    "scalar_pow": _binary(operator.pow),
    "scalar_negative": _unary(operator.neg),
    "scalar_abs": _unary(abs),
    "scalar_min": _binary(min),
    "scalar_max": _binary(max),
    "scalar_equal": _binary(operator.eq),
    "scalar_not_equal": _binary(operator.ne),
    "scalar_less": _binary(operator.lt),
    "scalar_less_equal": _binary(operator.le),
    "scalar_greater": _binary(operator.gt),
    "scalar_greater_equal": _binary(operator.ge),
    "scalar_and": _binary(operator.and_),
    "scalar_or": _binary(operator.or_),
    "scalar_xor": _binary(operator.xor),
    "scalar_invert": _unary(operator.invert),
    "scalar_left_shift": _binary(operator.lshift),
    "scalar_right_shift": _binary(operator.rshift),
    "scalar_not": _unary(operator.not_),
    "scalar_truth": _unary(bool),
    "scalar_int": _unary(int),
    "scalar_float": _unary(float),
    **{f"scalar_{name}": _unary(getattr(math, name)) for name in OF_FLOATS},
    **{f"scalar_{name}": _unary(getattr(math, name)) for name in ("floor", "ceil", "trunc", "isqrt")},
    "scalar_round": lambda x, y=None: round(x, y),
    **{f"scalar_{name}": _binary(getattr(math, name)) for name in ("gcd", "hypot", "atan2", "fmod")},
    "item": lambda x: x.item(),
    "item_int": lambda x: int(x.item()),
    "item_float": lambda x: float(x.item()),
    "item_bool": lambda x: bool(x.item()),
    "item_not": lambda x: not x.item(),
    "check": check,
    "cond": cond,
    "while": while_,
}
