"""Sizes of a graph as those of torch's tensors without data, and decisions on them as nodes."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pijit.graph.model import Graph, Node, Value
from pijit.graph.model.branches import all_nodes
from pijit.graph.model.names import Names
from pijit.graph.model.sizes import evaluate, symbols_in
from pijit.graph.symbolic_sizes import environment
from pijit.graph.torch_calls import NUMBERS

_ROWS = {function: name for name, function in NUMBERS.items()}
# Functions of torch on sizes, and their rows.
_FUNCTIONS = {
    "sym_max": "scalar_max",
    "sym_min": "scalar_min",
    "sym_not": "scalar_not",
    "sym_float": "scalar_float",
    "sym_int": "scalar_int",
    "trunc": "scalar_int",
}
# Relations of sympy, and operations that take any number of operands.
_RELATIONS = {
    "Equality": "scalar_equal",
    "Unequality": "scalar_not_equal",
    "StrictLessThan": "scalar_less",
    "LessThan": "scalar_less_equal",
    "StrictGreaterThan": "scalar_greater",
    "GreaterThan": "scalar_greater_equal",
    "FloorDiv": "scalar_floor_divide",
    "CleanDiv": "scalar_floor_divide",
    "Mod": "scalar_remainder",
    "PythonMod": "scalar_remainder",
    "Add": "scalar_add",
    "Mul": "scalar_multiply",
    "Max": "scalar_max",
    "Min": "scalar_min",
    "Pow": "scalar_pow",
    "And": "scalar_and",
    "Or": "scalar_or",
}


def _names_in(graph: Graph) -> set[str]:
    """The names of all sizes in a graph."""
    values = [*graph.inputs, *graph.parameters]
    values += [value for node in all_nodes(graph) for value in node.results if value is not None]
    return {name for value in values for size in value.shape or () for name in symbols_in(size)}


class Sizes:
    """Tensors without data, with sizes as free as in a graph.

    Args:
        graph: its `symbols` are free.
    """

    def __init__(self, graph: Graph) -> None:
        from torch._subclasses.fake_tensor import FakeTensorMode

        self.env = environment()
        self.mode = FakeTensorMode(shape_env=self.env, allow_non_fake_inputs=True)
        self.graph = graph
        self._known: dict[str, Any] = {name: self._free(name, seen) for name, seen in graph.symbols.items()}
        self._taken = _names_in(graph) | set(self._known)
        self.words = {size.node.expr: name for name, size in self._known.items()}
        self._numbers: dict[str, Any] = {}

    def _free(self, name: str, seen: int) -> Any:
        import torch
        from torch._dynamo.source import ConstantSource
        from torch.fx.experimental.symbolic_shapes import DimDynamic, StatelessSymbolicContext

        context: Any = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC])
        source = ConstantSource(name)
        made: Any = self.mode.from_tensor(torch.empty(max(seen, 2)), source=source, symbolic_context=context)
        return made.shape[0]

    def _size(self, size: Any) -> Any:
        found = size if isinstance(size, int) else evaluate(size, self._known)
        if found is None:  # data decides it
            made: Any = self.env.create_unbacked_symint()
            self._known[size] = found = made
            self.words[made.node.expr] = size
            self.env.constrain_symbol_range(made.node.expr, 2, 2**31)  # 0 and 1 behave in ways of their own
        return found

    def given(self, value: Value, makers: Mapping[str, Node]) -> Any:
        """What stands for a value: a tensor without data, or a number."""
        if value.kind == "tensor":
            import torch

            if value.dtype is None or value.shape is None:
                raise KeyError(value.name)
            with self.mode:
                shape = tuple(map(self._size, value.shape))
                return torch.empty(shape, dtype=getattr(torch, value.dtype), device=value.device or "cpu")
        if value.name not in self._numbers:
            self._numbers[value.name] = self._number(makers[value.name], makers)
        return self._numbers[value.name]

    def _number(self, node: Node, makers: Mapping[str, Node]) -> Any:
        array = node.arguments.get("x")
        shape = array.shape if isinstance(array, Value) and array.kind == "tensor" else None
        if node.op == "size" and shape is not None and isinstance(axis := node.arguments["axis"], int):
            return self._size(shape[axis])
        if node.op == "ndim" and shape is not None:
            return len(shape)
        given = [self.given(each, makers) if isinstance(each, Value) else each for each in node.arguments.values()]
        return NUMBERS[node.op](*given)

    def typed(self, value: Value, made: Any) -> Value:
        """The value with the type of a tensor."""
        shape = tuple(map(self._word, made.shape))
        return replace(value, dtype=str(made.dtype).removeprefix("torch."), shape=shape, device=str(made.device))

    def _word(self, size: Any) -> int | str:
        if isinstance(size, int):
            return size
        import sympy

        expression = self.env.simplify(size.node.expr)
        if expression.is_number:
            return int(expression)
        names = {symbol: sympy.Symbol(self._symbol_name(symbol), integer=True) for symbol in expression.free_symbols}
        return str(expression.subs(names)).replace(" ", "")

    def _symbol_name(self, symbol: Any) -> str:
        """Of a size that data decides, one that no other size of the graph has."""
        if symbol not in self.words:
            count = 0
            while f"u{count}" in self._taken:
                count += 1
            self._taken.add(f"u{count}")
            self.words[symbol] = f"u{count}"
        return self.words[symbol]


class Numbers:
    """Expressions of sizes as nodes.

    Args:
        sizes: of the graph.
        near: makes a node.
        names: of values.
        nodes: where they go.
    """

    def __init__(self, sizes: Sizes, near: Callable[..., Node], names: Names, nodes: list[Node]) -> None:
        self._sizes, self._near, self._names, self._nodes = sizes, near, names, nodes
        self._made: dict[Any, Value] = {}  # by expression

    @staticmethod
    def row(function: Any) -> str | None:
        """The row of a function on numbers, or None."""
        return _ROWS.get(function) or _FUNCTIONS.get(getattr(function, "__name__", ""))

    def decided(self, relation: Any, fixing: bool) -> dict[str, int]:
        """A check that a relation holds; if that is so for one size alone, and `fixing`, this size instead."""
        import sympy

        if relation is sympy.true or relation is True:
            return {}
        if isinstance(relation, sympy.And):
            return {name: size for each in relation.args for name, size in self.decided(each, fixing).items()}
        if fixing and isinstance(relation, sympy.Eq):
            symbol, number = relation.lhs, relation.rhs
            if number.is_symbol:
                symbol, number = number, symbol
            if symbol.is_symbol and number.is_Integer and (name := self._sizes.words[symbol]) in self._free:
                return {name: int(number)}
        held = self._of(relation)
        self._nodes.append(self._near("check", {"x": held, "expected": True}, ()))
        return {}

    @property
    def _free(self) -> Mapping[str, int]:
        return self._sizes.graph.symbols

    def _of(self, expression: Any) -> Any:
        if expression.is_Integer:
            return int(expression)
        if expression.is_symbol:
            return self._symbol(self._sizes.words[expression])
        if type(expression).__name__ == "Not":
            return self._emit("scalar_not", {"x": self._of(expression.args[0])}, "bool")
        op = _RELATIONS[type(expression).__name__]
        if op == "scalar_pow" and not (expression.args[1].is_Integer and expression.args[1] > 0):
            raise KeyError(op)  # no whole number
        kind: Any = "bool" if expression.is_Boolean or expression.is_Relational else "int"
        held, *others = map(self._of, expression.args)
        for other in others:
            held = self._emit(op, {"x": held, "y": other}, kind)
        return held

    def _symbol(self, name: str) -> Value:
        """The size as a node, of an input that has it."""
        for value in self._sizes.graph.inputs:
            for axis, size in enumerate(value.shape or ()):
                if size == name:
                    return self._emit("size", {"x": value, "axis": axis}, "int", "tensor::size")
        raise KeyError(name)

    def _emit(self, op: str, arguments: Mapping[str, Any], kind: Any, origin: str = "") -> Value:
        key = (op, *((each.name,) if isinstance(each, Value) else each for each in arguments.values()))
        if key not in self._made:
            self._made[key] = value = Value(self._names.fresh(op), kind)
            self._nodes.append(self._near(op, arguments, (value,), origin=origin))
        return self._made[key]
