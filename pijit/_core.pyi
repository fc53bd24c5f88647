"""Types of the native module: what csrc/bind offers to this package, private to it."""

from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Any, TypedDict

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

class PlanRow(TypedDict):
    """A plan under one key, or one that lost there."""

    name: str
    runs: int
    seconds: Sequence[float]  # of its first runs

class KeyRow(TypedDict):
    """A form of the inputs of a segment, and who answers for it."""

    key: str
    state: str
    plans: list[PlanRow]
    losers: list[PlanRow]
    native_runs: int
    native_seconds: list[float]
    dropped: str  # the plan that was dropped last, and why, behind ": "; "" if none was
    shared: bool
    awaits: bool  # the market still compiles for it

class SegmentRow(TypedDict):
    """A segment of a trace."""

    first: int
    last: int
    effects: bool
    operators: int
    operators_of_trace: int
    inputs: int
    bound: int
    outputs: int
    region: Any  # the `Region` of the block that it is in; None: in none
    keys: list[KeyRow]

class TapeRow(TypedDict):
    """A forward pass and the engine's call behind it, for which operators beneath autograd may stand."""

    first: int
    last: int
    tapes: int
    runs: int  # replays that a tape has served
    left: int  # replays in which one was left before the engine
    why: str  # there is none; "": not yet

class TraceInfo(TypedDict):
    """One installed trace."""

    name: str
    code: str
    file: str
    line: int
    signature: str
    entry: str  # "loop" or "rest": it begins in the middle of its function, and `line` is where; "" else
    modes: str
    loaded: list[tuple[str, str, str, bool]]
    guards: list[GuardInfo]
    nodes: list[NodeInfo]
    snapshots: list[SnapshotInfo]
    segments: list[SegmentRow]
    tapes: list[TapeRow]
    constants: int
    bytes: int
    opaque_calls: int
    ends: str
    stop: StopInfo | None
    operations: int
    record_seconds: float
    replays: int
    exits: int
    left: dict[int, int]  # by node: how many replays were left there

# A value of a trace: a tuple that begins with its kind; see the head of csrc/bind/data.cpp.
Value = tuple[Any, ...]
# Where a value is found: steps from ("argument", index, name), ("global", name), ("cell", variable), ("constant",
# object) or ("unknown", text) on: ("attribute", name), ("item", key), ("key_at", i), ("value_at", i), ("slot", i),
# ("get",).
Path = list[tuple[Any, ...]]

class CallData(TypedDict):
    """An operation of the tensor framework."""

    name: str  # with the overload: "aten::add.Tensor"; no ATen operator: "tensor::getitem", "torch::ones"
    arguments: list[tuple[str, Value, bool]]  # all of the schema: name, value, whether it is written
    keywords: list[str]  # names of the arguments that are given by their names
    results: list[int | list[int] | None]  # registers; None: dropped
    aliases: list[int]  # by result the argument whose memory it may share; -1: none, or not known
    random: bool
    repeatable: bool
    callable: object  # of "torch::..." the function, else None

class InputData(TypedDict):
    """A tensor that is loaded before the first node, or after an opaque call."""

    register: int
    source: Path
    dtype: str
    sizes: list[int | None]  # None: not checked
    device: str
    requires_grad: bool | None
    object: object  # the tensor, if it is the same one at each call and alive, or keep_inputs() holds it; else None
    made: bool  # it is found in what a node of the trace has given

class HeadFrame(TypedDict):
    """What a frame holds."""

    code: CodeType
    locals: int  # so many slots are local variables; the others stand on the stack
    slots: list[tuple[Any, int | None, int | None]]  # value; of a virtual object its number and how often it changed

class HeadData(TypedDict):
    """What the frames hold where a turn of a loop begins, or where ways meet."""

    loop: int  # the last jump back to it, in units of code; -1: ways meet
    at: int  # the instruction
    back: bool  # it is a further turn
    in_registers: bool  # numbers that the loop assigns are in registers
    frames: list[HeadFrame]  # the innermost one first
    frame: int  # the number of the call of the function

