"""A replacement: two functions, and the graphs that they are captured as."""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pijit import _torch_objects, passes
from pijit._usage_errors import describe
from pijit.errors import ExportError, UsageError
from pijit.graph.build import transforms
from pijit.graph.build.capture import captured
from pijit.graph.model import Graph, Node, Value, replaced
from pijit.graph.model.branches import is_branch
from pijit.graph.model.memory import Memory
from pijit.graph.run import evaluate
from pijit.graph.torch_run import torch_caller


@dataclass(frozen=True, eq=False)
class Replacement:
    """What stands in the place of what.

    Attributes:
        name: in `explain` and messages.
        pattern: gives one tensor; a number among its arguments stands for any number.
        replacement: takes the same arguments.
        inputs: examples of these, or what makes them.
        where: whether it may be made, given what stands for the arguments by name; None: wherever the pattern fits.
        names: of the arguments; (): as the pattern names its parameters.
        operators: of the vocabulary, without which the pattern need not be captured; it may have more.
        tolerance: relative and absolute difference between the results.
    """

    name: str
    pattern: Callable[..., Any]
    replacement: Callable[..., Any]
    inputs: tuple[Any, ...] | Callable[[], tuple[Any, ...]]
    where: Callable[..., bool] | None = None
    names: tuple[str, ...] = ()
    operators: frozenset[str] = frozenset()
    tolerance: tuple[float, float] = (1e-4, 1e-5)

    def __post_init__(self) -> None:
        object.__setattr__(self, "forms", functools.cache(lambda: _forms(self)))

    forms: Callable[[], "Forms"] = field(init=False)

    @property
    def examples(self) -> tuple[Any, ...]:
        return self.inputs() if callable(self.inputs) else self.inputs


@dataclass(frozen=True)
class Forms:
    """The graphs of a replacement.

    Attributes:
        pattern: its inputs have the names of the arguments.
        replacement: likewise.
        numbers: arguments that are numbers, by the example that stands for each in the graphs.
        makers: of the pattern, by the names of their results: each node, and which result it is.
        last: the node that gives the result of the pattern.
    """

    pattern: Graph
    replacement: Graph
    numbers: Mapping[Any, str]
    makers: Mapping[str, tuple[Node, int]]

    @property
    def last(self) -> Node:
        return self.pattern.nodes[-1]


def check(made: Replacement) -> None:
    """The functions can be captured, and give the same.

    Raises:
        UsageError: they cannot, or do not.
    """
    import torch

    transforms.prepare()
    made.forms()
    relative, absolute = made.tolerance
    first, second = made.pattern(*made.examples), made.replacement(*made.examples)
    try:
        torch.testing.assert_close(second, first, rtol=relative, atol=absolute, equal_nan=True)
    except AssertionError as error:
        why = " ".join(str(error).split())
        raise UsageError(
            f"register_replacement({made.name!r}): the replacement does not give what the pattern gives: {why}"
        ) from None


def _forms(made: Replacement) -> Forms:
    examples = made.examples
    names = _names_of(made, len(examples))
    numbers = {
        given: name
        for name, given in zip(names, examples, strict=True)
        if isinstance(given, int | float) and not isinstance(given, bool)
    }
    pattern, replacement = (
        _captured(made, word, function, names, examples)
        for word, function in (("pattern", made.pattern), ("replacement", made.replacement))
    )
    _check_uses(made, names, examples, pattern, replacement)
    makers = {
        value.name: (node, at) for node in pattern.nodes for at, value in enumerate(node.results) if value is not None
    }
    return Forms(pattern, replacement, numbers, makers)


def _check_uses(
    made: Replacement, names: tuple[str, ...], examples: tuple[Any, ...], pattern: Graph, replacement: Graph
) -> None:
    """What the replacement takes is to be found in the program: the pattern has it, numbers as they are given."""

    def used(graph: Graph) -> set[Any]:
        values = {value.name for node in graph.nodes for value in node.operands}
        numbers = {number for node in graph.nodes for each in node.arguments.values() for number in _numbers_in(each)}
        return {
            name for name, given in zip(names, examples, strict=True) if name in values or _is_among(given, numbers)
        }

    if missing := sorted(used(replacement) - used(pattern)):
        raise UsageError(
            f"register_replacement({made.name!r}): the pattern does not take {', '.join(missing)} as it is given, so "
            "the program does not say what stands for it; hand it to an operator unchanged"
        )


def _is_among(given: Any, numbers: set[Any]) -> bool:
    return type(given) in {int, float} and given in numbers


