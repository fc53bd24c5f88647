"""Which values of a graph share memory, which are written, and which the program sees afterwards."""

from collections.abc import Iterator

from pijit.graph.model import Graph, Node, Value, values_of
from pijit.graph.model.branches import given, graphs_of, is_branch, outputs_of
from pijit.graph.vocabulary import hidden_writes

# Operators whose result shares memory with `x`; those with a way back are in `functional._back`.
RESHAPES = frozenset({"view", "reshape", "reshape_as", "flatten", "ravel", "unflatten", "expand_dims", "squeeze"})
SWAPS = frozenset({"swapaxes", "t", "matrix_transpose"})
ALIASES = frozenset({"detach", "alias", "contiguous"})
VIEWS = (
    RESHAPES
    | SWAPS
    | ALIASES
    | frozenset({"permute_dims", "moveaxis", "broadcast_to", "expand_as", "select", "slice", "narrow", "getitem"})
    | frozenset({"diagonal", "unfold", "split", "chunk", "tensor_split", "unstack"})
)
# Views with no way back: what is written to them cannot be said of `x` without writing.
ONE_WAY = frozenset({"view_as_real", "view_as_complex", "real", "imag", "conj"})

# Operators that may give their first argument itself, which their schema does not say.
SAME = frozenset({"dropout", "feature_dropout", "aten::alpha_dropout", "aten::feature_alpha_dropout", "astype"})


def sharing(node: Node) -> Iterator[tuple[Value, Value]]:
    """Pairs of a result of a node, and an argument with which it may share memory; a branch may have several."""
    if is_branch(node):
        yield from shared(node)
        return
    names = node.aliases or node.writes[:1]
    if not any(names) and (node.op in VIEWS or node.op in SAME):
        names = ("x",) * len(node.results)
    for result, name in zip(node.results, names, strict=False):
        source = node.arguments.get(name)
        if result is not None and isinstance(source, Value):
            yield result, source


def shared(node: Node) -> Iterator[tuple[Value, Value]]:
    """Pairs of a result of a branch, and a value that is given to it with which the result may share memory."""
    sources = given(node)
    for result, places in zip(node.results, _shared_places(node), strict=True):
        if result is None or result.kind != "tensor":
            continue
        for at in sorted(places):
            if isinstance(source := sources[at], Value) and source.kind == "tensor":
                yield result, source


def _shared_places(node: Node) -> list[set[int]]:
    """For each result the positions in `given` of what it may share memory with."""
    if node.op == "cond":
        sides = [outputs_shared(graph) for graph in graphs_of(node).values()]
        return [a | b for a, b in zip(*sides, strict=True)]
    count = len(node.results)
    of_turn = outputs_shared(graphs_of(node)["body"])
    found = [{at} for at in range(count)]
    while True:  # what a turn gives comes from what the turn before has given
        more = [
            own | {each for at in turn for each in (found[at] if at < count else {at})}
            for own, turn in zip(found, of_turn, strict=True)
        ]
        if more == found:
            return found
        found = more


def outputs_shared(graph: Graph) -> list[set[int]]:
    """For each output of a graph in a node, the positions of the inputs with which it may share memory."""
    known = {value.name: {at} for at, value in enumerate(graph.inputs)}
    for node in graph.nodes:
        for result, source in sharing(node):
            known.setdefault(result.name, set()).update(known.get(source.name, ()))
    return [known.get(each.name, set()) if isinstance(each, Value) else set() for each in outputs_of(graph)]


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
