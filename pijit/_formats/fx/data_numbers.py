"""Numbers that the data of tensors decides, as tensors: torch.export cannot ask for such a number, nor check it.

`if int(y[0, 0]) == 3:` becomes a tensor of one bool, which `aten._assert_async` looks at, or which the operator of a
branch takes. Python computes with ints of any size and doubles; here they are int64 and float64.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pijit.graph.model import Graph, Node, Value, values_of
from pijit.graph.model.branches import is_branch, kind_of
from pijit.graph.torch_calls import NUMBERS, function_at, path_of
from pijit.graph.vocabulary.maths import OF_FLOATS

_ITEMS = {"item", "item_int", "item_float", "item_bool", "item_not"}
_SCALARS = {
    f"scalar_{name}"
    for name in (
        "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "negative", "abs", "equal", "not_equal",
        "less", "less_equal", "greater", "greater_equal", "not", "truth", "int", "float", "and", "or", "xor",
        "min", "max",
    )
}  # fmt: skip

# Functions of the module math of which torch.export has no expression: operators of ATen on float64 stand for them.
_FUNCTIONS = {f"scalar_{name}": name for name in (*OF_FLOATS, "hypot", "atan2", "fmod")}
_WHOLE = {f"scalar_{name}": name for name in ("floor", "ceil", "trunc")}


def has_functions(graph: Graph) -> bool:
    """It has such a function."""
    return any(node.op in _FUNCTIONS for node in graph.nodes)


class DataNumbers:
    """The numbers of a graph that follow from data.

    Args:
        graph: the graph.
        call: makes a node that calls a function.
        argument: gives the node of a value, or the argument itself.
        given: names of inputs that are tensors of one element.
        traced: torch.export runs the module without data.

    Attributes:
        makers: by name the nodes that give them; None: the graph is given it.
        checked_only: names of those that nothing but checks needs.
        detached: no gradient flows through them, as through a number of Python.
    """

    def __init__(
        self,
        graph: Graph,
        call: Callable[..., Any],
        argument: Callable[[Any], Any],
        given: Iterable[str] = (),
        traced: bool = False,
    ) -> None:
        import torch

        self._torch, self._call, self._argument = torch, call, argument
        self.makers: dict[str, Node | None] = dict.fromkeys(given)
        self._scalars: dict[str, Node] = {}  # also those that follow from sizes
        self._made: dict[str, Any] = {}
        for node in graph.nodes:
            if is_branch(node):
                self.makers.update((value.name, None) for value in node.results if value and value.kind != "tensor")
                continue
            result = node.results[0] if len(node.results) == 1 else None
            if result is None:
                continue
            if node.op in _SCALARS or node.op in _FUNCTIONS:
                self._scalars[result.name] = node
            of_data = any(value.name in self.makers for value in node.operands)
            known = _SCALARS | _FUNCTIONS.keys() | _WHOLE.keys()
            if node.op in _ITEMS or (node.op in known and of_data) or (traced and node.op in _FUNCTIONS):
                self.makers[result.name] = node
        self.checked_only = self._dead(graph)
        self.detached = False

    def __contains__(self, value: Any) -> bool:
        return isinstance(value, Value) and value.name in self.makers

    def _dead(self, graph: Graph) -> set[str]:
        """Those that nothing but checks needs."""
        used = {value.name for value in (*graph.results, *(value for _, value in graph.updates))}
        for node in reversed(graph.nodes):
            if node.op == "check" and node.arguments["x"] in self:
                continue
            results = [value.name for value in node.results if value is not None]
            if results and not is_branch(node) and all(name in self.makers and name not in used for name in results):
                continue
            used.update(value.name for value in node.operands)
        return set(self.makers) - used

    def give(self, value: Value, tensor: Any) -> None:
        """The tensor of a number that comes in, or that a branch has given."""
        self._made[value.name] = tensor

    def tensor(self, argument: Any, kind: str) -> Any:
        """Any number as a tensor of one element."""
        if kind == "bool" and isinstance(argument, Value) and argument not in self and argument.name in self._scalars:
            # torch.export takes a size for what it is, but a decision on it for the one that it sees
            node = self._scalars[argument.name]
            sides = node.arguments.values()
            return self._scalar(node, [self.tensor(side, str(kind_of(side))) for side in sides])
        made = self._tensor(argument)
        if argument in self:
            return made
        dtype = {"int": self._torch.int64, "float": self._torch.float64, "bool": self._torch.bool}[kind]
        return self._call(self._torch.ops.aten.scalar_tensor.default, (made,), {"dtype": dtype})

    def condition(self, value: Value, expected: Any) -> Any:
        """A tensor of one bool: the number is as expected."""
        made, aten = self._tensor(value), self._torch.ops.aten
        if isinstance(expected, bool):
            made = self._call(aten.ne.Scalar, (made, 0))
            return made if expected else self._call(aten.logical_not.default, (made,))
        return self._call(aten.eq.Scalar, (made, expected))

    def _tensor(self, argument: Any) -> Any:
        """A number as a tensor; one that no data decides as it is."""
        if not isinstance(argument, Value) or argument.name not in self.makers:
            return self._argument(argument)
        if argument.name not in self._made:
            node = self.makers[argument.name]
            assert node is not None, argument
            self._made[argument.name] = self._item(node) if node.op in _ITEMS else self._scalar(node)
        return self._made[argument.name]

    def _item(self, node: Node) -> Any:
        torch, aten = self._torch, self._torch.ops.aten
        (array,) = values_of(node.arguments)
        made = self._call(aten.reshape.default, (self._argument(array), []))
        if self.detached and node.op not in {"item_bool", "item_not", "item_int"}:
            made = self._call(aten.detach.default, (made,))
        if node.op in {"item_bool", "item_not"}:
            made = self._call(aten.ne.Scalar, (made, 0))
            return made if node.op == "item_bool" else self._call(aten.logical_not.default, (made,))
        result = node.results[0]
        kinds: Mapping[str, Any] = {"int": torch.int64, "float": torch.float64, "bool": torch.bool}
        kind = {"item_int": "int", "item_float": "float"}.get(node.op, "float" if result is None else result.kind)
        return self._call(aten.to.dtype, (made, kinds.get(kind, torch.float64)))

    def _scalar(self, node: Node, given: list[Any] | None = None) -> Any:
        """The result of a scalar operator; `given`: its arguments, all of them tensors."""
        torch, aten = self._torch, self._torch.ops.aten
        sides = list(node.arguments.values())
        kinds = [side.kind if isinstance(side, Value) else type(side).__name__ for side in sides]
        if node.op in _FUNCTIONS or node.op in _WHOLE:
            wide = [self.tensor(side, kind) for side, kind in zip(sides, kinds, strict=True)]
            wide = [self._call(aten.to.dtype, (each, torch.float64)) for each in wide]
            name = _FUNCTIONS.get(node.op) or _WHOLE[node.op]
            overload = "Tensor" if name == "fmod" else "default"
            done = self._call(getattr(getattr(aten, name), overload), tuple(wide))
            return done if node.op in _FUNCTIONS else self._call(aten.to.dtype, (done, torch.int64))
        made = given or [self._tensor(side) for side in sides]
        if node.op == "scalar_divide" or ("float" in kinds and len(kinds) > 1):  # as doubles, not as the default dtype
            made = [
                self._call(aten.to.dtype, (each, torch.float64)) if given or side in self else each
                for each, side in zip(made, sides, strict=True)
            ]
        if node.op == "scalar_truth":
            return self._call(aten.ne.Scalar, (made[0], 0))
        if node.op == "scalar_not":
            return self._call(aten.eq.Scalar, (made[0], 0))
        if node.op in {"scalar_min", "scalar_max"}:  # as Python has it: the first one, unless the second is beyond it
            x, y = (self.tensor(side, kind) for side, kind in zip(sides, kinds, strict=True))
            beyond = self._call((aten.lt if node.op == "scalar_min" else aten.gt).Tensor, (y, x))
            return self._call(aten.where.self, (beyond, y, x))
        if node.op in {"scalar_int", "scalar_float"}:
            return self._call(aten.to.dtype, (made[0], torch.int64 if node.op == "scalar_int" else torch.float64))
        return self._call(function_at(path_of(NUMBERS[node.op])), tuple(made))
