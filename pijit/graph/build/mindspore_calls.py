"""Calls of MindSpore's operators in a trace, as operators of a graph.

The trace has such a call as MindSpore's Python layers make it: a function of C that is given a primitive and a list of
operands, the executor's with a primitive and its name, a method of the class of tensors, an operator of Python.
All of them have a name; in the table below it stands for an operator of torch with the same meaning. Each call is made
once more on the tensors of the call that was captured: so the graph knows the dtype and the sizes of each result.
"""

import operator
import sys
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pijit.errors import ExportError
from pijit.graph.build.array_values import tensor_of, with_types
from pijit.graph.build.known_calls import is_number, is_tensor
from pijit.graph.build.opaque_objects import UNKNOWN, Known, Opaque
from pijit.graph.model import Graph, Token, Value, place_of
from pijit.graph.run import bind, caller
from pijit.graph.torch_calls import NUMBERS

_UNARY = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "expm1",
    "floor",
    "isfinite",
    "log",
    "log10",
    "log1p",
    "log2",
    "neg",
    "reciprocal",
    "relu",
    "relu6",
    "round",
    "rsqrt",
    "sigmoid",
    "silu",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
    "logical_not",
]
# MindSpore's name in small letters, without "_" -> torch's.
_SAME = {name.replace("_", ""): name for name in _UNARY}
_SAME |= {"acosext": "acos", "asinext": "asin", "atanext": "atan", "negative": "neg", "absolute": "abs"}
_SAME |= {
    "identity": "clone",
    "clone": "clone",
    "hsigmoid": "hardsigmoid",
    "hswish": "hardswish",
    "softplus": "softplus",
}
_BINARY = {"add": "add", "addext": "add", "sub": "sub", "subext": "sub", "mul": "mul", "div": "div", "realdiv": "div"}
_BINARY |= {"truediv": "div", "divs": "div", "muls": "mul", "addscalar": "add", "subscalar": "sub", "subtract": "sub"}
_BINARY |= {"pow": "pow", "powtensorscalar": "pow", "maximum": "maximum", "minimum": "minimum"}
_TESTS = {"equal": "eq", "eq": "eq", "notequal": "ne", "ne": "ne", "less": "lt", "lt": "lt", "lessequal": "le"}
_TESTS |= {"le": "le", "greater": "gt", "gt": "gt", "greaterequal": "ge", "ge": "ge", "eqscalar": "eq"}
_MATMULS = {"matmul", "matmulext", "batchmatmul", "mm", "bmmext"}
_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}


def _class_of_tensors() -> type | None:
    """MindSpore's, if that is imported, and to its end."""
    return getattr(sys.modules.get("mindspore"), "Tensor", None)


def is_tensor_of_mindspore(thing: Any) -> bool:
    """It is a tensor of MindSpore, where that is imported."""
    return isinstance(thing, _class_of_tensors() or ())


def facts(tensor: Any) -> tuple[str, tuple[int, ...], str]:
    """Dtype, shape and device of a tensor of MindSpore, in a graph's words."""
    return str(tensor.dtype).lower().replace("bool_", "bool"), tuple(tensor.shape), "cpu"


def plain_of(thing: Any) -> Any:
    """The array of a tensor of MindSpore; anything else as it is."""
    return thing.asnumpy() if is_tensor_of_mindspore(thing) else thing


