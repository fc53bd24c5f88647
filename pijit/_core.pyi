"""Types of the native module: what csrc/bind offers to this package, private to it."""

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import TypedDict

class StopInfo(TypedDict):
    """Where a recording stopped, and why."""

    code: str
    reason: str
    file: str
    line: int
    function: str
    inside: str

class GuardInfo(TypedDict):
    """One row of a guard program."""

    text: str
    source: str
    kind: str

class NodeInfo(TypedDict):
    """One operation of a trace."""

    text: str
    op: str
    file: str
    line: int
    inputs: list[str]
    outputs: list[str]
    opaque: bool

class FrameInfo(TypedDict):
    """One frame of a snapshot."""

    name: str
    file: str
    line: int
    offset: int

class SnapshotInfo(TypedDict):
    """The frames from which CPython would go on, root first."""

    frames: list[FrameInfo]

class TraceInfo(TypedDict):
    """One installed trace."""

    name: str
    code: str
    file: str
    line: int
    signature: str
    modes: str
    loaded: list[tuple[str, str, str, bool]]
    guards: list[GuardInfo]
    nodes: list[NodeInfo]
    snapshots: list[SnapshotInfo]
    segments: list[object]
    constants: int
    bytes: int
    opaque_calls: int
    ends: str
    stop: StopInfo | None
    operations: int
    record_seconds: float
    replays: int
    exits: int

class RootInfo(TypedDict):
    """One root and its counters."""

    root: int
    name: str
    file: str
    line: int
    calls: int
    disabled: str
    automatic: bool
    alive: bool
    records: int
    aborts: int
    replays: int
    exits: int
    guard_failures: int
    stopped: int
    opaque_calls: int
    last_stop: StopInfo | None
    aside: bool
    seconds_lost: float
    seconds_recording: float
    seconds_saved: float
    compared: int
    traces: int
    last_miss: str | None

class ToldInfo(TypedDict):
    """Something worth saying: a root, and what about it, where."""

    kind: str
    root: int
    name: str
    codes: str
    reason: str
    file: str
    line: int
    function: str
    inside: str
    seconds: float

class OutermostFunction(TypedDict):
    """A function that `enable()` watched and that was not recorded: calls of it, and of others while it ran."""

    name: str
    file: str
    line: int
    calls: int
    inside: int

class OutermostInfo(TypedDict):
    """What `enable()` has seen and not recorded."""

    functions: list[OutermostFunction]
    long: int
    traced: int

checked: bool  # a check of the recorder that fails stops the process

def hook_install() -> None:
    """Become the evaluator of frames, keeping the one that was there for delegation."""

def hook_remove() -> None:
    """Give the evaluator back."""

def hook_installed() -> bool:
    """Whether frames pass through pijit."""

def add_root(
    code: CodeType, function: FunctionType | None, instance: object | None, name: str, strict: bool, verify: int
) -> int:
    """Record frames of `code` whose function is `function`, or whose first local is `instance`; held weakly."""

def remove_root(root: int) -> None:
    """Forget a root and its traces."""

def set_auto(on: bool) -> None:
    """Find roots without being told."""

def set_stance(name: str) -> None:
    """What is done with the calls of roots: "on", "off", "replay_only", "fail_on_record", "verify"."""

def get_stance() -> str:
    """The stance in force."""

def set_mark(thing: object, mark: str, reason: str) -> None:
    """Mark a function, module or object "skip", "opaque" or "constant", or take the mark away ("").

    What was recorded through a function is forgotten; for a module or an object all traces are.
    """

def mark_of(obj: object) -> tuple[str, str]:
    """The mark of this thing itself ("" if none) and its reason."""

def set_listener(callable: Callable[[ToldInfo], None]) -> None:
    """Who is told what is worth saying."""

def set_comparer(callable: Callable[[object, object], str]) -> None:
    """Who compares what CPython and a replay gave, and says where they differ or ""."""

def keep_dead_roots() -> None:
    """Keep the counters of roots whose function dies, for a report at the end."""

def measure_savings() -> None:
    """From now on replays are timed, and CPython runs a call now and then to compare with them."""

def set_library(directories: list[str]) -> None:
    """Whose files are not the user's, besides those of installed packages."""

def outermost() -> OutermostInfo:
    """Functions that `enable()` watched, calls after which such a one passes its role on, and calls under a tracer."""

def roots() -> list[RootInfo]:
    """Every root, those that died first."""

def root_of(obj: object) -> int:
    """The root of a jitted function or instance, or of one found automatically; -1 if there is none."""

def root_status(root: int) -> tuple[str, str]:
    """State and reason."""

def time_guards(root: int, repeats: int) -> None:
    """At the next call of the root the guards of the trace that lets it in are timed."""

def guard_times() -> tuple[float, float]:
    """Seconds that they took the first time, and in the mean of `repeats` more; zero before that call."""

def root_report(root: int) -> RootInfo:
    """Counters, the last stop and the last miss."""

def root_traces(root: int) -> list[TraceInfo]:
    """What is installed."""

def reset(root: int) -> None:
    """Forget the traces of a root, of all if -1."""

def work_so_far() -> int:
    """Steps of recording and replay so far, the same on every machine."""

def stats() -> dict[str, int | float]:
    """Counters of the process."""

def choose_exit(point: int = ...) -> int:
    """Under stress: where replays leave; returns how often one was left at an exit point since the last choice."""

def tables() -> dict[str, list[tuple[str, ...]]]:
    """Rows of the .def tables: aborts, left, options, ops, guards, opcodes."""

def attach_adapter(capsule: object) -> None:
    """Called by an adapter's own attach()."""

def set_option(name: str, value: int) -> None:
    """Set an option of options.def."""

def get_option(name: str) -> int:
    """The value of an option of options.def."""
