"""Values of an ONNX graph that is being built, and the dtype that torch gives to operands of several dtypes.

ONNX promotes nothing: both operands of its Add have one dtype. `promoted` says which one torch takes, and the builder
casts to it.
A number of Python is weak in torch: it changes the dtype of a tensor only if it is of a higher category.
"""

import functools
from typing import Any

import numpy as np
from onnx import TensorProto

Dim = int | str | None
Shape = tuple[Dim, ...]

# Names of dtypes as torch prints them, with what ONNX calls them.
ONNX_TYPES: dict[str, int] = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "bool": TensorProto.BOOL,
    "uint8": TensorProto.UINT8,
    "uint16": TensorProto.UINT16,
    "uint32": TensorProto.UINT32,
    "uint64": TensorProto.UINT64,
    "int8": TensorProto.INT8,
    "int16": TensorProto.INT16,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "complex64": TensorProto.COMPLEX64,
    "complex128": TensorProto.COMPLEX128,
    "float8_e4m3fn": TensorProto.FLOAT8E4M3FN,
    "float8_e5m2": TensorProto.FLOAT8E5M2,
}
# The dtype that a number of each kind has in the graph. The numbers of Python are doubles.
NUMBERS = {"int": "int64", "float": "float64", "bool": "bool"}
# Arithmetic on these is done in a wider dtype, since runtimes have no kernels for them.
NARROW = frozenset({"int8", "int16", "uint8", "uint16", "uint32", "uint64"})

_CATEGORIES = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
_FLOATS = ("float16", "float32", "float64")


@functools.cache
def category(dtype: str) -> int:
    """0: bool, 1: integers, 2: floating point, 3: complex."""
    return 2 if dtype.startswith(("bfloat", "float")) else _CATEGORIES[dtype[0]]


def is_floating(dtype: str) -> bool:
    """Real or complex, but no integer."""
    return category(dtype) >= 2


@functools.cache
def _bits(dtype: str) -> int:
    digits = dtype.removeprefix("bfloat").lstrip("abcdefghijklmnopqrstuvwxyz")
    return int(digits.partition("_")[0] or 8)


@functools.cache
def promoted_pair(a: str, b: str) -> str:
    """The dtype of an operation on two tensors of equal weight."""
    if a == b:
        return a
    if category(a) != category(b):
        low, high = sorted((a, b), key=category)
        if category(high) == 3 and low == "float64":
            return "complex128"
        return high
    if category(a) == 2 and "bfloat16" in {a, b}:
        return "float32" if "float16" in {a, b} else (a if b == "bfloat16" else b)
    wide = max(a, b, key=_bits)
    if category(a) == 1 and {a[0], b[0]} == {"u", "i"}:
        signed, unsigned = (a, b) if a[0] == "i" else (b, a)
        return signed if _bits(signed) > _bits(unsigned) else f"int{min(2 * _bits(unsigned), 64)}"
    return wide


def _combined(higher: str | None, lower: str | None) -> str | None:
    if higher is None or lower is None:
        return higher or lower
    return higher if category(higher) >= category(lower) else promoted_pair(higher, lower)


class Tensor:
    """A value of the graph that is being built.

    Attributes:
        builder: of the graph.
        name: in the graph; "" for a constant that no node has taken yet.
        dtype: as torch names it.
        shape: each size a number, an expression of symbols, or None; the whole None: not even the rank is known.
        number: it stands for a number of Python, and is weak where dtypes are promoted.
        const: its elements, if they are known.
        items: of a vector of sizes: the sizes, each a number or a `Tensor`.
        symbol: of a number: the expression of symbols that it is.
        parts: of a complex array: real and imaginary part.
    """

    __slots__ = ("builder", "const", "dtype", "items", "name", "number", "parts", "shape", "symbol")

    def __init__(self, builder: Any, name: str, dtype: str, shape: Shape | None, number: bool = False) -> None:
        self.builder, self.name, self.dtype, self.shape, self.number = builder, name, dtype, shape, number
        self.const: np.ndarray[Any, Any] | None = None
        self.items: tuple[Any, ...] | None = None
        self.symbol: str | None = None
        self.parts: tuple[Tensor, Tensor] | None = None

    @property
    def rank(self) -> int:
        """Number of axes."""
        if self.shape is None:
            self.builder.fail(f"the number of axes of {self.name!r} is not known")
        return len(self.shape)  # type: ignore[arg-type]

    def __add__(self, other: Any) -> "Tensor":
        return self.builder.arithmetic("Add", self, other)  # type: ignore[no-any-return]

    def __radd__(self, other: Any) -> "Tensor":
        return self.builder.arithmetic("Add", other, self)  # type: ignore[no-any-return]

    def __sub__(self, other: Any) -> "Tensor":
        return self.builder.arithmetic("Sub", self, other)  # type: ignore[no-any-return]

    def __rsub__(self, other: Any) -> "Tensor":
        return self.builder.arithmetic("Sub", other, self)  # type: ignore[no-any-return]

    def __mul__(self, other: Any) -> "Tensor":
        return self.builder.arithmetic("Mul", self, other)  # type: ignore[no-any-return]

    def __rmul__(self, other: Any) -> "Tensor":
        return self.builder.arithmetic("Mul", other, self)  # type: ignore[no-any-return]

    def __truediv__(self, other: Any) -> "Tensor":
        return self.builder.arithmetic("Div", self, other, floating=True)  # type: ignore[no-any-return]

    def __rtruediv__(self, other: Any) -> "Tensor":
        return self.builder.arithmetic("Div", other, self, floating=True)  # type: ignore[no-any-return]

    def __neg__(self) -> "Tensor":
        return self.builder.Neg(self)  # type: ignore[no-any-return]


def promoted(operands: Any) -> str:
    """The dtype in which torch computes with tensors and numbers."""
    tensors: str | None = None
    scalars: str | None = None
    numbers: str | None = None
    for each in operands:
        if isinstance(each, Tensor) and not each.number:
            if each.shape == ():
                scalars = each.dtype if scalars is None else promoted_pair(scalars, each.dtype)
            else:
                tensors = each.dtype if tensors is None else promoted_pair(tensors, each.dtype)
            continue
        if isinstance(each, Tensor):
            dtype = "float32" if each.dtype == "float64" else each.dtype
        else:
            dtype = "bool" if isinstance(each, bool) else "int64" if isinstance(each, int) else "float32"
        numbers = dtype if numbers is None else promoted_pair(numbers, dtype)
    found = _combined(tensors, _combined(scalars, numbers))
    assert found is not None
    return found


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


def numpy_type(dtype: str) -> Any:
    """NumPy's dtype; bfloat16 has none, and none is ever folded."""
    return np.dtype(np.bool_ if dtype == "bool" else dtype)