class Tensors:
    """The tensors of MindSpore in a graph that a builder makes, and the calls on them."""

    def __init__(self, builder: Any) -> None:
        self.builder = weakref.proxy(builder)
        self.row: Mapping[str, Any] = {}
        self.examples: dict[str, Any] = {}  # by the name of a value
        self.held: list[Any] = []  # values are found by the identity of a tensor

    # -- what comes in

    def take(self, leaves: Any) -> None:
        """The tensors in the arguments."""
        for leaf in leaves:
            if is_tensor_of_mindspore(leaf.tensor):
                self.examples[self.builder._inputs[id(leaf.tensor)].name] = leaf.tensor

    def constant(self, tensor: Any, word: str = "") -> Value:
        """The value of a tensor that was there before the call."""
        builder = self.builder
        found = builder._inputs.get(id(tensor)) or builder._parameters.get(id(tensor))
        if found is not None:
            return found  # type: ignore[no-any-return]
        name = getattr(tensor, "name", "") if "param_info" in dir(type(tensor)) else ""
        dtype, shape, device = facts(tensor)
        value = Value(builder._fresh(str(name or word or "constant")), "tensor", "constant", dtype, shape, device)
        builder._parameters[id(tensor)] = value
        builder._arrays[value.name] = tensor_of(tensor.asnumpy().copy())
        builder._of_data.add(value.name)
        self.examples[value.name] = tensor
        return value

    # -- calls

    def call(self, row: Mapping[str, Any]) -> bool:
        """A row of the trace; False: it is no call of MindSpore's."""
        if _class_of_tensors() is None or row["a"][0] != "const" or row.get("out") is None:
            return False
        function, operands = row["a"][1], [self._argument(each) for each in row.get("operands", ())]
        if row["op"] == "pure":
            return self._part(row, function, operands)
        if function is getattr:
            return self._attribute(row, operands)
        if function is _class_of_tensors():
            return self._made(row, operands)
        name, positional = _name_of(function, operands)
        if not name:
            return False
        if not any(isinstance(each, Value) for each in _flat(positional)):
            return self._of_literals(row, function, operands)
        names = row["b"][1] if row.get("b") is not None and row["b"][0] == "const" else ()
        first = len(positional) - len(names)
        named = dict(zip(names, positional[first:], strict=True))
        try:
            example = function(
                *map(self._native, operands[: len(operands) - len(names)]),
                **{key: self._native(each) for key, each in named.items()},
            )
        except Exception:  # it has no example, and so no dtypes
            return False
        self.row = row
        if example is None:  # the program waits for an operator
            self.builder._registers[row["out"]] = None
            return True
        rule = _RULES.get(name)
        try:
            made = UNKNOWN if rule is None else rule(self, example, *positional[:first], **named)
        except (TypeError, ValueError, IndexError):  # it is given what the rule does not know
            made = UNKNOWN
        self.builder._registers[row["out"]] = self._noted(name, made, example, positional)
        return True

    def _of_literals(self, row: Mapping[str, Any], function: Any, operands: list[Any]) -> bool:
        """A question about dtypes or numbers that has the same answer in each call."""
        if row.get("b") is not None:
            return False
        try:
            found = function(*map(self._native, operands))
        except Exception:
            return False
        if not all(isinstance(each, bool | int | float) for each in _flat([found])):
            return False
        self.builder._registers[row["out"]] = found
        return True

    def _made(self, row: Mapping[str, Any], operands: list[Any]) -> bool:
        """A tensor of numbers that every call has."""
        if row.get("b") is not None or any(isinstance(each, Value) for each in _flat(operands)):
            return False
        made = sys.modules["mindspore"].Tensor(*map(self._native, operands))
        self.held.append(made)
        self.builder._registers[row["out"]] = self.constant(made)
        return True

    def _part(self, row: Mapping[str, Any], function: Any, operands: list[Any]) -> bool:
        if not operands or not isinstance(operands[0], tuple) or function not in {len, operator.getitem}:
            return False
        self.builder._registers[row["out"]] = function(*operands)
        return True

    def _attribute(self, row: Mapping[str, Any], operands: list[Any]) -> bool:
        thing, name = operands
        if not is_tensor(thing) or thing.name not in self.examples:
            return False
        found = getattr(self.examples[thing.name], name)
        self.row = row
        if name == "_shape":
            found = tuple(self._size(thing, axis) for axis in range(len(found)))
        elif not isinstance(found, int | tuple):
            found = Known(found)
        self.builder._registers[row["out"]] = found
        return True

    def _size(self, value: Value, axis: int) -> Value:
        made = Value(self.builder._fresh("size"), "int")
        self.builder._emit(self.row, "size", {"x": value, "axis": axis}, (made,), origin="tensor::size")
        self.examples[made.name] = self.examples[value.name].shape[axis]
        return made

    def _argument(self, value: Any) -> Any:
        if value[0] == "const" and not isinstance(value[1], bool | int | float | str | type(None) | tuple | list):
            return self.constant(value[1]) if is_tensor_of_mindspore(value[1]) else Known(value[1])
        if value[0] in {"reg", "tuple", "list", "slice", "none"}:
            content = self.builder._content(value)
            if content[0] in {"tuple", "list"}:
                return (tuple if content[0] == "tuple" else list)(map(self._argument, content[-1]))
        return self.builder._argument(value)

    def _native(self, argument: Any) -> Any:
        if isinstance(argument, Value):
            if argument.name not in self.examples:
                self.examples[argument.name] = self._number(argument)
            return self.examples[argument.name]
        if isinstance(argument, Known):
            return argument.made
        if isinstance(argument, Opaque):
            raise TypeError(argument.what)
        return type(argument)(map(self._native, argument)) if type(argument) in {tuple, list} else argument

    def _number(self, value: Value) -> Any:
        """What a number of the graph is in the call."""
        node = next((each for each in reversed(self.builder._nodes) if value in each.results), None)
        if node is None or node.op not in NUMBERS:
            raise TypeError(value.name)
        return NUMBERS[node.op](*map(self._native, node.arguments.values()))

    def _noted(self, name: str, made: Any, example: Any, operands: list[Any]) -> Any:
        """The result, with the examples of its tensors; where no rule says it, a node of Python."""
        if made is UNKNOWN:
            values = dict.fromkeys(each for each in _flat(operands) if isinstance(each, Value))
            made = self._fresh_like(name, example)
            results = tuple(each for each in _flat([made]) if isinstance(each, Value))
            arguments = {f"x{at}": value for at, value in enumerate(values)}
            why = "no operator of a graph does what this operator of MindSpore does"
            self.builder._emit(self.row, f"python::{name}", arguments, results, origin=why)
        for value, found in zip(_flat([made]), _flat([example]), strict=False):
            if isinstance(value, Value):
                self.examples[value.name] = found
        return made

    def _fresh_like(self, name: str, example: Any) -> Any:
        if isinstance(example, tuple | list):
            return tuple(self._fresh_like(name, each) for each in example)
        return Value(self.builder._fresh(name)) if is_tensor_of_mindspore(example) else example

    # -- operators

    def op(self, name: str, *operands: Any, **words: Any) -> Any:
        """What an operator of torch gives."""
        return self.builder.operator(self.row, f"aten::{name}", list(operands), words or None)

    def astype(self, value: Any, dtype: str) -> Any:
        """A tensor in a dtype; itself if it has that."""
        if value.name in self.examples and facts(self.examples[value.name])[0] == dtype:
            return value
        return self.builder.astype(self.row, value, {"dtype": Token("dtype", dtype)})

    def checked(self, graph: Graph) -> Graph:
        """The graph, of which all results have the dtypes and sizes that MindSpore gave.

        Raises:
            ExportError: a result has others, with its line.
        """
        if not self.examples:
            return graph
        made = {}
        between = self._between(graph)  # of the dtypes that MindSpore gives
        for node in graph.nodes:
            for value in node.results:
                found = self.examples.get(value.name, between.get(value.name)) if value is not None else None
                if value is None or not is_tensor_of_mindspore(found):
                    continue
                dtype, shape, device = facts(found)
                if value.shape is None:
                    made[value.name] = replace(value, dtype=dtype, shape=shape, device=device)
                elif value.dtype != dtype or len(value.shape) != len(shape):
                    raise ExportError(
                        f"{place_of(node)}{node.op} gives {value.type} in a graph, where MindSpore gives {dtype}"
                        f"{list(shape)}; compute that outside of the function"
                    )
        if not made:
            return graph
        return with_types(graph, made)

    def _between(self, graph: Graph) -> dict[str, Any]:
        """What stands between the operators of one call, where torch has not said what it is."""
        values = [value for each in graph.nodes for value in each.results if value is not None]
        if graph.breaks or all(value.shape is not None for value in values):
            return {}
        mindspore, call = sys.modules["mindspore"], caller("mindspore")
        made = {name: self.examples.get(name, each) for name, each in graph.data.items()}
        made |= {value.name: self.examples[value.name] for value in graph.inputs if value.name in self.examples}
        if any(value.name not in made for value in graph.inputs):
            return {}
        with mindspore._no_grad():
            for node in graph.nodes:
                bind(node, call(node, made), made)
        return made


