"""A graph without writes: each node that writes to an argument gives a new value instead.

A value and its views are one group, with one base. A write to any of them makes a new base: a write to a view is
carried back through the operators that made it. A view is made anew where it is used after a write. What an input or a
parameter holds at the end stands in `Graph.updates`. (The way is that of torch's functionalisation.)
"""

import math
import operator
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from pijit.errors import ExportError
from pijit.graph.model import Argument, Graph, Node, Slice, Value, branches, regions, replaced, values_of
from pijit.graph.model.memory import ALIASES, ONE_WAY, RESHAPES, SWAPS, VIEWS, shared
from pijit.graph.vocabulary import hidden_writes, rows

# Where the names differ by more than the sign of what writes.
_OTHERWISE = {"aten::bernoulli_.float": "aten::bernoulli.p", "aten::normal_": "aten::normal_functional"}
# Rows of numbers that are known.
_COMPUTED: Mapping[str, Callable[..., Any]] = {
    "scalar_negative": operator.neg,
    "scalar_max": max,
    "scalar_add": operator.add,
}


def functional(graph: Graph) -> Graph:
    """The graph without nodes that write to an argument.

    Raises:
        ExportError: an operator writes to a view for which there is no way back, or to something else than its first
            argument.
    """
    if not any(node.writes or hidden_writes(node.op, node.arguments) for node in graph.nodes):
        return graph
    return _Functional(graph).run()


