"""Makes a graph of a segment of a trace: of the nodes that a compiler may take over.

Its inputs are the tensors that differ from call to call, its parameters those that guards find at the same place each
time, its outputs what is read behind the segment. Sizes are those of the call that was offered, since they belong to
the key under which the compiled code answers. Where one plan is to answer for several forms, the sizes that differ are
symbols, and what the segment decides by them is checked in the graph.

A segment with effects (a training step) becomes operators as a captured call does. Tensors that it writes to are inputs
as well, and its graph says what they and the gradients of leaves hold in the end.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pijit import _torch_objects
from pijit.errors import ExportError
from pijit.graph.build import autograd, functions, sides, training_steps
from pijit.graph.build.builder import Builder
from pijit.graph.build.capture import tops
from pijit.graph.build.gradient_partition import partition
from pijit.graph.build.modules import Modules
from pijit.graph.build.opaque_objects import holds_opaque
from pijit.graph.build.types import typed
from pijit.graph.model import Graph, Node, Value, place_of
from pijit.graph.model.sizes import counts, folded

if TYPE_CHECKING:
    from pijit._core import Place
    from pijit.graph.build.gradient_partition import GradientPartition


@dataclass(frozen=True)
class SegmentGraph:
    """The graph of a segment.

    Attributes:
        graph: its inputs are `place.free`, then `place.written`.
        effects: for `place.written`, then for `place.leaves`: which of `graph.updates` it is; "": none.
        partition: where gradients are recorded: the two graphs that are compiled.
        extras: tensors for the last inputs of the graph: functions of the program read them.
        sides: these functions; None: there are none.
    """

    graph: Graph
    effects: tuple[str, ...] = ()
    partition: "GradientPartition | None" = None
    extras: tuple[Any, ...] = ()
    sides: "sides.Sides | None" = None

    def order(self, updates: Sequence[str]) -> list[int | None]:
        """Where the results of a plan stand that the engine wants, in its order; None: there is none.

        Args:
            updates: of the plan, whose results are the outputs of the graph and then these.
        """
        count = len(self.graph.results)
        places = {name: count + at for at, name in enumerate(updates)}
        return [*range(count), *(places.get(name) for name in self.effects)]


def graph_of_segment(
    place: "Place", inputs: Sequence[Any], free: Any = None, typed: Callable[..., Graph] = typed
) -> SegmentGraph:
    """The graph of a segment under one key.

    Args:
        place: the segment and its key.
        inputs: tensors for the registers `place.free`, then for `place.written`.
        free: what stays open, as `pijit.compilers._free_sizes.Free`; None: nothing.
        typed: in the place of `pijit.graph.build.types.typed`.

    Raises:
        ExportError: the trace is gone, an output is no tensor of the graph, or the gradients cannot be said in
            operators.
    """
    data = place.data()
    if data is None:
        raise ExportError("the trace of this segment is gone")
    return _SegmentBuilder(data, place, inputs, free, typed).segment()


class _SegmentBuilder(Builder):
    """Walks over the nodes of one segment."""

    def __init__(
        self,
        data: Mapping[str, Any],
        place: "Place",
        inputs: Sequence[Any],
        free: Any,
        typed: Callable[..., Graph],
    ) -> None:
        first = data["frames"][0]["self"] if data["frames"] else None
        outermost = {"": first} if _torch_objects.is_module(first) else tops(None, data, (), {})
        super().__init__(data, data["name"], Modules(outermost), [], {})
        self._place_of_segment, self._given, self._free = place, tuple(inputs), free
        self._with_types = typed
        self._objects = {row["register"]: row["object"] for row in data["inputs"] if row["object"] is not None}

    def segment(self) -> SegmentGraph:
        """The graph, with types; what computes with sizes that are numbers is gone."""
        place, data = self._place_of_segment, self._data
        given = self._inputs_of_segment()
        bound = set(place.bound)
        for row in data["inputs"]:
            if row["register"] in bound and row["register"] not in self._registers:
                self._load(row)
        self._registers.update(place.numbers)
        if self._free is not None:
            self._load_sizes()
        first, last = place.nodes
        for row in data["nodes"][first:last]:
            self._node(row)
        outputs = tuple(self._registers.get(register) for register in place.outputs)
        if any(not isinstance(each, Value) for each in outputs) or holds_opaque(outputs):
            raise ExportError("an output of this segment is not in its graph")
        inputs, parameters = tuple(self._inputs.values()), tuple(self._parameters.values())
        graph = Graph(self._name, inputs, parameters, tuple(self._nodes), outputs, data=self._arrays)
        if place.has_sides:
            return self._with_sides(graph, given)
        if not training_steps.needs_expansion(graph) and not place.written:
            axes = None if self._free is None else {(graph.inputs[at].name, axis) for at, axis in self._free.axes}
            graph = training_steps.without_modes(graph)
            parts = self._partition(graph, given) if place.trained else None
            return SegmentGraph(self._settled(self._typed_arrays(graph, given, axes)), partition=parts)
        if self._free is not None:
            raise ExportError("a training step has the sizes of the call")
        graph = self._settled(self._with_types(self._without_gradients(graph, given), given, False))
        return SegmentGraph(graph, self._updates_of(graph))

    def _typed_arrays(self, graph: Graph, given: Mapping[str, Any], axes: Any) -> Graph:
        """The graph with types; where it is of arrays, they are those that NumPy gives."""
        return self.arrays.checked(self._with_types(graph, given, False, axes))

    def _with_sides(self, graph: Graph, given: Mapping[str, Any]) -> SegmentGraph:
        """The graph with branches in the place of calls that choose among functions of the program."""
        if self._place_of_segment.trained or training_steps.needs_expansion(graph):
            raise sides.Splits("gradients are recorded")
        axes = None if self._free is None else {(graph.inputs[at].name, axis) for at, axis in self._free.axes}
        own = frozenset(value.name for value in graph.parameters)
        watched = {name: sides.Watched(call) for name, call in self.applied.items()}  # type: ignore[arg-type]

        def with_types(graph: Graph) -> Graph:
            return typed(graph, given, False, axes)

        graph = with_types(training_steps.without_modes(graph))
        sides.check(functions.expanded(graph, watched, with_types))  # which notes the forms
        held = sides.Sides(list(watched.values()))
        graph = functions.expanded(graph, watched, with_types)
        sides.check(graph)
        if not held.hold():
            raise sides.Splits("what the functions read has changed meanwhile")
        graph, extras = sides.with_extras(self._settled(graph), own)
        return SegmentGraph(graph, extras=extras, sides=held)

    @staticmethod
    def _settled(graph: Graph) -> Graph:
        """The graph without what sizes of the key decide. Of a count that data decides, no key knows how it goes."""
        graph = folded(graph)
        counted = counts(graph)
        for node in graph.nodes:
            if node.op == "check" and any(value.name in counted for value in node.operands):
                raise ExportError(f"{place_of(node)}the segment decides on how many elements data has picked")
        return graph

    def _inputs_of_segment(self) -> dict[str, Any]:
        """Makes the inputs; gives their tensors by name."""
        place, given = self._place_of_segment, {}
        for at, (register, tensor) in enumerate(zip((*place.free, *place.written), self._given, strict=True)):
            value = self._typed(tensor, Value(self._fresh(f"input_{at}"), role="input"))
            given[value.name] = tensor
            if place.arrays:
                self.arrays.examples[value.name] = tensor.numpy().copy() if tensor.ndim else tensor.numpy()[()]
            self._registers[register] = value
            known = id(self._objects[register]) if at >= len(place.free) else register  # more registers may have it
            self._inputs[known] = value
        return given

    def _without_gradients(self, graph: Graph, given: Mapping[str, Any]) -> Graph:
        """Operators in the place of what computes gradients."""
        own = {value.name: self._objects[register] for register, value in self._written().items()}
        tensors = {**graph.data, **given, **own}
        trained = {name for name, tensor in tensors.items() if _torch_objects.is_trained(tensor)}
        training_steps.check_stores(self.stores, graph, self.sources)
        for node in graph.nodes:
            if node.op == "backward" and (node.arguments["keep_graph"] or node.arguments["create_graph"]):
                raise ExportError(f"{node.place}: the step keeps what a second backward pass needs")
        call = autograd.Call({}, tensors, trained, self._place_of_segment.gradients_on, self.complete)
        try:
            return autograd.expanded(graph, call)
        except autograd.Unable as why:
            raise ExportError(f"the gradients cannot be said in operators: {why}") from why

    def _partition(self, graph: Graph, given: Mapping[str, Any]) -> "GradientPartition":
        """Forward and backward pass, for gradients that are asked for later."""
        place = self._place_of_segment
        registers = (*place.free, *place.bound)
        flags = place.trained
        trained = {self._registers[at].name for at, flag in zip(registers, flags, strict=False) if flag}
        roots = [at for at, flag in enumerate(flags[len(registers) :]) if flag]
        shown = [value for at in place.shown if isinstance(value := self._registers.get(at), Value)]
        return partition(graph, autograd.Call({}, {**graph.data, **given}, trained, True, self.complete), roots, shown)

    def _written(self) -> dict[int, Value]:
        return {register: self._registers[register] for register in self._place_of_segment.written}

    def _updates_of(self, graph: Graph) -> tuple[str, ...]:
        """Names of the updates for tensors written to, then for the gradients of leaves."""
        buffers = {value.path: value.name for value in graph.parameters if value.path.endswith(".grad")}
        leaves = [self._registers.get(register) for register in self._place_of_segment.leaves]
        paths = ["" if value is None else f"{value.path or value.name}.grad" for value in leaves]
        return (*(value.name for value in self._written().values()), *(buffers.get(path, "") for path in paths))

    def _load_sizes(self) -> None:
        """Numbers that come in and follow from sizes of inputs."""
        inputs = tuple(self._inputs.values())
        for register, derived in self._free.numbers.items():
            at, axis = derived.axis
            size = self._computed("size", {"x": inputs[at], "axis": axis})
            product = self._computed("scalar_multiply", {"x": size, "y": derived.factor})
            self._registers[register] = self._computed("scalar_add", {"x": product, "y": derived.more})

    def _computed(self, op: str, arguments: Mapping[str, Any]) -> Value:
        result = Value(self._fresh("size"), "int")
        self._nodes.append(Node(op, arguments, (result,), origin="tensor::size" if op == "size" else ""))
        return result
