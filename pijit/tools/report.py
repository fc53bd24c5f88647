"""What pijit did in a whole process: each function, and the reasons why it did not do more."""

import atexit
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from pijit import _core
from pijit._config import OFF
from pijit.traces import place, stop_view, view

if TYPE_CHECKING:
    from pijit._core import RootInfo


def at_exit(file: str | None, *, in_full: bool) -> None:
    """Write the report when the process ends, after the program's own exit handlers; not in forked children."""
    _core.keep_dead_roots()
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
        return "pijit: no function was called twice that runs tensor operators"
    lines = [f"{'calls':>9}{'recorded':>10}{'replayed':>10}{'in CPython':>12}  function"]
    for root in roots:
        plain = root["calls"] - root["records"] - root["replays"]
        where = f"{root['name']} ({place(root['file'], root['line'])})"
        lines.append(f"{root['calls']:>9}{root['records']:>10}{root['replays']:>10}{plain:>12}  {where}")
        if in_full:
            lines += [f"{'':43}{line}" for line in _details(root)]
    reasons = _reasons(roots)
    if reasons:
        lines += ["", f"{'calls':>9}  reason (python -m pijit help CODE)"]
        lines += [f"{calls:>9}  {reason}" for reason, calls in reasons.most_common()]
    return "\n".join(lines)


def _reasons(roots: "list[RootInfo]") -> Counter[str]:
    """How many calls of functions each reason for stopping or leaving has cost something."""
    reasons: Counter[str] = Counter()
    for root in roots:
        stop = stop_view(root["last_stop"])
        if root["disabled"]:
            where = f"{place(root['file'], root['line'])} in {root['name']}()"
            reasons[f"{where}: left to CPython: {root['disabled']}"] += root["calls"]
        elif stop is not None:
            reasons[str(stop)] += root["calls"]
    return reasons


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
