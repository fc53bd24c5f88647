"""The report of a process as one page for a browser: figures, a timeline, each function, each reason, and the traces.

Everything is bounded, so that a program of thousands of functions gives a page that opens; what is summed up or left
out, the page says.
"""

import platform
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pijit import _adapters, _core
from pijit._version import __version__
from pijit.tools import compiled, tables
from pijit.tools.page_listing import LEGEND, listing
from pijit.tools.page_parts import Cell, count_cell, document, escaped, table, unknown_cell
from pijit.tools.page_timeline import Happening, timeline
from pijit.tools.report import (
    Reason,
    Row,
    Time,
    called,
    events,
    has_traces,
    headline,
    merged,
    reasons_of,
    saved_by,
    traces_of,
)
from pijit.traces import duration, place, plural

if TYPE_CHECKING:
    from pijit._core import RootInfo

_MOST_PLACES = 25  # of one reason


class _Most(NamedTuple):
    """What is shown at most: rows of a table, functions with traces, objects of a class, and nodes of all traces."""

    rows: int
    functions: int
    objects: int
    nodes: int


_BRIEFLY, _IN_FULL = _Most(200, 40, 2, 20_000), _Most(1000, 200, 8, 100_000)


def page(time: Time, *, in_full: bool) -> str:
    """The page, in HTML.

    Args:
        time: when the program began, and the seconds that it took.
        in_full: with more rows and traces, and each of their guards.
    """
    most = _IN_FULL if in_full else _BRIEFLY
    roots = called()
    rows = sorted(merged(roots), key=_weight, reverse=True)
    traces = "\n".join(_traces(rows, most, in_full=in_full))  # tells the rows where they are
    sections = [
        ("time", "Timeline", _along(rows, time)),
        ("functions", "Functions", _functions(rows, most)),
        ("reasons", "Why not more", _reasons(reasons_of(roots))),
        ("ledger", "Where the time went", _ledger(rows, most)),
        ("traces", "Traces", traces),
        ("compilers", "Compilers", _compilers(roots)),
    ]
    there = [section for section in sections if section[2]]
    links = "".join(f'<a href="#{name}">{title}</a>' for name, title, _ in there)
    head = headline(roots, time.seconds).removeprefix("pijit: ")
    body = [
        f"<header>\n<h1>pijit: {escaped(_program())}</h1>",
        f'<p class="soft">{escaped(_versions())}</p>',
        f"<p>{escaped(head[:1].upper() + head[1:], most=2000)}.</p>",
        _figures(rows, roots, time.seconds) if roots else "",
        f"<nav>{links}</nav>\n</header>\n<main>" if there else "</header>\n<main>",
        *(f'<section id="{name}">\n<h2>{title}</h2>\n{content}\n</section>' for name, title, content in there),
        "</main>",
    ]
    return document(f"pijit: {_program()}", body)


def _weight(row: Row) -> tuple[float, int]:
    """How much there is to say of a function: the seconds that it saved or lost, then its calls."""
    saved = row.saved()
    return (abs(saved.seconds) if saved else 0.0) + sum(root["seconds_lost"] for root in row.roots), row.sum("calls")


# -------------------------------------------------------------------------------------------------------------- figures


def _program() -> str:
    """The script, as the program has left `sys.argv`."""
    arguments = getattr(sys, "argv", None)
    name = arguments[0] if isinstance(arguments, list) and arguments else ""
    return name.rpartition("/")[2] if isinstance(name, str) and name else "a program"


def _versions() -> str:
    parts = [f"pijit {__version__}", f"{platform.python_implementation()} {platform.python_version()}"]
    for framework in _adapters.ADAPTERS:
        if framework in sys.modules:
            parts.append(f"{framework} {getattr(sys.modules[framework], '__version__', 'of unknown version')}")
    return ", ".join([*parts, platform.platform()])


def _figures(rows: Sequence[Row], roots: "Sequence[RootInfo]", seconds: float) -> str:
    """The numbers that one looks for first."""
    saved, recording = saved_by(roots), sum(root["seconds_recording"] for root in roots)
    calls, replays = (sum(root[name] for root in roots) for name in ("calls", "replays"))
    measured = any(root["compared"] for root in roots)
    stats = _core.stats()
    figures = [("the program took", duration(seconds), "")]
    if measured:
        word, kind = ("saved", "gain") if saved.seconds >= 0 else ("lost", "loss")
        figures += [
            ("without pijit about", duration(max(seconds + saved.seconds, 0)), ""),
            (word, duration(abs(saved.seconds)), kind) if saved.is_sure() else ("saved", "about 0", ""),
            ("recording cost", duration(recording), ""),
        ]
    figures += [
        ("functions", f"{len(rows):,}", ""),
        ("their calls", f"{calls:,}", ""),
        ("replayed", f"{replays / calls:.0%}", ""),
        ("traces", f"{stats['traces']:,}", ""),
        ("their memory", _size(int(stats["bytes"])), ""),
    ]
    made = (f'<div><dt>{name}</dt><dd class="{kind}">{value}</dd></div>' for name, value, kind in figures)
    return f'<dl class="figures">{"".join(made)}</dl>'


