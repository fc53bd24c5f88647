"""The process as a picture: when each function was recorded, first replayed, and left to CPython, one lane each.

1. The lanes are as wide as the page and the letters are not: places along the time are percentages, all else pixels.
2. What happened stands below in a table as well, for who cannot see the picture.
3. Most of a process may pass before the first recording, as when it imports a framework: that part is left out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10

from pijit.tools.page_parts import Cell, details, escaped, table, text_cell
from pijit.traces import duration

_MOST_LANES = 30
_MOST_MARKS = 300  # in one lane
_MOST_ROWS = 300  # of the table
_LANE, _AXIS = 40, 26  # pixels
_TICKS = 6
_EDGE = 0.03  # of the width: a label would be cut off

# Shapes around the origin: what is drawn where something happened.
_SHAPES = {
    "first replay": ("first", "M-5,-6 L6,0 L-5,6 Z"),
    "left": ("left", "M-6,-4 L-4,-6 L0,-2 L4,-6 L6,-4 L2,0 L6,4 L4,6 L0,2 L-4,6 L-6,4 L-2,0 Z"),
    "passed on": ("left", "M-6,-6 H6 V-3 H2 V2 H6 L0,7 L-6,2 H-2 V-3 H-6 Z"),
    "taken up": ("first", "M0,-7 L6,0 H2 V6 H-2 V0 H-6 Z"),
    "compiled code": ("plan", "M0,-6 L6,0 L0,6 L-6,0 Z"),
}
WORDS = {
    "recorded": "recording",
    "nothing kept": "recording that gave nothing",
    "first replay": "first replay",
    "left": "left to CPython from here on",
    "passed on": "what it calls is recorded instead",
    "taken up": "replays are tried again",
    "compiled code": "compiled code arrived",
    "replay": "replay",
}


@dataclass(slots=True)
class Happening:
    """Something that happened to a function.

    Attributes:
        time: seconds since the program began.
        seconds: that it took; 0: it is a moment.
        what: one of the keys of `WORDS`.
        function: to which, for people.
        root: the number of the function or object.
    """

    time: float
    seconds: float
    what: str
    function: str
    root: int


def timeline(happenings: Sequence[Happening], weights: Mapping[str, float], end: float, left_out: int) -> str:
    """The picture and the table, in HTML; "" where nothing happened.

    Args:
        happenings: in the order of time.
        weights: by function; where there are too many for the picture, those that weigh most have lanes.
        end: when the process ends, in seconds.
        left_out: how many more there were.
    """
    if not happenings:
        return ""
    lanes: dict[str, list[Happening]] = {}
    for each in happenings:
        lanes.setdefault(each.function, []).append(each)
    heaviest = set(sorted(lanes, key=lambda function: -weights.get(function, 0.0))[:_MOST_LANES])
    shown = {function: each for function, each in lanes.items() if function in heaviest}
    first, last = happenings[0].time, max(each.time + each.seconds for each in happenings)
    scale = _Scale(first - (end - first) * 0.03 if first > 0.2 * end else 0.0, max(end, last, 1e-6))
    notes = [f"The first {duration(scale.start)}, before anything was recorded, are left out."] if scale.start else []
    if len(lanes) > len(shown):
        notes.append(f"Shown are the {len(shown)} functions of {len(lanes):,} that saved or lost most.")
    if left_out:
        notes.append(f"{left_out:,} more things happened, which were not noted.")
    note = f'<p class="soft">{" ".join(notes)}</p>' if notes else ""
    return "\n".join([_legend(happenings), note, "\n".join(_picture(shown, scale)), _listed(happenings)])


class _Scale:
    """Time as a share of the width."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def at(self, time: float) -> str:
        share = (time - self.start) / (self.end - self.start)
        return f"{100 * min(max(share, 0.0), 1.0):.3f}%"

    def ticks(self) -> Iterator[float]:
        """Round times, a few of them."""
        rough = (self.end - self.start) / _TICKS
        unit = 10 ** floor(log10(rough))
        step = next((unit * factor for factor in (1, 2, 5) if unit * factor >= rough), 10 * unit)
        count = floor(self.start / step) + 1
        while count * step < self.end:
            yield count * step
            count += 1


