"""Arrays of MindSpore with the face of NumPy's, and the record of the operators that MindSpore was called with.

The forms of `arrays.py` ask an array for its NumPy dtype, index it as NumPy does, and mix it with numbers and arrays of
NumPy. MindSpore's tensors differ in all of these, so `Array` stands before them. Every operator of MindSpore goes
through `call`. Within `recording` the calls are kept as `Line`s: the format "mindspore" writes them as the source of a
cell. The source of a form itself could not be that cell: `mindspore.jit` parses functions, and has neither classes with
inheritance nor NumPy's arrays.

1. What a form computes with NumPy alone is a constant of the cell.
2. A form that asks for a value, not for a shape, cannot be recorded: `Array.known` raises `DependsOnData`.
"""

import contextlib
import functools
import importlib
import math
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import mindspore
import numpy as np
from mindspore.common import np_dtype

from pijit.graph.forms import _types

BFLOAT16: Any = np.dtype(np_dtype.bfloat16)
_NAMES = "bool_ int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 complex64 complex128"
TO_MINDSPORE: dict[Any, Any] = {np.dtype(name): getattr(mindspore, name) for name in _NAMES.split()}
TO_MINDSPORE[BFLOAT16] = mindspore.bfloat16
TO_NUMPY = {theirs: own for own, theirs in TO_MINDSPORE.items()}
# MindSpore has no kernels of these dtypes for many operators: what is computed in instead, and cast back from.
_WIDER = {"bool": "uint8", "int8": "int16", "float16": "float32", "bfloat16": "float32"}
_SHORT = ("float16", "bfloat16")
_LACKING = {
    "ops.add": ("bool",),
    "ops.maximum": ("bfloat16",),
    "ops.minimum": ("bool", "bfloat16"),
    "ops.floor_mod": ("bool", "bfloat16"),
    "ops.less": ("bool", "int8", "bfloat16"),
    "ops.greater": ("bool", "int8", "bfloat16"),
    "ops.amax": ("bool", "bfloat16"),
    "ops.amin": ("bool", "bfloat16"),
    "ops.argmax": ("bool", "bfloat16"),
    "ops.argmin": ("bool", "bfloat16"),
    "ops.sort": ("bool", "bfloat16"),
    "ops.hypot": _SHORT,
    "ops.nextafter": _SHORT,
    "ops.tensor_scatter_add": ("bool", "bfloat16"),
    "ops.tensor_scatter_mul": ("bool", "bfloat16"),
    "ops.tensor_scatter_max": ("bool", "bfloat16"),
    "ops.tensor_scatter_min": ("bool", "bfloat16"),
}
# Operators that have kernels of bfloat16.
_ANY_DTYPE = {"ops.cast", "ops.reshape", "ops.transpose", "ops.broadcast_to", "ops.cat", "ops.strided_slice"}


class DependsOnData(Exception):
    """A form needs a value, which only a run has."""


class Line:
    """One call of MindSpore: `results = function(*arguments)`."""

    __slots__ = ("arguments", "function", "results")

    def __init__(self, function: str, arguments: tuple[Any, ...], results: "tuple[Array, ...]") -> None:
        self.function, self.arguments, self.results = function, arguments, results


_recorded: ContextVar[list[Line] | None] = ContextVar("_recorded", default=None)


@contextlib.contextmanager
def recording() -> Iterator[list[Line]]:
    """The calls that are made within, as they are made."""
    lines: list[Line] = []
    token = _recorded.set(lines)
    try:
        yield lines
    finally:
        _recorded.reset(token)


@functools.cache
def function_at(path: str) -> Callable[..., Any]:
    """ "ops.add" of MindSpore."""
    module, _, name = path.rpartition(".")
    found: Callable[..., Any] = getattr(importlib.import_module(f"mindspore.{module}"), name)
    return found


def _bare(argument: Any) -> Any:
    if isinstance(argument, Array):
        return argument.tensor
    if isinstance(argument, np.dtype):
        return TO_MINDSPORE[argument]
    return tuple(map(_bare, argument)) if isinstance(argument, tuple | list) else argument


def plain(argument: Any) -> Any:
    """Numbers of NumPy as Python's, and lists as tuples: MindSpore takes no others."""
    if isinstance(argument, tuple | list):
        return tuple(map(plain, argument))
    return argument.item() if isinstance(argument, np.generic) else argument


def _narrowed(function: str, arguments: tuple[Any, ...]) -> Any:
    """The dtype to compute in if MindSpore lacks the operator in the dtype of an argument, and that dtype."""
    for each in arguments:
        if isinstance(each, Array):
            name = each.dtype.name
            if name in _LACKING.get(function, ()) or (name == "bfloat16" and function not in _ANY_DTYPE):
                return np.dtype(_WIDER[name]), each.dtype
    return None, None


