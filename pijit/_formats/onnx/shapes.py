"""Shapes of what nodes of ONNX give: as far as the forms need them, which is mostly the rank.

A function takes the operands and attributes of a node and gives the shape of its first result. None in the place of a
size: not known. None in the place of a shape: not even its rank.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pijit._formats.onnx.types import Dim, Shape, Tensor

Rule = Callable[[Sequence[Any], Mapping[str, Any]], Shape | None]


def broadcast(*shapes: Shape | None) -> Shape | None:
    """The shape of an elementwise operator on operands of these shapes."""
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes):
        return None
    sizes: list[Dim] = []
    for at in range(1, max(map(len, known)) + 1):
        dims = [shape[-at] for shape in known if len(shape) >= at]
        wide = [dim for dim in dims if dim != 1]
        fixed = [dim for dim in wide if isinstance(dim, int)]
        if fixed:
            sizes.append(fixed[0])
        elif wide:
            sizes.append(wide[0] if len(set(wide)) == 1 else None)
        else:
            sizes.append(1)
    return tuple(reversed(sizes))


def _dims(vector: Any) -> Shape | None:
    """The sizes that a vector of sizes holds."""
    if vector is None:
        return None
    if vector.items is not None:
        return tuple(item if isinstance(item, int) else item.symbol for item in vector.items)
    if vector.const is not None:
        return tuple(int(item) for item in vector.const.reshape(-1))
    if vector.shape is not None and len(vector.shape) == 1 and isinstance(vector.shape[0], int):
        return (None,) * vector.shape[0]
    return None


def _axes(vector: Any, rank: int) -> tuple[int, ...] | None:
    if vector is None:
        return tuple(range(rank))
    if vector.const is None:
        return None
    return tuple(int(axis) % rank for axis in vector.const.reshape(-1)) if rank else ()


def _same(inputs: Sequence[Any], _: Mapping[str, Any]) -> Shape | None:
    return inputs[0].shape  # type: ignore[no-any-return]


def _elementwise(inputs: Sequence[Any], _: Mapping[str, Any]) -> Shape | None:
    return broadcast(*(each.shape for each in inputs if each is not None))


def _matmul(inputs: Sequence[Any], _: Mapping[str, Any]) -> Shape | None:
    a, b = (each.shape for each in inputs[:2])
    if a is None or b is None:
        return None
    if len(a) == 1 or len(b) == 1:
        return (*a[:-1], *b[:-2], *(b[-1:] if len(b) > 1 else ()))
    batch = broadcast(a[:-2], b[:-2])
    assert batch is not None
    return (*batch, a[-2], b[-1])


def _gemm(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Shape | None:
    a, b = (each.shape for each in inputs[:2])
    return (a[1 if attributes.get("transA") else 0], b[0 if attributes.get("transB") else 1])


def _transpose(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Shape | None:
    shape = inputs[0].shape
    return None if shape is None else tuple(shape[axis] for axis in attributes["perm"])


def _reshape(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Shape | None:
    dims = _dims(inputs[1])
    if dims is None:
        return None
    own = inputs[0].shape
    if own is not None and not attributes.get("allowzero"):
        dims = tuple(own[at] if dim == 0 else dim for at, dim in enumerate(dims))
    found = tuple(None if dim == -1 else dim for dim in dims)
    if own is not None and dims.count(-1) == 1 and all(isinstance(dim, int) for dim in (*own, *dims)):
        total, rest = 1, 1
        for dim in own:
            total *= dim
        for dim in dims:
            rest *= dim if isinstance(dim, int) and dim != -1 else 1
        return tuple((total // rest if rest else 0) if dim == -1 else dim for dim in dims)
    return found


def _expand(inputs: Sequence[Any], _: Mapping[str, Any]) -> Shape | None:
    return broadcast(inputs[0].shape, _dims(inputs[1]))


def _unsqueeze(inputs: Sequence[Any], _: Mapping[str, Any]) -> Shape | None:
    if inputs[0].shape is None or inputs[1].const is None:
        return None
    axes = inputs[1].const.reshape(-1)
    rank = len(inputs[0].shape) + len(axes)
    new = {int(axis) % rank for axis in axes}
    rest = iter(inputs[0].shape)
    return tuple(1 if axis in new else next(rest) for axis in range(rank))


def _squeeze(inputs: Sequence[Any], _: Mapping[str, Any]) -> Shape | None:
    if inputs[0].shape is None or len(inputs) < 2:
        return None
    gone = _axes(inputs[1], len(inputs[0].shape))
    return None if gone is None else tuple(dim for axis, dim in enumerate(inputs[0].shape) if axis not in gone)


def _concat(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Shape | None:
    shapes = [each.shape for each in inputs]
    if any(shape is None for shape in shapes):
        return None
    axis = attributes["axis"] % len(shapes[0])
    sizes = [shape[axis] for shape in shapes]
    total = sum(sizes) if all(isinstance(size, int) for size in sizes) else None
    found = []
    for at, dims in enumerate(zip(*shapes, strict=True)):
        fixed = [dim for dim in dims if dim is not None]
        found.append(total if at == axis else (fixed[0] if fixed else None))
    return tuple(found)


def _gather(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Shape | None:
    data, indices = inputs[0].shape, inputs[1].shape
    if data is None or indices is None:
        return None
    axis = attributes.get("axis", 0) % len(data)
    return (*data[:axis], *indices, *data[axis + 1 :])


def _gather_nd(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Shape | None:
    data, indices = inputs[0].shape, inputs[1].shape
    if data is None or indices is None or not isinstance(indices[-1], int):
        return None
    return (*indices[:-1], *data[indices[-1] + attributes.get("batch_dims", 0) :])


def _second(inputs: Sequence[Any], _: Mapping[str, Any]) -> Shape | None:
    return inputs[1].shape  # type: ignore[no-any-return]


def _slice(inputs: Sequence[Any], _: Mapping[str, Any]) -> Shape | None:
    shape = inputs[0].shape
    if shape is None:
        return None
    axes = _axes(inputs[3], len(shape)) if len(inputs) > 3 else None
    if axes is None:
        return (None,) * len(shape)
    sizes = list(shape)
    for at, axis in enumerate(axes):
        sizes[axis] = None
        bounds = [each.items[at] if each.items is not None else None for each in (inputs[1], inputs[2], inputs[4])]
        if isinstance(shape[axis], int) and all(isinstance(bound, int) for bound in bounds):
            sizes[axis] = len(range(*slice(*bounds).indices(shape[axis])))
    return tuple(sizes)


def _reduce(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Shape | None:
    shape = inputs[0].shape
    if shape is None:
        return None
    if "axis" in attributes:
        axes: tuple[int, ...] | None = (attributes["axis"] % max(len(shape), 1),)
    else:
        axes = _axes(inputs[1] if len(inputs) > 1 else None, len(shape))
    if axes is None:
        return None
    if attributes.get("keepdims", 1):
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in axes)


def _unknown_sizes(inputs: Sequence[Any], _: Mapping[str, Any]) -> Shape | None:
    shape = inputs[0].shape
    return None if shape is None else (None,) * len(shape)


def _spatial(inputs: Sequence[Any], _: Mapping[str, Any]) -> Shape | None:
    """Convolutions and pools: batch and channels stay, the rest is computed by the runtime."""
    shape = inputs[0].shape
    if shape is None:
        return None
    channels = shape[1]
    if len(inputs) > 1 and isinstance(inputs[1], Tensor) and inputs[1].shape is not None and len(inputs[1].shape) > 2:
        channels = inputs[1].shape[0]
    return (shape[0], channels, *(None,) * (len(shape) - 2))


def _vector(inputs: Sequence[Any], _: Mapping[str, Any]) -> Shape | None:
    return (None,)


def _shape(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Shape | None:
    if inputs[0].shape is None:
        return (None,)
    return (len(inputs[0].shape[attributes.get("start", 0) : attributes.get("end")]),)


def _non_zero(inputs: Sequence[Any], _: Mapping[str, Any]) -> Shape | None:
    return (None if inputs[0].shape is None else len(inputs[0].shape), None)


def _filled(inputs: Sequence[Any], _: Mapping[str, Any]) -> Shape | None:
    return _dims(inputs[0])


def _scalar(inputs: Sequence[Any], _: Mapping[str, Any]) -> Shape | None:
    return ()


_ELEMENTWISE = """Add Sub Mul Div Mod Pow Equal Less LessOrEqual Greater GreaterOrEqual And Or Xor Where Min Max
    BitwiseAnd BitwiseOr BitwiseXor BitShift PRelu"""
_REDUCTIONS = """ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSumExp ReduceSumSquare
    ReduceLogSum ArgMax ArgMin"""
_SAME = """Abs Neg Sqrt Reciprocal Exp Log Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Floor Ceil Round
    Sign Not BitwiseNot Erf Relu LeakyRelu Sigmoid HardSigmoid HardSwish Elu Selu Celu Gelu Mish Softplus Softsign
    ThresholdedRelu Softmax LogSoftmax Cast Clip IsNaN IsInf Identity CumSum Trilu LayerNormalization
    BatchNormalization InstanceNormalization GroupNormalization Dropout ScatterElements ScatterND Bernoulli
    RandomNormalLike RandomUniformLike ReverseSequence"""

RULES: dict[str, Rule] = {
    **dict.fromkeys(_ELEMENTWISE.split(), _elementwise),
    **dict.fromkeys(_REDUCTIONS.split(), _reduce),
    **dict.fromkeys(_SAME.split(), _same),
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Expand": _expand,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Concat": _concat,
    "Gather": _gather,
    "GatherND": _gather_nd,
    "GatherElements": _second,
    "Slice": _slice,
    "Pad": _unknown_sizes,
    "Tile": _unknown_sizes,
    "Split": _unknown_sizes,
    "TopK": _unknown_sizes,
    "Resize": _unknown_sizes,
    "Conv": _spatial,
    "AveragePool": _spatial,
    "MaxPool": _spatial,
    "GlobalAveragePool": _spatial,
    "GlobalMaxPool": _spatial,
    "Range": _vector,
    "Shape": _shape,
    "Size": _scalar,
    "NonZero": _non_zero,
    "ConstantOfShape": _filled,
}
