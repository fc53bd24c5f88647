"""Which sizes of a graph stay free: its expressions of symbols, and the graph with some of them fixed.

A size is a number, or an expression such as "2*batch + 1". What `pijit.export(dynamic=...)` fixes becomes a number
everywhere: in types, and in the nodes that compute with sizes, which go away.
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pijit._usage_errors import describe, nearest
from pijit.errors import ExportError, UsageError
from pijit.graph.model import Graph, Node, Region, Size, Value, replaced, values_of
from pijit.graph.model.branches import graphs_of
from pijit.graph.torch_calls import NUMBERS

_BINARY: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
# Functions as sympy prints them, too.
_CALLS: dict[str, Callable[..., int]] = {
    "max": max,
    "min": min,
    "Max": max,
    "Min": min,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "FloorDiv": operator.floordiv,
}


def symbols_in(size: Size) -> set[str]:
    """The names in an expression."""
    if isinstance(size, int):
        return set()
    try:
        tree = ast.parse(size, mode="eval")
    except SyntaxError:
        return {size}
    return {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)} - _CALLS.keys()


def evaluate(size: Size, symbols: Mapping[str, int]) -> int | None:
    """The number that an expression has for these symbols; None: it has others, or is no expression."""
    if isinstance(size, int):
        return size
    try:
        return _number(ast.parse(size, mode="eval").body, symbols)
    except (SyntaxError, KeyError, ZeroDivisionError, ValueError, TypeError):
        return None


def _number(tree: ast.expr, symbols: Mapping[str, int]) -> int:
    if isinstance(tree, ast.Name):
        return symbols[tree.id]
    if isinstance(tree, ast.Constant) and type(tree.value) is int:
        return tree.value
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return -_number(tree.operand, symbols)
    if isinstance(tree, ast.BinOp):
        return _BINARY[type(tree.op)](_number(tree.left, symbols), _number(tree.right, symbols))
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
        return _CALLS[tree.func.id](*(_number(argument, symbols) for argument in tree.args))
    raise ValueError(ast.dump(tree))


def example_shape(value: Value, symbols: Mapping[str, int]) -> tuple[int, ...]:
    """The sizes of an input at these symbols.

    Raises:
        ExportError: they are not known.
    """
    sizes = tuple(evaluate(size, symbols) for size in value.shape or ())
    if value.shape is None or None in sizes:
        raise ExportError(f"input {value.name!r} is {value.type}: its sizes are not known; capture the function again")
    return tuple(size for size in sizes if size is not None)


def with_sizes(graph: Graph, dynamic: bool | Mapping[str, Any] | None) -> Graph:
    """The graph with the sizes free that `pijit.export(dynamic=...)` asks for.

    Raises:
        UsageError: `dynamic` is of the wrong kind.
        ExportError: the program fixes a size that is to be free.
    """
    if dynamic is None or dynamic is True:
        return graph
    if dynamic is False:
        return fixed(graph, graph.symbols)
    if not isinstance(dynamic, Mapping):
        raise UsageError(
            f'dynamic= is True, False, None, or sizes of inputs by axis, such as {{"x": {{0: "batch"}}}}; '
            f"not {describe(dynamic)}"
        )
    names: dict[str, str] = {}
    for name, axes in dynamic.items():
        for axis, new in _axes(name, axes).items():
            symbol = _symbol(graph, name, axis)
            if names.setdefault(symbol, new or symbol) != (new or symbol) and new:
                raise ExportError(
                    f"dynamic= calls one size {names[symbol]!r} and {new!r}: the program needs {name!r} to have it at "
                    f"axis {axis}; give it one name"
                )
    rest = {symbol: size for symbol, size in graph.symbols.items() if symbol not in names}
    return _renamed(fixed(graph, rest), names)


def _axes(name: str, axes: Any) -> dict[int, str]:
    """Axes with the name that is asked for, "" for any."""
    if isinstance(axes, Mapping):
        wanted = dict(axes)
    elif isinstance(axes, set | frozenset | list | tuple):
        wanted = dict.fromkeys(axes, "")
    else:
        wanted = {axes: ""}
    for axis, new in wanted.items():
        if type(axis) is not int or not isinstance(new, str):
            raise UsageError(f'dynamic[{name!r}] is a dict of axes with names, such as {{0: "batch"}}; not {axes!r}')
        if new and not new.isidentifier():
            raise UsageError(f"dynamic[{name!r}][{axis}]: {new!r} cannot be the name of a size")
    return wanted


def _symbol(graph: Graph, name: str, axis: int) -> str:
    """The symbol at an axis of an input."""
    inputs = {value.name: value for value in graph.inputs}
    if name not in inputs:
        raise ExportError(f"dynamic= names an input {name!r}{nearest(str(name), inputs)}")
    value = inputs[name]
    shape = value.shape or ()
    if not -len(shape) <= axis < len(shape):
        raise ExportError(f"dynamic= names axis {axis} of {name!r}, which is {value.type}")
    size = shape[axis]
    if isinstance(size, int):
        raise ExportError(
            f"dynamic= names axis {axis} of {name!r}, whose size the program fixes: it is {value.type}. "
            "A decision on the size, or a size that is written into the program, does that"
        )
    if size not in graph.symbols:
        raise ExportError(f"axis {axis} of {name!r} is {size}: name the axes of {', '.join(sorted(symbols_in(size)))}")
    return size


def fixed(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    """The graph with numbers in the place of these symbols; nodes that compute with numbers alone go away."""
    if not sizes:
        return graph
    free = {symbol: seen for symbol, seen in graph.symbols.items() if symbol not in sizes}
    return _Rewriter(lambda size: _at(size, sizes)).rewritten(graph, free)


def folded(graph: Graph) -> Graph:
    """The graph without nodes that compute with numbers alone, such as with sizes that are none but numbers."""
    return _Rewriter(lambda size: size).rewritten(graph, graph.symbols)


def counts(graph: Graph) -> set[str]:
    """Names of the numbers that follow from a size which data decides, such as how many elements a mask picks."""
    return _following(graph, lambda size: symbols_in(size) <= graph.symbols.keys())


def free_numbers(graph: Graph) -> set[str]:
    """Names of the numbers that follow from a size which is no number of the graph."""
    return _following(graph, lambda size: isinstance(size, int))


def _following(graph: Graph, is_known: Callable[[Size], bool]) -> set[str]:
    """Names of the numbers that follow from a size that is not known."""
    found: set[str] = set()
    for node in graph.nodes:
        results = [value for value in node.results if value is not None and value.kind != "tensor"]
        array, axis = node.arguments.get("x"), node.arguments.get("axis")
        if node.op in {"size", "numel"} and isinstance(array, Value):
            shape = array.shape
            if shape is not None and type(axis) is int:
                shape = (shape[axis],)
            if shape is None or not all(map(is_known, shape)):
                found.update(value.name for value in results)
        elif any(value.name in found for value in node.operands):
            found.update(value.name for value in results)
    return found


def _at(size: Size, sizes: Mapping[str, int]) -> Size:
    if isinstance(size, int):
        return size
    number = evaluate(size, sizes)
    if number is not None:
        return number
    return _substituted(size, {symbol: str(number) for symbol, number in sizes.items()})


def _substituted(size: str, new: Mapping[str, str]) -> str:
    if not symbols_in(size) & new.keys():
        return size
    tree = ast.parse(size, mode="eval")
    for each in ast.walk(tree):
        if isinstance(each, ast.Name):
            each.id = new.get(each.id, each.id)
    return ast.unparse(tree)


def _renamed(graph: Graph, names: Mapping[str, str]) -> Graph:
    if all(symbol == new for symbol, new in names.items()):
        return graph
    taken = [names.get(symbol, symbol) for symbol in graph.symbols]
    if len(set(taken)) < len(taken):
        raise ExportError(
            "dynamic= gives one name to sizes that the program keeps apart; give each its own, or call "
            "the function with equal ones"
        )
    symbols = {names.get(symbol, symbol): seen for symbol, seen in graph.symbols.items()}
    return _Rewriter(lambda size: size if isinstance(size, int) else _substituted(size, names)).rewritten(
        graph, symbols
    )


class _Rewriter:
    """Makes a graph again with other sizes in its types."""

    def __init__(self, size: Callable[[Size], Size], known: Mapping[str, Any] | None = None) -> None:
        self.size = size
        self.new: dict[str, Any] = {}
        self.known = known or {}  # numbers that stand for inputs

    def rewritten(self, graph: Graph, symbols: Mapping[str, int]) -> Graph:
        inputs, parameters = (tuple(map(self.value, values)) for values in (graph.inputs, graph.parameters))
        self.new |= self.known
        nodes: list[Node] = []
        places: dict[int, int] = {}
        for at, node in enumerate(graph.nodes):
            arguments = {name: replaced(argument, self.new) for name, argument in node.arguments.items()}
            for name, each in graphs_of(node).items():
                arguments[name] = self.inner(each, arguments)
            if node.op == "check" and not any(True for _ in values_of(arguments)):
                continue  # it was right at the capture
            number = self.number(node, arguments)
            if number is not None and node.results[0] is not None:
                self.new[node.results[0].name] = number
                continue
            results = tuple(value and self.value(value) for value in node.results)
            places[at] = len(nodes)
            nodes.append(replace(node, arguments=arguments, results=results))
        return replace(
            graph,
            inputs=inputs,
            parameters=parameters,
            nodes=tuple(nodes),
            outputs=replaced(graph.outputs, self.new),
            updates=tuple((name, replaced(value, self.new)) for name, value in graph.updates),
            effects=tuple(
                replace(effect, values=tuple(values_of(replaced(effect.values, self.new)))) for effect in graph.effects
            ),
            region=_at_places(graph.region, places),
            symbols=symbols,
        )

    def inner(self, graph: Graph, arguments: Mapping[str, Any]) -> Graph:
        """A graph in a node, with the numbers that it is given and that stay what they are."""
        places = [*arguments.get("carried", ()), *arguments.get("operands", ())]
        stay = len(arguments.get("carried", ()))
        pairs = [*zip(graph.inputs, places, strict=True)][stay:]
        known = {value.name: each for value, each in pairs if not isinstance(each, Value)}
        return _Rewriter(self.size, known).rewritten(graph, {})

    def value(self, value: Value) -> Value:
        shape = None if value.shape is None else tuple(map(self.size, value.shape))
        new = replace(value, shape=shape)
        self.new[value.name] = new
        return new

    def number(self, node: Node, arguments: Mapping[str, Any]) -> Any:
        """What the node gives, if that is a number now."""
        if len(node.results) != 1 or node.results[0] is None or node.results[0].kind == "tensor":
            return None
        array = arguments.get("x")
        if isinstance(array, Value) and array.shape is not None:
            if node.op == "ndim":
                return len(array.shape)
            if node.op == "size" and type(axis := arguments.get("axis")) is int:
                return size if isinstance(size := array.shape[axis], int) else None
            if node.op == "numel" and not any(isinstance(size, str) for size in array.shape):
                return math.prod(size for size in array.shape if isinstance(size, int))
        if node.op not in NUMBERS or any(True for _ in values_of(arguments)):
            return None
        try:
            return NUMBERS[node.op](*arguments.values())
        except (TypeError, ArithmeticError, ValueError):
            return None


def _at_places(region: Region, places: Mapping[int, int]) -> Region:
    """The region with new indices of nodes."""
    nodes = tuple(places[at] for at in region.nodes if at in places)
    return Region(region.path, region.type, nodes, tuple(_at_places(inner, places) for inner in region.regions))
