"""The graph as a `torch.fx.GraphModule`, which passes of torch.fx work on.

Rules:
1. Each node is the operator that the program called, so results have the same bits.
2. Parameters and buffers are the very same objects, under their paths in the module: what changes them is seen by both.
3. Sizes that are free are read by `aten.sym_size` and computed by Python's operators.
4. A graph that computes gradients itself, such as a training step, is no part of what autograd follows: its operators
   take parameters detached, which share their memory.
5. A decision on data, or a loop, is a function that is given GraphModules; see `pijit._formats.fx.control_flow`.
6. `meta` has the user's line ("stack_trace"), the modules around a node ("nn_module_stack"), and what else torch.export
   gives there; see `pijit._formats.fx.meta`.
"""

from pathlib import Path
from typing import Any

from pijit._formats._whole_graph import check_whole
from pijit._formats.fx.branches import BranchLowering, check_writes
from pijit._formats.fx.lowering import NAME
from pijit._formats.fx.meta import complete
from pijit.errors import ExportError
from pijit.graph.model import Graph
from pijit.graph.model.branches import has_branches

PACKAGES = ("torch",)
INSTALL = "pip install torch"
SUFFIX = ".pt"
DOC = "a torch.fx.GraphModule of the operators that the program called, bit for bit the same"


def make(graph: Graph, *, dynamic: Any = None) -> Any:
    """The GraphModule.

    Raises:
        ExportError: the graph is split, or has an operator that torch has not.
    """
    check_whole(graph, NAME)
    check_branches(graph, NAME)
    lowering = BranchLowering(graph, NAME)
    module = lowering.module()
    complete(module, graph, lowering.values(), lowering.paths)
    return module


def check_branches(graph: Graph, format: str) -> None:
    """`ExportError` for branches that torch's operators do not take."""
    if has_branches(graph):
        check_writes(graph, format)


def write(made: Any, path: Path) -> None:
    """As `torch.save` writes modules, which is a pickle: the formats exported_program and python have none.

    Raises:
        ExportError: the graph has branches.
    """
    import torch

    from pijit._formats.fx.control_flow import FUNCTIONS

    if any(node.target in FUNCTIONS for node in made.graph.nodes):
        raise ExportError(
            "torch does not read back a GraphModule with decisions or loops from a file; take format "
            "'exported_program' or 'python', or leave out path= for the module itself"
        )
    torch.save(made, path)
