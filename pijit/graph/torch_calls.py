"""The call of torch that a node stands for: the very operator that the program called, with its own arguments.

A call is data: `Graph.run` makes it, the format `fx` makes a node of it, the format `python` makes text of it.
"""

import math
import operator
import sys
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from pijit.errors import ExportError
from pijit.graph import vocabulary
from pijit.graph.model import Node, Value, place_of
from pijit.graph.vocabulary.maths import OF_FLOATS

# Operators that need the strides that their operand had at the capture, which a graph does not say.
_OF_ONE_LAYOUT = {"aten::_unsafe_view": "aten::reshape", "aten::_reshape_alias": "aten::reshape"}

# What a call gives: one thing, several of which the node's results are items, or nothing.
Gives = Literal["one", "several", "nothing"]


# The rows that compute with numbers: what they are in Python.
NUMBERS: dict[str, Callable[..., Any]] = {
    "scalar_add": operator.add,
    "scalar_subtract": operator.sub,
    "scalar_multiply": operator.mul,
    "scalar_divide": operator.truediv,
    "scalar_floor_divide": operator.floordiv,
    "scalar_remainder": operator.mod,
    "scalar_pow": operator.pow,
    "scalar_negative": operator.neg,
    "scalar_abs": operator.abs,
    "scalar_min": min,
    "scalar_max": max,
    "scalar_equal": operator.eq,
    "scalar_not_equal": operator.ne,
    "scalar_less": operator.lt,
    "scalar_less_equal": operator.le,
    "scalar_greater": operator.gt,
    "scalar_greater_equal": operator.ge,
    "scalar_and": operator.and_,
    "scalar_or": operator.or_,
    "scalar_xor": operator.xor,
    "scalar_invert": operator.invert,
    "scalar_left_shift": operator.lshift,
    "scalar_right_shift": operator.rshift,
    "scalar_not": operator.not_,
    "scalar_truth": bool,
    "scalar_int": int,
    "scalar_float": float,
    **{f"scalar_{name}": getattr(math, name) for name in OF_FLOATS},
    "scalar_floor": math.floor,
    "scalar_ceil": math.ceil,
    "scalar_trunc": math.trunc,
    "scalar_round": round,
    "scalar_isqrt": math.isqrt,
    "scalar_gcd": math.gcd,
    "scalar_hypot": math.hypot,
    "scalar_atan2": math.atan2,
    "scalar_fmod": math.fmod,
}


class TorchCall(NamedTuple):
    """A call: of `function` with these arguments, in which there are values and tokens of the graph.

    Attributes:
        function: its path: "torch.ops.aten.linear.default", "operator.add", "math.trunc".
        args: by position.
        kwargs: by name.
        gives: what it gives.
        kept: name of the argument that is the node's first result, where the call gives nothing.
        copied: the first argument is copied before, and the copy is the result: the node does not write.
    """

    function: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    gives: Gives = "one"
    kept: str = ""
    copied: bool = False


# Operators that are no ATen operators: the path of the function, and the arguments that it takes, in order.
_OTHERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "tensor::size": ("torch.ops.aten.sym_size.int", ("x", "axis")),
    "tensor::dim": ("torch.ops.aten.dim.default", ("x",)),
    "tensor::numel": ("torch.ops.aten.sym_numel.default", ("x",)),
    "tensor::getitem": ("operator.getitem", ("x", "index")),
    "tensor::setitem": ("operator.setitem", ("x", "index", "value")),
    "tensor::literal": ("torch.ops.aten.clone.default", ("value",)),
    "tensor::item": ("torch.ops.aten.item.default", ("x",)),
    "tensor::int": ("builtins.int", ("x",)),
    "tensor::float": ("builtins.float", ("x",)),
    "tensor::bool": ("builtins.bool", ("x",)),
    "tensor::not": ("operator.not_", ("x",)),
    "tensor::data": ("torch.ops.aten.detach.default", ("x",)),
}
# Functions of numbers that leave a size free where Python's own would ask what it is.
_SYMBOLIC = {"scalar_float": "torch.sym_float"}
# By the name of the row, for nodes that a graph's own transformations made.
_ROWS = {"size": "tensor::size", "ndim": "tensor::dim", "numel": "tensor::numel", "getitem": "tensor::getitem"}


def path_of(function: Callable[..., Any]) -> str:
    """ "operator.add" for a function of the standard library."""
    module = function.__module__ or "builtins"
    return (
        f"{module.removeprefix('_')}.{function.__name__}" if module != "builtins" else f"builtins.{function.__name__}"
    )


def function_at(path: str) -> Any:
    """The function at a path; `AttributeError` if there is none."""
    import builtins

    import torch

    first, *rest = path.split(".")
    found: Any = {"torch": torch, "operator": operator, "math": math, "builtins": builtins}[first]
    for name in rest:
        found = getattr(found, name)
    return found