def _flat(things: Any) -> list[Any]:
    return [leaf for each in things for leaf in (_flat(each) if isinstance(each, tuple | list) else [each])]


def _name_of(function: Any, operands: list[Any]) -> tuple[str, list[Any]]:
    """The operator that is called, in small letters, and its operands; "": it is none."""
    name = getattr(function, "__name__", "")
    if name in {"run_op_async", "real_run_op"} and len(operands) == 4:
        name, operands = operands[2], list(operands[3])
    elif name == "__call__" and len(operands) == 2 and isinstance(operands[0], Known):
        name, operands = operands[0].made.name, list(operands[1])
    elif name.startswith("pyboost_") and len(operands) == 2:
        name, operands = name.removeprefix("pyboost_"), list(operands[1])
    elif not name and type(function).__name__.endswith("Functional_"):
        name = type(function).__name__.removesuffix("Functional_")
    return name.replace("_", "").lower(), operands


Rule = Callable[..., Any]
_RULES: dict[str, Rule] = {}


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def note(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(names, rule))
        return rule

    return note


def _unary(name: str) -> Rule:
    return lambda tensors, example, x: tensors.op(name, x)


def _binary(name: str, test: bool = False) -> Rule:
    plain = name in {"maximum", "minimum"}

    def rule(tensors: Tensors, example: Any, x: Any, y: Any, alpha: Any = 1) -> Any:
        if alpha != 1 or not all(is_tensor(each) or is_number(each) for each in (x, y)):
            return UNKNOWN
        if plain:
            return tensors.op(name, x, y) if is_tensor(x) and is_tensor(y) else UNKNOWN
        suffix = ("Tensor_Tensor" if is_tensor(y) else "Tensor_Scalar") if name == "pow" else None
        if is_tensor(x):
            return tensors.op(f"{name}.{suffix or ('Tensor' if is_tensor(y) else 'Scalar')}", x, y)
        if name == "pow":
            return tensors.op("pow.Scalar", x, y)
        if test or name in {"add", "mul"}:
            return tensors.op(f"{_SWAPPED.get(name, name)}.Scalar", y, x)
        if name == "sub":
            return tensors.op("rsub.Scalar", y, x)
        return tensors.op("mul.Tensor", tensors.op("reciprocal", y), x)

    return rule


