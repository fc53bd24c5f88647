"""What the functions of MindSpore's namespace share: constants are computed by NumPy, operands have a common dtype."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pijit.graph.forms import _types
from pijit.graph.forms.mindspore_array import Array, call, constant


def asarray(x: Any) -> Any:
    """An `Array` of anything."""
    return x if isinstance(x, Array) else constant(x)


def _arrays(argument: Any) -> list[Any]:
    if isinstance(argument, tuple | list):
        return [each for item in argument for each in _arrays(item)]
    return [argument] if isinstance(argument, Array | np.ndarray | np.generic) else []


def in_numpy(argument: Any) -> Any:
    """The argument with arrays of NumPy; one that is not known has zeros."""
    if isinstance(argument, tuple | list):
        return type(argument)(map(in_numpy, argument))
    if not isinstance(argument, Array):
        return argument
    return np.zeros(argument.shape, argument.dtype) if argument.constant is None else argument.constant


def in_arrays(result: Any) -> Any:
    return tuple(map(constant, result)) if isinstance(result, tuple | list) else constant(result)


def folded(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with rule 2."""
    own = getattr(np, function.__name__)

    @functools.wraps(function)
    def folded(*args: Any, **kwargs: Any) -> Any:
        arrays = _arrays(args)
        known = all(not isinstance(each, Array) or each.constant is not None for each in arrays)
        if known or any(each.size == 0 for each in arrays):
            with np.errstate(all="ignore"):
                return in_arrays(own(*in_numpy(args), **kwargs))
        return function(*args, **kwargs)

    return folded


def together(*operands: Any) -> list[Any]:
    """Arrays of the operands in their common dtype."""
    dtype = _types.result_type(*operands)
    return [asarray(x).astype(dtype) if _types.is_array(x) else constant(np.asarray(x).astype(dtype)) for x in operands]


def named(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    function.__name__ = name
    return folded(function)


def unary(name: str, path: str = "") -> Callable[..., Any]:
    return named(name, lambda x: call(path or f"ops.{name}", asarray(x)))


def binary(name: str, path: str = "") -> Callable[..., Any]:
    return named(name, lambda x, y: call(path or f"ops.{name}", *together(x, y)))
