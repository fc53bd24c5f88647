"""Makes StableHLO text from a graph: JAX traces the graph, with its forms of the rows, on shapes alone."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import export
from jax.extend.mlir.dialects import stablehlo as dialect

from pijit._formats.stablehlo import Module
from pijit._version import __version__
from pijit.errors import ExportError
from pijit.graph.forms import form_of, load
from pijit.graph.model import Graph, Node, Value
from pijit.graph.run import bind, lacking, place_of, resolve, to_array

_LOCATION = re.compile(r' loc\((?:#loc\d*|unknown|"(?:[^"\\]|\\.)*"(?:\(#loc\d*\))?)\)')
_NUMBERS = {"int": "int64", "float": "float64", "bool": "bool"}


# What the forms of JAX take as ints may be a size that is free here.
_SIZES: dict[str, Callable[..., Any]] = {
    "size": lambda x, axis: x.shape[axis],
    "numel": lambda x: math.prod(x.shape),
}


class _Lowering:
    """One graph on its way to StableHLO."""

    def __init__(self, graph: Graph, constants: bool) -> None:
        self.graph = graph
        self.forms: Any = load("jax")
        self.constants = constants
        self.parameters = {value.path or value.name: value for value in graph.parameters}
        self.results: list[str] = []
        for value in graph.parameters:
            if value.name not in graph.data:
                raise ExportError(f"the graph has no data for {value.role} {value.path or value.name!r}")

    def specs(self) -> Iterator[tuple[str, Any]]:
        """Name, shape and dtype of each argument."""
        if not self.constants:
            for name, value in self.parameters.items():
                array = self.graph.data[value.name]
                dtype = str(array.dtype).rpartition(".")[2]
                yield name, jax.ShapeDtypeStruct(tuple(array.shape), jnp.dtype(dtype))
        scope = export.SymbolicScope()
        for value in self.graph.inputs:
            yield value.name, jax.ShapeDtypeStruct(*_type(value, scope))

    def function(self, *arrays: Any) -> list[Any]:
        """What JAX traces."""
        graph = self.graph
        if self.constants:
            values = {name: to_array(array, "jax") for name, array in graph.data.items()}
            given: Any = graph.inputs
        else:
            values, given = {}, (*self.parameters.values(), *graph.inputs)
        values.update(zip((value.name for value in given), arrays, strict=True))
        for node in graph.nodes:
            if node.op != "check":
                bind(node, self.call(node, values), values)
        paths = {value.name: value.path or value.name for value in (*graph.parameters, *graph.inputs)}
        wanted = [*_named(graph.outputs, "")]
        wanted += [(f"{paths[name]}.updated", value) for name, value in graph.updates]
        self.results = [name for name, _ in wanted]
        return [_array(values[value.name], value) for _, value in wanted]

    def call(self, node: Node, values: Mapping[str, Any]) -> Any:
        """What a node gives."""
        form = _SIZES.get(node.op) or form_of(self.forms, node.op)
        if form is None:
            raise lacking(node, "JAX")
        arguments = {name: resolve(argument, values) for name, argument in node.arguments.items()}
        with jax.named_scope(node.region or self.graph.name or "graph"):
            try:
                return form(**arguments)
            except ExportError:
                raise
            except Exception as error:
                why = str(error).partition("\n")[0]
                hint = "try dynamic=False" if self.graph.symbols else "try format 'exported_program', 'fx' or 'json'"
                raise ExportError(
                    f"{place_of(node)}{node.op} has no form in StableHLO here: {type(error).__name__}: {why}; {hint}"
                ) from error


def _type(value: Value, scope: Any) -> tuple[Any, Any]:
    """Shape and dtype of an input."""
    if value.kind != "tensor":
        return (), jnp.dtype(_NUMBERS[value.kind])
    if value.dtype is None or value.shape is None:
        raise ExportError(f"input {value.name!r} is {value.type}; StableHLO needs its dtype and number of axes")
    if all(isinstance(size, int) for size in value.shape):
        return value.shape, jnp.dtype(value.dtype)
    text = "".join(f"{size}, " for size in value.shape)
    return export.symbolic_shape(text, scope=scope), jnp.dtype(value.dtype)


def _named(structure: Any, prefix: str) -> Iterator[tuple[str, Value]]:
    """The values in a structure, each with a name made from its keys."""
    if isinstance(structure, Value):
        yield prefix or "output", structure
    elif isinstance(structure, Mapping):
        for key, item in structure.items():
            yield from _named(item, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(structure, tuple | list):
        for at, item in enumerate(structure):
            yield from _named(item, f"{prefix or 'output'}.{at}" if len(structure) > 1 else prefix)


def _array(made: Any, value: Value) -> Any:
    """A result; a number as an array without axes."""
    return jnp.asarray(made, None if value.kind == "tensor" else _NUMBERS[value.kind])


def _stripped(text: str) -> str:
    """The text without locations: they name files of pijit and of JAX."""
    lines = (line for line in text.splitlines() if not line.startswith("#loc"))
    return "\n".join(_LOCATION.sub("", line) for line in lines) + "\n"


def _described(names: tuple[str, ...], types: Any) -> Iterator[str]:
    for at, (name, aval) in enumerate(zip(names, types, strict=True)):
        yield f"//   {at} {name}: {aval.dtype}[{', '.join(map(str, aval.shape))}]"


def lowered(graph: Graph, constants: bool, locations: bool, platform: str) -> Module:
    """The text; see `pijit._formats.stablehlo`."""
    lowering = _Lowering(graph, constants)
    with lowering.forms.wide():
        specs = dict(lowering.specs())
        function = lowering.function
        try:
            jitted = jax.jit(_as_main(function, graph.name), keep_unused=True)
            exported = export.export(jitted, platforms=(platform,))(*specs.values())
        except ExportError:
            raise
        except Exception as error:
            why = str(error).partition("\n")[0]
            raise ExportError(
                f"JAX makes no StableHLO of {graph.name!r}: {type(error).__name__}: {why}; try dynamic=False"
            ) from error
        text = exported.mlir_module()
    version = dialect.get_current_version()
    arguments, results = tuple(specs), tuple(lowering.results)
    head = [
        f"// StableHLO {version} of {graph.name!r}, made by pijit {__version__} with JAX {jax.__version__}.",
        "// Arguments:",
        *_described(arguments, exported.in_avals),
        "// Results:",
        *_described(results, exported.out_avals),
    ]
    data = {} if constants else {name: graph.data[value.name] for name, value in lowering.parameters.items()}
    body = text if locations else _stripped(text)
    return Module("\n".join((*head, body)), version, arguments, results, data, exported)


def _as_main(function: Any, name: str) -> Any:
    """The function under the graph's name, which the module gets."""

    def main(*arrays: Any) -> list[Any]:
        return function(*arrays)  # type: ignore[no-any-return]

    main.__name__ = name or "graph"
    return main
