"""Makes a cell of MindSpore from a graph: its forms run once on zeros, and what they call is written as source."""

import atexit
import importlib.util
import itertools
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import mindspore
import numpy as np

from pijit._array_bytes import DTYPES, raw, write_file
from pijit._formats._graph_results import checks, named_results, needed
from pijit._version import __version__
from pijit.errors import ExportError, PijitError
from pijit.graph.forms.mindspore import ON_ARRAYS, in_arrays
from pijit.graph.forms.mindspore_array import (
    Array,
    DependsOnData,
    Line,
    constant,
    numpy_of,
    recording,
)
from pijit.graph.model import Graph, Node, Value, place_of
from pijit.graph.run import bind, lacking, to_array
from pijit.graph.show.text import Writer, key, quoted, wrapped
from pijit.graph.torch_run import resolve

_INLINE = 16  # elements of a constant that stands in the source
_WIDTH = 112
# Names that the source of a cell has for other things than values.
_OWN = {"self", "arrays", "mindspore", "ops", "nn", "Parameter", "Tensor", "np", "json", "struct", "Path", "load"}
_numbers = itertools.count(1)

_READER = '''
_DTYPES = {dtypes}


def _read(file):
    """The arrays of a safetensors file: a header in JSON behind its length, then the bytes."""
    content = (Path(__file__).parent / file).read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    for name, row in json.loads(content[8 : 8 + length]).items():
        start, stop = (8 + length + at for at in row["data_offsets"])
        yield name, np.frombuffer(content[start:stop], _DTYPES[row["dtype"]]).reshape(row["shape"])


def load():
    """The cell, with its weights."""
    return {name}(dict(_read({file})))
'''


class Source(NamedTuple):
    """What a cell was made of.

    Attributes:
        name: of its class.
        text: the module that has the class.
        arrays: what `__init__` is given, by name: parameters by their paths, and constants.
        inputs: zeros as the cell takes them.
    """

    name: str
    text: str
    arrays: dict[str, Any]
    inputs: tuple[Any, ...]


