"""Passes over a graph: each gives a graph that computes the same with less work.

A pass is a module with `DOC`, `CONSENT` (it is run only where weights may be taken for constants), `EXACT` (what comes
out has the same bits; else it is run only for backends that have a tolerance) and `run(graph) -> Graph`. All run in the
order of `ORDER`, those of users (`register_pass`) before the last. One that is not exact has
`run(graph, counts) -> Graph`, and counts what it has done. `PIJIT_PASSES=-no_ops,-identities` switches some off,
`PIJIT_PASSES=dead_code` all others; `PIJIT_DUMP=passes` prints the graph before and after each that changes it.
The graphs in the nodes "cond" and "while" go through them as well.

Results keep what the program can see of them: their bits, and with what they share memory.
"""

import importlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TextIO

from pijit._usage_errors import describe, nearest
from pijit.errors import ConfigError, UsageError
from pijit.graph.model import Graph
from pijit.graph.model.branches import inside

ORDER = ("no_ops", "identities", "constant_folding", "common_subexpressions", "replacements", "dead_code")
_VARIABLE = "PIJIT_PASSES"
_REGISTERED: "dict[str, _Registered]" = {}


class _Registered(NamedTuple):
    """A pass that a user has registered, in the form of a module."""

    run: Callable[..., Graph]
    DOC: str
    CONSENT: bool
    EXACT: bool


def register_pass(
    function: Callable[[Graph], Graph], *, name: str | None = None, exact: bool = True, consent: bool = False
) -> None:
    """Have each graph go through a function of yours before it is compiled, behind the passes of pijit.

    `PIJIT_PASSES=-NAME` switches it off. A later registration under the same name takes the place of the earlier one.

    Args:
        function: takes a graph that writes to nothing, and gives one with the same inputs and outputs.
        name: of the pass; None: that of the function.
        exact: what comes out computes the same bits; else the pass is run only for backends that have a tolerance.
        consent: weights are taken for constants; the pass is run only where that is asked for (`fold`).

    Raises:
        UsageError: it is no function, or a pass of pijit has the name.

    Example:
        >>> import pijit
        >>> pijit.register_pass(lambda graph: graph, name="as_it_is")
    """
    if not callable(function):
        raise UsageError(f"register_pass() takes a function of a graph, not {describe(function)}")
    name = name or str(getattr(function, "__name__", ""))
    if not name.isidentifier() or name in ORDER:
        raise UsageError(f"name= of a pass is a word, and none of {', '.join(ORDER)}; not {name!r}")
    lines = (function.__doc__ or f"registered: {name}").strip().splitlines()

    def run(graph: Graph, counts: object = None) -> Graph:
        made = function(graph)
        if not isinstance(made, Graph):
            raise UsageError(f"the pass {name!r} gave {describe(made)}; it has to give a graph")
        return made

    _REGISTERED[name] = _Registered(run, lines[0], consent, exact)


def order() -> tuple[str, ...]:
    """All passes in the order in which they run."""
    *before, last = ORDER
    return (*before, *_REGISTERED, last)


def registered() -> tuple[object, ...]:
    """The passes of users: what was made before others were registered may be made anew."""
    return tuple(_REGISTERED.values())


def _module(name: str) -> Any:
    return _REGISTERED.get(name) or importlib.import_module(f"{__name__}.{name}")


def doc(name: str) -> str:
    """What a pass does, in a line."""
    text: str = _module(name).DOC
    return text


def consent(name: str) -> bool:
    """The pass takes weights for constants."""
    asked: bool = _module(name).CONSENT
    return asked


def exact(name: str) -> bool:
    """What comes out of the pass has the same bits."""
    same: bool = _module(name).EXACT
    return same


def chosen(setting: str) -> tuple[str, ...]:
    """The passes that a setting leaves on: names, or names with a minus before them for all but these.

    Raises:
        ConfigError: there is no such pass.
    """
    words = [word.strip() for word in setting.split(",") if word.strip()]
    for word in words:
        if (name := word.removeprefix("-")) not in order():
            raise ConfigError(f"{_VARIABLE}={setting}: no pass is called {name!r}{nearest(name, order())}")
    wanted = [word for word in words if not word.startswith("-")]
    return tuple(name for name in order() if (name in wanted or not wanted) and f"-{name}" not in words)


def run(
    graph: Graph,
    *,
    fold: bool = False,
    replaced: Counter[str] | None = None,
    only: Iterable[str] | None = None,
) -> Graph:
    """The graph after the passes.

    Args:
        graph: what to simplify; one that is split stays as it is.
        fold: weights may be taken for constants; later changes of them are then not seen.
        replaced: results may differ up to rounding; counts the replacements that are made, by name. None: they have
            the same bits.
        only: names of passes; None: all that the environment leaves on.

    Raises:
        UsageError: there is no such pass.
        ConfigError: `PIJIT_PASSES` names none.
    """
    names = chosen(os.environ.get(_VARIABLE, "")) if only is None else tuple(only)
    for wrong in names:
        if wrong not in order():
            raise UsageError(f"no pass is called {wrong!r}{nearest(wrong, order())}")
    if graph.breaks:
        return graph
    dump = sys.stderr if "passes" in os.environ.get("PIJIT_DUMP", "").split(",") else None
    for name in order():
        if name in names and (fold or not consent(name)) and (replaced is not None or exact(name)):
            graph = _one(name, graph, dump, replaced)
    return graph


def _one(name: str, graph: Graph, dump: TextIO | None, replaced: Counter[str] | None) -> Graph:
    make: Callable[..., Graph] = _module(name).run
    made = make(graph) if exact(name) else make(graph, replaced)
    made = inside(made, lambda inner: _one(name, inner, None, replaced))
    if dump is not None:
        if made is graph:
            print(f"# pijit: pass {name} has changed nothing in {graph.name}", file=dump)
        else:
            print(f"# pijit: {graph.name} before pass {name}\n{graph}", file=dump)
            print(f"# pijit: {graph.name} after pass {name}\n{made}", file=dump)
    return made
