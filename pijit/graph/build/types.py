"""Fills in dtype, shape and device of every value of a graph, by running it on tensors without data.

Sizes of the inputs are symbols where `dynamic` allows it; torch's shape environment finds which of them the operators
relate or fix. A size that was 0 or 1 is fixed: an operator treats these in a way of its own. Only where `dynamic` names
such an axis, another size stands for it (`asked_sizes.py`), and what the call did with 0 or 1 has to fit that one. A
size of which others are long expressions, as those of windows over an image are, is fixed, too.

A call is run once for each form of its arguments (`_Forms`): the layers of a model are alike, and a tensor without data
stands for every other of its form. Some calls tell them apart: `squeeze_` changes the form of one, `nonzero` gives a
size that the data decides. Then the graph is run again, each call for itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pijit.graph.build.asked_sizes import Asked
from pijit.graph.build.forms_without_data import FORMS
from pijit.graph.model import Graph, Node, Slice, Value, place_of, replaced, values_of
from pijit.graph.model.branches import given, graphs_of, is_branch, kind_of, outputs_of
from pijit.graph.run import bind
from pijit.graph.symbolic_sizes import environment
from pijit.graph.torch_calls import NUMBERS
from pijit.graph.torch_run import torch_caller
from pijit.graph.vocabulary.maths import OF_FLOATS

_LONGEST = 12  # operations in the expression of a size


class _Some(float):
    """What stands for a float of which nothing is known; sizes that are computed of it are not known."""


# What stands for a number that comes in.
_NUMBERS = {"float": _Some(0.5)}
# Rows that give for a size a float that torch has no expression for.
_OF_FLOATS = {f"scalar_{name}" for name in (*OF_FLOATS, "hypot", "atan2", "fmod")}
# Rows that give an int for a size, of which torch has no expression.
_OF_INTS = {"scalar_isqrt", "scalar_gcd"}


def typed(
    graph: Graph,
    examples: Mapping[str, Any],
    dynamic: bool | Mapping[str, Any] | None = None,
    free: set[tuple[str, int]] | None = None,
) -> Graph:
    """The graph with types.

    Args:
        graph: what the builder made.
        examples: the tensors of the inputs by name.
        dynamic: False: every size is as in the examples; else sizes are symbols where the operators allow it. Axes of
            inputs by name: these, too, where the example has 0 or 1.
        free: these sizes alone are symbols, each by an input and an axis. Equal ones need not stay equal; without it
            equal sizes are taken to be one.

    Raises:
        ExportError: `dynamic` names an axis whose size a node fixes, with its line.
    """
    import sys

    if "torch" not in sys.modules or not (graph.inputs or graph.parameters):
        return graph
    fixed: set[tuple[str, int]] = set()
    if dynamic is False or free is not None:
        fixed.update((value.name, axis) for value in graph.inputs for axis in range(len(value.shape or ())))
        fixed -= free or set()
    shared = True
    asked = Asked(dynamic, examples)
    while True:
        try:
            made = _Typing(graph, asked, fixed, _Forms(shared), free is None).run()
            if asked.small:
                asked.compare(typed(graph, examples), made)
            return made
        except _TooComplex as too_complex:
            asked.refuse(too_complex.axes, too_complex.node, "of which the sizes are long expressions")
            fixed |= too_complex.axes
        except _Distinct:
            shared = False


class _TooComplex(Exception):
    """A size that a node gives is a long expression of the sizes of these axes, each an input and a number."""

    def __init__(self, axes: set[tuple[str, int]], node: Node) -> None:
        super().__init__()
        self.axes, self.node = axes, node


class _Distinct(Exception):
    """A call tells tensors of one form apart: it has changed the form of one, or gives what its data decides."""


class _NoForm(Exception):
    """Nothing can stand for this argument."""


class _Forms:
    """What calls have given, by the operator and the forms of its arguments."""

    def __init__(self, shared: bool) -> None:
        self.shared = shared
        self._results: dict[Any, Any] = {}
        self._tensors: dict[int, Any] = {}  # the forms of tensors by their identity; `_alive` keeps them
        self._alive: list[Any] = []

    def call(self, node: Node, values: Mapping[str, Any], call: Any) -> Any:
        """What the call of a node gives."""
        if not self.shared:
            return call(node, values)
        try:
            arguments = tuple((name, self._form(argument, values)) for name, argument in node.arguments.items())
        except _NoForm:
            return call(node, values)
        key = (node.op, node.origin, node.writes, arguments)
        if key in self._results:
            return self._results[key]
        made = call(node, values)
        for name in node.writes:
            self._check(node.arguments.get(name), values)
        if self._depends_on_data(made):
            raise _Distinct
        self._results[key] = made
        return made

    def _form(self, argument: Any, values: Mapping[str, Any]) -> Any:
        """Equal for arguments of which a call without data gives the same."""
        if isinstance(argument, Value):
            return self._of(values[argument.name])
        if isinstance(argument, tuple):
            return tuple([self._form(item, values) for item in argument])
        if isinstance(argument, Slice):
            return (Slice, *(self._form(part, values) for part in (argument.start, argument.stop, argument.step)))
        return (type(argument), argument)

    def _of(self, made: Any) -> Any:
        form = self._tensors.get(id(made))
        if form is None:
            form = self.form_of(made)
            self._tensors[id(made)] = form
            self._alive.append(made)
        return form

    @staticmethod
    def form_of(made: Any) -> Any:
        """The form of a tensor or number."""
        if isinstance(made, bool | int | float | complex | str | None):
            return (type(made), made)
        if not hasattr(made, "layout"):
            if hasattr(made, "node"):
                return (type(made), made.node.expr)
            raise _NoForm
        if str(made.layout) != "torch.strided":
            raise _NoForm
        numbers = tuple([_expression(size) for size in (*made.shape, *made.stride(), made.storage_offset())])
        return (made.dtype, made.device, made.is_conj(), made.is_neg(), numbers)

    def _check(self, argument: Any, values: Mapping[str, Any]) -> None:
        for value in values_of(argument):
            made = values[value.name]
            if self._tensors.get(id(made)) != self.form_of(made):
                raise _Distinct

    @staticmethod
    def _depends_on_data(made: Any) -> bool:
        """A size or number that the data decides: another one for each tensor of this form."""
        from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

        results = made if isinstance(made, tuple | list) else (made,)
        return any(free_unbacked_symbols(each) for each in results if each is not None)


def _whole_number(node: Node, values: Mapping[str, Any]) -> Any:
    """`int(x)` of a tensor without data: a number of which nothing is known."""
    import torch

    (array,) = [values[value.name] for value in node.operands]
    return array.to(torch.int64).item()


def _is_of_data(made: Any) -> bool:
    """A number of which nothing is known: the data of a tensor decides it."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return hasattr(made, "node") and bool(free_unbacked_symbols(made))


