"""Which values of a graph share memory, which are written, and which the program sees afterwards."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from pijit.graph import branches, regions
from pijit.graph.functional import VIEWS
from pijit.graph.model import Argument, Graph, Node, Value, replaced, values_of
from pijit.graph.vocabulary import hidden_writes

# Operators that may give their first argument itself, which their schema does not say.
SAME = frozenset({"dropout", "feature_dropout", "aten::alpha_dropout", "aten::feature_alpha_dropout", "astype"})


def sharing(node: Node) -> Iterator[tuple[Value, Value]]:
    """Pairs of a result of a node, and an argument with which it may share memory; a branch may have several."""
    if branches.is_branch(node):
        yield from branches.shared(node)
        return
    names = node.aliases or node.writes[:1]
    if not any(names) and (node.op in VIEWS or node.op in SAME):
        names = ("x",) * len(node.results)
    for result, name in zip(node.results, names, strict=False):
        source = node.arguments.get(name)
        if result is not None and isinstance(source, Value):
            yield result, source


class Memory:
    """Groups of values that may share memory, each with a root: the first of them.

    Attributes:
        written: roots of groups to which a node writes, or whose new content is an update.
        seen: roots of groups that the caller has, before or after the call: inputs, parameters, results.
    """

    def __init__(self, graph: Graph) -> None:
        self._root: dict[str, str] = {}
        for node in graph.nodes:
            for result, source in sharing(node):
                if result.name in self._root:  # it may share memory with one or the other
                    self._join(self._root[result.name], self.root(source))
                self._root[result.name] = self.root(source)
        self.written: set[str] = set()
        for node in graph.nodes:
            for name in written_by(node):
                self.written.update(self.root(value) for value in values_of(node.arguments.get(name)))
        self.written.update(self._root.get(name, name) for name, _ in graph.updates)
        given = (*graph.results, *(value for _, value in graph.updates))
        self.results = {value.name for value in given}
        self._given = {self.root(value) for value in given}
        own = (*graph.inputs, *graph.parameters)
        self.seen = {self.root(value) for value in (*given, *own)}

    def root(self, value: Value) -> str:
        """The name of the first value of the group."""
        return self._root.get(value.name, value.name)

    def is_private(self, value: Value) -> bool:
        """The program never has it or a view of it, and nothing writes to it: only its bits count."""
        root = self.root(value)
        return root not in self.seen and root not in self.written

    def is_constant(self, value: Value) -> bool:
        """Nothing in the graph writes to it."""
        return self.root(value) not in self.written

    def is_result(self, value: Value) -> bool:
        """The caller is given it, or what shares memory with it and is no weight."""
        return value.name in self.results or (self.root(value) in self._given and self.root(value) == value.name)

    def one(self, kept: Value, gone: Value) -> None:
        """`gone` and its views become `kept`."""
        old, new = self.root(gone), self.root(kept)
        if old in self.seen:
            self.seen.add(new)
        if gone.name in self.results:
            self.results.add(kept.name)
        self._root[gone.name] = new
        for name, root in self._root.items():
            if root == old:
                self._root[name] = new

    def _join(self, old: str, new: str) -> None:
        """The group of the one root is part of that of the other."""
        if old != new:
            self._root[old] = new
            self._root.update({name: new for name, root in self._root.items() if root == old})


def written_by(node: Node) -> tuple[str, ...]:
    """The arguments that a node writes to."""
    return (*node.writes, *hidden_writes(node.op, node.arguments))


def same_type(a: Value, b: Value) -> bool:
    """Both are tensors of one dtype, shape and device, all known."""
    known = a.kind == b.kind == "tensor" and a.dtype is not None and a.shape is not None
    return known and (a.dtype, a.shape, a.device) == (b.dtype, b.shape, b.device)


# What a node becomes: itself, changed; or None, with values in the place of its results.
Rewrite = Callable[[Node, Mapping[str, Value]], tuple[Node | None, Mapping[str, Argument]]]


def rewritten(graph: Graph, rewrite: Rewrite) -> Graph:
    """The graph with each node as `rewrite` has it; the same object if it changes none.

    `rewrite` is given a node with its arguments as they are by then, and what stands for results that are gone.
    """
    new: dict[str, Argument] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        now = node
        if new and any(value.name in new for value in node.operands):
            now = replace(node, arguments={name: replaced(each, new) for name, each in node.arguments.items()})
        made, instead = rewrite(now, new)  # type: ignore[arg-type]
        new.update(instead)
        if made is not None:
            nodes.append(made)
    if len(nodes) == len(graph.nodes) and not new and all(a is b for a, b in zip(nodes, graph.nodes, strict=True)):
        return graph
    return replace(
        graph,
        nodes=tuple(nodes),
        outputs=replaced(graph.outputs, new),
        updates=tuple((name, replaced(value, new)) for name, value in graph.updates),
        effects=tuple(replace(each, values=tuple(values_of(replaced(each.values, new)))) for each in graph.effects),
        region=regions.tree(nodes, regions.types_of(graph.region)),
    )
