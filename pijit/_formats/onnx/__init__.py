"""The graph as an ONNX model, which ONNX Runtime and others run, with layer path and source line on every node.

Rules:
1. Sizes that are free are symbols of the inputs' shapes ("dynamic axes").
2. The model has no side effects: what the call writes to inputs and buffers are further outputs, "<name>.updated".
3. A complex input or output is real, with both parts on a new last axis, as `torch.view_as_real` gives it.
4. Random numbers are those of the runtime, not of torch. ONNX Runtime's largest of a NaN and a number is the number.
5. ONNX Runtime has some operators in float32 only (convolution, erf, tan, sinh, ...): float64 is computed in float32
   there.
6. A decision on data is an If, a loop that data ends a Loop; numbers are int64 and float64 there.
7. A decision on a size, or on how many elements data picks, goes as in the captured call: where it would not, the model
   fails as it runs, at a node called "check file.py:12". A decision for one size alone fixes the size, and so does an
   operator of ONNX that takes the size as an attribute.
8. What torch raises for numbers (a singular matrix, an index beyond an axis) is an error of the runtime where it looks
   at them, else NaN or infinite.
"""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pijit._formats._whole_graph import check_whole
from pijit.graph.decompose import decomposed
from pijit.graph.model import Graph

if TYPE_CHECKING:
    import onnx

NAME = "onnx"
PACKAGES = ("onnx",)
INSTALL = "pip install onnx"
SUFFIX = ".onnx"
DOC = "an ONNX model (opset 21): ONNX Runtime and others run it, Netron shows it"


def make(graph: Graph, *, dynamic: Any = None, opset: int = 21, loses_nan: Collection[str] = ()) -> "onnx.ModelProto":
    """The graph as a model of ONNX.

    Args:
        graph: what to write.
        dynamic: as in `pijit.export`, which has fixed what it fixes.
        opset: version of ONNX's operators, 21 or later.
        loses_nan: operators of ONNX of which the runtime that the model is for gives a number for NaN.

    Raises:
        ExportError: the graph is split, or an operator has no form in ONNX.
        UsageError: the opset is not known.
    """
    from pijit._formats.onnx import lower as onnx_lower

    check_whole(graph, NAME)
    graph = decomposed(graph, onnx_lower.has_form, stays_free=dynamic is not None).functional()
    return onnx_lower.lowered(graph, opset, loses_nan, may_fix=dynamic is None)


def write(made: Any, path: Path) -> None:
    """Writes the file; beside it the weights of a model that is too large for one file of ONNX."""
    import onnx

    from pijit._formats.onnx import lower as onnx_lower

    if made.ByteSize() <= onnx_lower.LIMIT:
        path.write_bytes(made.SerializeToString())
    else:
        onnx.save_model(made, path, save_as_external_data=True, location=f"{path.name}.data")
