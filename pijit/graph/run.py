"""Runs a graph node by node, on arrays of any framework that has forms.

A foreign operator runs where its own framework does. What a node writes to is replaced, not overwritten, in frameworks
whose arrays cannot change: the graph is made functional first. What has no form is decomposed before that.
"""

import functools
import weakref
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from pijit._usage_errors import nearest
from pijit.errors import ExportError, UsageError
from pijit.graph import lowerings
from pijit.graph.decompose import decomposed
from pijit.graph.forms import form_of, load, numbers
from pijit.graph.model import Graph, Node, place_of
from pijit.graph.model.branches import graphs_of, is_branch
from pijit.graph.model.functional import functional
from pijit.graph.torch_run import resolve, torch_caller

# What graphs have become for frameworks, as long as the graphs live.
_made: "weakref.WeakKeyDictionary[Graph, dict[tuple[str, int], Graph]]" = weakref.WeakKeyDictionary()


def lacking(node: Node, framework: str) -> ExportError:
    """The error for an operator that a framework does not have."""
    what = f"{node.op} has no form in {framework}"
    if node.is_foreign:
        what = f"{node.op} has no row in the vocabulary, and is not made of operators that have one"
    return ExportError(
        f"{place_of(node)}{what}, so the graph cannot run in {framework}; "
        "`graph.foreign` names such operators, and the formats of torch (fx, exported_program) hold them"
    )


def bind(node: Node, results: Any, values: dict[str, Any]) -> None:
    """Enters what a node has given under the names of its results."""
    if len(node.results) == 1 and not isinstance(results, tuple | list):
        results = (results,)
    for value, result in zip(node.results, results if node.results else (), strict=True):
        if value is not None:
            values[value.name] = result


def evaluate(graph: Graph, values: dict[str, Any], call: Callable[[Node, Mapping[str, Any]], Any]) -> Any:
    """What the graph returns.

    Args:
        graph: what to run.
        values: arrays by the names of inputs and parameters; the results are added.
        call: makes one node's call, given the values so far.
    """
    for node in graph.nodes:
        bind(node, call(node, values), values)
    return resolve(graph.outputs, values)


def run_branch(node: Node, values: Mapping[str, Any], call: Callable[[Node, Mapping[str, Any]], Any], form: Any) -> Any:
    """What a node with graphs gives.

    Args:
        node: "cond" or "while".
        values: what is known where it stands; the graphs in it see nothing of this but what is given to them.
        call: makes the call of a node in its graphs.
        form: of its row.
    """

    def function(graph: Graph) -> Callable[..., Any]:
        names = [value.name for value in graph.inputs]
        return lambda *given: evaluate(graph, dict(zip(names, given, strict=True)), call)

    functions = {name: function(graph) for name, graph in graphs_of(node).items()}
    rest = {name: resolve(each, values) for name, each in node.arguments.items() if name not in functions}
    return form(**functions, **rest)


@functools.cache
def having(framework: str) -> Callable[[Node], bool]:
    """Tells whether a node has a form in a framework; one function a framework."""
    forms = load(framework)
    return lambda node: form_of(forms, node.op) is not None


@functools.cache
def having_row(framework: str) -> Callable[[Node], bool]:
    """Tells whether the row of a node has a form in a framework; one function a framework."""
    has_form = having(framework)
    return lambda node: not node.is_foreign and has_form(node)


def check(node: Node, values: Mapping[str, Any]) -> None:
    """`ExportError` where sizes or data are not as the program decided on when it was captured."""
    found, expected = resolve(node.arguments["x"], values), node.arguments["expected"]
    if isinstance(expected, bool):
        found = bool(found)  # of an array, too
    if found != expected:
        raise ExportError(
            f"{place_of(node)}the program decides on {'data' if node.origin else 'a size'} here: {found!r} now, "
            f"{expected!r} when it was captured; capture it again with such inputs"
        )


def caller(framework: str) -> Callable[[Node, Mapping[str, Any]], Any]:
    """Makes the call of a node: in torch the operator that the program called, elsewhere the function of its row.

    Raises:
        UsageError: there is no such framework, or it is not installed.
    """
    own = torch_caller() if framework == "torch" else None
    forms: Any = None if framework == "torch" else load(framework)

    def call(node: Node, values: Mapping[str, Any]) -> Any:
        if node.op == "check":
            return check(node, values)
        if is_branch(node):  # a decision of Python; in JAX it may be one that jax.jit traces
            own_form = form_of(forms, node.op) if framework == "jax" else numbers.FORMS[node.op]
            return run_branch(node, values, call, own_form)
        if own is not None:
            return own(node, values)
        form = form_of(forms, node.op)
        if form is None:
            raise lacking(node, framework)
        return form(**{name: resolve(argument, values) for name, argument in node.arguments.items()})

    return call


