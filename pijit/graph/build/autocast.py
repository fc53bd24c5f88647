"""Autocast as casts: what `torch.autocast` does to the operands of operators, as nodes.

Which operands an operator has cast, and to what, torch alone knows. Each node under autocast is called once on tensors
without data, with autocast and then on operands that were cast before it, without. If torch dispatches the same
operators both times, the casts become nodes.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pijit.errors import ExportError
from pijit.graph.build import training_steps
from pijit.graph.model import Graph, Node, Token, Value, place_of, regions, replaced, values_of
from pijit.graph.model.names import Names
from pijit.graph.run import bind
from pijit.graph.torch_run import torch_caller

# What a program calls to change the mode; the first argument of the first two is a device.
_ENABLED, _DTYPE = "torch::_C.set_autocast_enabled", "torch::_C.set_autocast_dtype"
_OTHERS = frozenset({"autocast_increment_nesting", "autocast_decrement_nesting", "clear_autocast_cache"})
_OTHERS |= {"set_autocast_cache_enabled"}
_DEVICES = ("cpu", "cuda")


@dataclass
class Modes:
    """The modes of a program as it goes on: for each kind of device whether autocast is on, and its dtype.

    Attributes:
        under: for nodes that were called under autocast, by their identity: the kind of device, and the dtype.
    """

    enabled: dict[str, bool] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)
    under: dict[int, tuple[str, str]] = field(default_factory=dict)

    @classmethod
    def now(cls) -> "Modes":
        """Those of this moment."""
        torch = sys.modules.get("torch")
        if torch is None:
            return cls()
        found = cls()
        for device in _DEVICES:
            found.enabled[device] = torch.is_autocast_enabled(device)
            found.dtypes[device] = str(torch.get_autocast_dtype(device)).removeprefix("torch.")
        return found

    def changes(self, name: str, arguments: Sequence[Any]) -> bool:
        """A call that changes the modes is noted; False: it is another call."""
        if name not in {_ENABLED, _DTYPE}:
            return name.startswith("torch::_C.") and name.removeprefix("torch::_C.") in _OTHERS
        device, value = ("cpu", *arguments)[-2:]
        if name == _ENABLED:
            self.enabled[str(device)] = bool(value)
        else:
            self.dtypes[str(device)] = str(value)
        return True

    @property
    def held(self) -> tuple[str, str] | None:
        """The kind of device for which autocast is on now, and its dtype; None: for none."""
        held = [(device, self.dtypes.get(device, "")) for device, enabled in self.enabled.items() if enabled]
        return held[-1] if held else None

    def note(self, node: Node) -> None:
        """The node is called now."""
        if self.held is not None:
            self.under[id(node)] = self.held


@contextmanager
def on(held: tuple[str, str] | None) -> Iterator[None]:
    """Under autocast as a call was.

    Args:
        held: the kind of device, and the dtype; None: nothing changes.
    """
    import torch

    if held is None:
        yield
        return
    with torch.autocast(held[0], dtype=getattr(torch, held[1]), cache_enabled=False):
        yield


@contextmanager
def off() -> Iterator[None]:
    """Without autocast, whatever mode the program is in."""
    torch: Any = sys.modules.get("torch")
    with ExitStack() as stack:
        for device in _DEVICES if torch is not None else ():
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield


def expanded(graph: Graph, modes: Modes, tensors: Mapping[str, Any], applied: Mapping[str, Any]) -> Graph:
    """The graph with casts before the nodes that were called under autocast.

    Args:
        graph: what the builder made.
        modes: of the call.
        tensors: of the inputs and parameters, by name.
        applied: calls of Python that stand for operators (`functions.Call`), by the name of their first result.

    Raises:
        ExportError: what autocast does to an operator cannot be said in casts.
    """
    if not any(id(node) in modes.under for node in graph.nodes):
        return graph
    return _Expansion(graph, modes, tensors, applied).run()


class _Expansion:
    def __init__(self, graph: Graph, modes: Modes, tensors: Mapping[str, Any], applied: Mapping[str, Any]) -> None:
        from torch._subclasses.fake_tensor import FakeTensorMode

        self._graph, self._under, self._applied = graph, modes.under, applied
        self._mode = FakeTensorMode(allow_non_fake_inputs=True)
        self._made: dict[str, Any] = {}
        self._call = torch_caller()
        self._nodes: list[Node] = []
        values = [*graph.inputs, *graph.parameters]
        values += [value for node in graph.nodes for value in node.results if value is not None]
        self._names = Names({value.name for value in values})
        for value in (*graph.inputs, *graph.parameters):
            if value.name in tensors:
                self._made[value.name] = self._mode.from_tensor(tensors[value.name].detach(), static_shapes=True)

    def run(self) -> Graph:
        import torch

        with torch.no_grad(), self._mode:
            for node in self._graph.nodes:
                self._step(node)
        nodes = tuple(self._nodes)
        return replace(self._graph, nodes=nodes, region=regions.tree(nodes, regions.types_of(self._graph.region)))

    def _step(self, node: Node) -> None:
        if node.op == "check" or node.op in training_steps.OWN or node.op.startswith("python::"):
            self._nodes.append(node)
            self._apply(node)
            return
        known = all(value.name in self._made for value in node.operands)
        held = self._under.get(id(node))
        arrays = [value for value in node.operands if value.kind == "tensor"]
        if held is not None and arrays:
            if not known:
                raise self._unable(node)
            node = self._cast(node, *held)
        self._nodes.append(node)
        if not known:
            return
        if node.op.startswith("item"):
            for value in node.results:
                if value is not None:
                    self._made[value.name] = {"int": 7, "float": 0.7, "bool": True}.get(value.kind)
        else:
            bind(node, self._call(node, self._made), self._made)

    def _apply(self, node: Node) -> None:
        """What comes behind a call that stands for operators has its results."""
        call = next(
            (self._applied[value.name] for value in node.results if value and value.name in self._applied), None
        )
        if call is None or not all(value.name in self._made for value in call.operands):
            return
        try:
            given = call.run(self._made)
        except Exception:  # of the program, which looks at data: the call stays one of Python
            return
        for value, tensor in zip(node.results, given if isinstance(given, tuple) else (given,), strict=False):
            if value is not None:
                self._made[value.name] = tensor

    @staticmethod
    def _unable(node: Node) -> ExportError:
        return ExportError(
            f"{place_of(node)}{node.origin or node.op} is called under autocast, and what that does to it cannot be "
            "said in casts; cast its operands in the program (`x.to(torch.bfloat16)`)"
        )

    def _cast(self, node: Node, device: str, dtype: str) -> Node:
        """The node with operands that were cast."""
        import torch

        with on((device, dtype)):
            calls = self._dispatched(node, self._made)
        operands = {id(self._made[value.name]): value for value in node.operands if value.kind == "tensor"}
        wanted: dict[str, str] = {}
        for name, args, kwargs, _ in calls:
            if name == "aten::_to_copy" and id(args[0]) in operands and kwargs.keys() <= {"dtype"}:
                wanted[operands[id(args[0])].name] = str(kwargs["dtype"]).removeprefix("torch.")
            else:
                break
        made = dict(self._made)
        for name, own in wanted.items():
            made[name] = self._made[name].to(getattr(torch, own))
        left = calls[len(wanted) :]
        if [_words(each) for each in left] != [_words(each) for each in self._dispatched(node, made)]:
            raise self._unable(node)
        new = {name: self._as(node, name, own) for name, own in wanted.items()}
        return replace(node, arguments={name: replaced(each, new) for name, each in node.arguments.items()})

    def _as(self, node: Node, name: str, dtype: str) -> Value:
        """What stands for a value in a dtype."""
        value = next(each for each in values_of(node.arguments) if each.name == name)
        made = Value(self._names.fresh("astype"))
        cast = Node(
            "astype",
            {"x": value, "dtype": Token("dtype", dtype)},
            (made,),
            origin="aten::to.dtype",
            region=node.region,
            file=node.file,
            line=node.line,
        )
        self._nodes.append(cast)
        bind(cast, self._call(cast, self._made), self._made)
        return made

    def _dispatched(self, node: Node, values: Mapping[str, Any]) -> list[tuple[str, Any, Any, Any]]:
        """What torch dispatches beneath autograd: names, arguments and results."""
        from torch.utils._python_dispatch import TorchDispatchMode

        found: list[tuple[str, Any, Any, Any]] = []

        class Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                made = func(*args, **(kwargs or {}))
                if func._schema.name != "prim::device":
                    found.append((func._schema.name, args, kwargs or {}, made))
                return made

        with Watching():  # type: ignore[no-untyped-call]
            self._call(node, values)
        return found


def _words(call: tuple[str, Any, Any, Any]) -> Any:
    """What of a call can be compared."""

    def word(thing: Any) -> Any:
        if isinstance(thing, tuple | list):
            return [word(each) for each in thing]
        return (str(thing.dtype), tuple(thing.shape)) if hasattr(thing, "layout") else str(thing)

    name, args, kwargs, made = call
    return name, word(args), {key: word(each) for key, each in kwargs.items()}, word(made)