def torch_call(node: Node, format: str = "torch") -> TorchCall:
    """The call that a node stands for; `torch` is imported. `format` is for the error.

    Raises:
        ExportError: this torch has no such operator.
    """
    if node.op in NUMBERS:
        path = _SYMBOLIC.get(node.op) or path_of(NUMBERS[node.op])
        return TorchCall(path, tuple(node.arguments.values()), {})
    origin = _own(node) or _ROWS.get(node.op, "") or _usual(node)
    origin = _OF_ONE_LAYOUT.get(origin, origin)
    if origin == "torch::tensor":
        words = {name: node.arguments[name] for name in ("dtype", "device") if name in node.arguments}
        # Where torch.tensor looks at the number, scalar_tensor takes the default dtype.
        plain = "dtype" not in words or isinstance(node.arguments["value"], tuple)
        return TorchCall(
            "torch.tensor" if plain else "torch.ops.aten.scalar_tensor.default", (node.arguments["value"],), words
        )
    if origin in _OTHERS:
        function, names = _OTHERS[origin]
        args = tuple(
            index_of(node.arguments[name]) if name == "index" else node.arguments[name]
            for name in names
            if name in node.arguments
        )
        if origin == "tensor::setitem":
            return TorchCall(function, args, {}, "nothing", "x", copied=not node.writes)
        return TorchCall(function, args, {})
    namespace, _, name = origin.partition("::")
    base, _, overload = name.partition(".")
    function = f"torch.ops.{namespace}.{base}.{overload or 'default'}"
    try:
        schema = function_at(function)._schema
    except (AttributeError, RuntimeError, KeyError):
        raise ExportError(
            f"{place_of(node)}{node.op} ({origin or 'of no framework'}) is no operator of torch "
            f"{sys.modules['torch'].__version__}, so format {format!r} cannot hold it; capture the function again"
        ) from None
    given = _given(node, origin, schema)
    args, kwargs = _split(schema, given)
    gives = _gives(schema)
    target = node.arguments.get(node.writes[0]) if node.writes else None
    kept = gives == "nothing" and isinstance(target, Value)  # of a list nothing is the result
    first = schema.arguments[0].alias_info if schema.arguments else None
    copied = not node.writes and gives == "one" and first is not None and first.is_write
    return TorchCall(function, args, kwargs, gives, node.writes[0] if kept else "", copied)


def index_of(index: Any) -> Any:
    """An index as torch takes it: a tuple for axes, and lists of numbers within it."""
    return tuple(map(_listed, index)) if isinstance(index, tuple) else index


def _listed(item: Any) -> Any:
    return [_listed(each) for each in item] if isinstance(item, tuple | list) else item


def _own(node: Node) -> str:
    """The operator that the program called; of a node that was made functional the one that does not write."""
    namespace, _, name = node.origin.partition("::")
    base, dot, overload = name.partition(".")
    if base.endswith("_") and not base.endswith("__") and not node.writes:
        try:
            function_at(f"torch.ops.{namespace}.{base[:-1]}.{overload or 'default'}")
        except (AttributeError, RuntimeError, KeyError):
            return node.origin  # there is none: it writes to a copy
        return f"{namespace}::{base[:-1]}{dot}{overload}"
    return node.origin


def _usual(node: Node) -> str:
    """The operator that a row usually stands for; of several the one that takes the node's arguments."""
    row = vocabulary.rows().get(node.op)
    for pattern in row.patterns if row is not None else ():
        if node.arguments.keys() <= {*pattern.slots}:
            return pattern.operator
    return ""


def _given(node: Node, origin: str, schema: Any) -> dict[int, Any]:
    """The arguments by their position in the schema."""
    if node.is_foreign:
        places = {argument.name: at for at, argument in enumerate(schema.arguments)}
        return {places[name]: argument for name, argument in node.arguments.items()}
    return dict(vocabulary.called(origin, node.arguments))


def _split(schema: Any, given: dict[int, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments; what the schema has for a default is left out where nothing stands behind."""
    complete = {at: given.get(at, _MISSING) for at in range(len(schema.arguments))}
    values = {at: _value(complete[at], argument) for at, argument in enumerate(schema.arguments)}
    positions = [at for at, argument in enumerate(schema.arguments) if not argument.kwarg_only]
    while positions and _is_default(values[positions[-1]], schema.arguments[positions[-1]]):
        positions.pop()
    keywords = {
        argument.name: values[at]
        for at, argument in enumerate(schema.arguments)
        if argument.kwarg_only and not _is_default(values[at], argument)
    }
    return tuple(values[at] for at in positions), keywords


_MISSING = object()


def _value(value: Any, argument: Any) -> Any:
    """What is given for an argument; for one that has no meaning for the result, anything that torch takes."""
    kind = str(argument.type)
    if value is not _MISSING and not (value is None and "Optional" not in kind):
        return value
    if argument.has_default_value():
        default = argument.default_value
        return tuple(default) if isinstance(default, list) else default
    if kind == "bool":
        return argument.name == "cudnn_enabled"  # as torch.backends has it
    return None if "Optional" in kind else 0


def _is_default(value: Any, argument: Any) -> bool:
    if not argument.has_default_value():
        return False
    default = argument.default_value
    if isinstance(default, list):
        return isinstance(value, tuple) and list(value) == default
    return type(value) is type(default) and bool(value == default)


def _gives(schema: Any) -> Gives:
    returns = schema.returns
    if not returns:
        return "nothing"
    return "several" if len(returns) > 1 or str(returns[0].type).startswith("List[") else "one"