class _NodeData(TypedDict):
    op: str  # print form of a row of ops.def
    effect: str  # "pure", "read", "write" or "control"
    a: Value | None
    b: Value | None
    c: Value | None
    operands: list[Value]
    out: int | None
    outs: list[int]
    imm: int | float
    aux: int
    frame: int  # in `frames`; -1: none
    handled: bool  # some frame on the way to it is within a `try` or `with`

class NodeData(_NodeData, total=False):
    """One node; what its fields mean says ops.def."""

    call: CallData  # of adapter and check nodes
    scalar: str  # of scalar nodes: the function of Python's module operator
    built: Value  # of build nodes: what the object is made of
    operators: int  # of opaque nodes: how many operators of the framework ran in the call, on this thread
    type: Value  # of pure nodes: the type of the result
    head: HeadData  # of loop_head nodes

class FrameData(TypedDict):
    """A line of a frame that the recording followed, and through `parent` the calls that led to it."""

    qualname: str
    file: str
    line: int
    library: bool  # the file is a library's, not the user's
    parent: int  # in `frames`; -1: this is the root's
    self: object  # the first argument of the call, if it is the same object at each call and alive, else None
    call: int  # the same number: the same call

class TraceData(TypedDict):
    """A trace as data."""

    name: str
    file: str
    line: int
    arguments: list[str]  # names of the argument slots: registers 0, 1, ...
    inputs: list[InputData]
    loads: list[tuple[int, Path]]  # objects and numbers that guards load into registers
    registers: list[str]  # "object", "tensor", "int", "float", "bool"
    nodes: list[NodeData]
    frames: list[FrameData]
    result: Value  # ("none",) if the trace ends in an exit
    ends: str  # "return" or "exit"
    stop: StopInfo | None
    opaque_calls: int

class GuardRow(TypedDict):
    """One guard; what its fields mean says guards.def."""

    kind: str
    step: str  # from the subject to what the guard finds there
    subject: Value  # ("const", object), ("reg", n) or ("unknown", text)
    source: str  # the program's expression for it
    expected: Value
    number: int
    aux: int
    out: int | None  # the register that a load writes
    attribute: str | None  # of guards of a place in an object: what is kept there
    names: list[str]  # of no_inline: the attributes that such objects may have
    holds: bool  # the subject is a constant, and it is now as the guard says
    items: list[Value]
    items_equal: list[bool]  # by item: a plain number or text, of which equal bits will do
    equal: bool  # the same of `expected`

class TensorRow(TypedDict):
    """A tensor that comes in, and what is checked of it."""

    register: int
    source: str
    type: Value
    dtype: str
    device: str
    dim: int
    more: int  # its dispatch keys
    # and `from`: a Value, the tensor or the register that holds it

class EpochRow(TypedDict):
    """What is checked again after an opaque call: a range of the guards, tensors, modes."""

    first: int
    count: int
    inputs: list[TensorRow]
    modes: bool

class GuardData(TypedDict):
    """The guards of a trace as data."""

    guards: list[GuardRow]
    entry: int  # how many are checked at entry
    inputs: list[TensorRow]
    epochs: list[EpochRow]
    names: dict[int, str]  # of objects: the program's expressions for them, by identity

class RootInfo(TypedDict):
    """One root and its counters."""

    root: int
    name: str
    file: str
    line: int
    calls: int
    state: str  # as root_status says
    reason: str
    disabled: str
    given_up: StopInfo | None
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
    seconds_error: float  # the standard error of seconds_saved
    compared: int
    spent: dict[str, tuple[float, int]]  # by kind of call: seconds, how many calls; as in csrc/cache/savings.h
    traces: int
    segments: int
    entry: str  # of an entry "loop" or "rest", else ""
    entered: bool  # of a loop: it was entered while its function ran
    entries: list[int]  # those in the middle of functions that its calls came to, for root_report and root_traces
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

class Events(TypedDict):
    """What happened to roots: `time` of `time.perf_counter()` when it had, `seconds` that it took, what, which root."""

    rows: list[tuple[float, float, str, int]]
    left_out: int

