"""Makes a graph of an installed trace: of every call that it replays, not of one.

What a trace reads anew at each call is an input: arguments, and state that changes. Sizes that no guard fixes are free;
what sizes they were when the trace was recorded is not kept, so that the types of results need examples.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pijit import _core, _torch_objects
from pijit.errors import UsageError
from pijit.graph.build import training_steps
from pijit.graph.build.builder import Builder
from pijit.graph.build.capture import tops
from pijit.graph.build.modules import Modules
from pijit.graph.build.types import typed
from pijit.graph.model import Graph, Value


def graph_of(root: int, index: int, examples: tuple[Any, ...]) -> Graph:
    """The graph of a trace of a root.

    Raises:
        UsageError: the examples are not those of the inputs.
        ExportError: the trace returns what a graph cannot give.
    """
    data = _core.trace_data(root, index)
    graph = _TraceBuilder(data).build()
    if training_steps.needs_expansion(graph):
        graph = training_steps.split_there(graph, "gradients are computed: capture the call instead")
    graph = training_steps.without_modes(graph)
    tensors = [value for value in graph.inputs if value.kind == "tensor"]
    if examples and len(examples) != len(tensors):
        raise UsageError(
            f"Trace.graph() takes an example for each of the {len(tensors)} inputs "
            f"({', '.join(value.name for value in tensors)}), or none; not {len(examples)}"
        )
    if examples:
        return typed(graph, dict(zip([value.name for value in tensors], examples, strict=True)))
    return graph


class _TraceBuilder(Builder):
    """Makes inputs of what a trace loads from no fixed object."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        first = data["frames"][0]["self"] if data["frames"] else None
        outermost = {"": first} if _torch_objects.is_module(first) else tops(None, data, (), {})
        super().__init__(data, data["name"], Modules(outermost), [], {})
        self._sources: dict[int, Any] = {at: [("argument", at, name)] for at, name in enumerate(data["arguments"])}
        self._sources.update(data["loads"])
        self._free: dict[str, Value] = {}

    def _load(self, row: Mapping[str, Any]) -> None:
        super()._load(row)
        if row["register"] in self._registers:
            return
        value = self._input(row["source"])
        shape = tuple(f"{value.name}_{axis}" if size is None else size for axis, size in enumerate(row["sizes"]))
        value = replace(value, kind="tensor", dtype=row["dtype"], shape=shape, device=row["device"])
        self._take(row["register"], row["source"], value)

    def _node(self, row: Mapping[str, Any]) -> None:
        if row["op"] == "unbox" and row["a"][0] == "reg" and row["a"][1] not in self._registers:
            source = self._sources.get(row["a"][1])
            kind = self._kind(row["out"])
            if source is not None and kind in {"int", "float", "bool"}:
                self._take(row["out"], source, replace(self._input(source), kind=kind))  # type: ignore[arg-type]
                return
        super()._node(row)

    def _input(self, source: Any) -> Value:
        return self._free.get(str(source)) or Value(self._fresh(_name(source)), role="input")

    def _take(self, register: int, source: Any, value: Value) -> None:
        self._free[str(source)] = value
        self._registers[register] = value
        self._inputs[register] = value
        if value.kind == "tensor":
            self._of_data.add(value.name)


def _name(source: Any) -> str:
    """ "x" for an argument, "batch_mask" for an item of one, "state" for an attribute."""
    words: list[str] = []
    for kind, *step in source:
        word = str(step[-1]) if step else ""
        if kind in {"attribute", "global", "cell"} or (kind == "item" and words == ["kwargs"]):
            words = [word]
        elif kind in {"argument", "item", "key_at", "value_at", "slot"}:
            words.append(word)
    return "_".join(words) or "value"
