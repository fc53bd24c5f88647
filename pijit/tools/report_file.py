"""Writes the report of a process when it ends: as text, as JSON, as a page, or as a trace for Perfetto."""

import atexit
import json
import os
import sys
import time
from pathlib import Path
from typing import TextIO

from pijit import _core
from pijit.tools import report

_PAGES = (".html", ".htm")
_TRACE = ".trace.json"  # what the file of a trace for Perfetto ends in


def at_exit(file: str | None, *, in_full: bool) -> None:
    """Write the report when the process ends, after the program's own exit handlers; not in forked children.

    The file is opened now, so that `OSError` comes before the program runs.
    """
    out = sys.__stderr__ if file is None else Path(file).open("w", encoding="utf-8")  # noqa: SIM115  for the whole run
    _core.keep_dead_roots(report.keep if in_full or (file or "").endswith(_PAGES) else None)
    _core.measure_savings()
    if file is not None:
        _core.note_events(file.endswith(_TRACE))
    process, began = os.getpid(), time.perf_counter()

    def write() -> None:
        if os.getpid() == process and out is not None:
            _write(out, file or "", report.Time(began, time.perf_counter() - began), in_full=in_full)

    atexit.register(write)


def _write(out: TextIO, file: str, time: report.Time, *, in_full: bool) -> None:
    if file.endswith(_TRACE):
        from pijit.tools.chrome_trace import chrome_trace

        made = json.dumps(chrome_trace(_core.roots(), report.events(time), time.seconds, _core.events()["left_out"]))
    elif file.endswith(".json"):
        made = json.dumps(report.data(time), indent=2)
    elif file.endswith(_PAGES):
        from pijit.tools.page import page

        made = page(time, in_full=in_full)
    else:
        made = report.text(time.seconds, in_full=in_full)
    print(made, file=out, flush=True)
    if file:
        out.close()
