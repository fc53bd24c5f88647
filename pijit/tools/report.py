"""What pijit did in a whole process: what it saved, each function, and the reasons why it did not do more.

page.py makes it a page for a browser. The headline is net: what replays took less than CPython would have, less what
recording cost. What CPython would have taken is known from calls that it runs now and then (csrc/hook/savings.h). All
that is said to be saved or lost is the time of the threads themselves: what else the machine did is no loss. Where it
is less than twice its standard error, a range is said.
"""

import dataclasses
import math
from typing import TYPE_CHECKING, NamedTuple

from pijit import _adapters, _core
from pijit._config import OFF, WHY_OFF
from pijit.tools import compiled, tables
from pijit.traces import duration, entries_of, entry_place, place, plural, standing, stop_view, view

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pijit._core import RootInfo, TraceInfo
    from pijit.traces import Stop

_COLUMNS = ("calls", "recorded", "replayed", "in CPython", "saved", "function")
_WIDTHS = (9, 10, 10, 12, 9)
_MOST_KEPT = 200  # roots that died


# By root or entry: the traces of what has died meanwhile, such as a model that is local to `main()`.
_kept: "dict[int, list[TraceInfo]]" = {}


def keep(root: int) -> None:
    """Keep the text of what dies; called by the core."""
    if len(_kept) < _MOST_KEPT:
        _kept.update({each: traces_of(each) for each in (root, *_core.root_report(root)["entries"])})


def traces_of(root: int) -> "list[TraceInfo]":
    """The traces of a root or an entry, also of one whose function or object has died since."""
    return _kept[root] if root in _kept else standing(root)


def has_traces(root: "RootInfo") -> bool:
    """`traces_of` has something of it."""
    return bool(_kept.get(root["root"])) or bool(root["alive"] and root["traces"])


class Time(NamedTuple):
    """When the program began, by `time.perf_counter()`, and the seconds that it took."""

    began: float
    seconds: float


def data(time: Time) -> dict[str, object]:
    """The report for programs: what the process took, `stats`, `functions` and `entries` with counters, and `events`.

    Entries are loops, and places behind branches, with traces of their own; a function has the numbers of its entries.
    """
    roots = _core.roots()
    return {
        "seconds": time.seconds,
        "stats": _core.stats(),
        "functions": roots,
        "entries": [dict(entry) for entry in _core.entries()],
        "events": [event._asdict() for event in events(time)],
        "events_left_out": _core.events()["left_out"],
        "compilers": compiled.data(compiled.found(roots)),
    }


class Event(NamedTuple):
    """What happened to a function, in the order in which it began.

    Attributes:
        at: seconds since the program began.
        seconds: that it took; 0: it was a moment.
        what: "recorded", "nothing kept", "first replay", "left", "passed on", "taken up", "compiled code" or "replay".
        root: the function's number in `functions`.
    """

    at: float
    seconds: float
    what: str
    root: int


def events(time: Time) -> list[Event]:
    """What was noted of the process."""
    noted = _core.events()["rows"]
    return sorted(Event(max(at - took - time.began, 0.0), took, what, root) for at, took, what, root in noted)


def text(seconds: float, *, in_full: bool) -> str:
    """The report for people, as lines."""
    roots = called()
    lines = [headline(roots, seconds)]
    if not roots:
        return lines[0]
    lines += ["", "".join(f"{name:>{width}}" for name, width in zip(_COLUMNS, _WIDTHS, strict=False)) + "  function"]
    for row in _shown(merged(roots), in_full=in_full):
        *cells, function = row.cells()
        lines.append("".join(f"{cell:>{width}}" for cell, width in zip(cells, _WIDTHS, strict=True)) + f"  {function}")
        if in_full:
            lines += [f"{'':{sum(_WIDTHS) + 2}}{line}" for line in row.details()]
    if reasons := reasons_of(roots):
        lines += ["", f"{'lost':>9}{'calls':>10}  reason (python -m pijit help CODE)"]
        lines += [f"{duration(reason.seconds):>9}{reason.calls:>10}  {reason.text}" for reason in reasons]
    if found := compiled.found(roots):
        lines += ["", "compilers", *(f"  {line}" for line in compiled.lines(found))]
    return "\n".join(lines)


