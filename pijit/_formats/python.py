"""The graph as a Python file that runs without pijit and without the program it was made of.

With `framework="torch"` each line is the operator of torch that the program called: the bits are the same. With
"numpy" or "jax" it is a form of the vocabulary, whose source is copied into the file.

The file has a function of the graph's name that takes the inputs, `PARAMETERS` by their paths, and runs on inputs of
zeros when it is run as a program. Parameters stand in the file (base64), or in a safetensors file beside it, which the
file reads itself.
"""

import base64
import importlib.util
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pijit._formats._arrays import Raw, raw, write_file
from pijit._formats._checks import check_whole
from pijit._formats._sizes import example_shape
from pijit._wrong import nearest
from pijit.errors import ExportError, UsageError
from pijit.graph.forms import FRAMEWORKS as FRAMEWORKS_BY_NAME
from pijit.graph.model import Graph, Node, Token
from pijit.graph.text import Writer, import_lines, key, quoted
from pijit.graph.torch_calls import torch_call

NAME = "python"
PACKAGES = ()
INSTALL = ""
SUFFIX = ".py"
DOC = "a Python file that runs without pijit and without the program's source"

FRAMEWORKS = ("torch", "numpy", "jax")
WEIGHTS = ("inline", "safetensors", "none")
_MOST_INLINE = 64 << 20  # bytes; Python reads longer texts slowly

_BESIDE = "<beside>"


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
        from pijit._formats._array_file import ArrayFile

        writer = ArrayFile(graph, weights, framework)
    text = writer.text()
    return WithArrays(text, writer.arrays) if weights == "safetensors" else text


def write(made: "str | WithArrays", path: Path) -> None:
    """The text as a file, with the arrays beside it if they are not in it."""
    if isinstance(made, WithArrays):
        beside = path.with_suffix(".safetensors")
        write_file(made.arrays, beside)
        made = made.text.replace(_BESIDE, beside.name)
    path.write_text(made, encoding="utf-8")


_READ_FILE = '''
def _read(file):
    """The arrays of a safetensors file: a header in JSON behind its length, then the bytes."""
    content = (Path(__file__).parent / file).read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    for name, row in json.loads(content[8 : 8 + length]).items():
        start, stop = (8 + length + at for at in row["data_offsets"])
        yield name, _array(bytearray(content[start:stop]), _DTYPES[row["dtype"]], row["shape"])


PARAMETERS = dict(_read({file!r}))
'''


class PythonFile(Writer):
    """What the files of all frameworks have in common."""

    framework = ""

    def __init__(self, graph: Graph, weights: str) -> None:
        super().__init__(graph)
        self.weights = weights
        self.arrays: dict[str, Raw] = {}
        if weights != "none":
            self.arrays = {key(value): self.raw(value.name) for value in graph.parameters}
        size = sum(len(held.data) for held in self.arrays.values())
        if weights == "inline" and size > _MOST_INLINE:
            raise ExportError(
                f"the parameters of {graph.name!r} are {size >> 20} MB, too many for the text of a Python file; "
                'take weights="safetensors" with a path, or weights="none"'
            )

    def raw(self, name: str) -> Raw:
        if name not in self.graph.data:
            raise ExportError(
                f'parameter {name!r} has no array; read the graph with its weights, or take weights="none"'
            )
        return raw(self.graph.data[name], f"parameter {name!r}")

    def text(self) -> str:
        function = [self.signature(), *(f"    {line}" if line else "" for line in self.body())]
        parts = [*self.parameters(), "", "", *function, *self.main()]
        library = "\n".join(self.library())
        self.imports |= self.needed()
        head = [f'"""{self.headline()}"""', "", *import_lines(self.imports)]
        return "\n".join([*head, *([library] if library else []), *parts]) + "\n"

    def headline(self) -> str:
        return f"{self.graph.name}: {self.summary()}, written by pijit. It needs {self.framework} only."

    def signature(self) -> str:
        return f"def {self.function}({', '.join(self.inputs())}):"

    def body(self) -> Iterator[str]:
        if self.graph.parameters:
            yield "p = PARAMETERS"
        yield from super().body()

    def library(self) -> Iterable[str]:
        """What stands above: functions that the lines call."""
        return ()

    def needed(self) -> set[str]:
        found = set()
        if self.arrays and self.weights == "inline":
            found = {"import base64"}
        elif self.arrays:
            found = {"import json", "import struct", "from pathlib import Path"}
        return found

    def from_bytes(self) -> str:
        """The function `_array(data, dtype, shape)` of the framework."""
        raise NotImplementedError

    def dtype(self, name: str) -> str:
        """A dtype as an expression."""
        raise NotImplementedError

    def parameters(self) -> Iterator[str]:
        if not self.arrays:
            if self.graph.parameters:
                names = ", ".join(f"{key(value)!r}: {value.type}" for value in self.graph.parameters)
                yield from ["", *(f"# {line}" for line in textwrap.wrap(f"To be filled by the caller: {names}", 110))]
                yield "PARAMETERS = {}"
            return
        yield from ["", "", *self.from_bytes().strip().splitlines(), "", ""]
        if self.weights == "inline":
            yield "PARAMETERS = {"
            for name, held in self.arrays.items():
                yield f"    {quoted(name)}: {self.inline(held)},"
            yield "}"
            return
        from pijit._formats._arrays import DTYPES

        dtypes = {DTYPES[held.dtype][1]: self.dtype(held.dtype) for held in self.arrays.values()}
        yield f"_DTYPES = {{{', '.join(f'{short!r}: {name}' for short, name in dtypes.items())}}}"
        yield from ["", *_READ_FILE.replace("{file!r}", quoted(_BESIDE)).splitlines()]

    def inline(self, held: Raw) -> str:
        lines = textwrap.wrap(base64.b64encode(held.data).decode("ascii"), 108) or [""]
        text = f'"{lines[0]}"' if len(lines) == 1 else "\n        " + "\n        ".join(f'"{line}"' for line in lines)
        return f"_array(bytearray(base64.b64decode({text})), {self.dtype(held.dtype)}, {held.shape!r})"

    def main(self) -> Iterator[str]:
        """Runs the function on zeros of the sizes that were seen."""
        inputs = []
        for value in self.graph.inputs:
            shape = example_shape(value, self.graph.symbols)
            inputs.append(self.zeros(shape, self.dtype(value.dtype or "float32")))
        yield from ["", "", 'if __name__ == "__main__":', f"    print({self.function}({', '.join(inputs)}))"]

    def zeros(self, shape: tuple[int, ...], dtype: str) -> str:
        raise NotImplementedError


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
