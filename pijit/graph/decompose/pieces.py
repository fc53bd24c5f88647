"""What one operator is decomposed into: torch traces it on tensors without data, and its nodes become a graph's."""

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pijit.graph import lowerings, vocabulary
from pijit.graph.decompose.branching import Branching, Unable
from pijit.graph.decompose.own import OWN
from pijit.graph.decompose.sizes import Numbers, Sizes
from pijit.graph.decompose.tables import table
from pijit.graph.decompose.tracing import apart
from pijit.graph.model import Graph, Node, Value, replaced, values_of
from pijit.graph.model.branches import all_nodes, graphs_of, is_branch
from pijit.graph.model.names import Names
from pijit.graph.model.tokens import token
from pijit.graph.torch_calls import function_at
from pijit.graph.torch_run import torch_caller

# What torch says of numbers in a decomposition, which is none of the computation.
_SAID = frozenset({"aten::sym_constrain_range", "aten::sym_constrain_range_for_size", "aten::_assert_scalar"})
# Numbers that are read of a tensor.
_ITEMS = {"SymInt": "int", "SymFloat": "float", "SymBool": "bool"}
# What changes the shape of a tensor itself, and what gives another one: later nodes take the result of either.
_SHAPES = {
    "aten::transpose_": "torch.ops.aten.transpose.int",
    "aten::unsqueeze_": "torch.ops.aten.unsqueeze.default",
    "aten::squeeze_": "torch.ops.aten.squeeze.default",
    "aten::t_": "torch.ops.aten.t.default",
}
# Constants come through these, with what they are.
_LIFTS = frozenset({"aten::lift_fresh_copy", "aten::lift_fresh", "aten::detach_"})


@dataclass
class Made:
    """What an operator has become.

    Attributes:
        nodes: in order.
        fixes: sizes for which alone that holds.
    """

    nodes: list[Node] = field(default_factory=list)
    fixes: dict[str, int] = field(default_factory=dict)


