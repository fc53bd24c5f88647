"""Calls of Python whose meaning a graph has in its own words, though the trace makes them through CPython.

Such a call has a row of numbers (`math.prod(x.shape)`, `np.sqrt(n)`), is an operator of torch (`x * np.float64(2)`),
makes a tensor of what it is given (`torch.Tensor([1, 2])`, `Parameter(x)`), or has one result for good: NumPy's
functions on constants. What NumPy gives is computed again for the graph, which then has it as a constant. What writes
to an array is done again, too, but not where a tensor shares its memory. An array that anybody else is given may
change, so that nothing is known of it from then on.

`call_of` has a function for each callable. It is given the builder, the row of the trace, and the arguments as a graph
has them; it gives an argument of the graph, or `UNKNOWN`.
"""

import functools
import math
import operator
import sys
from collections.abc import Callable, Mapping
from typing import Any

from pijit.graph.build import creation, nested
from pijit.graph.build.opaque_objects import UNKNOWN, Known, Opaque, holds_opaque
from pijit.graph.model import Slice, Value
from pijit.graph.torch_calls import NUMBERS
from pijit.graph.vocabulary.maths import OF_FLOATS

_MOST_FACTORS = 4
Call = Callable[[Any, Mapping[str, Any], list[Any], dict[str, Any]], Any]


def is_number(argument: Any) -> bool:
    """A number of Python or NumPy, or one computed in the graph."""
    if isinstance(argument, Value):
        return argument.kind in {"int", "float", "bool"}
    return isinstance(argument, int | float)


def is_tensor(argument: Any) -> bool:
    """A tensor of the graph."""
    return isinstance(argument, Value) and argument.kind == "tensor"


def _kind(argument: Any) -> str:
    return argument.kind if isinstance(argument, Value) else type(argument).__name__


def _item_of(builder: Any, node: Mapping[str, Any], argument: Any) -> Any:
    """A tensor where a function of the module math takes a number: `math.sqrt(x.sum())`."""
    return builder.item(node, argument) if is_tensor(argument) else argument


