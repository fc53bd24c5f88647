"""Makes a graph of a segment of a trace: of the nodes that a compiler may take over.

Its inputs are the tensors that differ from call to call, its parameters those that guards find at the same place each
time, its outputs what is read behind the segment. Sizes are those of the call that was offered: they belong to the key
under which the compiled code answers.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pijit.errors import ExportError
from pijit.graph import _torch, steps
from pijit.graph.build import Builder
from pijit.graph.captured import tops
from pijit.graph.model import Graph, Value
from pijit.graph.modules import Modules
from pijit.graph.opaque import holds_opaque
from pijit.graph.types import typed

# Guards inside of a segment decide by sizes and numbers alone, which the key fixes.
_HOLD_AGAIN = {"guard_bool", "guard_int", "guard_float"}


def graph_of_segment(place: Any, inputs: Sequence[Any]) -> Graph:
    """The graph of a segment under one key.

    Args:
        place: `_core.Place`.
        inputs: tensors for the registers `place.free`.

    Raises:
        ExportError: the trace is gone, or an output is no tensor of the graph.
    """
    data = place.data()
    if data is None:
        raise ExportError("the trace of this segment is gone")
    return _SegmentBuilder(data, place, inputs).build()


class _SegmentBuilder(Builder):
    """Walks over the nodes of one segment."""

    def __init__(self, data: Mapping[str, Any], place: Any, inputs: Sequence[Any]) -> None:
        first = data["frames"][0]["self"] if data["frames"] else None
        outermost = {"": first} if _torch.is_module(first) else tops(None, data, (), {})
        super().__init__(data, data["name"], Modules(outermost), [], {})
        self._place_of_segment, self._given = place, tuple(inputs)

    def build(self) -> Graph:
        """The graph, with types; what computes with sizes alone is gone, since all of them are numbers."""
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
        first, last = place.nodes
        for row in data["nodes"][first:last]:
            if row["op"] not in _HOLD_AGAIN:
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

        return folded(typed(steps.without_modes(graph), examples, False))
