"""The graph as a Python file that runs without pijit and without the program it was made of.

With `framework="torch"` each line is the operator of torch that the program called: the bits are the same. With
"numpy" or "jax" it is a form of the vocabulary, whose source is copied into the file.

The file has a function of the graph's name that takes the inputs, `PARAMETERS` by their paths, and runs on inputs of
zeros when it is run as a program. Parameters stand in the file (base64), or in a safetensors file beside it, which the
file reads itself.
"""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pijit._array_bytes import Raw, write_file
from pijit._formats._whole_graph import check_whole
from pijit._formats.python.array_file import ArrayFile
from pijit._formats.python.file import BESIDE, PythonFile
from pijit._usage_errors import nearest
from pijit.errors import ExportError, UsageError
from pijit.graph.forms import FRAMEWORKS as FRAMEWORKS_BY_NAME
from pijit.graph.model import Graph, Node, Token
from pijit.graph.show.text import quoted
from pijit.graph.torch_calls import torch_call

NAME = "python"
PACKAGES = ()
INSTALL = ""
SUFFIX = ".py"
DOC = "a Python file that runs without pijit and without the program's source"

FRAMEWORKS = ("torch", "numpy", "jax")
WEIGHTS = ("inline", "safetensors", "none")


def check_framework(framework: str) -> None:
    """`ExportError` if a framework is not installed: what it has cannot be looked up."""
    found = FRAMEWORKS_BY_NAME[framework]
    if importlib.util.find_spec(found.package) is None:
        raise ExportError(f"framework={framework!r} needs the package {found.package}; run: {found.install}")


class WithArrays(NamedTuple):
    """A text whose arrays go into a file beside it; the name of that file is not in it yet."""

    text: str
    arrays: dict[str, Raw]


def make(graph: Graph, *, dynamic: Any = None, framework: str = "torch", weights: str = "inline") -> "str | WithArrays":
    """The text, or for `weights="safetensors"` what `write` makes two files of.

    Args:
        graph: what to write.
        dynamic: not looked at.
        framework: "torch", "numpy" or "jax": what the file imports.
        weights: "inline": parameters are in the file; "safetensors": in a file beside; "none": the caller fills
            `PARAMETERS`.

    Raises:
        ExportError: the graph is split, an operator has no form in the framework, or there are too many weights.
    """
    if framework not in FRAMEWORKS:
        raise UsageError(f"framework={framework!r} is none that the format can write{nearest(framework, FRAMEWORKS)}")
    if weights not in WEIGHTS:
        raise UsageError(f"weights= is one of {', '.join(WEIGHTS)}, not {weights!r}")
    check_whole(graph, NAME)
    check_framework(framework)
    if framework == "torch":
        writer: PythonFile = _TorchFile(graph, weights)
    else:
        writer = ArrayFile(graph, weights, framework)
    text = writer.text()
    return WithArrays(text, writer.arrays) if weights == "safetensors" else text


def write(made: "str | WithArrays", path: Path) -> None:
    """The text as a file, with the arrays beside it if they are not in it."""
    if isinstance(made, WithArrays):
        beside = path.with_suffix(".safetensors")
        write_file(made.arrays, beside)
        made = made.text.replace(BESIDE, beside.name)
    path.write_text(made, encoding="utf-8")


class _TorchFile(PythonFile):
    """Lines of torch."""

    framework = "torch"

    def needed(self) -> set[str]:
        return super().needed() | {"import torch"}

    def called(self, node: Node) -> Iterator[str]:
        return self.torch_statements(node, torch_call(node, NAME))

    def token(self, word: Token) -> str:
        return f"torch.device({quoted(word.name)})" if word.kind == "device" else f"torch.{word.name}"

    def dtype(self, name: str) -> str:
        return f"torch.{name}"

    def updates(self) -> Iterator[str]:
        for name, value in self.graph.updates:
            yield "with torch.no_grad():"
            yield f"    {self.names[name]}.copy_({self.names[value.name]})"

    def zeros(self, shape: tuple[int, ...], dtype: str) -> str:
        return f"torch.zeros({shape!r}, dtype={dtype})"

    def from_bytes(self) -> str:
        return """
def _array(data, dtype, shape):
    return (torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)).reshape(shape)
"""
