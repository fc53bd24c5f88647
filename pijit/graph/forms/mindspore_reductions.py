"""Functions of MindSpore's namespace that reduce axes, sort along them, or multiply matrices."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from pijit.graph.forms import _types
from pijit.graph.forms.mindspore_array import call, constant
from pijit.graph.forms.mindspore_elementwise import equal, isnan, less, less_equal, multiply, not_equal, where
from pijit.graph.forms.mindspore_folding import asarray, folded, in_numpy, named, paired
from pijit.graph.forms.mindspore_shapes import broadcast_to, diagonal, each_axis, reshape, transpose


def _axes(x: Any, axis: Any) -> tuple[int, ...]:
    return tuple(range(x.ndim)) if axis is None else tuple(each % x.ndim for each in each_axis(axis))


@folded
def sum(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
    usual = np.dtype("int64") if x.dtype.kind in "bi" else x.dtype
    dtype = usual if dtype is None else np.dtype(dtype)
    x, axes = x.astype(dtype), _axes(x, axis)
    return call("ops.sum", x, axes, keepdims).astype(dtype) if axes else x


@folded
def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return call("ops.mean", x, axes, keepdims) if (axes := _axes(x, axis)) else x


@folded
def prod(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
    x, axes = x.astype(x.dtype if dtype is None else dtype), _axes(x, axis)
    dtype = x.dtype
    for each in sorted(axes)[::-1]:
        x = call("ops.prod", x, each, keepdims).astype(dtype)
    return x


def _largest(name: str) -> Callable[..., Any]:
    def function(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        if not (axes := _axes(x, axis)):
            return x
        found = call(f"ops.a{name}", x, axes, keepdims)
        return found if _types.category(x.dtype) < 2 else where(any(isnan(x), axes, keepdims), math.nan, found)

    return named(name, function)


max, min = _largest("max"), _largest("min")


def _place(name: str, of: Callable[..., Any]) -> Callable[..., Any]:
    def function(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
        shape = (1,) * x.ndim if axis is None else (*x.shape[: axis % x.ndim], 1, *x.shape[axis % x.ndim + 1 :])
        x, axis = (reshape(x, (x.size,)), 0) if axis is None else (x, axis)
        if _types.category(x.dtype) == 2:  # the first NaN, if there is one
            least = equal(x, of(x, axis, True))
            x, by = where(isnan(x), constant(np.int32(2)), least.astype(np.int32)), "argmax"
        else:
            by = name
        found = call(f"ops.{by}", x, axis).astype(np.int64)
        return reshape(found, shape) if keepdims else found

    return named(name, function)


argmax, argmin = _place("argmax", max), _place("argmin", min)


def _truth(name: str) -> Callable[..., Any]:
    def function(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        x = x if x.dtype == np.bool_ else not_equal(x, 0)
        return call(f"ops.{name}", x, axes, keepdims) if (axes := _axes(x, axis)) else x

    return named(name, function)


any, all = _truth("any"), _truth("all")


@folded
def isin(x: Any, y: Any, invert: bool = False) -> Any:
    found = any(equal(reshape(x, (*x.shape, 1)), reshape(y, (-1,))), axis=-1)
    return call("ops.logical_not", found) if invert else found


def _running(name: str) -> Callable[..., Any]:
    def function(x: Any, axis: int = 0, dtype: Any = None) -> Any:
        x = x.astype(x.dtype if dtype is None else dtype)
        return call(f"ops.{name}", x, axis % x.ndim).astype(x.dtype)

    return named(name, function)


cumsum, cumprod = _running("cumsum"), _running("cumprod")


@folded
def diff(x: Any, n: int = 1, axis: int = -1) -> Any:
    before = (slice(None),) * (axis % x.ndim)
    for _ in range(n):
        x = x[(*before, slice(1, None))] - x[(*before, slice(None, -1))]
    return x


def argsort(x: Any, axis: int = -1, stable: bool = True) -> Any:
    """Equal elements keep their order: MindSpore's sort is stable."""
    if x.size == 0 or x.constant is not None:
        return constant(np.argsort(in_numpy(x), axis, "stable"))
    axis %= x.ndim
    if _types.category(x.dtype) < 2:
        return call("ops.sort", x, axis)[1].astype(np.int64)
    # NaN comes last, which MindSpore leaves open
    is_nan = isnan(x)
    order = call("ops.sort", where(is_nan, math.inf, x), axis)[1].astype(np.int64)
    late = call("ops.gather_elements", is_nan.astype(np.int32), axis, order)
    return call("ops.gather_elements", order, axis, call("ops.sort", late, axis)[1].astype(np.int64))


@folded
def searchsorted(boundaries: Any, x: Any, side: str = "left") -> Any:
    before = less_equal if side == "right" else less
    return sum(before(boundaries, reshape(x, (*x.shape, 1))).astype(np.int64), axis=-1)


def nonzero(x: Any) -> Any:
    return tuple(map(constant, np.nonzero(x.known())))