def headline(roots: "list[RootInfo]", seconds: float) -> str:
    """The net time in one line, as a stopwatch beside plain Python would show it."""
    if OFF:
        return f"pijit: switched off by {WHY_OFF}"
    if _adapters.refused():
        return f"pijit: {_adapters.refused()}"
    if not roots:
        return f"pijit: nothing was recorded: {_why_nothing()}"
    saved, recording = saved_by(roots), sum(root["seconds_recording"] for root in roots)
    took = f"pijit: the program took {duration(seconds)}"
    if not any(root["compared"] for root in roots):
        return f"{took}; what that saves was not measured, since no function that was replayed had eight calls"
    cost = f"(recording cost {duration(recording)} of that time)"
    if not saved.is_sure():
        return f"{took}, and without pijit about as long: {saved.range()} {cost}"
    net = f"{duration(abs(saved.seconds))} {'saved' if saved.seconds >= 0 else 'lost'}"
    return f"{took}, and without pijit about {duration(max(seconds + saved.seconds, 0))}: {net} {cost}"


class Saved(NamedTuple):
    """Seconds that were saved, or lost if they are negative, and their standard error."""

    seconds: float
    error: float

    def is_sure(self) -> bool:
        """Whether it is more than chance that something was saved, or lost."""
        return abs(self.seconds) >= 2 * self.error

    def range(self) -> str:
        """What it may be, in words."""
        least, most = self.seconds - 2 * self.error, self.seconds + 2 * self.error
        return f"between {duration(-least)} lost and {duration(most)} saved"


def saved_by(roots: "Sequence[RootInfo]") -> Saved:
    """What all of them saved."""
    error = math.sqrt(sum(root["seconds_error"] ** 2 for root in roots))
    return Saved(sum(root["seconds_saved"] for root in roots), error)


@dataclasses.dataclass(slots=True)
class Row:
    """Roots that people take for one: of the same function, or of objects of the same class."""

    roots: "list[RootInfo]"
    folded: int = 0  # functions that this line stands for; 0: it is one function
    anchor: str = ""  # where a page has its traces

    def sum(self, name: str) -> int:
        """Of a counter."""
        return sum(root[name] for root in self.roots)  # type: ignore[literal-required]

    def spent(self, *kinds: str) -> tuple[float, int]:
        """Seconds, and how many calls took them."""
        rows = [root["spent"][kind] for root in self.roots for kind in kinds]
        return sum(row[0] for row in rows), sum(row[1] for row in rows)

    def function(self) -> str:
        if self.folded:
            return f"{self.folded} functions without replays"
        first = self.roots[0]
        if first["entered"]:
            return f"loop in {first['name'].rpartition(':')[0]} ({place(first['file'], first['line'])})"
        times = f", {len(self.roots)} of them" if len(self.roots) > 1 else ""
        return f"{first['name']} ({place(first['file'], first['line'])}){times}"

    def counts(self) -> tuple[int, int, int, int]:
        """Calls, and of them those that were recorded, replayed, and left to CPython."""
        calls, records, replays = (self.sum(name) for name in ("calls", "records", "replays"))
        return calls, records, replays, max(calls - records - replays, 0)

    def saved(self) -> Saved | None:
        """None: it was not measured."""
        return saved_by(self.roots) if any(root["compared"] for root in self.roots) else None

    def cells(self) -> tuple[str, ...]:
        saved = self.saved()
        word = "-" if saved is None else duration(saved.seconds) if saved.is_sure() else "about 0"
        return (*map(str, self.counts()), word, self.function())

    def details(self) -> list[str]:
        """What there is of it: traces, and the guard that failed last."""
        return list(dict.fromkeys(line for root in self.roots for line in _details(root)))


def called() -> "list[RootInfo]":
    """The roots that were called, and the loops that were entered while their functions ran."""
    if OFF:
        return []
    return [*(root for root in _core.roots() if root["calls"]), *(loop for loop in _core.entries() if loop["entered"])]


