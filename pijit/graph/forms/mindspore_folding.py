"""What the functions of MindSpore's namespace share: constants are computed by NumPy, operands have a common dtype."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pijit.graph.forms import _types
from pijit.graph.forms.mindspore_array import BFLOAT16, Array, call, constant


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
                made = own(*in_numpy(args), **kwargs)
            return in_arrays(_short(made) if _is_short(arrays) else made)
        return function(*args, **kwargs)

    return folded


def paired(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of two operands with rule 2, after they have a common dtype."""
    inner = folded(function)

    @functools.wraps(function)
    def paired(x: Any, y: Any) -> Any:
        return inner(*together(x, y))

    return paired


def _is_short(arrays: list[Any]) -> bool:
    dtypes = {each.dtype.name for each in arrays}
    return "bfloat16" in dtypes and "float32" not in dtypes


def _short(result: Any) -> Any:
    """NumPy computes with bfloat16 in float32: the dtype that it had."""
    if isinstance(result, tuple | list):
        return type(result)(map(_short, result))
    return result.astype(BFLOAT16) if result.dtype == np.float32 else result


def together(*operands: Any) -> list[Any]:
    """Arrays of the operands in their common dtype."""
    dtype = _types.result_type(*operands)
    return [asarray(x).astype(dtype) if _types.is_array(x) else constant(np.asarray(x).astype(dtype)) for x in operands]


def named(name: str, function: Callable[..., Any], how: Callable[..., Any] = folded) -> Callable[..., Any]:
    """The function under a name of NumPy's, with rule 2."""
    function.__name__ = name
    found: Callable[..., Any] = how(function)
    return found


def unary(name: str, path: str = "") -> Callable[..., Any]:
    return named(name, lambda x: call(path or f"ops.{name}", asarray(x)))


def binary(name: str, path: str = "") -> Callable[..., Any]:
    return named(name, lambda x, y: call(path or f"ops.{name}", x, y), paired)
