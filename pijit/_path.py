"""`python -m pijit`: the program's folder is first on `sys.path` only while the program runs.

`python -m` puts the current directory there, and `python script.py` the folder of the script. What pijit imports is not
looked for in either: a file `nt.py` or `queue.py` in there is the program's, and would be run in the place of a module
of the library. So importing this module, which is the first thing that the package does, takes the entry away, and
`give` puts that of the program in.

The program finds the modules that it would find under `python`. Where a file in its folder has the name of a module of
the library, all of pijit is imported first, as far as it needs nothing but the library; then `sys.modules` forgets what
has such a name, and what imports that. So the program finds its own file, and pijit keeps what it has imported.
"""

import importlib
import os
import sys
from importlib.machinery import BuiltinImporter, FrozenImporter

_RUNPY = frozenset(
    [
        "collections",
        "contextlib",
        "functools",
        "importlib",
        "keyword",
        "operator",
        "reprlib",
        "runpy",
        "types",
        "warnings",
    ]
)

# The top-level modules that were there before pijit, without those that `-m` itself has imported.
_BEFORE = frozenset(name for name in sys.modules if "." not in name) - _RUNPY


def is_command() -> bool:
    """The process is `python -m pijit`, and Python is looking for the module."""
    words, own = sys.orig_argv, sys.argv
    word = words[-len(own)] if own[:1] == ["-m"] and len(words) > len(own) else ""
    return word == "pijit" or (word.startswith("-") and word.endswith("mpijit"))


def _take() -> bool:
    if not is_command() or sys.flags.safe_path or not sys.path:
        return False
    del sys.path[0]
    return True


_taken = _take()


def give(entry: str, *, first: bool = False) -> None:
    """Put the program's entry to the head of `sys.path`, where Python would.

    Args:
        entry: the folder, or archive.
        first: under `python -P`, too, which puts no folder there.
    """
    safe = sys.flags.safe_path
    if safe and not first:
        return
    if hidden := _hidden(entry):
        _import_all()
        for name in _dependent(hidden):
            del sys.modules[name]
    sys.path[: not (safe or _taken)] = [entry]


def _hidden(entry: str) -> set[str]:
    """Modules of the library that files of the program stand in the place of."""
    import pkgutil  # not when the entry has not been taken away yet

    names = {each.name for each in pkgutil.iter_modules([entry or os.getcwd()])} & sys.stdlib_module_names - _BEFORE
    return {
        name for name in names if BuiltinImporter.find_spec(name) is None and FrozenImporter.find_spec(name) is None
    }


def _dependent(hidden: set[str]) -> set[str]:
    """The imported modules of the library with these names, and those whose import imports one of these, and so on."""
    names: dict[str, set[str]] = {}
    for name, module in sys.modules.items():
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names and top not in _BEFORE:
            names[name] = _named(name, module)
    found = {name for name in names if name.partition(".")[0] in hidden}
    wanted = hidden | found
    while more := {name for name, used in names.items() if name not in found and used & wanted}:
        found |= more
        wanted |= more | {name.rpartition(".")[2] for name in more}  # as its own package calls it
    return found


def _named(name: str, module: object) -> set[str]:
    """What the body of a module names, the modules that it imports among it, with the packages that these are in."""
    loader = getattr(getattr(module, "__spec__", None), "loader", None)
    try:
        code = loader.get_code(name)  # type: ignore[union-attr]
    except (AttributeError, ImportError, OSError, SyntaxError):  # it has none, or none any more
        return set()
    names: tuple[str, ...] = () if code is None else code.co_names
    return {each[:end] for each in names for end in (each.find("."), len(each)) if end > 0}


def _import_all() -> None:
    """All of pijit that needs nothing but the library."""
    import contextlib
    import pkgutil

    before = list(sys.path)
    sys.path[:] = [entry for entry in before if "site-packages" not in entry and "dist-packages" not in entry]
    try:
        for module in pkgutil.walk_packages(importlib.import_module("pijit").__path__, "pijit."):
            if not module.name.endswith("__main__"):
                with contextlib.suppress(ImportError):
                    importlib.import_module(module.name)
    finally:
        sys.path[:] = before
