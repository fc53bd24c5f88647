"""Refuses to be imported in a subinterpreter, where loading the core would wait for ever for the interpreter's lock."""

import importlib
from types import ModuleType


def _interpreters() -> ModuleType | None:
    for name in ("_interpreters", "_xxsubinterpreters"):  # of CPython 3.13, and of those before
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


interpreters = _interpreters()
if interpreters is not None and interpreters.get_current() != interpreters.get_main():
    raise ImportError("pijit runs in the main interpreter only")
