"""The formats in which a graph leaves pijit: a module or package each, found by its name, and those of other packages.

A format is a module. Another package gives one by an entry point of the group `pijit.formats`, whose name is the
format's name. It has:

    NAME      as in `pijit.export(..., format=NAME)`
    PACKAGES  modules that it imports, such as ("torch",); they are looked for, not imported, before `make` is called
    INSTALL   the command that installs them
    SUFFIX    of its files, such as ".onnx"
    DOC       what it is, in a line
    make(graph, *, dynamic, **options) -> object      `ExportError` for what it cannot hold
    write(made, path) -> None                         writes the file `path`, and further files beside it

A format that needs more than the graph has, in the place of `make`,

    make_of_call(fn, args, kwargs, *, decisions, dynamic, **options) -> object

Importing the module imports no framework: `make` and `write` do. `make` is given a graph whose `symbols` are the sizes
that stay free, so that it need not look at `dynamic`. `write` is given a path in an empty directory: what it writes
there is moved to its place when all of it is written. With `DIRECTORY = True` the path is that of a directory, which
`write` makes; what it writes replaces files of these names in a directory that is there already.

The package is not called `formats`: importing it would put a module in the place of the function `pijit.formats`.
"""

import importlib
import importlib.util
import pkgutil
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pijit._availability import Usable
from pijit._usage_errors import nearest
from pijit.errors import ExportError

_NEEDED = ("NAME", "PACKAGES", "INSTALL", "SUFFIX", "DOC", "write")


def _own() -> list[str]:
    return sorted(found.name for found in pkgutil.iter_modules(__path__) if not found.name.startswith("_"))


def _foreign() -> dict[str, EntryPoint]:
    return {each.name: each for each in entry_points(group="pijit.formats")}


def names() -> tuple[str, ...]:
    """Of all formats: pijit's own, then those of other packages."""
    return tuple(dict.fromkeys([*_own(), *sorted(_foreign())]))


def missing(module: Any) -> tuple[str, ...]:
    """The packages that a format needs and that are not installed."""
    return tuple(package for package in module.PACKAGES if importlib.util.find_spec(package) is None)


def load(name: str) -> Any:
    """The module of a format.

    Raises:
        ExportError: there is no such format, it does not load, or a package that it needs is not installed.
    """
    if isinstance(name, str) and name in _own():  # without a look at what is installed, which takes a while
        module = importlib.import_module(f"{__name__}.{name}")
    elif isinstance(name, str) and (found := _foreign().get(name)) is not None:
        module = _load_foreign(found)
    else:
        raise ExportError(f"no format is called {name!r}{nearest(str(name), names())}")
    if lacks := missing(module):
        raise ExportError(f"format {name!r} needs {' and '.join(lacks)}; run: {module.INSTALL}")
    return module


def _load_foreign(point: EntryPoint) -> Any:
    where = f"format {point.name!r} of the package {_package(point)} ({point.value})"
    try:
        module = point.load()
    except Exception as error:  # another package's code
        raise ExportError(f"{where} does not load: {type(error).__name__}: {error}") from error
    lacks = [each for each in _NEEDED if not hasattr(module, each)]
    if not hasattr(module, "make") and not hasattr(module, "make_of_call"):
        lacks.append("make")
    if lacks:
        raise ExportError(f"{where} has no {', '.join(lacks)}")
    return module


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "?"


class Formats(Usable):
    """The formats by name: "usable", or the command that makes it so. Printed, it is a table.

    Formats of other packages count as usable: their modules are not imported for a list.
    """

    def __init__(self) -> None:
        rows: dict[str, tuple[str, str]] = {}
        own, foreign = _own(), _foreign()
        for name in names():
            if name in own:
                module = importlib.import_module(f"{__name__}.{name}")
                rows[name] = (module.INSTALL if missing(module) else "usable", module.DOC)
            else:
                rows[name] = ("usable", f"of the package {_package(foreign[name])}")
        super().__init__("format", rows)
