"""Functions that a call chooses among by data, where a segment has all of them: is what they read still as it was?

A recording leaves `torch.cond` and its like to CPython as one call, which calls functions of the program. A plan that
stands for such a call has the operators of all its functions. They may read what no guard of the trace is about: a
global, an attribute of a module, a weight. So each function is called once more, on zeros of the forms that it is
given, and that call is recorded. Its guards are asked before the plan runs. Torch has followed the functions before and
found no effects.
"""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import FunctionType, MethodType
from typing import Any, Protocol

from pijit import _core
from pijit._roots import add_second
from pijit.errors import ExportError
from pijit.graph.decompose.branching import Unable
from pijit.graph.model import Graph, Node, Value, replaced
from pijit.graph.model.branches import all_nodes, is_branch
from pijit.graph.model.memory import shared

# What a recording of such a function consists of: nothing else can have read what the guards are not about.
_NODES = frozenset({"adapter", "check", "build", "box", "unbox", "scalar", "pure", "getcell", "region", "return"})
_NODES |= {"guard_bool", "guard_int", "guard_float", "guard_is", "guard_type"}
# The parameters of torch's functions that are given functions.
_FUNCTIONS = frozenset({"true_fn", "false_fn", "cond_fn", "body_fn", "combine_fn", "f"})
_TRIES = 3  # calls until one is recorded


class Splits(ExportError):
    """The segment cannot have all sides of a call; it may end there."""


class _Call(Protocol):
    """A call of a higher order operator, see `higher_order.Called`."""

    function: Any
    whole: bool

    @property
    def operands(self) -> tuple[Value, ...]: ...
    def run(self, values: Mapping[str, Any]) -> Any: ...
    def may_hold(self) -> Callable[[Any], bool]: ...
    def given(self, values: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]: ...


@dataclass
class Watched:
    """Such a call, which notes the forms of what it is given where it becomes operators.

    Attributes:
        call: the call.
        forms: of its operands, by their names, as `_form` has them.
    """

    call: _Call
    forms: dict[str, Any] = field(default_factory=dict)

    @property
    def operands(self) -> tuple[Value, ...]:
        return self.call.operands

    @property
    def whole(self) -> bool:
        return self.call.whole

    def may_hold(self) -> Callable[[Any], bool]:
        return self.call.may_hold()

    def run(self, values: Mapping[str, Any]) -> Any:
        self.forms = {name: _form(value) for name, value in values.items()}
        self._check()
        return self.call.run(values)

    def _check(self) -> None:
        """The functions are those of which torch knows that they have no effect: else nothing calls them."""
        given = self._bound(self.call.given(self._examples()))
        if "pred" in given and isinstance(given["pred"], bool | int | float):
            raise Unable("the condition is a number of Python")
        if self._is_operator and not all(map(_is_module_of_fx, self._functions(given))):
            raise Unable("the operator is called by hand, with functions of Python")

    @property
    def _is_operator(self) -> bool:
        return isinstance(self.call.function, sys.modules["torch"]._ops.HigherOrderOperator)

    @staticmethod
    def _functions(given: Mapping[str, Any]) -> list[Any]:
        return [each for name, each in given.items() if name in _FUNCTIONS]

    def _examples(self) -> dict[str, Any]:
        return {name: _example(form) for name, form in self.forms.items()}

    def _bound(self, given: tuple[list[Any], dict[str, Any]]) -> dict[str, Any]:
        function = type(self.call.function).__call__.__get__(self.call.function) if self._is_operator else None
        word = getattr(self.call.function, "__name__", "")
        if self._is_operator and word in {"map", "map_impl", "associative_scan"}:  # its signature has no names
            first = "f" if word.startswith("map") else "combine_fn"
            return dict(zip((first, "xs", "additional_inputs"), given[0], strict=True))
        bound = inspect.signature(function or self.call.function).bind(*given[0], **given[1])
        bound.apply_defaults()
        return dict(bound.arguments)

    def calls(self) -> list[tuple[Callable[..., Any], tuple[Any, ...]]]:
        """Each function, and what it may be given."""
        torch = sys.modules["torch"]
        given = self._bound(self.call.given(self._examples()))
        functions = self._functions(given)

        def first(tree: Any) -> Any:
            return torch.utils._pytree.tree_map(lambda each: each.select(given.get("dim", 0), 0), tree)

        if "operands" in given:
            taken = tuple(given["operands"])
        elif "carried_inputs" in given:
            taken = (*given["carried_inputs"], *given.get("additional_inputs", ()))
        elif self._is_operator:
            item = first(tuple(given["xs"]))
            of_scan = "combine_fn" in given and "init" not in given
            taken = (*given.get("init", ()), *item, *(item if of_scan else ()), *given.get("additional_inputs", ()))
        elif "init" in given:
            taken = (given["init"], first(given["xs"]))
        elif "combine_fn" in given:
            taken = (first(given["xs"]),) * 2
        else:
            taken = (first(given["xs"]), *given.get("args", ()))
        return [(function, taken) for function in functions]


