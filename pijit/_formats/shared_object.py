"""The whole graph as machine code in one file, weights included, for processes that have neither pijit nor the program.

AOTInductor's package is loaded by libtorch, in C++ or by torch in Python, and IREE's module (`backend="iree"`) by the
runtime of IREE; the README has loaders. Sizes that are free in the graph are free in a package, and fixed in a module.
The numbers are those of the compiler, within its tolerance, not the bits of eager execution.

A graph that was exported as one side of a decision is refused: nobody would check how it decides. So is one that says
that it writes to weights: nobody would see it.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from pijit._formats import exported_program
from pijit._formats._whole_graph import check_whole
from pijit.errors import BackendError, ExportError, UsageError
from pijit.graph.model import Graph, place_of

NAME = "shared_object"
PACKAGES = ("torch",)
INSTALL = "pip install torch"
SUFFIX = ".pt2"
DOC = "machine code with weights (AOTInductor's package, or IREE's module), which loads without pijit"

_BACKENDS = ("inductor", "iree")


class SharedObject(NamedTuple):
    """Machine code, and who made it."""

    backend: str
    data: bytes


def make(graph: Graph, *, dynamic: Any = None, backend: str = "inductor") -> SharedObject:
    """The code.

    Args:
        graph: what to compile.
        dynamic: not None: a size that is free in the graph must stay free.
        backend: "inductor" or "iree".

    Raises:
        ExportError: the compiler is not installed or cannot take the graph, or the graph writes or was assumed to
            decide.
        UsageError: there is no such backend here.
    """
    if backend not in _BACKENDS:
        raise UsageError(f"format {NAME!r} takes backend='inductor' or backend='iree', not {backend!r}")
    check_whole(graph, NAME)
    if graph.updates:
        names = ", ".join(name for name, _ in graph.updates)
        raise ExportError(f"format {NAME!r} has nobody who would see what the program writes to: {names}")
    if graph.assumptions:
        raise ExportError(f"{place_of(graph.assumptions[0])}format {NAME!r} cannot check how the program decides here")
    with TemporaryDirectory(prefix="pijit-") as name:
        directory = Path(name)
        file = _package(graph, dynamic, directory) if backend == "inductor" else _module(graph, directory)
        return SharedObject(backend, file.read_bytes())


def write(made: SharedObject, path: Path) -> None:
    """One file."""
    path.write_bytes(made.data)


def _package(graph: Graph, dynamic: Any, directory: Path) -> Path:
    import torch

    from pijit.compilers import get

    if why := get("inductor").usable():
        raise ExportError(f"format {NAME!r} {why}")
    program = exported_program.make(graph, dynamic=dynamic)
    file = directory / "made.pt2"
    try:
        with torch.no_grad():
            torch._inductor.aoti_compile_and_package(
                program, package_path=str(file), inductor_configs={"fallback_random": True}
            )
    except Exception as error:  # Inductor has no base class of what it raises
        said = str(error).strip().partition("\n")[0]
        raise ExportError(f"AOTInductor does not take the graph of {graph.name!r}: {said}") from error
    return file


def _module(graph: Graph, directory: Path) -> Path:
    from pijit.compilers import _prepare, get
    from pijit.compilers._base import Options

    iree, options = get("iree"), Options(fold=True)
    try:
        iree.check(options)
        parts = _prepare.parts(graph, iree, options)
        missing = _prepare.missing(parts.core, iree, options)
        if missing or parts.tail is not None:
            raise ExportError(f"IREE has not got all operators of the graph of {graph.name!r}")
        iree.build(parts.core, options, directory)
    except BackendError as error:
        raise ExportError(str(error)) from error
    (file,) = directory.glob("*.vmfb")
    return file