class _CellWriter(Writer):
    """Writes the class of a cell."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.taken |= _OWN
        for value in graph.inputs:
            if self.names[value.name] in _OWN:
                self.names[value.name] = self.new(value.name)
        words = "".join(part[:1].upper() + part[1:] for part in re.split(r"\W|_", graph.name))
        self.function = words if words.isidentifier() and words not in _OWN else f"Graph{words}"
        self.values: dict[str, Any] = {}
        self.arrays: dict[str, Any] = {}
        self.setup: list[str] = []
        self.constants: dict[Any, str] = {}
        self.lines: list[tuple[Node | None, Line]] = []

    def source(self) -> tuple[Source, tuple[str, ...]]:
        """The source, and the names of what the cell gives."""
        for value in self.graph.parameters:
            self.parameter(value)
        for value in self.graph.inputs:
            self.values[value.name] = array = Array(_zeros(value))
            array.name = self.names[value.name]
        for node in needed(self.graph):
            self.call(node)
        wanted = list(named_results(self.graph))
        results = [self.result(value) for _, value in wanted]
        self.keep_needed(results)
        body = [*self.checked(), *self.construct(), *self.returned(results)]
        made = Source(
            self.function, self.module(body), self.arrays, tuple(_zeros(value) for value in self.graph.inputs)
        )
        return made, tuple(name for name, _ in wanted)

    # --- values

    def parameter(self, value: Value) -> None:
        """Makes a parameter an attribute of the cell."""
        if value.name not in self.graph.data:
            raise ExportError(f"the graph has no data for {value.role} {key(value)!r}")
        name = key(value) if key(value) not in self.arrays else value.name
        held = self.values[value.name] = Array(to_array(self.graph.data[value.name], "mindspore"))
        attribute = self.attribute(name)
        held.name = f"self.{attribute}"
        self.arrays[name] = _storable(numpy_of(held.tensor))
        trained = value.role == "parameter" and held.dtype.kind not in "biu"
        self.setup.append(
            f"self.{attribute} = Parameter(Tensor(arrays[{quoted(name)}], mindspore.{_word(held.dtype)}), "
            f"name={quoted(name)}, requires_grad={trained})"
        )

    def attribute(self, name: str) -> str:
        word = re.sub(r"\W", "_", name)
        taken = {line.partition(" ")[0] for line in self.setup}
        word = f"p_{word}" if word[:1].isdigit() or word.startswith("_") or hasattr(mindspore.nn.Cell, word) else word
        return next(each for each in _numbered(word) if f"self.{each}" not in taken)

    def constant(self, held: Array) -> str:
        """An array that depends on nothing, as an expression of the cell."""
        array = held.known()
        found = (held.dtype.name, array.shape, array.tobytes())
        if found not in self.constants:
            attribute = self.attribute(f"c{len(self.constants) + 1}")
            dtype = f"mindspore.{_word(held.dtype)}"
            if array.size <= _INLINE and array.dtype.kind != "c" and array.size:
                made = f"Tensor({_numbers_of(array.tolist())}, {dtype})"
            else:
                self.arrays[f"constant:{attribute}"] = _storable(array)
                made = f"Tensor(arrays[{quoted(f'constant:{attribute}')}], {dtype})"
            self.setup.append(f"self.{attribute} = {made}")
            self.constants[found] = f"self.{attribute}"
        return self.constants[found]

    def result(self, value: Value) -> Array:
        made = self.values[value.name]
        return made if isinstance(made, Array) else constant(np.asarray(made))

    # --- nodes

    def call(self, node: Node) -> None:
        """Runs the form of a node and keeps what it calls."""
        form = ON_ARRAYS.get(node.op)
        if form is None:
            raise lacking(node, "MindSpore")
        arguments = {name: in_arrays(resolve(each, self.values)) for name, each in node.arguments.items()}
        try:
            with recording() as lines:
                results = form(**arguments)
        except DependsOnData:
            raise ExportError(
                f"{place_of(node)}{node.op} needs the data of a tensor, which a cell has only when it runs; "
                "move that out of the function, or take format 'exported_program', 'fx' or 'json'"
            ) from None
        except ExportError as error:
            raise ExportError(f"{place_of(node)}{error}") from error
        except PijitError:
            raise
        except Exception as error:  # whatever MindSpore raises
            why = str(error).partition("\n")[0]
            raise ExportError(
                f"{place_of(node)}{node.op} has no form in MindSpore here: {type(error).__name__}: {why}; try format "
                "'exported_program', 'fx' or 'json'"
            ) from error
        self.lines += [(node, line) for line in lines]
        bind(node, results, self.values)
        for value in node.results:
            made = value and self.values[value.name]
            if isinstance(made, Array) and not made.name and made.constant is None:
                made.name = self.new(value.name if value else "")

    def new(self, name: str) -> str:
        """A name that nothing has yet."""
        found = next(each for each in _numbered(re.sub(r"\W", "_", name)) if each not in self.taken)
        self.taken.add(found)
        return found

    def keep_needed(self, results: list[Array]) -> None:
        """Leaves out calls that nothing comes from."""
        wanted, kept = set(map(id, results)), []
        for node, line in reversed(self.lines):
            if any(id(each) in wanted for each in line.results):
                wanted.update(map(id, _arrays(line.arguments)))
                kept.append((node, line))
        self.lines = kept[::-1]

    # --- text

    def checked(self) -> Iterator[str]:
        """The sizes that the cell is for."""
        for value in self.graph.inputs:
            name, shape = self.names[value.name], tuple(value.shape or ())
            said = f"{name} is of another shape than {list(shape)}, for which the cell was made"
            yield f"if {name}.shape != {shape}:"
            yield f"    raise ValueError({quoted(said)})"

    def construct(self) -> Iterator[str]:
        last = None
        for node, line in self.lines:
            if node is not None and node is not last:
                yield from self.heading(node)
                last = node
            names = []
            for each in line.results:
                each.name = each.name or self.new("v")
                names.append(each.name)
            called = f"{line.function}({', '.join(map(self.shown, line.arguments))})"
            yield from wrapped(f"{', '.join(names)} = {called}", _WIDTH)

    def shown(self, argument: Any) -> str:
        """An argument as the source has it."""
        if isinstance(argument, Array):
            return argument.name or self.constant(argument)
        if isinstance(argument, np.dtype):
            return f"mindspore.{_word(argument)}"
        if isinstance(argument, tuple):
            return f"({', '.join(map(self.shown, argument))}{',' * (len(argument) == 1)})"
        if isinstance(argument, str):
            return quoted(argument)
        return _numbers_of(argument)

    def returned(self, results: list[Array]) -> Iterator[str]:
        shown = list(map(self.shown, results))
        yield from wrapped(f"return {shown[0] if len(shown) == 1 else '(' + ', '.join(shown) + ')'}", _WIDTH)

    def module(self, body: list[str]) -> str:
        taken = ", ".join(f"{self.names[value.name]}: {value.type}" for value in self.graph.inputs)
        head = [
            f'"""{self.graph.name}: {self.summary()}, written by pijit {__version__}. It needs mindspore only."""',
            "",
            "import mindspore",
            "from mindspore import Parameter, Tensor, nn, ops",
            "",
            "",
            f"class {self.function}(nn.Cell):",
            f'    """Takes {taken or "nothing"}."""',
            "",
            "    def __init__(self, arrays):",
            "        super().__init__()",
            *(f"        {part}" for line in self.setup for part in wrapped(line, _WIDTH - 4)),
            "",
            f"    def construct({', '.join(('self', *self.inputs()))}):",
            *(f"        # holds where {each}" for each in dict.fromkeys(checks(self.graph))),
        ]
        return "\n".join([*head, *(f"        {line}" if line else "" for line in body)]) + "\n"


def _numbered(word: str) -> Iterator[str]:
    """word, word_1, word_2, ..."""
    yield word
    for number in itertools.count(1):
        yield f"{word}_{number}"


def _arrays(argument: Any) -> Iterator[Array]:
    if isinstance(argument, Array):
        yield argument
    elif isinstance(argument, tuple | list):
        for each in argument:
            yield from _arrays(each)


def _zeros(value: Value) -> Any:
    if value.kind != "tensor" or value.dtype is None or value.shape is None:
        raise ExportError(
            f"input {value.name!r} is {value.type}; a cell takes tensors of known dtype and shape: give the "
            "number within the function"
        )
    return constant(np.zeros([int(size) for size in value.shape], value.dtype)).tensor


def _word(dtype: Any) -> str:
    return "bool_" if dtype == np.bool_ else str(dtype.name)


def _storable(array: Any) -> Any:
    """NumPy alone reads it: what is of 16 bits and not NumPy's is wider there."""
    return array if array.dtype.name in DTYPES and array.dtype.name != "bfloat16" else array.astype(np.float32)


