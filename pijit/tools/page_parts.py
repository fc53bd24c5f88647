"""What a page in HTML is made of: text that is escaped, tables, the style, and the few lines that sort a table.

The page needs nothing from elsewhere and no script: without scripts its tables stand in the order in which they came.
Names of functions and files come from the program, and may be anything. All of them go through `escaped`.
"""

import html
import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

# Categories of characters that would change how the text around them reads, or that HTML and UTF-8 do not have.
_UNSHOWN = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}


class Cell(NamedTuple):
    """A cell of a table: its HTML, and the number by which its column is sorted; None: by its text."""

    html: str
    number: float | None = None
    kind: str = ""  # the class of the style


def escaped(text: object, *, most: int = 400) -> str:
    """The text as HTML, on one line or more, with a mark where it was longer than `most` characters.

    Example:
        >>> escaped("a<b>")
        'a&lt;b&gt;'
    """
    shown = str(text)
    if len(shown) > most:
        shown = f"{shown[: most // 2]} [{len(shown) - most:,} more] {shown[-most // 2 :]}"
    if not shown.isprintable():
        shown = "".join(map(_visible, shown))
    return html.escape(shown)


def _visible(letter: str) -> str:
    if letter in "\n\t" or unicodedata.category(letter) not in _UNSHOWN:
        return letter
    return letter.encode("unicode_escape").decode("ascii")


def text_cell(text: object) -> Cell:
    """A cell of plain text."""
    return Cell(escaped(text))


def unknown_cell() -> Cell:
    """A cell of what was not measured: less than all numbers."""
    return Cell('<span class="soft">not measured</span>', float("-inf"))


def count_cell(count: int) -> Cell:
    """A cell of a count."""
    return Cell(f"{count:,}" if count else '<span class="soft">0</span>', count)


def table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]], total: Sequence[Cell] = ()) -> str:
    """A table that can be sorted by each column, and scrolled where the page is narrower.

    Args:
        caption: what the table shows, plain text.
        columns: their headings, plain text.
        rows: a cell for each column; the first heads its row.
        total: a last row, which stays last.
    """
    rows = list(rows)
    kinds = [' class="number"' if cell.number is not None else "" for cell in rows[0]] if rows else [""] * len(columns)
    heads = (f'<th scope="col"{kind}>{escaped(name)}</th>' for name, kind in zip(columns, kinds, strict=True))
    lines = [f'<div class="wide" role="region" aria-label="{escaped(caption)}" tabindex="0"><table>']
    lines += [f"<caption>{escaped(caption)}</caption>", f"<thead><tr>{''.join(heads)}</tr></thead>"]
    lines += ["<tbody>", *map(_row, rows), "</tbody>"]
    if total:
        lines += ["<tfoot>", _row(total), "</tfoot>"]
    return "\n".join([*lines, "</table></div>"])


def _row(cells: Sequence[Cell]) -> str:
    made = []
    for at, cell in enumerate(cells):
        kind = f"{cell.kind} number".strip() if cell.number is not None else cell.kind
        attributes = f' class="{kind}"' if kind else ""
        if cell.number is not None:
            attributes += f' data-number="{cell.number:.9g}"'.replace("-inf", "-Infinity")
        made.append(f'<th scope="row"{attributes}>{cell.html}</th>' if at == 0 else f"<td{attributes}>{cell.html}</td>")
    return f"<tr>{''.join(made)}</tr>"


def details(summary: str, body: str, *, kind: str = "") -> str:
    """What is shown when it is asked for; both in HTML."""
    attributes = f' class="{kind}"' if kind else ""
    return f"<details{attributes}><summary>{summary}</summary>\n{body}\n</details>"


def document(title: str, body: Sequence[str]) -> str:
    """The whole page."""
    head = [
        '<head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escaped(title)}</title>",
        f"<style>{STYLE}</style></head>",
    ]
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            *head,
            "<body>",
            *body,
            f"<script>{SCRIPT}</script>",
            "</body>",
            "</html>",
        ]
    )