def call(function: str, *arguments: Any) -> Any:
    """What a function of MindSpore gives: an `Array`, or a tuple of them.

    Args:
        function: path below the package, such as "ops.add".
        *arguments: arrays, numbers, dtypes of NumPy, text, None, and tuples of these.
    """
    arguments = plain(arguments)
    wider, narrow = _narrowed(function, arguments)
    if wider is not None:
        changed = tuple(each.astype(wider) if _is_of(each, narrow) else each for each in arguments)
        result = call(function, *changed)
        if isinstance(result, tuple):
            return tuple(each.astype(narrow) if each.dtype == wider else each for each in result)
        return result.astype(narrow) if result.dtype == wider else result
    made = function_at(function)(*map(_bare, arguments))
    results = tuple(map(Array, made)) if isinstance(made, tuple | list) else (Array(made),)
    if (lines := _recorded.get()) is not None:
        lines.append(Line(function, arguments, results))
    return results if isinstance(made, tuple | list) else results[0]


def _is_of(argument: Any, dtype: Any) -> bool:
    return isinstance(argument, Array) and bool(argument.dtype == dtype)


def constant(value: Any) -> "Array":
    """An array of MindSpore with what one of NumPy holds."""
    value = np.asarray(value)
    if value.dtype == BFLOAT16:
        found = Array(mindspore.Tensor(value.astype(np.float32)).astype(mindspore.bfloat16))
    else:
        found = Array(mindspore.Tensor(np.array(value)))
    found.constant = value
    return found


def numpy_of(tensor: Any) -> Any:
    """The array of NumPy with what a tensor holds."""
    if tensor.dtype == mindspore.bfloat16:
        return tensor.astype(mindspore.float32).asnumpy().astype(BFLOAT16)
    return tensor.asnumpy()


def is_known(x: Any) -> bool:
    """What the array holds can be asked for."""
    return x.constant is not None or _recorded.get() is None


def _namespace() -> Any:
    from pijit.graph.forms import mindspore_namespace  # which stands on this module

    return mindspore_namespace


def _operator(name: str) -> Callable[["Array", Any], Any]:
    def method(self: "Array", other: Any) -> Any:
        return getattr(_namespace(), name)(self, other)

    return method


def _reflected(name: str) -> Callable[["Array", Any], Any]:
    def method(self: "Array", other: Any) -> Any:
        return getattr(_namespace(), name)(other, self)

    return method


class Array:
    """A tensor of MindSpore with the face of an array of NumPy.

    Attributes:
        tensor: what it stands for.
        constant: what it holds, if that does not depend on what a graph is given.
        name: in the source that is written of a record; "" before it is written.
    """

    __array_ufunc__ = None  # NumPy's arrays leave operators to this class
    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("constant", "name", "tensor")

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        self.constant: Any = None
        self.name = ""

    @property
    def dtype(self) -> Any:
        return TO_NUMPY[self.tensor.dtype]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def T(self) -> Any:
        return _namespace().transpose(self)

    def known(self) -> Any:
        """What it holds, as an array of NumPy."""
        if self.constant is not None:
            return self.constant
        if not is_known(self):
            raise DependsOnData
        return numpy_of(self.tensor)

    def item(self) -> Any:
        return self.known().item()

    def __bool__(self) -> bool:
        return bool(self.known())

    def __int__(self) -> int:
        return int(self.known())

    def __index__(self) -> int:
        return int(self.item())

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator["Array"]:
        return (self[at] for at in range(len(self)))

    def astype(self, dtype: Any) -> Any:
        dtype = np.dtype(dtype)
        if dtype == self.dtype:
            return self
        if self.constant is not None:
            with np.errstate(all="ignore"):
                return constant(self.constant.astype(dtype))
        if self.size == 0:
            return constant(np.zeros(self.shape, dtype))
        if _types.category(self.dtype) == 3 and _types.category(dtype) < 3:
            return _namespace().real(self).astype(dtype)
        return call("ops.cast", self, dtype)

    def reshape(self, *shape: Any) -> Any:
        return _namespace().reshape(self, shape[0] if isinstance(shape[0], tuple) else shape)

    def max(self) -> Any:
        return _namespace().max(self)

    def __getitem__(self, index: Any) -> Any:
        from pijit.graph.forms.mindspore_indexing import picked

        return picked(self, index)

    __add__, __radd__ = _operator("add"), _reflected("add")
    __sub__, __rsub__ = _operator("subtract"), _reflected("subtract")
    __mul__, __rmul__ = _operator("multiply"), _reflected("multiply")
    __truediv__, __rtruediv__ = _operator("divide"), _reflected("divide")
    __floordiv__, __mod__ = _operator("floor_divide"), _operator("remainder")
    __pow__, __and__, __or__, __xor__ = (_operator(n) for n in ("power", "bitwise_and", "bitwise_or", "bitwise_xor"))
    __lt__, __le__, __gt__, __ge__ = (_operator(n) for n in ("less", "less_equal", "greater", "greater_equal"))
    __eq__, __ne__ = _operator("equal"), _operator("not_equal")

    def __neg__(self) -> Any:
        return _namespace().negative(self)

    def __invert__(self) -> Any:
        return _namespace().invert(self)