def _numbers_in(argument: Any) -> Iterator[float]:
    if isinstance(argument, tuple):
        for each in argument:
            yield from _numbers_in(each)
    elif isinstance(argument, int | float) and not isinstance(argument, bool):
        yield argument


def _names_of(made: Replacement, count: int) -> tuple[str, ...]:
    """The names of the arguments of the pattern."""
    if made.names:
        return made.names
    try:
        parameters = list(inspect.signature(made.pattern).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    by_place = [each for each in parameters if each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}]
    if not sum(each.default is each.empty for each in by_place) <= count <= len(by_place):
        raise UsageError(
            f"register_replacement({made.name!r}): inputs= has {count} arguments; the pattern takes {len(by_place)}"
        )
    return tuple(each.name for each in by_place[:count])


def _captured(
    made: Replacement, word: str, function: Callable[..., Any], names: tuple[str, ...], examples: tuple[Any, ...]
) -> Graph:
    """The graph of a function, simplified. Its inputs have the names of the arguments; its last node gives the result.

    Raises:
        UsageError: it is not made of operators on what it is given, or gives no single new tensor.
    """

    def refused(why: str) -> UsageError:
        return UsageError(f"register_replacement({made.name!r}): the {word} {why}")

    for given in examples:
        if not _torch_objects.is_tensor(given) and type(given) not in {int, float}:
            raise refused(f"is given {describe(given)}; inputs= takes tensors and numbers")
    try:
        # A function of its own: what the program calls is the root of no capture.
        graph = captured(function, examples, {}, types=False)
    except ExportError as error:
        raise refused(f"cannot be captured: {error}") from error
    if graph.breaks or any(is_branch(node) or node.random or node.op == "check" for node in graph.nodes):
        raise refused("has to be operators on tensors alone: no decisions, random numbers or calls that stay opaque")
    graph = _typed(graph, [given for given in examples if _torch_objects.is_tensor(given)]).functional()
    if graph.updates or graph.effects:
        raise refused("writes to something; it may only compute")
    graph = passes.run(graph)
    if not isinstance(graph.outputs, Value) or graph.outputs.kind != "tensor":
        raise refused("has to give one tensor")
    memory = Memory(graph)
    own = {memory.root(value) for value in (*graph.inputs, *graph.parameters)}
    if not graph.nodes or memory.root(graph.outputs) in own:
        raise refused("gives a view of what it is given; it has to give a new tensor")
    if word == "pattern" and graph.parameters:
        raise refused("takes a tensor from outside; give it as an argument")
    return _named(graph, names, examples)


def _typed(graph: Graph, tensors: list[Any]) -> Graph:
    """The graph with the types that its values have for the examples: it is run on them."""
    values = {**graph.data, **{value.name: given for value, given in zip(graph.inputs, tensors, strict=True)}}
    evaluate(graph, values, torch_caller())

    def typed(value: Value) -> Value:
        given = values.get(value.name)
        if not _torch_objects.is_tensor(given):
            return value
        dtype, shape, device = _torch_objects.facts(given)
        return replace(value, dtype=dtype, shape=shape, device=device)

    return _changed(graph, typed)


def _named(graph: Graph, names: tuple[str, ...], examples: tuple[Any, ...]) -> Graph:
    """The graph with the names of the arguments for its inputs, and for the rest names that no argument has."""
    tensors = [name for name, given in zip(names, examples, strict=True) if _torch_objects.is_tensor(given)]
    new = {value.name: name for value, name in zip(graph.inputs, tensors, strict=True)}
    own = {value.name for value in graph.parameters}
    return _changed(
        graph, lambda value: value if value.name in own else replace(value, name=new.get(value.name, f"{value.name}."))
    )


def _changed(graph: Graph, change: Callable[[Value], Value]) -> Graph:
    """The graph with other values in the place of its own."""
    new: dict[str, Value] = {}
    for value in (*graph.inputs, *graph.parameters, *(each for node in graph.nodes for each in node.results)):
        if value is not None:
            new[value.name] = change(value)
    nodes = tuple(
        replace(
            node,
            arguments={name: replaced(argument, new) for name, argument in node.arguments.items()},
            results=tuple(value and new[value.name] for value in node.results),
        )
        for node in graph.nodes
    )
    inputs, parameters = (tuple(new[value.name] for value in each) for each in (graph.inputs, graph.parameters))
    return replace(graph, inputs=inputs, parameters=parameters, nodes=nodes, outputs=replaced(graph.outputs, new))