class Pieces:
    """Decomposes operators of one graph.

    Args:
        graph: of them.
        has_form: what need not be decomposed.

    Attributes:
        constants: values that decompositions have brought.
        data: of these.
        same: what stands for a result that is an operand once more, by its name.
        used: names of what the graph looks at.
        inputs: of the graph.
        names: those that are taken.
    """

    def __init__(self, graph: Graph, has_form: Callable[[Node], bool]) -> None:
        self.constants: list[Value] = []
        self.data: dict[str, Any] = {}
        self.same: dict[str, Any] = {}
        self.used = _used(graph)
        self.inputs = graph.inputs
        self._has_form = has_form
        self._may_hold: Callable[[Any], bool] = lambda tensor: True
        self.names = Names({value.name for value in _values(graph)})
        self._sizes = Sizes(graph)
        self._parameters = {id(graph.data[each.name]): each for each in graph.parameters if each.name in graph.data}
        self._makers = {value.name: node for node in all_nodes(graph) for value in node.results if value is not None}
        self._call = torch_caller({**OWN, **lowerings.in_torch()})

    def of(self, node: Node) -> Made:
        """What a node becomes.

        Raises:
            Unable: torch has no decomposition of it, or cannot trace it.
        """
        called = self._without_writes(node)
        decompositions = table(node, self._has_form)
        made = self._made(node, lambda values: self._call(called, values), decompositions, fixing=True)
        if [each.op for each in made.nodes if each.op != "size"] == [node.op]:
            raise Unable("it stays what it is")
        self._makers |= {value.name: each for each in made.nodes for value in each.results if value is not None}
        return made

    def of_function(
        self,
        node: Node,
        run: Callable[[Mapping[str, Any]], Any],
        whole: bool,
        may_hold: Callable[[Any], bool] = lambda tensor: True,
    ) -> Made:
        """What a call of Python becomes.

        Args:
            node: that stands for the call.
            run: makes the call, given what stands for the operands of the node.
            whole: the node has all results.
            may_hold: whether a tensor may be a constant of it.

        Raises:
            Unable: torch cannot trace it.
        """
        self._may_hold = may_hold
        return self._made(node, run, {}, fixing=False, whole=whole)

    def _made(
        self,
        node: Node,
        run: Callable[[Mapping[str, Any]], Any],
        decompositions: Mapping[Any, Any],
        *,
        fixing: bool,
        whole: bool = True,
    ) -> Made:
        operands = list({value.name: value for value in node.operands}.values())
        try:
            given = [self._sizes.given(value, self._makers) for value in operands]
            module, guards = self._traced(run, operands, given, decompositions)
        except Unable:
            raise
        except Exception as error:  # torch has no base class of what it raises
            raise Unable(f"{type(error).__name__}: {error}") from error
        made = Made()
        near = _Near(node)
        numbers = Numbers(self._sizes, near, self.names, made.nodes)
        try:
            for guard in guards:
                made.fixes |= numbers.decided(guard, fixing)
            _Conversion(self, node, operands, near, made.nodes, whole).run(module)
        except KeyError as error:
            raise Unable(str(error)) from error
        return made

    @staticmethod
    def _without_writes(node: Node) -> Node:
        """The same operator without writing: `foo` for `foo_`."""
        if not node.writes:
            return node
        if len(node.writes) > 1 or not isinstance(node.arguments.get(node.writes[0]), Value):
            raise Unable("it writes to several arguments")
        return replace(node, writes=())

    def _traced(
        self,
        run: Callable[[Mapping[str, Any]], Any],
        operands: Sequence[Value],
        given: Sequence[Any],
        decompositions: Mapping[Any, Any],
    ) -> tuple[Any, list[Any]]:
        """The module of FX that torch makes of a call, and what it has decided on sizes."""
        import torch
        from torch._dispatch.python import enable_python_dispatcher
        from torch.fx.experimental.proxy_tensor import make_fx

        names = [value.name for value in operands]

        def called(*arrays: Any) -> Any:
            return run(dict(zip(names, arrays, strict=True)))

        before = len(self._sizes.env.guards)
        with torch.no_grad(), enable_python_dispatcher(), self._sizes.mode, apart():
            module = make_fx(called, decomposition_table=dict(decompositions), _allow_non_fake_inputs=True)(*given)
        return module, [guard.expr for guard in self._sizes.env.guards[before:]]

    def fresh(self, word: str, made: Any) -> Value:
        """A value of the type that torch has found."""
        if not hasattr(made, "dtype"):
            raise Unable("a result is no tensor")
        return self._sizes.typed(Value(self.names.fresh(word)), made)

    def constant(self, tensor: Any) -> Value:
        """A value for a tensor that the decomposition holds."""
        held = getattr(tensor, "constant", tensor)  # of a tensor without data: the number that it was made of
        if held is None or type(held).__name__ == "FakeTensor":
            raise Unable("it holds a tensor without data")
        if id(held) in self._parameters:
            return self._parameters[id(held)]
        if not self._may_hold(held):
            raise Unable(
                "it takes a tensor that the call has made before, and that it is not given; give it as an operand"
            )
        value = replace(self.fresh("constant", held), role="constant")
        self.constants.append(value)
        self.data[value.name] = held
        return value


def _unused(nodes: Any) -> set[Any]:
    """Nodes of FX that nothing uses and that do nothing: questions that torch has asked on the way."""
    import torch

    found: set[Any] = set()
    for each in reversed(nodes):
        if each.op != "call_function" or any(user not in found for user in each.users):
            continue
        overload = each.target
        if isinstance(overload, torch._ops.OpOverload):
            schema = overload._schema  # what gives nothing may raise
            if schema.returns and not schema.is_mutable and torch.Tag.nondeterministic_seeded not in overload.tags:
                found.add(each)
        elif overload is operator.getitem:
            found.add(each)
    return found


class _Near:
    """Makes nodes that come from where another one does."""

    def __init__(self, node: Node) -> None:
        self._place: dict[str, Any] = {"region": node.region, "file": node.file, "line": node.line}

    def __call__(self, op: str, arguments: Mapping[str, Any], results: Sequence[Value | None], **more: Any) -> Node:
        return Node(op, arguments, tuple(results), **self._place, **more)


