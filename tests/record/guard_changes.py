"""Calls between which something changes that a trace may have relied on, plain and jitted."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from observe import Describer

import pijit
from pijit import _core, api

MISSING = object()


class Mine:
    """An instance to hold and to be held."""


class Key(str):
    __slots__ = ()


class Number(int):
    def __add__(self, other: object) -> str:
        return "mine"


class Level(enum.IntEnum):
    LOW = 1


def replays(function: object) -> int:
    return _core.root_report(api.root_of(function))["replays"]


def records(function: object) -> int:
    return _core.root_report(api.root_of(function))["records"]


def outcome(function: Callable[..., Any], *arguments: object) -> str:
    """What a call gives, described."""
    try:
        return "returned " + Describer()(function(*arguments))
    except Exception as error:
        return f"raised {type(error).__name__} {error.args!r}"


def same(make: Callable[[], tuple[Any, ...]], *, replayed: bool = True, after: bool = False) -> Any:
    """`make()` gives a function and changes: called three times before the first and after each, plain and jitted.

    `replayed`: the calls before the first change must be replayed; `after`: and those after the last.
    """
    seen = []
    for jit in (lambda function: function, pijit.jit):
        function, *changes = make()
        function = jit(function)
        results = [[outcome(function) for _ in range(3)]]
        if jit is pijit.jit and replayed:
            assert replays(function) >= 1, _core.root_report(api.root_of(function))
        for change in changes:
            change()
            before = replays(function) if jit is pijit.jit else 0
            results.append([outcome(function) for _ in range(3)])
        if jit is pijit.jit and after:
            assert replays(function) > before, _core.root_report(api.root_of(function))
        seen.append(results)
    assert seen[1] == seen[0]
    return function


def put(container: Any, key: Any, value: object) -> None:
    if value is MISSING:
        del container[key]
    elif hasattr(container, "insert") and key == len(container):  # put back
        container.append(value)
    else:
        container[key] = value
