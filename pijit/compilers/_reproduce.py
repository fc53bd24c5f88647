"""Writes down what shows the difference of a plan again: graph, inputs, what native replay gave, and a program."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pijit._array_bytes import raw, write_file
from pijit.compilers import _torch
from pijit.compilers._base import Options
from pijit.graph.model import Graph

_PROGRAM = '''"""Compiles graph.json with {backend}, and compares it with what native replay gave."""

from pathlib import Path

import torch

from pijit import compilers
from pijit._array_bytes import array, read_file
from pijit.compilers import Options
from pijit.graph import Graph

here = Path(__file__).parent
graph = Graph.from_json(here / "graph.json", framework="torch")
inputs, outputs = (
    [array(held, "torch", name) for name, held in sorted(read_file(here / file).items())]
    for file in ("inputs.safetensors", "outputs.safetensors")
)
torch.set_num_threads({threads})
plan = compilers.get({backend!r}).compile(graph, Options(fold={fold}, threads={threads}, settings={settings!r}))
with torch.no_grad():
    for number, (got, right) in enumerate(zip(plan(*inputs), outputs, strict=True)):
        print(f"output {{number}}: largest difference", (got.double() - right.double()).abs().max().item())
'''


def write(graph: Graph, backend: str, options: Options, inputs: Sequence[Any], outputs: Sequence[Any]) -> Path:
    """The directory, a new one among the temporary files.

    Args:
        graph: what was compiled.
        backend: its name.
        options: what was asked of it.
        inputs: tensors for the inputs of the graph, in order.
        outputs: what native replay gave for its outputs.

    Raises:
        OSError: it cannot be written.
        ExportError: a tensor or argument cannot.
    """
    directory = Path(tempfile.mkdtemp(prefix="pijit-difference-"))
    (directory / "graph.json").write_text(graph.to_json())
    for file, tensors in (("inputs", inputs), ("outputs", outputs)):
        named: Mapping[str, Any] = {f"{at:04}": raw(tensor, f"{file}[{at}]") for at, tensor in enumerate(tensors)}
        write_file(named, directory / f"{file}.safetensors")
    threads = options.threads or _torch.threads()
    program = _PROGRAM.format(backend=backend, threads=threads, fold=options.fold, settings=dict(options.settings))
    (directory / "run.py").write_text(program)
    return directory
