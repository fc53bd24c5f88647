"""Forms in ONNX of reductions, of sums of products, and of what else is linear algebra."""

import math
import string
from typing import Any

from pijit._formats.onnx import elementwise
from pijit._formats.onnx.builder import Builder
from pijit._formats.onnx.types import NARROW, category, is_floating


def _typed(o: Builder, x: Any, dtype: Any) -> Any:
    """In the dtype that is asked for; else integers in int64, as torch sums them."""
    if dtype is not None:
        return o.cast(x, str(dtype))
    return x if is_floating(x.dtype) else o.cast(x, "int64")


def count(o: Builder, x: Any, axis: Any) -> Any:
    """The number of elements along axes: an int, or a number of the graph."""
    total: Any = 1
    for each in o.axes(x, axis):
        size = o.size(x, each)
        both = isinstance(total, int) and isinstance(size, int)
        total = total * size if both else o.Mul(o.cast(total, "int64"), o.cast(size, "int64"))
    if not isinstance(total, int):
        total.number = True
    return total


def sum_(o: Builder, x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
    return o.reduce("ReduceSum", _typed(o, x, dtype), axis or None if axis != 0 else 0, keepdims)


def mean(o: Builder, x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
    x = o.cast(x, str(dtype)) if dtype is not None else x
    return o.reduce("ReduceMean", x, axis or None if axis != 0 else 0, keepdims)


def prod(o: Builder, x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
    return o.reduce("ReduceProd", _typed(o, x, dtype), axis, keepdims)


def var_mean(o: Builder, x: Any, axis: Any = None, correction: Any = 1, keepdims: bool = False) -> Any:
    correction = 1 if correction is None else float(correction)
    axes = o.axes(x, axis)
    middle = o.reduce("ReduceMean", x, axes, True)
    away = x - middle
    total = o.reduce("ReduceSum", away * away, axes, keepdims)
    number = count(o, x, axes)
    if isinstance(number, int):
        left = max(number - correction, 0)
        variance = total * (1 / left) if left else total / 0.0
    else:
        variance = total / o.Max(o.cast(number, x.dtype) - correction, 0)
    return variance, middle if keepdims else o.squeeze(middle, *axes)


def var(o: Builder, x: Any, axis: Any = None, correction: Any = 1, keepdims: bool = False) -> Any:
    return var_mean(o, x, axis, correction, keepdims)[0]


def std(o: Builder, x: Any, axis: Any = None, correction: Any = 1, keepdims: bool = False) -> Any:
    return o.Sqrt(var(o, x, axis, correction, keepdims))


def _extreme(o: Builder, kind: str, x: Any, axis: Any, keepdims: bool) -> Any:
    own, axis = x.dtype, None if axis == () else axis
    if own == "bool" or own in NARROW:
        x = o.cast(x, "int64" if own == "uint32" else "int32")
    made = o.reduce(f"Reduce{kind}", x, axis, keepdims)
    if is_floating(own):  # the comparisons of runtimes pass NaN over
        made = o.where(o.cast(o.reduce("ReduceMax", is_nan(o, x), axis, keepdims), "bool"), math.nan, made)
    return o.cast(made, own)


def is_nan(o: Builder, x: Any) -> Any:
    """1 where x is NaN, else 0."""
    return o.cast(o.IsNaN(x), "int32")


def max_(o: Builder, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return _extreme(o, "Max", x, axis, keepdims)


def min_(o: Builder, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return _extreme(o, "Min", x, axis, keepdims)


def _place(o: Builder, kind: str, x: Any, axis: Any, keepdims: bool) -> Any:
    if x.rank == 0:
        return o.const(0, "int64")
    if axis is None:
        place = _place(o, kind, o.reshape(x, (-1,)), 0, False)
        return o.reshape(place, (1,) * x.rank) if keepdims else place

    def first(of: str, array: Any) -> Any:
        return o.add(f"Arg{of}", array, axis=o.axis(x, axis), keepdims=int(keepdims))

    if is_floating(x.dtype):  # the first NaN is the largest and the smallest
        any_nan = o.cast(o.reduce("ReduceMax", is_nan(o, x), axis, keepdims), "bool")
        return o.Where(any_nan, first("Max", is_nan(o, x)), first(kind, x))
    if x.dtype not in {"int64", "uint32", "uint64"}:
        return first(kind, o.cast(x, "int32"))
    # Runtimes look for the place in integers of 64 bits as in floats, which have fewer digits.
    x = o.cast(x, "int64")
    return first("Max", o.cast(o.Equal(x, o.reduce(f"Reduce{kind}", x, axis, True)), "int32"))


def argmax(o: Builder, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return _place(o, "Max", x, axis, keepdims)


def argmin(o: Builder, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return _place(o, "Min", x, axis, keepdims)


def max_with_indices(o: Builder, x: Any, axis: Any, keepdims: bool = False) -> Any:
    return _extreme(o, "Max", x, axis, keepdims), _place(o, "Max", x, axis, keepdims)


def min_with_indices(o: Builder, x: Any, axis: Any, keepdims: bool = False) -> Any:
    return _extreme(o, "Min", x, axis, keepdims), _place(o, "Min", x, axis, keepdims)


def _counted(o: Builder, x: Any, axis: Any, keepdims: bool, dtype: str) -> Any:
    """Whether one of the elements holds, also where there is none."""
    if axis != ():
        x = o.reduce("ReduceSum", o.cast(x, "int32"), axis, keepdims)
    return o.cast(o.cast(x, "bool"), "uint8" if dtype == "uint8" else "bool")


def any_(o: Builder, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return _counted(o, o.cast(x, "bool"), axis, keepdims, x.dtype)


def all_(o: Builder, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    made = _counted(o, o.Not(o.cast(x, "bool")), axis, keepdims, "bool")
    return o.cast(o.Not(made), "uint8" if x.dtype == "uint8" else "bool")


def count_nonzero(o: Builder, x: Any, axis: Any = None) -> Any:
    return sum_(o, o.cast(x, "bool"), axis)


def cumulative_sum(o: Builder, x: Any, axis: int, dtype: Any = None) -> Any:
    x = _typed(o, x, dtype)
    return o.CumSum(x, o.const(o.axis(x, axis), "int64")) if x.rank else x


def cumulative_prod(o: Builder, x: Any, axis: int, dtype: Any = None) -> Any:
    x = _typed(o, x, dtype)
    if not x.rank:
        return x
    axis = o.axis(x, axis)
    size = o.size(x, axis)
    # Place j takes the product of row j of a matrix that has x up to j, and 1 behind it.
    ones = o.ConstantOfShape(o.ints((size, size)), dtype="float32")
    upto = o.cast(o.Trilu(o.Add(ones, 1), upper=0), "bool")
    upto = o.reshape(upto, (size, size, *(1,) * (x.rank - axis - 1)))
    return o.reduce("ReduceProd", o.where(upto, o.unsqueeze(x, axis), 1), axis + 1, False)


def diff(o: Builder, x: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    axis = o.axis(x, axis)
    parts = [each for each in (prepend, x, append) if each is not None]
    x = o.Concat(*parts, axis=axis) if len(parts) > 1 else x
    for _ in range(n):
        late, early = o.slice(x, axis, 1, 2**63 - 1), o.slice(x, axis, 0, -1)
        x = o.Xor(late, early) if x.dtype == "bool" else o.Sub(late, early)
    return x


def logsumexp(o: Builder, x: Any, axis: Any, keepdims: bool = False) -> Any:
    x = elementwise.floating(o, x)
    return o.reduce("ReduceLogSumExp", x, axis, keepdims)


def vector_norm(o: Builder, x: Any, ord: Any = 2, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
    if dtype is not None:
        x = o.cast(x, str(dtype))
    ord = 2 if ord is None else ord
    if axis == ():
        axis = None
    if ord == 2:
        return o.reduce("ReduceL2", x, axis, keepdims)
    size = o.Abs(x)
    if ord == 1:
        return o.reduce("ReduceSum", size, axis, keepdims)
    if abs(ord) == math.inf:
        return _extreme(o, "Max" if ord > 0 else "Min", size, axis, keepdims)
    if ord == 0:
        return o.reduce("ReduceSum", o.cast(o.cast(x, "bool"), x.dtype), axis, keepdims)
    return o.Pow(o.reduce("ReduceSum", o.Pow(size, ord), axis, keepdims), 1 / ord)


# ---- Linear algebra


def matmul(o: Builder, x: Any, y: Any) -> Any:
    return o.matmul(x, y)


def det(o: Builder, x: Any) -> Any:
    return o.Det(x, shape=None if x.shape is None else x.shape[:-2])


def dot(o: Builder, x: Any, y: Any) -> Any:
    if x.rank > 1 and y.rank > 1:  # every row of x with every row of y
        if y.rank > 2:
            o.fail("inner() of arrays with more than two axes has no form in ONNX; use einsum")
        return o.MatMul(x, o.transpose(y, (1, 0)))
    return o.reduce("ReduceSum", x * y, -1 if x.rank or y.rank else None, False)


def addmm(o: Builder, x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    plain = isinstance(beta, int | float) and isinstance(alpha, int | float)
    if plain and a.rank == b.rank == 2 and category(a.dtype) == 2 and x.rank <= 2:
        factors = {name: float(value) for name, value in (("alpha", alpha), ("beta", beta)) if value != 1}
        return o.Gemm(a, b, None if beta == 0 else x, **factors)
    product = elementwise.scaled(o, o.matmul(a, b), alpha)
    return product if beta == 0 else elementwise.scaled(o, x, beta) + product


baddbmm = addmm


def linear(o: Builder, x: Any, weight: Any, bias: Any = None) -> Any:
    if x.rank == 2 and weight.rank == 2:
        return o.Gemm(x, weight, bias, transB=1)
    product = o.matmul(x, o.transpose(weight, tuple(reversed(range(weight.rank)))))
    return product if bias is None else o.Add(product, bias)


def einsum(o: Builder, equation: str, arrays: Any, path: Any = None) -> Any:
    equation = equation.replace(" ", "")
    terms, arrow, result = equation.partition("->")
    lengths: dict[str, Any] = {}
    wide: tuple[Any, ...] = ()
    for term, array in zip(terms.split(","), arrays, strict=True):
        before, dots, after = term.partition("...")
        shape = array.shape or (None,) * array.rank
        lengths |= dict(zip(before, shape, strict=False))
        lengths |= dict(zip(reversed(after), reversed(shape), strict=False)) if dots else {}
        if dots and array.rank - len(before) - len(after) > len(wide):
            wide = shape[len(before) : array.rank - len(after)]
    if not arrow:
        letters = sorted({each for each in terms if each.isalpha()})
        result = "".join(each for each in letters if terms.count(each) == 1)
        result = f"...{result}" if "..." in terms else result
    before, dots, after = result.partition("...")
    shape = (*(lengths[each] for each in before), *wide[: len(wide) if dots else 0], *(lengths[e] for e in after))
    return o.Einsum(*o.operands(*arrays), equation=f"{terms}->{result}", shape=shape)


def tensordot(o: Builder, x: Any, y: Any, axes1: Any, axes2: Any) -> Any:
    letters = iter(string.ascii_lowercase)
    names1 = [next(letters) for _ in range(x.rank)]
    names2 = [next(letters) for _ in range(y.rank)]
    summed = {o.axis(y, b): o.axis(x, a) for a, b in zip(axes1, axes2, strict=True)}
    kept2 = [name for axis, name in enumerate(names2) if axis not in summed]
    for b, a in summed.items():
        names2[b] = names1[a]
    kept1 = [name for axis, name in enumerate(names1) if axis not in summed.values()]
    return einsum(o, f"{''.join(names1)},{''.join(names2)}->{''.join(kept1 + kept2)}", (x, y))


def _triangle(o: Builder, x: Any, diagonal: Any, upper: int) -> Any:
    own = x.dtype
    if own not in {"float32", "float64", "int64", "bool"}:
        x = o.cast(x, "float32" if is_floating(own) else "int64")
    return o.cast(o.Trilu(x, o.cast(diagonal, "int64"), upper=upper), own)


def tril(o: Builder, x: Any, diagonal: Any = 0) -> Any:
    return _triangle(o, x, diagonal, 0)


def triu(o: Builder, x: Any, diagonal: Any = 0) -> Any:
    return _triangle(o, x, diagonal, 1)


def trace(o: Builder, x: Any) -> Any:
    rows, columns = (o.unsqueeze(indices(o, o.size(x, axis)), 1 - axis) for axis in (0, 1))
    return sum_(o, o.where(o.Equal(rows, columns), x, 0))


def indices(o: Builder, size: Any, start: Any = 0) -> Any:
    """start, start + 1, ... so many."""
    stop = size + start if isinstance(size, int) and isinstance(start, int) else o.Add(o.cast(size, "int64"), start)
    known = size if isinstance(size, int) else size.symbol
    return o.Range(*(o.cast(each, "int64") for each in (start, stop, 1)), shape=(known,))


def cross(o: Builder, x: Any, y: Any, axis: int = -1) -> Any:
    x, y = o.operands(x, y)
    axis = o.axis(x, axis) - x.rank

    def turned(array: Any, order: tuple[int, ...]) -> Any:
        return o.Gather(array, o.const(order, "int64"), axis=axis + array.rank)

    first, second = (1, 2, 0), (2, 0, 1)
    return turned(x, first) * turned(y, second) - turned(x, second) * turned(y, first)


def cosine_similarity(o: Builder, x: Any, y: Any, axis: int = 1, epsilon: float = 1e-08) -> Any:
    x, y = o.operands(x, y, floating=True)
    rank = max(x.rank, y.rank)
    axis = axis % rank - rank
    lengths = [o.Max(o.reduce("ReduceL2", each, axis, True), epsilon) for each in (x, y)]
    return o.reduce("ReduceSum", x / lengths[0] * (y / lengths[1]), axis, False)
