"""The face of NumPy over tensors of an ONNX graph: over it the forms of `pijit.graph.forms.arrays` are forms in ONNX.

1. A size is an int, or where it is free an `Array` without axes; the decision whether such a size is some number fails.
2. Operands of several dtypes are cast as torch promotes them.
3. What a form computes with NumPy alone is a constant of the model.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pijit._formats.onnx import activations, creation, elementwise, numbers, reductions
from pijit._formats.onnx.arrays import concat, expand_dims, moveaxis, stack, swapaxes
from pijit._formats.onnx.builder import Builder
from pijit._formats.onnx.indexing import getitem, take_along_axis
from pijit._formats.onnx.types import Tensor
from pijit.graph.forms import _types


def bare(thing: Any) -> Any:
    """Tensors in the place of arrays, in tuples and slices, too; constants in the place of arrays of NumPy."""
    if isinstance(thing, Array):
        return thing.tensor
    if isinstance(thing, tuple | list):
        return tuple(map(bare, thing))
    if isinstance(thing, slice):
        return slice(*map(bare, (thing.start, thing.stop, thing.step)))
    return thing.item() if isinstance(thing, np.generic) else thing


def dressed(thing: Any) -> Any:
    """Arrays in the place of tensors, in tuples, too."""
    if isinstance(thing, Tensor):
        return Array(thing)
    return tuple(map(dressed, thing)) if isinstance(thing, tuple | list) else thing


def _operator(lower: Callable[..., Any]) -> tuple[Any, Any]:
    """The method of an operator of Python, and the one for a number on the left."""

    def method(self: "Array", other: Any) -> Any:
        return Array(lower(self.builder, self.tensor, _operand(self, other)))

    def reflected(self: "Array", other: Any) -> Any:
        return Array(lower(self.builder, _operand(self, other), self.tensor))

    return method, reflected


def _operand(own: "Array", other: Any) -> Any:
    return own.builder.const(other) if isinstance(other, np.ndarray) else bare(other)


class Array:
    """A tensor of the graph with the face of an array of NumPy."""

    __array_ufunc__ = None  # NumPy's arrays leave operators to this class
    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    @property
    def builder(self) -> Builder:
        builder: Builder = self.tensor.builder
        return builder

    @property
    def dtype(self) -> Any:
        return _types.named(self.tensor.dtype)

    @property
    def ndim(self) -> int:
        return self.tensor.rank

    @property
    def shape(self) -> "Sizes":
        return Sizes(self.tensor, 0, self.tensor.rank)

    @property
    def size(self) -> Any:
        return dressed(numbers.numel(self.builder, self.tensor))

    @property
    def T(self) -> "Array":
        return Array(self.builder.transpose(self.tensor, tuple(reversed(range(self.ndim)))))

    def astype(self, dtype: Any) -> "Array":
        return Array(self.builder.cast(self.tensor, np.dtype(dtype).name))

    def reshape(self, *shape: Any) -> Any:
        return Namespace(self.builder).reshape(self, shape[0] if isinstance(shape[0], tuple) else shape)

    def __getitem__(self, index: Any) -> "Array":
        return Array(getitem(self.builder, self.tensor, bare(index)))

    def __bool__(self) -> bool:  # noqa: PLE0304
        self.builder.unknown("it depends on what a tensor holds, or on a size that is free", self.tensor)

    def __index__(self) -> int:  # noqa: PLE0305
        self.builder.unknown("it needs sizes that are known", self.tensor)

    __add__, __radd__ = _operator(elementwise.add)
    __sub__, __rsub__ = _operator(elementwise.subtract)
    __mul__, __rmul__ = _operator(elementwise.multiply)
    __truediv__, __rtruediv__ = _operator(elementwise.divide)
    __floordiv__, __rfloordiv__ = _operator(elementwise.floor_divide)
    __and__, __or__ = _operator(elementwise.bitwise_and)[0], _operator(elementwise.bitwise_or)[0]
    __lt__, __gt__ = _operator(elementwise.less)[0], _operator(elementwise.greater)[0]
    __le__, __ge__ = _operator(elementwise.less_equal)[0], _operator(elementwise.greater_equal)[0]
    __eq__, __ne__ = _operator(elementwise.equal)[0], _operator(elementwise.not_equal)[0]

    def __neg__(self) -> "Array":
        return Array(self.builder.Neg(self.tensor))

    def __invert__(self) -> "Array":
        return Array(self.builder.Not(self.tensor))

    def __pow__(self, power: Any) -> "Array":
        return (
            self * self
            if isinstance(power, int) and power == 2
            else Array(elementwise.pow_(self.builder, self.tensor, bare(power)))
        )


class Sizes:
    """The shape of a tensor; only sizes that are asked for are in the graph."""

    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("start", "stop", "tensor")

    def __init__(self, tensor: Tensor, start: int, stop: int) -> None:
        self.tensor, self.start, self.stop = tensor, start, stop

    def __len__(self) -> int:
        return self.stop - self.start

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return tuple(self[each] for each in range(*at.indices(len(self))))
        return dressed(self.tensor.builder.size(self.tensor, self.start + at % len(self)))

    def __iter__(self) -> Iterator[Any]:
        return (self[at] for at in range(len(self)))

    def known(self) -> tuple[Any, ...]:
        """Each size as an int or an expression of symbols."""
        return tuple((self.tensor.shape or ())[self.start : self.stop])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Sizes):
            if None not in self.known() and None not in other.known():
                return self.known() == other.known()
            return len(self) == len(other)
        return isinstance(other, tuple) and self.known() == other


def _one(lower: Callable[..., Any]) -> Callable[..., Any]:
    """A function of one array and what else its form takes."""

    def function(self: "Namespace", x: Any, *rest: Any, **named: Any) -> Any:
        return dressed(
            lower(self.builder, bare(x), *map(bare, rest), **{name: bare(each) for name, each in named.items()})
        )

    return function


class Namespace:
    """The functions of NumPy that the forms use, for one graph."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder

    abs, exp, log, tanh = _one(elementwise.abs_), _one(elementwise.exp), _one(elementwise.log), _one(elementwise.tanh)
    sqrt, expm1, log1p = _one(elementwise.sqrt), _one(elementwise.expm1), _one(elementwise.log1p)
    add, multiply = _one(elementwise.add), _one(elementwise.multiply)
    maximum, minimum = _one(elementwise.maximum), _one(elementwise.minimum)
    max, mean, matmul = _one(reductions.max_), _one(reductions.mean), _one(reductions.matmul)
    expand_dims, moveaxis, swapaxes = _one(expand_dims), _one(moveaxis), _one(swapaxes)
    concatenate, stack = _one(concat), _one(stack)
    take_along_axis, halves = _one(take_along_axis), _one(activations.halves)

    def sum(self, x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
        return Array(self.builder.reduce("ReduceSum", x.tensor, axis, keepdims)) if axis != () else x

    def squeeze(self, x: Any, axis: Any) -> Any:
        return Array(self.builder.squeeze(x.tensor, *self.builder.axes(x.tensor, axis)))

    def conj(self, x: Any) -> Any:
        return x  # complex arrays have forms of their own

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        return Array(self.builder.where(*map(bare, (condition, x, y))))

    def split(self, x: Any, parts: int, axis: int = 0) -> Any:
        assert parts == 2
        return self.halves(x, axis)

    def arange(self, size: Any) -> Any:
        return Array(reductions.indices(self.builder, bare(size)))

    def asarray(self, x: Any) -> Any:
        return x if isinstance(x, Array) else Array(self.builder.const(x))

    def full(self, shape: Any, value: Any, dtype: Any) -> Any:
        return Array(creation.filled(self.builder, self.builder.ints(bare(tuple(shape))), value, np.dtype(dtype).name))

    def zeros(self, shape: Any, dtype: Any) -> Any:
        return self.full(shape, 0, dtype)

    def ones(self, shape: Any, dtype: Any) -> Any:
        return self.full(shape, 1, dtype)

    def reshape(self, x: Any, shape: Any) -> Any:
        return Array(self.builder.reshape(x.tensor, bare(tuple(shape) if not isinstance(shape, int) else (shape,))))
