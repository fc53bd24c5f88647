"""Puts the nodes of a replacement where its pattern fits, with the sizes that the graph has there.

The nodes are called on tensors without data, whose sizes are as free as those of the graph: that gives the types of
what is between, and shows whether the result is of the type that the program's operators gave. A replacement that
fixes a size that is free is not made, nor is one that torch refuses there.
"""

import functools
import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pijit.graph.decompose.sizes import Sizes
from pijit.graph.model import Argument, Graph, Node, Token, Value, regions, replaced
from pijit.graph.model.branches import all_nodes
from pijit.graph.model.names import Names
from pijit.graph.run import bind
from pijit.graph.torch_run import torch_caller
from pijit.passes.replacements.forms import Forms, Replacement
from pijit.passes.replacements.matching import LOW, Found, Matcher


class _Unfit(Exception):
    """The replacement gives another type here, or fixes a free size."""


class Splicer:
    """Makes replacements in a graph.

    Attributes:
        graph: with those that were made so far.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        # Different sizes are different numbers: torch takes equal ones to be one where a kernel is quicker for that.
        numbers = dict(zip(graph.symbols, itertools.count(11, 2), strict=False))
        self._sizes = functools.cache(lambda: Sizes(replace(graph, symbols=numbers)))

    def replace(self, made: Replacement) -> int:
        """Make a replacement wherever its pattern fits; how often that is."""
        operators = {node.op for node in self.graph.nodes}
        if not made.operators <= operators:
            return 0
        forms = made.forms()
        if not operators.issuperset(node.op for node in forms.pattern.nodes):
            return 0
        places = [
            found for found in Matcher(self.graph).found(forms) if made.where is None or made.where(**found.given)
        ]
        if not places:
            return 0
        splicing = _Splicing(self.graph, forms, self._sizes())
        for found in places:
            splicing.make(found)
        self.graph = splicing.graph()
        return splicing.count


class _Splicing:
    def __init__(self, graph: Graph, forms: Forms, sizes: Sizes) -> None:
        self.count = 0
        self._graph, self._forms, self._sizes = graph, forms, sizes
        self._call = torch_caller()
        every = [value for node in all_nodes(graph) for value in (*node.operands, *node.results) if value is not None]
        self._names = Names({value.name for value in (*graph.inputs, *graph.parameters, *every)})
        self._makers = {value.name: node for node in all_nodes(graph) for value in node.results if value is not None}
        self._instead: dict[int, tuple[Node, ...]] = {}  # by positions of nodes that are gone
        self._constants = {value.name: self._constant(value) for value in forms.replacement.parameters}

    def _constant(self, value: Value) -> Value:
        return replace(value, name=self._names.fresh("constant"), role="constant", path="")

    def make(self, found: Found) -> None:
        """Have the replacement at this place; nothing changes if it does not fit there."""
        *before, last = found.nodes
        try:
            made = self._nodes(found, self._graph.nodes[last])
        except _Unfit:
            return
        self.count += 1
        self._instead.update({**dict.fromkeys(before, ()), last: made})

    def graph(self) -> Graph:
        if not self.count:
            return self._graph
        graph = self._graph
        nodes = tuple(each for at, node in enumerate(graph.nodes) for each in self._instead.get(at, (node,)))
        used = {value.name for node in nodes for value in node.operands}
        constants = {name: value for name, value in self._constants.items() if value.name in used}
        return replace(
            graph,
            nodes=nodes,
            parameters=(*graph.parameters, *constants.values()),
            data={**graph.data, **{each.name: self._forms.replacement.data[name] for name, each in constants.items()}},
            region=regions.tree(nodes, regions.types_of(graph.region)),
        )

    def _nodes(self, found: Found, last: Node) -> tuple[Node, ...]:
        """The nodes of the replacement; the last gives the value that the node `last` has given.

        Raises:
            _Unfit: it gives another type here, or fixes a free size.
        """
        new: dict[str, Any] = {**self._constants}
        values: dict[str, Any] = {}
        try:
            for name, given in found.given.items():
                new[name] = given
                if isinstance(given, Value):
                    # The value of a float changes no type, and torch would fix the sizes that it is computed of.
                    is_float = given.kind == "float"
                    values[given.name] = 0.5 if is_float else self._sizes.given(given, self._makers)
        except KeyError as error:
            raise _Unfit from error
        for name, constant in self._constants.items():
            values[constant.name] = self._forms.replacement.data[name]
        literals = {number: found.given[name] for number, name in self._forms.numbers.items() if name in found.given}
        literals |= {} if found.low is None else {LOW: found.low}
        nodes: list[Node] = []
        for each in self._forms.replacement.nodes:
            nodes += self._node(each, last, new, values, literals)
        result = new[self._forms.replacement.results[0].name]
        (wanted,) = (value for value in last.results if value is not None)
        if (result.dtype, result.shape, result.device) != (wanted.dtype, wanted.shape, wanted.device):
            raise _Unfit
        nodes[-1] = replace(nodes[-1], results=replaced(nodes[-1].results, {result.name: wanted}))
        return tuple(nodes)

    def _node(
        self, node: Node, near: Node, new: dict[str, Any], values: dict[str, Any], literals: Mapping[Any, Any]
    ) -> list[Node]:
        """The node of a replacement with the values of the graph; none for a size that is known."""
        arguments: dict[str, Argument] = {
            name: _with_literals(replaced(each, new), literals) for name, each in node.arguments.items()
        }
        made = replace(node, arguments=arguments, region=near.region, file=near.file, line=near.line)
        given = self._called(made, values)
        results: list[Value | None] = []
        for value in node.results:
            if value is None:
                results.append(None)
                continue
            held = given[value.name]
            if isinstance(held, bool | int | float):
                new[value.name] = held
                continue
            fresh = replace(value, name=self._names.fresh(value.name.partition(".")[0]))
            new[value.name] = fresh = self._sizes.typed(fresh, held) if value.kind == "tensor" else fresh
            values[fresh.name] = held
            results.append(fresh)
        return [replace(made, results=tuple(results))] if any(results) else []

    def _called(self, node: Node, values: Mapping[str, Any]) -> dict[str, Any]:
        """What the call gives on tensors without data."""
        made: dict[str, Any] = {}
        before = len(self._sizes.env.guards)
        try:
            import torch

            with torch.no_grad(), self._sizes.mode:
                bind(node, self._call(node, values), made)
        except Exception as error:  # torch has no base class of what it raises
            raise _Unfit from error
        if any(map(_fixes, self._sizes.env.guards[before:])):
            raise _Unfit
        return made


def _fixes(guard: Any) -> bool:
    """It holds for one size only; that sizes differ, or that one is larger, chooses a kernel and no more."""
    import sympy

    return not isinstance(guard.expr, sympy.Ne | sympy.StrictLessThan | sympy.LessThan | sympy.StrictGreaterThan)


def _with_literals(argument: Any, literals: Mapping[Any, Any]) -> Any:
    """The argument with what was found for the numbers and dtypes of the examples."""
    if isinstance(argument, tuple):
        return tuple(_with_literals(each, literals) for each in argument)
    if isinstance(argument, int | float | Token) and not isinstance(argument, bool):
        return literals.get(argument, argument)
    return argument
