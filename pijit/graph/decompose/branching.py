"""Torch's higher order operators in what it has traced, as nodes "cond" and "while".

1. The modules of an operator become graphs that are closed: what torch lifts out of them comes in as operands.
2. A condition that is a tensor of one bool is read (`item_bool`): a node has a number there.
3. `map` and `scan` call their function once for each item along the first axis: a few items that are known are so many
   copies of what the function does. Else it is a "while", which carries what the turns before have given.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pijit.errors import ExportError, UsageError
from pijit.graph import vocabulary
from pijit.graph.model import Graph, Node, Token, Value, regions, replaced
from pijit.graph.model.branches import kind_of
from pijit.graph.model.functional import functional

# Copies of what is called for each item; more are a loop.
_MOST_TURNS = 8


class Unable(Exception):
    """The operator has no decomposition; the message says why."""


class Branching:
    """Makes the node of one operator.

    Args:
        pieces: which decomposes.
        near: makes a node that comes from where the operator does.
        nodes: where nodes go.
        known: what stands for nodes of FX.
        of_module: the nodes of a module, given its inputs.
    """

    def __init__(
        self,
        pieces: Any,
        near: Callable[..., Node],
        nodes: list[Node],
        known: dict[Any, Any],
        of_module: Callable[[Any, Sequence[Value]], Any],
    ) -> None:
        self._pieces, self._near, self._nodes, self._known, self._of_module = pieces, near, nodes, known, of_module

    def emit(self, each: Any, argument: Callable[[Any], Any]) -> None:
        """The node for one of FX.

        Args:
            each: the node of FX.
            argument: what a graph has for an argument of it.
        """
        name = each.target.name()
        args = [_modules_kept(held, self._known, argument) for held in each.args]
        if name == "cond":
            condition, then, otherwise, operands = args
            self._cond(each, condition, (then, otherwise), tuple(operands))
        elif name == "while_loop":
            condition, body, carried, operands = args[:4]
            self._while(each, (condition, body), tuple(carried), tuple(operands))
        elif name in {"map_impl", "scan"}:
            self._turns(each, name, args)
        else:
            raise Unable(f"torch.ops.higher_order.{name} has no form in a graph")

    # -- decisions and loops

    def _condition(self, given: Any, nodes: list[Node]) -> Any:
        if isinstance(given, Value) and given.kind == "tensor":
            value = Value(self._pieces.names.fresh("item_bool"), "bool")
            nodes.append(self._near("item_bool", {"x": given}, (value,), origin="tensor::bool"))
            return value
        return given

    def _cond(self, each: Any, condition: Any, modules: Sequence[Any], operands: tuple[Any, ...]) -> None:
        condition = self._condition(condition, self._nodes)
        if not isinstance(condition, Value):
            raise Unable("the condition is known when it is traced")
        kinds = _kinds(operands)
        sides = [self._side(module, operands) for module in modules]
        more = {name: pair for _, side in sides for name, pair in side.constants.items()}
        graphs = [
            self._graph(name, inputs, side, more)
            for name, (inputs, side) in zip(("then", "otherwise"), sides, strict=True)
        ]
        results = self._result_values(each, "cond", kinds)
        operands = (*operands, *(outside for outside, _ in more.values()))
        self._add(
            "cond",
            {"condition": condition, "then": graphs[0], "otherwise": graphs[1], "operands": operands},
            results,
        )

    def _while(self, each: Any, modules: Sequence[Any], carried: tuple[Any, ...], operands: tuple[Any, ...]) -> None:
        given = (*carried, *operands)
        sides = [self._side(module, given) for module in modules]
        more = {name: pair for _, side in sides for name, pair in side.constants.items()}
        (_, asking), _ = sides
        asking.outputs = self._condition(_only(asking.outputs), asking.nodes)
        graphs = [
            self._graph(name, inputs, side, more)
            for name, (inputs, side) in zip(("condition", "body"), sides, strict=True)
        ]
        operands = (*operands, *(outside for outside, _ in more.values()))
        taken = {"condition": graphs[0], "body": graphs[1], "carried": carried, "operands": operands}
        self._add("while", taken, self._result_values(each, "while", ()))

    def _add(self, op: str, arguments: Mapping[str, Any], results: tuple[Value | None, ...]) -> None:
        try:
            self._nodes.append(self._near(op, arguments, results))
        except UsageError as error:
            raise Unable(str(error)) from error

    def _side(self, module: Any, operands: Sequence[Any]) -> tuple[list[Value], Any]:
        """The inputs and the nodes of a module."""
        placeholders = [each for each in module.graph.nodes if each.op == "placeholder"]
        if len(placeholders) != len(operands):
            raise Unable("a function takes something else than it is given")
        inputs = [self._input(each, operand) for each, operand in zip(placeholders, operands, strict=True)]
        return inputs, self._of_module(module, inputs)

    def _input(self, placeholder: Any, operand: Any) -> Value:
        made = placeholder.meta.get("val")  # a number that is known has none
        if hasattr(made, "dtype"):
            value: Value = self._pieces.fresh(placeholder.name, made)
            return replace(value, role="input")
        kind: Any = kind_of(operand)
        if kind not in {"int", "float", "bool"}:
            raise Unable("a function is given what is neither a tensor nor a number")
        return Value(self._pieces.names.fresh(placeholder.name), kind, "input")

    def _graph(self, name: str, inputs: Sequence[Value], side: Any, more: Mapping[str, tuple[Value, Value]]) -> Graph:
        """The closed graph of one side."""
        new: dict[str, Any] = {}
        constants = []
        for key, (outside, inside) in more.items():
            own = side.constants.get(key, (outside, inside))[1]
            if key not in side.constants:  # only the other side takes it
                own = replace(inside, name=self._pieces.names.fresh("constant"))
            constants.append(own)
        outputs = side.outputs
        if name != "condition":
            outputs = tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)
        nodes = tuple(side.nodes)
        graph = Graph(name, (*inputs, *constants), (), nodes, replaced(outputs, new), region=regions.tree(nodes, {}))
        try:
            graph = functional(graph)
        except ExportError as error:
            raise Unable(str(error)) from error
        if graph.updates:
            raise Unable("a function writes to what it is given")
        return graph

    def _result_values(self, each: Any, word: str, kinds: Sequence[Any]) -> tuple[Value | None, ...]:
        made = each.meta["val"]
        made = made if isinstance(made, tuple | list) else (made,)
        results = []
        for one in made:
            if hasattr(one, "dtype"):
                results.append(self._pieces.fresh(word, one))
            elif type(one).__name__ in {"SymInt", "int"}:
                results.append(Value(self._pieces.names.fresh(word), "int"))
            else:
                raise Unable("a function gives what is neither a tensor nor a whole number")
        self._known[each] = tuple(results)
        return tuple(results)

    # -- once for each item

    def _turns(self, each: Any, name: str, args: Sequence[Any]) -> None:
        """Copies of what the function does, for a number of items that is known."""
        module, first, second, *more = args
        items = tuple(first if name == "map_impl" else second)
        carried = () if name == "map_impl" else tuple(first)
        operands = tuple(second) if name == "map_impl" else tuple(more[0])
        count = items[0].shape[0] if items and items[0].shape else None
        takes = (
            (lambda now, rows: (*now, *rows, *operands)) if name == "scan" else (lambda now, rows: (*rows, *operands))
        )
        if isinstance(count, int) and count <= _MOST_TURNS:
            self._known[each] = self._copies(module, items, carried, takes, count)
        else:
            self._known[each] = self._loop(each, module, items, carried, operands, name == "scan")

    def _copies(
        self, module: Any, items: Sequence[Value], carried: tuple[Any, ...], takes: Callable[..., Any], count: int
    ) -> tuple[Any, ...]:
        outputs: list[list[Any]] = []
        for turn in range(count):
            rows = tuple(self._row(item, turn) for item in items)
            made = self._copied(module, takes(carried, rows))
            carried, out = made[: len(carried)], made[len(carried) :]
            outputs.append(list(out))
        stacked = [self._stacked(list(column)) for column in zip(*outputs, strict=True)]
        return (*carried, *stacked)

    def _loop(
        self,
        each: Any,
        module: Any,
        items: Sequence[Value],
        carried: tuple[Any, ...],
        operands: tuple[Any, ...],
        scans: bool,
    ) -> tuple[Any, ...]:
        """A "while" that goes along the first axis, and writes what each turn gives to one row of a tensor."""
        fresh = self._pieces.names.fresh
        results = self._result_values(each, "item", ())
        count = Value(fresh("size"), "int")
        self._nodes.append(self._near("size", {"x": items[0], "axis": 0}, (count,), origin="tensor::size"))
        held = [self._empty(value, count) for value in results[len(carried) :] if value is not None]
        outside = (*items, *operands, count)
        import torch

        first = self._pieces.constant(torch.zeros(1, dtype=torch.int64))  # torch.export takes no number as an index
        start = (first, *carried, *held)
        at, *now = (_inside(value, fresh) for value in (first, *carried, *held))
        given = [_inside(value, fresh) for value in outside]
        nodes: list[Node] = []
        rows = [self._item(value, at, nodes) for value in given[: len(items)]]
        more = given[len(items) : -1]
        side = self._of_module(module, (*now[: len(carried)], *rows, *more) if scans else (*rows, *more))
        made = list(side.outputs) if isinstance(side.outputs, tuple | list) else [side.outputs]
        nodes += side.nodes
        written = [
            self._with_item(value, at, out, nodes)
            for value, out in zip(now[len(carried) :], made[len(carried) :], strict=True)
        ]
        after = replace(at, name=fresh("after"), role="result")
        self._call("aten::add.Tensor", {"self": at, "other": 1, "alpha": 1}, after, nodes)
        inputs = (at, *now, *given)
        asking: list[Node] = []
        less = replace(at, name=fresh("less"), dtype="bool", role="result")
        self._call("aten::lt.Scalar", {"self": at, "other": given[-1]}, less, asking)
        going = self._condition(less, asking)
        body = _Side(nodes, (after, *made[: len(carried)], *written), side.constants)
        graphs = [
            self._graph("condition", inputs, _Side(asking, going, {}), side.constants),
            self._graph("body", inputs, body, side.constants),
        ]
        end = replace(first, name=fresh("end"), role="result")
        outside = (*outside, *(value for value, _ in side.constants.values()))
        taken = {"condition": graphs[0], "body": graphs[1], "carried": start, "operands": outside}
        self._add("while", taken, (end, *results))
        return results

    def _empty(self, value: Value, count: Value) -> Value:
        """A tensor with a row for each item, of zeros."""
        made = replace(value, name=self._pieces.names.fresh("zeros"))
        shape = (count, *map(self._size, (value.shape or ())[1:]))
        if value.dtype is None:
            raise Unable("a function gives a tensor of which the dtype is not known")
        self._call("aten::zeros", {"size": shape, "dtype": Token("dtype", value.dtype)}, made, self._nodes)
        return made

    def _size(self, size: Any) -> Any:
        """A size as a number of the graph."""
        if isinstance(size, int):
            return size
        for value in self._pieces.inputs:
            if size in (value.shape or ()):
                made = Value(self._pieces.names.fresh("size"), "int")
                taken = {"x": value, "axis": value.shape.index(size)}
                self._nodes.append(self._near("size", taken, (made,), origin="tensor::size"))
                return made
        raise Unable(f"a function gives a tensor of which a size is {size}, for each of a number of items that is free")

    def _row(self, array: Value, at: int) -> Value:
        value = replace(array, name=self._pieces.names.fresh("row"), shape=_of_rows(array), role="result", path="")
        self._call("aten::select.int", {"self": array, "dim": 0, "index": at}, value, self._nodes)
        return value

    def _item(self, array: Value, at: Value, nodes: list[Node]) -> Value:
        """What lies at the index in a tensor, along the first axis."""
        taken = replace(array, name=self._pieces.names.fresh("taken"), shape=(1, *_of_rows(array)), role="result")
        self._call("aten::index_select", {"self": array, "dim": 0, "index": at}, taken, nodes)
        row = replace(taken, name=self._pieces.names.fresh("row"), shape=_of_rows(array))
        self._call("aten::squeeze.dim", {"self": taken, "dim": 0}, row, nodes)
        return row

    def _with_item(self, array: Value, at: Value, row: Any, nodes: list[Node]) -> Value:
        """A tensor with something else there."""
        if not isinstance(row, Value):
            raise Unable("a function gives what is no tensor")
        source = replace(row, name=self._pieces.names.fresh("source"), shape=(1, *_of_rows(array)), role="result")
        self._call("aten::unsqueeze", {"self": row, "dim": 0}, source, nodes)
        made = replace(array, name=self._pieces.names.fresh("written"), role="result")
        self._call("aten::index_copy", {"self": array, "dim": 0, "index": at, "source": source}, made, nodes)
        return made

    def _stacked(self, arrays: list[Value]) -> Value:
        first = arrays[0]
        assert first.shape is not None
        value = replace(first, name=self._pieces.names.fresh("stack"), shape=(len(arrays), *first.shape), role="result")
        self._call("aten::stack", {"tensors": tuple(arrays), "dim": 0}, value, self._nodes)
        return value

    def _call(self, name: str, arguments: Mapping[str, Any], result: Value, nodes: list[Node]) -> None:
        named = vocabulary.neutral(name, list(arguments.items()))
        op, taken = (name, dict(arguments)) if named is None else named
        nodes.append(self._near(op, taken, (result,), origin=name))

    def _copied(self, module: Any, given: Sequence[Any]) -> tuple[Any, ...]:
        side = self._of_module(module, given)
        back = {inside.name: outside for outside, inside in side.constants.values()}
        for node in side.nodes:
            arguments = {key: replaced(held, back) for key, held in node.arguments.items()}
            self._nodes.append(replace(node, arguments=arguments))
        outputs = side.outputs if isinstance(side.outputs, tuple | list) else (side.outputs,)
        return tuple(replaced(each, back) for each in outputs)


def _of_rows(array: Value) -> tuple[Any, ...]:
    """The shape of what lies along the first axis."""
    return (array.shape or ())[1:]


@dataclass
class _Side:
    """The nodes of a graph in a node, as those of a module."""

    nodes: list[Node]
    outputs: Any
    constants: dict[str, tuple[Value, Value]]


def _inside(value: Any, fresh: Callable[[str], str]) -> Value:
    """The input of a graph for what it is given."""
    if not isinstance(value, Value):
        return Value(fresh("given"), kind_of(value), "input")  # type: ignore[arg-type]
    return replace(value, name=fresh(value.name), role="input", path="")


def _modules_kept(held: Any, known: Mapping[Any, Any], argument: Callable[[Any], Any]) -> Any:
    """A module of FX as it is; else what a graph has for the argument."""
    made = known.get(held) if getattr(held, "op", "") == "get_attr" else None
    return made if type(made).__name__.endswith("GraphModule") or hasattr(made, "graph") else argument(held)


def _kinds(operands: Sequence[Any]) -> list[Any]:
    return [kind_of(each) for each in operands]


def _only(outputs: Any) -> Any:
    return outputs[0] if isinstance(outputs, tuple | list) else outputs
