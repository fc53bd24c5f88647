"""Puts operators in the place of the call of torch's autograd engine.

What a graph calls under gradients is run once more, on tensors without data, and the operators that torch dispatches
beneath autograd are noted: first those of the forward nodes, then those that the engine calls for their gradients. So a
training step becomes a straight line of operators like any other graph.

1. A node that no gradient flows through stays as it is. The others become the operators that torch makes of them.
2. The gradient that a parameter holds is a buffer of the graph, "weight_grad"; `Graph.updates` gives what it holds
   after the call. Where the call drops it first, what it held before is never read.
3. Sizes are those of the call: what autograd computes with them (the divisor of a mean) are numbers by then. The graph
   begins with checks of the sizes of its inputs.
4. What cannot be said this way raises `Unable`.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, NamedTuple

from pijit import _torch_objects
from pijit.errors import ExportError
from pijit.graph import vocabulary
from pijit.graph.build import training_steps
from pijit.graph.model import Argument, Graph, Node, Value, regions, replaced, values_of
from pijit.graph.model.branches import is_branch
from pijit.graph.model.names import Names
from pijit.graph.model.tokens import token
from pijit.graph.run import bind
from pijit.graph.torch_run import torch_caller

# Operators that give the same tensor once more.
_SAME = frozenset({"aten::detach", "aten::alias", "aten::lift_fresh"})
# In their schema it is not said that they write, if their argument `training` is True.
_HIDDEN_WRITES = {"aten::native_batch_norm": ("running_mean", "running_var")}


def _laid_out(name: str, given: Mapping[str, Any]) -> str:
    """The operator by which a copy that torch lays out in order stays so: what comes next may be a view of that."""
    in_order = name == "aten::clone" and str(given.get("memory_format")) == "torch.contiguous_format"
    return "aten::contiguous" if in_order and not given["self"].is_contiguous() else name


class Unable(Exception):
    """The step cannot be said in operators; the message says why."""


class Call(NamedTuple):
    """What is known of the call beside its graph.

    Attributes:
        gradients: those before the call, by the identity of their tensors; others are not known.
        tensors: the tensors of inputs and parameters, by name.
        trained: names of those among them that are leaves which require gradients.
        enabled: gradients were on when the call began.
        complete: all arguments, by the names of the schema, of operators of which a row ignores some: an argument
            without meaning for the result may have one for its gradient. By the name of the first result.
    """

    gradients: Mapping[int, Any]
    tensors: Mapping[str, Any]
    trained: set[str]
    enabled: bool
    complete: Mapping[str, Mapping[str, Any]]


def expanded(graph: Graph, call: Call) -> Graph:
    """The graph with operators for its gradients.

    Raises:
        Unable: the step cannot be said in operators.
    """
    import torch

    for node in graph.nodes:
        if node.op.startswith("python::"):
            raise Unable(f"{node.place or graph.name}: {node.op.removeprefix('python::')} stands in the step")
        if is_branch(node):
            raise Unable(f"{node.place or graph.name}: the step has a {node.op!r}, of which no gradients are made")
    try:
        with torch.autograd.set_multithreading_enabled(False):
            return Expansion(graph, call).run()
    except (RuntimeError, ExportError) as error:  # torch cannot run an operator on tensors without data
        raise Unable(str(error)) from error


class Expansion:
    """Runs what a graph calls, and notes what torch calls beneath autograd."""

    def __init__(self, graph: Graph, call: Call) -> None:
        from torch._subclasses.fake_tensor import FakeTensorMode

        self._graph, self._facts, self._tensors, self._before = graph, call, call.tensors, call.gradients
        self._mode = FakeTensorMode(allow_non_fake_inputs=True)
        self._made: dict[str, Any] = {}  # tensors without data and numbers, by the names in the graph
        self._now: dict[str, Value] = {}  # what stands for a value of the graph
        self._known: dict[int, Value] = {}  # ... and for a tensor
        self._held: list[Any] = []  # tensors whose identities are in use
        self._own: list[Value] = [*graph.inputs, *graph.parameters]
        self._buffers: dict[str, Value] = {}  # of gradients, by the names of their tensors
        self._data = dict(graph.data)
        self._gradients: dict[str, Any] = {}  # what tensors hold, by name; None: nothing
        self._changed: dict[str, None] = {}
        self._from_data: set[str] = set()  # numbers read from tensors
        self._nodes: list[Node] = []
        self._names = Names({value.name for value in self._own})
        for node in graph.nodes:
            self._names.taken.update(value.name for value in node.results if value is not None)
        self._origins: dict[Any, Node] = {}  # of the functions of autograd: the forward node
        self._node = Node("", {}, ())
        self._call = torch_caller()
        for value in self._own:
            self._enter(value, self._tensors[value.name], value.name in call.trained)
        self._leaves = [value for value in self._own if value.name in call.trained]

    def _enter(self, value: Value, tensor: Any, requires_grad: bool = False) -> Any:
        made = self._mode.from_tensor(tensor.detach(), static_shapes=True).requires_grad_(requires_grad)
        self._made[value.name] = made
        self._keep(made, value)
        return made

    def _keep(self, tensor: Any, value: Value) -> None:
        self._held.append(tensor)
        self._known[id(tensor)] = value

    # -- nodes

    def run(self) -> Graph:
        import torch

        enabled = self._facts.enabled
        with self._mode:
            for node in self._graph.nodes:
                with torch.set_grad_enabled(enabled):
                    if node.op == "set_grad_enabled":
                        enabled = bool(node.arguments["enabled"])
                    else:
                        self._step(node)
        graph = self._graph
        outputs, updates = replaced(graph.outputs, self._now), self._updates()
        nodes = training_steps.used(self._nodes, outputs, updates)
        named = {value.name for node in nodes for value in node.operands} | {name for name, _ in updates}
        buffers = [value for value in self._buffers.values() if value.name in named]
        for value in self._buffers.values():
            if value.name not in named:
                del self._data[value.name]
        nodes = (*training_steps.size_checks(graph.inputs, self._tensors, self._fresh), *nodes)
        return replace(
            graph,
            parameters=(*graph.parameters, *buffers),
            nodes=nodes,
            outputs=outputs,
            updates=updates,
            effects=tuple(replace(each, values=replaced(each.values, self._now)) for each in graph.effects),
            data=self._data,
            region=regions.tree(nodes, regions.types_of(graph.region)),
        )

    def _step(self, node: Node) -> None:
        self._node = node
        if node.op == "backward":
            self._backward(node)
        elif node.op in {"grad", "set_grad"}:
            self._gradient(node)
        elif node.op == "tensor::set_requires_grad":
            value = node.arguments["self"]
            if not isinstance(value, Value) or self._of(value).requires_grad is not node.arguments["value"]:
                raise Unable(f"{self._place()}requires_grad is changed in the step")
        elif node.op == "check":
            self._nodes.append(self._renamed(node))
        elif self._differentiates(node):
            self._differentiated(node)
        else:
            self._plain(node)

    def _renamed(self, node: Node) -> Node:
        arguments = {name: replaced(argument, self._now) for name, argument in node.arguments.items()}
        return replace(node, arguments=arguments)

    def _differentiates(self, node: Node) -> bool:
        import torch

        if not torch.is_grad_enabled() or not any(value is None or value.kind == "tensor" for value in node.results):
            return False
        return any(getattr(self._of(value), "requires_grad", False) for value in node.operands)

    def _of(self, value: Value) -> Any:
        if value.name not in self._made:
            raise Unable(f"{self._place()}the gradient that was there before the call is used")
        return self._made[value.name]

    def _place(self) -> str:
        return f"{self._node.place}: " if self._node.place else ""

    def _plain(self, node: Node) -> None:
        """Stays as it is."""
        numbers = [value for value in node.results if value is not None and value.kind in {"int", "float", "bool"}]
        self._nodes.append(self._renamed(node))
        if numbers and (node.op.startswith("item") or any(each.name in self._from_data for each in node.operands)):
            for value in numbers:
                self._made[value.name] = _SOME[value.kind]
                self._from_data.add(value.name)
            return
        for operand in node.operands:
            self._of(operand)
        bind(node, self._call(node, self._made), self._made)
        for result in node.results:
            if result is not None and result.kind == "tensor" and id(self._made[result.name]) not in self._known:
                self._keep(self._made[result.name], result)

    def _differentiated(self, node: Node) -> None:
        """Becomes the operators that torch makes of it."""
        if any(value.name in self._from_data for value in node.operands):
            raise Unable(f"{self._place()}{node.op} takes a number that was read from a tensor, under gradients")
        first, before = len(self._nodes), len(self._held)
        complete = self._facts.complete.get(node.results[0].name) if node.results and node.results[0] else None
        if complete is None or any(value.name not in self._made for value in values_of(complete)):
            called = node
        else:
            called = replace(node, op=node.origin, arguments=complete)
        with self._recording():
            bind(node, self._call(called, self._made), self._made)
        wanted: dict[str, Value] = {}
        new = {value.name for each in self._nodes[first:] for value in each.results if value is not None}
        for value in node.results:
            if value is None:
                continue
            made = self._value(self._made[value.name])
            if made.name in new and made.name not in wanted:
                wanted[made.name] = value
            else:
                self._now[value.name] = made
        self._rename(first, before, wanted)
        self._note_functions(node)

    def _rename(self, first: int, before: int, wanted: Mapping[str, Value]) -> None:
        """The results of the last nodes have the names that they have in the graph."""
        for at in range(first, len(self._nodes)):
            node = self._nodes[at]
            arguments = {name: replaced(argument, wanted) for name, argument in node.arguments.items()}
            self._nodes[at] = replace(node, arguments=arguments, results=replaced(node.results, wanted))
        for tensor in self._held[before:]:
            if (value := self._known[id(tensor)]).name in wanted:
                self._known[id(tensor)] = wanted[value.name]

    def _note_functions(self, node: Node) -> None:
        """The functions of autograd that the node has made."""
        due = [getattr(self._made.get(value.name), "grad_fn", None) for value in node.results if value is not None]
        due += [getattr(self._made.get(value.name), "grad_fn", None) for value in node.operands] if node.writes else []
        while due:
            function = due.pop()
            if function is not None and function not in self._origins:
                self._origins[function] = node
                due += [each for each, _ in function.next_functions]

    # -- gradients

    def _gradient(self, node: Node) -> None:
        """Reads or sets the gradient of a tensor."""
        value = node.arguments["x"]
        if not isinstance(value, Value) or value.name not in {each.name for each in self._own}:
            raise Unable(f"{self._place()}the gradient of a tensor that is no leaf")
        if node.op == "set_grad":
            given = node.arguments.get("value")
            self._gradients[value.name] = self._of(given) if isinstance(given, Value) else None
            self._changed[value.name] = None
            return
        (result,) = node.results
        if value.name not in self._gradients and id(self._tensors[value.name]) not in self._before:
            return  # that of before the call: most often it is dropped unused
        held = self._held_by(value)
        if held is not None and result is not None:
            self._made[result.name] = held
            self._now[result.name] = self._value(held)

    def _held_by(self, value: Value) -> Any:
        """The gradient that a tensor holds; None: none, or that of before the call, which is lost."""
        if value.name not in self._gradients:
            tensor = self._tensors[value.name]
            if id(tensor) not in self._before:
                raise Unable(
                    f"{self._place()}what {value.name} held for a gradient before the call is not known; "
                    "begin the step with optimizer.zero_grad()"
                )
            before = self._before[id(tensor)]
            self._gradients[value.name] = None if before is None else self._enter(self._buffer(value), before)
        return self._gradients[value.name]

    def _buffer(self, value: Value) -> Value:
        """The buffer of the gradient of a tensor."""
        known = self._buffers.get(value.name)
        if known is None:
            name = f"{value.name}_grad"
            while name in self._names.taken:
                name += "_"
            self._names.taken.add(name)
            path = f"{value.path or value.name}.grad"
            known = self._buffers[value.name] = replace(value, name=name, role="buffer", path=path)
            tensor = self._tensors[value.name]
            held = self._before.get(id(tensor)) if tensor.grad is None else tensor.grad
            # Another thread may hold none at this moment; what counts of a buffer that is only written is its form.
            self._data[name] = tensor.detach() if held is None else held
        return known

    def _backward(self, node: Node) -> None:
        import torch

        roots = [self._of(value) for value in values_of(node.arguments["roots"])]
        given: Any = node.arguments["gradients"]
        given = [self._of(each) if isinstance(each, Value) else None for each in given]
        chosen = {value.name for value in values_of(node.arguments["inputs"])}
        leaves = [value for value in self._leaves if not chosen or value.name in chosen]
        if len(chosen) > len(leaves) or not leaves:
            raise Unable(f"{self._place()}gradients of tensors that are no leaves")
        for value in leaves:
            if _torch_objects.has_hooks(self._tensors[value.name]):
                raise Unable(f"{self._place()}{value.name} has a hook, which runs in the backward pass")
        create = bool(node.arguments["create_graph"])
        for value in leaves:
            if id(self._tensors[value.name]) in self._before:
                self._held_by(value)
        with self._recording():
            found: Any = torch.autograd.grad(
                roots,
                [self._made[value.name] for value in leaves],
                given or None,
                retain_graph=bool(node.arguments["keep_graph"]),
                create_graph=create,
                allow_unused=True,
            )
            taken = {id(each) for each in given}
            for value, gradient in zip(leaves, found, strict=True):
                if gradient is not None:
                    self._accumulate(value, gradient, create, id(gradient) in taken)
                    taken.add(id(gradient))

    def _accumulate(self, value: Value, gradient: Any, create: bool, taken: bool) -> None:
        """As autograd does: a tensor takes its first gradient itself if nothing else can see it, else a copy."""
        import torch

        held = self._held_by(value)
        self._changed[value.name] = None
        if held is None:
            copied = taken or not _torch_objects.is_dense(gradient)
            self._gradients[value.name] = gradient.clone() if copied else gradient
        elif create:
            self._gradients[value.name] = held + gradient
        else:
            with torch.no_grad():
                held.add_(gradient)

    # -- what runs beneath autograd

    def _recording(self) -> AbstractContextManager[Any]:
        from torch.utils._python_dispatch import TorchDispatchMode

        note = self._note

        class Recording(TorchDispatchMode):  # type: ignore[no-untyped-call]
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                result = func(*args, **(kwargs or {}))
                note(func, args, kwargs or {}, result)
                return result

        made: AbstractContextManager[Any] = Recording()  # type: ignore[no-untyped-call]
        return made

    def _note(self, func: Any, args: Any, kwargs: Mapping[str, Any], result: Any) -> None:
        """An operator that torch has dispatched."""
        import torch

        name, schema = func.name(), func._schema
        if name in _SAME:
            self._keep(result, self._value(args[0]))
            return
        outs = list(result) if isinstance(result, tuple | list) else [result]
        arguments, written = [], []
        given = {**dict(zip((each.name for each in schema.arguments), args, strict=False)), **kwargs}
        hidden = _HIDDEN_WRITES.get(name, ()) if given.get("training") is True else ()
        for at, argument in enumerate(schema.arguments):
            value = args[at] if at < len(args) else kwargs.get(argument.name, argument.default_value)
            arguments.append((argument.name, self._argument(value)))
            declared = argument.alias_info is not None and argument.alias_info.is_write
            if declared or (argument.name in hidden and value is not None):
                written.append(at)
        if not written and not any(isinstance(each, torch.Tensor) for each in outs):
            return
        name = _laid_out(name, given)
        named = vocabulary.neutral(name, arguments)
        if named is None:
            op, taken, writes = name, dict(arguments), tuple(arguments[at][0] for at in written)
        else:
            op, taken = named
            slots = vocabulary.row_of(name)[1].slots  # type: ignore[index]
            writes = tuple(slots[at] or "" for at in written)
        results = tuple(self._result(each, op) if isinstance(each, torch.Tensor) else None for each in outs)
        place = self._origin()
        self._nodes.append(
            Node(
                op,
                taken,
                results or (Value(self._fresh(op)),),
                origin=name,
                writes=writes,
                random=torch.Tag.nondeterministic_seeded in func.tags and self._node.random,  # else it draws none
                region=place.region,
                file=place.file,
                line=place.line,
            )
        )

    def _origin(self) -> Node:
        """The forward node of which autograd computes the gradient now, else the node that runs."""
        import torch

        current: Callable[[], Any] | None = getattr(torch._C, "_current_autograd_node", None)
        function = current() if current is not None else None
        return self._origins.get(function, self._node)

    def _fresh(self, op: str) -> str:
        return self._names.fresh(op.rpartition("::")[2].partition(".")[0])

    def _result(self, tensor: Any, op: str) -> Value:
        value = Value(self._fresh(op))
        if id(tensor) not in self._known:  # else an argument that it wrote to, which keeps its name
            self._keep(tensor, value)
        return value

    def _value(self, tensor: Any) -> Value:
        found = self._known.get(id(tensor))
        if found is None:
            raise Unable(f"{self._place()}{self._node.op} takes a tensor that torch made out of sight")
        return found

    def _argument(self, thing: Any) -> Argument:
        if _torch_objects.is_tensor(thing):
            return self._value(thing)
        if isinstance(thing, tuple | list):
            return tuple(map(self._argument, thing))
        if thing is None or isinstance(thing, int | float | complex | bool | str):
            return thing
        word = token(thing)
        if word is None:
            raise Unable(f"{self._place()}{self._node.op} takes a {type(thing).__name__}")
        return word

    # -- the graph

    def _updates(self) -> tuple[tuple[str, Value], ...]:
        found = []
        own = {value.name: value for value in self._own}
        for name in self._changed:
            gradient = self._gradients[name]
            if gradient is not None:
                value = self._value(gradient)
                buffer = self._buffer(own[name])
                if value.name != buffer.name:
                    found.append((buffer.name, value))
        return tuple(found)


# Numbers that stand for what a tensor without data would give.
_SOME = {"int": 7, "float": 0.7390851332151607, "bool": True}