def _size(count: int) -> str:
    return f"{count / 2**20:,.1f} MiB" if count >= 2**20 else f"{count / 2**10:,.0f} KiB"


# ------------------------------------------------------------------------------------------------------------- timeline


def _along(rows: Sequence[Row], time: Time) -> str:
    """What happened to the functions, and when."""
    names = {root["root"]: row.function() for row in rows for root in row.roots}
    weights = {row.function(): float(len(rows) - at) for at, row in enumerate(rows)}
    happenings = [
        Happening(event.at, event.seconds, event.what, names[event.root], event.root)
        for event in events(time)
        if event.root in names
    ]
    return timeline(happenings, weights, time.seconds, _core.events()["left_out"])


# ------------------------------------------------------------------------------------------------------------ functions


def _functions(rows: Sequence[Row], most: _Most) -> str:
    """What became of the calls of each function."""
    if not rows:
        return ""
    columns = ("function", "calls", "recorded", "replayed", "left early", "in CPython", "saved", "lost", "state")
    words = (
        "<i>Left early</i>: replays that CPython took over before their end. <i>Saved</i>: how much less those took "
        "that were replayed or recorded than in CPython, recording included; <i>about</i>: that is less than twice its "
        "standard error. <i>Lost</i>: what CPython took where calls, or the rest of them, were left to it. Both are "
        "the time of the threads themselves."
    )
    made = table("What became of the calls", columns, _bounded(rows, most, _function), _summed(rows, _function))
    return f'<p class="soft">{words}</p>\n{made}'


def _function(row: Row) -> list[Cell]:
    calls, records, replays, plain = row.counts()
    lost = sum(root["seconds_lost"] for root in row.roots)
    counts = map(count_cell, (calls, records, replays, row.sum("exits"), plain))
    return [_name(row), *counts, _saved(row), _time(lost), _state(row)]


def _bounded(rows: Sequence[Row], most: _Most, made: Callable[[Row], list[Cell]]) -> Iterator[list[Cell]]:
    """A row for each function; those beyond the bound in one."""
    yield from map(made, rows[: most.rows])
    if rest := rows[most.rows :]:
        first, *cells = made(_total(rest))
        yield [first._replace(html=f"<b>{len(rest):,} more functions</b>, summed up"), *cells]


def _summed(rows: Sequence[Row], made: Callable[[Row], list[Cell]]) -> list[Cell]:
    """The last row of a table; of a single function there is none."""
    return made(_total(rows)) if len(rows) > 1 else []


def _total(rows: Sequence[Row]) -> Row:
    return Row([root for row in rows for root in row.roots], folded=len(rows))


def _name(row: Row) -> Cell:
    if row.folded:
        return Cell(f"all {row.folded:,} functions")
    first = row.roots[0]
    times = f", {len(row.roots):,} of them" if len(row.roots) > 1 else ""
    where = f"{escaped(place(first['file'], first['line']))}{times}"
    name = f'<b title="{escaped(first["file"])}">{escaped(first["name"])}</b>'
    linked = f'<a href="#{row.anchor}">{name}</a>' if row.anchor else name
    return Cell(f'{linked}<br><span class="soft small">{where}</span>')


def _saved(row: Row) -> Cell:
    saved = row.saved()
    if saved is None:
        return unknown_cell()
    words = duration(saved.seconds).replace("-", "\N{MINUS SIGN}")
    if not saved.is_sure():
        return Cell(f'<span class="soft" title="{saved.range()}">about</span> {words}', saved.seconds)
    return Cell(words, saved.seconds, "gain" if saved.seconds >= 0 else "loss")


def _time(seconds: float) -> Cell:
    return Cell(duration(seconds) if seconds else '<span class="soft">0</span>', seconds)


def _state(row: Row) -> Cell:
    """The states of the roots, and why the first of them is in its own."""
    if row.folded:
        return Cell("")
    states = Counter(root["state"] if root["alive"] else "gone" for root in row.roots)
    marks = [
        f'<span class="state {state}">{f"{count:,} " if len(row.roots) > 1 else ""}{state}</span>'
        for state, count in states.most_common()
    ]
    why = [_why(root) for root in row.roots if root["reason"]]
    missed = [f"the guard that failed last: {escaped(root['last_miss'])}" for root in row.roots if root["last_miss"]]
    parts = [f'<br><span class="small">{lines[0]}</span>' for lines in (why, missed) if lines]
    return Cell(" ".join(marks) + "".join(parts), kind="reason")


def _why(root: "RootInfo") -> str:
    """The reason of a state, with its code as far as there is one."""
    stop = root["given_up"] if root["disabled"] else root["last_stop"]
    code = stop["code"] if stop else ""
    return escaped(root["reason"]) + (f' <a href="#{code}">{code}</a>' if code else "")


# --------------------------------------------------------------------------------------------------------------- ledger


