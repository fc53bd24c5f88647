"""The graph as StableHLO text, which XLA, IREE and others compile.

The text is what JAX makes of the forms of the rows in JAX. Rules:
1. The arguments of `main` are the parameters, then the inputs; with `parameters="constants"` the inputs alone, and the
   parameters are in the text. The results are the outputs in order, then what the call writes to inputs and buffers.
2. Sizes that are free are `?` in the types. `main` computes them, and checks that they are at least 1. JAX cannot
   follow free sizes through every program. If `dynamic` says nothing, those that it cannot follow are as at the
   capture, and `Module.sizes` has them; if it asks for free sizes, that is an error.
3. A decision on sizes is a constraint that the text checks ("x_0 >= 4"), or the sizes are as at the capture.
4. Random numbers are not in it: an operator that draws them has no form.
"""

import re
from pathlib import Path
from typing import Any

from pijit._array_bytes import raw, write_file
from pijit._formats._whole_graph import check_whole
from pijit._formats.stablehlo.module import Module
from pijit.errors import ExportError, UsageError
from pijit.graph.decompose import decomposed
from pijit.graph.model import Graph
from pijit.graph.model.branches import check_turns
from pijit.graph.model.sizes import fixed
from pijit.graph.run import having

__all__ = ["DOC", "INSTALL", "NAME", "PACKAGES", "PARAMETERS", "SUFFIX", "Module", "make", "write"]

NAME = "stablehlo"
PACKAGES = ("jax",)
INSTALL = "pip install 'jax[cpu]'"
SUFFIX = ".mlir"
DOC = "StableHLO text, made by JAX: XLA, IREE and others compile it"
PARAMETERS = ("arguments", "constants")


def make(
    graph: Graph, *, dynamic: Any = None, parameters: str = "arguments", locations: bool = False, platform: str = "cpu"
) -> Module:
    """The graph as text of StableHLO.

    Args:
        graph: what to write.
        dynamic: as in `pijit.export`, which has fixed what it fixes.
        parameters: "arguments" or "constants".
        locations: the text says for each operation the layer that it is of.
        platform: for which JAX makes it: "cpu", "cuda", "rocm" or "tpu".

    Raises:
        ExportError: the graph is split, an operator has no form in JAX, or JAX cannot say what a free size comes to.
        UsageError: an option is not known.
    """
    if parameters not in PARAMETERS:
        raise UsageError(f"parameters={parameters!r} is not one of {', '.join(map(repr, PARAMETERS))}")
    check_whole(graph, NAME)
    check_turns(graph, "StableHLO")
    from pijit._formats.stablehlo import lower as stablehlo_lower

    options = (parameters == "constants", locations, platform)
    graph = decomposed(graph, having("jax"), stays_free=dynamic is not None).functional()
    if dynamic is not None:
        return stablehlo_lower.lowered(graph, *options)
    return _as_free_as_can_be(graph, options)


def _as_free_as_can_be(graph: Graph, options: tuple[bool, bool, str]) -> Module:
    """The text with the sizes free that JAX can follow; what is no matter of sizes is raised."""
    from pijit._formats.stablehlo import lower as stablehlo_lower

    sizes: dict[str, int] = {}
    while True:
        try:
            return stablehlo_lower.lowered(graph, *options, sizes)
        except ExportError as error:
            left = dict(graph.symbols)
            if not left:
                raise
            named = {each: size for each, size in left.items() if re.search(rf"\b{re.escape(each)}\b", str(error))}
            sizes |= named or left
            graph = fixed(graph, named or left)


def write(made: Module, path: Path) -> None:
    """Writes the text; beside it the parameters that are arguments, as a file of safetensors."""
    path.write_text(made.text)
    beside = path.with_suffix(".safetensors")
    if beside == path:
        raise ExportError(f"{path.name} is the name of the parameters' file; call the text {path.stem}{SUFFIX}")
    if made.data:
        write_file({name: raw(array, name) for name, array in made.data.items()}, beside)