class OutermostFunction(TypedDict):
    """A function that `enable()` watched and that was not recorded: its calls, and the seconds that they took."""

    name: str
    file: str
    line: int
    calls: int
    seconds: float

class OutermostInfo(TypedDict):
    """What `enable()` has seen and not recorded."""

    functions: list[OutermostFunction]
    traced: int

checked: bool  # a check of the recorder that fails stops the process

def hook_install() -> None:
    """Become the evaluator of frames, keeping the one that was there for delegation."""

def hook_remove() -> None:
    """Give the evaluator back."""

def layout_trouble() -> str:
    """The type whose objects are laid out in another way than the core was built for; "": all fit."""

def hook_installed() -> bool:
    """Whether frames pass through pijit, or functions that were jitted do."""

def hook_rests() -> bool:
    """Whether the hook is out since nothing wanted it, and comes back by itself."""

def add_root(
    code: CodeType,
    function: FunctionType | None,
    instance: object | None,
    name: str,
    strict: bool,
    verify: int,
    fixed_sizes: bool,
) -> int:
    """Record frames of `code` whose function is `function`, or whose first local is `instance`; held weakly."""

def set_varying_sizes(sizes: list[int]) -> None:
    """Sizes of tensors that vary, and multiples of them: numbers where `fixed_sizes` makes others constants."""

def remove_root(root: int) -> None:
    """Forget a root and its traces."""

def set_auto(on: bool) -> None:
    """Find roots without being told."""

def number_functions() -> tuple[Callable[..., Any], ...] | None:
    """Functions of Python that segments have: of numbers, they give a number of which a graph has a row."""

def set_stance(name: str) -> None:
    """What is done with the calls of roots: "on", "off", "replay_only", "fail_on_record", "verify"."""

def get_stance() -> str:
    """The stance in force."""

def guards_hold(root: int) -> bool:
    """The guards of the first trace of a root without arguments hold, but for modes of the framework."""

def set_mark(thing: object, mark: str, reason: str) -> None:
    """Mark a function, module or object "skip", "opaque" or "constant", or take the mark away ("").

    What was recorded through a function is forgotten; for a module or an object all traces are.
    """

def mark_of(obj: object) -> tuple[str, str]:
    """The mark of this thing itself ("" if none) and its reason."""

class Keeping(TypedDict):
    directory: str
    environment: str
    hits: int
    misses: int
    asked: list[KeptAsked]

class KeptAsked(TypedDict):
    """What became of a root that was looked for; `why` is "" where there was a trace."""

    function: str
    file: str
    code: str
    why: str

class KeptTexts(TypedDict):
    """`file` is "" for roots that are not kept; `code` tells the code of one from another's."""

    file: str
    code: str
    function: str
    texts: list[str]
    reasons: list[str]
    found: int
    records: int

def set_listener(callable: Callable[[ToldInfo], None]) -> None:
    """Who is told what is worth saying."""

def set_comparer(callable: Callable[[object, object], str]) -> None:
    """Who compares what CPython and a replay gave, and says where they differ or ""."""

def keep_dead_roots(keeper: Callable[[int], None] | None) -> None:
    """Keep the counters of roots whose function dies, for a report at the end.

    The keeper is called with the number of a root that has traces, while they are there.
    """

def measure_savings() -> None:
    """From now on replays are timed, and CPython runs a call now and then to compare with them."""

def note_events(replays: bool) -> None:
    """From now on what happens to roots is noted: recordings, first replays (or all), and when they are left."""

def events() -> Events:
    """What was noted, in order, and how many more there were than there is room for."""

def set_library(directories: list[str]) -> None:
    """Whose files are not the user's, besides those of installed packages."""

def outermost() -> OutermostInfo:
    """Functions that `enable()` watched, calls after which such a one passes its role on, and calls under a tracer."""

def roots() -> list[RootInfo]:
    """Every root, those that died first."""

class EntryInfo(RootInfo):
    """An entry in the middle of a function, and its counters; `line` is where it begins."""

    instruction: int

