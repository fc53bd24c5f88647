"""Makes StableHLO text from a graph: JAX traces the graph, with its forms of the rows, on shapes alone."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.extend.mlir.dialects import stablehlo as dialect

from pijit._formats._graph_results import checks, named_results, needed
from pijit._formats.stablehlo.module import Module
from pijit._version import __version__
from pijit.errors import ExportError
from pijit.graph.forms import form_of, load
from pijit.graph.forms.arrays import functions
from pijit.graph.forms.jax import Jax
from pijit.graph.model import Graph, Node, Value, place_of
from pijit.graph.model.branches import all_nodes, check_dtypes, graphs_of, has_branches, is_branch
from pijit.graph.run import bind, lacking, to_array
from pijit.graph.torch_run import resolve
from pijit.passes import repeats
from pijit.passes.repeats import Repeat

_LOCATION = re.compile(r' loc\((?:#loc\d*|unknown|"(?:[^"\\]|\\.)*"(?:\(#loc\d*\))?)\)')
_LEAST = re.compile(r"min\(([^(),]+), ([^(),]+)\)")
_NUMBERS = {"int": "int64", "float": "float64", "bool": "bool"}


class _Free(Jax):
    """Forms that JAX has for known sizes only, for sizes that are free."""

    def size(self, x: Any, axis: int) -> Any:
        return x.shape[axis]

    def numel(self, x: Any) -> Any:
        return math.prod(x.shape)

    def arange(self, start: Any = 0, stop: Any = None, step: Any = 1, dtype: Any = None, device: Any = None) -> Any:
        usual = np.dtype("float32") if any(isinstance(each, float) for each in (start, stop, step)) else "int64"
        return jnp.arange(start, stop, step, dtype=self._dtype(dtype, usual))

    def gather(self, x: Any, axis: int, indices: Any) -> Any:
        if x.ndim != indices.ndim or not x.ndim:
            return super().gather(x, axis, indices)
        around = tuple(slice(size) for size in indices.shape)
        around = (*around[: axis % x.ndim], slice(None), *around[axis % x.ndim + 1 :])
        return jnp.take_along_axis(x[around], indices, axis)

    def _scores(self, query: Any, key: Any, is_causal: bool, mask: Any, scale: float | None) -> Any:
        scores = super()._scores(query, key, False, mask, scale)
        if not is_causal:
            return scores
        rows, columns = (jnp.arange(scores.shape[axis]) for axis in (-2, -1))
        return jnp.where(rows[:, None] >= columns, scores, jnp.asarray(-math.inf, scores.dtype))

    def _count(self, x: Any, axis: Any) -> Any:
        axes = range(x.ndim) if axis is None or axis == () else axis if isinstance(axis, tuple) else (axis,)
        return jnp.asarray(math.prod(x.shape[each] for each in axes))


# What a decision says of two ints where it is true, and where it is not: text for JAX, or None.
_MORE, _LESS, _AT_LEAST, _AT_MOST = "{x} >= {after_y}", "{y} >= {after_x}", "{x} >= {y}", "{y} >= {x}"
_SAYS: dict[str, tuple[str | None, str | None]] = {
    "scalar_less": (_LESS, _AT_LEAST),
    "scalar_less_equal": (_AT_MOST, _MORE),
    "scalar_greater": (_MORE, _AT_MOST),
    "scalar_greater_equal": (_AT_LEAST, _LESS),
    "scalar_equal": ("{x} == {y}", None),
    "scalar_not_equal": (None, "{x} == {y}"),
}


class _Again(Exception):
    """A constraint of sizes was learned: trace again with it."""


class _Lowering:
    """One graph on its way to StableHLO."""

    def __init__(self, graph: Graph, constants: bool, loops: bool) -> None:
        self.graph = graph
        self.forms: Any = load("jax")
        self.free = functions(_Free()) if graph.symbols else {}
        self.branches = has_branches(graph)
        self.constants = constants
        self.parameters: dict[str, Value] = {}
        for value in graph.parameters:
            name = value.path or value.name
            self.parameters[value.name if name in self.parameters else name] = value
        self.results: list[str] = []
        self.nodes = needed(graph, size_checks=True)
        self.loop = repeats.find(self.nodes, graph) if loops else None
        self.weights = repeats.arguments(graph, self.nodes, self.loop)
        self.alone = {value.name for value in self.weights.alone}
        checked = (node.arguments for node in all_nodes(graph) if node.op == "check" and not node.origin)
        self.decided = {str(each["x"]): each["expected"] for each in checked}  # by the number that is looked at
        self.constraints: list[str] = []
        for value in graph.parameters:
            if value.name not in graph.data:
                raise ExportError(f"the graph has no data for {value.role} {value.path or value.name!r}")

    def specs(self) -> Iterator[tuple[str, Any]]:
        """Name, shape and dtype of each argument."""
        if not self.constants:
            for name, value in self.parameters.items():
                array = self.graph.data[value.name]
                dtype = str(array.dtype).rpartition(".")[2]
                if value.name in self.alone:
                    yield name, jax.ShapeDtypeStruct(tuple(array.shape), jnp.dtype(dtype))
            for at, each in enumerate(self.weights.stacks):
                one = each[0]
                yield f"stack {at}", jax.ShapeDtypeStruct((len(each), *(one.shape or ())), jnp.dtype(one.dtype))
        scope = export.SymbolicScope(self.constraints)
        for value in self.graph.inputs:
            yield value.name, jax.ShapeDtypeStruct(*_type(value, scope))

    def exported(self, platform: str) -> tuple[dict[str, Any], Any]:
        """The arguments, and what JAX makes of the graph."""
        while True:
            specs = dict(self.specs())
            jitted = jax.jit(_as_main(self.function, self.graph.name), keep_unused=True)
            try:
                return specs, export.export(jitted, platforms=(platform,))(*specs.values())
            except _Again:
                continue

    def function(self, *arrays: Any) -> list[Any]:
        """What JAX traces."""
        graph = self.graph
        if self.constants:
            values = {name: to_array(array, "jax") for name, array in graph.data.items()}
            given: Any = graph.inputs
            stacks = [jnp.stack([values[value.name] for value in each]) for each in self.weights.stacks]
        else:
            values, alone = {}, [value for value in self.parameters.values() if value.name in self.alone]
            stacks = list(arrays[len(alone) : len(arrays) - len(graph.inputs)])
            arrays = (*arrays[: len(alone)], *arrays[len(alone) + len(stacks) :])
            given = (*alone, *graph.inputs)
        values.update(zip((value.name for value in given), arrays, strict=True))
        if self.loop is None:
            self.steps(self.nodes, values)
        else:
            self.steps(self.nodes[: self.loop.first], values)
            self.repeat(self.loop, stacks, values)
            self.steps(self.nodes[self.loop.end :], values)
        wanted = list(named_results(graph))
        self.results = [name for name, _ in wanted]
        return [_array(values[value.name], value) for _, value in wanted]

    def steps(self, nodes: Iterable[Node], values: dict[str, Any]) -> None:
        """What the nodes give, under the names of their results."""
        for node in nodes:
            bind(node, self.call(node, values), values)
            for value in node.results:
                if value is None:
                    continue
                made = values[value.name]
                if self.branches and value.dtype is not None and getattr(made, "dtype", value.dtype) != value.dtype:
                    values[value.name] = made.astype(value.dtype)  # a number of a branch is an array, and counts as one
                if value.shape is not None:
                    self.compare(value.shape, values[value.name])

    def repeat(self, loop: Repeat, stacks: list[Any], values: dict[str, Any]) -> None:
        """Nodes that repeat, as a loop of XLA: it compiles those of one turn."""

        def turn(now: tuple[Any, ...], weights: list[Any]) -> Any:
            inner = dict(values)
            inner.update(zip((value.name for value, _, _ in loop.carried), now, strict=True))
            inner.update(zip((value.name for value, _ in loop.stacked), weights, strict=True))
            self.steps(loop.nodes, inner)
            after = tuple(jnp.asarray(inner[value.name], value.dtype) for _, _, value in loop.carried)
            return after, [inner[value.name] for value, _ in loop.given]

        start = tuple(jnp.asarray(values[value.name], value.dtype) for _, value, _ in loop.carried)
        after, made = jax.lax.scan(turn, start, stacks)
        values.update(zip((value.name for value in loop.last), after, strict=True))
        for array, (_, each) in zip(made, loop.given, strict=True):
            values.update((value.name, array[at]) for at, value in enumerate(each))

    def inner(self, graph: Graph) -> Callable[..., Any]:
        """A graph in a node as a function."""

        def function(*given: Any) -> Any:
            values = dict(zip((value.name for value in graph.inputs), given, strict=True))
            self.steps(needed(graph, size_checks=True), values)
            return resolve(graph.outputs, values)

        return function

    def compare(self, known: tuple[Any, ...], made: Any) -> None:
        """Learns from a size that the graph knows better than JAX: where it is `n`, `min(64, n)` says that n <= 64."""
        for size, found in zip(known, getattr(made, "shape", ()), strict=False):
            least = _LEAST.fullmatch(str(found))
            if least is not None and str(size) in least.groups():
                other = least[1] if least[2] == str(size) else least[2]
                self.learn(f"{size} <= {other}")

    def learn(self, constraint: str) -> None:
        """Traces again with a constraint that is new; JAX checks it in each call."""
        if constraint not in self.constraints:
            self.constraints.append(constraint)
            raise _Again

    def decide(self, node: Node, arguments: Mapping[str, Any]) -> None:
        """Learns how a decision on free sizes goes; where that cannot be said, JAX refuses to take it."""
        says = _SAYS.get(node.op)
        result = node.results[0] if node.results else None
        if says is None or result is None or type(expected := self.decided.get(result.name)) is not bool:
            return
        sides = list(arguments.values())
        known = all(isinstance(each, int) or export.is_symbolic_dim(each) for each in sides)
        text = says[not expected]
        if text is None or not known or not any(map(export.is_symbolic_dim, sides)):
            return
        x, y = sides
        self.learn(text.format(x=x, y=y, after_x=x + 1, after_y=y + 1))

    def check(self, node: Node, found: Any) -> None:
        """A decision on sizes that JAX has taken; what is a number of the call alone is left to the comment."""
        if node.origin == "python::raises":
            raise ExportError(
                f"{place_of(node)}the program raises here for some data, and a program of StableHLO cannot; export "
                "with `decisions='assume'`: it then gives something for such data, too"
            )
        expected = node.arguments["expected"]
        if export.is_symbolic_dim(found):
            self.learn(f"{found} == {expected}")
        elif isinstance(found, bool | int | float) and found != expected:
            raise ExportError(f"the program decides on a size here: {found!r} now, {expected!r} when it was captured")

    def call(self, node: Node, values: Mapping[str, Any]) -> Any:
        """What a node gives."""
        if node.op == "check":
            self.check(node, resolve(node.arguments["x"], values))
            return ()
        form = self.free.get(node.op) or form_of(self.forms, node.op)
        if form is None:
            raise lacking(node, "JAX")
        arguments = {name: resolve(argument, values) for name, argument in node.arguments.items()}
        if is_branch(node):
            check_dtypes(node, "StableHLO")
            arguments |= {name: self.inner(graph) for name, graph in graphs_of(node).items()}
        with jax.named_scope(node.region or self.graph.name or "graph"):
            try:
                self.decide(node, arguments)
                return form(**arguments)
            except _Again:
                raise
            except ExportError as error:
                raise ExportError(f"{place_of(node)}{error}") from error
            except Exception as error:
                why = str(error).partition("\n")[0]
                free = [f"{name}={each}" for name, each in arguments.items() if export.is_symbolic_dim(each)]
                why += f" ({', '.join(free)})" if free else ""
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


def lowered(
    graph: Graph,
    constants: bool,
    locations: bool,
    platform: str,
    sizes: Mapping[str, int] | None = None,
    loops: bool = False,
) -> Module:
    """The text; see `pijit._formats.stablehlo`. With `loops` it takes the weights as `repeats.arguments` says."""
    lowering = _Lowering(graph, constants, loops)
    with lowering.forms.wide():
        try:
            specs, exported = lowering.exported(platform)
        except ExportError as error:
            raise ExportError(str(error)) from error  # without the notes that JAX adds
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
        *(f"// For {name} = {size}." for name, size in (sizes or {}).items()),
        *(f"// Holds where {each}." for each in dict.fromkeys(checks(graph))),
        "// Arguments:",
        *_described(arguments, exported.in_avals),
        "// Results:",
        *_described(results, exported.out_avals),
    ]
    data = {} if constants else {name: graph.data[value.name] for name, value in lowering.parameters.items()}
    body = text if locations else _stripped(text)
    return Module("\n".join((*head, body)), version, arguments, results, sizes or {}, data, exported)


def _as_main(function: Any, name: str) -> Any:
    """The function under the graph's name, which the module gets."""

    def main(*arrays: Any) -> list[Any]:
        return function(*arrays)  # type: ignore[no-any-return]

    main.__name__ = name or "graph"
    return main