_RULES.update((name, _unary(torch)) for name, torch in _SAME.items())
_RULES.update((name, _binary(torch)) for name, torch in _BINARY.items())
_RULES.update((name, _binary(torch, test=True)) for name, torch in _TESTS.items())


@_rule(*_MATMULS)
def _matmul(tensors: Tensors, example: Any, x: Any, y: Any, left: bool = False, right: bool = False) -> Any:
    x = tensors.op("transpose.int", x, -1, -2) if left else x
    y = tensors.op("transpose.int", y, -1, -2) if right else y
    return tensors.op("matmul", x, y)


@_rule("biasadd")
def _bias_add(tensors: Tensors, example: Any, x: Any, bias: Any, data_format: Any = 0) -> Any:
    axes = len(example.shape)
    return tensors.op("add.Tensor", x, bias if axes == 2 else tensors.op("view", bias, (1, -1) + (1,) * (axes - 2)))


@_rule("gelu")
def _gelu(tensors: Tensors, example: Any, x: Any) -> Any:
    return tensors.op("gelu", x, approximate="tanh")


@_rule("geluext")
def _gelu_ext(tensors: Tensors, example: Any, x: Any, approximate: Any = "none") -> Any:
    return tensors.op("gelu", x, approximate="tanh" if approximate in {1, "tanh"} else "none")