def _has_no_form(error: Exception) -> bool:
    """Torch cannot say what an operator gives for tensors without data."""
    from torch._subclasses import fake_tensor

    return "no fake impl" in str(error) or isinstance(
        error,
        NotImplementedError
        | fake_tensor.UnsupportedOperatorException
        | fake_tensor.DynamicOutputShapeException
        | fake_tensor.DataDependentOutputException,
    )


def _anywhere(index: Any, values: Mapping[str, Any], listed: bool = False) -> Any:
    """The index with 0 for numbers of which nothing is known: what is at any place of an axis has one form.

    So it is for sizes in a list, which would be fixed: torch makes a tensor of numbers of it.
    """
    if isinstance(index, tuple):
        return tuple([_anywhere(item, values, listed or isinstance(item, tuple)) for item in index])
    if not isinstance(index, Value) or index.kind == "tensor":
        return index
    return 0 if listed or _is_of_data(values[index.name]) else index


def _unknown() -> tuple[type[Exception], ...]:
    """What torch raises where the data of a tensor decides the size or the number that an operator gives."""
    from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    return GuardOnDataDependentSymNode, DataDependentOutputException, DynamicOutputShapeException


class _Scope:
    """What is known in a graph: tensors without data and numbers, and the scopes of the graphs in its nodes."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.inner: dict[tuple[int, str], _Scope] = {}  # by the number of the node, and the name of its argument


def _expression(size: Any) -> Any:
    return size if isinstance(size, int) else size.node.expr


class _Typing:
    def __init__(self, graph: Graph, asked: Asked, fixed: set[tuple[str, int]], forms: _Forms, equal: bool) -> None:
        from torch._subclasses.fake_tensor import FakeTensorMode

        self._graph, self._asked = graph, asked
        self._env = environment(equal)
        self._mode = FakeTensorMode(shape_env=self._env, allow_non_fake_inputs=True)
        self._mode.cache_enabled = False  # `_Forms` is one
        self._scope = _Scope()
        self._values = self._scope.values
        self._counted = False  # some size is one of which nothing is known
        self._names: dict[Any, str] = {}
        self._first: dict[Any, str] = {}
        self._axes: dict[Any, tuple[str, int]] = {}
        self._sizes: dict[str, int] = {}
        self._forms = forms
        self._types: dict[int, tuple[str, tuple[int | str, ...], str]] = {}
        for value in graph.inputs:
            if value.kind == "tensor":
                self._values[value.name] = self._input(value, asked.examples[value.name], fixed)
            else:
                self._values[value.name] = _NUMBERS.get(value.kind)
        parameters: dict[Any, Any] = {}
        for value in graph.parameters:
            self._values[value.name] = self._parameter(graph.data[value.name], parameters)

    def _parameter(self, tensor: Any, known: dict[Any, Any]) -> Any:
        """A tensor without data; one for all parameters of a form."""
        try:
            form = self._forms.form_of(tensor) if self._forms.shared else id(tensor)
        except _NoForm:
            form = id(tensor)
        if form not in known:
            known[form] = self._mode.from_tensor(tensor, static_shapes=True)
        return known[form]

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

        call = torch_caller(FORMS)
        with torch.no_grad(), self._mode, enable_python_dispatcher():
            self._steps(self._graph, self._scope, call)
        for symbol, name in list(self._names.items()):  # of sizes that are one, the first gives the name
            same = self._env.simplify(symbol)
            if same.is_symbol:
                self._first.setdefault(same, name)
        return self._filled(self._graph, self._scope)

    def _steps(self, graph: Graph, scope: _Scope, call: Any) -> None:
        for at, node in enumerate(graph.nodes):
            known = len(self._env.replacements)
            if is_branch(node):
                self._branch(at, node, scope, call)
            else:
                self._step(node, scope.values, call)
            if self._asked.axes and len(self._env.replacements) > known:
                self._asked.refuse(self._fixed_axes(), node, "which needs it to be so")

    def _fixed_axes(self) -> set[tuple[str, int]]:
        """The axes of inputs whose sizes are numbers by now."""
        return {axis for symbol, axis in self._axes.items() if self._env.simplify(symbol).is_number}

    def _step(self, node: Node, values: dict[str, Any], call: Any) -> None:
        if node.op == "python::number":  # of a capture that keeps decisions: what it is in this call
            bind(node, node.arguments["start"], values)
            return
        unknown = any(values.get(value.name) is None for value in node.operands)
        if unknown or node.op.startswith("python::"):  # it comes from what the graph does not hold
            for value in node.results:
                if value is not None:
                    values[value.name] = None
            return
        if node.op in NUMBERS and self._is_unknown_number(node, values):
            kind = node.results[0].kind if node.results[0] is not None else "float"
            bind(
                node, {"float": _NUMBERS["float"], "bool": True}.get(kind) or self._env.create_unbacked_symint(), values
            )
        elif node.op in {"item_bool", "item_not"}:  # only decisions take them
            bind(node, True, values)
        elif node.op in {"item", "item_float"} and node.results[0] is not None and node.results[0].kind == "float":
            bind(node, _NUMBERS["float"], values)  # no size depends on it
        elif node.op == "check":
            self._decide(node, values)
        else:
            self._run(node, values, _whole_number if node.op == "item_int" else call)

    @staticmethod
    def _is_unknown_number(node: Node, values: Mapping[str, Any]) -> bool:
        """A number that follows from one of which nothing is known, or that torch has no expression for."""
        given = [values[value.name] for value in node.operands]
        if any(isinstance(each, _Some) for each in given):
            return True
        return node.op in _OF_FLOATS | _OF_INTS and any(hasattr(each, "node") for each in given)

    def _decide(self, node: Node, values: Mapping[str, Any]) -> None:
        """A decision that holds for one number alone fixes the sizes that the number is made of."""
        import sympy

        held, expected = node.arguments["x"], node.arguments["expected"]
        made: Any = values[held.name] if isinstance(held, Value) else held
        if node.origin or _is_of_data(made):
            return
        self._asked.decide(node, made)
        if not hasattr(made, "node"):
            return
        relation = made.node.expr
        is_equal = isinstance(relation, sympy.Eq if expected is True else sympy.Ne) and not relation.has(sympy.Mod)
        if is_equal and isinstance(expected, bool):
            bool(made)
        elif isinstance(expected, int) and not isinstance(expected, bool):
            bool(made == expected)

    def _run(self, node: Node, values: dict[str, Any], call: Any) -> None:
        """Of what the numbers in a tensor decide, such as how often a loop is run, nothing is known."""
        of_data = any(_is_of_data(values[value.name]) for value in node.operands)
        if node.op in {"getitem", "setitem"}:
            node = replace(node, arguments={**node.arguments, "index": _anywhere(node.arguments["index"], values)})
        try:
            made = self._forms.call(node, values, call)
        except Exception as error:
            known = of_data or isinstance(error, (*_unknown(), ZeroDivisionError))
            if not known:
                self._asked.fits(node, error)
            if not known and not (node.is_foreign and _has_no_form(error)):
                if not isinstance(error, _Distinct):
                    error.add_note(f"{place_of(node)}{node.origin or node.op}")
                raise
            values.update((value.name, None) for value in node.results if value is not None)
            return
        if self._counted or not self._forms.shared:
            made = self._open(made, [values[value.name] for value in node.operands])
        try:
            bind(node, made, values)
        except ValueError:  # it gives more than in the call
            self._asked.fits(node, ValueError(f"it gives {len(node.results)} in the call"))
            raise
        for value in node.results:
            self._look(value, values, node)

    def _branch(self, at: int, node: Node, scope: _Scope, call: Any) -> None:
        """Both sides of a decision are run, and the turn of a loop; what is not the same in both is not known."""
        held = [scope.values.get(each.name) if isinstance(each, Value) else each for each in given(node)]

        def run(name: str) -> list[Any]:
            graph = graphs_of(node)[name]
            inner = scope.inner[at, name] = _Scope()
            inner.values.update(zip((value.name for value in graph.inputs), held, strict=True))
            self._steps(graph, inner, call)
            made = outputs_of(graph)
            return [inner.values.get(each.name) if isinstance(each, Value) else each for each in made]

        if node.op == "cond":
            sides = zip(run("then"), run("otherwise"), strict=True)
            made = [self._either(a, b) for a, b in sides]
        else:
            made = self._turns(node, held, run)
            run("condition")
        scope.values.update((value.name, each) for value, each in zip(node.results, made, strict=True) if value)

    def _turns(self, node: Node, held: list[Any], run: Callable[[str], list[Any]]) -> list[Any]:
        """What a loop carries. Of a size that changes from turn to turn nothing is known, nor of a dtype that does."""
        kinds = [kind_of(each) for each in given(node)[: len(node.results)]]
        for at, kind in enumerate(kinds):
            if kind != "tensor":
                held[at] = self._env.create_unbacked_symint() if kind == "int" else _NUMBERS.get(str(kind), True)
        changing: dict[int, set[int]] = {at: set() for at, kind in enumerate(kinds) if kind == "tensor"}
        before: list[Any] = []
        while before != (now := [(held[at] is None, len(axes)) for at, axes in changing.items()]):
            before = now
            turn = run("body")
            for at, axes in changing.items():
                held[at] = None if turn[at] is None else self._one_for_both(held[at], turn[at], axes)
        return held[: len(kinds)]

    def _one_for_both(self, a: Any, b: Any, axes: set[int]) -> Any:
        """What stands for either tensor: the first, but for its sizes along `axes`, to which those that differ come."""
        if a is None or (a.dtype, a.device, a.dim()) != (b.dtype, b.device, b.dim()):
            return None
        differ = {at for at, pair in enumerate(zip(*map(self._shape, (a, b)), strict=True)) if pair[0] != pair[1]}
        if differ <= axes:
            return a
        axes |= differ
        return a.new_empty([self._any_size() if at in axes else size for at, size in enumerate(a.shape)])

    def _open(self, made: Any, operands: list[Any]) -> Any:
        """What an operator gives, with sizes of which nothing is known where two operands differ in such that data
        decides. Torch takes them for equal, and one of them may be 1.
        """
        from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

        if not hasattr(made, "layout"):
            return made
        sizes = list(made.shape)
        for at in range(-len(sizes), 0):
            given = {_expression(each.shape[at]) for each in operands if len(getattr(each, "shape", ())) >= -at}
            differ = [size for size in given if free_unbacked_symbols(size)]
            if len(differ) > 1 and _expression(sizes[at]) in given:
                sizes[at] = self._any_size()
        return made.new_empty(sizes) if any(a is not b for a, b in zip(sizes, made.shape, strict=True)) else made

    def _any_size(self) -> Any:
        """A size of which nothing is known."""
        from torch.fx.experimental.symbolic_shapes import _constrain_range_for_size

        size = self._env.create_unbacked_symint()
        _constrain_range_for_size(size)
        self._counted = True
        return size

    def _either(self, a: Any, b: Any) -> Any:
        """What stands for one or the other; None: nothing can."""
        if a is None or b is None:
            return None
        if hasattr(a, "layout"):
            return self._one_for_both(a, b, set())
        if isinstance(a, float | bool) or type(a).__name__ in {"SymBool", "SymFloat"}:
            return a
        return a if isinstance(a, int) and isinstance(b, int) and a == b else self._env.create_unbacked_symint()

    def _shape(self, tensor: Any) -> list[Any]:
        return [size if isinstance(size, int) else self._env.simplify(size.node.expr) for size in tensor.shape]

    def _look(self, value: Value | None, values: Mapping[str, Any], node: Node) -> None:
        """Ends the pass where a size has become a long expression: simplifying those takes minutes."""
        made: Any = None if value is None else values.get(value.name)
        for size in getattr(made, "shape", ()):
            if not isinstance(size, int) and size.node.expr.count_ops() > _LONGEST:
                axes = {self._axes[symbol] for symbol in size.node.expr.free_symbols if symbol in self._axes}
                if axes:
                    raise _TooComplex(axes, node)

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
        if symbol in self._env.backed_var_to_val:  # else data decides it, in each call anew
            self._sizes[name] = int(self._env.backed_var_to_val[symbol])
        return name

    def _type(self, made: Any) -> tuple[str, tuple[int | str, ...], str]:
        """Dtype, shape and device of one of the values, in words."""
        if id(made) not in self._types:
            shape = tuple(self._size(size) for size in made.shape)
            self._types[id(made)] = str(made.dtype).removeprefix("torch."), shape, str(made.device)
        return self._types[id(made)]

    def _filled(self, graph: Graph, scope: _Scope) -> Graph:
        new = {}
        for value in _all(graph):
            made: Any = scope.values.get(value.name)
            if value.kind == "tensor" and hasattr(made, "dtype"):
                dtype, shape, device = self._type(made)
                new[value.name] = replace(value, dtype=dtype, shape=shape, device=device)
            elif value.shape is not None and value.kind == "tensor":  # of one call, not of all turns
                new[value.name] = replace(value, shape=None)
        nodes = []
        for at, node in enumerate(graph.nodes):
            arguments = {name: replaced(argument, new) for name, argument in node.arguments.items()}
            for name, inner in graphs_of(node).items():
                arguments[name] = self._filled(inner, scope.inner[at, name])
            nodes.append(replace(node, arguments=arguments, results=replaced(node.results, new)))
        return replace(
            graph,
            inputs=replaced(graph.inputs, new),
            parameters=replaced(graph.parameters, new),
            nodes=tuple(nodes),
            outputs=replaced(graph.outputs, new),
            effects=tuple(replace(each, values=replaced(each.values, new)) for each in graph.effects),
            symbols=self._sizes if graph is self._graph else {},
        )


def _all(graph: Graph) -> list[Value]:
    results = [value for node in graph.nodes for value in node.results if value is not None]
    return [*graph.inputs, *graph.parameters, *results]
