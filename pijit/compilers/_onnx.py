"""What the backends that read ONNX have in common: the operators that they lack, and the file that they are given."""

from pathlib import Path

from pijit._formats import onnx
from pijit.compilers import _torch
from pijit.compilers._base import Backend, Options
from pijit.graph.model import Graph, Node, Value

FILE = "model.onnx"


class OfOnnx(Backend):
    """A backend of which a subclass loads `FILE`. Without `fold` weights are inputs, before the others."""

    symbolic = True
    remote = True
    branches = True
    loses_nan: frozenset[str] = frozenset()  # operators of ONNX of which the runtime gives a number for NaN

    def lacks(self, graph: Graph) -> tuple[Node, ...]:
        from pijit._formats.onnx import lower as onnx_lower

        return super().lacks(graph) or tuple(
            node
            for node in graph.nodes
            if node.op != "check"
            and (node.is_foreign or (onnx_lower.form(node.op) is None and onnx_lower.form(node.op, True) is None))
        )

    def build(self, graph: Graph, options: Options, directory: Path) -> None:
        if not options.fold:
            graph = _torch.with_weights_as_inputs(graph)
        onnx.write(onnx.make(graph, loses_nan=self.loses_nan), directory / FILE)


def is_power_of_integers(node: Node) -> bool:
    """Runtimes compute it as floats where the exponent is no number."""
    result = node.results[0] if node.results else None
    dtype = "" if result is None else str(result.dtype)
    return node.op == "pow" and isinstance(node.arguments["y"], Value) and "int" in dtype