class _Functional:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._nodes: list[Node] = []
        self._names = {value.name for value in (*graph.inputs, *graph.parameters)}
        for node in graph.nodes:
            self._names.update(value.name for value in node.results if value is not None)
        self._base: dict[str, str] = {}  # of each value of a group of views
        self._made_by: dict[str, Node] = {}  # a view's node
        self._version: dict[str, int] = {}  # of a base: how often it was written
        self._seen: dict[str, int] = {}  # of a value: the version of its base that `_current` has
        self._current: dict[str, Value] = {}  # what stands for a value now
        self._own = {value.name: value for value in (*graph.inputs, *graph.parameters)}
        self._joined: dict[str, str] = {}  # bases that may share memory, or not, as a branch decides: its place

    def run(self) -> Graph:
        for node in self._graph.nodes:
            if len(hidden_writes(node.op, node.arguments)) == 2:
                self._update(node)
            elif node.op == "dropout" and node.writes and node.arguments["training"] is False:  # nothing is written
                same = {"x": node.arguments["x"]}
                self._read(replace(node, op="alias", origin="aten::alias", arguments=same, writes=(), random=False))
            elif node.writes:
                self._write(node)
            else:
                self._read(node)
        outputs = replaced(self._graph.outputs, self._now(values_of(self._graph.outputs)))
        written = {name: self._value(value) for name, value in self._own.items() if self._version.get(name, 0) > 0}
        held = {name: self._value(value) for name, value in self._graph.updates}
        updates = tuple((written | held).items())
        region = regions.tree(self._nodes, regions.types_of(self._graph.region))
        return replace(self._graph, nodes=tuple(self._nodes), outputs=outputs, updates=updates, region=region)

    # -- names and groups

    def _fresh(self, value: Value) -> Value:
        count, name = 1, f"{value.name}_written"
        while name in self._names:
            count += 1
            name = f"{value.name}_written_{count}"
        self._names.add(name)
        return replace(value, name=name, role="result", path="")

    def _root(self, value: Value) -> str:
        return self._base.get(value.name, value.name)

    def _now(self, values: Iterable[Value]) -> dict[str, Value]:
        return {value.name: self._value(value) for value in values}

    def _value(self, value: Value) -> Value:
        """What stands for a value now; a view whose base was written since is made anew."""
        root = self._root(value)
        version = self._version.get(root, 0)
        if self._seen.get(value.name, 0) == version or value.name == root:
            return self._current.get(value.name, value)
        node = self._made_by[value.name]
        results = tuple(None if each is None else self._fresh(each) for each in node.results)
        self._nodes.append(replace(node, arguments=self._arguments(node), results=results, aliases=()))
        for old, new in zip(node.results, results, strict=True):
            if old is not None and new is not None:
                self._current[old.name] = new
                self._seen[old.name] = version
        return self._current[value.name]

    def _arguments(self, node: Node) -> dict[str, Argument]:
        now = self._now(node.operands)
        return {name: replaced(argument, now) for name, argument in node.arguments.items()}

    # -- nodes

    def _read(self, node: Node) -> None:
        self._nodes.append(replace(node, arguments=self._arguments(node)))
        for pair in shared(node) if branches.is_branch(node) else ():
            self._joined |= dict.fromkeys(map(self._root, pair), node.place or node.op)
        one_way = node.op in ONE_WAY or (node.is_foreign and any(node.aliases))
        source = node.arguments.get(node.aliases[0] if one_way and node.aliases else "x")
        if not (one_way or node.op in VIEWS) or not isinstance(source, Value):
            return
        if node.op == "getitem" and _copies(node):
            return
        root = self._root(source)
        for value in node.results:
            if value is not None:
                self._base[value.name] = root
                self._made_by[value.name] = node
                self._seen[value.name] = self._version.get(root, 0)

    def _write(self, node: Node) -> None:
        target = node.arguments.get(node.writes[0])
        op = _giving(node.op) if node.random and node.is_foreign else node.op if node.op in rows() else None
        if not isinstance(target, Value) or op is None or len(node.writes) > 1:
            raise self._no_way(node, "writes to more than its first argument")
        held = next((each for each in node.results if each is not None), None)
        new = self._fresh(target)
        if held is not None and held.shape is not None:
            new = replace(new, shape=held.shape)  # `squeeze_` gives another one
        taken = self._arguments(node)
        self._nodes.append(replace(node, op=op, arguments=taken, results=(new,), writes=(), aliases=()))
        self._store(node, target, new)
        if held is not None:  # another name of the same tensor
            root = self._root(target)
            self._base[held.name] = root
            self._made_by[held.name] = Node("alias", {"x": target}, (held,))
            self._seen[held.name] = self._version[root]
            self._current[held.name] = new

    def _update(self, node: Node) -> None:
        """A norm in training gives its new running statistics as results."""
        own = [node.arguments["mean"], node.arguments["variance"]]
        assert all(isinstance(each, Value) for each in own)
        new = [self._fresh(each) for each in own if isinstance(each, Value)]
        if node.op == "instance_norm":
            self._instance_norm(node, new)
        else:
            results = (*(*node.results, None, None)[:3], *new)
            self._add_batch_norm(node, self._arguments(node), results)
        for target, value in zip(own, new, strict=True):
            assert isinstance(target, Value)
            self._store(node, target, value)

    def _add_batch_norm(self, node: Node, arguments: dict[str, Argument], results: tuple[Value | None, ...]) -> None:
        changes = {"op": "functional_batch_norm", "origin": "", "writes": (), "aliases": ()}
        self._nodes.append(replace(node, arguments=arguments, results=results, **changes))  # type: ignore[arg-type]

    def _instance_norm(self, node: Node, new: list[Value]) -> None:
        """As torch computes it: a batch_norm of one example that has the channels of all examples, one after another.

        Its new statistics are one for each channel of each example, and the mean over the examples is what is held.
        """
        arguments = self._arguments(node)
        x = arguments["x"]
        if not isinstance(x, Value) or x.shape is None:
            raise self._no_way(node, "writes to its running statistics for sizes that are not known")
        place: dict[str, Any] = {"region": node.region, "file": node.file, "line": node.line}

        def add(op: str, taken: dict[str, Argument], result: Value | None = None, shape: Any = None) -> Value:
            value = result or self._fresh(replace(x, shape=shape))
            self._nodes.append(Node(op, taken, (value,), **place))
            return value

        sizes = self._sizes(x, place)
        batch, joined = sizes[0], (1, -1, *sizes[2:])
        known = [size for size in x.shape[:2] if isinstance(size, int)]
        one = (1, math.prod(known) if len(known) == 2 else "*".join(map("({})".format, x.shape[:2])), *x.shape[2:])
        for name in ("weight", "bias", "mean", "variance"):
            if isinstance(each := arguments[name], Value):
                arguments[name] = add("tile", {"x": each, "repeats": (batch,)}, shape=one[1:2])
        arguments["x"] = add("reshape", {"x": x, "shape": joined}, shape=one)
        arguments["training"] = arguments.pop("use_input_stats")
        made = [
            self._fresh(replace(value, shape=shape))
            for value, shape in zip((x, *new), (one, one[1:2], one[1:2]), strict=True)
        ]
        self._add_batch_norm(node, arguments, (made[0], None, None, *made[1:]))
        if node.results[0] is not None:
            add("reshape", {"x": made[0], "shape": sizes}, node.results[0])
        for value, after in zip(new, made[1:], strict=True):
            rows = add("reshape", {"x": after, "shape": (batch, -1)}, shape=x.shape[:2])
            add("mean", {"x": rows, "axis": 0}, value)

    def _sizes(self, x: Value, place: dict[str, Any]) -> tuple[Argument, ...]:
        """The sizes of a tensor, whose number of axes is known."""
        sizes: list[Argument] = []
        for axis, size in enumerate(x.shape or ()):
            free = None if isinstance(size, int) else self._fresh(Value(f"{x.name}_size", "int"))
            if free is not None:
                self._nodes.append(Node("size", {"x": x, "axis": axis}, (free,), **place))
            sizes.append(size if free is None else free)
        return tuple(sizes)

    def _store(self, writer: Node, target: Value, new: Value) -> None:
        """`target` holds `new` from now on, and so does what it is a view of."""
        root = self._root(target)
        if root in self._joined:
            raise self._no_way(
                writer, f"writes to what {self._joined[root]} may have given, or kept, as its data decides"
            )
        value, at = new, target
        while at.name != root:
            node = self._made_by[at.name]
            source = node.arguments.get("x")
            if not isinstance(source, Value) or node.op in ONE_WAY:
                raise self._no_way(writer, f"writes to what {node.op} has given")
            value = self._back(writer, node, source, at, value)
            at = source
        self._version[root] = self._version.get(root, 0) + 1
        self._current[root] = value
        self._current[target.name] = new if target.name != root else value
        self._seen[target.name] = self._version[root]

    def _back(self, writer: Node, view: Node, source: Value, at: Value, value: Value) -> Value:
        """What the source of a view holds when the view holds `value`."""
        place: dict[str, Any] = {"region": writer.region, "file": writer.file, "line": writer.line}
        if view.op in ALIASES:
            return value
        out = self._fresh(source)
        if view.op == "getitem":
            index = self._arguments(view)["index"]
            arguments = {"x": self._value(source), "index": index, "value": value}
            self._nodes.append(Node("setitem", arguments, (out,), **place))
        elif view.op in RESHAPES and source.shape is not None:
            shape = self._sizes(self._value(source), place)
            self._nodes.append(Node("reshape", {"x": value, "shape": shape}, (out,), **place))
        elif (index := _index(view)) is not None:
            arguments = {"x": self._value(source), "index": index, "value": value}
            self._nodes.append(Node("setitem", arguments, (out,), **place))
        elif view.op == "diagonal" and (axes := _of_diagonal(view, source)) is not None:
            index = self._diagonal(self._arguments(view), axes, value, place)
            arguments = {"x": self._value(source), "index": index, "value": value}
            self._nodes.append(Node("setitem", arguments, (out,), **place))
        elif view.op in SWAPS:
            self._nodes.append(replace(view, arguments={**view.arguments, "x": value}, results=(out,), aliases=()))
        elif view.op == "permute_dims" and isinstance(order := view.arguments.get("axes"), tuple):
            rank = len(order)
            inverse = tuple(sorted(range(rank), key=lambda axis: order[axis] % rank))  # type: ignore[operator]
            self._nodes.append(replace(view, arguments={"x": value, "axes": inverse}, results=(out,), aliases=()))
        else:
            raise self._no_way(writer, f"writes to what {view.op} has given")
        return out

    def _diagonal(
        self, view: Mapping[str, Any], axes: tuple[int, int], value: Value, place: dict[str, Any]
    ) -> tuple[Value | Slice, ...]:
        """The index of a diagonal of the last two axes: its rows and columns."""

        def number(op: str, **taken: Any) -> Any:
            if not any(isinstance(each, Value) for each in taken.values()):
                return _COMPUTED[op](*taken.values())
            made = self._fresh(Value("number", "int"))
            self._nodes.append(Node(op, taken, (made,), **place))
            return made

        before = max(axes) - 1
        count, offset = number("size", x=value, axis=before), view.get("offset", 0)
        down = number("scalar_max", x=number("scalar_negative", x=offset), y=0)
        right = number("scalar_max", x=offset, y=0)
        index: list[Value | Slice] = [Slice()] * before
        for start in (down, right) if axes[0] < axes[1] else (right, down):
            shape = None if value.shape is None else value.shape[-1:]
            places = self._fresh(Value("places", "tensor", "result", "int64", shape, value.device))
            stop = number("scalar_add", x=start, y=count)
            self._nodes.append(
                Node("arange", {"start": start, "stop": stop}, (places,), origin="aten::arange.start", **place)
            )
            index.append(places)
        return tuple(index)

    @staticmethod
    def _no_way(node: Node, why: str) -> ExportError:
        place = f"{node.place}: " if node.place else ""
        return ExportError(
            f"{place}{node.op} ({node.origin}) {why}, which this format cannot say without writing; "
            "write `x = x.clone()` before it, or use a format of torch (fx, exported_program)"
        )


