"""Forms in ONNX of rows on complex arrays, and of Fourier transforms.

ONNX Runtime has no complex arrays: one is two real arrays here. A row that is linear in its array, or that only moves
elements, is done to both. A complex input or output of the model is a real array with real and imaginary part on a new
last axis, as `torch.view_as_real` gives it.
"""

from collections.abc import Callable
from typing import Any

from pijit._formats.onnx import arrays, creation, elementwise, indexing, layers, numbers, reductions
from pijit._formats.onnx.builder import Builder
from pijit._formats.onnx.types import Tensor, words
from pijit.graph.forms import form_of

_PARTS = {"complex64": "float32", "complex128": "float64"}
# Rows that are done to the real and to the imaginary part alone.
LINEAR = words(
    """add subtract reverse_subtract negative positive sum mean reshape view reshape_as flatten ravel unflatten
    permute_dims swapaxes t matrix_transpose moveaxis expand_dims squeeze broadcast_to expand_as tile concat stack
    hstack vstack unstack split chunk roll flip diagonal getitem select slice narrow take gather index copy
    contiguous detach
    alias embedding masked_fill where resolve_conj tril triu"""
)
_ROOMS = (elementwise, reductions, arrays, indexing, creation, layers)


def part_type(dtype: str) -> str:
    """The dtype of the real part."""
    return _PARTS.get(dtype, dtype)


def is_complex(x: Any) -> bool:
    """A complex array."""
    return isinstance(x, Tensor) and x.parts is not None


def has_complex(argument: Any) -> bool:
    """One of the arrays in an argument is complex."""
    if isinstance(argument, tuple | list):
        return any(map(has_complex, argument))
    return is_complex(argument)


def joined(o: Builder, real: Any, imaginary: Any) -> Any:
    """A complex array of two real ones."""
    real, imaginary = o.operands(real, imaginary)
    dtype = "complex128" if real.dtype == "float64" else "complex64"
    made = Tensor(o, "", dtype, real.shape)
    made.parts = (real, imaginary)
    return made


def apart(o: Builder, x: Any) -> tuple[Any, Any]:
    """Real and imaginary part."""
    if is_complex(x):
        return x.parts  # type: ignore[no-any-return]
    return x, o.const(0, x.dtype if isinstance(x, Tensor) else "float32")


def taken_apart(o: Builder, pair: Any) -> Any:
    """A complex array of a real one that has both parts on its last axis."""
    last = pair.rank - 1
    return joined(o, *(o.Gather(pair, o.const(at, "int64"), axis=last) for at in range(2)))


def packed(o: Builder, x: Any) -> Any:
    """Real and imaginary part on a new last axis."""
    real, imaginary = x.parts
    if imaginary.rank < real.rank:
        imaginary = o.Expand(imaginary, o.shape(real), shape=real.shape)
    return o.Concat(*(o.unsqueeze(part, real.rank) for part in (real, imaginary)), axis=real.rank)


def linear_form(name: str) -> Callable[..., Any] | None:
    """The form of a row that is done to both parts, or None."""
    lower = next((found for room in _ROOMS if (found := form_of(room, name)) is not None), None)
    if name not in LINEAR or lower is None:
        return None

    def form(o: Builder, **arguments: Any) -> Any:
        both = []
        for at in range(2):
            given = {key: _part(o, each, at, key) for key, each in arguments.items()}
            both.append(lower(o, **given))
        if isinstance(both[0], tuple | list):
            return [None if a is None else joined(o, a, b) for a, b in zip(*both, strict=True)]
        return joined(o, *both)

    return form


def _part(o: Builder, argument: Any, at: int, key: str) -> Any:
    if key in {"index", "indices", "condition", "mask", "axis", "shape", "alpha"}:
        return argument
    if isinstance(argument, tuple | list):
        return tuple(_part(o, each, at, key) for each in argument)
    if isinstance(argument, complex):
        return argument.imag if at else argument.real
    if is_complex(argument):
        return argument.parts[at]
    if isinstance(argument, Tensor) and not argument.number:
        return apart(o, argument)[at]
    if isinstance(argument, int | float) and key in {"x", "y", "value"}:
        return 0.0 if at else argument
    return argument


def real(o: Builder, x: Any) -> Any:
    return apart(o, x)[0]


def size(o: Builder, x: Any, axis: Any) -> Any:
    return o.size(apart(o, x)[0], axis)


def imag(o: Builder, x: Any) -> Any:
    return apart(o, x)[1]


def conj(o: Builder, x: Any) -> Any:
    return joined(o, x.parts[0], o.Neg(x.parts[1])) if is_complex(x) else x


def complex_(o: Builder, x: Any, y: Any) -> Any:
    return joined(o, x, y)


def view_as_real(o: Builder, x: Any) -> Any:
    return packed(o, x)


def view_as_complex(o: Builder, x: Any) -> Any:
    return taken_apart(o, x)


def multiply(o: Builder, x: Any, y: Any) -> Any:
    if not (is_complex(x) and is_complex(y)):
        whole, factor = (x, y) if is_complex(x) else (y, x)
        return joined(o, *(part * factor for part in whole.parts))
    (a, b), (c, d) = x.parts, y.parts
    return joined(o, a * c - b * d, a * d + b * c)


def divide(o: Builder, x: Any, y: Any, rounding: Any = None) -> Any:
    if not is_complex(y):
        return joined(o, *(part / y for part in x.parts))
    (a, b), (c, d) = apart(o, x), y.parts
    size = c * c + d * d
    return joined(o, (a * c + b * d) / size, (b * c - a * d) / size)


