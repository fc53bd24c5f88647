"""What compilers made of the functions of a process: who answers for a segment, what that cost, what was refused."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from pijit import _core
from pijit.segments import Key, Segment
from pijit.traces import duration, entries_of, place, plural, standing, view

if TYPE_CHECKING:
    from pijit._core import RootInfo

# What outcomes say of what needs no reason.
_FINE = {"installed", "compiling"}


@dataclass
class Function:
    """A function of which somebody compiles segments.

    Attributes:
        name: as in messages.
        file: where it is.
        line: its first line.
        segments: of its traces.
        share: of the operators of its traces, in segments.
    """

    name: str
    file: str
    line: int
    segments: list[Segment]
    share: float


@dataclass
class Refusal:
    """Why a backend compiled something not: of how many segments and forms it said so."""

    backend: str
    why: str
    times: int = 0


@dataclass
class Compiled:
    """All of it.

    Attributes:
        functions: with segments.
        cost: by backend, seconds of each compilation that came to an end.
        refused: each reason once, with the line of the program that it is about.
        waited: seconds that calls have waited for threads that compile.
    """

    functions: list[Function] = field(default_factory=list)
    cost: dict[str, list[float]] = field(default_factory=dict)
    refused: list[Refusal] = field(default_factory=list)
    waited: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.functions)


def found(roots: "Sequence[RootInfo]") -> Compiled:
    """What became of the segments of these roots."""
    made, refused = Compiled(waited=_core.stats()["seconds_waited"]), dict[tuple[str, str], Refusal]()
    asked: dict[int, tuple[Any, RootInfo]] = {}
    for root in (each for of in roots for each in _with_entries(of)):
        rows = standing(root["root"]) if root["alive"] and root["segments"] else []
        markets = [_core.market_of(root["root"])] if root["alive"] else []
        markets += [row["region"].market for trace in rows for row in trace["segments"] if row["region"] is not None]
        asked.update((id(market), (market, root)) for market in markets if market is not None)
        traces = [view(trace, root["root"]) for trace in rows]
        segments = [segment for trace in traces for segment in trace.segments]
        if segments:
            share = sum(segment.share for segment in segments) / sum(bool(trace.segments) for trace in traces)
            name = f"{root['name'].partition(':')[0]}, {root['entry']}" if root["entry"] else root["name"]
            made.functions.append(Function(name, root["file"], root["line"], segments, share))
    for market, root in asked.values():
        for outcome in getattr(market, "outcomes", ()):
            if outcome.seconds:
                made.cost.setdefault(outcome.backend, []).append(outcome.seconds)
            if outcome.state not in _FINE:
                why = outcome.state.partition("\n")[0]
                if not _has_line(why):
                    why = f"{place(root['file'], root['line'])} in {root['name']}(): {why}"
                refused.setdefault((outcome.backend, why), Refusal(outcome.backend, why)).times += 1
    made.refused = sorted(refused.values(), key=lambda each: -each.times)
    return made


def _with_entries(root: "RootInfo") -> "list[RootInfo]":
    """The root, and the entries in the middle of functions to which its calls came."""
    return [root, *(entries_of(root["root"]) if root["alive"] else ())]


def _has_line(why: str) -> bool:
    """It begins with a place, such as "train.py:42: "."""
    head = why.partition(": ")[0]
    return head.rpartition(":")[2].isdecimal() or " line " in head


def lines(made: Compiled) -> Iterator[str]:
    """For people."""
    for function in made.functions:
        yield (
            f"{function.name} ({place(function.file, function.line)}): {plural(len(function.segments), 'segments')}, "
            f"{function.share:.0%} of the operators"
        )
        for segment in function.segments:
            region = f", {segment.region}" if segment.region else ""
            yield f"  nodes {segment.first} to {segment.last - 1}{region}: {plural(segment.operators, 'operators')}"
            yield from (f"    {key.form or 'no tensors'}: {_contenders(key)}" for key in segment.keys)
    if made.cost:
        each = (f"{name} {duration(sum(times))} ({len(times)})" for name, times in made.cost.items())
        waited = f"; calls waited {duration(made.waited)} for it" if made.waited else ""
        took = duration(sum(map(sum, made.cost.values())))
        yield f"compiling took {took}, beside the program: {', '.join(each)}{waited}"
    for refusal in made.refused:
        yield f"{refusal.backend}, {plural(refusal.times, 'times')}: {refusal.why}"


def _contenders(key: Key) -> str:
    """Who answers, and what each takes."""
    times = [(plan.seconds, plan.backend) for plan in key.plans if plan.seconds]
    if key.native_seconds:
        times.append((key.native_seconds, "native"))
    told = ", ".join(f"{name} {duration(seconds)}" for seconds, name in sorted(times))
    return f"{key.answers}{f': {told}' if told else ''}"


def data(made: Compiled) -> dict[str, Any]:
    """For programs."""
    functions = []
    for function in made.functions:
        rows = asdict(function)
        for row, segment in zip(rows["segments"], function.segments, strict=True):
            for key_row, key in zip(row["keys"], segment.keys, strict=True):
                key_row["answers"] = key.answers
        functions.append(rows)
    refused = [asdict(each) for each in made.refused]
    return {"functions": functions, "seconds": made.cost, "refused": refused, "waited": made.waited}