def merged(roots: "list[RootInfo]") -> list[Row]:
    """One row for what has the same name and place, those that are called most first."""
    rows: dict[tuple[str, str, int], Row] = {}
    for root in roots:
        rows.setdefault((root["name"], root["file"], root["line"]), Row([])).roots.append(root)
    return sorted(rows.values(), key=lambda row: -row.sum("calls"))


def _shown(rows: list[Row], *, in_full: bool) -> list[Row]:
    """The rows, those without replays in one line unless everything is asked for."""
    without = [row for row in rows if not row.sum("replays")]
    if in_full or len(without) < 2:
        return rows
    folded = Row([root for row in without for root in row.roots], folded=len(without))
    return [row for row in rows if row.sum("replays")] + [folded]


def _why_nothing() -> str:
    """Why no function became a root."""
    seen = _core.outermost()
    if seen["functions"]:
        longest = max(seen["functions"], key=lambda function: function["seconds"])
        name = f"{longest['name']}() ({place(longest['file'], longest['line'])})"
        if longest["calls"] == 1:
            return (
                f"the tensor operators ran inside {name}, which was called once and took {longest['seconds']:.2f} s; "
                f"recorded is a second call. What a function calls is recorded once its call has run for "
                f"{_core.get_option('long_call')} ms. Give the function that it calls again and again to pijit.jit()"
            )
        times = "once" if longest["calls"] == 1 else f"{longest['calls']} times, each time for another object"
        return f"{name} runs tensor operators, and was called {times}; recorded is a second call for the same one"
    if seen["traced"]:
        return "a debugger, coverage or a profiler was on, and has to see the Python code run"
    if not _adapters.attached():
        return "no tensor framework was imported"
    return "no function ran tensor operators"


@dataclasses.dataclass(slots=True)
class Reason:
    """Why something was left to CPython, and what that cost.

    `code` is the reason's; `because` the stop that led to it, if it was another.
    """

    text: str
    code: str
    because: "Stop | None" = None
    calls: int = 0
    seconds: float = 0.0


def reasons_of(roots: "list[RootInfo]") -> list[Reason]:
    """Each reason for stopping or leaving once, the dearest first."""
    reasons: dict[str, Reason] = {}
    for root in roots:
        stop = stop_view(root["last_stop"])
        if root["disabled"]:
            text = f"{place(root['file'], root['line'])} in {root['name']}(): left to CPython: {root['disabled']}"
            code = root["given_up"]["code"] if root["given_up"] else ""
        elif stop is not None:
            text, code = str(stop), stop.code
        else:
            continue
        because = stop if stop is not None and stop.code != code else None
        reason = reasons.setdefault(text, Reason(text, code, because))
        reason.calls += root["calls"]
        reason.seconds += root["seconds_lost"]
    return sorted(reasons.values(), key=lambda reason: (-reason.seconds, -reason.calls))


def _details(root: "RootInfo") -> list[str]:
    """What there is of a function: its traces, those of its loops, and the guard that failed last."""
    lines = [*_trace_lines(root, ""), *_missed(root)]
    for entry in entries_of(root["root"]) if root["alive"] else ():
        where = entry_place(entry["entry"], entry["file"], entry["line"])
        lines += [*_trace_lines(entry, f"{where}, "), *(f"{where}: {line}" for line in _missed(entry))]
    return lines


def _trace_lines(root: "RootInfo", where: str) -> "Iterator[str]":
    for number, trace in enumerate(map(view, traces_of(root["root"]))):
        used = f"{plural(trace.replays, 'replays')}, {plural(trace.exits, 'exits')}"
        yield f"{where}trace {number}: {trace.sizes()}, {used}"
        if trace.stop is not None:
            yield from (f"  {trace.stop}", f"  what to try: {tables.row(trace.stop.code).advice}")


def _missed(root: "RootInfo") -> list[str]:
    return [f"the guard that failed last: {root['last_miss']}"] if root["last_miss"] else []
