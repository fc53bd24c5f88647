"""Segments of a trace as read-only objects: what compilers were offered, what they made, and what it takes."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pijit._core import KeyRow, PlanRow, SegmentRow


@dataclass(frozen=True, slots=True)
class PlanInfo:
    """Compiled code for a segment.

    Attributes:
        backend: who compiled it; " (folded)" behind it: the weights are part of the code, beside one that reads them.
        runs: how often it ran.
        seconds: the median of its first runs, 0 if it has not run.
        compiled: seconds that compiling took.
        difference: the largest, absolute, from native replay.
        replaced: how often which replacement stands in the place of operators of the program, by name.
        note: what else is worth saying of it, such as which operators are in smaller numbers.
    """

    backend: str
    runs: int
    seconds: float
    compiled: float = 0.0
    difference: float = 0.0
    replaced: Mapping[str, int] = field(default_factory=dict)
    note: str = ""

    def __str__(self) -> str:
        made = f", compiled in {self.compiled:.2f} s, differs by {self.difference:.1g}" if self.compiled else ""
        replaced = "".join(f", {name} replaced {times} times" for name, times in self.replaced.items())
        return (
            f"{self.backend}: {_runs(self.runs, self.seconds)}{made}{replaced}{f', {self.note}' if self.note else ''}"
        )


@dataclass(frozen=True, slots=True)
class Key:
    """A form of the inputs, and who answers for it.

    Attributes:
        form: dtypes and sizes of the tensors that differ from call to call.
        state: "offered": native replay, until there is a plan; "in turns": plans and native replay, each timed;
            "settled": the first plan; "settled natively": native replay, which was faster; "declined": native replay,
            beside which no plan is tried.
        plans: what is installed; the first one answers once it is settled.
        native_runs: replays without a plan.
        native_seconds: the median of those, 0 if they were not timed.
        refused: by backend, why it has no plan here.
        losers: plans that were slower in the turns, and are gone.
        shared: the plans are of free sizes: compiled once for several forms.
        compiling: by backend, seconds that it has compiled so far.
    """

    form: str
    state: str
    plans: tuple[PlanInfo, ...]
    native_runs: int
    native_seconds: float
    refused: Mapping[str, str]
    losers: tuple[PlanInfo, ...] = ()
    shared: bool = False
    compiling: Mapping[str, float] = field(default_factory=dict)

    @property
    def progress(self) -> str:
        """ "compiling with xla for 3.2 s"; "" if nothing compiles."""
        return progress(self.compiling)

    @property
    def answers(self) -> str:
        """Who answers: the name of a backend, "native", or "in turns"."""
        if self.state == "in turns":
            return self.state
        return self.plans[0].backend if self.state == "settled" and self.plans else "native"

    def __str__(self) -> str:
        native = f"native: {_runs(self.native_runs, self.native_seconds)}"
        timed = sorted(self.plans, key=lambda plan: plan.seconds or float("inf"))
        rows = [
            *map(str, timed),
            native,
            *(f"{each} (lost)" for each in self.losers),
            *(f"{name}: {why}" for name, why in self.refused.items()),
        ]
        state = self.state if self.state != "offered" else self.progress or "native, until something is compiled"
        if self.state == "in turns" and self.progress:
            state += f", {self.progress}"
        return f"{self.form or 'no tensors'}: {state}\n" + "\n".join(f"    {row}" for row in rows)


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of the nodes of a trace that compiled code may take over.

    Attributes:
        first: its first node.
        last: the node behind its last.
        operators: how many operators it has.
        share: of the operators of the trace.
        keys: the forms of its inputs that were seen.
        region: the block of the program that names its compilers; "": the root does.
    """

    first: int
    last: int
    operators: int
    share: float
    keys: tuple[Key, ...]
    region: str = ""

    def __str__(self) -> str:
        head = f"nodes {self.first} to {self.last - 1}: {self.operators} operators, {self.share:.0%} of the trace"
        head += f", {self.region}" if self.region else ""
        return "\n".join([head, *(f"  {key}" for key in self.keys)])


class Outcome(Protocol):
    """What became of one backend at one segment and key; `pijit.compilers.market` makes these."""

    backend: str
    key: str
    nodes: tuple[int, int]
    state: str
    difference: float | None
    seconds: float
    replaced: Mapping[str, int]
    note: str

    @property
    def elapsed(self) -> float | None:
        """Seconds that it has compiled so far; None: it does not at the moment."""


def views(rows: "Sequence[SegmentRow]", outcomes: Sequence[Outcome]) -> tuple[Segment, ...]:
    """The segments of a trace.

    Args:
        rows: as the core describes them.
        outcomes: of the market of their root.
    """
    return tuple(
        Segment(
            row["first"],
            row["last"],
            row["operators"],
            row["operators"] / max(row["operators_of_trace"], 1),
            tuple(_key(key, (row["first"], row["last"]), asked) for key in row["keys"]),
            "" if row["region"] is None else repr(row["region"]),
        )
        for row, asked in ((row, _asked(row["region"], outcomes)) for row in rows)
    )


def _asked(region: Any, outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
    """What became of the offers of a segment: those of the region's own market, if it is in one."""
    return outcomes if region is None else getattr(region.market, "outcomes", ())


def _key(row: "KeyRow", nodes: tuple[int, int], outcomes: Sequence[Outcome]) -> Key:
    refused = {
        each.backend: each.state
        for each in outcomes
        if each.nodes == nodes and each.key == row["key"] and each.state not in {"installed", "compiling"}
    }
    if row["dropped"]:
        name, _, why = row["dropped"].partition(": ")
        refused[name] = f"dropped: {why}"
    made = {each.backend: each for each in outcomes if each.nodes == nodes and each.key == row["key"]}
    plans, losers = (tuple(_plan(each, made.get(each["name"])) for each in row[rows]) for rows in ("plans", "losers"))
    native = _median(row["native_seconds"])
    compiling = under_way(made.values())
    return Key(row["key"], row["state"], plans, row["native_runs"], native, refused, losers, row["shared"], compiling)


def under_way(outcomes: Iterable[Outcome]) -> dict[str, float]:
    """By backend, seconds that it has compiled so far."""
    return {each.backend: seconds for each in outcomes if (seconds := each.elapsed) is not None}


def progress(compiling: Mapping[str, float]) -> str:
    """`under_way` for people: "compiling with xla for 3.2 s", or nothing."""
    each = [f"{name} for {seconds:.1f} s" for name, seconds in compiling.items()]
    return f"compiling with {', '.join(each)}" if each else ""


def _plan(row: "PlanRow", made: Outcome | None) -> PlanInfo:
    cost = () if made is None else (made.seconds, made.difference or 0.0, made.replaced, made.note)
    return PlanInfo(row["name"], row["runs"], _median(row["seconds"]), *cost)


def _runs(runs: int, seconds: float) -> str:
    return f"{runs} runs" + (f", {seconds * 1e6:.0f} us" if seconds else "")


def _median(seconds: Sequence[float]) -> float:
    later = seconds[1:] or seconds  # the first run warms up
    return statistics.median(later) if later else 0.0