def _giving(op: str) -> str | None:
    """The operator of torch that gives the random numbers that this one writes; None: there is none."""
    base, dot, overload = _OTHERWISE.get(op, op).partition(".")
    name = base.removesuffix("_").removeprefix("aten::")
    packet = getattr(sys.modules["torch"].ops.aten, name, None) if "torch" in sys.modules else None
    return f"aten::{name}{dot}{overload}" if hasattr(packet, overload or "default") else None


def _index(view: Node) -> Argument:
    """The index that gives the same as select, slice or narrow; None: it is another operator."""
    axis, start = view.arguments.get("axis", 0), view.arguments.get("start")
    if not isinstance(axis, int) or axis < 0:
        return None
    before: tuple[Argument, ...] = (Slice(),) * axis
    if view.op == "select":
        return (*before, view.arguments["index"])
    if view.op == "slice":
        return (*before, Slice(start, view.arguments.get("stop"), view.arguments.get("step")))
    if view.op == "narrow" and isinstance(start, int) and isinstance(length := view.arguments["length"], int):
        return (*before, Slice(start, start + length))
    return None


def _copies(node: Node) -> bool:
    """An index with tensors or lists gives a copy."""
    index = node.arguments.get("index")
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(part, tuple) or (isinstance(part, Value) and part.kind == "tensor") for part in parts)


def _of_diagonal(view: Node, source: Value) -> tuple[int, int] | None:
    """The axes of a diagonal, if they are the last two of the array."""
    rank = len(source.shape or ())
    if rank < 2:
        return None
    first, second = (int(view.arguments.get(f"axis{at + 1}", at)) % rank for at in (0, 1))  # type: ignore[arg-type]
    return (first, second) if {first, second} == {rank - 2, rank - 1} else None
