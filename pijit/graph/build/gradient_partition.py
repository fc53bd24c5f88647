"""Partitions what a segment computes and its gradients into graphs, for calls whose gradients are asked for later.

Both passes are written out together, as in a training step: the operators of the forward pass, and those that torch's
autograd engine calls for gradients of the results. What depends on the latter is backward graphs, the rest the forward
graph.

1. What a backward graph needs of the forward pass is saved, as autograd saves it: inputs, weights, results, and values
   between, which are results of the forward graph besides. Views are made anew of what they are views of.
2. A function of autograd stands for each backward graph. Where a result is computed of another one there is a function
   for each: the program may ask for the gradient of the first, or hook it, and is given the whole of it.
3. Other values that the program can see, and that have gradients, leave the segment to native replay.
4. What is saved may have other strides than in eager execution: a compiler gives what it likes, and takes what is
   contiguous. So a view of another shape is a `reshape`.
5. A second backward pass raises where it does in eager execution. There each operator frees what it has saved, here the
   function does: results of one function have to share an operator that saves something.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pijit import _torch_objects
from pijit.errors import ExportError
from pijit.graph.build import autograd
from pijit.graph.build.autograd import Expansion, Unable
from pijit.graph.build.types import typed
from pijit.graph.model import Graph, Node, Value, regions, replaced
from pijit.graph.model.branches import decline
from pijit.graph.model.memory import VIEWS
from pijit.graph.model.names import Names
from pijit.graph.model.sizes import folded

# Views of which nothing is copied.
_REMADE = VIEWS - {"reshape", "reshape_as", "flatten", "ravel", "contiguous", "getitem"}


@dataclass(frozen=True, eq=False)
class Stage:
    """The backward pass of some results.

    Attributes:
        graph: its inputs are `saved`, then the gradients of `roots`; it gives a gradient for each of `reached`.
        roots: positions of the results in those of the forward graph.
        reached: names of what gets gradients: inputs, parameters, and results of earlier stages.
        saved: names of what is needed of the forward pass.
        frees: a second backward pass raises.
        strides: of the gradients in eager execution; None: as they come.
    """

    graph: Graph
    roots: tuple[int, ...]
    reached: tuple[str, ...]
    saved: tuple[str, ...]
    frees: bool
    strides: tuple[tuple[int, ...] | None, ...]


@dataclass(frozen=True, eq=False)
class GradientPartition:
    """Graphs for one.

    Attributes:
        native: the graph as the program has called it: torch's autograd follows it.
        forward: gives the results of `native`, then what stages save of it besides.
        trained: names of the inputs and parameters that require gradients.
        stages: each is given gradients by the program and by later ones.
    """

    native: Graph
    forward: Graph
    trained: tuple[str, ...]
    stages: tuple[Stage, ...]


def partition(graph: Graph, call: autograd.Call, roots: Sequence[int], shown: Iterable[Value]) -> GradientPartition:
    """The graphs of a graph that computes no gradients itself.

    Args:
        graph: its outputs are values.
        call: its tensors, and the names of those that require gradients.
        roots: positions of the outputs that require gradients.
        shown: other values that the program may see.

    Raises:
        ExportError: it cannot be split; the message says why.
    """
    import torch

    decline(graph, "a split into forward and backward pass")
    try:
        with torch.autograd.set_multithreading_enabled(False):
            return _Joint(graph, call, roots).partition(shown)
    except (Unable, RuntimeError) as error:  # torch cannot run an operator on tensors without data
        raise ExportError(f"its gradients stay native: {error}") from error


class _Joint(Expansion):
    """All passes in one graph."""

    def __init__(self, graph: Graph, call: autograd.Call, roots: Sequence[int]) -> None:
        super().__init__(graph, call)
        self._roots = {graph.results[at].name: at for at in roots}
        self._found: dict[str, Any] = {}  # results that require gradients: tensors with their history
        self._cut: dict[str, Any] = {}  # what later nodes are given of them: leaves

    def partition(self, shown: Iterable[Value]) -> GradientPartition:
        import torch

        with self._mode:
            for node in self._graph.nodes:
                if node.random:
                    raise Unable(f"{node.place}: {node.op} draws random numbers")
                with torch.set_grad_enabled(True):
                    self._step(node)
                self._cut_behind(node)
            if self._found.keys() != self._roots.keys():
                raise Unable("other results require gradients than in the call")
            for value in shown:
                if getattr(self._made.get(value.name), "requires_grad", False):
                    raise Unable(f"a variable of the program has {value.name}, and may ask for its gradient")
            passes = [self._pass(names) for names in self._levels()]
            strides = {self._known[id(tensor)].name: tuple(tensor.stride()) for tensor in self._held}
        parts = _Parts(self._joint(passes), passes, len(self._graph.results))
        return parts.partition(self._native(), tuple(value.name for value in self._leaves), strides)

    def _cut_behind(self, node: Node) -> None:
        for value in node.results:
            made: Any = self._made.get(value.name) if value is not None and value.name in self._roots else None
            if value is None or made is None or not made.requires_grad:
                continue
            self._found[value.name] = made
            self._made[value.name] = self._cut[value.name] = made.detach().requires_grad_()
            self._keep(self._cut[value.name], self._value(made))

    def _levels(self) -> list[list[str]]:
        """Names of results: each is computed of results of earlier levels only."""
        names = {id(tensor): name for name, tensor in self._cut.items()}
        levels: dict[str, int] = {}
        for name, found in self._found.items():  # in the order in which they are computed
            reached = (getattr(function, "variable", None) for function in _functions(found))
            levels[name] = max((1 + levels[names[id(each)]] for each in reached if id(each) in names), default=0)
        return [[name for name, level in levels.items() if level == each] for each in range(max(levels.values()) + 1)]

    def _pass(self, names: Sequence[str]) -> "_Pass":
        """Notes the operators of the backward pass of these results."""
        import torch

        roots = [self._found[name] for name in names]
        savers = [{each for each in _functions(root) if _saves(each)} for root in roots]
        if any(one.isdisjoint(other) for at, one in enumerate(savers) for other in savers[:at]):
            raise Unable("its results have gradients apart from each other")
        asked = [torch.empty_strided(each.shape, each.stride(), dtype=each.dtype) for each in roots]
        for name, tensor in zip(names, asked, strict=True):
            self._keep(tensor, Value(self._fresh(f"gradient_of_{name}"), role="input"))
        leaves = {value.name: self._made[value.name] for value in self._leaves} | self._cut
        with self._recording():
            found = torch.autograd.grad(roots, list(leaves.values()), asked, retain_graph=True, allow_unused=True)
        given = {name: self._value(each) for name, each in zip(leaves, found, strict=True) if each is not None}
        examples = {self._value(each).name: _example(each) for each in asked}
        return _Pass(tuple(self._roots[name] for name in names), examples, given, bool(savers[0]))

    def _joint(self, passes: "Sequence[_Pass]") -> Graph:
        """Writes to nothing; its outputs are the results, then the gradients of all passes."""
        graph = self._graph
        examples = {value.name: self._tensors[value.name] for value in self._own}
        for each in passes:
            examples.update(each.asked)
        asked = [
            Value(name, "tensor", "input", *_torch_objects.facts(example))
            for each in passes
            for name, example in each.asked.items()
        ]
        joint = replace(
            graph,
            inputs=(*graph.inputs, *asked),
            nodes=tuple(self._nodes),
            outputs=(
                *(self._now.get(value.name, value) for value in graph.results),
                *(value for each in passes for value in each.given.values()),
            ),
        )
        joint = folded(typed(joint, examples, False)).functional()
        if joint.updates:
            raise Unable(f"it writes to {joint.updates[0][0]}")
        return joint

    def _native(self) -> Graph:
        """The graph with all arguments of its calls: gradients may depend on those that results do not."""
        nodes = []
        for node in self._graph.nodes:
            complete = self._facts.complete.get(node.results[0].name) if node.results and node.results[0] else None
            nodes.append(node if complete is None else replace(node, op=node.origin, arguments=complete))
        return replace(self._graph, nodes=tuple(nodes))


class _Pass(NamedTuple):
    """The backward pass of some results.

    Attributes:
        roots: their positions.
        asked: names of what stands for their gradients, with data of that form.
        given: the gradients, by the names of what they are of.
        frees: functions of autograd save something.
    """

    roots: tuple[int, ...]
    asked: Mapping[str, Any]
    given: Mapping[str, Value]
    frees: bool


def _example(tensor: Any) -> Any:
    """Data for a tensor without data."""
    import torch
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    with unset_fake_temporarily():
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)


def _functions(root: Any) -> set[Any]:
    """Those of autograd that a tensor is computed with."""
    reached: set[Any] = set()
    due = [root.grad_fn]
    while due:
        function = due.pop()
        if function is not None and function not in reached:
            reached.add(function)
            due += [each for each, _ in function.next_functions]
    return reached


def _saves(function: Any) -> bool:
    names = [name for name in dir(function) if name.startswith("_raw_saved_")]
    return any(getattr(function, name.removeprefix("_raw"), None) is not None for name in names)


class _Parts:
    """All passes apart.

    Args:
        joint: all of them.
        passes: which there are.
        count: of the outputs of `joint` that are results; the others are gradients.
    """

    def __init__(self, joint: Graph, passes: Sequence[_Pass], count: int) -> None:
        self._joint, self._passes = joint, passes
        self._results = joint.results[:count]
        self._ahead: list[Node] = []
        self._behind: list[list[Node]] = [[] for _ in passes]
        self._between: dict[str, Value] = {}
        belongs = {name: at for at, each in enumerate(passes) for name in each.asked}
        self._asked = set(belongs)
        for node in joint.nodes:
            at = next((belongs[value.name] for value in node.operands if value.name in belongs), None)
            if at is None:
                self._ahead.append(node)
            else:
                self._behind[at].append(node)
                belongs.update((name, at) for name in _made(node))

    def partition(
        self, native: Graph, trained: tuple[str, ...], strides: Mapping[str, tuple[int, ...]]
    ) -> GradientPartition:
        """All of it."""
        joint, stages = self._joint, []
        gradients = iter(joint.results[len(self._results) :])
        for each, nodes in zip(self._passes, self._behind, strict=True):
            given = [next(gradients) for _ in each.given]
            again, needed = self._needed(nodes, given, each.asked.keys())
            if needed and not each.frees:
                raise Unable("it would keep what eager execution does not")
            inputs = [*needed.values(), *(value for value in joint.inputs if value.name in each.asked)]
            graph = replace(_with(joint, [*again, *nodes], inputs, given), parameters=(), data={})
            laid = tuple(strides.get(value.name) for value in each.given.values())
            stages.append(
                Stage(_renamed(graph, needed.values()), each.roots, tuple(each.given), tuple(needed), each.frees, laid)
            )
        inputs = [value for value in joint.inputs if value.name not in self._asked]
        forward = _with(joint, self._ahead, inputs, (*self._results, *self._between.values()))
        return GradientPartition(native, forward, trained, tuple(stages))

    def _needed(
        self, nodes: Sequence[Node], given: Sequence[Value], asked: Iterable[str]
    ) -> tuple[list[Node], dict[str, Value]]:
        """What a backward pass needs of the forward pass: views that are made anew, and what is saved."""
        later = {name for node in nodes for name in _made(node)} | set(asked)
        used = (*(value for node in nodes for value in node.operands), *given)
        needed = {value.name: value for value in used if value.name not in later}
        own = {value.name for value in (*self._results, *self._joint.inputs, *self._joint.parameters)}
        again: list[Node] = []
        for node in reversed(self._ahead):
            if node.op in _REMADE and _made(node) & needed.keys() and not _made(node) & own:
                again.insert(0, node)
                needed = {name: value for name, value in needed.items() if name not in _made(node)}
                needed.update((value.name, value) for value in node.operands)
        if any(value.kind != "tensor" for value in needed.values()):
            raise Unable("a number that is computed from data decides on a gradient")
        self._between.update((name, value) for name, value in needed.items() if name not in own)
        return again, needed


def _made(node: Node) -> set[str]:
    return {value.name for value in node.results if value is not None}


def _with(joint: Graph, nodes: Sequence[Node], inputs: Iterable[Value], outputs: Iterable[Value]) -> Graph:
    """A part of a graph."""
    nodes = [replace(node, op="reshape", origin="aten::reshape") if node.op == "view" else node for node in nodes]
    return replace(
        joint,
        inputs=tuple(inputs),
        nodes=tuple(nodes),
        outputs=tuple(outputs),
        region=regions.tree(nodes, regions.types_of(joint.region)),
    )


def _renamed(graph: Graph, saved: Iterable[Value]) -> Graph:
    """What is saved comes in under names that are names of Python."""
    names = Names({value.name for value in graph.inputs} | {name for node in graph.nodes for name in _made(node)})
    new = {value.name: replace(value, name=names.fresh("saved"), role="input", path="") for value in saved}
    nodes = tuple(
        replace(node, arguments={name: replaced(each, new) for name, each in node.arguments.items()})
        for node in graph.nodes
    )
    return replace(graph, inputs=replaced(graph.inputs, new), nodes=nodes, outputs=replaced(graph.outputs, new))
