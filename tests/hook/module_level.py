"""Runs what stands at the top level of a module, for tests of enable()."""

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


def entered_loops(name: str) -> list[Any]:
    """The reports of the loops of a function, or a module, that were entered while it ran."""
    return [entry for entry in _core.entries() if entry["entered"] and entry["name"].startswith(f"{name}:")]


def same(a: Any, b: Any) -> bool:
    torch = importlib.import_module("torch")
    if isinstance(a, torch.Tensor):
        return bool(torch.equal(a, b))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return type(a) is type(b) and repr(a) == repr(b)


def plain_and_enabled(source: str) -> dict[str, Any]:
    """A program in plain Python and under enable(): what it names `left` is the same. Gives the names of the second."""
    torch = importlib.import_module("torch")
    plain: dict[str, Any] = {"torch": torch, "X": torch.ones(3), "pijit": pijit}
    exec(compile(source, "<module>", "exec"), plain)
    names = at_module_level(source)
    assert same(plain["left"], names["left"])
    return names
