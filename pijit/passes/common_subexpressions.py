"""Computes once what is computed twice from the same values.

Rules:
1. Between the two nothing may have written to what they read: each write makes a new version of its group of views.
2. The two results become one tensor. So nothing may write to either, and the program may have only one of them, or
   views of one of them, afterwards.
3. What draws random numbers is computed each time, and so are branches: their graphs are not compared.
"""

from collections.abc import Mapping
from typing import Any

from pijit.graph.model import Argument, Graph, Node, Slice, Value, values_of
from pijit.graph.model.branches import is_branch
from pijit.graph.model.memory import Memory, written_by
from pijit.passes._rewriting import rewritten

DOC = "computes once what is computed twice from the same values"
CONSENT = False
EXACT = True


def run(graph: Graph) -> Graph:
    """The graph with one node in the place of equal ones."""
    return rewritten(graph, _Merger(graph).rewrite)


class _Merger:
    def __init__(self, graph: Graph) -> None:
        self._memory = Memory(graph)
        self._versions: dict[str, int] = {}
        self._known: dict[Any, Node] = {}

    def rewrite(self, node: Node, new: Mapping[str, Value]) -> tuple[Node | None, Mapping[str, Argument]]:
        written = written_by(node)
        for name in written:
            for value in values_of(node.arguments.get(name)):
                root = self._memory.root(value)
                self._versions[root] = self._versions.get(root, 0) + 1
        if written or node.random or not node.results or node.op == "check" or "::" in node.op or is_branch(node):
            return node, {}
        key = (node.op, node.origin, tuple((name, self._form(each)) for name, each in node.arguments.items()))
        first = self._known.get(key)
        if first is None:
            self._known[key] = node
            return node, {}
        pairs = list(zip(first.results, node.results, strict=True))
        if any(b is not None and (a is None or not self._can_be_one(a, b)) for a, b in pairs):
            return node, {}
        for a, b in pairs:
            if a is not None and b is not None:
                self._memory.one(a, b)
        return None, {b.name: a for a, b in pairs if a is not None and b is not None}

    def _can_be_one(self, a: Value, b: Value) -> bool:
        if a.kind != "tensor":
            return True
        memory = self._memory
        if not memory.is_constant(a) or not memory.is_constant(b):
            return False
        if a.name in memory.results and b.name in memory.results:
            return False  # the program has two objects
        if memory.root(a) == memory.root(b):
            return True  # views of one memory, as they were
        return memory.root(a) not in memory.seen or memory.root(b) not in memory.seen

    def _form(self, argument: Argument) -> Any:
        """Equal for arguments that are the same at run time."""
        if isinstance(argument, Value):
            return (Value, argument.name, self._versions.get(self._memory.root(argument), 0))
        if isinstance(argument, tuple):
            return tuple(map(self._form, argument))
        if isinstance(argument, Slice):
            return (Slice, *map(self._form, (argument.start, argument.stop, argument.step)))
        return (type(argument), repr(argument))  # 0.0 is not -0.0, nor 1
