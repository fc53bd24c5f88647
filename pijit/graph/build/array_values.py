"""Arrays of NumPy in a graph: what NumPy makes of them, said in operators whose dtypes and rules are those of torch.

NumPy promotes dtypes in a way of its own. So each call is made once more, on copies of what came in: the dtype that
NumPy gives is what the graph casts to. A tensor of the graph that stands for an array has such an *example*.

Rules:
1. A call has a row in `array_ufuncs` or `array_functions`, or is a call of Python between two parts of the graph.
2. Operands are cast to the dtype in which NumPy computes before the operator, whatever torch would promote to.
3. What NumPy copies is copied, and what it gives as a view is one: what is written to the one is seen in the other.
   Where the two would differ for an array that is written to, the call is one of Python.
4. `checked` compares dtypes and shapes of all results with those of NumPy.
"""

import importlib
import importlib.util
import operator
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pijit.errors import ExportError
from pijit.graph.build.opaque_objects import UNKNOWN, Known, Opaque
from pijit.graph.build.python_calls import number_row_of
from pijit.graph.model import Graph, Slice, Token, Value, place_of, replaced, values_of
from pijit.graph.model.memory import sharing
from pijit.graph.torch_calls import NUMBERS

# Dtypes that all frameworks have, by NumPy's names.
DTYPES = frozenset({"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"})
DTYPES |= {"complex64", "complex128"}


# What writes to what it is given.
_WRITE = {operator.setitem, operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv}
_WRITE |= {operator.imod, operator.ipow, operator.iand, operator.ior, operator.ixor, operator.ilshift, operator.irshift}
_WRITE.add(operator.imatmul)
# Kinds of numbers, and NumPy's classes of them.
_KINDS = {"bool": "bool_", "int": "integer", "float": "floating"}
_NUMBER_ROWS = {"maximum": "scalar_max", "minimum": "scalar_min", "sqrt": "scalar_sqrt", "bool": "scalar_truth"}
_NUMBER_ROWS |= {"add": "scalar_add", "subtract": "scalar_subtract", "multiply": "scalar_multiply"}
_NUMBER_ROWS |= {"divide": "scalar_divide", "int": "scalar_int", "float": "scalar_float"}


def is_array(thing: Any) -> bool:
    """An array of NumPy, of no derived class, with a dtype that a graph has."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(thing) is numpy.ndarray and is_dtype_known(thing.dtype)


def is_scalar(thing: Any) -> bool:
    """A number of NumPy with such a dtype."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(thing, numpy.generic) and is_dtype_known(thing.dtype)


def is_dtype_known(dtype: Any) -> bool:
    """A graph has it, in the byte order of the machine."""
    return bool(dtype.isnative) and dtype.name in DTYPES


def tensor_of(array: Any) -> Any:
    """A tensor of torch with this content, where torch is imported; else the array itself. A tensor is itself."""
    if hasattr(array, "layout"):
        return array
    torch = sys.modules.get("torch")
    return array if torch is None else torch.from_numpy(sys.modules["numpy"].array(array, order="C", copy=True))


