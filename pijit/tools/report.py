"""What pijit did in a whole process: what it saved, each function, and the reasons why it did not do more.

The headline is net: what replays took less than CPython would have, less what recording cost. What CPython would have
taken is known from calls that it runs now and then (csrc/hook/savings.h).
"""

import atexit
import dataclasses
import html
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from pijit import _adapters, _core
from pijit._config import OFF, WHY_OFF
from pijit.tools import compiled
from pijit.traces import duration, place, plural, stop_view, view

if TYPE_CHECKING:
    from pijit._core import RootInfo

_COLUMNS = ("calls", "recorded", "replayed", "in CPython", "saved", "function")
_STYLE = (
    "<style>body { font-family: sans-serif } td, th { padding: 0 .6em; text-align: right } "
    "td:last-child, th:last-child { text-align: left }</style>"
)
_WIDTHS = (9, 10, 10, 12, 9)


def at_exit(file: str | None, *, in_full: bool) -> None:
    """Write the report when the process ends, after the program's own exit handlers; not in forked children.

    The file is opened now, so that `OSError` comes before the program runs.
    """
    out = sys.__stderr__ if file is None else Path(file).open("w", encoding="utf-8")  # noqa: SIM115  for the whole run
    _core.keep_dead_roots()
    _core.measure_savings()
    process, began = os.getpid(), time.perf_counter()

    def write() -> None:
        if os.getpid() == process and out is not None:
            _write(out, file or "", time.perf_counter() - began, in_full=in_full)

    atexit.register(write)


def _write(out: TextIO, file: str, seconds: float, *, in_full: bool) -> None:
    if file.endswith(".json"):
        made = json.dumps(data(seconds), indent=2)
    elif file.endswith((".html", ".htm")):
        made = page(seconds, in_full=in_full)
    else:
        made = text(seconds, in_full=in_full)
    print(made, file=out, flush=True)
    if file:
        out.close()


def data(seconds: float) -> dict[str, object]:
    """The report for programs: what the process took, `stats`, and `functions` with their counters."""
    roots = _core.roots()
    return {
        "seconds": seconds,
        "stats": _core.stats(),
        "functions": roots,
        "compilers": compiled.data(compiled.found(roots)),
    }


def text(seconds: float, *, in_full: bool) -> str:
    """The report for people, as lines."""
    roots = _called()
    lines = [headline(roots, seconds)]
    if not roots:
        return lines[0]
    lines += ["", "".join(f"{name:>{width}}" for name, width in zip(_COLUMNS, _WIDTHS, strict=False)) + "  function"]
    for row in _shown(_merged(roots), in_full=in_full):
        *cells, function = row.cells()
        lines.append("".join(f"{cell:>{width}}" for cell, width in zip(cells, _WIDTHS, strict=True)) + f"  {function}")
        if in_full:
            lines += [f"{'':{sum(_WIDTHS) + 2}}{line}" for line in row.details()]
    if reasons := _reasons(roots):
        lines += ["", f"{'lost':>9}{'calls':>10}  reason (python -m pijit help CODE)"]
        lines += [f"{duration(reason.seconds):>9}{reason.calls:>10}  {reason.text}" for reason in reasons]
    if found := compiled.found(roots):
        lines += ["", "compilers", *(f"  {line}" for line in compiled.lines(found))]
    return "\n".join(lines)


