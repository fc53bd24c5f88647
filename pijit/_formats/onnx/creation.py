"""Forms in ONNX of rows that make arrays, cast and copy them."""

from typing import Any

import numpy as np
from onnx import TensorProto

from pijit._formats.onnx.builder import Builder
from pijit._formats.onnx.folding import FOLDED
from pijit._formats.onnx.types import ONNX_TYPES, Tensor, category, numpy_type


def _wanted(o: Builder, dtype: Any, default: str) -> str:
    """The dtype that is asked for, else that which the result is known to have, else a default."""
    if dtype is not None:
        return str(dtype)
    result = o.node.results[0] if o.node is not None and o.node.results else None
    return result.dtype if result is not None and result.dtype is not None else default


def filled(o: Builder, vector: Tensor, value: Any, dtype: str) -> Any:
    """A value in a shape."""
    if isinstance(value, Tensor):
        value = o.cast(value, dtype)
        return o.Expand(value if value.rank == 0 else o.reshape(value, ()), vector)
    sizes = vector.items
    if sizes is not None and all(isinstance(item, int) for item in sizes) and np.prod(sizes) <= FOLDED:
        return o.const(np.full(sizes, value), dtype)
    if dtype == "bfloat16":
        return o.cast(filled(o, vector, value, "float32"), dtype)
    proto = TensorProto(data_type=ONNX_TYPES[dtype], dims=[1])
    proto.raw_data = np.asarray([value], numpy_type(dtype)).tobytes()
    return o.ConstantOfShape(vector, dtype=dtype, value=proto)


def zeros(o: Builder, shape: Any, dtype: Any = None, device: Any = None) -> Any:
    return filled(o, o.ints(shape), 0, _wanted(o, dtype, "float32"))


def ones(o: Builder, shape: Any, dtype: Any = None, device: Any = None) -> Any:
    return filled(o, o.ints(shape), 1, _wanted(o, dtype, "float32"))


empty = zeros


def _natural(o: Builder, *values: Any) -> str:
    """The dtype that torch gives to numbers."""
    kinds = []
    for value in values:
        if isinstance(value, Tensor):
            kinds.append({"float64": "float32"}.get(value.dtype, value.dtype) if value.number else value.dtype)
        else:
            kinds.append("bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float32")
    return max(kinds, key=category)


def full(o: Builder, shape: Any, value: Any, dtype: Any = None, device: Any = None) -> Any:
    return filled(o, o.ints(shape), value, _wanted(o, dtype, _natural(o, value)))


def arange(o: Builder, start: Any = 0, stop: Any = None, step: Any = 1, dtype: Any = None, device: Any = None) -> Any:
    wanted = _wanted(o, dtype, _natural(o, start, stop, step))
    bounds = [o.plain(each) for each in (start, stop, step)]
    own = wanted if wanted in {"float32", "float64", "int32", "int64"} else "int64"
    if category(wanted) == 2 and own != wanted:
        own = "float32"
    if not any(isinstance(each, Tensor) for each in bounds):
        count = max(int(np.ceil((bounds[1] - bounds[0]) / bounds[2])), 0)
        if count <= FOLDED:
            return o.cast(o.const(bounds[0] + np.arange(count) * bounds[2], own), wanted)
        known: Any = count
    else:
        known = bounds[1].symbol if bounds[0] == 0 and bounds[2] == 1 and isinstance(bounds[1], Tensor) else None
    return o.cast(o.Range(*(o.cast(each, own) for each in bounds), shape=(known,)), wanted)


def linspace(o: Builder, start: Any, stop: Any, num: Any, dtype: Any = None, device: Any = None) -> Any:
    wanted = _wanted(o, dtype, "float32")
    start, stop, num = (o.plain(each) for each in (start, stop, num))
    if not any(isinstance(each, Tensor) for each in (start, stop, num)):
        return o.const(np.linspace(start, stop, num), wanted)
    steps = o.Range(*(o.cast(each, "int64") for each in (0, num, 1)))
    last = o.Max(o.Sub(o.cast(num, "float64"), 1), 1)
    step = o.Div(o.Sub(o.cast(stop, "float64"), o.cast(start, "float64")), last)
    return o.cast(o.Add(o.Mul(o.cast(steps, "float64"), step), o.cast(start, "float64")), wanted)


def eye(o: Builder, rows: Any, columns: Any = None, dtype: Any = None, device: Any = None) -> Any:
    columns = rows if columns is None else columns
    ends = [o.unsqueeze(arange(o, 0, each, 1, "int64"), 1 - at) for at, each in enumerate((rows, columns))]
    return o.cast(o.Equal(*ends), _wanted(o, dtype, "float32"))


def asarray(o: Builder, value: Any, dtype: Any = None, device: Any = None) -> Any:
    if isinstance(value, tuple):
        parts = [asarray(o, each, dtype) for each in value]
        if all(part.const is not None for part in parts):
            wanted = _wanted(o, dtype, max((part.dtype for part in parts), key=category, default="float32"))
            return o.const(np.array([part.const for part in parts]), wanted)
        parts = [o.unsqueeze(part, 0) for part in o.operands(*parts)]
        return o.Concat(*parts, axis=0) if len(parts) > 1 else parts[0]
    made = o.cast(value, _wanted(o, dtype, _natural(o, value)))
    return o.Identity(made) if made.number else made


def _like(o: Builder, x: Any, value: Any, dtype: Any) -> Any:
    return filled(o, o.shape(x), value, str(dtype) if dtype is not None else x.dtype)


def zeros_like(o: Builder, x: Any, dtype: Any = None, device: Any = None) -> Any:
    return _like(o, x, 0, dtype)


def ones_like(o: Builder, x: Any, dtype: Any = None, device: Any = None) -> Any:
    return _like(o, x, 1, dtype)


empty_like = zeros_like


def full_like(o: Builder, x: Any, value: Any, dtype: Any = None, device: Any = None) -> Any:
    return _like(o, x, value, dtype)


def new_zeros(o: Builder, x: Any, shape: Any, dtype: Any = None, device: Any = None) -> Any:
    return filled(o, o.ints(shape), 0, str(dtype) if dtype is not None else x.dtype)


new_empty = new_zeros


def new_ones(o: Builder, x: Any, shape: Any, dtype: Any = None, device: Any = None) -> Any:
    return filled(o, o.ints(shape), 1, str(dtype) if dtype is not None else x.dtype)


def new_full(o: Builder, x: Any, shape: Any, value: Any, dtype: Any = None, device: Any = None) -> Any:
    return filled(o, o.ints(shape), value, str(dtype) if dtype is not None else x.dtype)


# ---- Casts and copies


def astype(o: Builder, x: Any, dtype: Any = None, device: Any = None, copy: bool = False) -> Any:
    return x if dtype is None else o.cast(x, str(dtype))


def type_as(o: Builder, x: Any, y: Any) -> Any:
    return o.cast(x, y.dtype)


def copy(o: Builder, x: Any) -> Any:
    return x


contiguous = detach = alias = resolve_conj = copy


def assign(o: Builder, x: Any, y: Any) -> Any:
    y = o.cast(y, x.dtype)
    if x.shape is not None and x.shape == y.shape and None not in x.shape:
        return y
    return o.Expand(y, o.shape(x), shape=x.shape)


def fill(o: Builder, x: Any, value: Any) -> Any:
    return _like(o, x, value, None)


def zero(o: Builder, x: Any) -> Any:
    return _like(o, x, 0, None)
