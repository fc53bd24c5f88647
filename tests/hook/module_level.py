"""Runs what stands at the top level of a module, for tests of enable() (test_automatic.py, test_running.py)."""

from __future__ import annotations

import importlib
from typing import Any

import pijit
from pijit import _core, api


def report(thing: Any) -> dict[str, Any]:
    root = api.root_of(thing)
    return dict(_core.root_report(root)) if root >= 0 else {}


def at_module_level(source: str, **names: Any) -> dict[str, Any]:
    """Runs a module's top level under enable(), which no function that is on the stack has seen."""
    torch = importlib.import_module("torch")
    names = {"torch": torch, "X": torch.ones(3), "pijit": pijit, **names}
    code = compile(source, "<module>", "exec")
    pijit.enable()
    try:
        exec(code, names)
    finally:
        pijit.disable()
    return names
