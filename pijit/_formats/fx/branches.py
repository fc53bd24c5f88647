"""Nodes with graphs in them as torch's higher order operators `cond` and `while_loop`.

torch.export takes these; a GraphModule calls them through `pijit._formats.fx.control_flow`.

1. A graph in a node becomes a GraphModule of its own, an attribute of the one around it.
2. The operators take tensors, and ints that are the same in each turn. A number that data decides, or that is carried,
   is a tensor of one element there: int64, float64 or bool. It is read (`aten.item`) where something needs the number.
3. They allow no result that shares memory with what they are given, or with another result: such ones are copied. So
   a graph that writes to one of these afterwards has no form here.
"""

from collections.abc import Iterator
from typing import Any

from pijit._formats.fx.lowering import Lowering
from pijit.errors import ExportError
from pijit.graph.model import Graph, Node, Value, place_of
from pijit.graph.model.branches import BRANCHES, given, is_branch, kind_of
from pijit.graph.model.memory import Memory, outputs_shared, shared, written_by
from pijit.graph.torch_calls import function_at


def check_writes(graph: Graph, format: str) -> None:
    """`ExportError` where something is written that may be the result of a branch, too."""
    memory, known = Memory(graph), set()
    for node in graph.nodes:
        for name in written_by(node):
            value = node.arguments.get(name)
            if isinstance(value, Value) and memory.root(value) in known:
                raise ExportError(
                    f"{place_of(node)}{node.op} writes to {value.name!r}, which a decision before may have given, or "
                    f"kept; format {format!r} copies it there: write `x = x.clone()` before it"
                )
        if is_branch(node):
            known |= {memory.root(value) for pair in shared(node) for value in pair}


_HANDED = ("array", "size", "number")


def _each_once(lowering: Lowering, node: Node, places: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The same with "as" and a position for what is there already: torch takes nothing twice here."""
    carried = len(node.results) if node.op == "while" else 0
    made: list[tuple[str, Any]] = []
    for at, (how, each) in enumerate(places):
        before = next((i for i, (other, held) in enumerate(made) if other == how and held is each), None)
        if before is None or how == "literal":
            made.append((how, each))
        elif before < carried or at < carried:  # what is carried becomes another thing
            made.append((how, lowering.call(lowering.torch.ops.aten.clone.default, (each,))))
        else:
            made.append(("as", before))
    return made


def _places(lowering: Lowering, node: Node) -> Iterator[tuple[str, Any]]:
    """How each input of the graphs comes in, and what is given for it: "array", "size", "number" or "literal"."""
    count = len(node.results) if node.op == "while" else 0
    for at, each in enumerate(given(node)):
        kind = kind_of(each)
        if kind == "tensor":
            yield "array", lowering.argument(each)
        elif at >= count and not isinstance(each, Value):
            yield "literal", each
        elif at >= count and kind == "int" and each not in lowering.numbers:
            yield "size", lowering.argument(each)
        else:
            yield "number", lowering.numbers.tensor(each, str(kind))


class BranchLowering(Lowering):
    """Makes the GraphModule of a graph that may have branches."""

    def branch(self, node: Node) -> None:
        """Makes the nodes of FX for one that has graphs in it."""
        from pijit._formats.fx import control_flow

        functions: Any = self.torch.ops.higher_order if self.traced else control_flow
        places = _each_once(self, node, [*_places(self, node)])
        modules = []
        for name in BRANCHES[node.op]:
            graph: Any = node.arguments[name]
            module = _Inner(graph, self, places).module()
            modules.append(self.fx.get_attr(self.hold(name, module)))
        if node.op == "cond":
            operands = tuple(made for how, made in places if how in _HANDED)
            condition = self.numbers.tensor(node.arguments["condition"], "bool")
            made = self.call(functions.cond, (condition, *modules, operands), {}, "cond")
        else:
            count = len(node.results)
            carried = tuple(made for _, made in places[:count])
            operands = tuple(made for how, made in places[count:] if how in _HANDED)
            made = self.call(functions.while_loop, (*modules, carried, operands), {}, "while_loop")
        for at, value in enumerate(node.results):
            if value is not None:
                item = self.call(function_at("operator.getitem"), (made, at), {}, value.name)
                self.enter(value, item)


class _Inner(BranchLowering):
    """Makes the module of a graph in a node."""

    def __init__(self, graph: Graph, around: Lowering, places: list[tuple[str, Any]]) -> None:
        self.places = places
        numbers = {
            value.name
            for value, (how, at) in zip(graph.inputs, places, strict=True)
            if how == "number" or (how == "as" and places[at][0] == "number")
        }
        super().__init__(graph, around.format, numbers)
        self.around = around.around
        self.late = self.numbers.detached = True

    def enter_inputs(self) -> None:
        for value, (how, literal) in zip(self.graph.inputs, self.places, strict=True):
            if how == "literal":
                self.made[value.name] = literal
            elif how == "as":
                self.same(value, self.graph.inputs[literal])
            elif how == "number":
                self.enter(value, self.fx.placeholder(value.name))
            else:
                self.made[value.name] = self.fx.placeholder(value.name)

    def same(self, value: Value, other: Value) -> None:
        """An input is another one, too."""
        if other in self.numbers:
            self.numbers.give(value, self.numbers.tensor(other, other.kind))
        else:
            self.made[value.name] = self.made[other.name]

    def outputs(self) -> Any:
        if not isinstance(self.graph.outputs, tuple):
            made = self.numbers.tensor(self.graph.outputs, "bool")
            given = made.op == "placeholder"
            return self.call(self.torch.ops.aten.clone.default, (made,)) if given else made
        several: list[Any] = []
        for each, places in zip(self.graph.outputs, outputs_shared(self.graph), strict=True):
            kind = kind_of(each)
            one = self.argument(each) if kind == "tensor" else self.numbers.tensor(each, str(kind))
            if (places and kind == "tensor") or one in several or one.op in {"placeholder", "get_attr"}:
                one = self.call(self.torch.ops.aten.clone.default, (one,))
            several.append(one)
        return tuple(several)
