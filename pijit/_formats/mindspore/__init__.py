"""The graph as a cell of MindSpore: straight-line source, which runs as it is, under `mindspore.jit`, and as MindIR.

Rules:
1. A cell is for the sizes of the captured call, and says so if it is given others.
2. `construct` has the calls that the forms of `pijit.graph.forms.mindspore` make, with layers and lines as comments.
   Its source is a file, for `mindspore.jit` parses it: `inspect.getsource(type(cell))` shows it.
3. Parameters and buffers are `mindspore.Parameter`s named by their paths. The cell writes to none: what the call writes
   to inputs and buffers are further results, "<path>.updated". `cell.results` has the names of all.
4. Decisions of the program on sizes and data are not checked again: comments in `construct` name them.
5. Random numbers are not in it: an operator that draws them has no form.

With `path` the end of its name decides: ".mindir" is a graph with its weights, saved by `mindspore.export`; ".py" is
the source, with the weights in a safetensors file beside it, and a function `load()` that gives the cell.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pijit._formats._whole_graph import check_whole
from pijit.errors import ExportError
from pijit.graph.decompose import decomposed
from pijit.graph.model import Graph
from pijit.graph.model.branches import decline
from pijit.graph.model.sizes import fixed
from pijit.graph.run import having

if TYPE_CHECKING:
    import mindspore

NAME = "mindspore"
PACKAGES = ("mindspore",)
INSTALL = "pip install mindspore 'numpy<2'"
SUFFIX = ".mindir"
DOC = "a cell of MindSpore, saved as MindIR or as source"


def make(graph: Graph, *, dynamic: Any = None) -> "mindspore.nn.Cell":
    """The graph as a cell.

    Args:
        graph: what to write.
        dynamic: None or False: a cell has no free sizes.

    Raises:
        ExportError: the graph is split or has branches, an operator has no form in MindSpore or needs data, or sizes
            are to be free.
    """
    if dynamic and graph.symbols:
        raise ExportError(
            f"a cell of MindSpore has fixed sizes, so {', '.join(graph.symbols)} cannot be free; leave out dynamic=, "
            "or take format 'onnx' or 'exported_program'"
        )
    check_whole(graph, NAME)
    decline(graph, f"format {NAME!r}")
    from pijit._formats.mindspore import lower as mindspore_lower

    graph = decomposed(fixed(graph, graph.symbols), having("mindspore"))
    return mindspore_lower.cell(graph.functional())


def write(made: Any, path: Path) -> None:
    """Saves the cell as MindIR or as source, by the end of the name."""
    from pijit._formats.mindspore import lower as mindspore_lower

    if path.suffix == ".mindir":
        mindspore_lower.save_mindir(made, path)
    elif path.suffix == ".py":
        mindspore_lower.save_source(made, path)
    else:
        raise ExportError(
            f"{path.name} is no name for a cell of MindSpore; end it with .mindir, or with .py for its source"
        )