class Arrays:
    """The arrays of a graph that a builder makes, and the calls of NumPy on them.

    Args:
        builder: of the graph.
        rule_of: the table of what calls are in a graph, `array_functions.rule_of`.
    """

    def __init__(self, builder: Any, rule_of: Callable[[Any], tuple[Any, bool]]) -> None:
        # The builder has this object, and what it holds, such as the place of a segment, dies with it at once.
        self.builder, self._rule_of = weakref.proxy(builder), rule_of
        self.row: Mapping[str, Any] = {}  # of the trace, at work
        self.examples: dict[str, Any] = {}  # by the name of a value: what NumPy has there
        self._numbers: dict[str, Any] = {}
        self._constants: dict[int, tuple[Any, Value]] = {}  # by the identity of an array, which is held
        self._given: list[Any] = []  # what came in
        self._strong: dict[int, Any] = {}  # by register: numbers that every call has

    def take(self, leaves: Sequence[Any], copies: Mapping[str, Any]) -> None:
        """The arrays that came in, with copies of what they held."""
        numpy = sys.modules.get("numpy")
        if copies:
            _import_torch()
        for leaf in leaves:
            if leaf.name not in copies:
                continue
            if any(numpy.may_share_memory(leaf.tensor, each) for each in self._given):  # type: ignore[union-attr]
                raise ExportError(f"{leaf.name} may share memory with another array that is given; give copies")
            self._given.append(leaf.tensor)
            self.examples[self.builder._inputs[id(leaf.tensor)].name] = copies[leaf.name].copy(order="K")

    def finished(self, graph: Graph) -> Graph:
        """The graph without arrays that came in beside tensors, and that nothing reads."""
        if not self._given or all(value.name in self.examples for value in graph.inputs):
            return graph
        used = {value.name for node in graph.nodes for value in node.operands}
        used |= {value.name for value in values_of((graph.outputs, tuple(each.values for each in graph.effects)))}
        inputs = (value for value in graph.inputs if value.name in used or value.name not in self.examples)
        return replace(graph, inputs=tuple(inputs))

    def is_known(self, argument: Any) -> bool:
        """It is an array, or holds one."""
        return any(value.name in self.examples or self.is_strong(value) for value in values_of(argument))

    def is_strong(self, value: Any) -> bool:
        """A number of NumPy, with a dtype, that is made of sizes."""
        return isinstance(value, Value) and is_scalar(self._numbers.get(value.name))

    # -- one call

    def call(self, row: Mapping[str, Any]) -> bool:
        """A call of NumPy among the nodes of a trace; False: it is given no array, and none of its sizes."""
        operands, function = row.get("operands", ()), row["a"]
        if function[0] != "const":
            return False
        names = row["b"][1] if row.get("b") is not None and row["b"][0] == "const" else ()
        names = names if isinstance(names, tuple) else ()
        arguments = [self.argument(each) for each in operands]
        function, arguments = _unbound(function[1], arguments)
        rule, makes = self._rule_of(function)
        of_sizes = function in (len, operator.getitem) and isinstance(arguments[0], tuple)
        folded = rule is not None and makes and not any(map(_is_unknown, _leaves(arguments)))
        given = self.is_known(arguments) or of_sizes or (folded and function in _of_literals())
        given = given or (makes and next(values_of(arguments), None) is not None)
        if not given or (rule is None and not self.is_known(arguments)):
            if rule is not None and not names and not any(map(_is_unknown, _leaves(arguments))):
                self._note_strong(row, function, arguments)
            return False
        self.row = row
        first = len(arguments) - len(names)
        positional, named = arguments[:first], dict(zip(names, arguments[first:], strict=True))
        made = self._made(function, rule, positional, named)
        for register in (one for one in (row.get("out"), *row.get("outs", ())) if one is not None):
            self.builder._registers[register] = made
        return True

    def _note_strong(self, row: Mapping[str, Any], function: Any, arguments: list[Any]) -> None:
        """NumPy's numbers have dtypes, also where they are made of literals."""
        if function in _WRITE or row.get("out") is None:
            return
        numpy = sys.modules["numpy"]
        try:
            with numpy.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = function(*map(self.native, arguments))
        except Exception:
            return
        if is_scalar(made):
            self._strong[row["out"]] = made

    def argument(self, value: Any) -> Any:
        """An argument of the graph for a value of the trace."""
        if value[0] == "reg" and value[1] in self._strong:
            return self.constant(self._strong[value[1]])
        if value[0] == "const" and (is_array(value[1]) or is_scalar(value[1])):
            return self.constant(value[1])
        made = self.builder._known_or_argument(value)
        is_object = value[0] == "const" and isinstance(made, Opaque) and not isinstance(made, Known)
        return Known(value[1]) if is_object else made

    def _made(self, function: Any, rule: Any, positional: list[Any], named: dict[str, Any]) -> Any:
        numpy = sys.modules["numpy"]
        try:
            with numpy.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                given = {name: self.native(each) for name, each in named.items()}
                example = function(*map(self.native, positional), **given)
        except Exception:
            return self._of_python(function, positional, named, UNKNOWN)
        made = self._of_numbers(function, positional, named, example)
        if made is UNKNOWN and rule is not None and self._is_fit(example):
            given_by_name = {key: each for key, each in named.items() if each is not None or key == "axis"}
            made = rule(self, positional, given_by_name, example)
        return self._of_python(function, positional, named, example) if made is UNKNOWN else self.enter(made, example)

    def _of_numbers(self, function: Any, positional: list[Any], named: dict[str, Any], example: Any) -> Any:
        """Arithmetic on sizes that NumPy's numbers hold."""
        numpy = sys.modules["numpy"]
        kinds = {each.kind if isinstance(each, Value) else type(each).__name__ for each in positional}
        if named or not kinds <= {"int", "float", "bool"} or not any(isinstance(each, Value) for each in positional):
            return UNKNOWN
        kind = next((kind for kind, of in _KINDS.items() if isinstance(example, getattr(numpy, of))), "")
        kind = kind or type(example).__name__
        if isinstance(function, type) or function in (operator.truth, operator.index):
            function = {"int": int, "float": float, "bool": bool}.get(kind)
        row = _NUMBER_ROWS.get(getattr(function, "__name__", ""), "") or number_row_of(function)
        return self.builder.number(self.row, row, positional, kind) if row and kind in _KINDS else UNKNOWN

    def _is_fit(self, example: Any) -> bool:
        if isinstance(example, tuple | list):
            return all(map(self._is_fit, example))
        return not hasattr(example, "dtype") or is_dtype_known(example.dtype)

    def enter(self, made: Any, example: Any) -> Any:
        """What stands for a result, in the dtype that NumPy gives."""
        numpy = sys.modules["numpy"]
        if isinstance(made, Value) and made.kind == "tensor" and isinstance(example, numpy.ndarray | numpy.generic):
            if made.name not in self.examples or self.examples[made.name] is not example:
                made = self.cast(made, example.dtype)
            self.examples[made.name] = example
            return made
        if isinstance(made, tuple | list) and isinstance(example, tuple | list):
            return type(made)(self.enter(*pair) for pair in zip(made, example, strict=True))
        if isinstance(made, Value) and made.kind != "tensor":
            self._numbers[made.name] = example
        return made

    def _of_python(self, function: Any, positional: list[Any], named: dict[str, Any], example: Any) -> Any:
        """A call that a graph cannot say."""
        numpy, builder = sys.modules["numpy"], self.builder
        what = getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or str(function)
        values = dict.fromkeys(values_of([*positional, *named.values()]))
        arguments = {f"x{at}": value for at, value in enumerate(values)}

        def result(each: Any) -> Any:
            if isinstance(each, tuple | list):
                return type(each)(map(result, each))
            if isinstance(each, numpy.ndarray | numpy.generic):
                value = Value(builder._fresh(what.rpartition(".")[2]))
                self.examples[value.name] = each
                return value
            return Opaque(what, called=True)

        made = result(example)
        origin = "no operator of a graph does what this function of NumPy does with these arguments"
        builder._emit(self.row, f"python::{what}", arguments, tuple(values_of(made)), origin=origin)
        builder._of_data.update(value.name for value in values_of(made))
        return made

    # -- examples

    def native(self, argument: Any) -> Any:
        """An argument as NumPy takes it."""
        if isinstance(argument, Value):
            if argument.name not in self.examples:
                return self._number(argument)
            return self.examples[argument.name]
        if isinstance(argument, Known):
            return argument.made
        if isinstance(argument, Opaque):
            raise TypeError(argument.what)
        if isinstance(argument, Slice):
            return slice(*(self.native(each) for each in (argument.start, argument.stop, argument.step)))
        return type(argument)(map(self.native, argument)) if type(argument) in {tuple, list} else argument

    def _number(self, value: Value) -> Any:
        """What a number of the graph is in the call."""
        if value.name not in self._numbers:
            node = next((each for each in reversed(self.builder._nodes) if value in each.results), None)
            if node is None or node.op not in NUMBERS:
                raise TypeError(value.name)
            self._numbers[value.name] = NUMBERS[node.op](*map(self.native, node.arguments.values()))
        return self._numbers[value.name]

    def dtype(self, argument: Any) -> Any:
        """The dtype of an operand, or the class of a number of Python: it is weak beside dtypes."""
        numpy = sys.modules["numpy"]
        if isinstance(argument, Value) and argument.kind == "tensor":
            return self.examples[argument.name].dtype
        native = self.native(argument)
        if isinstance(native, numpy.ndarray | numpy.generic):
            return native.dtype
        return numpy.dtype(bool) if type(native) is bool else type(native)

    def rank(self, value: Any) -> int:
        """How many axes an operand has."""
        return int(sys.modules["numpy"].ndim(self.native(value)))

    def result_type(self, *operands: Any) -> Any:
        """The dtype that NumPy gives several operands together."""
        numpy = sys.modules["numpy"]
        zero = {int: 0, float: 0.0, complex: 0j}
        return numpy.result_type(*(zero.get(each, each) for each in map(self.dtype, operands)))

    # -- operators

    def constant(self, array: Any) -> Value:
        """The tensor of an array or number that every call has."""
        found = self._constants.get(id(array))
        if found is not None:
            return found[1]
        builder, numpy = self.builder, sys.modules["numpy"]
        array_now = numpy.asarray(array)
        value = Value(builder._fresh("constant"), "tensor", "constant", array_now.dtype.name, array_now.shape, "cpu")
        builder._parameters[id(array)] = value
        builder._arrays[value.name] = tensor_of(array_now)
        builder._of_data.add(value.name)
        self.examples[value.name] = array_now.copy() if isinstance(array, numpy.ndarray) else array
        self._constants[id(array)] = (array, value)
        return value

    def tensor(self, argument: Any, dtype: Any) -> Any:
        """An operand as a tensor in a dtype."""
        if isinstance(argument, Known):
            argument = self.constant(argument.made)
        if isinstance(argument, list | tuple):
            if any(isinstance(each, Value | Opaque) for each in _leaves(argument)):
                return UNKNOWN
            argument = self.constant(sys.modules["numpy"].array(self.native(argument)))
        if isinstance(argument, Value) and argument.kind == "tensor":
            return self.cast(argument, dtype)
        return self.builder.operator(self.row, "torch::tensor", [argument], self.word(dtype))

    def word(self, dtype: Any) -> dict[str, Any]:
        """A dtype as an argument."""
        return {"dtype": Token("dtype", sys.modules["numpy"].dtype(dtype).name)}

    def cast(self, value: Value, dtype: Any) -> Value:
        """A tensor in a dtype; itself if it has that."""
        found = self.examples.get(value.name)
        known = found.dtype if found is not None else self._dtypes.get(value.name)
        if known == dtype:
            return value
        made: Value = self.builder.astype(self.row, value, self.word(dtype))
        self._dtypes[made.name] = dtype
        return made

    @property
    def _dtypes(self) -> dict[str, Any]:
        """Of what stands between the operators of one call."""
        return self.__dict__.setdefault("_dtypes_", {})  # type: ignore[no-any-return]

    def op(self, dtype: Any, name: str, /, *operands: Any, **words: Any) -> Any:
        """What an operator of torch gives, in this dtype; without it, in that of its first operand."""
        if any(each is UNKNOWN for each in operands):
            return UNKNOWN
        made = self.builder.operator(self.row, name, list(operands), words or None)
        if dtype is None:
            first = next((each for each in values_of(operands) if each.kind == "tensor"), None)
            dtype = None if first is None else self.dtype_now(first)
        if dtype is not None:
            self._dtypes[made.name] = sys.modules["numpy"].dtype(dtype)
        return made

    def several(self, dtypes: tuple[Any, ...], name: str, arguments: Mapping[str, Any], origin: str) -> list[Value]:
        """The results of a row that has more than one."""
        results = tuple(Value(self.builder._fresh(name)) for _ in dtypes)
        self.builder._emit(self.row, name, arguments, results, origin=origin)
        numpy = sys.modules["numpy"]
        self._dtypes.update((each.name, numpy.dtype(dtype)) for each, dtype in zip(results, dtypes, strict=True))
        return list(results)

    def dtype_now(self, value: Value) -> Any:
        """Of a tensor that stands for an array, or between the operators of one call."""
        found = self.examples.get(value.name)
        return found.dtype if found is not None else self._dtypes.get(value.name)

    def size(self, value: Value, axis: int, observed: int) -> Value:
        """The size of an axis, a number."""
        made = Value(self.builder._fresh("size"), "int")
        self.builder._emit(self.row, "size", {"x": value, "axis": axis}, (made,), origin="tensor::size")
        self._numbers[made.name] = observed
        return made

    def number(self, value: Value, kind: str) -> Value:
        """The only element of an array as a number of Python."""
        made = Value(self.builder._fresh("item"), kind)  # type: ignore[arg-type]
        self.builder._emit(self.row, f"item_{kind}", {"x": value}, (made,), origin=f"tensor::{kind}")
        return made

    def copied(self, value: Value) -> Value:
        """What NumPy copies."""
        made: Value = self.op(None, "aten::clone", value)
        return made

    def write(self, into: Any, made: Any) -> Any:
        """The content of an array becomes another one; gives the array."""
        into = self.writable(into)
        if into is UNKNOWN or made is UNKNOWN:
            return UNKNOWN
        name = into.name
        made = self.cast(made, self.examples[name].dtype)
        result = Value(self.builder._fresh("assign"))
        self.builder._emit(
            self.row, "assign", {"x": into, "y": made}, (result,), origin="aten::copy_", writes=("x",), aliases=("x",)
        )
        return into

    def writable(self, into: Any) -> Any:
        """The array, if all that share its memory are views in the graph, too."""
        numpy = sys.modules["numpy"]
        if isinstance(into, Known):
            known, builder = into, self.builder
            into = self.copied(self.constant(known.made.copy()))
            self.examples[into.name] = known.made
            registers = [key for key, each in builder._registers.items() if each is known]
            builder._registers.update((key, into) for key in registers)
        if not isinstance(into, Value) or into.name not in self.examples or into.role == "constant":
            return UNKNOWN  # of what was there before only the end is known
        example = self.examples[into.name]
        others = [name for name, each in self.examples.items() if numpy.may_share_memory(each, example)]
        group = self._views(into.name)
        return into if all(name in group for name in others if name != into.name) else UNKNOWN

    def _views(self, name: str) -> set[str]:
        """Names of what has the memory of a value in the graph."""
        base: dict[str, str] = {}
        for node in self.builder._nodes:
            for result, source in sharing(node):
                base[result.name] = base.get(source.name, source.name)
        root = base.get(name, name)
        return {root} | {each for each, own in base.items() if own == root}

    def checked(self, graph: Graph) -> Graph:
        """The graph, of which all results have the dtypes and sizes that NumPy gave.

        Raises:
            ExportError: a result has others, with its line.
        """
        if not self.examples:
            return graph
        made = self._filled(graph)
        for node in made.nodes:
            for value in node.results:
                found = self.examples.get(value.name) if value is not None else None
                if value is None or found is None or value.shape is None:
                    continue
                sizes = zip(value.shape, found.shape, strict=False)
                fits = len(value.shape) == found.ndim and all(isinstance(a, str) or a == b for a, b in sizes)
                if value.dtype != found.dtype.name or not fits:
                    raise ExportError(
                        f"{place_of(node)}{node.op} gives {value.type} in a graph, where NumPy gives {found.dtype.name}"
                        f"{list(found.shape)}; compute that outside of the function"
                    )
        return made

    def _filled(self, graph: Graph) -> Graph:
        """The graph with the types of the call, where torch has not filled them in."""
        made = {}
        for value in (value for node in graph.nodes for value in node.results if value is not None):
            found = self.examples.get(value.name)
            if value.kind == "tensor" and found is not None and value.shape is None:
                made[value.name] = replace(value, dtype=found.dtype.name, shape=tuple(found.shape), device="cpu")
        if not made:
            return graph
        return with_types(graph, made)


