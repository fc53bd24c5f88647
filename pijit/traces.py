"""Read-only views of traces, which print as Python with the user's own source lines as comments.

A view is a copy: it keeps no trace, tensor or function alive and does not change when the trace does.
"""

import contextlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os.path import basename
from typing import TYPE_CHECKING, Any, Literal

from pijit import _core, _listing, _trace_imports
from pijit._node_facts import Facts
from pijit._trace_imports import literal, new  # noqa: F401  what the text of a trace imports from here
from pijit.errors import UsageError
from pijit.segments import Segment, views

if TYPE_CHECKING:
    from pijit._core import GuardData, GuardInfo, NodeInfo, RootInfo, SnapshotInfo, StopInfo, TraceData, TraceInfo
    from pijit.graph import Graph

# Codes of what has a call left to CPython while it lasts: a mode, a tracer.
_ASIDE = {"PJ216", "PJ217"}


@dataclass(frozen=True, slots=True)
class Guard:
    """What must hold for a trace to be replayed: `text` in words, `source` where the value is read, `kind` of check."""

    text: str
    source: str
    kind: str

    def __str__(self) -> str:
        return self.text


class Guards(tuple[Guard, ...]):
    """The guards of a trace, in the order in which they are checked; `print()` gives them all, one a line."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    __repr__ = __str__

    def summary(self) -> str:
        """How many there are of each sort, in words."""
        counts = Counter(_SORTS.get(guard.kind, "attributes and globals") for guard in self)
        return ", ".join(f"{count} of {sort}" for sort, count in counts.most_common())


# What guards of a kind are about; all others are about what was found where.
_SORTS = {
    "tensor": "tensors",
    "state": "modes",
    "function": "functions",
    "type": "classes",
    "type_version": "classes",
    "instance": "classes",
    "scalar": "values",
    "value": "values",
    "equal": "values",
    "is": "identity",
    "same": "identity",
    "not_same": "identity",
}


@dataclass(frozen=True, slots=True)
class Node:
    """One operation.

    Attributes:
        text: the operation as Python.
        op: its kind; `python -m pijit ops` lists them.
        file: the user's source file.
        line: the line in it.
        inputs: the values that it takes, as the text has them.
        outputs: its results.
        opaque: a call that is not looked into.
        operator: what is called: "aten::linear", "operator.add", the name of a function of Python; else `op`.
        arguments: of the operator, each with its name in the schema ("" if it has none).
        effect: "pure", "read", "write" (it changes something), "random" (it draws numbers) or "control".
        writes: names of the arguments that the operator writes to.
        module: path of the innermost module that called it, such as "layers.3.attention"; "" if there is none.
    """

    text: str
    op: str
    file: str
    line: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    opaque: bool
    operator: str = ""
    arguments: tuple[tuple[str, str], ...] = ()
    effect: str = ""
    writes: tuple[str, ...] = ()
    module: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a snapshot: function `name`, `file`, `line`, and code `offset` in bytes."""

    name: str
    file: str
    line: int
    offset: int

    def __str__(self) -> str:
        return f"{place(self.file, self.line)} in {self.name}()"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The frames, root first, from which CPython goes on if the trace is left here."""

    frames: tuple[Frame, ...]

    def __str__(self) -> str:
        return " > ".join(map(str, self.frames))


@dataclass(frozen=True, slots=True)
class Stop:
    """Why CPython ran a call, or the rest of it: `code` of the reason, `reason` in words, and where.

    `file`, `line` and `function` are the user's own; `inside` is the place in a library that they lead to, or "".
    """

    code: str
    reason: str
    file: str
    line: int
    function: str
    inside: str = ""

    def __str__(self) -> str:
        what = "left to CPython" if self.code in _ASIDE else "stopped recording"
        inside = f", in {self.inside}" if self.inside else ""
        return f"{place(self.file, self.line)} in {self.function}(): {what}: {self.reason}{inside} [{self.code}]"


@dataclass(frozen=True, slots=True)
class Backward:
    """A call of torch's engine, as `backward()` makes it: what becomes of it and its forward pass, and where it is.

    `served` replays ran the two as operators, without a graph and without torch's engine; in `left` of them the graph
    was needed after all. `why` says why the engine runs each time; it is "" where it does not, and where no replay was
    watched yet (the third one is).
    """

    file: str
    line: int
    served: int
    left: int
    why: str

    def __str__(self) -> str:
        if self.why:
            how = f"torch's engine runs it: {self.why}"
        elif self.served or self.left:
            left = f", left in {self.left}" if self.left else ""
            how = f"as operators, without torch's engine, in {plural(self.served, 'replays')}{left}"
        else:
            how = "torch's engine runs it until a replay was watched"
        return f"backward pass at {place(self.file, self.line)}: {how}"


@dataclass(frozen=True, slots=True)
class Trace:
    """One guarded trace; `print()` gives it as Python, `print(trace.guards)` all of its guards.

    A loop in the text stands for nodes that come again, `new(...)` for an object that is made without its class being
    called, `literal(...)` for a tensor of many numbers, `rest_of('f')` for what CPython runs of a function. Behind the
    function stand the numbers, and imports of the helpers and of names that it takes from elsewhere, so that the text
    runs in the namespace of the user's function:

        namespace = dict(f.__globals__)
        exec(str(pijit.traces(f)[0]), namespace)
        namespace["f"](x)

    What cannot be imported, such as a local class or a variable around the function, must be in that namespace, and so
    must `torch`, if that is all that the text needs.

    A long loop, and what follows a branch where replays are left often, have traces of their own, which begin in the
    middle of the function: `entry` says where ("loop at train.py:42", "from train.py:42 on"; else it is ""), and the
    variables and the stack of the function there are its arguments.

    `ends` is "return" or "exit"; `stop` says why a trace that ends in an exit does. `operations` are the bytecodes that
    were observed, `record_seconds` what observing cost, `bytes` the memory held; `replays` and `exits` count its uses.
    `backwards` are its backward passes.
    """

    name: str
    file: str
    line: int
    guards: Guards
    nodes: tuple[Node, ...]
    snapshots: tuple[Snapshot, ...]
    segments: tuple[Segment, ...]
    constants: int
    bytes: int
    opaque_calls: int
    ends: str
    stop: Stop | None
    operations: int
    record_seconds: float
    replays: int
    exits: int
    backwards: tuple[Backward, ...] = ()
    signature: str = "*arguments"
    entry: str = ""
    modes: str = ""
    loaded: tuple[tuple[str, str, str, bool], ...] = field(default=(), repr=False)
    root: int = field(default=-1, repr=False)
    imports: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    literals: tuple[tuple[int, str], ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return _html(str(self))

    def to_text(self, *, guards: Literal["summary", "all", "none"] = "summary") -> str:
        """The trace as Python.

        Args:
            guards: "all" has each guard as a comment, "summary" what is asked of the arguments, and counts.

        Raises:
            UsageError: `guards` is something else.

        Example:
            >>> import pijit
            >>> double = pijit.jit(lambda x: 2 * x)
            >>> double(4)
            8
            >>> "return" in pijit.traces(double)[0].to_text(guards="none")
            True
        """
        if guards not in {"summary", "all", "none"}:
            raise UsageError(f"Trace.to_text(): guards is 'summary', 'all' or 'none', not {guards!r}")
        lines = list(self._lines(guards))
        if self.root < 0:  # nothing is known of the objects that the text names
            return "\n".join(lines)
        return "\n".join([*lines, *_trace_imports.tail(lines, dict(self.imports), dict(self.literals))])

    def graph(self, *examples: Any) -> "Graph":
        """The trace as a framework-neutral graph, made from the trace itself: the function is not called.

        What the trace reads anew at each call is an input: tensors and numbers in arguments, and state that changes.

        Args:
            examples: a tensor for each such tensor, in the order of the graph's inputs. With them all values have
                shapes and dtypes; without them the inputs and parameters have.

        Raises:
            UsageError: the trace no longer stands (`pijit.reset`, `pijit.unjit`, or a recording that replaced it), or
                there are too few or too many examples.
            ExportError: the trace returns what a graph cannot give.

        Example:
            >>> import pijit
            >>> add = pijit.jit(lambda x, y: (y, x))
            >>> add(1, 2)
            (2, 1)
            >>> pijit.traces(add)[0].graph().outputs
            (2, 1)
        """
        from pijit.graph.build.trace import graph_of

        for index, trace in enumerate(standing(self.root)):
            if _identity(view(trace)) == _identity(self):
                return graph_of(self.root, index, examples)
        raise UsageError(
            f"Trace.graph(): the trace of {self.name} ({place(self.file, self.line)}) no longer stands: it was reset, "
            "replaced or died with its function; take it anew from pijit.traces(fn)"
        )

    def sizes(self) -> str:
        """How much there is of everything, in words."""
        parts = [plural(len(getattr(self, part)), part) for part in ("guards", "nodes", "snapshots", "segments")]
        return ", ".join([*parts, plural(self.opaque_calls, "opaque calls")])

    def _lines(self, guards: str) -> Iterator[str]:
        yield f"# {self.entry or place(self.file, self.line)}: {self.sizes()}"
        yield f"def {identifier(self.name)}({self.signature}):"
        if guards == "all":
            yield from (f"    # {guard}" for guard in self.guards)
        elif guards == "summary":
            yield from (f"    # {line}" for line in self._summary())
        text = list(_listing.with_sources(self._body()))
        yield from (f"    {line}" for line in self._loads(text))
        yield from text
        if self.stop is not None:
            yield f"    # {self.stop}; the rest runs in CPython"
        elif self.ends != "return":
            yield f"    # {self._goes_on()}"
        if all(not line.strip() or line.lstrip().startswith("#") for line in text):
            yield "    pass"

    def _goes_on(self) -> str:
        """What comes where a trace ends that neither returns nor was stopped."""
        return f"{'what follows' if self.entry else 'the loop'} goes on in a trace of its own"

    def _body(self) -> list[_listing.Line]:
        """The nodes as Python."""
        numbers = dict(self.literals)
        lines = (
            _listing.Line(_marked(node, at if at in numbers else None), node.file, node.line, nodes=(at,))
            for at, node in enumerate(self.nodes)
        )
        ranks = {
            _listing.readable(name): len(sizes[1].split(", ")) if sizes[1] else 0
            for name, _, facts, _ in self.loaded
            if (sizes := re.search(r"\[([^]]*)\]", facts))
        }
        return _listing.body(lines, ranks)

    def _loads(self, text: Sequence[str]) -> Iterator[str]:
        """What this text takes from where the guards have found it."""
        used = set(re.findall(r"\br\d+\b", "\n".join(text)))
        for name, source, _, constant in self.loaded:
            if name in used and not constant and name != source:
                yield f"{name} = {_listing.readable(source)}"

    def _summary(self) -> Iterator[str]:
        """What people look for in guards: the modes, and what is asked of the arguments."""
        if not self.guards:
            return
        yield f"guards, all with print(trace.guards): {self.guards.summary()}"
        if self.modes:
            yield f"modes: {self.modes}"
        names = set(re.findall(r"[A-Za-z_]\w*", self.signature))
        asked = [
            f"{_listing.readable(name if name == source else source)}: {facts}"
            for name, source, facts, constant in self.loaded
            if facts and not constant
        ]
        for guard in self.guards:
            root = re.match(r"[A-Za-z_]\w*", guard.source)
            if guard.kind in {"scalar", "value", "equal", "is"} and root and root[0] in names and root[0] != "self":
                asked.append(guard.text.removeprefix(f"{guard.kind} "))
        yield from asked[:_MOST_ASKED]
        if len(asked) > _MOST_ASKED:
            yield f"and {len(asked) - _MOST_ASKED} more about the arguments"


# What is asked of arguments: lines in the summary.
_MOST_ASKED = 12


def _marked(node: Node, number: int | None = None) -> str:
    if number is not None:
        return node.text.replace("= literal(", f"= literal(LITERAL_{number}, ")
    return f"{node.text}  # opaque call" if node.opaque and node.text else node.text


def _html(text: str) -> str:
    import html  # a table of entities that few processes need

    return f"<pre>{html.escape(text)}</pre>"


class Traces(tuple[Trace, ...]):
    """The traces of one root, in the order in which they are tried, then those that begin in the middle of functions.

    `print()` gives them all.
    """

    __slots__ = ()

    def __str__(self) -> str:
        return "\n\n".join(map(str, self)) if self else "# no trace"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _html(str(self))


def _identity(trace: Trace) -> tuple[object, ...]:
    """What no other trace of a root has: the very time that its recording took, too."""
    return trace.name, trace.file, trace.line, trace.operations, trace.record_seconds


def view(
    trace: "TraceInfo", root: int = -1, data: "TraceData | None" = None, guards: "GuardData | None" = None
) -> Trace:
    """The view of a trace as the core describes it, with what `trace_data` and `guard_data` say of it."""
    facts = None if data is None else Facts(data)
    nodes = tuple(_node(node, {} if facts is None else facts.of(at)) for at, node in enumerate(trace["nodes"]))
    return Trace(
        root=root,
        name=trace["name"],
        file=trace["file"],
        line=trace["line"],
        guards=Guards(map(_guard, trace["guards"])),
        nodes=nodes,
        snapshots=tuple(map(_snapshot, trace["snapshots"])),
        segments=views(trace["segments"], getattr(_market(root), "outcomes", ())),
        constants=trace["constants"],
        bytes=trace["bytes"],
        opaque_calls=trace["opaque_calls"],
        ends=trace["ends"],
        stop=stop_view(trace["stop"]),
        operations=trace["operations"],
        record_seconds=trace["record_seconds"],
        replays=trace["replays"],
        exits=trace["exits"],
        backwards=tuple(
            Backward(nodes[row["last"]].file, nodes[row["last"]].line, row["runs"], row["left"], row["why"])
            for row in trace["tapes"]
        ),
        signature=trace["signature"],
        entry=entry_place(trace["entry"], trace["file"], trace["line"]),
        modes=trace["modes"],
        loaded=tuple(trace["loaded"]),
        imports=() if data is None or guards is None else tuple(_trace_imports.imports(data, guards).items()),
        literals=() if data is None else tuple(_trace_imports.literals(data, [node.text for node in nodes]).items()),
    )


def _market(root: int) -> Any:
    """Who compiles for a root; None: nobody, or it died meanwhile."""
    try:
        return _core.market_of(root)
    except ValueError:
        return None


def entry_place(entry: str, file: str, line: int) -> str:
    """Where traces begin in the middle of a function, in words; "" if they do not.

    Args:
        entry: as the core has it: "loop", "rest" or "".
        file: the user's.
        line: where it is.
    """
    if not entry:
        return ""
    return f"loop at {place(file, line)}" if entry == "loop" else f"from {place(file, line)} on"


def entries_of(root: int) -> "list[RootInfo]":
    """The reports of the entries in the middle of functions that calls of the root came to; none, if it is dead."""
    found = []
    with contextlib.suppress(ValueError):
        for entry in _core.root_report(root)["entries"]:
            with contextlib.suppress(ValueError):  # its function died meanwhile
                found.append(_core.root_report(entry))
    return found


def standing(root: int) -> "list[TraceInfo]":
    """The traces of a root, as the core describes them; none, if it is dead.

    Its function or object may die at any time, in a collection of garbage for one.
    """
    try:
        return _core.root_traces(root)
    except ValueError:
        return []


def stop_view(stop: "StopInfo | None") -> Stop | None:
    """The view of a stop as the core describes it."""
    return stop and Stop(stop["code"], stop["reason"], stop["file"], stop["line"], stop["function"], stop["inside"])


def _guard(guard: "GuardInfo") -> Guard:
    return Guard(_listing.readable(guard["text"]), _listing.readable(guard["source"]), guard["kind"])


def _node(node: "NodeInfo", facts: Mapping[str, Any]) -> Node:
    inputs, outputs = tuple(node["inputs"]), tuple(node["outputs"])
    return Node(node["text"], node["op"], node["file"], node["line"], inputs, outputs, node["opaque"], **facts)


def _snapshot(snapshot: "SnapshotInfo") -> Snapshot:
    frames = snapshot["frames"]
    return Snapshot(tuple(Frame(frame["name"], frame["file"], frame["line"], frame["offset"]) for frame in frames))


def place(file: str, line: int) -> str:
    """`train.py:42`, as messages name a place."""
    return f"{basename(file) or '<unknown>'}:{line}"


def duration(seconds: float) -> str:
    """`1.5 s`, `0.82 ms`, `14 us`: two digits, in the unit that people use for it."""
    unit, scaled = "us", 1e6 * seconds
    if abs(seconds) >= 1:
        unit, scaled = "s", seconds
    elif abs(seconds) >= 1e-4:
        unit, scaled = "ms", 1e3 * seconds
    return f"{scaled:.0f} {unit}" if abs(scaled) >= 10 else f"{scaled:.2g} {unit}"


def plural(count: int, things: str) -> str:
    """`1 guard`, `2 guards`."""
    return f"{count} {things if count != 1 else things.removesuffix('s')}"


def identifier(name: str) -> str:
    """A name that Python takes after `def`: `Model.forward` becomes `Model_forward`, `<lambda>` becomes `_lambda_`."""
    made = "".join(letter if letter.isidentifier() or letter.isdigit() else "_" for letter in name)
    return made if made.isidentifier() else f"_{made}"