@_rule("softmax", "logsoftmax", "logsoftmaxext")
def _softmax(tensors: Tensors, example: Any, x: Any, axis: Any = -1, dtype: Any = None) -> Any:
    axis = axis[0] if isinstance(axis, tuple) and len(axis) == 1 else axis
    if dtype is not None or not isinstance(axis, int):
        return UNKNOWN
    return tensors.op(f"{_called(tensors)}.int", x, axis)


def _called(tensors: Tensors) -> str:
    """Which of two operators a rule is for."""
    operands = [tensors._argument(each) for each in tensors.row.get("operands", ())]
    return "log_softmax" if _name_of(tensors.row["a"][1], operands)[0].startswith("log") else "softmax"


@_rule("layernorm", "layernormext")
def _layer_norm(tensors: Tensors, example: Any, x: Any, *operands: Any) -> Any:
    if isinstance(operands[0], tuple | list):
        shape, gamma, beta, epsilon = operands
        count = len(shape)
    else:
        gamma, beta, axis, start, epsilon = operands
        rank = len(tensors.examples[x.name].shape)
        if axis % rank != start % rank:
            return UNKNOWN
        count = rank - axis % rank
    sizes = tuple(tensors.examples[x.name].shape[-count:])
    made = tensors.op("layer_norm", x, sizes, gamma, beta, epsilon)
    axes = tuple(range(-count, 0))
    mean = tensors.op("mean.dim", x, axes, True)
    return made, mean, tensors.op("var.correction", x, axes, correction=0, keepdims=True)


@_rule("reshape", "view")
def _reshape(tensors: Tensors, example: Any, x: Any, *shape: Any) -> Any:
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
    return tensors.op("reshape", x, sizes)


@_rule("transpose", "permute")
def _transpose(tensors: Tensors, example: Any, x: Any, *axes: Any) -> Any:
    order = tuple(axes[0]) if len(axes) == 1 and isinstance(axes[0], tuple | list) else axes
    return tensors.op("permute", x, order) if len(order) == len(example.shape) else UNKNOWN


@_rule("transposeextview")
def _swap(tensors: Tensors, example: Any, x: Any, first: Any, second: Any) -> Any:
    return tensors.op("transpose.int", x, first, second)


@_rule("sum", "sumext", "mean", "meanext", "reducesum", "reducemean")
def _reduce(tensors: Tensors, example: Any, x: Any, *rest: Any, **named: Any) -> Any:
    axis = named.get("axis", named.get("dim", rest[0] if rest else None))
    keep = named.get("keepdims", named.get("keep_dims", named.get("keepdim", rest[1] if len(rest) > 1 else False)))
    operands = [tensors._argument(each) for each in tensors.row.get("operands", ())]
    name = "mean" if "mean" in _name_of(tensors.row["a"][1], operands)[0] else "sum"
    if axis is None or axis == ():
        axes: tuple[int, ...] = tuple(range(len(tensors.examples[x.name].shape)))
    else:
        axes = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    made = tensors.op("mean.dim" if name == "mean" else "sum.dim_IntList", x, axes, keep)
    return made if facts(example)[0] == facts(tensors.examples[x.name])[0] else tensors.astype(made, facts(example)[0])


@_rule("cast", "to", "castext")
def _cast(tensors: Tensors, example: Any, x: Any, *_: Any) -> Any:
    return tensors.astype(x, facts(example)[0])


@_rule("concat", "cat")
def _concat(tensors: Tensors, example: Any, arrays: Any, axis: Any = 0) -> Any:
    return tensors.op("cat", tuple(arrays), axis)


@_rule("expanddims", "unsqueeze", "expanddimsview")
def _unsqueeze(tensors: Tensors, example: Any, x: Any, axis: Any) -> Any:
    return tensors.op("unsqueeze", x, axis)


@_rule("select", "where")
def _where(tensors: Tensors, example: Any, condition: Any, x: Any, y: Any) -> Any:
    return tensors.op("where.self", condition, x, y) if is_tensor(x) and is_tensor(y) else UNKNOWN
