"""What the Python files of all frameworks have in common: the function, its parameters, and a call on zeros."""

import base64
import textwrap
from collections.abc import Iterable, Iterator

from pijit._array_bytes import DTYPES, Raw, raw
from pijit.errors import ExportError
from pijit.graph.model import Graph
from pijit.graph.model.sizes import example_shape
from pijit.graph.show.text import Writer, import_lines, key, quoted

_MOST_INLINE = 64 << 20  # bytes; Python reads longer texts slowly

BESIDE = "<beside>"  # the name of the file of arrays, which is not known yet


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
    """The text of a file; a framework gives its lines."""

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
        dtypes = {DTYPES[held.dtype][1]: self.dtype(held.dtype) for held in self.arrays.values()}
        yield f"_DTYPES = {{{', '.join(f'{short!r}: {name}' for short, name in dtypes.items())}}}"
        yield from ["", *_READ_FILE.replace("{file!r}", quoted(BESIDE)).splitlines()]

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