def page(seconds: float, *, in_full: bool) -> str:
    """The report for people, as HTML."""
    roots = _called()
    body = [f"<p>{html.escape(headline(roots, seconds))}</p>"]
    if roots:
        rows = _shown(_merged(roots), in_full=in_full)
        body.append(_table(_COLUMNS, [row.cells() for row in rows]))
        if in_full:
            body += [
                f"<details><summary>{html.escape(row.function())}</summary><pre>"
                + html.escape("\n".join(row.details()))
                + "</pre></details>"
                for row in rows
            ]
    if reasons := _reasons(roots):
        body.append(
            _table(("lost", "calls", "reason"), [(duration(one.seconds), str(one.calls), one.text) for one in reasons])
        )
    if found := compiled.found(roots):
        body.append(compiled.page(found))
    head = f'<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8"><title>pijit</title>{_STYLE}</head>'
    return "\n".join([head, "<body>", "<h1>pijit</h1>", *body, "</body>", "</html>"])


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    def line(cells: tuple[str, ...], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return "\n".join(["<table>", line(columns, "th"), *(line(row, "td") for row in rows), "</table>"])


def headline(roots: "list[RootInfo]", seconds: float) -> str:
    """The net time in one line, as a stopwatch beside plain Python would show it."""
    if OFF:
        return f"pijit: switched off by {WHY_OFF}"
    if _adapters.refused():
        return f"pijit: {_adapters.refused()}"
    if not roots:
        return f"pijit: nothing was recorded: {_why_nothing()}"
    saved, recording = (sum(root[name] for root in roots) for name in ("seconds_saved", "seconds_recording"))
    took = f"pijit: the program took {duration(seconds)}"
    if not any(root["compared"] for root in roots):
        return f"{took}; what that saves was not measured, since no function that was replayed had eight calls"
    net = f"{duration(abs(saved))} {'saved' if saved >= 0 else 'lost'}"
    return (
        f"{took}, and without pijit about {duration(max(seconds + saved, 0))}: {net} "
        f"(recording cost {duration(max(recording, 0))} of that time)"
    )


@dataclasses.dataclass(slots=True)
class _Row:
    """Roots that people take for one: of the same function, or of objects of the same class."""

    roots: "list[RootInfo]"
    folded: int = 0  # functions that this line stands for; 0: it is one function

    def sum(self, name: str) -> int:
        return sum(root[name] for root in self.roots)  # type: ignore[literal-required]

    def function(self) -> str:
        if self.folded:
            return f"{self.folded} functions without replays"
        first = self.roots[0]
        times = f", {len(self.roots)} of them" if len(self.roots) > 1 else ""
        return f"{first['name']} ({place(first['file'], first['line'])}){times}"

    def cells(self) -> tuple[str, ...]:
        calls, records, replays = (self.sum(name) for name in ("calls", "records", "replays"))
        saved = sum(root["seconds_saved"] for root in self.roots)
        measured = saved or any(root["compared"] for root in self.roots)
        counts = (calls, records, replays, max(calls - records - replays, 0))
        return (*map(str, counts), duration(saved) if measured else "-", self.function())

    def details(self) -> list[str]:
        """What there is of it: traces, and the guard that failed last."""
        return list(dict.fromkeys(line for root in self.roots for line in _details(root)))


def _called() -> "list[RootInfo]":
    return [] if OFF else [root for root in _core.roots() if root["calls"]]


def _merged(roots: "list[RootInfo]") -> list[_Row]:
    """One row for what has the same name and place, those that are called most first."""
    rows: dict[tuple[str, str, int], _Row] = {}
    for root in roots:
        rows.setdefault((root["name"], root["file"], root["line"]), _Row([])).roots.append(root)
    return sorted(rows.values(), key=lambda row: -row.sum("calls"))


def _shown(rows: list[_Row], *, in_full: bool) -> list[_Row]:
    """The rows, those without replays in one line unless everything is asked for."""
    without = [row for row in rows if not row.sum("replays")]
    if in_full or len(without) < 2:
        return rows
    folded = _Row([root for row in without for root in row.roots], folded=len(without))
    return [row for row in rows if row.sum("replays")] + [folded]


def _why_nothing() -> str:
    """Why no function became a root."""
    seen = _core.outermost()
    if seen["functions"]:
        longest = max(seen["functions"], key=lambda function: function["inside"])
        name = f"{longest['name']}() ({place(longest['file'], longest['line'])})"
        if longest["calls"] == 1 and longest["inside"]:
            return (
                f"the tensor operators ran inside {name}, which was called once; recorded is a second call. "
                f"What such a function calls is recorded after {seen['long']:,} calls of Python functions inside it, "
                f"and there were {longest['inside']:,}. Give the function that it calls again and again to pijit.jit()"
            )
        times = "once" if longest["calls"] == 1 else f"{longest['calls']} times, each time for another object"
        return f"{name} runs tensor operators, and was called {times}; recorded is a second call for the same one"
    if seen["traced"]:
        return "a debugger, coverage or a profiler was on, and has to see the Python code run"
    if not _adapters.attached():
        return "no tensor framework was imported"
    return "no function ran tensor operators"


@dataclasses.dataclass(slots=True)
class _Reason:
    """Why something was left to CPython, and what that cost."""

    text: str
    calls: int = 0
    seconds: float = 0.0


def _reasons(roots: "list[RootInfo]") -> list[_Reason]:
    """Each reason for stopping or leaving once, the dearest first."""
    reasons: dict[str, _Reason] = {}
    for root in roots:
        stop = stop_view(root["last_stop"])
        if root["disabled"]:
            text = f"{place(root['file'], root['line'])} in {root['name']}(): left to CPython: {root['disabled']}"
        elif stop is not None:
            text = str(stop)
        else:
            continue
        reason = reasons.setdefault(text, _Reason(text))
        reason.calls += root["calls"]
        reason.seconds += root["seconds_lost"]
    return sorted(reasons.values(), key=lambda reason: (-reason.seconds, -reason.calls))


def _details(root: "RootInfo") -> list[str]:
    """What there is of a function: its traces, and the guard that failed last."""
    lines = []
    for number, trace in enumerate(map(view, _core.root_traces(root["root"])) if root["alive"] else ()):
        lines.append(
            f"trace {number}: {trace.sizes()}, {plural(trace.replays, 'replays')}, {plural(trace.exits, 'exits')}"
        )
        if trace.stop is not None:
            advice = next((row[3] for row in _core.tables()["aborts"] if row[0] == trace.stop.code), "")
            lines += [f"  {trace.stop}", f"  what to try: {advice}"]
    if root["last_miss"]:
        lines.append(f"the guard that failed last: {root['last_miss']}")
    return lines