def _picture(lanes: dict[str, list[Happening]], scale: _Scale) -> Iterator[str]:
    bottom = _LANE * len(lanes)
    yield (
        f'<svg class="timeline" height="{bottom + _AXIS}" role="img" '
        'aria-label="When functions were recorded, first replayed and left to CPython; the table below has the same.">'
    )
    for time in scale.ticks():
        at = scale.at(time)
        yield f'<line class="axis" x1="{at}" x2="{at}" y1="0" y2="{bottom}"/>'
        if _EDGE < (time - scale.start) / (scale.end - scale.start) < 1 - _EDGE:
            yield f'<text class="soft" x="{at}" y="{bottom + 17}" text-anchor="middle">{_tick(time, scale)}</text>'
    for number, (function, happenings) in enumerate(lanes.items()):
        yield from _lane(function, happenings, scale, _LANE * number)
    yield "</svg>"


def _tick(time: float, scale: _Scale) -> str:
    digits = max(0, 1 - floor(log10((scale.end - scale.start) / _TICKS)))
    return f"{time:.{min(digits, 6)}f} s"


def _lane(function: str, happenings: Sequence[Happening], scale: _Scale, top: int) -> Iterator[str]:
    middle = top + 27
    yield f'<text x="4" y="{top + 15}">{escaped(function, most=90)}</text>'
    yield f'<line class="run plain" x1="0" x2="100%" y1="{middle}" y2="{middle}"/>'
    for begin, finish in _replayed(happenings, scale.end):
        yield f'<line class="run replayed" x1="{scale.at(begin)}" x2="{scale.at(finish)}" y1="{middle}" y2="{middle}"/>'
    marks = sorted(happenings[:_MOST_MARKS], key=lambda each: each.what in _SHAPES)  # shapes over bars
    yield from (_mark(each, scale, middle) for each in marks)


def _replayed(happenings: Iterable[Happening], end: float) -> Iterator[tuple[float, float]]:
    """When calls of the function were replayed, or could have been."""
    replaying: set[int] = set()
    since = 0.0
    for each in happenings:
        if each.what in {"first replay", "taken up"}:
            since = since if replaying else each.time
            replaying.add(each.root)
        elif each.what in {"left", "passed on"} and each.root in replaying:
            replaying.remove(each.root)
            if not replaying:
                yield since, each.time
    if replaying:
        yield since, end


def _mark(each: Happening, scale: _Scale, middle: int) -> str:
    title = f"<title>{_told(each)}</title>"
    if each.what in _SHAPES:
        kind, shape = _SHAPES[each.what]
        place = f'x="{scale.at(each.time)}" y="{middle}" overflow="visible"'
        return f'<svg {place}><path class="{kind}" d="{shape}">{title}</path></svg>'
    kind = "recording" if each.what == "recorded" else "nothing"
    width = max(100 * each.seconds / (scale.end - scale.start), 0.01)  # nothing is drawn that has no width at all
    return (
        f'<rect class="bar {kind}" x="{scale.at(each.time)}" y="{middle - 7}" width="{width:.2f}%" height="14">'
        f"{title}</rect>"
    )


def _told(each: Happening) -> str:
    took = f", took {duration(each.seconds)}" if each.seconds else ""
    return f"{WORDS[each.what]}: at {each.time:.3f} s{took}"


def _legend(happenings: Sequence[Happening]) -> str:
    """What the marks mean that are in the picture."""
    there = {each.what for each in happenings}
    parts = []
    for what, words in WORDS.items():
        if what not in there:
            continue
        if what in _SHAPES:
            kind, shape = _SHAPES[what]
            drawn = f'<path class="{kind}" d="{shape}" transform="translate(8 8)"/>'
        else:
            drawn = (
                f'<rect class="{"recording" if what == "recorded" else "nothing"}" x="5" y="1" width="6" height="14"/>'
            )
        parts.append(f'<li><svg width="16" height="16" aria-hidden="true">{drawn}</svg> {words}</li>')
    lines = [("replayed", "replayed from here on")] if "first replay" in there else []
    for kind, words in [*lines, ("plain", "in CPython")]:
        drawn = f'<line class="run {kind}" x1="0" x2="24" y1="8" y2="8"/>'
        parts.append(f'<li><svg width="24" height="16" aria-hidden="true">{drawn}</svg> {words}</li>')
    return f'<ul class="legend small">{"".join(parts)}</ul>'


def _listed(happenings: Sequence[Happening]) -> str:
    shown = happenings[:_MOST_ROWS]
    rows = [
        (
            Cell(f"{each.time:.4f} s", each.time),
            text_cell(each.function),
            text_cell(WORDS[each.what]),
            Cell(duration(each.seconds) if each.seconds else "", each.seconds),
        )
        for each in shown
    ]
    more = f", the first {len(shown)} of {len(happenings):,}" if len(shown) < len(happenings) else ""
    caption = f"What happened, in seconds since the program began{more}"
    return details("the same as a table", table(caption, ("at", "function", "what", "took"), rows))