def abs_(o: Builder, x: Any) -> Any:
    a, b = x.parts
    return o.Sqrt(a * a + b * b)


def square(o: Builder, x: Any) -> Any:
    return multiply(o, x, x)


def astype(o: Builder, x: Any, dtype: Any = None, device: Any = None, copy: bool = False) -> Any:
    if dtype is None:
        return x
    wanted = str(dtype)
    if wanted in _PARTS:
        return joined(o, *(o.cast(part, _PARTS[wanted]) for part in apart(o, x)))
    return o.cast(x.parts[0], wanted)


# ---- Fourier transforms


def _factor(o: Builder, norm: str | None, inverse: bool, length: Any) -> Any:
    """What the result of ONNX's DFT is multiplied with; 1 over the length is in its inverse already."""
    norm = norm or "backward"
    if norm == "backward":
        return 1
    if norm == "forward":
        power = 1.0 if inverse else -1.0
    else:
        power = 0.5 if inverse else -0.5
    return length**power if isinstance(length, int) else o.Pow(o.cast(length, "float32"), power)


def _resized(o: Builder, x: Any, axis: int, length: Any) -> Any:
    """Cut, or longer by zeros."""
    size = o.size(x, axis)
    if not isinstance(size, int) or not isinstance(length, int):
        if size is length:
            return x
        o.unknown("a Fourier transform of another length than the axis needs sizes that are known", size, length)
    if length < size:
        return o.slice(x, axis, 0, length)
    if length == size:
        return x
    padding = (*(0,) * (2 * (x.rank - axis - 1)), 0, length - size)
    return arrays.pad(o, x, padding)


def _transformed(o: Builder, x: Any, n: Any, axis: int, norm: str | None, inverse: bool, half: bool = False) -> Any:
    parts = apart(o, x) if is_complex(x) else (x if x.dtype == "float64" else o.cast(x, "float32"),)
    axis = o.axis(parts[0], axis)
    length = o.size(parts[0], axis) if n is None else o.plain(n)
    parts = tuple(_resized(o, part, axis, length) for part in parts)
    rank = parts[0].rank
    pair = [o.unsqueeze(part, rank) for part in parts]
    given = o.Concat(*pair, axis=rank) if len(pair) > 1 else pair[0]
    known = None
    if isinstance(length, int):
        known = length // 2 + 1 if half else length
    shape = (*(known if at == axis else dim for at, dim in enumerate(parts[0].shape)), 2)
    made = o.DFT(
        given,
        None,
        o.const(axis, "int64"),
        inverse=int(inverse) or None,
        onesided=int(half) or None,
        shape=shape,
    )
    return taken_apart(o, elementwise.scaled(o, made, _factor(o, norm, inverse, length)))


def fft(o: Builder, x: Any, n: Any = None, axis: int = -1, norm: str | None = None) -> Any:
    return _transformed(o, x, n, axis, norm, False)


def ifft(o: Builder, x: Any, n: Any = None, axis: int = -1, norm: str | None = None) -> Any:
    return _transformed(o, x, n, axis, norm, True)


def rfft(o: Builder, x: Any, n: Any = None, axis: int = -1, norm: str | None = None) -> Any:
    return _transformed(o, x, n, axis, norm, False, True)


def irfft(o: Builder, x: Any, n: Any = None, axis: int = -1, norm: str | None = None) -> Any:
    a, b = apart(o, x)
    axis = o.axis(a, axis)
    half = o.size(a, axis)
    length = numbers.scalar_multiply(o, numbers.scalar_subtract(o, half, 1), 2) if n is None else o.plain(n)
    if not isinstance(length, int):
        o.unknown("the length of the result has to be known", half)
    a, b = (_resized(o, part, axis, length // 2 + 1) for part in (a, b))
    # The second half is the first one backwards, conjugated.
    count = length - length // 2 - 1
    tails = [arrays.flip(o, o.slice(part, axis, 1, 1 + count), (axis,)) for part in (a, b)]
    whole = joined(o, o.Concat(a, tails[0], axis=axis), o.Concat(b, o.Neg(tails[1]), axis=axis))
    return real(o, _transformed(o, whole, None, axis, norm, True))


def _over_axes(o: Builder, x: Any, shape: Any, axes: Any, norm: str | None, inverse: bool) -> Any:
    rank = x.parts[0].rank if is_complex(x) else x.rank
    if axes is None:
        axes = tuple(range(rank - (rank if shape is None else len(shape)), rank))
    for at, axis in enumerate(axes):
        x = _transformed(o, x, None if shape is None or shape[at] == -1 else shape[at], axis, norm, inverse)
    return x


def complex_fftn(o: Builder, x: Any, axes: Any, normalization: int, forward: bool) -> Any:
    norms = ("backward", "ortho", "forward") if forward else ("forward", "ortho", "backward")
    return _over_axes(o, x, None, axes, norms[normalization], not forward)


def vecdot(o: Builder, x: Any, y: Any, axis: int = -1) -> Any:
    product = multiply(o, conj(o, x), y)
    rank = max(each.rank for each in product.parts)
    return joined(o, *(o.reduce("ReduceSum", part, axis % rank, False) for part in product.parts))


def fftn(o: Builder, x: Any, shape: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    return _over_axes(o, x, shape, axes, norm, False)


def ifftn(o: Builder, x: Any, shape: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    return _over_axes(o, x, shape, axes, norm, True)
