"""Pieces of an SVG file: rectangles, texts, lines with an arrow."""

from html import escape

Point = tuple[float, float]
# Left, upper edge, width, height.
Frame = tuple[float, float, float, float]


def file(width: float, height: float, title: str, size: int, pieces: list[str]) -> str:
    """The whole file; `size` is that of its letters."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="{size}">',
            f"<title>{escape(title)}</title>",
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#495057"/></marker></defs>',
            *pieces,
            "</svg>",
            "",
        ]
    )


def rectangle(frame: Frame, fill: str, edge: str, rounding: float) -> str:
    """A rectangle with round corners."""
    x, y, width, height = frame
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{rounding}" fill="{fill}" '
        f'stroke="{edge}"/>'
    )


def text(at: Point, said: str, size: float, colour: str, *, anchor: str = "start", bold: bool = False) -> str:
    """A line of text; `at` is on its base line."""
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}"{weight}>'
        f"{escape(said)}</text>"
    )


def arrow(path: str, hint: str) -> str:
    """A line with an arrow at its end; `hint` is shown when the mouse is over it."""
    shown = f"<title>{escape(hint)}</title>" if hint else ""
    return f'<path d="{path}" fill="none" stroke="#495057" stroke-width="1.1" marker-end="url(#arrow)">{shown}</path>'


def move(to: Point) -> str:
    """The beginning of a path."""
    return f"M{to[0]:.1f} {to[1]:.1f} "


def line(to: Point) -> str:
    """A straight piece of a path."""
    return f"L{to[0]:.1f} {to[1]:.1f} "


def corner(start: Point, over: Point, to: Point) -> str:
    """A straight piece of a path to `start`, and a round corner at `over`."""
    return f"{line(start)}Q{over[0]:.1f} {over[1]:.1f} {to[0]:.1f} {to[1]:.1f} "
