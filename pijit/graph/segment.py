"""Makes a graph of a segment of a trace: of the nodes that a compiler may take over.

Its inputs are the tensors that differ from call to call, its parameters those that guards find at the same place each
time, its outputs what is read behind the segment. Sizes are those of the call that was offered, since they belong to
the key under which the compiled code answers. Where one plan is to answer for several forms, the sizes that differ are
symbols, and what the segment decides by them is checked in the graph.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pijit.errors import ExportError
from pijit.graph import _torch, steps
from pijit.graph.build import Builder
from pijit.graph.captured import tops
from pijit.graph.model import Graph, Node, Value
from pijit.graph.modules import Modules
from pijit.graph.opaque import holds_opaque
from pijit.graph.types import typed

# Guards inside of a segment decide by sizes and numbers alone, which the key fixes.
_HOLD_AGAIN = {"guard_bool", "guard_int", "guard_float"}


def graph_of_segment(place: Any, inputs: Sequence[Any], free: Any = None) -> Graph:
    """The graph of a segment under one key.

    Args:
        place: `_core.Place`.
        inputs: tensors for the registers `place.free`.
        free: what stays open, as `pijit.compilers._free_sizes.Free`; None: nothing.

    Raises:
        ExportError: the trace is gone, or an output is no tensor of the graph.
    """
    data = place.data()
    if data is None:
        raise ExportError("the trace of this segment is gone")
    return _SegmentBuilder(data, place, inputs, free).build()


class _SegmentBuilder(Builder):
    """Walks over the nodes of one segment."""

    def __init__(self, data: Mapping[str, Any], place: Any, inputs: Sequence[Any], free: Any) -> None:
        first = data["frames"][0]["self"] if data["frames"] else None
        outermost = {"": first} if _torch.is_module(first) else tops(None, data, (), {})
        super().__init__(data, data["name"], Modules(outermost), [], {})
        self._place_of_segment, self._given, self._free = place, tuple(inputs), free

    def build(self) -> Graph:
        """The graph, with types; what computes with sizes that are numbers is gone."""
        place, data = self._place_of_segment, self._data
        bound = set(place.bound)
        for row in data["inputs"]:
            if row["register"] in bound:
                self._load(row)
        examples: dict[str, Any] = {}
        for at, (register, tensor) in enumerate(zip(place.free, self._given, strict=True)):
            value = self._typed(tensor, Value(self._fresh(f"input_{at}"), role="input"))
            examples[value.name] = tensor
            self._registers[register] = self._inputs[register] = value
        self._registers.update(place.numbers)
        if self._free is not None:
            self._load_sizes()
        first, last = place.nodes
        for row in data["nodes"][first:last]:
            if self._free is not None or row["op"] not in _HOLD_AGAIN:
                self._node(row)
        outputs = tuple(self._registers.get(register) for register in place.outputs)
        if any(not isinstance(each, Value) for each in outputs) or holds_opaque(outputs):
            raise ExportError("an output of this segment is not in its graph")
        graph = Graph(
            self._name,
            tuple(self._inputs.values()),
            tuple(self._parameters.values()),
            tuple(self._nodes),
            outputs,
            data=self._arrays,
        )
        from pijit._formats._sizes import folded

        axes = None if self._free is None else {(graph.inputs[at].name, axis) for at, axis in self._free.axes}
        return folded(typed(steps.without_modes(graph), examples, False, axes))

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