def _ledger(rows: Sequence[Row], most: _Most) -> str:
    """What is known of the time of each function."""
    if not rows:
        return ""
    columns = (
        "function", "first calls in CPython", "sampled later", "replays", "recordings", "behind replays", "saved"
    )  # fmt: skip
    words = (
        "<i>First calls in CPython</i>: at most 64 of each function, before it was recorded or after it was left. "
        "<i>Sampled later</i>: calls that CPython ran for comparison. <i>Recordings</i>: with the calls that were "
        "watched. <i>Behind replays</i>: in CPython, where a replay was left or the recording had stopped; part of the "
        "time of replays. Calls within another function's replay count for that one alone."
    )
    made = table("Seconds, and how many calls", columns, _bounded(rows, most, _spent), _summed(rows, _spent))
    return f'<p class="soft">{words}</p>\n{made}'


def _spent(row: Row) -> list[Cell]:
    kinds = (("plain", "first"), ("compared_early", "compared"), ("replayed",), ("recorded",), ("after",))
    counts = (1, 1, row.sum("replays"), row.sum("records"), row.sum("exits") + row.sum("stopped"))
    cells = (_seconds(*row.spent(*kind), calls=calls) for kind, calls in zip(kinds, counts, strict=True))
    return [_name(row), *cells, _saved(row)]


def _seconds(seconds: float, times: int, *, calls: int) -> Cell:
    """Seconds of so many calls, of which there were `calls` in all."""
    if not calls:
        return Cell('<span class="soft">none</span>', 0)
    if not times and not seconds:
        return unknown_cell()
    each = f", {duration(seconds / times)} each" if times > 1 else ""
    return Cell(f'{duration(seconds)}<br><span class="soft small">{plural(times, "calls")}{each}</span>', seconds)


# -------------------------------------------------------------------------------------------------------------- reasons


def _reasons(reasons: Sequence[Reason]) -> str:
    """What was left to CPython, by code: those first that lost most."""
    by_code: dict[str, list[Reason]] = {}
    for reason in reasons:
        by_code.setdefault(reason.code, []).append(reason)
    ordered = sorted(by_code.items(), key=lambda each: -sum(reason.seconds for reason in each[1]))
    return "\n".join(part for code, places in ordered for part in _code(code, places))


def _code(code: str, places: Sequence[Reason]) -> Iterator[str]:
    row = tables.row(code) if code else None
    lost, calls = sum(place.seconds for place in places), sum(place.calls for place in places)
    yield f'<h3 id="{code or "other"}">{code or "other"}{f": {escaped(row.text)}" if row else ""}</h3>'
    yield f"<p>{duration(lost)} in CPython because of it, in functions with {plural(calls, 'calls')}.</p>"
    if row:
        yield f"<p><b>What to try:</b> {escaped(row.advice, most=2000)}</p>"
    cells = [
        [Cell(_reason(reason), kind="reason"), _time(reason.seconds), count_cell(reason.calls)]
        for reason in places[:_MOST_PLACES]
    ]
    if rest := places[_MOST_PLACES:]:
        seconds = sum(reason.seconds for reason in rest)
        more = count_cell(sum(reason.calls for reason in rest))
        cells.append([Cell(f"<b>{len(rest):,} more places</b>, summed up"), _time(seconds), more])
    yield table(f"Where, and why: {code}", ("where", "lost", "calls"), cells)


def _reason(reason: Reason) -> str:
    if reason.because is None:
        return escaped(reason.text, most=1000)
    advice = escaped(tables.row(reason.because.code).advice, most=2000)
    because = escaped(reason.because, most=1000)
    return f'{escaped(reason.text, most=1000)}<br><span class="small">{because}. {advice}</span>'


# --------------------------------------------------------------------------------------------------------------- traces


def _traces(rows: Sequence[Row], most: _Most, *, in_full: bool) -> Iterator[str]:
    """The traces of the functions, beside their source."""
    nodes, functions, left_out = most.nodes, 0, 0
    for row in rows:
        roots = [root for root in row.roots if has_traces(root)]
        if not roots:
            continue
        if functions == most.functions or nodes <= 0:
            left_out += 1
            continue
        if not functions:
            yield LEGEND
        functions += 1
        heading = _name(row).html
        row.anchor = f"function-{functions}"
        yield f'<h3 id="{row.anchor}">{heading}</h3>'
        for root in roots[: most.objects]:
            for each in (root["root"], *root["entries"]):
                for number, info in enumerate(traces_of(each)):
                    nodes -= len(info["nodes"])
                    yield listing(number, info, each, in_full=in_full)
        if len(roots) > most.objects:
            yield f'<p class="soft">{plural(len(roots) - most.objects, "objects")} more of this class have traces.</p>'
    if left_out:
        yield f"<p>The traces of {plural(left_out, 'functions')} more are not shown, which saved or lost less.</p>"


# ------------------------------------------------------------------------------------------------------------ compilers


def _compilers(roots: "Sequence[RootInfo]") -> str:
    found = compiled.found(roots)
    return f"<pre>{escaped(chr(10).join(compiled.lines(found)), most=200_000)}</pre>" if found else ""
