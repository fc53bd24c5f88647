"""Which nodes are needed for what a way of a tree gives, and which values they take from outside."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pijit.graph.decisions.tree import End
from pijit.graph.model import Node, Value, replaced, values_of

# What is wanted of an end: outputs, or None where this way is not taken.
Wanted = Callable[[End], tuple[Any, ...] | None]
Lowered = tuple[list[Node], tuple[Any, ...]]


def stays(node: Node) -> bool:
    """The node does something, whoever uses its results."""
    return bool(node.writes) or node.random or node.op == "check" or node.op.startswith("python::")


def used(nodes: Sequence[Node], outputs: Any) -> list[Node]:
    """The nodes without those of which nobody uses a result, and which do nothing else."""
    needed = {value.name for value in values_of(outputs)}
    kept = []
    for node in reversed(nodes):
        if not stays(node) and not any(value is not None and value.name in needed for value in node.results):
            continue
        needed.update(value.name for value in node.operands)
        kept.append(node)
    return kept[::-1]


def free(nodes: Iterable[Node], outputs: Any) -> dict[str, Value]:
    """What nodes and outputs take from outside, by name."""
    made: set[str] = set()
    found: dict[str, Value] = {}
    for node in nodes:
        found.update((value.name, value) for value in node.operands if value.name not in made)
        made.update(value.name for value in node.results if value is not None)
    found.update((value.name, value) for value in values_of(list(outputs)) if value.name not in made)
    return found


def with_values(node: Node, new: Mapping[str, Any]) -> Node:
    """The node with other things in the place of its operands, by their names."""
    if not any(value.name in new for value in node.operands):
        return node
    return replace(node, arguments={name: replaced(each, new) for name, each in node.arguments.items()})