def entries() -> list[EntryInfo]:
    """Every entry that there is."""

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

def keep_decisions(on: bool) -> bool:
    """Whether recordings mark where turns of loops begin and where ways meet (op "loop_head"). Gives what it was.

    What is known of loops from earlier calls is forgotten.
    """

def only_read(root: int) -> int:
    """Recordings of this root (-1: of none) are only read, and never replayed; the one before."""

def keep_inputs(on: bool) -> bool:
    """Traces recorded from here on hold what came in: tensors, and objects whose methods ran. Gives what it was."""

def trace_data(root: int, index: int) -> TraceData:
    """A trace of a root as data, for graphs and formats. IndexError if it has no such trace."""

class ParsedTrace:
    """A trace that was read from its text: data, nothing of it can run."""

    def text(self) -> str:
        """The trace as text again."""

    def operators(self) -> list[str]:
        """The names of the framework's operations, in order."""

class Ledger:
    """Which calls are timed, and what comes of their times, without a root: for tests."""

    def next(self) -> str:
        """What is done with the next call: "free", "timed" or "plain"."""

    def begin_soon(self, plain: float) -> None:
        """Nobody asked for replays; a plain call takes so many seconds. If that is long, the next one is compared."""

    def end(self, kind: str, seconds: float, way: int, amounts: tuple[float, float], hasty: bool = False) -> str:
        """What the call came to; the verdict is "", "pays" or "loses".

        Args:
            kind: "plain", "replayed", "left", "fresh", "recorded" or "other".
            seconds: that the call took.
            way: the trace that takes it, or would.
            amounts: elements of its tensors; lengths and numbers.
            hasty: a clear loss of one round decides.
        """

    @property
    def doubts(self) -> bool:
        """Between two rounds, of which those so far look like a loss."""

    def rested(self) -> bool:
        """A call was left to CPython after a loss; whether replays are tried again from now on."""

    @property
    def ratio(self) -> float:
        """Of the last rounds: how many times CPython's time a call takes."""

def trace_text(root: int, index: int) -> str:
    """A trace of a root in the text form of csrc/ir/text.h. IndexError if it has no such trace."""

def set_keeping(directory: str, environment: str) -> None:
    """Where files with traces for other processes are, and what they were made under; "": nowhere."""

kept_heading: str  # the first line of each file of traces

def set_writer(call: Callable[[], object] | None, every: float = 0.0) -> None:
    """Who is called a second after something was recorded, then after twice as long each time, to `every` seconds."""

def set_unpacker(call: Callable[[], object]) -> None:
    """`zlib.decompressobj`."""

class LearntRow(TypedDict):
    """What was learnt of one root; `left` is "" where it is not left to CPython, `saved` are seconds."""

    function: str
    code: str
    automatic: bool
    records: int
    aborts: int
    replays: int
    saved: float
    left: str
    passes: bool
    inputs: list[int]
    places: list[tuple[int, str]]

class ProfileRow(TypedDict):
    """With what a root of this code begins; `useless` is "" where it is recorded."""

    code: str
    useless: str
    passes: bool
    inputs: list[int]
    places: list[tuple[int, str]]

def learnt(root: int) -> LearntRow | None:
    """What was learnt of a root; None: nothing that another process could use."""

def function_roots() -> list[int]:
    """All roots that are alive, but those in the middle of functions."""

def set_dying(call: Callable[[int], object] | None) -> None:
    """Who is called with the number of a root whose function or object dies, while both are still there."""

def set_profile(rows: list[ProfileRow]) -> None:
    """Have roots begin with what an earlier run has learnt of them; [] takes that back."""

def keeping() -> Keeping:
    """What `set_keeping` was told, and how many roots found traces there or did not."""

def kept_roots() -> list[int]:
    """The roots that have traces, those that are replayed most first."""

def look_ahead(root: int) -> None:
    """Have the root begin with the traces of its file, if there are some; its first call looks for others."""

def kept_texts(root: int) -> KeptTexts:
    """The traces of a root for another process, and the name of the file that they belong into."""