STYLE = """
:root { color-scheme: light dark;
  --ground: #ffffff; --ink: #1c2128; --soft: #59636e; --line: #d1d9e0; --band: #f4f6f8;
  --gain: #116329; --loss: #b0121f; --accent: #0757ba; --warm: #8a4b00; --plan: #7534c4;
  --gain-band: #dff5e3; --loss-band: #ffe5e3; --warm-band: #fff1d6; --accent-band: #e2efff }
@media (prefers-color-scheme: dark) { :root {
  --ground: #12161c; --ink: #e4e9ef; --soft: #9aa5b1; --line: #343c46; --band: #1b2129;
  --gain: #63d47f; --loss: #ff8f87; --accent: #7db6ff; --warm: #f0b45a; --plan: #c9a4ff;
  --gain-band: #14331d; --loss-band: #451c1c; --warm-band: #3b2b10; --accent-band: #15304f } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1.5rem; max-width: 84rem; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", "Liberation Sans", sans-serif }
h1 { margin: 0; font-size: 1.6rem; overflow-wrap: anywhere }
h2 { margin: 2.4rem 0 .4rem; font-size: 1.2rem; border-bottom: 1px solid var(--line); padding-bottom: .2rem }
h3 { margin: 1.2rem 0 .3rem; font-size: 1rem; overflow-wrap: anywhere }
h3 .soft { font-weight: normal }
p { margin: .4rem 0; max-width: 68rem }
a { color: var(--accent) }
nav { margin: .8rem 0 }
nav a { margin-right: 1.1rem; white-space: nowrap }
code, pre, .code { font-family: ui-monospace, "DejaVu Sans Mono", "Liberation Mono", monospace; font-size: .86em }
pre { overflow-x: auto; padding: .6rem .8rem; background: var(--band); border-radius: 4px; line-height: 1.4 }
.soft { color: var(--soft) }
.small { font-size: .86em }
.gain { color: var(--gain) } .loss { color: var(--loss) }
dl.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(7.2rem, 1fr)); gap: .6rem; margin: 1rem 0 }
dl.figures div { border: 1px solid var(--line); border-radius: 6px; padding: .5rem .7rem; background: var(--band);
  display: flex; flex-direction: column; justify-content: space-between }
dl.figures dt { color: var(--soft); font-size: .86em }
dl.figures dd { margin: 0; font-size: 1.3rem; font-variant-numeric: tabular-nums }
.wide { overflow-x: auto; position: relative }
table { border-collapse: collapse; width: 100% }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap }
th, td { padding: .35rem .7rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top }
th[scope=row] { font-weight: normal; min-width: 8rem; overflow-wrap: anywhere; position: sticky; left: 0;
  background: var(--ground) }
thead th { background: var(--band); vertical-align: bottom; white-space: nowrap }
thead button { padding: 0; border: 0; background: none; color: inherit; font: inherit; font-weight: 600;
  cursor: pointer }
thead button::after { content: " \\2195"; color: var(--soft) }
[aria-sort=ascending] button::after { content: " \\2191"; color: inherit }
[aria-sort=descending] button::after { content: " \\2193"; color: inherit }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
tfoot th, tfoot td { font-weight: 600; border-bottom: 0 }
.reason { min-width: 14rem; overflow-wrap: anywhere }
.state { display: inline-block; padding: 0 .5em; border-radius: 1em; background: var(--band); white-space: nowrap;
  border: 1px solid var(--line) }
.state.replaying { color: var(--gain); background: var(--gain-band) }
.state.recorded { color: var(--accent); background: var(--accent-band) }
.state.disabled { color: var(--loss); background: var(--loss-band) }
details { margin: .4rem 0; border: 1px solid var(--line); border-radius: 6px; padding: .3rem .8rem }
summary { cursor: pointer; overflow-wrap: anywhere }
table.listing { table-layout: fixed; margin: .5rem 0 }
table.listing th, table.listing td { border: 0; padding: .12rem .6rem; white-space: pre-wrap; overflow-wrap: anywhere;
  line-height: 1.4 }
table.listing thead th { padding: .3rem .6rem; font-family: inherit }
table.listing tbody { font-family: ui-monospace, "DejaVu Sans Mono", "Liberation Mono", monospace; font-size: .86em }
table.listing tbody tr:nth-child(even) { background: var(--band) }
.mark { display: block; padding: 0 .4em; border-left: 3px solid transparent }
.listing .mark { padding-left: 10ch; text-indent: -9ch }
.mark.opaque { border-color: var(--warm); background: var(--warm-band) }
.mark.left { border-color: var(--loss); background: var(--loss-band) }
.mark.planned { border-color: var(--plan) }
.legend .mark { display: inline-block; margin-right: 1rem }
svg.timeline { display: block; width: 100%; overflow: hidden }
svg text { fill: var(--ink); font-size: 12.5px }
svg .soft { fill: var(--soft) }
svg .axis { stroke: var(--line) }
svg .run { fill: none; stroke-width: 5 }
svg .plain { stroke: var(--line) } svg .replayed { stroke: var(--gain); stroke-width: 5 }
svg .bar { stroke-width: 2.5 }
svg .recording { fill: var(--accent); stroke: var(--accent) }
svg .nothing { fill: var(--warm); stroke: var(--warm) }
svg .first { fill: var(--gain) } svg .left { fill: var(--loss) } svg .plan { fill: var(--plan) }
ul.legend { list-style: none; padding: 0; margin: .3rem 0; display: flex; flex-wrap: wrap; gap: .2rem 1.4rem }
ul.legend svg { vertical-align: -3px }
@media (max-width: 44rem) { body { padding: .8rem; font-size: 14px } th, td { padding: .3rem .4rem }
  th[scope=row]:not(.reason) { max-width: 11rem } td.reason { min-width: 20rem }
  thead button::after { content: none } }
@media print { body { max-width: none; padding: 0; font-size: 10pt } nav { display: none }
  thead button::after { content: none }
  .wide, pre { overflow: visible } th[scope=row] { position: static }
  pre { white-space: pre-wrap } tr, svg.timeline { break-inside: avoid }
  h2, h3 { break-after: avoid } }
"""

# A heading becomes a button that sorts: first by the largest, or by the first letter; then the other way round.
SCRIPT = """
for (const head of document.querySelectorAll("table:not(.listing) thead th")) {
  const button = document.createElement("button"), body = head.closest("table").tBodies[0];
  button.textContent = head.textContent;
  head.replaceChildren(button);
  button.onclick = () => {
    const at = head.cellIndex, before = head.getAttribute("aria-sort");
    const number = row => row.cells[at].dataset.number, text = row => row.cells[at].textContent;
    const numbers = [...body.rows].some(number), down = before ? before == "ascending" : numbers;
    const order = (a, b) => numbers ? number(a) - number(b) : text(a).localeCompare(text(b));
    body.append(...[...body.rows].sort((a, b) => down ? order(b, a) : order(a, b)));
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
  };
}
"""