def _numbers(row: str, kind: str = "") -> Call:
    """A row of numbers; `kind` of the result, or "": float if an argument is one, else int."""

    def call(builder: Any, node: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
        args = [_item_of(builder, node, each) for each in args]
        if named or not args or not all(map(is_number, args)):
            return UNKNOWN
        found = kind or ("float" if "float" in map(_kind, args) else "int")
        return builder.number(node, row, args, found)

    return call


def _product(builder: Any, node: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
    items = args[0] if args else None
    if named or len(args) != 1 or not isinstance(items, tuple | list) or not all(map(is_number, items)):
        return UNKNOWN
    made: Any = 1
    for item in items:
        kind = "float" if "float" in (_kind(made), _kind(item)) else "int"
        made = item if made == 1 and type(made) is int else builder.number(node, "scalar_multiply", [made, item], kind)
    return made


def _divmod(builder: Any, node: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
    if len(args) != 2 or not all(map(is_number, args)):
        return UNKNOWN
    kind = "float" if "float" in map(_kind, args) else "int"
    return tuple(builder.number(node, f"scalar_{name}", args, kind) for name in ("floor_divide", "remainder"))


def _logarithm(builder: Any, node: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
    if named or not 1 <= len(args) <= 2 or not all(map(is_number, args)):
        return _numbers("scalar_log", "float")(builder, node, args, named) if len(args) == 1 else UNKNOWN
    if len(args) == 1:
        return builder.number(node, "scalar_log", args, "float")
    both = [builder.number(node, "scalar_log", [each], "float") for each in args]
    return builder.number(node, "scalar_divide", both, "float")


def _power(builder: Any, node: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
    if len(args) != 2 or not all(map(is_number, args)):
        return UNKNOWN
    both = [builder.number(node, "scalar_float", [each], "float") for each in args]
    return builder.number(node, "scalar_pow", both, "float")


def _absolute(builder: Any, node: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
    if len(args) != 1 or not is_number(args[0]):
        return UNKNOWN
    return builder.number(node, "scalar_abs", [builder.number(node, "scalar_float", args, "float")], "float")


def _angle(factor: float) -> Call:
    def call(builder: Any, node: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
        if len(args) != 1 or not is_number(args[0]):
            return UNKNOWN
        return builder.number(node, "scalar_multiply", [args[0], factor], "float")

    return call


# An operator of Python on a tensor and a number that the recorder did not know: the operators of torch for it, where
# the tensor stands first, and where it stands second.
_OPERATORS: dict[Callable[..., Any], tuple[str, str]] = {
    operator.add: ("aten::add.Tensor", "aten::add.Tensor"),
    operator.mul: ("aten::mul.Tensor", "aten::mul.Tensor"),
    operator.sub: ("aten::sub.Tensor", "aten::rsub.Scalar"),
    operator.truediv: ("aten::div.Tensor", ""),
    operator.floordiv: ("aten::floor_divide", ""),
    operator.mod: ("aten::remainder.Scalar", ""),
    operator.pow: ("aten::pow.Tensor_Scalar", "aten::pow.Scalar"),
    operator.lt: ("aten::lt.Scalar", "aten::gt.Scalar"),
    operator.le: ("aten::le.Scalar", "aten::ge.Scalar"),
    operator.gt: ("aten::gt.Scalar", "aten::lt.Scalar"),
    operator.ge: ("aten::ge.Scalar", "aten::le.Scalar"),
    operator.eq: ("aten::eq.Scalar", "aten::eq.Scalar"),
    operator.ne: ("aten::ne.Scalar", "aten::ne.Scalar"),
}


_TESTS = {operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne}


def _operation(function: Callable[..., Any], row: str) -> Call:
    first, second = _OPERATORS[function]

    def call(builder: Any, node: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
        if len(args) != 2 or named:
            return UNKNOWN
        if any(isinstance(each, Known) for each in args) and not any(isinstance(each, Value) for each in args):
            return _numpy(function)(builder, node, args, named)
        if function is operator.mul and (repeated := _repeated(builder, node, *args)) is not UNKNOWN:
            return repeated
        if all(map(is_number, args)):
            return _numbers(row, "bool" if function in _TESTS else "float" if row == "scalar_divide" else "")(
                builder, node, args, named
            )
        left, right = (creation.constant(builder, node, each) if isinstance(each, Known) else each for each in args)
        if is_tensor(left) and (is_number(right) or is_tensor(right)):
            name = first.replace("Scalar", "Tensor") if is_tensor(right) else first
            return builder.operator(node, name, [left, right])
        if is_tensor(right) and is_number(left):
            if second == "aten::pow.Scalar":
                return builder.operator(node, second, [left, right])
            if second:
                return builder.operator(node, second, [right, left])
            if function is operator.truediv:
                made = builder.operator(node, "aten::reciprocal", [right])
                return builder.operator(node, "aten::mul.Tensor", [made, left])
        return UNKNOWN

    return call


def _repeated(builder: Any, node: Mapping[str, Any], items: Any, count: Any) -> Any:
    """`[9] * x.shape[0]`: so many items as in the call, which fixes the size."""
    if isinstance(count, tuple | list):
        items, count = count, items
    if not isinstance(items, tuple | list) or not is_number(count):
        return UNKNOWN
    number = builder.fixed(node, count)
    return UNKNOWN if number is None else items * number


# By the name that a call of Python's function on a tensor has in a trace.
OF_TORCH: dict[str, Call] = {
    f"torch::{name}": _operation(getattr(operator, name), f"scalar_{row}")
    for name, row in (("add", "add"), ("sub", "subtract"), ("mul", "multiply"), ("truediv", "divide"), ("pow", "pow"))
}


def _negated(builder: Any, node: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
    """`not x` of a tensor, which is a number for a decision."""
    return builder.negated(node, args[0]) if len(args) == 1 and is_tensor(args[0]) else UNKNOWN


def _item(builder: Any, node: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
    """`x[index]` of a tensor with what NumPy has made in the index, or of a tuple."""
    if len(args) != 2 or named:
        return UNKNOWN
    thing, index = args
    if isinstance(thing, Known):
        return _numpy(operator.getitem)(builder, node, args, named)
    if isinstance(thing, tuple) and type(index) is int and -len(thing) <= index < len(thing):
        return thing[index]
    if not is_tensor(thing):
        return UNKNOWN
    index = creation.with_constants(builder, node, index)
    if isinstance(index, list) and all(map(is_number, index)):
        index = (index,)  # a list of numbers is one item of an index; torch takes others for tuples
    return UNKNOWN if holds_opaque(index) else builder.operator(node, "tensor::getitem", [thing, index])


def _combinations(builder: Any, node: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
    """`math.comb(n, k)` of a size and a small number: n (n - 1) ... over k!. Below 0, as data may be, it raises."""
    if len(args) != 2 or named or not is_number(args[0]) or builder.is_of_data(args[0]):
        return UNKNOWN
    if type(args[1]) is not int or not 0 <= args[1] <= _MOST_FACTORS:
        return UNKNOWN
    made: Any = 1
    for at in range(args[1]):
        factor = builder.number(node, "scalar_subtract", [args[0], at], "int") if at else args[0]
        made = builder.number(node, "scalar_multiply", [made, factor], "int") if at else factor
    return builder.number(node, "scalar_floor_divide", [made, math.factorial(args[1])], "int")


def _device_number(builder: Any, node: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
    """`x.get_device()`: a graph stays on the devices of its call."""
    device = args[0].device if len(args) == 1 and is_tensor(args[0]) else None
    if device is None:
        return UNKNOWN
    return -1 if device == "cpu" else int(device.partition(":")[2] or 0)


def _fields(builder: Any, node: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
    """A tuple of torch with names for its items, made of these items: `torch.return_types.max((x, y))`."""
    return args[0] if len(args) == 1 and not named and isinstance(args[0], tuple) else UNKNOWN


def _subclass(builder: Any, node: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
    """What `Parameter(x)` calls: it has the content of x."""
    kind = next(iter(node.get("operands", ())), ("none",))
    if kind != ("const", sys.modules["torch"].nn.Parameter) or len(args) < 2 or not is_tensor(args[1]):
        return UNKNOWN
    return builder.operator(node, "aten::detach", [args[1]])


def _folded(row: str) -> Call:
    """`np.multiply.reduce(sizes)`, which is what `np.prod` calls."""

    def call(builder: Any, node: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
        items = args[0] if args else None
        if named or any(each is not None for each in args[1:]) or not isinstance(items, tuple | list) or not items:
            return UNKNOWN
        if not all(map(is_number, items)):
            return UNKNOWN

        def step(made: Any, item: Any) -> Any:
            return builder.number(node, row, [made, item], "float" if "float" in (_kind(made), _kind(item)) else "int")

        return functools.reduce(step, items)

    return call


def _numpy(function: Callable[..., Any]) -> Call:
    """A function of NumPy on constants has one result for good; what shares memory with them does so here."""

    def call(builder: Any, node: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
        given = [_native(each) for each in (*args, *named.values())]
        if any(map(_is_of_graph, given)) or any(map(builder.is_written, given)):
            return UNKNOWN
        named = dict(zip(named, given[len(args) :], strict=True))
        try:
            return known(function(*given[: len(args)], **named))
        except Exception:
            return UNKNOWN

    return call


def _native(argument: Any) -> Any:
    """An argument as NumPy takes it."""
    if isinstance(argument, Known):
        return argument.made
    if isinstance(argument, Slice):
        return slice(argument.start, argument.stop, argument.step)
    return type(argument)(map(_native, argument)) if type(argument) in {tuple, list} else argument


def is_dtype(thing: Any) -> bool:
    """A dtype as NumPy takes it, that is not one of torch."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return False
    return isinstance(thing, numpy.dtype) or (
        isinstance(thing, type) and issubclass(thing, (numpy.generic, bool, int, float))
    )


def _is_of_graph(thing: Any) -> bool:
    if isinstance(thing, tuple | list):
        return any(map(_is_of_graph, thing))
    if isinstance(thing, slice):
        return any(map(_is_of_graph, (thing.start, thing.stop, thing.step)))
    return isinstance(thing, Value | Opaque)


def known(made: Any) -> Any:
    """What NumPy has made, as an argument: numbers are those of Python."""
    numpy = sys.modules["numpy"]
    if isinstance(made, numpy.generic) and isinstance(number := made.item(), bool | int | float):
        return number
    return Known(made) if isinstance(made, numpy.ndarray | numpy.dtype) else made


# By name in NumPy: functions that only compute with what they are given.
_OF_NUMPY = (
    "array asarray arange empty zeros ones full linspace eye int8 int16 int32 int64 uint8 float32 float64 bool_ "
    "dtype sqrt exp log log2 log10 sin cos tan tanh floor ceil prod sum stack concatenate reshape maximum minimum power"
)
# By name: functions of NumPy that fold an array, and their rows of numbers.
_FOLDS = {"multiply": "scalar_multiply", "add": "scalar_add", "maximum": "scalar_max", "minimum": "scalar_min"}
# By name: methods of arrays that only look, some of which give an array that shares memory, and those that write.
_READS = ("reshape", "ravel", "transpose", "squeeze", "flatten", "astype", "copy")
_WRITES = ("fill", "__setitem__", "sort", "put")
_IN_PLACE = (operator.iadd, operator.isub, operator.imul)
# By name in NumPy: rows of numbers.
_NUMBERS_OF_NUMPY = {
    **{name: f"scalar_{name}" for name in ("sqrt", "exp", "log", "log2", "log10", "log1p", "expm1")},
    **{name: f"scalar_{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "floor", "ceil", "trunc")},
    "power": "scalar_pow",
    "maximum": "scalar_max",
    "minimum": "scalar_min",
}


def _either(one: Call, other: Call) -> Call:
    def call(builder: Any, node: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
        made = one(builder, node, args, named)
        return other(builder, node, args, named) if made is UNKNOWN else made

    return call


def _of_numpy(numpy: Any) -> dict[Any, Call]:
    found: dict[Any, Call] = {}
    for name in _OF_NUMPY.split():
        if (function := getattr(numpy, name, None)) is not None:
            found[function] = _numpy(function)
    for name, row in _NUMBERS_OF_NUMPY.items():
        kind = "" if row in {"scalar_pow", "scalar_max", "scalar_min"} else "float"
        whole = row in {"scalar_floor", "scalar_ceil", "scalar_trunc"}
        own = _whole(row) if whole else _numbers(row, kind)
        function = getattr(numpy, name)
        found[function] = _either(_numpy(function), own)
    found[numpy.prod] = _either(_numpy(numpy.prod), _product)
    for name, row in _FOLDS.items():
        function = getattr(numpy, name).reduce
        found[function] = _either(_numpy(function), _folded(row))
    found.update((getattr(numpy.ndarray, name), _numpy(getattr(numpy.ndarray, name))) for name in _READS)
    found.update((getattr(numpy.ndarray, name), _written(getattr(numpy.ndarray, name))) for name in _WRITES)
    found.update((function, _written(function)) for function in (numpy.copyto, operator.setitem, *_IN_PLACE))
    for function, call in list(found.items()):  # behind a function that asks whether a class has one of its own
        if (inner := getattr(function, "_implementation", None)) is not None:
            found[inner] = call
    return found


def _written(function: Callable[..., Any]) -> Call:
    """What writes to an array of constants is done once more, on the array that stands for it."""

    def call(builder: Any, node: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
        if not args or not isinstance(args[0], Known) or builder.is_shared(args[0].made):
            return UNKNOWN
        return _numpy(function)(builder, node, args, named)

    return call


def _whole(row: str) -> Call:
    """NumPy's floor and ceil give floats."""

    def call(builder: Any, node: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
        made = _numbers(row, "int")(builder, node, args, named)
        return made if made is UNKNOWN else builder.number(node, "scalar_float", [made], "float")

    return call


_OF_PYTHON: dict[Any, Call] = {
    math.prod: _product,
    divmod: _divmod,
    math.comb: _combinations,
    math.log: _logarithm,
    math.pow: _power,
    math.fabs: _absolute,
    math.degrees: _angle(180.0 / math.pi),
    math.radians: _angle(math.pi / 180.0),
    operator.getitem: _item,
    operator.not_: _negated,
    **{NUMBERS[f"scalar_{name}"]: _numbers(f"scalar_{name}", "float") for name in OF_FLOATS if name != "log"},
    **{function: _numbers(f"scalar_{function.__name__}", "int") for function in (math.floor, math.ceil)},
    **{function: _operation(function, row) for row, function in NUMBERS.items() if function in _OPERATORS},
}


def _of_tensors(torch: Any) -> dict[Any, Call]:
    """Methods of tensors that are called by their names, and the classes of what torch returns."""
    types = (each for each in vars(torch.return_types).values() if isinstance(each, type) and issubclass(each, tuple))
    return {
        torch._C.TensorBase.__getitem__: _item,
        torch._C.TensorBase.get_device: _device_number,
        torch.Tensor._make_subclass: _subclass,
        **dict.fromkeys(types, _fields),
    }


def _of_einsum(torch: Any) -> dict[Any, Call]:
    """What torch asks for the path of an einsum: it hangs on sizes alone, and contractions.py asks again."""

    def path(builder: Any, node: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
        return Opaque("a path")

    def is_there(builder: Any, node: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
        return torch.backends.opt_einsum.is_available()

    package = torch.backends.opt_einsum.get_opt_einsum()
    found: dict[Any, Call] = {torch.backends.opt_einsum.is_available: is_there}
    return found if package is None else {**found, package.contract_path: path}


@functools.cache
def _table(numpy: bool, torch: bool) -> dict[Any, Call]:
    found = dict(_OF_PYTHON)
    if torch:
        found.update(creation.calls())
        found.update(nested.calls())
        found.update(_of_einsum(sys.modules["torch"]))
        found.update(_of_tensors(sys.modules["torch"]))
    if numpy:
        found.update(_of_numpy(sys.modules["numpy"]))
    return found


def call_of(callable_: Any) -> Call | None:
    """What is known of a callable."""
    try:
        return _table("numpy" in sys.modules, "torch" in sys.modules).get(callable_)
    except TypeError:  # it has no hash
        return None
