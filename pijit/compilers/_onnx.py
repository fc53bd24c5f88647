"""What the backends that read ONNX have in common: the operators that they lack, and the file that they are given."""

from pathlib import Path

from pijit.compilers import _torch
from pijit.compilers._base import Backend, Options
from pijit.graph.model import Graph, Node

FILE = "model.onnx"


class OfOnnx(Backend):
    """A backend of which a subclass loads `FILE`. Without `fold` weights are inputs, before the others."""

    symbolic = True
    remote = True

    def lacks(self, graph: Graph) -> tuple[Node, ...]:
        from pijit._formats import _onnx_lower

        return super().lacks(graph) or tuple(
            node
            for node in graph.nodes
            if node.op != "check" and _onnx_lower.form(node.op) is None and _onnx_lower.form(node.op, True) is None
        )

    def build(self, graph: Graph, options: Options, directory: Path) -> None:
        from pijit._formats import onnx

        if not options.fold:
            graph = _torch.with_weights_as_inputs(graph)
        onnx.write(onnx.make(graph), directory / FILE)
