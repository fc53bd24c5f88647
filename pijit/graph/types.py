"""Fills in dtype, shape and device of every value of a graph, by running it on tensors without data.

Sizes of the inputs are symbols where `dynamic` allows it; torch's shape environment finds which of them the operators
relate or fix. A size that was 0 or 1 is fixed: an operator treats these in a way of its own. So is one of which others
are long expressions, as those of windows over an image are.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pijit.graph.model import Graph, Node, Value, replaced
from pijit.graph.run import bind, torch_caller

_LONGEST = 12  # operations in the expression of a size


def typed(graph: Graph, examples: Mapping[str, Any], dynamic: bool | None = None) -> Graph:
    """The graph with types.

    Args:
        graph: what the builder made.
        examples: the tensors of the inputs by name.
        dynamic: False: every size is as in the examples; else sizes are symbols where the operators allow it.
    """
    import sys

    if "torch" not in sys.modules or not (graph.inputs or graph.parameters):
        return graph
    fixed: set[tuple[str, int]] = set()
    if dynamic is False:
        fixed.update((value.name, axis) for value in graph.inputs for axis in range(len(value.shape or ())))
    while True:
        try:
            return _Typing(graph, examples, fixed).run()
        except _TooComplex as too_complex:
            fixed |= too_complex.axes


class _TooComplex(Exception):
    """A size is a long expression of the sizes of these axes, each an input and a number."""

    def __init__(self, axes: set[tuple[str, int]]) -> None:
        super().__init__()
        self.axes = axes


class _Typing:
    def __init__(self, graph: Graph, examples: Mapping[str, Any], fixed: set[tuple[str, int]]) -> None:
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        self._graph = graph
        self._env = ShapeEnv()
        self._mode = FakeTensorMode(shape_env=self._env, allow_non_fake_inputs=True)
        self._values: dict[str, Any] = {}
        self._names: dict[Any, str] = {}
        self._first: dict[Any, str] = {}
        self._axes: dict[Any, tuple[str, int]] = {}
        self._sizes: dict[str, int] = {}
        for value in graph.inputs:
            self._values[value.name] = self._input(value, examples[value.name], fixed)
        for value in graph.parameters:
            self._values[value.name] = self._mode.from_tensor(graph.data[value.name], static_shapes=True)

    def _input(self, value: Value, tensor: Any, fixed: set[tuple[str, int]]) -> Any:
        from torch._dynamo.source import ConstantSource
        from torch.fx.experimental.symbolic_shapes import DimDynamic, StatelessSymbolicContext

        sizes = [
            DimDynamic.STATIC if size < 2 or (value.name, axis) in fixed else DimDynamic.DYNAMIC
            for axis, size in enumerate(tensor.shape)
        ]
        context: Any = StatelessSymbolicContext(dynamic_sizes=sizes)
        made: Any = self._mode.from_tensor(tensor, source=ConstantSource(value.name), symbolic_context=context)
        for axis, size in enumerate(made.shape):
            if not isinstance(size, int) and size.node.expr not in self._names:
                self._names[size.node.expr] = f"{value.name}_{axis}"
                self._axes[size.node.expr] = (value.name, axis)
        return made

    def run(self) -> Graph:
        import torch
        from torch._dispatch.python import enable_python_dispatcher

        call = torch_caller()
        with torch.no_grad(), self._mode, enable_python_dispatcher():
            for node in self._graph.nodes:
                self._step(node, call)
        return self._filled()

    def _step(self, node: Node, call: Any) -> None:
        unknown = any(self._values.get(value.name) is None for value in node.operands)
        if unknown or node.op.startswith("python::"):  # it comes from what the graph does not hold
            for value in node.results:
                if value is not None:
                    self._values[value.name] = None
            return
        if node.op in {"item_bool", "item_not"}:  # only decisions take them
            bind(node, True, self._values)
        elif node.op != "check":
            bind(node, call(node, self._values), self._values)
            for value in node.results:
                self._look(value)

    def _look(self, value: Value | None) -> None:
        """Ends the pass where a size has become a long expression: simplifying those takes minutes."""
        made: Any = None if value is None else self._values.get(value.name)
        for size in getattr(made, "shape", ()):
            if not isinstance(size, int) and size.node.expr.count_ops() > _LONGEST:
                axes = {self._axes[symbol] for symbol in size.node.expr.free_symbols if symbol in self._axes}
                if axes:
                    raise _TooComplex(axes)

    def _size(self, size: Any) -> int | str:
        if isinstance(size, int):
            return size
        import sympy

        expression = self._env.simplify(size.node.expr)
        if expression.is_number:
            return int(expression)
        symbols = {symbol: sympy.Symbol(self._name(symbol), integer=True) for symbol in expression.free_symbols}
        return str(expression.subs(symbols)).replace(" ", "")

    def _name(self, symbol: Any) -> str:
        name = self._first.get(symbol) or self._names.get(symbol, str(symbol))
        self._sizes[name] = int(self._env.backed_var_to_val.get(symbol, 0))
        return name

    def _filled(self) -> Graph:
        for symbol, name in list(self._names.items()):  # of sizes that are one, the first gives the name
            same = self._env.simplify(symbol)
            if same.is_symbol:
                self._first.setdefault(same, name)
        new = {}
        for value in self._all():
            made: Any = self._values.get(value.name)
            if value.kind == "tensor" and hasattr(made, "dtype"):
                shape = tuple(self._size(size) for size in made.shape)
                dtype = str(made.dtype).removeprefix("torch.")
                new[value.name] = replace(value, dtype=dtype, shape=shape, device=str(made.device))
        graph = self._graph
        nodes = tuple(
            replace(
                node,
                arguments={name: replaced(argument, new) for name, argument in node.arguments.items()},
                results=replaced(node.results, new),
            )
            for node in graph.nodes
        )
        return replace(
            graph,
            inputs=replaced(graph.inputs, new),
            parameters=replaced(graph.parameters, new),
            nodes=nodes,
            outputs=replaced(graph.outputs, new),
            effects=tuple(replace(each, values=replaced(each.values, new)) for each in graph.effects),
            symbols=self._sizes,
        )

    def _all(self) -> list[Value]:
        results = [value for node in self._graph.nodes for value in node.results if value is not None]
        return [*self._graph.inputs, *self._graph.parameters, *results]
