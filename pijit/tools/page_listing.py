"""A trace beside the lines of the program that it comes from, as HTML.

A line of the trace is marked where it is an opaque call, where replays were left, and where compiled code may answer.
"""

import linecache
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from stat import S_ISREG
from typing import TYPE_CHECKING

from pijit._listing import Line
from pijit.tools.page_parts import details, escaped
from pijit.traces import Trace, identifier, place, plural, view

if TYPE_CHECKING:
    from pijit._core import TraceInfo

_MOST_LINES = 500  # of one trace
_LONGEST = 300  # characters of one line
_LARGEST = 1 << 23  # bytes of a source file

LEGEND = (
    '<p class="legend small"><span class="mark opaque">opaque call: CPython runs it</span>'
    '<span class="mark left">replays were left here</span>'
    '<span class="mark planned">compiled code may answer</span></p>'
)


def listing(number: int, info: "TraceInfo", root: int, *, in_full: bool) -> str:
    """One trace of a function, or of an entry in the middle of one, in HTML.

    Args:
        number: its place among the traces of the function or entry.
        info: as the core describes it.
        root: of the function or entry.
        in_full: with each guard, not only with what is asked of the arguments.
    """
    trace = view(info, root)
    used = f"{plural(trace.replays, 'replays')}, {plural(trace.exits, 'exits')}"
    where = f"{trace.entry}, " if trace.entry else ""
    summary = f"{where}trace {number}: {used}; {trace.sizes()}; {trace.operations:,} bytecodes observed"
    parts = [_table(trace, info["left"])]
    if trace.segments:
        parts.append(f"<pre>{escaped(_segments(trace), most=20_000)}</pre>")
    if in_full and trace.guards:
        guards = f"<pre>{escaped(trace.guards, most=100_000)}</pre>"
        parts.append(details(f"all {plural(len(trace.guards), 'guards')}", guards))
    return details(escaped(summary), "\n".join(parts))


def _segments(trace: Trace) -> str:
    return "\n".join(f"segment of {segment}" for segment in trace.segments)


def _table(trace: Trace, left: Mapping[int, int]) -> str:
    body = trace._body()
    rows = [*_head(trace, body), *_rows(trace, body, left)]
    if len(rows) > _MOST_LINES:
        rows[_MOST_LINES:] = [("", [f'<span class="soft">and {len(rows) - _MOST_LINES:,} more lines</span>'])]
    head = '<thead><tr><th scope="col">program</th><th scope="col">trace</th></tr></thead>'
    lines = [f"<tr><td>{source}</td><td>{''.join(marks)}</td></tr>" for source, marks in rows]
    return "\n".join([f'<table class="listing">{head}<tbody>', *lines, "</tbody></table>"])


def _head(trace: Trace, body: Sequence[Line]) -> Iterator[tuple[str, list[str]]]:
    """What stands before the first operation: the function, what is asked, and what is taken from where."""
    name = escaped(f"def {identifier(trace.name)}({trace.signature}):", most=_LONGEST)
    yield _source(trace.file, trace.line), [f'<span class="mark">{name}</span>']
    asked = [_line(f"    # {line}", "soft") for line in trace._summary()]
    loads = [_line(f"    {line}", "") for line in trace._loads([line.text for line in body])]
    if asked or loads:
        yield "", [*asked, *loads]


def _rows(trace: Trace, body: Sequence[Line], left: Mapping[int, int]) -> Iterator[tuple[str, list[str]]]:
    """Lines of the program, each with what of the trace comes from it."""
    for (file, number), group in groupby(body, lambda line: (line.file, line.line)):
        yield _source(file, number) if file else "", [_marked(line, trace, left) for line in group]
    if trace.stop is not None:
        yield (
            _source(trace.stop.file, trace.stop.line),
            [_line(f"    # {trace.stop}; the rest runs in CPython", "left")],
        )
    elif trace.ends != "return":
        yield "", [_line(f"    # {trace._goes_on()}", "soft")]


def _marked(line: Line, trace: Trace, left: Mapping[int, int]) -> str:
    nodes: Sequence[int] = line.nodes
    times = sum(left.get(node, 0) for node in nodes)
    text = "    " * (line.indent + 1) + line.text
    if times:
        return _line(f"{text}  # {plural(times, 'replays')} left here", "left")
    if any(trace.nodes[node].opaque for node in nodes):
        return _line(text, "opaque")
    planned = any(segment.first <= node < segment.last for segment in trace.segments for node in nodes)
    return _line(text, "planned" if planned else "")


def _line(text: str, kind: str) -> str:
    return f'<span class="{f"mark {kind}".strip()}">{escaped(text, most=_LONGEST)}</span>'


def _source(file: str, number: int) -> str:
    """A line of the program and its place."""
    where = f'<span class="soft">{escaped(place(file, number))}</span>'
    return f"{where} {escaped(_text(file, number), most=_LONGEST)}"


def _text(file: str, number: int) -> str:
    """The line, or "" where the file cannot be read, or is none that one should read."""
    if file not in linecache.cache:
        try:
            found = os.stat(file)
        except (OSError, ValueError):
            return ""
        if not S_ISREG(found.st_mode) or found.st_size > _LARGEST:
            return ""
    return linecache.getline(file, number).strip()
