"""Tells when a module has been imported, and imports none itself.

A finder on `sys.meta_path` finds nothing itself: it has the other finders find the module, and the module's own loader
report when it is done.
"""

import contextlib
import importlib.util
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class Finder:
    """Sees the import of modules that are waited for, has the others find them, and asks their loaders to report."""

    def __init__(self, waits_for: Callable[[str], bool], done: Callable[[str], None]) -> None:
        self._waits_for = waits_for
        self._done = done
        self._asking: set[str] = set()  # for which the others are being asked, under the import lock of each

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders give for what is waited for, its loader made to report; else None."""
        if name in self._asking or not self._waits_for(name):
            return None
        self._asking.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._asking.discard(name)
        if spec is not None and spec.loader is not None:
            self._report_when_done(spec)
        return spec

    def _report_when_done(self, spec: ModuleSpec) -> None:
        loader = spec.loader
        assert loader is not None
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            vars(loader).pop("exec_module", None)  # the loader is as it was before the module runs
            execute(module)
            self._done(spec.name)

        with contextlib.suppress(AttributeError):  # a loader without a __dict__ reports nothing
            loader.exec_module = exec_module  # type: ignore[method-assign]
