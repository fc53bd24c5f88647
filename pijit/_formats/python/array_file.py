"""The Python file of a graph for NumPy or JAX: its lines call forms of the vocabulary, whose source stands above."""

import importlib
from collections.abc import Iterable, Iterator

from pijit._formats.python.file import PythonFile
from pijit._formats.python.forms_source import source_of
from pijit.errors import ExportError
from pijit.graph.decompose import decomposed
from pijit.graph.forms import form_of, load
from pijit.graph.model import Graph, Node, Token
from pijit.graph.model.branches import all_nodes, is_branch
from pijit.graph.run import having_row, lacking
from pijit.graph.show.text import quoted
from pijit.graph.torch_calls import NUMBERS

# Where a framework's class of forms is, and what the arrays of the file are made with.
_CLASSES = {"numpy": "NumPy", "jax": "Jax"}


class ArrayFile(PythonFile):
    """Lines of forms."""

    def __init__(self, graph: Graph, weights: str, framework: str) -> None:
        self.framework = framework
        self.forms = load(framework)
        super().__init__(decomposed(graph, having_row(framework)).functional(), weights)
        self.used: set[str] = set()
        for node in all_nodes(self.graph):
            if node.op != "check" and node.op not in NUMBERS and not is_branch(node):
                if node.is_foreign or form_of(self.forms, node.op) is None:
                    raise lacking(node, framework)
                self.used.add(node.op)

    def needed(self) -> set[str]:
        found = super().needed()
        if self.framework == "jax":
            found |= {"import jax", "import jax.numpy as jnp"}
        if self.framework == "numpy" or self.arrays or self.graph.inputs:
            found.add("import numpy as np")
        if any("ml_dtypes" in line for line in self.parameters()):
            found.add("import ml_dtypes")
        return found

    def library(self) -> Iterable[str]:
        made = source_of(getattr(importlib.import_module(self.forms.__name__), _CLASSES[self.framework]), self.used)
        self.imports |= made.imports
        if self.framework == "jax":
            yield from ["", 'jax.config.update("jax_enable_x64", True)']
        for text in made.definitions:
            yield from ["", "", text]
        yield from ["", "", made.forms, "", "", "ops = Forms()"]

    def signature(self) -> str:
        quiet = '@np.errstate(all="ignore")\n' if self.framework == "numpy" else ""
        return quiet + super().signature()

    def called(self, node: Node) -> Iterator[str]:
        named = (f"{name}={self.expression(argument)}" for name, argument in node.arguments.items())
        return self.call_lines(node, f"ops.{node.op}", list(named))

    def token(self, word: Token) -> str:
        return quoted(word.name)

    def dtype(self, name: str) -> str:
        if name.startswith(("bfloat16", "float8")):
            return f"ml_dtypes.{name}"
        return f"np.{name if name != 'bool' else 'bool_'}"

    def updates(self) -> Iterator[str]:
        own = {value.name: value for value in self.graph.parameters}
        for name, value in self.graph.updates:
            if name not in own and self.framework == "jax":
                raise ExportError(
                    f"{self.graph.name!r} writes to its input {name!r}, and arrays of JAX cannot change; "
                    'take framework="torch" or "numpy", or give what is written back as a result'
                )
            target = self.names[name]
            yield f"{target if name in own else f'{target}[...]'} = {self.names[value.name]}"

    def zeros(self, shape: tuple[int, ...], dtype: str) -> str:
        return f"{'jnp' if self.framework == 'jax' else 'np'}.zeros({shape!r}, {dtype})"

    def from_bytes(self) -> str:
        made = "np.frombuffer(data, dtype).reshape(shape)"
        return f"""
def _array(data, dtype, shape):
    return {f"jnp.asarray({made})" if self.framework == "jax" else made}
"""