def run(graph: Graph, inputs: tuple[Any, ...], named: Mapping[str, Any], framework: str, updates: bool) -> Any:
    """What `Graph.run` does."""
    call = caller(framework)
    for node in graph.breaks:
        raise ExportError(
            f"{place_of(node)}graph {graph.name} is split here, at {node.op.removeprefix('python::')}"
            f"{f' ({node.origin})' if node.origin else ''}, which only Python can do; `graph.parts` has the parts, "
            "which can be run"
        )
    given = _given(graph, inputs, named)
    if framework != "torch":
        made = _made_for(graph, framework)
        if made is not graph:
            _check_fixed(made, given)
        graph = functional(made)
    values = {name: to_array(graph.data[name], framework) for name in graph.data}
    for name, array in given.items():
        values[name] = to_array(array, framework)
    with precision(framework), _gradients(graph, framework):
        outputs = evaluate(graph, values, call)
    if not updates:
        return outputs
    written = {name: values[name] for name in graph.written} if framework == "torch" else {}
    return outputs, written | {name: values[value.name] for name, value in graph.updates}


def _made_for(graph: Graph, framework: str) -> Graph:
    """The graph in operators that a framework has; it takes torch seconds, and is made once."""
    held = _made.setdefault(graph, {})
    key = (framework, lowerings.changes())
    if key not in held:
        made = decomposed(graph, having(framework))
        if made is graph:  # else it would keep itself alive
            return graph
        held[key] = made
    return held[key]


def _check_fixed(made: Graph, given: Mapping[str, Any]) -> None:
    """`ExportError` where a size is another one than that for which an operator was decomposed."""
    for value in made.inputs:
        for axis, size in enumerate(value.shape or ()):
            found = getattr(given[value.name], "shape", ())[axis:]
            if isinstance(size, int) and found and found[0] != size:
                raise ExportError(
                    f"graph {made.name} has an operator that only torch has, and that becomes others for one size: "
                    f"axis {axis} of {value.name!r} is {found[0]} now, and was {size} when it was captured; capture it "
                    "again with such inputs"
                )


def _given(graph: Graph, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs by name."""
    names = [value.name for value in graph.inputs]
    if len(inputs) > len(names):
        raise UsageError(f"graph {graph.name} takes {len(names)} inputs ({', '.join(names)}), not {len(inputs)}")
    given = dict(zip(names, inputs, strict=False))
    for name, array in named.items():
        if name not in names:
            raise UsageError(f"graph {graph.name} has no input {name!r}{nearest(name, names)}")
        if name in given:
            raise UsageError(f"graph {graph.name} was given {name!r} twice")
        given[name] = array
    if missing := [name for name in names if name not in given]:
        raise UsageError(f"graph {graph.name} needs its input {missing[0]!r}; it takes {', '.join(names)}")
    return given


def to_array(thing: Any, framework: str) -> Any:
    """An array of the framework with this content; no copy where DLPack or the buffer can be shared. Numbers stay.

    MindSpore's arrays are copied: its tensors may be moved to another device at any time.
    """
    if isinstance(thing, bool | int | float):
        return thing
    if type(thing).__module__.startswith("mindspore"):
        if framework == "mindspore":
            return thing
        from pijit.graph.forms.mindspore_array import numpy_of

        thing = numpy_of(thing)
    if framework == "mindspore":
        from pijit.graph.forms.mindspore_array import constant

        return constant(to_array(thing, "numpy")).tensor
    if framework == "torch":
        import torch

        return thing if isinstance(thing, torch.Tensor) else torch.utils.dlpack.from_dlpack(thing)
    if framework == "jax":
        import jax.numpy as jnp

        if type(thing).__module__.startswith("jax"):
            return thing
        with precision(framework):
            try:
                return jnp.from_dlpack(_detached(thing))
            except (TypeError, ValueError, RuntimeError, BufferError):  # a dtype or layout that DLPack does not carry
                return jnp.asarray(to_array(thing, "numpy"))
    import numpy as np

    array = _detached(thing)
    return np.asarray(array.cpu().resolve_conj() if array is not thing else array)


def _detached(thing: Any) -> Any:
    return thing.detach() if hasattr(thing, "detach") else thing


def computes_gradients(graph: Graph) -> bool:
    """It writes gradients: a training step, for example."""
    return any(value.role == "buffer" and value.path.endswith(".grad") for value in graph.parameters)


def _gradients(graph: Graph, framework: str) -> AbstractContextManager[Any]:
    """A graph that computes gradients is no part of what autograd follows: it writes to leaves."""
    if framework != "torch" or not computes_gradients(graph):
        return nullcontext()
    import torch

    made: AbstractContextManager[Any] = torch.no_grad()
    return made


def precision(framework: str) -> AbstractContextManager[Any]:
    """JAX has 64-bit numbers only where they are asked for."""
    if framework != "jax":
        return nullcontext()
    import jax

    made: AbstractContextManager[Any] = jax.enable_x64(True)
    return made
