"""The core's tables for people: operations, guards, reasons, options, and a page for every code."""

import os
import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from pijit import _core
from pijit._config import OPTIONS, config

_WHAT = {
    "aborts": "Recording stops there. What was recorded before it is replayed; the rest of each call runs in CPython.",
    "left": "The function's calls run in CPython, or gain little.",
}


def ops() -> str:
    """The operations of a trace."""
    return _columns([(name, effect, doc) for name, effect, doc in _core.tables()["ops"]])


def guards() -> str:
    """What is checked before a trace is replayed."""
    return _columns([(name, doc) for name, doc in _core.tables()["guards"]])


def aborts() -> str:
    """Every code with what happened."""
    tables = _core.tables()
    return _columns([(code, name, text) for code, name, text, _ in (*tables["left"], *tables["aborts"])])


def options() -> str:
    """The options with their values now."""
    return _columns(
        [(name, repr(getattr(config, name)), row.variable, row.doc) for name, row in OPTIONS.items()]
        + [("", "", "PIJIT", "0, off, false or no: pijit does nothing")]
    )


def passes() -> str:
    """The passes over a graph, in the order in which they run."""
    from pijit import passes as all_passes

    left = all_passes.chosen(os.environ.get("PIJIT_PASSES", ""))
    rows = [(name, "on" if name in left else "off", all_passes.doc(name)) for name in all_passes.order()]
    rows.append(("equal_regions", "asked", "one function of modules that do the same (pijit.passes.equal_regions)"))
    rows.append(("", "", "PIJIT_PASSES=-NAME,... switches off; PIJIT_DUMP=passes prints the graph before and after"))
    return _columns(rows)


class Code(NamedTuple):
    """The row of a code: its name, what happened, what to try, and what that means for the function."""

    name: str
    text: str
    advice: str
    what: str


def row(code: str) -> Code:
    """The row of a code; `KeyError` if there is none."""
    tables = _core.tables()
    for kind, what in _WHAT.items():
        for each, name, text, advice in tables[kind]:
            if each == code:
                return Code(name, text, advice, what)
    raise KeyError(code)


def page(code: str) -> str:
    """What a code means and what to try; `KeyError` if there is none."""
    name, text, advice, what = row(code)
    return "\n\n".join([f"{code} {name}: {text}", _filled(what), _filled(f"What to try: {advice}")])


def _filled(text: str) -> str:
    return textwrap.fill(text, 100, initial_indent="  ", subsequent_indent="  ")


def _columns(rows: Sequence[tuple[str, ...]]) -> str:
    """Rows with aligned columns, the last one free."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widths[-1] = 0
    return "\n".join("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows)
