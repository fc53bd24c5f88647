"""Builds the nodes of an ONNX graph: dtypes are cast as torch promotes them, and what is known is computed at once.

`builder.MatMul(a, b)` adds a node; operators of ONNX are attributes of the builder. A number among the operands becomes
a constant of the dtype of the first tensor. `arithmetic` casts both operands to the dtype that torch takes.
"""

import contextlib
import functools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from onnx import AttributeProto, NodeProto, TensorProto, helper

from pijit._formats.onnx.folding import FOLDED, fold
from pijit._formats.onnx.shapes import RULES
from pijit._formats.onnx.types import NARROW, ONNX_TYPES, Shape, Tensor, is_floating, numpy_type, promoted, words
from pijit.errors import ExportError
from pijit.graph.model import Node, place_of
from pijit.graph.model.sizes import evaluate, symbols_in

_UNSET: Any = object()
_LOGICAL = words("Equal Less LessOrEqual Greater GreaterOrEqual And Or Xor Not IsNaN IsInf")
# Runtimes have these in float32 only.
_SINGLE = words(
    "Det Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh Erf Conv ConvTranspose InstanceNormalization Softplus"
)
_SHARES = words("Softmax LogSoftmax")
_INTEGER = words("Shape Size NonZero ArgMax ArgMin")


class NeedsSizes(ExportError):
    """ONNX has an operator of the graph for known sizes only.

    Attributes:
        sizes: the free sizes that it depends on, as they were at the capture.
    """

    def __init__(self, text: str, sizes: Mapping[str, int]) -> None:
        super().__init__(text)
        self.sizes = sizes


@functools.lru_cache(maxsize=1024, typed=True)
def _attribute(name: str, value: Any) -> AttributeProto:
    return helper.make_attribute(name, list(value) if isinstance(value, tuple) else value)