class _Conversion:
    """Nodes of a graph for those of a module of FX."""

    def __init__(
        self,
        pieces: Pieces,
        node: Node,
        operands: Sequence[Value],
        near: _Near,
        nodes: list[Node],
        whole: bool,
    ) -> None:
        self._whole = whole
        self._pieces, self._node, self._operands, self._near, self._nodes = pieces, node, operands, near, nodes
        self._known: dict[Any, Any] = {}  # by nodes of FX

    def run(self, module: Any) -> None:
        import torch

        operands = iter(self._operands)
        unused = _unused(module.graph.nodes)
        for each in module.graph.nodes:
            if each in unused:
                continue
            if each.op == "placeholder":
                self._known[each] = next(operands)
            elif each.op == "get_attr":
                held = getattr(module, each.target)
                self._known[each] = held if isinstance(held, torch.fx.GraphModule) else self._constant(held)
            elif each.op == "output":
                self._results(self._argument(each.args[0]))
            else:
                self._function(each)

    def _constant(self, held: Any) -> Any:
        return self._pieces.constant(held)

    def _of_module(self, module: Any, operands: Sequence[Value]) -> "_Conversion":
        """The nodes of the module of one side, or of one turn."""
        made = _Inside(self._pieces, self._node, operands, self._near, [], True)
        made.run(module)
        return made

    def _argument(self, held: Any) -> Any:
        import torch

        if isinstance(held, torch.fx.Node):
            return self._known[held]
        if isinstance(held, list | tuple):
            return tuple(map(self._argument, held))
        if (word := token(held)) is not None:
            return word
        if held is not None and not isinstance(held, bool | int | float | complex | str):
            raise Unable(f"an argument is of type {type(held).__name__}")
        return held

    def _function(self, each: Any) -> None:
        import torch

        if isinstance(each.target, torch._ops.HigherOrderOperator):
            Branching(self._pieces, self._near, self._nodes, self._known, self._of_module).emit(each, self._argument)
            return
        if not isinstance(each.target, torch._ops.OpOverload):
            self._number(each)
            return
        function = _SHAPES.get(each.target._schema.name)
        schema = (each.target if function is None else function_at(function))._schema
        name = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
        if name in _SAID:
            return
        if name in _LIFTS:
            self._known[each] = self._argument(each.args[0])
            return
        if name == "aten::sym_size.int":
            array, axis = map(self._argument, each.args)
            self._emit_number(each, "size", {"x": array, "axis": axis}, "tensor::size")
            return
        if name == "aten::_local_scalar_dense":
            kind = _ITEMS.get(type(each.meta["val"]).__name__)
            if kind is None:
                raise Unable("a number that data decides is none of a graph")
            self._emit_number(each, f"item_{kind}", {"x": self._argument(each.args[0])}, f"tensor::{kind}")
            return
        if name == "aten::sym_numel":
            self._emit_number(each, "numel", {"x": self._argument(each.args[0])}, "tensor::numel")
            return
        given = dict(zip((argument.name for argument in schema.arguments), each.args, strict=False)) | each.kwargs
        complete = [(one.name, self._argument(given.get(one.name, one.default_value))) for one in schema.arguments]
        self._operator(each, name, schema, complete)

    def _operator(self, each: Any, name: str, schema: Any, complete: list[tuple[str, Any]]) -> None:
        import torch

        written = [at for at, argument in enumerate(schema.arguments) if argument.is_write]
        named = vocabulary.neutral(name, complete)
        if named is None:
            defaults = {one.name: _literal(one.default_value) for one in schema.arguments if one.has_default_value()}
            op, taken = name, {key: x for key, x in complete if key not in defaults or x != defaults[key]}
            writes = tuple(complete[at][0] for at in written)
        else:
            op, taken = named
            slots = vocabulary.row_of(name)[1].slots  # type: ignore[index]
            writes = tuple(slots[at] or "" for at in written)
        made = each.meta["val"]
        results: list[Value | None]
        if isinstance(made, list | tuple):
            taken_items = {user.args[1]: user for user in each.users}
            results = [
                self._pieces.fresh(op.rpartition("::")[2].partition(".")[0], one) if at in taken_items else None
                for at, one in enumerate(made)
            ]
            self._known[each] = tuple(results)
        elif made is None:
            raise Unable(f"{name} gives nothing")
        else:
            value = self._pieces.fresh(op.rpartition("::")[2].partition(".")[0], made)
            results = [value]
            self._known[each] = value
        places = [_shared(one, schema.arguments) for one in schema.returns]
        slots = [one.name for one in schema.arguments] if named is None else vocabulary.row_of(name)[1].slots  # type: ignore[index]
        aliases = tuple((slots[at] or "") if at >= 0 else "" for at in places) if len(places) == len(results) else ()
        self._nodes.append(
            self._near(
                op,
                taken,
                results,
                origin=name,
                writes=writes,
                aliases=aliases if any(aliases) else (),
                random=torch.Tag.nondeterministic_seeded in each.target.tags,
            )
        )

    def _number(self, each: Any) -> None:
        name = getattr(each.target, "__name__", "")
        if name == "getitem":
            self._known[each] = self._argument(each.args[0])[each.args[1]]
            return
        row = Numbers.row(each.target)
        if row is None:
            raise Unable(f"{name} of a size")
        names = ("x", "y")[: len(each.args)]
        self._emit_number(each, row, dict(zip(names, map(self._argument, each.args), strict=True)))

    def _emit_number(self, each: Any, op: str, arguments: Mapping[str, Any], origin: str = "") -> None:
        if not any(True for _ in values_of(arguments)):
            raise Unable("a number is computed of numbers")
        kinds = {"SymInt": "int", "SymBool": "bool", "SymFloat": "float"}
        made = each.meta["val"]
        kind: Any = kinds.get(type(made).__name__, type(made).__name__)
        value = Value(self._pieces.names.fresh(op), kind)
        self._known[each] = value
        self._nodes.append(self._near(op, arguments, (value,), origin=origin))

    def _results(self, made: Any) -> None:
        """What the last nodes give has the names that the graph has for it."""
        node = self._node
        found = made if isinstance(made, tuple) else (made,)
        if node.writes:
            target = node.arguments[node.writes[0]]
            if len(found) != 1 or len(node.results) != 1:
                raise Unable("it writes, and gives more than what it has written")
            assigned = self._near(
                "assign", {"x": target, "y": found[0]}, node.results, origin="aten::copy_", writes=("x",)
            )
            self._nodes.append(assigned)
            return
        named = node.results
        if not self._whole:
            named = (*named, *(None for _ in found[len(named) :]))
        if len(found) != len(named):
            raise Unable("it gives something else")
        own = {value.name: at for at, each in enumerate(self._nodes) for value in each.results if value is not None}
        new: dict[str, Any] = {}
        for value, each in zip(named, found, strict=True):
            if value is None or (each is None and value.name not in self._pieces.used):
                continue
            if not isinstance(each, Value) and value.kind == "tensor":
                raise Unable("a result is no tensor")
            if isinstance(each, Value) and each.name in own and each.name not in new:
                new[each.name] = value
            else:
                self._pieces.same[value.name] = new.get(each.name, each) if isinstance(each, Value) else each
        for at, each in enumerate(self._nodes):
            arguments = {name: replaced(argument, new) for name, argument in each.arguments.items()}
            results = tuple(value and new.get(value.name, value) for value in each.results)
            self._nodes[at] = replace(each, arguments=arguments, results=results)


