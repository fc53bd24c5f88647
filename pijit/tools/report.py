"""What pijit did in a whole process: each function, and the reasons why it did not do more."""

import atexit
import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pijit import _adapters, _core
from pijit._config import OFF
from pijit.traces import duration, place, stop_view, view

if TYPE_CHECKING:
    from pijit._core import RootInfo


def at_exit(file: str | None, *, in_full: bool) -> None:
    """Write the report when the process ends, after the program's own exit handlers; not in forked children."""
    _core.keep_dead_roots()
    _core.measure_savings()
    process = os.getpid()

    def write() -> None:
        if os.getpid() != process:
            return
        if file is None:
            print(text(in_full=in_full), file=sys.__stderr__)
        elif file.endswith(".json"):
            Path(file).write_text(json.dumps(data(), indent=2) + "\n")
        else:
            Path(file).write_text(text(in_full=in_full) + "\n")

    atexit.register(write)


def data() -> dict[str, object]:
    """The report for programs: `stats`, and `functions` with their counters."""
    return {"stats": _core.stats(), "functions": _core.roots()}


def text(*, in_full: bool) -> str:
    """The report for people."""
    if OFF:
        return "pijit: switched off by PIJIT=0"
    roots = sorted(_core.roots(), key=lambda root: -root["calls"])
    if not roots:
        return f"pijit: nothing was recorded: {_why_nothing()}"
    lines = [f"{'calls':>9}{'recorded':>10}{'replayed':>10}{'in CPython':>12}{'saved':>9}  function"]
    for root in roots:
        plain = root["calls"] - root["records"] - root["replays"]
        where = f"{root['name']} ({place(root['file'], root['line'])})"
        saved = duration(root["seconds_saved"]) if root["compared"] else "-"
        lines.append(f"{root['calls']:>9}{root['records']:>10}{root['replays']:>10}{plain:>12}{saved:>9}  {where}")
        if in_full:
            lines += [f"{'':43}{line}" for line in _details(root)]
    reasons = _reasons(roots)
    if reasons:
        lines += ["", f"{'lost':>9}{'calls':>10}  reason (python -m pijit help CODE)"]
        worst = sorted(reasons, key=lambda reason: (-reason.seconds, -reason.calls))
        lines += [f"{duration(reason.seconds):>9}{reason.calls:>10}  {reason.text}" for reason in worst]
    return "\n".join(lines)


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
    """Each reason for stopping or leaving once."""
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
    return list(reasons.values())


def _details(root: "RootInfo") -> list[str]:
    """What there is of a function: its traces, and the guard that failed last."""
    lines = []
    for number, trace in enumerate(map(view, _core.root_traces(root["root"])) if root["alive"] else ()):
        lines.append(f"trace {number}: {trace.sizes()}, {trace.replays} replays, {trace.exits} exits")
        if trace.stop is not None:
            advice = next((row[3] for row in _core.tables()["aborts"] if row[0] == trace.stop.code), "")
            lines += [f"  {trace.stop}", f"  what to try: {advice}"]
    if root["last_miss"]:
        lines.append(f"the guard that failed last: {root['last_miss']}")
    return lines