def _numbers_of(value: Any) -> str:
    """Numbers as Python's source."""
    if isinstance(value, list):
        return f"[{', '.join(map(_numbers_of, value))}]"
    return f'float("{value}")' if isinstance(value, float) and value - value != 0 else repr(value)


_FILES: list[str] = []


def cell(graph: Graph) -> Any:
    """The cell; see `pijit._formats.mindspore`."""
    source, results = _CellWriter(graph).source()
    made = getattr(_module(source), source.name)({name: np.array(each) for name, each in source.arrays.items()})
    made.set_train(False)
    made.source, made.results = source, results
    return made


def _module(source: Source) -> Any:
    """A module with the class, in a file that lasts as long as the process: `mindspore.jit` reads it."""
    if not _FILES:
        _FILES.append(tempfile.mkdtemp(prefix="pijit-mindspore-"))
        atexit.register(shutil.rmtree, _FILES[0], ignore_errors=True)
    name = f"pijit_cell_{next(_numbers)}"
    path = Path(_FILES[0]) / f"{name}.py"
    path.write_text(source.text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def save_mindir(made: Any, path: Path) -> None:
    """`mindspore.export`, whose failures are errors of the export."""
    try:
        mindspore.export(made, *made.source.inputs, file_name=str(path.with_suffix("")), file_format="MINDIR")
    except Exception as error:  # whatever MindSpore raises
        why = str(error).strip().partition("\n")[0]
        raise ExportError(
            f"MindSpore saves no MindIR of {made.source.name}: {type(error).__name__}: {why}; a path that ends with "
            ".py saves the source"
        ) from error
    if not path.exists():  # from a gigabyte on it is a directory and several files
        raise ExportError(
            f"the parameters of {made.source.name} are too large for one file of MindIR; a path that ends with .py "
            "saves the source, with the parameters in a file beside it"
        )
    path.chmod(0o644)  # MindSpore lets nobody else read it


def save_source(made: Any, path: Path) -> None:
    """The source, which reads the arrays from a file beside it."""
    source = made.source
    beside = path.with_suffix(".safetensors")
    held = {name: raw(array, name) for name, array in source.arrays.items()}
    write_file(held, beside)
    dtypes = ", ".join(
        f'"{short}": "{name}"' for name, (_, short) in DTYPES.items() if any(h.dtype == name for h in held.values())
    )
    imports = "import json\nimport struct\nfrom pathlib import Path\n\nimport mindspore\nimport numpy as np\n"
    reader = _READER.replace("{dtypes}", f"{{{dtypes}}}").replace("{name}", source.name)
    text = source.text.replace("import mindspore\n", imports, 1) + "\n" + reader.replace("{file}", quoted(beside.name))
    path.write_text(text, encoding="utf-8")
