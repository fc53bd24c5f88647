"""Functions and methods of NumPy on arrays, as operators of a graph; `rule_of` is the table.

A rule is given the arrays, the arguments by position and by name, and what NumPy gave in the call. It gives a value of
the graph, or `UNKNOWN` where the graph cannot say what NumPy does with these arguments.
"""

import functools
import operator
import sys
from collections.abc import Callable
from typing import Any

from pijit.graph.build.array_ufuncs import (
    IN_PLACE,
    OPERATORS,
    accumulate_rule,
    axes_of,
    fold,
    outer_rule,
    reduce_rule,
    ufunc_named,
    ufunc_rule,
)
from pijit.graph.build.array_values import DTYPES, Arrays, Rule
from pijit.graph.build.opaque_objects import UNKNOWN, Known, holds_opaque, plain
from pijit.graph.model import Slice, Value


def _arguments(names: str, args: list[Any], named: dict[str, Any]) -> dict[str, Any] | None:
    """Arguments by name, without those that are None or not given; None: there are others."""
    known = names.split()
    if len(args) > len(known) or not named.keys() <= set(known):
        return None
    missing = getattr(sys.modules["numpy"], "_NoValue", None)
    given = dict(zip(known, args, strict=False)) | named
    given = {key: each for key, each in given.items() if getattr(each, "made", each) is not missing}
    return {key: each for key, each in given.items() if each is not None or key == "axis"}


def _is_tensor(argument: Any) -> bool:
    return isinstance(argument, Value) and argument.kind == "tensor"


