"""Writes layers that repeat as one node "while" over stacked weights, for compilers that have loops.

Each turn takes its weights from the stacks, which are new parameters. A stack is a copy: whoever binds weights makes it
anew when one of them was written.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pijit.graph.model import Graph, Node, Value, regions, replaced
from pijit.passes import repeats
from pijit.passes.repeats import Repeat


@dataclass(frozen=True)
class Looped:
    """A graph with a loop in the place of layers.

    Attributes:
        graph: what it is now.
        stacks: for each new parameter the weights of which it is made, by their names in the graph before.
        data: those weights.
    """

    graph: Graph
    stacks: Mapping[str, tuple[str, ...]]
    data: dict[str, Any]

    def bound(self, weights: Mapping[str, Any]) -> dict[str, Any]:
        """The weights of the graph for those of the graph before: stacks are made anew where one of theirs is given."""
        self.data.update((name, tensor) for name, tensor in weights.items() if name in self.data)
        new = {stack: names for stack, names in self.stacks.items() if not weights.keys().isdisjoint(names)}
        own = {value.name for value in self.graph.parameters}
        return {name: tensor for name, tensor in weights.items() if name in own} | _stacked(new, self.data)


def _stacked(stacks: Mapping[str, tuple[str, ...]], data: Mapping[str, Any]) -> dict[str, Any]:
    import torch

    return {stack: torch.stack([data[name].detach() for name in names]) for stack, names in stacks.items()}


def looped(graph: Graph, turns: int, most: int = 0) -> Looped | None:
    """The graph with its longest loop; None: there is none of as many turns, or something else of a turn is needed.

    Args:
        graph: writes to nothing, has fixed sizes, and its weights have arrays.
        turns: the fewest that are worth it.
        most: bytes of the weights of a turn; 0: any number.
    """
    loop = repeats.find(graph.nodes, graph)
    if loop is None or loop.turns < turns or loop.given:
        return None
    if most and sum(graph.data[each[0].name].nbytes for _, each in loop.stacked) > most:
        return None
    for _, start, after in loop.carried:
        if (start.kind, start.dtype, start.shape) != (after.kind, after.dtype, after.shape) or start.shape is None:
            return None
    taken = {value.name for node in graph.nodes for value in (*node.operands, *node.results) if value is not None}
    taken |= {value.name for value in (*graph.inputs, *graph.parameters)}
    stacks = []
    for at, (_, each) in enumerate(loop.stacked):
        name = _fresh(f"stack_{at}", taken)
        stacks.append(Value(name, "tensor", "parameter", each[0].dtype, (len(each), *(each[0].shape or ())), path=name))
    node = _loop(graph, loop, stacks, taken)
    nodes = (*graph.nodes[: loop.first], node, *graph.nodes[loop.end :])
    alone = repeats.arguments(graph, graph.nodes, loop).alone
    members = {
        stack.name: tuple(value.name for value in each) for stack, (_, each) in zip(stacks, loop.stacked, strict=True)
    }
    data = {value.name: graph.data[value.name] for value in alone} | _stacked(members, graph.data)
    region = regions.tree(nodes, regions.types_of(graph.region))
    new = replace(graph, parameters=(*alone, *stacks), nodes=nodes, data=data, region=region)
    return Looped(new, members, {name: graph.data[name] for names in members.values() for name in names})


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _loop(graph: Graph, loop: Repeat, stacks: list[Value], taken: set[str]) -> Node:
    """The node: it carries the number of the turn, and what the layers hand on."""
    first = loop.nodes[0]
    place: dict[str, Any] = {"region": graph.region.path, "file": first.file, "line": first.line}
    turn = Value(_fresh("turn", taken), "int", "input")
    carried = [
        replace(value, name=_fresh(f"carried_{at}", taken), role="input")
        for at, (value, _, _) in enumerate(loop.carried)
    ]
    held = [replace(stack, role="input", path="") for stack in stacks]
    inside = {value.name for node in loop.nodes for value in node.results if value is not None}
    inside |= {value.name for value, _, _ in loop.carried} | {value.name for value, _ in loop.stacked}
    others = {value.name: value for node in loop.nodes for value in node.operands if value.name not in inside}
    inputs = (turn, *carried, *held, *(replace(value, role="input", path="") for value in others.values()))
    new = {value.name: now for (value, _, _), now in zip(loop.carried, carried, strict=True)}
    nodes = []
    for (value, _), stack in zip(loop.stacked, held, strict=True):
        now = replace(value, name=_fresh(f"{stack.name}_now", taken), role="result", path="")
        new[value.name] = now
        nodes.append(Node("select", {"x": stack, "axis": 0, "index": turn}, (now,), "aten::select.int", **place))
    for node in loop.nodes:
        nodes.append(replace(node, arguments={name: replaced(each, new) for name, each in node.arguments.items()}))
    after = Value(_fresh("turn_after", taken), "int")
    nodes.append(Node("scalar_add", {"x": turn, "y": 1}, (after,), **place))
    body = Graph("body", inputs, (), tuple(nodes), (after, *(value for _, _, value in loop.carried)))
    goes = Value(_fresh("goes", taken), "bool")
    less = Node("scalar_less", {"x": turn, "y": loop.turns}, (goes,), **place)
    arguments: dict[str, Any] = {
        "condition": Graph("condition", inputs, (), (less,), goes),
        "body": body,
        "carried": (0, *(start for _, start, _ in loop.carried)),
        "operands": (*stacks, *others.values()),
    }
    return Node("while", arguments, (None, *loop.last), **place)
