"""A picture of a graph: modules as nested boxes, operators in them from top to bottom, types on the edges.

Layout. What stands in a box is one column, in the order in which it ran. A value that the next item takes is an arrow
between the two, with its type. One that a later item takes runs in a lane at the right side of the column. What comes
from outside of a box, or is used outside of it, begins at its upper edge and ends at its lower one. So each edge is
drawn in the innermost box that has both its ends, and no line crosses an operator.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

from pijit.graph import vocabulary
from pijit.graph.model import Graph, Node, Slice, Value, values_of
from pijit.graph.model.branches import given, graphs_of, is_branch
from pijit.graph.show import svg
from pijit.graph.show.boxes import Box, boxes_of, is_of_sizes, nodes_in

_FONT = 12
_SMALL = 10
_PAD = 18  # between the edge of a box and what is in it
_GAP = 34  # between two items; the type stands there
_LANE = 16
_STEP = 5  # between the lines that run along a row
_TITLE = 26
_SHADOW = 5  # of a box that stands for several

# Fill and edge by the family of an operator.
_COLOURS = {
    "elementwise": ("#e7f5ff", "#74a9d8"),
    "linear algebra": ("#fff3bf", "#d6ad2b"),
    "convolution and pooling": ("#fff3bf", "#d6ad2b"),
    "normalisation": ("#e6fcf5", "#63b398"),
    "training": ("#e6fcf5", "#63b398"),
    "loss": ("#ffe8cc", "#dd9a4f"),
    "comparison and logic": ("#e7f5ff", "#74a9d8"),
    "attention": ("#f3e8ff", "#a77bd1"),
    "reduction": ("#ffe8cc", "#dd9a4f"),
    "activation": ("#ffe3e3", "#d98888"),
    "": ("#f1f3f5", "#adb5bd"),
}
_FOREIGN = ("#ffe3e3", "#c92a2a")
_OUTER = ("#ffffff", "#868e96")


# The items at its ends; of rows of inputs and outputs also the name of the one of them.
_Edge = tuple[int, int, str]


@dataclass(slots=True)
class _Item:
    """Something with a place: an operator, a box, or a row of inputs or outputs.

    Attributes:
        lines: what is written in it, the first one larger.
        hint: what is shown when the mouse is over it.
        gives: names of the values that come out of it.
        takes: the values that go into it.
    """

    lines: list[str]
    hint: str
    fill: str
    edge: str
    gives: set[str]
    takes: dict[str, Value]
    width: float = 0
    height: float = 0
    times: int = 1
    column: "_Column | None" = None
    row: list["_Item"] = field(default_factory=list)


@dataclass(slots=True)
class _Column:
    """The items of a box, and the edges between them; -1 is the upper edge of the box, the last one the lower."""

    items: list[_Item]
    edges: dict[_Edge, list[Value]]
    lanes: dict[_Edge, int] = field(default_factory=dict)
    width: float = 0


def to_svg(graph: Graph) -> str:
    """The picture as the text of an SVG file."""
    box = boxes_of(graph)
    inputs = [(value.name, value) for value in graph.inputs]
    outputs = [(path or "output", value) for path, value in _places(graph.outputs, "")]
    items = [_row(inputs, takes=False)] if inputs else []
    items += [_item(each, graph) for each in box.items]
    if outputs:
        items.append(_row(outputs, takes=True))
    whole = _Item([box.title], graph.name, "#fafbfc", "#868e96", set(), {})
    whole.column = _column(items, set(), top=True)
    _measure(whole)
    canvas: list[str] = []
    _draw(whole, 1, 1, canvas)
    return svg.file(whole.width + 2, whole.height + 2, graph.name, _FONT, canvas)


# --- what is drawn ------------------------------------------------------------------------------


def _places(structure: Any, path: str) -> Iterator[tuple[str, Value]]:
    """Each value of the outputs, with where it stands: "loss", "states[0]"."""
    if isinstance(structure, Value):
        yield path, structure
    elif isinstance(structure, tuple | list):
        for at, item in enumerate(structure):
            yield from _places(item, f"{path}[{at}]")
    elif isinstance(structure, Mapping):
        for name, item in structure.items():
            yield from _places(item, f"{path}.{name}" if path else str(name))


def _row(values: Iterable[tuple[str, Value]], *, takes: bool) -> _Item:
    """The inputs or outputs, side by side."""
    row = []
    for name, value in values:
        what = "output" if takes else "input"
        one = _Item(
            [_cut(name, 30), value.type], f"{what} {name}: {value.type}", *_OUTER,
            set() if takes else {value.name}, {value.name: value} if takes else {},
        )  # fmt: skip
        row.append(one)
    gives = {name for one in row for name in one.gives}
    return _Item([], "", "", "", gives, {name: value for one in row for name, value in one.takes.items()}, row=row)


def _item(thing: Box | Node, graph: Graph) -> _Item:
    if isinstance(thing, Node):
        return _branch(thing) if is_branch(thing) else _operator(thing, "")
    inner = [_item(each, graph) for each in thing.items]
    if len(thing.items) == 1 and isinstance(only := thing.items[0], Node) and thing.times == 1 and not is_branch(only):
        return _operator(only, f"{thing.path.rpartition('.')[2]}: {thing.type}")
    nodes = list(nodes_in(thing))
    gives = {value.name for node in nodes for value in node.results if value is not None}
    takes = {value.name: value for node in nodes for value in node.operands if value.name not in gives}
    made = _Item([thing.title], thing.title, "#ffffff", "#868e96", gives, _arrays(takes), times=thing.times)
    made.column = _column(inner, _used_outside(gives, thing, graph), top=False)
    return made


def _branch(node: Node) -> _Item:
    """A decision or a loop: a box for each of its graphs, with edges from and to the edge of the whole."""
    taken = {value.name: value for value in node.operands}
    gives = {value.name for value in node.results if value is not None}
    hint = "\n".join(filter(None, (node.op, node.region, os.path.basename(node.place))))
    made = _Item([node.op], hint, "#ffffff", "#868e96", gives, _arrays(taken))
    inner = [_side(name, graph, given(node)) for name, graph in graphs_of(node).items()]
    made.column = _column(inner, set(), top=False)
    if gives:
        for at, (name, _) in enumerate(graphs_of(node).items()):
            if name != "condition":
                made.column.edges[at, len(inner), ""] = []
    return made


def _side(name: str, graph: Graph, values: tuple[Any, ...]) -> _Item:
    """A graph in a node; it takes what the node is given for those of its inputs that something in it takes."""
    box = boxes_of(graph)
    used = {value.name for node in graph.nodes for value in node.operands} | {value.name for value in graph.results}
    pairs = zip(graph.inputs, values, strict=True)
    takes = {each.name: each for value, each in pairs if value.name in used and isinstance(each, Value)}
    made = _Item([name], graph.name, "#fafbfc", "#adb5bd", set(), _arrays(takes))
    made.column = _column([_item(each, graph) for each in box.items], {each.name for each in graph.results}, top=False)
    return made


def _used_outside(gives: set[str], box: Box, graph: Graph) -> set[str]:
    """Names of the values of a box that something outside of it takes."""
    own = {id(node) for node in nodes_in(box)}
    others = (node for node in graph.nodes if id(node) not in own and not is_of_sizes(node))
    used = {value.name for node in others for value in node.operands}
    used |= {value.name for value in graph.results} | {value.name for _, value in graph.updates}
    first = {
        value.name
        for node in nodes_in(Box(box.path, box.type, box.items))
        for value in node.results
        if value is not None
    }
    if box.twins:  # what the next of its twins takes
        used |= {value.name for node in nodes_in(box.twins[0]) for value in node.operands}
    return gives & first & used


def _arrays(values: Mapping[str, Value]) -> dict[str, Value]:
    """Without parameters, which are written in the operator, and without numbers."""
    return {
        name: value
        for name, value in values.items()
        if value.kind in {"tensor", "object"} and value.role in {"input", "result"}
    }


def _operator(node: Node, module: str) -> _Item:
    row = vocabulary.rows().get(node.op)
    fill, edge = _FOREIGN if node.is_foreign else _COLOURS.get(row.family if row else "", _COLOURS[""])
    held = [
        f"{name} {_sizes(value)}"
        for name, argument in node.arguments.items()
        for value in values_of(argument)
        if value.role in {"parameter", "buffer", "constant"}
    ]
    literals = [
        f"[{index(argument)}]" if name == "index" else f"{name}={index(argument)}"
        for name, argument in node.arguments.items()
        if not any(True for _ in values_of(argument)) and name not in {"shape", "epsilon", "momentum"}
    ]
    small = [_cut(part) for part in (module, ", ".join(held), ", ".join(literals)) if part]
    written = f" (writes {', '.join(node.writes)})" if node.writes else ""
    takes = {value.name: value for value in node.operands}
    hint = "\n".join(filter(None, (f"{node.op}{written}", node.region, os.path.basename(node.place), node.origin)))
    gives = {value.name for value in node.results if value is not None}
    return _Item([f"{node.op}{written}", *small], hint, fill, edge, gives, _arrays(takes))


def index(argument: Any) -> str:
    """A literal as it stands in brackets."""
    if isinstance(argument, Slice):
        start, stop, step = (
            "" if part is None else str(part) for part in (argument.start, argument.stop, argument.step)
        )
        return f"{start}:{stop}{f':{step}' if step else ''}"
    if isinstance(argument, tuple):
        return ", ".join(map(index, argument))
    return "..." if argument is ... else str(argument)


def _sizes(value: Value) -> str:
    return f"[{', '.join(map(str, value.shape))}]" if value.shape is not None else ""


def _cut(text: str, length: int = 60) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."


def _column(items: list[_Item], used: set[str], *, top: bool) -> _Column:
    """The edges of a column: from the item that gives a value, or -1, to each that takes it, or the last."""
    giver = {name: at for at, item in enumerate(items) for name in item.gives}
    edges: dict[_Edge, list[Value]] = {}
    for at, item in enumerate(items):
        for name, value in item.takes.items():
            start = giver.get(name, -1)
            if start < at and not (top and start < 0):
                in_row = item.row or (start >= 0 and items[start].row)
                edges.setdefault((start, at, name if in_row else ""), []).append(value)
    for name in sorted(used & giver.keys()):
        edges.setdefault((giver[name], len(items), ""), [])
    return _Column(items, edges)


# --- where it is drawn --------------------------------------------------------------------------


def _measure(item: _Item) -> None:
    """Sets the width and height of an item, and of all in it."""
    text = max([_width(line, _FONT if at == 0 else _SMALL) for at, line in enumerate(item.lines)], default=0)
    if item.row:
        for one in item.row:
            _measure(one)
        item.width = sum(one.width for one in item.row) + _PAD * (len(item.row) - 1)
        item.height = max(one.height for one in item.row)
        return
    if item.column is None:
        item.width = max(text + 22, 70)
        item.height = 14 + _FONT + (_SMALL + 3) * (len(item.lines) - 1)
        return
    column = item.column
    for each in column.items:
        _measure(each)
    _assign_lanes(column)
    lanes = max(column.lanes.values(), default=-1) + 1
    widest = max((each.width for each in column.items), default=0)
    for edge, values in column.edges.items():  # the type beside an arrow may be wider than the items
        if edge not in column.lanes:
            label = _width(_label(values), _SMALL)
            widest = max(widest, 2 * label + 16)
    column.width = widest
    badge = 44 if item.times > 1 else 0
    item.width = max(widest + 2 * _PAD + lanes * _LANE, text + 2 * _PAD + badge)
    shadow = 2 * _SHADOW if item.times > 1 else 0
    heights = sum(each.height for each in column.items) + sum(map(_gap, column.items, column.items[1:]))
    item.height = _TITLE + heights + 2 * _GAP - 6 + shadow
    item.width += shadow


def _gap(above: _Item, below: _Item) -> float:
    """The space between two items: lines to and from a row run in it, one above the other."""
    return _GAP + _STEP * max(len(above.row), len(below.row))


def _width(text: str, size: float) -> float:
    return 0.57 * size * len(text)


def _assign_lanes(column: _Column) -> None:
    """Gives each edge that passes an item a lane; short ones run inside."""
    taken: list[list[tuple[int, int]]] = []
    for edge in sorted(column.edges, key=lambda edge: (edge[1] - edge[0], edge)):
        start, stop, _ = edge
        if stop == start + 1:
            continue
        lane = 0
        while lane < len(taken) and any(start < other[1] and other[0] < stop for other in taken[lane]):
            lane += 1
        if lane == len(taken):
            taken.append([])
        taken[lane].append((start, stop))
        column.lanes[edge] = lane


def _label(values: list[Value]) -> str:
    if not values:
        return ""
    more = f" +{len(values) - 1}" if len(values) > 1 else ""
    return f"{values[0].type}{more}"


# --- how it is drawn ----------------------------------------------------------------------------


def _draw(item: _Item, x: float, y: float, canvas: list[str]) -> None:
    if item.row:
        for one in item.row:
            _draw(one, x, y + (item.height - one.height) / 2, canvas)
            x += one.width + _PAD
    elif item.column is not None:
        _draw_box(item, item.column, (x, y), canvas)
    else:
        canvas.append(f"<g><title>{escape(item.hint)}</title>")
        canvas.append(svg.rectangle((x, y, item.width, item.height), item.fill, item.edge, 6))
        line = y + 7 + _FONT - 1
        for at, text in enumerate(item.lines):
            size, colour = (_FONT, "#212529") if at == 0 else (_SMALL, "#5c636a")
            canvas.append(svg.text((x + item.width / 2, line), text, size, colour, anchor="middle"))
            line += _SMALL + 3
        canvas.append("</g>")


def _draw_box(item: _Item, column: _Column, at: svg.Point, canvas: list[str]) -> None:
    x, y = at
    width, height = item.width, item.height
    if item.times > 1:
        width, height = width - 2 * _SHADOW, height - 2 * _SHADOW
        for back in (2 * _SHADOW, _SHADOW):
            canvas.append(svg.rectangle((x + back, y + back, width, height), "#f1f3f5", item.edge, 10))
    canvas.append(svg.rectangle((x, y, width, height), item.fill, item.edge, 10))
    canvas.append(svg.text((x + 12, y + 17), item.lines[0], _FONT, "#495057", bold=True))
    if item.times > 1:
        said = f"\u00d7 {item.times}"
        canvas.append(svg.rectangle((x + width - 50, y + 5, 42, 18), "#343a40", "#343a40", 9))
        canvas.append(svg.text((x + width - 29, y + 18), said, _SMALL + 1, "#ffffff", anchor="middle", bold=True))
    centre = x + _PAD + column.width / 2
    places = []
    below = y + _TITLE + _GAP - 6
    for place, each in enumerate(column.items):
        places.append((centre - each.width / 2, below))
        below += each.height + (_gap(each, column.items[place + 1]) if place + 1 < len(column.items) else 0)
    lines = _Lines(column, places, (x, y, width, height))
    for edge, values in column.edges.items():
        canvas.append(lines.draw(edge, values))
    for each, (left, top) in zip(column.items, places, strict=True):
        _draw(each, left, top, canvas)


class _Lines:
    """The lines of one column, whose items have their places in the frame of a box."""

    def __init__(self, column: _Column, places: list[svg.Point], frame: svg.Frame) -> None:
        self.items, self.lanes, self.places = column.items, column.lanes, places
        left, top, _, height = frame
        self.top, self.bottom = top + _TITLE, top + height - 2
        self.centre = left + _PAD + column.width / 2
        self.first_lane = left + _PAD + column.width + 10

    def draw(self, edge: _Edge, values: list[Value]) -> str:
        start, stop, _ = edge
        if edge in self.lanes:
            lane = self.first_lane + _LANE * self.lanes[edge]
            return svg.arrow(self.into(start, lane, values) + self.out_of(stop, lane, values), _label(values))
        (x, y), (to_x, to_y) = self.below(start, values), self.above(stop, values)
        in_row = stop < len(self.items) and bool(self.items[stop].row)
        bend = to_y - 12 - _STEP * self.rank(stop, values) if in_row else y + 7 + _STEP * self.rank(start, values)
        way = svg.line((x, bend)) + svg.line((to_x, bend)) if x != to_x else ""
        made = svg.arrow(svg.move((x, y)) + way + svg.line((to_x, to_y)), _label(values))
        if start < 0 or in_row:
            return made
        middle = max((y + to_y) / 2, bend + 8) if way else (y + to_y) / 2 - 1
        return made + svg.text((to_x + 7, middle + 4), _label(values), _SMALL, "#868e96")

    def into(self, at: int, lane: float, values: list[Value]) -> str:
        """From an item into a lane."""
        if at < 0:
            return svg.move((lane, self.top))
        if self.items[at].row:
            x, y = self.below(at, values)
            bend = y + 7 + _STEP * self.rank(at, values)
            turn = svg.corner((lane - 6, bend), (lane, bend), (lane, bend + 6))
            return svg.move((x, y)) + svg.line((x, bend)) + turn
        x, y = self.right_of(at, 0.65)
        return svg.move((x, y)) + svg.corner((lane - 6, y), (lane, y), (lane, y + 6))

    def out_of(self, at: int, lane: float, values: list[Value]) -> str:
        """From a lane into an item."""
        if at == len(self.items):
            return svg.line((lane, self.bottom))
        if self.items[at].row:
            x, y = self.above(at, values)
            bend = y - 12 - _STEP * self.rank(at, values)
            turn = svg.corner((lane, bend - 6), (lane, bend), (lane - 6, bend))
            return turn + svg.line((x, bend)) + svg.line((x, y))
        x, y = self.right_of(at, 0.35)
        return svg.corner((lane, y - 6), (lane, y), (lane - 6, y)) + svg.line((x, y))

    def below(self, at: int, values: list[Value]) -> svg.Point:
        """Where a line leaves an item, or the upper edge of the box."""
        if at < 0:
            return self.centre, self.top
        return self.middle(at, values), self.places[at][1] + self.items[at].height

    def above(self, at: int, values: list[Value]) -> svg.Point:
        """Where a line comes to an item, or to the lower edge of the box."""
        if at == len(self.items):
            return self.centre, self.bottom
        return self.middle(at, values), self.places[at][1]

    def rank(self, at: int, values: list[Value]) -> int:
        """Of an input or output in its row, from the right: its line runs so far from the row that none crosses it."""
        row = self.items[at].row if 0 <= at < len(self.items) else []
        return next((count for count, one in enumerate(reversed(row)) if _has(one, values)), 0)

    def middle(self, at: int, values: list[Value]) -> float:
        """The middle of an item; of a row that of the input or output that has the value."""
        x = self.places[at][0]
        for one in self.items[at].row:
            if _has(one, values):
                return x + one.width / 2
            x += one.width + _PAD
        return self.centre

    def right_of(self, at: int, part: float) -> svg.Point:
        """A point at the right edge of an item."""
        item, (x, y) = self.items[at], self.places[at]
        return x + item.width, y + item.height * (part if item.column is None else 0.5)


def _has(item: _Item, values: list[Value]) -> bool:
    return any(value.name in item.gives or value.name in item.takes for value in values[:1])
