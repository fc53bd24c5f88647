"""Makes one function of modules that do the same: the layers of a model are compiled, stored and printed once.

Two modules are equal if their nodes are: operators, literals, types, and the data flow between them, with weights as
inputs. Of nested equal modules the outermost count. A module whose nodes do not lie together in the graph (one that is
called twice) stays as it is. The first layer of several may read sizes that the others take from it: fix the sizes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pijit.graph.model import Graph, Node, Region, Slice, Value, regions, replaced
from pijit.graph.run import bind, caller
from pijit.graph.torch_run import resolve

_SMALLEST = 2  # nodes of a function


@dataclass(frozen=True)
class Call:
    """A call of a function.

    Attributes:
        function: its number in `Outline.functions`.
        region: path of the module that it stands for.
        arguments: what it is given: values of the graph, weights among them.
        results: what it gives.
    """

    function: int
    region: str
    arguments: tuple[Value, ...]
    results: tuple[Value, ...]


@dataclass(frozen=True)
class Outline:
    """A graph as functions and what calls them.

    Attributes:
        graph: the whole, as it was.
        functions: graphs without weights of their own: those are inputs.
        steps: nodes of the graph that are in no function, and calls, in order.
    """

    graph: Graph
    functions: tuple[Graph, ...]
    steps: tuple[Node | Call, ...]

    def run(self, *inputs: Any, framework: str = "torch") -> Any:
        """The same as `graph.run`, through the functions."""
        call = caller(framework)
        names = [value.name for value in self.graph.inputs]
        values: dict[str, Any] = {**self.graph.data, **dict(zip(names, inputs, strict=True))}
        for step in self.steps:
            if isinstance(step, Node):
                bind(step, call(step, values), values)
                continue
            function = self.functions[step.function]
            taken = (values[value.name] for value in step.arguments)
            inner = dict(zip((value.name for value in function.inputs), taken, strict=True))
            for node in function.nodes:
                bind(node, call(node, inner), inner)
            for value, made in zip(step.results, function.results, strict=True):
                values[value.name] = inner[made.name]
        return resolve(self.graph.outputs, values)

    def __str__(self) -> str:
        texts = [str(function) for function in self.functions]
        for number, function in enumerate(self.functions):
            places = [step.region for step in self.steps if isinstance(step, Call) and step.function == number]
            texts.append(f"# {function.name}: {', '.join(places)}")
        return "\n".join(texts)


def outlined(graph: Graph) -> Outline:
    """The graph with one function in the place of equal modules."""
    return _Outliner(graph).outline()


@dataclass(frozen=True)
class _Part:
    """The nodes of a module, `nodes[first:last]`."""

    region: Region
    first: int
    last: int


class _Outliner:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._used_until: dict[str, int] = {}  # the last node that takes a value
        for at, node in enumerate(graph.nodes):
            for value in node.operands:
                self._used_until[value.name] = at
        end = len(graph.nodes)
        given = (*graph.results, *(value for _, value in graph.updates))
        self._used_until.update((value.name, end) for value in given)

    def outline(self) -> Outline:
        graph = self._graph
        groups: dict[Any, list[_Part]] = {}
        for part in self._parts(graph.region):
            groups.setdefault(self._key(part), []).append(part)
        chosen: list[list[_Part]] = []
        taken: set[int] = set()
        for parts in sorted(groups.values(), key=lambda parts: parts[0].first - parts[0].last):
            free: list[_Part] = []
            for part in parts:  # a module whose only content is another one lies where that lies
                own = set(range(part.first, part.last))
                if taken.isdisjoint(own) and all(own.isdisjoint(range(each.first, each.last)) for each in free):
                    free.append(part)
            if len(free) > 1:
                chosen.append(free)
                taken.update(at for part in free for at in range(part.first, part.last))
        functions = tuple(self._function(parts[0]) for parts in chosen)
        starts = {part.first: (number, part) for number, parts in enumerate(chosen) for part in parts}
        steps: list[Node | Call] = []
        at = 0
        while at < len(graph.nodes):
            if at in starts:
                number, part = starts[at]
                steps.append(Call(number, part.region.path, tuple(self._taken(part)), tuple(self._given(part))))
                at = part.last
            else:
                steps.append(graph.nodes[at])
                at += 1
        return Outline(graph, functions, tuple(steps))

    def _parts(self, region: Region) -> Iterator[_Part]:
        """The modules whose nodes lie together."""
        for inner in region.regions:
            own = sorted(_nodes_of(inner))
            if len(own) >= _SMALLEST and own[-1] - own[0] + 1 == len(own):
                nodes = self._graph.nodes[own[0] : own[-1] + 1]
                if not any(node.op.startswith("python::") for node in nodes):
                    yield _Part(inner, own[0], own[-1] + 1)
            yield from self._parts(inner)

    def _nodes(self, part: _Part) -> Sequence[Node]:
        return self._graph.nodes[part.first : part.last]

    def _taken(self, part: _Part) -> list[Value]:
        """What a module takes from outside, in the order of its first use."""
        made = {value.name for node in self._nodes(part) for value in node.results if value is not None}
        found = {value.name: value for node in self._nodes(part) for value in node.operands if value.name not in made}
        return list(found.values())

    def _given(self, part: _Part) -> list[Value]:
        """What of a module is used after it."""
        made = (value for node in self._nodes(part) for value in node.results if value is not None)
        return [value for value in made if self._used_until.get(value.name, -1) >= part.last]

    def _key(self, part: _Part) -> Any:
        """Equal for modules that do the same."""
        numbers: dict[str, int] = {}
        taken = self._taken(part)
        for value in taken:
            numbers[value.name] = len(numbers)
        rows = []
        for node in self._nodes(part):
            arguments = tuple((name, _form(each, numbers)) for name, each in node.arguments.items())
            results = tuple(None if result is None else _type(result) for result in node.results)
            for result in filter(None, node.results):
                numbers[result.name] = len(numbers)
            rows.append((node.op, node.origin, arguments, results, node.writes, node.aliases, node.random))
        return tuple(map(_type, taken)), tuple(rows), tuple(numbers[value.name] for value in self._given(part))

    def _function(self, part: _Part) -> Graph:
        new: dict[str, Value] = {
            value.name: replace(value, name=f"x{at}", role="input", path="")
            for at, value in enumerate(self._taken(part))
        }
        nodes = []
        for node in self._nodes(part):
            for result in filter(None, node.results):
                new[result.name] = replace(result, name=f"y{len(new)}")
            arguments: Mapping[str, Any] = {name: replaced(each, new) for name, each in node.arguments.items()}
            nodes.append(replace(node, arguments=arguments, results=replaced(node.results, new)))
        return replace(
            self._graph,
            name=part.region.type or "function",
            inputs=tuple(new[value.name] for value in self._taken(part)),
            parameters=(),
            nodes=tuple(nodes),
            outputs=tuple(new[value.name] for value in self._given(part)),
            updates=(),
            effects=(),
            data={},
            region=regions.tree(nodes, regions.types_of(self._graph.region)),
        )


def _nodes_of(region: Region) -> Iterator[int]:
    yield from region.nodes
    for inner in region.regions:
        yield from _nodes_of(inner)


def _type(value: Value) -> Any:
    return value.kind, value.dtype, value.shape, value.device


def _form(argument: Any, numbers: Mapping[str, int]) -> Any:
    if isinstance(argument, Value):
        return (Value, numbers[argument.name])
    if isinstance(argument, tuple):
        return tuple(_form(item, numbers) for item in argument)
    if isinstance(argument, Slice):
        return (Slice, *(_form(part, numbers) for part in (argument.start, argument.stop, argument.step)))
    return (type(argument), repr(argument))
