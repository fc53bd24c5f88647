"""The process in the JSON format of Chrome's traces, which https://ui.perfetto.dev and chrome://tracing open.

Each function has a track. A recording or a replay is a slice, what takes no time a mark. Times are microseconds since
the program began.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pijit.tools.page_timeline import WORDS
from pijit.traces import place

if TYPE_CHECKING:
    from pijit._core import RootInfo
    from pijit.tools.report import Event

_PROGRAM = 0  # the track of the whole process


def chrome_trace(
    roots: "Sequence[RootInfo]", events: "Sequence[Event]", seconds: float, left_out: int
) -> dict[str, Any]:
    """The trace as an object for JSON.

    Args:
        roots: the functions that were found.
        events: what happened to them.
        seconds: that the program took.
        left_out: how many more events there were.
    """
    made = [_named("process_name", _PROGRAM, f"{os.path.basename(sys.argv[0]) or 'python'} under pijit")]
    made += [_named("thread_name", _PROGRAM, "program"), _slice("program", _PROGRAM, 0, seconds, {})]
    tracks: dict[str, int] = {}
    of: dict[int, int] = {}
    for root in roots:
        name = f"{root['name']} ({place(root['file'], root['line'])})"
        of[root["root"]] = tracks.setdefault(name, len(tracks) + 1)
    happened = {of[event.root] for event in events if event.root in of}
    made += [_named("thread_name", track, name) for name, track in tracks.items() if track in happened]
    made += _happenings(events, {root["root"]: root for root in roots}, of)
    return {"traceEvents": made, "displayTimeUnit": "ms", "otherData": {"events_left_out": left_out}}


def _happenings(
    events: "Sequence[Event]", roots: "dict[int, RootInfo]", tracks: dict[int, int]
) -> Iterator[dict[str, Any]]:
    for event in events:
        if event.root not in roots:
            continue
        root, track = roots[event.root], tracks[event.root]
        details = {"file": root["file"], "line": root["line"]}
        name = f"pijit: {WORDS[event.what]}"
        if event.seconds:
            yield _slice(name, track, event.at, event.seconds, details)
        else:
            yield _common("i", name, track) | {"ts": 1e6 * event.at, "s": "t", "cat": "pijit", "args": details}


def _common(phase: str, name: str, track: int) -> dict[str, Any]:
    return {"ph": phase, "name": name, "pid": os.getpid(), "tid": track}


def _slice(name: str, track: int, at: float, seconds: float, details: dict[str, Any]) -> dict[str, Any]:
    return _common("X", name, track) | {"ts": 1e6 * at, "dur": 1e6 * seconds, "cat": "pijit", "args": details}


def _named(kind: str, track: int, name: str) -> dict[str, Any]:
    return _common("M", kind, track) | {"args": {"name": name}}
