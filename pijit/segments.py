"""Segments of a trace as read-only objects: what compilers were offered, what they made, and what it takes."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PlanInfo:
    """Compiled code for a segment: `backend`, how often it ran, and the median of its first runs in `seconds`."""

    backend: str
    runs: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.backend}: {self.runs} runs, {self.seconds * 1e6:.0f} us"


@dataclass(frozen=True, slots=True)
class Key:
    """A form of the inputs, and who answers for it.

    Attributes:
        form: dtypes and sizes of the tensors that differ from call to call.
        state: "offered": native replay, until there is a plan; "in turns": plans and native replay, each timed;
            "settled": the first plan; "settled natively": native replay, which was faster.
        plans: what is installed; the first one answers once it is settled.
        native_runs: replays without a plan.
        native_seconds: the median of those, 0 if they were not timed.
        refused: by backend, why it has no plan here.
        losers: plans that were slower in the turns, and are gone.
        shared: the plans are of free sizes: compiled once for several forms.
    """

    form: str
    state: str
    plans: tuple[PlanInfo, ...]
    native_runs: int
    native_seconds: float
    refused: Mapping[str, str]
    losers: tuple[PlanInfo, ...] = ()
    shared: bool = False

    def __str__(self) -> str:
        native = f"native: {self.native_runs} runs" + (
            f", {self.native_seconds * 1e6:.0f} us" if self.native_seconds else ""
        )
        rows = [
            *map(str, self.plans),
            native,
            *(f"{each} (lost)" for each in self.losers),
            *(f"{name}: {why}" for name, why in self.refused.items()),
        ]
        return f"{self.form or 'no tensors'}: {self.state}\n" + "\n".join(f"    {row}" for row in rows)


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of the nodes of a trace that compiled code may take over.

    Attributes:
        first: its first node.
        last: the node behind its last.
        operators: how many operators it has.
        share: of the operators of the trace.
        keys: the forms of its inputs that were seen.
    """

    first: int
    last: int
    operators: int
    share: float
    keys: tuple[Key, ...]

    def __str__(self) -> str:
        head = f"nodes {self.first} to {self.last - 1}: {self.operators} operators, {self.share:.0%} of the trace"
        return "\n".join([head, *(f"  {key}" for key in self.keys)])


def views(rows: Sequence[Mapping[str, Any]], outcomes: Sequence[Any]) -> tuple[Segment, ...]:
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
            tuple(_key(key, (row["first"], row["last"]), outcomes) for key in row["keys"]),
        )
        for row in rows
    )


def _key(row: Mapping[str, Any], nodes: tuple[int, int], outcomes: Sequence[Any]) -> Key:
    refused = {
        each.backend: each.state
        for each in outcomes
        if each.nodes == nodes and each.key == row["key"] and each.state not in {"installed", "compiling"}
    }
    if row["dropped"]:
        name, _, why = row["dropped"].partition(": ")
        refused[name] = f"dropped: {why}"
    plans, losers = (tuple(map(_plan, row[rows])) for rows in ("plans", "losers"))
    native = _median(row["native_seconds"])
    return Key(row["key"], row["state"], plans, row["native_runs"], native, refused, losers, row["shared"])


def _plan(row: Mapping[str, Any]) -> PlanInfo:
    return PlanInfo(row["name"], row["runs"], _median(row["seconds"]))


def _median(seconds: Sequence[float]) -> float:
    later = seconds[1:] or seconds  # the first run warms up
    return statistics.median(later) if later else 0.0
