"""The graph as a directory of C++ that calls libtorch's operators: no Python and no pijit is in the process.

    NAME.h, NAME.cpp   the class: `Results run(const Inputs&)`, the weights, files of safetensors
    NAME.safetensors   the weights
    main.cpp           a program that runs it on files of safetensors
    CMakeLists.txt     builds both over `find_package(Torch)`

Rules:
1. Each line calls the operator that the program called, through the dispatcher, with boxed arguments: any operator with
   a schema, also those of libraries that are loaded. So results have the same bits.
2. Tensors are given away where they are used last, so that memory is as in eager execution.
3. Decisions and loops are `if` and `while` of C++. What the call decided on is checked: another way is an error.
4. Weights keep their strides and whether they ask for gradients: kernels choose by both.
"""

from pathlib import Path
from typing import Any, NamedTuple

from pijit._array_bytes import Raw, write_file
from pijit._formats._whole_graph import check_whole
from pijit._formats.cpp.files import Files
from pijit.graph.model import Graph

NAME = "cpp"
PACKAGES = ("torch",)
INSTALL = "pip install torch"
SUFFIX = ".cpp"
DIRECTORY = True
DOC = "a directory with C++ over libtorch and its CMakeLists.txt: runs without Python, bit for bit the same"


class Sources(NamedTuple):
    """What `write` makes a directory of: texts by the names of their files, the weights, and the name of their file."""

    texts: dict[str, str]
    arrays: dict[str, Raw]
    weights: str


def make(graph: Graph, *, dynamic: Any = None, name: str = "") -> Sources:
    """The files.

    Args:
        graph: what to write.
        dynamic: not looked at.
        name: of the class; files are called so, too. "": that of the function or module.

    Raises:
        ExportError: the graph is split, or has what C++ cannot hold.
    """
    check_whole(graph, NAME)
    files = Files(graph, name)
    texts = {
        f"{files.stem}.h": files.header(),
        f"{files.stem}.cpp": files.source(),
        "main.cpp": files.main(),
        "CMakeLists.txt": files.cmake(),
    }
    return Sources(texts, files.arrays, f"{files.stem}.safetensors")


def write(made: Sources, path: Path) -> None:
    """The files in the directory `path`, which is made."""
    path.mkdir()
    write_file(made.arrays, path / made.weights)
    for name, text in made.texts.items():
        (path / name).write_text(text, encoding="utf-8")