class Builder:
    """An ONNX graph while it is built.

    Attributes:
        nodes: those that are done.
        initializers: of the model: constants and parameters that nodes take.
        loses_nan: operators of ONNX of which the runtime gives a number for NaN.
        node: the node of pijit's graph that is being lowered.
        seen: the free sizes, as they were at the capture.
    """

    def __init__(self, initializers: Any, seen: Mapping[str, int], loses_nan: Collection[str] = ()) -> None:
        self.initializers = initializers
        self.loses_nan = loses_nan
        self.seen = seen
        self.nodes: list[NodeProto] = []
        self.node: Node | None = None
        self._pending: list[NodeProto] = []
        self._count = 0
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Tensor] = {}
        self._parameters: dict[str, Callable[[TensorProto], None]] = {}
        self._sizes: dict[str, Tensor] = {}
        self._memo: dict[tuple[Any, ...], Tensor] = {}
        self._names: set[str] = set()
        self._held: list[Tensor] = []  # zeros, each made where a check holds

    # ---- Errors and names

    def fail(self, why: str, hint: str = "") -> NoReturn:
        """Raises the error for a node that ONNX cannot express."""
        place, op = ("", "the graph") if self.node is None else (place_of(self.node), self.node.op)
        hint = hint or "try format 'exported_program', 'fx' or 'json', or change the call"
        raise ExportError(f"{place}{op} has no form in ONNX here: {why}; {hint}")

    def unknown(self, why: str, *sizes: Any) -> NoReturn:
        """Raises the error for sizes that ONNX needs as numbers: `NeedsSizes` if they follow from those of inputs."""
        free = [each.symbol if isinstance(each, Tensor) else each for each in sizes]
        names = {name for size in free if size is not None for name in symbols_in(size)}
        try:
            self.fail(why)
        except ExportError as error:
            if names and names <= self.seen.keys():
                raise NeedsSizes(str(error), {name: self.seen[name] for name in names}) from None
            raise

    def fresh(self) -> str:
        """A name that no value has."""
        while True:
            self._count += 1
            name = f"t{self._count}"
            if name not in self._names:
                self._names.add(name)
                return name

    def reserve(self, name: str) -> str:
        """This name, or one like it if a value has it already."""
        base, count = name, 0
        while name in self._names:
            count += 1
            name = f"{base}_{count}"
        self._names.add(name)
        return name

    # ---- Constants

    def parameter(self, tensor: Tensor, fill: Callable[[TensorProto], None]) -> None:
        """Enters a parameter; it becomes an initializer when a node takes it."""
        self._parameters[tensor.name] = fill

    def const(self, value: Any, dtype: str | None = None) -> Tensor:
        """A constant from a number, a sequence, or an array of NumPy."""
        if dtype is None:
            dtype = np.asarray(value).dtype.name
        if dtype == "bfloat16":
            return self.cast(self.const(value, "float32"), dtype)  # type: ignore[no-any-return]
        array = np.asarray(value, numpy_type(dtype))
        key = (dtype, array.shape, array.tobytes())
        if key not in self._constants:
            tensor = Tensor(self, "", dtype, array.shape)
            tensor.const = array
            if array.ndim == 1 and dtype == "int64":
                tensor.items = tuple(int(each) for each in array)
            self._constants[key] = tensor
        return self._constants[key]

    def _use(self, operand: Any) -> str:
        """The name of an operand; a constant becomes an initializer."""
        if operand is None:
            return ""
        if operand.const is not None and not operand.name:
            array = operand.const
            operand.name = self.fresh()
            self.initializers.add(
                name=operand.name, data_type=ONNX_TYPES[operand.dtype], dims=array.shape, raw_data=array.tobytes()
            )
        fill = self._parameters.pop(operand.name, None)
        if fill is not None:
            # Written in place: a large array is not copied from one message to another.
            fill(self.initializers.add(name=operand.name))
        return str(operand.name)

    # ---- Nodes

    def __getattr__(self, kind: str) -> Callable[..., Any]:
        if not kind[0].isupper():
            raise AttributeError(kind)
        return functools.partial(self.add, kind)

    def add(
        self,
        kind: str,
        *operands: Any,
        outputs: int = 1,
        dtype: str | None = None,
        shape: Shape | None = _UNSET,
        **attributes: Any,
    ) -> Any:
        """Adds a node.

        Args:
            kind: operator of ONNX.
            operands: tensors, numbers, or None for one that is left out.
            outputs: number of results.
            dtype: of the results, if the operator's name does not tell.
            shape: of the first result, if there is no rule for the operator.
            attributes: of the node.

        Returns:
            The result, or a tuple of them.
        """
        first = next((each for each in operands if isinstance(each, Tensor)), None)
        own = first.dtype if first is not None else "float32"
        if own.startswith("complex"):
            self.fail("its operand is complex, which ONNX is not")
        if own == "float64" and kind in _SINGLE:
            narrow = [self.cast(x, "float32") if isinstance(x, Tensor) else x for x in operands]
            return self.cast(self.add(kind, *narrow, shape=shape, **attributes), own)
        inputs = [x if x is None or isinstance(x, Tensor) else self.const(x, own) for x in operands]
        if dtype is None:
            dtype = "bool" if kind in _LOGICAL else "int64" if kind in _INTEGER else own
            if kind == "Where":
                dtype = inputs[1].dtype  # type: ignore[union-attr]
        if not attributes and outputs == 1:
            folded = fold(kind, inputs)
            if folded is not None:
                return self.const(folded, dtype)
        if shape is _UNSET:
            rule = RULES.get(kind)
            shape = None if rule is None else rule(inputs, attributes)
        results = tuple(Tensor(self, self.fresh(), dtype, shape if at == 0 else None) for at in range(outputs))
        proto = NodeProto(op_type=kind)
        proto.input.extend(map(self._use, inputs))
        proto.output.extend(each.name for each in results)
        for name, value in attributes.items():
            if value is not None:
                value = self._known(kind, name, value)  # noqa: PLW2901
                plain = isinstance(value, int | float | str | tuple)
                proto.attribute.append(_attribute(name, value) if plain else helper.make_attribute(name, value))
        self._pending.append(proto)
        if kind in self.loses_nan and is_floating(own):
            return self._with_nan(kind, inputs, results[0], attributes)
        return results[0] if outputs == 1 else results

    def _known(self, kind: str, name: str, value: Any) -> Any:
        """An attribute without numbers of the graph."""
        found = tuple(map(self.plain, value)) if isinstance(value, tuple | list) else self.plain(value)
        if free := [each for each in (found if isinstance(found, tuple) else (found,)) if isinstance(each, Tensor)]:
            self.unknown(f"the attribute {name!r} of its {kind} has to be a number that is known", *free)
        return found

    def _with_nan(self, kind: str, inputs: Sequence[Any], made: Tensor, attributes: Mapping[str, Any]) -> Any:
        """What an operator gives for NaN, which the runtime takes for a number."""
        if kind in _SHARES:
            # The sum of the probabilities is 1, or 0 where there is a NaN or an infinity.
            shares = made if kind == "Softmax" else self.Exp(made)
            total = self.ReduceSum(shares, self.const([attributes["axis"]], "int64"), keepdims=1)
            return self.where(self.Greater(total, 0.5), made, math.nan)
        for each in inputs:
            if isinstance(each, Tensor) and each.const is None and is_floating(each.dtype):
                if made.dtype == "bool":
                    nan = self.IsNaN(each)
                    made = self.Or(made, nan) if kind == "Cast" else self.And(made, self.Not(nan))
                elif made.dtype == each.dtype and kind != "Cast":
                    made = self.Where(self.IsNaN(each), each, made)
        return made

    def memo(self, key: tuple[Any, ...], make: Callable[[], Tensor]) -> Tensor:
        """What `make` gives, once for each key."""
        if key not in self._memo:
            self._memo[key] = make()
        return self._memo[key]

    def take(self, results: Mapping[str, Tensor]) -> list[NodeProto]:
        """The nodes since the last call; those that give results get the names of these."""
        new, self._pending = self._pending, []
        given = {name for proto in new for name in proto.output}
        renamed = {}
        for name, tensor in results.items():
            if tensor.name in given and tensor.name not in renamed:
                renamed[tensor.name] = tensor.name = name
        for proto in new if renamed else ():
            for names in (proto.input, proto.output):
                for at, name in enumerate(names):
                    if name in renamed:
                        names[at] = renamed[name]
        self.nodes += new
        return new

    @contextlib.contextmanager
    def within(self) -> Iterator[list[NodeProto]]:
        """Nodes go into a graph of their own, the list that is given; what stands for them is forgotten afterwards."""
        kept = self.nodes, self._pending, self._memo, self._sizes
        self.nodes, self._pending, self._memo, self._sizes = [], [], dict(self._memo), dict(self._sizes)
        try:
            yield self.nodes
        finally:
            self.nodes, self._pending, self._memo, self._sizes = kept

    # ---- Checks

    def check(self, condition: Any, expected: Any) -> None:
        """What is `guarded` afterwards is there only where a number is as expected; else the model fails as it runs.

        ONNX has no operator that raises. A vector of one element, reshaped to two where the check does not hold, does.
        """
        condition = self.plain(condition)
        if not isinstance(condition, Tensor):
            return  # it was right at the capture
        if isinstance(expected, bool):
            condition = self.cast(self.strong(condition), "bool")
            sizes = (1, 2) if expected else (2, 1)
        else:
            condition, sizes = self.add("Equal", self.strong(condition), expected), (1, 2)
        size = self.Where(condition, self.const(sizes[:1], "int64"), self.const(sizes[1:], "int64"), shape=(1,))
        self._held.append(self.Reshape(self.const([0], "int64"), size, shape=(1,)))

    def check_same(self, x: Tensor, axis: int, y: Tensor, other: int) -> None:
        """As `check`, for the lengths of two axes."""
        sizes = [self.Shape(each, start=at, end=at + 1, shape=(1,)) for each, at in ((x, axis), (y, other))]
        self.check(self.Equal(*sizes), True)

    @contextlib.contextmanager
    def checks(self) -> Iterator[None]:
        """Checks within are for what is guarded within."""
        kept, self._held = self._held, []
        try:
            yield
        finally:
            self._held = kept

    def guarded(self, x: Any, dtype: str | None = None) -> Any:
        """The same tensor, which is there only where all checks so far hold; its bits are the same."""
        if not self._held:
            return x
        if not isinstance(x, Tensor):
            x = self.const(x, dtype)
            x.number = dtype is not None
        zero = functools.reduce(lambda a, b: self.add("Add", a, b), self._held)
        self._held = [zero]
        made = self.Reshape(x, self.Add(self.Shape(x), zero, shape=None), shape=x.shape)
        made.number, made.symbol = x.number, x.symbol
        return made

    # ---- Dtypes

    def cast(self, x: Any, dtype: str) -> Any:
        """The operand in another dtype; a number becomes a constant."""
        if not isinstance(x, Tensor):
            return self.const(x, dtype)
        if x.dtype == dtype:
            return x
        if x.const is not None and dtype != "bfloat16" and x.const.size <= FOLDED:
            with np.errstate(all="ignore"):
                return self.const(x.const.astype(numpy_type(dtype)), dtype)
        if dtype not in ONNX_TYPES:
            self.fail(f"ONNX has no dtype {dtype}")
        name = self._use(x)

        def make() -> Tensor:
            made: Tensor = self.Cast(x, to=ONNX_TYPES[dtype], dtype=dtype)
            made.symbol = x.symbol
            return made

        return self.memo(("Cast", name, dtype), make)

    def operands(self, *given: Any, floating: bool = False, dtype: str | None = None) -> list[Tensor]:
        """The operands in the one dtype that torch computes with.

        Args:
            given: tensors and numbers.
            floating: integers are computed with in float32.
            dtype: take this one.
        """
        found = dtype or promoted(given)
        if floating and not is_floating(found):
            found = "float32"
        return [self.cast(x, found) for x in given]

    def arithmetic(self, kind: str, *given: Any, floating: bool = False) -> Tensor:
        """An elementwise operator on operands of several dtypes."""
        xs = self.operands(*given, floating=floating)
        dtype = xs[0].dtype
        if dtype in NARROW:
            wide = "int64" if dtype in {"uint32", "uint64"} else "int32"
            return self.cast(self.add(kind, *(self.cast(x, wide) for x in xs)), dtype)  # type: ignore[no-any-return]
        return self.add(kind, *xs)  # type: ignore[no-any-return]

    def compare(self, kind: str, x: Any, y: Any) -> Tensor:
        """A comparison: bool."""
        xs = self.operands(x, y)
        if xs[0].dtype in NARROW or (xs[0].dtype == "bool" and kind != "Equal"):
            xs = [self.cast(each, "int64" if xs[0].dtype == "uint32" else "int32") for each in xs]
        return self.add(kind, *xs)  # type: ignore[no-any-return]

    def where(self, condition: Any, x: Any, y: Any) -> Tensor:
        """x where the condition holds, else y."""
        x, y = self.operands(x, y)
        return self.Where(self.cast(condition, "bool"), x, y)  # type: ignore[no-any-return]

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """The product of matrices, or of a matrix and a vector.

        A vector on the right is a matrix of one column: ONNX Runtime fuses a matrix that is transposed before into the
        product, and computes that one wrongly for a vector.
        """
        if y.rank != 1 or x.rank < 2:
            return self.MatMul(x, y)  # type: ignore[no-any-return]
        return self.squeeze(self.MatMul(x, self.unsqueeze(y, 1)), x.rank - 1)

    # ---- Sizes

    def size(self, x: Tensor, axis: int) -> Any:
        """The length of an axis: an int if it is known, else a number of the graph."""
        if x.shape is not None:
            axis %= max(len(x.shape), 1)
        dim = None if x.shape is None else x.shape[axis]
        if isinstance(dim, int):
            return dim
        if dim is not None and dim in self._sizes:
            return self._sizes[dim]
        name = self._use(x)

        def make() -> Tensor:
            end = axis + 1 or None
            vector = self.Shape(x, start=axis, end=end, shape=(1,))
            number: Tensor = self.Squeeze(vector, self.const([0], "int64"), shape=())
            number.number, number.symbol = True, dim
            self._memo["vector", number.name] = vector
            return number

        number = self.memo(("Size", name, axis), make)
        if dim is not None:
            self._sizes[dim] = number
        return number

    def shape(self, x: Tensor) -> Tensor:
        """The shape as a vector."""
        if x.shape is not None and all(isinstance(dim, int) for dim in x.shape):
            return self.ints(x.shape)

        def make() -> Tensor:
            vector: Tensor = self.Shape(x)
            if x.shape is not None:
                vector.items = tuple(dim if isinstance(dim, int) else self._symbol(dim) for dim in x.shape)
            return vector

        return self.memo(("Shape", self._use(x)), make)

    def _symbol(self, dim: str | None) -> Tensor:
        """A number that is only looked at, for its symbol."""
        number = Tensor(self, "", "int64", (), number=True)
        number.symbol = dim
        return number

    def is_one(self, dim: Any) -> bool:
        """Whether a size is 1; a free size is not, since it was another at the capture."""
        if isinstance(dim, int):
            return dim == 1
        size = None if dim is None else evaluate(dim, self.seen)
        if size is None or size == 1:
            self.fail("it depends on whether a size is 1, and that is not known")
        return False

    def dims(self, x: Tensor) -> list[Any]:
        """The sizes of all axes."""
        return [self.size(x, axis) for axis in range(x.rank)]

    def strong(self, x: Tensor) -> Tensor:
        """A number of the graph as a tensor that counts where dtypes are promoted."""
        if not x.number:
            return x
        made = Tensor(self, self._use(x), x.dtype, x.shape)
        made.symbol = x.symbol
        return made

    def vector(self, x: Tensor) -> Tensor:
        """A number of the graph as a vector of one int64."""
        x = self.cast(x, "int64")
        return self.memo(("vector", self._use(x)), lambda: self.Unsqueeze(x, self.const([0], "int64")))

    def ints(self, items: Any) -> Tensor:
        """A vector of int64 from ints and numbers of the graph."""
        if isinstance(items, Tensor):
            return self.vector(items)
        if isinstance(items, int):
            items = (items,)
        items = tuple(self.plain(item) for item in items)
        if all(isinstance(item, int) for item in items):
            return self.const(np.array(items, np.int64), "int64")
        parts: list[Tensor] = []
        run: list[int] = []
        for item in items:
            if isinstance(item, Tensor):
                if run:
                    parts.append(self.const(run, "int64"))
                    run = []
                parts.append(self.vector(item))
            else:
                run.append(item)
        if run:
            parts.append(self.const(run, "int64"))
        if len(parts) == 1:
            made = parts[0]
        else:
            key = ("ints", *(self._use(part) for part in parts))
            made = self.memo(key, lambda: self.Concat(*parts, axis=0))
        made.shape, made.items = (len(items),), items
        return made

    def plain(self, item: Any) -> Any:
        """A number of the graph whose value is known as Python's."""
        if isinstance(item, Tensor) and item.const is not None and item.const.size == 1:
            return item.const.reshape(()).item()
        return item

    # ---- Shapes

    def axis(self, x: Tensor, axis: Any, extra: int = 0) -> int:
        """The axis, counted from the front."""
        rank = max(x.rank + extra, 1)
        return int(axis) % rank

    def axes(self, x: Tensor, axis: Any) -> tuple[int, ...]:
        """The axes, counted from the front; None: all."""
        if axis is None or axis == ():
            return tuple(range(x.rank))
        if isinstance(axis, int):
            axis = (axis,)
        return tuple(self.axis(x, each) for each in axis) if x.rank else ()

    def reshape(self, x: Tensor, shape: Any) -> Tensor:
        """The elements in another shape."""
        # ONNX reads 0 as "as it was", torch as a size.
        items = tuple(self.plain(item) for item in shape)
        zero = 1 if any(isinstance(item, int) and item == 0 for item in items) else None
        return self.Reshape(x, self.ints(items), allowzero=zero)  # type: ignore[no-any-return]

    def expand(self, x: Any, vector: Tensor) -> Tensor:
        """Broadcast to a shape that is given as a vector."""
        return self.Expand(x, vector)  # type: ignore[no-any-return]

    def transpose(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """The axes in another order."""
        if tuple(axes) == tuple(range(len(axes))):
            return x
        return self.Transpose(x, perm=tuple(axes))  # type: ignore[no-any-return]

    def unsqueeze(self, x: Tensor, *axes: int) -> Tensor:
        """New axes of length 1 at these places of the result."""
        return self.Unsqueeze(x, self.const(axes, "int64")) if axes else x

    def squeeze(self, x: Tensor, *axes: int) -> Tensor:
        """Without these axes."""
        return self.Squeeze(x, self.const(axes, "int64")) if axes else x

    def reduce(self, kind: str, x: Tensor, axis: Any, keepdims: bool) -> Tensor:
        """A reduction over axes; None: over all."""
        axes = self.axes(x, axis) if axis is not None else None
        if x.rank == 0:
            return x
        vector = None if axes is None else self.const(axes, "int64")
        operands = (x,) if vector is None else (x, vector)
        return self.add(kind, *operands, keepdims=int(bool(keepdims)))  # type: ignore[no-any-return]

    def slice(self, x: Tensor, axis: int, start: Any, stop: Any, step: Any = 1) -> Tensor:
        """A range of an axis."""
        ends = (self.ints((bound,)) for bound in (start, stop))
        return self.Slice(x, *ends, self.const([axis], "int64"), self.ints((step,)))  # type: ignore[no-any-return]