class _Inside(_Conversion):
    """Nodes of a graph in a node: constants come in from outside."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.nodes: list[Node] = self._nodes
        self.constants: dict[str, tuple[Value, Value]] = {}  # by name: that outside, and the input for it
        self.outputs: Any = None

    def _constant(self, held: Any) -> Any:
        outside = self._pieces.constant(held)
        if outside.name not in self.constants:
            inside = replace(outside, name=self._pieces.fresh("constant", held).name, role="input", path="")
            self.constants[outside.name] = outside, inside
        return self.constants[outside.name][1]

    def _results(self, made: Any) -> None:
        self.outputs = made


def _shared(result: Any, arguments: Sequence[Any]) -> int:
    """The position of the argument that a result may share memory with; -1: none."""
    held = result.alias_info
    if held is None:
        return -1
    for at, argument in enumerate(arguments):
        if argument.alias_info is not None and argument.alias_info.before_set & held.before_set:
            return at
    return -1


def _literal(default: Any) -> Any:
    return tuple(default) if isinstance(default, list) else default


def _used(graph: Graph) -> set[str]:
    found = {value.name for node in all_nodes(graph) for value in node.operands}
    found |= {value.name for value in values_of(graph.outputs)} | {value.name for _, value in graph.updates}
    for node in graph.nodes:
        for inner in graphs_of(node).values() if is_branch(node) else ():
            found |= _used(inner)
    return found


def _values(graph: Graph) -> Sequence[Value]:
    results = [value for node in graph.nodes for value in node.results if value is not None]
    inner = [each for node in graph.nodes if is_branch(node) for each in graphs_of(node).values()]
    return [*graph.inputs, *graph.parameters, *results, *itertools.chain.from_iterable(map(_values, inner))]