def with_types(graph: Graph, made: Mapping[str, Value]) -> Graph:
    """The graph whose results have other types: `made` has them, by their names."""
    nodes = tuple(
        replace(
            node,
            arguments={name: replaced(each, made) for name, each in node.arguments.items()},
            results=replaced(node.results, made),
        )
        for node in graph.nodes
    )
    return replace(graph, nodes=nodes, outputs=replaced(graph.outputs, made))


def _import_torch() -> None:
    """Sizes stay free where torch can say which of them the operators fix."""
    if importlib.util.find_spec("torch") is not None:
        importlib.import_module("torch")


def _is_unknown(argument: Any) -> bool:
    return isinstance(argument, Value) or (isinstance(argument, Opaque) and not isinstance(argument, Known))


def _of_literals() -> tuple[Any, ...]:
    """Functions of NumPy that are given numbers and dtypes, and give what is no array."""
    inner = sys.modules["numpy"]._core._multiarray_umath
    return (inner.normalize_axis_index, inner.result_type, inner.promote_types, inner.can_cast)


def _unbound(function: Any, arguments: list[Any]) -> tuple[Any, list[Any]]:
    """A method that is bound to a ufunc, as that of its class: `np.add.reduce`."""
    numpy, owner = sys.modules.get("numpy"), getattr(function, "__self__", None)
    if numpy is None or not isinstance(owner, numpy.ufunc):
        return function, arguments
    return getattr(numpy.ufunc, function.__name__, function), [Known(owner), *arguments]


def _leaves(argument: Any) -> Iterator[Any]:
    if isinstance(argument, list | tuple):
        for each in argument:
            yield from _leaves(each)
    else:
        yield argument


Rule = Callable[[Arrays, list[Any], dict[str, Any], Any], Any]