def _takes(names: str) -> Callable[[Callable[..., Any]], Rule]:
    """A rule whose arguments have these names, the first of which is an array: `f(arrays, example, x, **given)`."""

    def decorator(function: Callable[..., Any]) -> Rule:
        @functools.wraps(function)
        def rule(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
            given = _arguments(names, args, named)
            first = names.partition(" ")[0]
            if given is None or not _is_tensor(given.get(first)):
                return UNKNOWN
            x = given.pop(first)
            try:
                return function(arrays, example, x, **given)
            except TypeError as error:
                if "unexpected keyword" in str(error) or "required positional" in str(error):
                    return UNKNOWN
                raise

        return rule

    return decorator


# -- attributes, casts, copies


def _attribute(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
    if len(args) != 2 or not isinstance(args[1], str):
        return UNKNOWN
    x, name = args
    if arrays.is_strong(x) and name in {"ndim", "shape", "dtype"}:
        return Known(example) if name == "dtype" else example
    if not _is_tensor(x):
        return UNKNOWN
    rank = arrays.rank(x)
    builder, row = arrays.builder, arrays.row
    if name == "shape":
        return tuple(arrays.size(x, axis, size) for axis, size in enumerate(example))
    if name == "ndim":
        return rank
    if name == "size":
        made: Any = 1
        for axis, size in enumerate(arrays.native(x).shape):
            each = arrays.size(x, axis, size)
            made = (
                each
                if made == 1 and not isinstance(made, Value)
                else builder.number(row, "scalar_multiply", [made, each], "int")
            )
        return made
    if name in {"dtype", "itemsize", "flags"}:
        return Known(example) if name != "itemsize" else example
    if name in {"T", "mT"}:
        if rank < 2:
            return arrays.op(None, "aten::alias", x)
        axes = tuple(reversed(range(rank))) if name == "T" else (*range(rank - 2), rank - 1, rank - 2)
        return arrays.op(None, "aten::permute", x, axes)
    if name in {"real", "imag"} and arrays.dtype(x).kind == "c":
        return arrays.op(example.dtype, f"aten::{name}", x)
    return UNKNOWN


def _of_dtype(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
    """An attribute of a dtype."""
    return Known(example) if hasattr(example, "dtype") or not isinstance(example, (str, int, bool)) else example


@_takes("x dtype casting copy")
def _astype(arrays: Arrays, example: Any, x: Value, dtype: Any = None, casting: Any = None, copy: Any = True) -> Any:
    if arrays.dtype(x) == example.dtype:
        return arrays.copied(x)
    if arrays.dtype(x).kind == "c" and example.dtype.kind not in "cb":
        return UNKNOWN
    return arrays.cast(x, example.dtype)


@_takes("x order")
def _copy(arrays: Arrays, example: Any, x: Value, order: Any = None) -> Any:
    return arrays.copied(x)


@_takes("x dtype copy order subok ndmin")
def _array(arrays: Arrays, example: Any, x: Value, dtype: Any = None, copy: Any = True) -> Any:
    made = arrays.cast(x, example.dtype)
    return arrays.copied(x) if made is x else made


@_takes("x dtype order")
def _as_array(arrays: Arrays, example: Any, x: Value, dtype: Any = None) -> Any:
    made = arrays.cast(x, example.dtype)
    return arrays.op(None, "aten::alias", x) if made is x else made


def _array_of(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
    """`np.array` of an array, or of a list of numbers of which some are arrays without axes."""
    if args and _is_tensor(args[0]):
        return _array(arrays, args, named, example)
    if not args or not isinstance(args[0], list | tuple) or named.keys() - {"dtype"}:
        return UNKNOWN
    items = [arrays.tensor(each, example.dtype) for each in args[0]]
    if not items or any(each is UNKNOWN or not _is_tensor(each) for each in items):
        return UNKNOWN
    return arrays.op(example.dtype, "aten::stack", tuple(items), 0)


# -- shapes


def _sizes(arguments: list[Any]) -> Any:
    """Sizes that are given one by one, or as a tuple."""
    sizes = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], tuple | list) else arguments
    return UNKNOWN if holds_opaque(sizes) or any(map(_is_tensor, sizes)) else tuple(sizes)


def _reshape(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
    named = {key: each for key, each in named.items() if not (key == "order" and each == "C")}
    sizes = UNKNOWN if named or not args or not _is_tensor(args[0]) else _sizes(args[1:])
    return sizes if sizes is UNKNOWN else arrays.op(None, "aten::reshape", args[0], sizes)


@_takes("x order")
def _ravel(arrays: Arrays, example: Any, x: Value, order: Any = "C") -> Any:
    in_order = order == "C" or (order in {"K", "A"} and arrays.native(x).flags.c_contiguous)
    return arrays.op(None, "aten::reshape", x, (-1,)) if in_order else UNKNOWN


@_takes("x order")
def _flatten(arrays: Arrays, example: Any, x: Value, order: Any = "C") -> Any:
    return arrays.copied(arrays.op(None, "aten::reshape", x, (-1,))) if order == "C" else UNKNOWN


def _transpose(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
    if named or not _is_tensor(args[0]):
        return UNKNOWN
    axes = _sizes([each for each in args[1:] if each is not None])
    rank = arrays.rank(args[0])
    if axes is UNKNOWN or not all(type(each) is int for each in axes):
        return UNKNOWN
    return arrays.op(None, "aten::permute", args[0], axes or tuple(reversed(range(rank))))


@_takes("x axis1 axis2")
def _swapaxes(arrays: Arrays, example: Any, x: Value, axis1: Any, axis2: Any) -> Any:
    return arrays.op(None, "aten::transpose.int", x, axis1, axis2)


@_takes("x axis")
def _squeeze(arrays: Arrays, example: Any, x: Value, axis: Any = None) -> Any:
    axes = axis if axis is None or isinstance(axis, tuple) else (axis,)
    if axes is None:  # those that were 1 in the call
        axes = tuple(at for at, size in enumerate(arrays.native(x).shape) if size == 1)
    return arrays.op(None, "aten::squeeze.dims", x, axes)


@_takes("x axis1 axis2 offset")
def _diagonal(arrays: Arrays, example: Any, x: Value, offset: Any = 0) -> Any:
    return arrays.op(None, "aten::diagonal", x, offset, 0, 1)


@_takes("x repeats axis")
def _repeat(arrays: Arrays, example: Any, x: Value, repeats: Any, axis: Any = None) -> Any:
    if isinstance(repeats, tuple | list) or _is_tensor(repeats):
        return UNKNOWN
    if axis is None:
        x, axis = arrays.op(None, "aten::reshape", x, (-1,)), 0
    return arrays.op(None, "aten::repeat_interleave.self_int", x, repeats, axis)


@_takes("x shape")
def _broadcast_to(arrays: Arrays, example: Any, x: Value, shape: Any) -> Any:
    sizes = _sizes([shape])
    return sizes if sizes is UNKNOWN else arrays.op(None, "aten::broadcast_to", x, sizes)


@_takes("x shift axis")
def _roll(arrays: Arrays, example: Any, x: Value, shift: Any, axis: Any = None) -> Any:
    if not all(type(each) is int for each in (shift, 0 if axis is None else axis)):
        return UNKNOWN
    return arrays.op(None, "aten::roll", x, (shift,), () if axis is None else (axis,))


def _joined(arrays: Arrays, items: Any, axis: Any, example: Any) -> Any:
    if not isinstance(items, tuple | list) or not items:
        return UNKNOWN
    given = [arrays.tensor(each, example.dtype) for each in items]
    if any(not _is_tensor(each) for each in given):
        return UNKNOWN
    if axis is None:
        given, axis = [arrays.op(example.dtype, "aten::reshape", each, (-1,)) for each in given], 0
    return arrays.op(example.dtype, "aten::cat", tuple(given), axis)


def _concatenate(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
    axis = named["axis"] if "axis" in named else args[1] if len(args) > 1 else 0
    known = not named.keys() - {"axis", "casting"} and named.get("casting", "same_kind") == "same_kind"
    return _joined(arrays, args[0], axis, example) if known and len(args) < 3 else UNKNOWN


def _pad_free(row: str) -> Rule:
    """`tril` and `triu`."""

    @_takes("x k")
    def rule(arrays: Arrays, example: Any, x: Value, k: Any = 0) -> Any:
        if type(k) is not int or arrays.rank(x) < 2:
            return UNKNOWN
        return arrays.op(None, f"aten::{row}", x, k)

    return rule


# -- indexing


def _is_basic(item: Any) -> bool:
    number = type(item) is int or (isinstance(item, Value) and item.kind == "int")
    return number or item is None or item is Ellipsis or isinstance(item, Slice)


def _reversed_axes(arrays: Arrays, x: Value, index: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Torch takes no slices backwards: whole axes are turned round before."""
    taken = sum(each is not None and each is not Ellipsis for each in index)
    axis, turned, steps = 0, [], []
    for item in index:
        if item is Ellipsis:
            axis += arrays.rank(x) - taken
        if isinstance(item, Slice) and type(item.step) is int and item.step < 0:
            if item.start is not None or item.stop is not None:
                return UNKNOWN, index
            turned.append(axis)
            item = Slice(None, None, -item.step if item.step != -1 else None)  # noqa: PLW2901
        axis += item is not None and item is not Ellipsis
        steps.append(item)
    held = arrays.examples[x.name]
    if turned:
        x = arrays.op(None, "aten::flip", x, tuple(turned))
        arrays.examples[x.name] = held
    return x, tuple(steps)


def _tensor_items(arrays: Arrays, index: tuple[Any, ...]) -> Any:
    """The index with tensors for arrays; `UNKNOWN` where NumPy puts axes elsewhere than torch."""
    made, several = [], 0
    for item in index:
        if _is_basic(item):
            made.append(item)
            continue
        array = arrays.tensor(item, arrays.dtype(item)) if _is_tensor(item) else item
        if isinstance(item, tuple | list | Known):
            array = arrays.tensor(item, sys.modules["numpy"].asarray(arrays.native(item)).dtype)
        if not _is_tensor(array):
            return UNKNOWN
        kind = arrays.dtype(item).kind if _is_tensor(item) or isinstance(item, Known) else "i"
        if kind not in "bi" or (kind == "i" and arrays.rank(item) == 0 and len(index) > 1):
            return UNKNOWN
        several += 1
        made.append(array if kind == "b" else arrays.cast(array, "int64"))
    numbers = any(type(each) is int or (isinstance(each, Value) and each.kind == "int") for each in made)
    if several and numbers:
        return UNKNOWN
    places = [at for at, each in enumerate(made) if _is_tensor(each)]
    apart = places and places[-1] - places[0] + 1 != len(places)
    return UNKNOWN if several > 1 and apart else tuple(made)


def _index(arrays: Arrays, x: Value, index: Any) -> Any:
    items = index if isinstance(index, tuple) else (index,)
    if any(isinstance(each, bool) for each in items):
        return UNKNOWN, ()
    x, items = _reversed_axes(arrays, x, items)
    return x, (_tensor_items(arrays, items) if x is not UNKNOWN else UNKNOWN)


def _getitem(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
    x, index = args[:2]
    if isinstance(x, tuple | list) and type(index) is int:
        return x[index]
    if len(args) != 2 or not _is_tensor(x) or x.name not in arrays.examples:
        return UNKNOWN
    if _is_tensor(index) and arrays.rank(index) == 0 and arrays.dtype(index).kind == "i":  # data decides where
        one = arrays.op("int64", "aten::reshape", arrays.cast(index, "int64"), (1,))
        taken = arrays.op(None, "tensor::getitem", x, (one,))
        return arrays.op(arrays.dtype(x), "aten::squeeze.dims", taken, (0,))
    x, items = _index(arrays, x, index)
    if items is UNKNOWN:
        return UNKNOWN
    if items == ():
        return arrays.op(None, "aten::alias", x)
    return arrays.op(None, "tensor::getitem", x, items)


def _setitem(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
    into, index, value = args
    into = arrays.writable(into)
    if into is UNKNOWN:
        return UNKNOWN
    items = index if isinstance(index, tuple) else (index,)
    if any(isinstance(each, Slice) and type(each.step) is int and each.step < 0 for each in items):
        return UNKNOWN
    if any(isinstance(each, bool) for each in items):
        return UNKNOWN
    items = _tensor_items(arrays, items)
    value = arrays.tensor(value, arrays.dtype(into))
    if items is UNKNOWN or value is UNKNOWN:
        return UNKNOWN
    result = Value(arrays.builder._fresh("setitem"))
    arrays.builder._emit(
        arrays.row,
        "setitem",
        {"x": into, "index": plain(items), "value": value},
        (result,),
        origin="tensor::setitem",
        writes=("x",),
    )
    return None


@_takes("x value")
def _fill(arrays: Arrays, example: Any, x: Value, value: Any) -> Any:
    made = arrays.tensor(value, arrays.dtype(x))
    return UNKNOWN if made is UNKNOWN or arrays.write(x, made) is UNKNOWN else None


@_takes("x indices axis out mode")
def _take(arrays: Arrays, example: Any, x: Value, indices: Any, axis: Any = None) -> Any:
    if axis is None:
        x, axis = arrays.op(arrays.dtype(x), "aten::reshape", x, (-1,)), 0
    if type(indices) is int or (_is_tensor(indices) and arrays.rank(indices) == 0):
        return UNKNOWN
    index = arrays.tensor(indices, "int64")
    if index is UNKNOWN or axis < 0:
        return UNKNOWN
    return arrays.op(None, "tensor::getitem", x, (*(Slice(),) * axis, index))


# -- reductions


@_takes("x axis dtype out keepdims where")
def _mean(
    arrays: Arrays,
    example: Any,
    x: Value,
    axis: Any = None,
    dtype: Any = None,
    keepdims: Any = False,
    where: Any = True,
) -> Any:
    axes = axes_of(arrays, x, axis)
    if axes is None or where is not True:
        return UNKNOWN
    x = arrays.cast(x, example.dtype)
    return arrays.copied(x) if not axes else arrays.op(None, "aten::mean.dim", x, axes, bool(keepdims))


def _reduction(ufunc: str) -> Rule:
    @_takes("x axis dtype out keepdims initial where")
    def rule(
        arrays: Arrays,
        example: Any,
        x: Value,
        axis: Any = None,
        dtype: Any = None,
        keepdims: Any = False,
        where: Any = True,
    ) -> Any:
        return UNKNOWN if where is not True else fold(arrays, ufunc, x, axis, bool(keepdims), example.dtype)

    return rule


def _spread(square_root: bool) -> Rule:
    """`var` and `std`."""

    @_takes("x axis dtype out ddof keepdims where")
    def rule(
        arrays: Arrays,
        example: Any,
        x: Value,
        axis: Any = None,
        dtype: Any = None,
        ddof: Any = 0,
        keepdims: Any = False,
        where: Any = True,
    ) -> Any:
        axes = axes_of(arrays, x, axis)
        if not axes or where is not True or type(ddof) is not int or arrays.dtype(x).kind == "c":
            return UNKNOWN
        x = arrays.cast(x, example.dtype)
        row = "aten::std.correction" if square_root else "aten::var.correction"
        return arrays.op(None, row, x, axes, ddof, bool(keepdims))

    return rule


def _where_is(row: str) -> Rule:
    @_takes("x axis out keepdims")
    def rule(arrays: Arrays, example: Any, x: Value, axis: Any = None, keepdims: Any = False) -> Any:
        if arrays.dtype(x).kind == "c":
            return UNKNOWN
        x = arrays.cast(x, "uint8") if arrays.dtype(x).kind == "b" else x
        return arrays.op("int64", f"aten::{row}", x, axis, bool(keepdims))

    return rule


def _cumulative(row: str) -> Rule:
    @_takes("x axis dtype out")
    def rule(arrays: Arrays, example: Any, x: Value, axis: Any = None, dtype: Any = None) -> Any:
        x = arrays.cast(x, example.dtype)
        if axis is None:
            x, axis = arrays.op(example.dtype, "aten::reshape", x, (-1,)), 0
        return arrays.op(None, f"aten::{row}", x, axis, **arrays.word(example.dtype))

    return rule


@_takes("x axis keepdims")
def _count_nonzero(arrays: Arrays, example: Any, x: Value, axis: Any = None) -> Any:
    axes = axes_of(arrays, x, axis)
    if not axes:
        return UNKNOWN
    made = arrays.op("int64", "aten::count_nonzero.dim_IntList", x, axes)
    return made if hasattr(example, "dtype") else arrays.number(made, "int")


def _item(kind: str) -> Rule:
    """A number of Python in the place of an array with one element."""

    def rule(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
        if named or len(args) != 1 or not _is_tensor(args[0]) or arrays.native(args[0]).size != 1:
            return UNKNOWN
        found = kind or type(example).__name__
        if found not in {"int", "float", "bool"} or arrays.dtype(args[0]).kind == "c":
            return UNKNOWN
        return arrays.number(args[0], found)

    return rule


def _not(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
    if len(args) != 1 or not _is_tensor(args[0]) or arrays.native(args[0]).size != 1:
        return UNKNOWN
    return arrays.builder.negated(arrays.row, args[0])


def _has(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
    return example


@_takes("x parts axis")
def _split(arrays: Arrays, example: Any, x: Value, parts: Any, axis: Any = 0) -> Any:
    if type(parts) is not int or type(axis) is not int:
        return UNKNOWN
    given = {"x": x, "parts": parts, **({"axis": axis} if axis else {})}
    dtypes = tuple(each.dtype for each in example)
    return arrays.several(dtypes, "tensor_split", given, "aten::tensor_split.sections")


@_takes("x axis out overwrite_input keepdims")
def _median(arrays: Arrays, example: Any, x: Value, axis: Any = None) -> Any:
    """The mean of the two in the middle, NaN where one is; NaN is the last one in order."""
    if axis is not None or arrays.dtype(x).kind == "c":
        return UNKNOWN
    builder, row = arrays.builder, arrays.row
    flat = arrays.op(example.dtype, "aten::reshape", arrays.cast(x, example.dtype), (-1,))
    ordered = arrays.several((example.dtype, "int64"), "sort", {"x": flat}, "aten::sort.stable")[0]
    count = arrays.size(flat, 0, arrays.native(x).size)
    last = builder.number(row, "scalar_subtract", [count, 1], "int")
    halves = [builder.number(row, "scalar_floor_divide", [each, 2], "int") for each in (last, count)]
    low, high, largest = (arrays.op(example.dtype, "tensor::getitem", ordered, (each,)) for each in (*halves, last))
    middle = arrays.op(example.dtype, "aten::div.Tensor", arrays.op(example.dtype, "aten::add.Tensor", low, high), 2)
    broken = arrays.op(bool, "aten::isnan", largest)
    return arrays.op(example.dtype, "aten::where.self", broken, largest, middle)


def _length(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
    if isinstance(args[0], tuple | list):
        return len(args[0])
    return arrays.size(args[0], 0, example) if _is_tensor(args[0]) else UNKNOWN


# -- several arrays


def _where(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
    if named or len(args) != 3:
        return UNKNOWN
    condition, x, y = args
    condition = arrays.tensor(condition, arrays.dtype(condition))
    if not _is_tensor(condition):
        return UNKNOWN
    if arrays.dtype(args[0]).kind != "b":
        condition = arrays.op(bool, "aten::ne.Scalar", condition, 0)
    return arrays.op(
        example.dtype, "aten::where.self", condition, arrays.tensor(x, example.dtype), arrays.tensor(y, example.dtype)
    )


def _both(arrays: Arrays, args: list[Any], example: Any) -> list[Any]:
    return [arrays.tensor(each, example.dtype) for each in args[:2]]


def _dot(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
    if named or len(args) != 2 or example.dtype.kind == "b":
        return UNKNOWN
    x, y = _both(arrays, args, example)
    ranks = [arrays.rank(each) for each in args]
    if x is UNKNOWN or y is UNKNOWN:
        return UNKNOWN
    if 0 in ranks:
        return arrays.op(None, "aten::mul.Tensor", x, y)
    if ranks[1] <= 2:
        return arrays.op(None, "aten::matmul", x, y)
    return arrays.op(None, "aten::tensordot", x, y, (ranks[0] - 1,), (ranks[1] - 2,))


def _inner(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
    if named or len(args) != 2 or example.dtype.kind == "b":
        return UNKNOWN
    x, y = _both(arrays, args, example)
    ranks = [arrays.rank(each) for each in args]
    if x is UNKNOWN or y is UNKNOWN:
        return UNKNOWN
    if 0 in ranks:
        return arrays.op(None, "aten::mul.Tensor", x, y)
    if ranks == [1, 1]:
        return arrays.op(None, "aten::matmul", x, y)
    return arrays.op(None, "aten::tensordot", x, y, (ranks[0] - 1,), (ranks[1] - 1,))


def _einsum(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
    if not args or not isinstance(args[0], str) or named.keys() - {"optimize"} or example.dtype.kind == "b":
        return UNKNOWN
    given = [arrays.tensor(each, example.dtype) for each in args[1:]]
    if any(not _is_tensor(each) for each in given):
        return UNKNOWN
    return arrays.op(example.dtype, "aten::einsum", args[0].replace(" ", ""), tuple(given))


def _outer(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
    if named or len(args) != 2:
        return UNKNOWN
    x, y = (arrays.op(example.dtype, "aten::reshape", each, (-1,)) for each in _both(arrays, args, example))
    return arrays.op(example.dtype, "aten::outer", x, y)


@_takes("x axis kind order")
def _sort(arrays: Arrays, example: Any, x: Value, axis: Any = -1, kind: Any = None) -> Any:
    if arrays.dtype(x).kind == "c" or axis is None:
        return UNKNOWN
    x = arrays.cast(x, "uint8") if arrays.dtype(x).kind == "b" else x
    given = {"x": x, **({"axis": axis} if axis != -1 else {})}
    return arrays.several((arrays.dtype_now(x), "int64"), "sort", given, "aten::sort.stable")[0]


@_takes("x axis kind order")
def _argsort(arrays: Arrays, example: Any, x: Value, axis: Any = -1, kind: Any = None) -> Any:
    if arrays.dtype(x).kind in "bc" or axis is None:
        return UNKNOWN
    given = {"x": x, **({"axis": axis} if axis != -1 else {})}
    return arrays.several((arrays.dtype(x), "int64"), "sort", given, "aten::sort.stable")[1]


def _searchsorted(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
    given = _arguments("a v side sorter", args, named)
    if given is None or "sorter" in given or given.get("side", "left") not in {"left", "right"}:
        return UNKNOWN
    dtype = arrays.result_type(given["a"], given["v"])
    a, v = (arrays.tensor(given[name], dtype) for name in ("a", "v"))
    if a is UNKNOWN or v is UNKNOWN:
        return UNKNOWN
    return arrays.op("int64", "aten::searchsorted.Tensor", a, v, False, given.get("side", "left") == "right")


def _linear_algebra(row: str, count: int) -> Rule:
    def rule(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
        if named or len(args) != count or not hasattr(example, "dtype"):
            return UNKNOWN
        given = [arrays.tensor(each, example.dtype) for each in args]
        if any(not _is_tensor(each) for each in given):
            return UNKNOWN
        if count == 2 and arrays.rank(args[1]) != 1 and arrays.rank(args[1]) == arrays.rank(args[0]) - 1:
            return UNKNOWN  # torch takes the second for vectors
        return arrays.op(example.dtype, f"aten::{row}", *given)

    return rule


# -- what makes arrays of sizes


def _made_of_size(row: str) -> Rule:
    def rule(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
        value = None
        if row == "full":
            given = _arguments("shape value dtype order", args, named)
            value = None if given is None else given.get("value")
        else:
            given = _arguments("shape dtype order", args, named)
        if given is None or given.get("order", "C") != "C" or (row == "full" and type(value) not in {int, float, bool}):
            return UNKNOWN
        sizes = _sizes([given["shape"]])
        if sizes is UNKNOWN:
            return UNKNOWN
        name = {"zeros": "zeros", "ones": "ones", "full": "full", "empty": "empty.memory_format"}[row]
        operands = [sizes] if value is None else [sizes, value]
        return arrays.op(example.dtype, f"aten::{name}", *operands, **arrays.word(example.dtype))

    return rule


def _made_like(row: str) -> Rule:
    def rule(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
        given = _arguments("x value dtype" if row == "full" else "x dtype", args, named)
        if given is None or not _is_tensor(given["x"]):
            return UNKNOWN
        if row == "full" and type(given.get("value")) not in {int, float, bool}:
            return UNKNOWN
        operands = [given["x"], given["value"]] if row == "full" else [given["x"]]
        return arrays.op(example.dtype, f"aten::{row}_like", *operands, **arrays.word(example.dtype))

    return rule


def _arange(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
    given = _arguments("start stop step dtype", args, named)
    if given is None or any(_is_tensor(each) for each in given.values()) or example.dtype.kind not in "i":
        return UNKNOWN
    start, stop, step = given.get("start"), given.get("stop"), given.get("step", 1)
    start, stop = (0, start) if stop is None else (start, stop)
    return arrays.op(example.dtype, "aten::arange.start_step", start, stop, step, **arrays.word(example.dtype))


def _operation(name: str, in_place: bool = False) -> Rule:
    def rule(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
        ufunc = ufunc_named(name)
        own = ufunc_rule(ufunc)
        if own is None or named:
            return UNKNOWN
        is_written = in_place and getattr(arrays.native(args[0]), "ndim", None) is not None
        is_written = is_written and isinstance(arrays.native(args[0]), sys.modules["numpy"].ndarray)
        return own(arrays, args, {"out": args[0]} if is_written else {}, example)

    return rule


_METHODS: dict[str, Rule] = {
    "astype": _astype,
    "copy": _copy,
    "reshape": _reshape,
    "ravel": _ravel,
    "flatten": _flatten,
    "transpose": _transpose,
    "swapaxes": _swapaxes,
    "squeeze": _squeeze,
    "diagonal": _diagonal,
    "repeat": _repeat,
    "take": _take,
    "dot": _dot,
    "sum": _reduction("add"),
    "prod": _reduction("multiply"),
    "max": _reduction("maximum"),
    "min": _reduction("minimum"),
    "any": _reduction("logical_or"),
    "all": _reduction("logical_and"),
    "mean": _mean,
    "var": _spread(False),
    "std": _spread(True),
    "argmax": _where_is("argmax"),
    "argmin": _where_is("argmin"),
    "cumsum": _cumulative("cumsum"),
    "cumprod": _cumulative("cumprod"),
    "argsort": _argsort,
    "searchsorted": _searchsorted,
    "fill": _fill,
    "item": _item(""),
    "conj": _operation("conjugate"),
    "__getitem__": _getitem,
}
_FUNCTIONS: dict[str, Rule] = {
    "where": _where,
    "concatenate": _concatenate,
    "array": _array_of,
    "asarray": _as_array,
    "asanyarray": _as_array,
    "ascontiguousarray": _as_array,
    "dot": _dot,
    "inner": _inner,
    "einsum": _einsum,
    "outer": _outer,
    "roll": _roll,
    "tril": _pad_free("tril"),
    "triu": _pad_free("triu"),
    "broadcast_to": _broadcast_to,
    "count_nonzero": _count_nonzero,
    "sort": _sort,
    "median": _median,
    "split": _split,
    "array_split": _split,
    "linalg.solve": _linear_algebra("linalg_solve", 2),
    "linalg.inv": _linear_algebra("linalg_inv", 1),
    "linalg.det": _linear_algebra("linalg_det", 1),
    "linalg.cholesky": _linear_algebra("linalg_cholesky", 1),
}
_MAKERS: dict[str, Rule] = {
    "zeros": _made_of_size("zeros"),
    "ones": _made_of_size("ones"),
    "full": _made_of_size("full"),
    "empty": _made_of_size("empty"),
    "arange": _arange,
    "zeros_like": _made_like("zeros"),
    "ones_like": _made_like("ones"),
    "empty_like": _made_like("empty"),
    "full_like": _made_like("full"),
}


def _folded(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
    """What a function of literals gives."""
    return example if isinstance(example, (int, bool)) else Known(example)


def _scalar_type(arrays: Arrays, args: list[Any], named: dict[str, Any], example: Any) -> Any:
    """`np.float64(x)` of an array without axes."""
    if named or len(args) != 1 or not _is_tensor(args[0]) or arrays.rank(args[0]):
        return UNKNOWN
    return arrays.cast(args[0], example.dtype)


@functools.cache
def _table() -> dict[Any, tuple[Rule, bool]]:
    numpy = sys.modules["numpy"]
    found: dict[Any, tuple[Rule, bool]] = {
        getattr: (_attribute, False),
        hasattr: (_has, False),
        len: (_length, False),
        operator.getitem: (_getitem, False),
        operator.setitem: (_setitem, False),
        operator.truth: (_item("bool"), False),
        operator.not_: (_not, False),
        operator.index: (_item("int"), False),
        float: (_item("float"), False),
        int: (_item("int"), False),
        bool: (_item("bool"), False),
        numpy.ufunc.reduce: (reduce_rule, False),
        numpy.ufunc.accumulate: (accumulate_rule, False),
        numpy.ufunc.outer: (outer_rule, False),
    }
    for name in DTYPES:
        found[numpy.dtype(name).type] = (_scalar_type, True)
    found.update((function, (_operation(name), False)) for function, name in OPERATORS.items())
    found.update((function, (_operation(name, True), False)) for function, name in IN_PLACE.items())
    for name, rule in _METHODS.items():
        for owner in (numpy.ndarray, numpy.generic):
            if (method := getattr(owner, name, None)) is not None:
                found[method] = (rule, False)
    for rows, makes in ((_FUNCTIONS, False), (_MAKERS, True)):
        for name, rule in rows.items():
            function = functools.reduce(getattr, name.split("."), numpy)
            found[function] = (rule, makes)
            if (inner := getattr(function, "_implementation", None)) is not None:
                found[inner] = (rule, makes)
    inner_modules = numpy._core._multiarray_umath
    for name in ("c_einsum", *_FUNCTIONS, *_MAKERS):
        inner = getattr(inner_modules, name, None)
        if inner is not None:
            rules = _MAKERS if name in _MAKERS else _FUNCTIONS
            found[inner] = (rules[name.removeprefix("c_")], name in _MAKERS)
    for name in ("normalize_axis_index", "result_type", "promote_types", "can_cast"):
        found[getattr(inner_modules, name)] = (_folded, True)
    found[numpy._core._methods._mean] = (_mean, False)
    return found


def rule_of(function: Any) -> tuple[Rule | None, bool]:
    """What a call of this callable is in a graph, and whether it is NumPy's whatever it is given."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not hasattr(getattr(numpy, "_core", None), "_methods"):  # NumPy before 2 has others
        return None, False
    if isinstance(function, numpy.ufunc):
        return ufunc_rule(function), False
    try:
        return _table().get(function, (None, False))
    except TypeError:  # it has no hash
        return None, False
