"""A graph as HTML for notebooks: a module is a part that opens and closes, its operators are rows of a table.

The name of a value in a row is a link to the row that gives it. Equal layers are shown once, with their number.
"""

from collections.abc import Iterator
from html import escape
from typing import Any

from pijit.graph.model import Graph, Node, Slice, Token, Value
from pijit.graph.model.branches import graphs_of, is_branch
from pijit.graph.show.boxes import Box, boxes_of, nodes_in
from pijit.graph.show.text import literal

_STYLE = (
    "<style>.pijit-graph { font-family: sans-serif; font-size: 13px } "
    ".pijit-graph details { margin-left: 1.2em } .pijit-graph summary { cursor: pointer } "
    ".pijit-graph table { border-collapse: collapse; margin: .2em 0 .2em 1.2em } "
    ".pijit-graph td { padding: .1em .7em; text-align: left; vertical-align: top; font-family: monospace } "
    ".pijit-graph .type { color: #868e96 } .pijit-graph a { color: inherit } "
    ".pijit-graph :target { background: #fff3bf } .pijit-graph .foreign { color: #c92a2a }</style>"
)


def to_html(graph: Graph) -> str:
    """The graph as a piece of HTML."""
    return _Page(graph).text()


class _Page:
    """Writes one graph. Its values have ids of their own on the page: `pijit-<number of the graph>-<name>`."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.box = boxes_of(graph)
        self.prefix = f"pijit-{id(graph):x}-"
        shown = {value.name for node in nodes_in(self.box) for value in node.results if value is not None}
        self.linked = shown | {value.name for value in (*graph.inputs, *graph.parameters)}

    def text(self) -> str:
        graph = self.graph
        count = len(graph.nodes)
        foreign = f", foreign: {escape(', '.join(graph.foreign))}" if graph.foreign else ""
        lines = [
            f'{_STYLE}<div class="pijit-graph"><b>{escape(graph.name)}</b>: {count} operators{foreign}',
            *self.values("inputs", graph.inputs, is_open=True),
            *self.values("parameters", graph.parameters, is_open=False),
            *self.part(self.box, is_open=True),
            f"<div>returns <code>{self.shown_argument(graph.outputs)}</code></div>",
            "</div>",
        ]
        return "\n".join(lines)

    def inner(self, name: str) -> Iterator[str]:
        """The graph as a part of another one's page: what its node calls it, what it takes, does and gives."""
        count = sum(1 for _ in nodes_in(self.box))
        yield f"<details><summary><b>{escape(name)}</b>, {count} operators</summary>"
        yield from self.values("inputs", self.graph.inputs, is_open=False)
        yield from self.contents(self.box)
        yield f"<div>gives <code>{self.shown_argument(self.graph.outputs)}</code></div></details>"

    def values(self, title: str, values: tuple[Value, ...], *, is_open: bool) -> Iterator[str]:
        if not values:
            return
        yield f"<details{' open' if is_open else ''}><summary>{title} ({len(values)})</summary><table>"
        for value in values:
            yield (
                f'<tr id="{self.id(value)}"><td>{escape(value.path or value.name)}</td>'
                f'<td class="type">{escape(value.type)}</td></tr>'
            )
        yield "</table></details>"

    def part(self, box: Box, *, is_open: bool) -> Iterator[str]:
        """A module: its operators as tables, the modules that it calls between them."""
        count = sum(1 for _ in nodes_in(box))
        times = f" <b>&times; {box.times}</b>" if box.times > 1 else ""
        said = f"<b>{escape(box.title)}</b>{times}, {count} operators"
        yield f"<details{' open' if is_open else ''}><summary>{said}</summary>"
        yield from self.contents(box)
        yield "</details>"

    def contents(self, box: Box) -> Iterator[str]:
        """What is in a module, and places for the values of its twins."""
        in_table = False
        for item in box.items:
            is_node = isinstance(item, Node)
            if is_node != in_table:
                yield "<table>" if is_node else "</table>"
                in_table = is_node
            if isinstance(item, Node):
                yield self.row(item)
                if is_branch(item):
                    yield "</table>"
                    in_table = False
                    for name, graph in graphs_of(item).items():
                        yield from _Page(graph).inner(name)
            else:
                yield from self.part(item, is_open=False)
        if in_table:
            yield "</table>"
        for twin in box.twins:
            yield "".join(f'<span id="{self.id(value)}"></span>' for node in nodes_in(twin) for value in _given(node))

    def row(self, node: Node) -> str:
        given = _given(node)
        ids = "".join(f'<span id="{self.id(value)}"></span>' for value in given)
        names = escape(", ".join(value.name for value in given))
        types = escape(", ".join(value.type for value in given))
        arguments = ", ".join(
            f"{escape(name)}={self.shown_argument(argument)}" for name, argument in node.arguments.items()
        )
        kind = ' class="foreign"' if node.is_foreign else ""
        place = escape(f"{node.file.rpartition('/')[2]}:{node.line}") if node.file else ""
        return (
            f"<tr><td>{ids}{names}</td><td{kind}>{escape(node.op)}</td><td>{arguments}</td>"
            f'<td class="type">{types}</td><td class="type" title="{escape(node.place)}">{place}</td></tr>'
        )

    def shown_argument(self, argument: Any) -> str:
        if isinstance(argument, Value):
            said = escape(argument.path or argument.name)
            return f'<a href="#{self.id(argument)}">{said}</a>' if argument.name in self.linked else said
        if isinstance(argument, Slice):
            parts = ("" if each is None else self.shown_argument(each) for each in (argument.start, argument.stop))
            step = "" if argument.step is None else f":{self.shown_argument(argument.step)}"
            return f"{':'.join(parts)}{step}"
        if isinstance(argument, tuple | list):
            start, end = "()" if isinstance(argument, tuple) else "[]"
            return f"{start}{', '.join(map(self.shown_argument, argument))}{end}"
        if isinstance(argument, dict):
            items = (f"{escape(repr(name))}: {self.shown_argument(item)}" for name, item in argument.items())
            return f"{{{', '.join(items)}}}"
        if isinstance(argument, Graph):
            return f"<i>{escape(argument.name)}</i>"
        return escape(str(argument) if isinstance(argument, Token) else literal(argument))

    def id(self, value: Value) -> str:
        return escape(self.prefix + value.name)


def _given(node: Node) -> list[Value]:
    return [value for value in node.results if value is not None]
