"""Passes over a graph: each gives a graph that computes the same bits with less work.

A pass is a module with `DOC`, `CONSENT` (it is run only where weights may be taken for constants) and
`run(graph) -> Graph`. All run in the order of `ORDER`. `PIJIT_PASSES=-no_ops,-identities` switches some off,
`PIJIT_PASSES=dead_code` all others; `PIJIT_DUMP=passes` prints the graph before and after each that changes it.
The graphs in the nodes "cond" and "while" go through them as well.

Results keep what the program can see of them: their bits, and with what they share memory.
"""

import importlib
import os
import sys
from collections.abc import Callable, Iterable
from typing import TextIO

from pijit._usage_errors import nearest
from pijit.errors import ConfigError, UsageError
from pijit.graph.model import Graph
from pijit.graph.model.branches import inside

ORDER = ("no_ops", "identities", "constant_folding", "common_subexpressions", "dead_code")
_VARIABLE = "PIJIT_PASSES"


def doc(name: str) -> str:
    """What a pass does, in a line."""
    text: str = importlib.import_module(f"{__name__}.{name}").DOC
    return text


def consent(name: str) -> bool:
    """The pass takes weights for constants."""
    asked: bool = importlib.import_module(f"{__name__}.{name}").CONSENT
    return asked


def chosen(setting: str) -> tuple[str, ...]:
    """The passes that a setting leaves on: names, or names with a minus before them for all but these.

    Raises:
        ConfigError: there is no such pass.
    """
    words = [word.strip() for word in setting.split(",") if word.strip()]
    for word in words:
        if word.removeprefix("-") not in ORDER:
            name = word.removeprefix("-")
            raise ConfigError(f"{_VARIABLE}={setting}: no pass is called {name!r}{nearest(name, ORDER)}")
    wanted = [word for word in words if not word.startswith("-")]
    return tuple(name for name in ORDER if (name in wanted or not wanted) and f"-{name}" not in words)


def run(graph: Graph, *, fold: bool = False, only: Iterable[str] | None = None) -> Graph:
    """The graph after the passes.

    Args:
        graph: what to simplify; one that is split stays as it is.
        fold: weights may be taken for constants; later changes of them are then not seen.
        only: names of passes; None: all that the environment leaves on.

    Raises:
        UsageError: there is no such pass.
        ConfigError: `PIJIT_PASSES` names none.
    """
    names = chosen(os.environ.get(_VARIABLE, "")) if only is None else tuple(only)
    for wrong in names:
        if wrong not in ORDER:
            raise UsageError(f"no pass is called {wrong!r}{nearest(wrong, ORDER)}")
    if graph.breaks:
        return graph
    dump = sys.stderr if "passes" in os.environ.get("PIJIT_DUMP", "").split(",") else None
    for name in ORDER:
        if name in names and (fold or not consent(name)):
            graph = _one(name, graph, dump)
    return graph


def _one(name: str, graph: Graph, dump: TextIO | None) -> Graph:
    make: Callable[[Graph], Graph] = importlib.import_module(f"{__name__}.{name}").run
    made = inside(make(graph), lambda inner: _one(name, inner, None))
    if dump is not None:
        if made is graph:
            print(f"# pijit: pass {name} has changed nothing in {graph.name}", file=dump)
        else:
            print(f"# pijit: {graph.name} before pass {name}\n{graph}", file=dump)
            print(f"# pijit: {graph.name} after pass {name}\n{made}", file=dump)
    return made