def unique(x: Any, return_inverse: bool, return_counts: bool) -> Any:
    own: Any = np.unique
    return tuple(map(constant, own(x.known(), return_inverse=return_inverse, return_counts=return_counts)))


@paired
def matmul(x: Any, y: Any) -> Any:
    return call("ops.matmul", x, y)


@folded
def inner(x: Any, y: Any) -> Any:
    return multiply(x, y) if 0 in (x.ndim, y.ndim) else tensordot(x, y, ((-1,), (-1,)))


@folded
def tensordot(x: Any, y: Any, axes: Any) -> Any:
    own, other = ([axis % each.ndim for axis in given] for each, given in zip((x, y), axes, strict=True))
    rest = [axis for axis in range(x.ndim) if axis not in own]
    more = [axis for axis in range(y.ndim) if axis not in other]
    shape = [x.shape[axis] for axis in rest] + [y.shape[axis] for axis in more]
    inside = math.prod(x.shape[axis] for axis in own)
    x = reshape(transpose(x, rest + own), (-1, inside))
    return reshape(matmul(x, reshape(transpose(y, other + more), (inside, -1))), tuple(shape))


def _lower(x: Any, diagonal: int) -> Any:
    rows, columns = x.shape[-2:]
    return np.tri(rows, columns, diagonal, dtype=np.bool_)


@folded
def tril(x: Any, diagonal: int = 0) -> Any:
    return where(_lower(x, diagonal), x, np.zeros((), x.dtype))


@folded
def triu(x: Any, diagonal: int = 0) -> Any:
    return where(_lower(x, diagonal - 1), np.zeros((), x.dtype), x)


def einsum(equation: str, *arrays: Any) -> Any:
    """Products of two arrays after another, each as one product of matrices."""
    inputs, _, output = equation.partition("->")
    names = inputs.split(",")
    letters = [each for each in map(chr, range(65, 91)) if each not in equation]
    spans = [each.ndim - len(name.replace("...", "")) for name, each in zip(names, arrays, strict=True)]
    dots = "".join(letters[: np.max(spans)])
    names = [name.replace("...", dots[len(dots) - span :]) for name, span in zip(names, spans, strict=True)]
    if "->" not in equation:
        flat = "".join(names)
        output = dots + "".join(sorted(each for each in set(flat) - set(dots) if flat.count(each) == 1))
    output = output.replace("...", dots)
    x, name = _simple(asarray(arrays[0]), names[0])
    for at in range(1, len(arrays)):
        y, other = _simple(asarray(arrays[at]), names[at])
        kept = set(output).union(*names[at + 1 :])
        x, name = _product(x, name, y, other, kept)
    gone = tuple(at for at, each in enumerate(name) if each not in output)
    x = sum(x, axis=gone) if gone else x
    name = "".join(each for each in name if each in output)
    return transpose(x, [name.index(each) for each in output]) if output else x


def _simple(x: Any, name: str) -> tuple[Any, str]:
    """The diagonal along indices that stand twice."""
    for each in dict.fromkeys(name):
        while name.count(each) > 1:
            first = name.index(each)
            second = name.index(each, first + 1)
            x = diagonal(x, 0, first, second)
            name = name[:first] + name[first + 1 : second] + name[second + 1 :] + each
    return x, name


def _product(x: Any, own: str, y: Any, other: str, kept: Any) -> tuple[Any, str]:
    """The product summed over what both have and nobody needs any more."""
    shared = [each for each in own if each in other]
    batch, inside = ([each for each in shared if (each in kept) is wanted] for wanted in (True, False))
    rest, more = ([each for each in a if each not in b] for a, b in ((own, other), (other, own)))
    sizes = dict(zip(own, x.shape, strict=True))
    for name, size in zip(other, y.shape, strict=True):
        sizes[name] = size if sizes.get(name, 1) == 1 else sizes[name]
    x = _ordered(x, own, batch, rest, inside, sizes)
    y = _ordered(y, other, batch, inside, more, sizes)
    names = batch + rest + more
    return reshape(matmul(x, y), tuple(sizes[each] for each in names)), "".join(names)


def _ordered(x: Any, name: str, *groups: Any) -> Any:
    """x with the axes of three groups, the latter two as one axis each."""
    batch, rows, columns, sizes = groups
    order = [*batch, *rows, *columns]
    x = transpose(x, [name.index(each) for each in order]) if order else x
    x = broadcast_to(x, [sizes[each] for each in order])
    return reshape(x, (*(sizes[e] for e in batch), *(math.prod(sizes[e] for e in group) for group in (rows, columns))))


def _transform(name: str, several: bool) -> Callable[..., Any]:
    def function(x: Any, shape: Any, axis: Any, norm: str | None) -> Any:
        return call(f"ops.{name}", asarray(x), shape, axis if several else axis % x.ndim, norm or "backward")

    return function


fft = SimpleNamespace(
    **{name: _transform(name, False) for name in ("fft", "ifft", "rfft", "irfft")},
    **{name: _transform(name, True) for name in ("fftn", "ifftn")},
)
