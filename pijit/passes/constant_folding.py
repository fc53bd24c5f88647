"""Computes once what depends on weights alone. Needs consent: a weight that changes later is not seen.

Computed by torch with the operator that the program called, so that the bits are the same. A result that the program
has afterwards is computed at each call, since the program may write to it; so is one that takes much more memory than
the weights that it comes from.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pijit.graph.model import Argument, Graph, Node, Value
from pijit.graph.model.branches import is_branch
from pijit.graph.model.memory import Memory, written_by
from pijit.graph.run import bind
from pijit.graph.torch_run import torch_caller
from pijit.passes import dead_code
from pijit.passes._rewriting import rewritten

DOC = "computes once what depends on weights alone (by consent: a weight that changes later is not seen)"
CONSENT = True
EXACT = True
_LARGEST = 1 << 20  # bytes that a result may take, whatever it comes from
_GROWTH = 2


def run(graph: Graph) -> Graph:
    """The graph with constants in the place of them."""
    import sys

    torch = sys.modules.get("torch")
    if torch is None or not all(isinstance(tensor, torch.Tensor) for tensor in graph.data.values()):
        return graph
    folder = _Folder(graph)
    with torch.no_grad():
        made = rewritten(graph, folder.rewrite)
    if made is graph:
        return graph
    folded = tuple(folder.folded.values())
    made = replace(
        made,
        parameters=(*made.parameters, *folded),
        data={**made.data, **{value.name: folder.values[value.name] for value in folded}},
    )
    return _without_unused(dead_code.run(made))


def _without_unused(graph: Graph) -> Graph:
    """Without parameters that were of use for what is folded only."""
    used = {value.name for node in graph.nodes for value in node.operands}
    used.update(value.name for value in (*graph.results, *(value for _, value in graph.updates)))
    used.update(name for name, _ in graph.updates)
    kept = tuple(value for value in graph.parameters if value.name in used)
    return replace(
        graph, parameters=kept, data={value.name: graph.data[value.name] for value in kept if value.name in graph.data}
    )


class _Folder:
    def __init__(self, graph: Graph) -> None:
        self._memory = Memory(graph)
        self._call = torch_caller()
        own = [value for value in graph.parameters if value.name in graph.data and self._memory.is_constant(value)]
        self.values: dict[str, Any] = {value.name: graph.data[value.name].detach() for value in own}
        self.folded: dict[str, Value] = {}

    def rewrite(self, node: Node, new: Mapping[str, Value]) -> tuple[Node | None, Mapping[str, Argument]]:
        operands = node.operands
        if not operands or any(value.name not in self.values for value in operands):
            return node, {}
        if written_by(node) or node.random or not node.results or node.op == "check" or is_branch(node):
            return node, {}
        results = [value for value in node.results if value is not None]
        if any(value.kind != "tensor" or not self._is_free(value) for value in results):
            return node, {}
        values = dict(self.values)
        bind(node, self._call(node, values), values)
        size = sum(_bytes(values[value.name]) for value in results)
        if size > max(_LARGEST, _GROWTH * sum(_bytes(values[value.name]) for value in operands)):
            return node, {}
        found: dict[str, Argument] = {}
        for value in results:
            constant = replace(value, role="constant")
            self.values[value.name] = values[value.name]
            self.folded[value.name] = found[value.name] = constant
        return None, found

    def _is_free(self, value: Value) -> bool:
        """Nothing writes to it, and the program does not have it."""
        return self._memory.is_constant(value) and not self._memory.is_result(value)


def _bytes(tensor: Any) -> int:
    count: int = tensor.untyped_storage().nbytes()
    return count