def read_kept(path: str, environment: str) -> tuple[list[str], str]:
    """The traces of such a file, or why there are none."""

def install_kept(root: int, texts: list[str], arguments: list[object]) -> tuple[int, list[str]]:
    """Give a root traces of another process: how many are of use, and why the others are not.

    Args:
        root: its number.
        texts: as `kept_texts` has them.
        arguments: of a call, by the slots of its frame.
    """

def check_kept(root: int, text: str) -> str:
    """Why the text of a trace is of no use for the root; "": it is of use."""

def digest(data: bytes) -> str:
    """Tells damaged data from whole data; no defence against forgers."""

def parse_trace(text: str) -> ParsedTrace:
    """Read what `trace_text` gives. CacheError with line, column and what was expected if it is no such text."""

def guard_data(root: int, index: int) -> GuardData:
    """The guards of a trace of a root as data. IndexError if it has no such trace."""

def reset(root: int) -> None:
    """Forget the traces of a root, of all if -1."""

def limit_work(steps: int) -> int:
    """Steps that one event of a recording may take from now on; returns how many it might before."""

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

class Place:
    """A segment of a trace under one key, as it is offered to a market.

    `runs` counts the replays under the key, `seconds` is what the first native one took.
    """

    alive: bool
    nodes: tuple[int, int]
    operators: int
    arrays: bool
    runs: int
    seconds: float
    numbers: dict[int, int | float | bool]
    bound: list[int]
    free: list[int]
    outputs: list[int]
    written: list[int]
    leaves: list[int]
    shown: list[int]
    passed: list[bool]
    trained: list[bool]
    gradients_on: bool
    def data(self) -> TraceData | None: ...
    def describe(self) -> str: ...
    def writes(self) -> tuple[int, int]: ...
    memo: Any
    def install(
        self,
        plans: list[tuple[str, Callable[..., Any], Callable[[], None], bool, tuple[int, int] | None]],
        turns: bool,
        shared: bool = False,
        trial: bool = False,
    ) -> None:
        """More contenders, after those that are there."""

    def await_more(self) -> None:
        """Plans are compiled for the key, and may come until `complete()`."""

    def complete(self) -> None:
        """No more plans come for the key."""

    def decline(self) -> None:
        """No plan is made under this key."""

    @property
    def has_sides(self) -> bool:
        """It spans calls that choose by data among functions of the program."""

    def leave_sides(self) -> None:
        """The segment ends at such calls; what is left of it is offered anew."""

    def leaver(self) -> Callable[[], None]:
        """What `leave_sides` does, for a plan of this segment: it keeps nothing alive."""

    def allow_cuts(self) -> None:
        """Where forms of the segment keep changing, it is left in pieces."""

    def trust(self, call: Callable[..., Any]) -> None:
        """A result of this plan agreed."""

    def drop(self, call: Callable[..., Any], why: str) -> None:
        """A result of this plan differed: it is dropped, under all keys of the segment."""

def hold_full_collections() -> None:
    """No allocation starts a full collection until `allow_full_collections()` was called as often."""

def allow_full_collections() -> None: ...
def join_beside() -> None:
    """This thread belongs to pijit, and is none of the program's, until `leave_beside()`."""

def leave_beside() -> None: ...
def begin_compiling() -> None:
    """Until `end_compiling()` this thread has the GIL in slices only, between which calls of the program run."""

def end_compiling() -> None: ...
def hurry_compilers(seconds: float) -> None:
    """Calls wait so long for these threads half of the time, in the place of a tenth."""

def roots_to_offer() -> tuple[list[int], int]:
    """Roots of which the next call may offer segments to a market, since it is the first one after a recording.

    And a number that grows with the calls that pijit has served.
    """

def forget_beside() -> None:
    """In the child of a fork: there are no such threads."""

def set_default_market(market: Callable[[Place, tuple[Any, ...], tuple[Any, ...]], None] | None) -> None: ...
def market_of(root: int) -> Any: ...
def set_market(root: int, market: Callable[[Place, tuple[Any, ...], tuple[Any, ...]], None] | None) -> None: ...
