"""Read-only views of traces, which print as Python with the user's own source lines as comments.

A view is a copy: it keeps no trace, tensor or function alive and does not change when the trace does.
"""

import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from os.path import basename
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pijit._core import GuardInfo, NodeInfo, SnapshotInfo, StopInfo, TraceInfo

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


@dataclass(frozen=True, slots=True)
class Node:
    """One operation: `text` as printed, `op`, the user's `file` and `line`, `inputs`, `outputs`, is it `opaque`."""

    text: str
    op: str
    file: str
    line: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    opaque: bool

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
class Trace:
    """One guarded trace; `print()` gives it as Python.

    `ends` is "return" or "exit"; `stop` says why a trace that ends in an exit does. `operations` are the bytecodes that
    were observed, `record_seconds` what observing cost, `bytes` the memory held; `replays` and `exits` count its uses.
    """

    name: str
    file: str
    line: int
    guards: tuple[Guard, ...]
    nodes: tuple[Node, ...]
    snapshots: tuple[Snapshot, ...]
    segments: tuple[object, ...]
    constants: int
    bytes: int
    opaque_calls: int
    ends: str
    stop: Stop | None
    operations: int
    record_seconds: float
    replays: int
    exits: int

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def sizes(self) -> str:
        """How much there is of everything, in words."""
        parts = [plural(len(getattr(self, part)), part) for part in ("guards", "nodes", "snapshots", "segments")]
        return ", ".join([*parts, plural(self.opaque_calls, "opaque calls")])

    def _lines(self) -> Iterator[str]:
        yield f"# {place(self.file, self.line)}: {self.sizes()}"
        yield f"def {identifier(self.name)}(*arguments):"
        for guard in self.guards:
            yield f"    assert {guard.text}" + ("" if guard.source in guard.text else f"  # {guard.source}")
        shown = ("", 0)
        for node in self.nodes:
            if node.file and (node.file, node.line) != shown:
                shown = (node.file, node.line)
                yield f"    # {place(*shown)}: {linecache.getline(*shown).strip()}"
            yield f"    {node.text}" + ("  # opaque call" if node.opaque else "")
        if self.stop is not None:
            yield f"    # {self.stop}; the rest runs in CPython"
        elif self.ends != "return":
            yield "    # the rest runs in CPython"
        if not self.guards and not self.nodes:
            yield "    pass"


class Traces(tuple[Trace, ...]):
    """The traces of one root, in the order in which they are tried; `print()` gives them all."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n\n".join(map(str, self)) if self else "# no trace"


def view(trace: "TraceInfo") -> Trace:
    """The view of a trace as the core describes it."""
    return Trace(
        name=trace["name"],
        file=trace["file"],
        line=trace["line"],
        guards=tuple(map(_guard, trace["guards"])),
        nodes=tuple(map(_node, trace["nodes"])),
        snapshots=tuple(map(_snapshot, trace["snapshots"])),
        segments=tuple(trace["segments"]),
        constants=trace["constants"],
        bytes=trace["bytes"],
        opaque_calls=trace["opaque_calls"],
        ends=trace["ends"],
        stop=stop_view(trace["stop"]),
        operations=trace["operations"],
        record_seconds=trace["record_seconds"],
        replays=trace["replays"],
        exits=trace["exits"],
    )


def stop_view(stop: "StopInfo | None") -> Stop | None:
    """The view of a stop as the core describes it."""
    return stop and Stop(stop["code"], stop["reason"], stop["file"], stop["line"], stop["function"], stop["inside"])


def _guard(guard: "GuardInfo") -> Guard:
    return Guard(guard["text"], guard["source"], guard["kind"])


def _node(node: "NodeInfo") -> Node:
    inputs, outputs = tuple(node["inputs"]), tuple(node["outputs"])
    return Node(node["text"], node["op"], node["file"], node["line"], inputs, outputs, node["opaque"])


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
