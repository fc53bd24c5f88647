"""Nodes with graphs in them: "cond" runs one of two, "while" runs one again and again.

cond(condition, then, otherwise, operands): `condition` is a number of kind "bool". Both graphs are given `operands`,
and give one thing for each result of the node.

while(condition, body, carried, operands): both graphs are given `carried`, then `operands`. `condition` gives a "bool".
As long as it is True, `body` is run, and gives the next `carried`. It is asked before each turn, also before the first.
The results of the node are `carried` at the end.

Rules, which `check` looks at when a node is made:
1. A graph in a node is closed: its values are its own, whatever they are called, and all comes in through its inputs.
   So it has no parameters and no arrays; those of the graph around it come in as operands.
2. It writes to nothing, draws no random numbers, and is not split.
3. It gives a flat tuple of values and numbers; the condition of a "while" gives one number. What is carried keeps its
   kind.
4. A result may be an operand, or a view of one: nothing is copied. `memory.shared` says which.
5. Sizes in its types are expressions of the symbols of the graph around it.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NoReturn

from pijit.errors import ExportError, UsageError
from pijit.graph.model import Graph, Node, Value, place_of, values_of
from pijit.graph.vocabulary import hidden_writes

# The arguments that are graphs.
BRANCHES: dict[str, tuple[str, str]] = {"cond": ("then", "otherwise"), "while": ("condition", "body")}
_TAKEN = {"cond": ("condition", "then", "otherwise", "operands"), "while": ("condition", "body", "carried", "operands")}
_NUMBERS = {bool: "bool", int: "int", float: "float"}


def is_branch(node: Node) -> bool:
    """It has graphs in it."""
    return node.op in BRANCHES


def graphs_of(node: Node) -> dict[str, Graph]:
    """The graphs in a node, by the names of its arguments; of others none."""
    return {name: node.arguments[name] for name in BRANCHES.get(node.op, ())}  # type: ignore[misc]


def given(node: Node) -> tuple[Any, ...]:
    """What the graphs in a node are given: values of the graph around it, and numbers."""
    names = ("operands",) if node.op == "cond" else ("carried", "operands")
    return tuple(each for name in names for each in node.arguments.get(name, ()))  # type: ignore[union-attr]


def outputs_of(graph: Graph) -> tuple[Any, ...]:
    """What a graph in a node gives, also where that is one value."""
    return graph.outputs if isinstance(graph.outputs, tuple) else (graph.outputs,)


def kind_of(argument: Any) -> str | None:
    """The kind of a value or number; None: it is neither."""
    return argument.kind if isinstance(argument, Value) else _NUMBERS.get(type(argument))


def with_graphs(node: Node, change: Callable[[Graph], Graph]) -> Node:
    """The node with each of its graphs changed; the node itself if none is."""
    new = {name: change(graph) for name, graph in graphs_of(node).items()}
    if all(node.arguments[name] is graph for name, graph in new.items()):
        return node
    return replace(node, arguments={**node.arguments, **new})


def inside(graph: Graph, change: Callable[[Graph], Graph]) -> Graph:
    """The graph with the graphs in its nodes changed; the same object if none is."""
    nodes = tuple(with_graphs(node, change) for node in graph.nodes)
    return graph if all(a is b for a, b in zip(nodes, graph.nodes, strict=True)) else replace(graph, nodes=nodes)


def all_nodes(graph: Graph) -> Iterator[Node]:
    """The nodes of a graph, and of the graphs in them."""
    for node in graph.nodes:
        yield node
        for inner in graphs_of(node).values():
            yield from all_nodes(inner)


def has_branches(graph: Graph) -> bool:
    """Some node has graphs in it."""
    return any(map(is_branch, graph.nodes))


def decline(graph: Graph, who: str) -> None:
    """`ExportError` if the graph has branches, which `who` does not take."""
    for node in filter(is_branch, graph.nodes):
        place = f"{node.place}: " if node.place else ""
        raise ExportError(
            f"{place}{who} does not take the node {node.op!r} of {graph.name!r}, which has graphs in it; the formats "
            "exported_program, fx, onnx, stablehlo, python and json do"
        )


def check_dtypes(node: Node, who: str) -> None:
    """`ExportError` where a result has several dtypes or numbers of axes, which `who` cannot hold."""
    outputs = [outputs_of(graph) for graph in graphs_of(node).values()]
    if node.op == "cond":
        pairs, said = zip(*outputs, strict=True), "both sides give it"
    else:
        pairs, said = zip(given(node), outputs[1], strict=False), "a turn is given and gives it"
    for at, (a, b) in enumerate(pairs):
        if not isinstance(a, Value) or not isinstance(b, Value) or a.kind != "tensor":
            continue
        dtypes = None not in (a.dtype, b.dtype) and a.dtype != b.dtype
        if dtypes or (a.shape is not None and b.shape is not None and len(a.shape) != len(b.shape)):
            place = f"{node.place}: " if node.place else ""
            raise ExportError(
                f"{place}result {at} of {node.op!r} is {a.type} or {b.type}: {who} needs one dtype and number of axes, "
                f"as {said}; cast it with `.to(...)`, or take format 'python' or 'json'"
            )


def check_turns(graph: Graph, who: str) -> None:
    """`ExportError` for a loop that carries a tensor whose sizes change from turn to turn, where `who` has one type."""
    for node in all_nodes(graph):
        if node.op != "while":
            continue
        for outer, inner in zip(given(node), graphs_of(node)["body"].inputs, strict=True):
            shapes = [each.shape if isinstance(each, Value) else None for each in (outer, inner)]
            if None not in shapes and shapes[0] != shapes[1]:
                raise ExportError(
                    f"{place_of(node)}the loop carries {inner.name!r}, which grows or shrinks from turn to turn "
                    f"({inner.type}): {who} needs one size for all turns; keep the tensor at its largest size and "
                    "write to a part of it, or take format 'onnx', 'cpp', 'fx', 'python' or 'json'"
                )


# --- is it right? -------------------------------------------------------------------------------


def check(node: Node) -> None:
    """Looks at the rules above.

    Raises:
        UsageError: the node is not a branch as they say.
    """
    _Check(node).run()


class _Check:
    def __init__(self, node: Node) -> None:
        self._node = node

    def _bad(self, what: str) -> NoReturn:
        place = f"{self._node.place}: " if self._node.place else ""
        raise UsageError(f"{place}a node {self._node.op!r} is wrong: {what}")

    def run(self) -> None:
        node = self._node
        needed = [name for name in _TAKEN[node.op] if name != "operands"]
        if lacks := [name for name in needed if name not in node.arguments]:
            self._bad(f"it has no argument {lacks[0]!r}")
        if wrong := [name for name in node.arguments if name not in _TAKEN[node.op]]:
            self._bad(f"it has an argument {wrong[0]!r}; it takes {', '.join(_TAKEN[node.op])}")
        if node.writes or node.random:
            self._bad("it writes to an argument, or draws random numbers; a branch does neither")
        for name in BRANCHES[node.op]:
            if not isinstance(node.arguments[name], Graph):
                self._bad(f"{name} is {node.arguments[name]!r:.60}, not a Graph")
        for name in ("carried", "operands"):
            held = node.arguments.get(name, ())
            if not isinstance(held, tuple) or any(kind_of(each) is None for each in held):
                self._bad(f"{name} is not a tuple of values and numbers: {held!r:.80}")
        kinds = [kind_of(each) for each in given(node)]
        for name, graph in graphs_of(node).items():
            self._closed(name, graph)
            self._inputs(name, graph, kinds)
        self._cond() if node.op == "cond" else self._while(kinds)

    def _cond(self) -> None:
        if kind_of(self._node.arguments["condition"]) != "bool":
            self._bad(f"condition is {_word(self._node.arguments['condition'])}, not a value of kind 'bool'")
        for name, graph in graphs_of(self._node).items():
            self._outputs(name, graph, [None if each is None else each.kind for each in self._node.results])
        sides = [list(map(kind_of, outputs_of(graph))) for graph in graphs_of(self._node).values()]
        for at, (a, b) in enumerate(zip(*sides, strict=True)):
            if a != b:
                self._bad(f"output {at} of then is of kind {a!r}, that of otherwise of kind {b!r}; they are one result")

    def _while(self, kinds: list[str | None]) -> None:
        carried: Any = self._node.arguments["carried"]
        condition = graphs_of(self._node)["condition"].outputs
        if kind_of(condition) != "bool":
            self._bad(f"condition gives {_word(condition)}, not one number of kind 'bool'")
        if len(self._node.results) != len(carried):
            self._bad(f"it carries {len(carried)}, and has {len(self._node.results)} results; there is one for each")
        self._outputs("body", graphs_of(self._node)["body"], kinds[: len(carried)])
        for at, result in enumerate(self._node.results):
            if result is not None and result.kind != kinds[at]:
                self._bad(f"result {at} is of kind {result.kind!r}, what is carried there of kind {kinds[at]!r}")

    def _closed(self, name: str, graph: Graph) -> None:
        """The graph has nothing from outside but its inputs, and gives nothing but its outputs."""
        for field in ("parameters", "updates", "effects", "data"):
            if getattr(graph, field):
                self._bad(f"the graph {name} has {field}; what it needs comes in as operands")
        known = {value.name for value in graph.inputs}
        if len(known) != len(graph.inputs):
            self._bad(f"the graph {name} has two inputs of one name")
        for node in graph.nodes:
            said = f"{name} has the node {node.op!r}{f' of {node.place}' if node.place else ''}, which"
            if node.writes or hidden_writes(node.op, node.arguments):
                self._bad(f"{said} writes to an argument")
            if node.random:
                self._bad(f"{said} draws random numbers")
            if node.op.startswith("python::"):
                self._bad(f"{said} only Python can do")
            self._known(said, node.operands, known)
            for value in node.results:
                if value is not None:
                    if value.name in known:
                        self._bad(f"{said} gives {value.name!r} a second time")
                    known.add(value.name)
        self._known(f"{name} gives what", values_of(graph.outputs), known)

    def _known(self, said: str, values: Iterable[Value], known: set[str]) -> None:
        for value in values:
            if value.name not in known:
                self._bad(f"{said} is not in the graph: {value.name!r} is no input of it, and no node before gives it")

    def _inputs(self, name: str, graph: Graph, kinds: list[str | None]) -> None:
        if len(graph.inputs) != len(kinds):
            self._bad(f"the graph {name} takes {len(graph.inputs)} inputs, and is given {len(kinds)}")
        for value, kind in zip(graph.inputs, kinds, strict=True):
            if value.kind != kind:
                self._bad(
                    f"input {value.name!r} of {name} is of kind {value.kind!r}, and is given one of kind {kind!r}"
                )

    def _outputs(self, name: str, graph: Graph, kinds: list[str | None]) -> None:
        held = graph.outputs
        if not isinstance(held, tuple) or any(kind_of(each) is None for each in held):
            self._bad(f"the outputs of {name} are not a flat tuple of values and numbers: {held!r:.80}")
        if len(held) != len(kinds):
            self._bad(f"{name} gives {len(held)}, where {len(kinds)} are wanted")
        for at, (each, kind) in enumerate(zip(held, kinds, strict=True)):
            if kind is not None and kind_of(each) != kind:
                self._bad(f"output {at} of {name} is of kind {kind_of(each)!r}, where {kind!r} is wanted")


def _word(thing: Any) -> str:
    return f"{thing.name!r} of kind {thing.kind!r}" if isinstance(thing, Value) else f"{thing!r:.60}"
