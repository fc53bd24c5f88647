"""Runs a graph node by node, on arrays of any framework that has forms.

A foreign operator runs where its own framework does. What a node writes to is replaced, not overwritten, in frameworks
whose arrays cannot change: the graph is made functional first.
"""

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from pijit.errors import ExportError
from pijit.graph.forms import form_of
from pijit.graph.model import Graph, Node, Slice, Value


def resolve(argument: Any, values: Mapping[str, Any]) -> Any:
    """An argument or structure with arrays and numbers in the place of values, and slices of Python."""
    if isinstance(argument, Value):
        return values[argument.name]
    if isinstance(argument, Slice):
        return slice(*(resolve(part, values) for part in (argument.start, argument.stop, argument.step)))
    if isinstance(argument, tuple):
        return tuple(resolve(item, values) for item in argument)
    if isinstance(argument, list):
        return [resolve(item, values) for item in argument]
    if isinstance(argument, Mapping):
        return {key: resolve(item, values) for key, item in argument.items()}
    return argument


def place_of(node: Node) -> str:
    """The start of a message about a node: "file.py:12: ", or nothing."""
    return f"{node.place}: " if node.place else ""


def lacking(node: Node, framework: str) -> ExportError:
    """The error for an operator that a framework does not have."""
    what = f"{node.op} has no row in the vocabulary" if node.is_foreign else f"{node.op} has no form in {framework}"
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


def evaluate(graph: Graph, values: dict[str, Any], call: Callable[[Node, dict[str, Any]], Any]) -> Any:
    """What the graph returns.

    Args:
        graph: what to run.
        values: arrays by the names of inputs and parameters; the results are added.
        call: makes one node's call with these arguments.
    """
    for node in graph.nodes:
        arguments = {name: resolve(argument, values) for name, argument in node.arguments.items()}
        bind(node, call(node, arguments), values)
    return resolve(graph.outputs, values)


def caller(forms: ModuleType, framework: str) -> Callable[[Node, dict[str, Any]], Any]:
    """Makes the call of a node by the function of its row."""

    def call(node: Node, arguments: dict[str, Any]) -> Any:
        form = form_of(forms, node.op)
        if form is None:
            raise lacking(node, framework)
        return form(**arguments)

    return call