class Sides:
    """The functions of all such calls of a segment."""

    def __init__(self, calls: Sequence[Watched]) -> None:
        torch = sys.modules["torch"]
        self._roots: list[_Root] = []
        for call in calls:
            each = call.calls()
            self._roots += [_Root(function, taken) for function, taken in each]
            for tensor in torch.utils._pytree.tree_leaves([taken for _, taken in each]):
                if isinstance(tensor, torch.Tensor):  # guards look at no data
                    tensor.untyped_storage().resize_(0)

    def hold(self) -> bool:
        """What they read is as it was."""
        return all(_core.guards_hold(each.number) for each in self._roots)


class _Root:
    """A root that calls a function, with one recording.

    Raises:
        Splits: the call is not recorded, or not all of it.
    """

    def __init__(self, function: Callable[..., Any], taken: tuple[Any, ...]) -> None:
        def call() -> bool:
            return function(*taken) is None

        self.function, self.number = add_second(call)  # type: ignore[arg-type]
        budget = _core.get_option("record_budget")
        _core.set_option("record_budget", 0)
        try:
            for _ in range(_TRIES):
                self.function()
                if _core.root_report(self.number)["traces"]:
                    break
            else:
                raise Splits("a function that the call is given is not recorded")
        finally:
            _core.set_option("record_budget", budget)
        data = _core.trace_data(self.number, 0)
        if data["ends"] != "return" or any(row["op"] not in _NODES for row in data["nodes"]):
            raise Splits("a function that the call is given calls what is not followed")

    def __del__(self) -> None:
        _core.remove_root(self.number)


def with_extras(graph: Graph, own: frozenset[str]) -> tuple[Graph, tuple[Any, ...]]:
    """The graph with weights that only such functions read as inputs; and these tensors.

    Args:
        graph: with branches.
        own: names of the parameters that the trace has found.
    """
    extras = [value for value in graph.parameters if value.name not in own]
    inputs = {value.name: replace(value, role="input", path="") for value in extras}
    nodes = tuple(_changed(node, inputs) for node in graph.nodes)
    tensors = tuple(graph.data[value.name] for value in extras)
    return (
        replace(
            graph,
            inputs=(*graph.inputs, *inputs.values()),
            parameters=tuple(value for value in graph.parameters if value.name in own),
            nodes=nodes,
            data={name: tensor for name, tensor in graph.data.items() if name not in inputs},
        ),
        tensors,
    )


def _changed(node: Node, values: Mapping[str, Value]) -> Node:
    return replace(node, arguments={name: replaced(argument, values) for name, argument in node.arguments.items()})


def check(graph: Graph) -> None:
    """Raises `Splits` where a call did not become a branch, or where a result may be what it is given."""
    for node in all_nodes(graph):
        if node.op.startswith("python::"):
            raise Splits(node.origin or "a call of the segment has no operators")
    for node in graph.nodes:
        if is_branch(node) and node.op == "cond" and any(shared(node)):
            raise Splits("a side gives what it is given")


def _form(value: Any) -> Any:
    if not isinstance(value, sys.modules["torch"].Tensor):
        return _number(value)
    return tuple(map(_number, value.shape)), tuple(map(_number, value.stride())), value.dtype, value.device


def _number(value: Any) -> Any:
    if isinstance(value, bool | int | float):
        return value
    hint = value.node.hint
    if hint is None:
        raise Unable("it is given a number that data decides")
    return hint


def _example(form: Any) -> Any:
    if not isinstance(form, tuple):
        return form
    sizes, strides, dtype, device = form
    torch = sys.modules["torch"]
    from torch._subclasses.fake_tensor import unset_fake_temporarily
    from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

    with unset_fake_temporarily(), disable_proxy_modes_tracing():
        made = torch.empty_strided(sizes, strides, dtype=dtype, device=device)
        return made.zero_()


def _is_module_of_fx(function: Any) -> bool:
    owner = function.__self__ if isinstance(function, MethodType) else function
    fx = sys.modules.get("torch.fx")
    return fx is not None and isinstance(owner, fx.GraphModule) and not isinstance(function, FunctionType)
