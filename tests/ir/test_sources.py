"""Where the registers of a trace are found: paths as data, and the same paths as text."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import pijit
from pijit import _core

limit = 1


class Point:
    def __init__(self, x: int, y: int) -> None:
        self.x = x
        self.y = y


class Slotted:
    __slots__ = ("left", "right")

    def __init__(self, left: object, right: object) -> None:
        self.left = left
        self.right = right


def loads(function: Any, index: int = 0) -> list[tuple[int, list[tuple[Any, ...]]]]:
    """What guards of a trace load, and from where."""
    return _core.trace_data(_core.root_of(function), index)["loads"]


def texts(function: Any, index: int = 0) -> list[str]:
    """The same paths as they are printed."""
    return [source for _, source, facts, _ in _core.root_traces(_core.root_of(function))[index]["loaded"] if not facts]


def test_items_of_arguments() -> None:
    """Of lists and tuples by index, of dicts by position."""

    @pijit.jit
    def f(x: list[Any], named: dict[str, Any]) -> Any:
        return x[0], x[1][1], named["a"]

    def calls() -> list[Any]:
        first, second = object(), object()
        return [f([first, (1, second)], {"a": first}) == (first, second, first), f([2, (1, 3)], {"a": 4})]

    assert calls() == [True, (2, 3, 4)]
    assert calls() == [True, (2, 3, 4)]
    paths = [path for _, path in loads(f)]
    assert paths == [
        [("argument", 0, "x"), ("item", 0)],
        [("argument", 0, "x"), ("item", 1)],
        [("argument", 0, "x"), ("item", 1), ("item", 0)],
        [("argument", 0, "x"), ("item", 1), ("item", 1)],
        [("argument", 1, "named"), ("item", "a")],
    ]
    assert texts(f) == ["x[0]", "x[1]", "x[1][0]", "x[1][1]", "named['a']"]


def test_a_global_that_varies() -> None:
    """It is read at each call, by its name."""
    global limit

    @pijit.jit
    def f(x: int) -> int:
        return x + limit

    answers = []
    for limit in range(1, 7):
        answers.append(f(1))
    assert answers == [2, 3, 4, 5, 6, 7]
    found = [path for i in range(len(_core.root_traces(_core.root_of(f)))) for _, path in loads(f, i)]
    assert [("global", "limit")] in [path[:1] for path in found] or any(
        path[-1] == ("item", "limit") for path in found
    ), found


def test_a_cell_that_varies() -> None:
    """The variable of a function around it."""
    count = 0

    @pijit.jit
    def f(x: int) -> int:
        return x + count

    answers = []
    for count in range(6):
        answers.append(f(1))
    assert answers == [1, 2, 3, 4, 5, 6]
    found = [path for i in range(len(_core.root_traces(_core.root_of(f)))) for _, path in loads(f, i)]
    assert any(path[-1] == ("attribute", "cell_contents") for path in found), found


def all_paths(function: Any) -> list[list[tuple[Any, ...]]]:
    """The paths of all traces of a function."""
    count = len(_core.root_traces(_core.root_of(function)))
    return [path for index in range(count) for _, path in loads(function, index)]


def test_attributes_of_arguments() -> None:
    """Of instances that differ from call to call: inline, in a slot, in a dict. By name, as long as the class lives."""

    @pijit.jit
    def f(p: Point, s: Slotted, d: Point) -> Any:
        return p.x + p.y, s.left, d.x

    kept = []  # at an address that comes again is the same object, as far as a recording knows
    for i in range(9):
        point, slotted, with_dict = Point(i, 2 * i), Slotted(i, None), Point(i + 1, 0)
        kept.append((point, slotted, with_dict))
        assert with_dict.__dict__ == {"x": i + 1, "y": 0}
        assert f(point, slotted, with_dict) == (3 * i, i, i + 1)
    found = all_paths(f)
    assert [("argument", 0, "p"), ("attribute", "x")] in found
    assert [("argument", 0, "p"), ("attribute", "y")] in found
    assert [("argument", 1, "s"), ("attribute", "left")] in found
    assert [("argument", 2, "d"), ("attribute", "__dict__")] in found
    assert [("argument", 2, "d"), ("attribute", "x")] in found
    text = " ".join(texts(f, len(_core.root_traces(_core.root_of(f))) - 1))
    assert "slot" not in text
    assert "offset" not in text


def test_the_class_of_an_argument_dies() -> None:
    """Its slots have numbers then: nothing is looked into that may be dead."""

    def made() -> Any:
        class Brief:
            __slots__ = ("left",)

            def __init__(self, left: int) -> None:
                self.left = left

        return Brief

    @pijit.jit
    def f(s: Any) -> Any:
        return s.left + 1

    brief = made()
    for i in range(6):
        assert f(brief(i)) == i + 1
    assert [("argument", 0, "s"), ("attribute", "left")] in all_paths(f)
    del brief
    gc.collect()
    assert [kind for path in all_paths(f) for kind, *_ in path[1:]] in (["slot"], [])
    assert f(Slotted(4, None)) == 5


def test_no_such_trace() -> None:
    """A trace that is not there is an error that says how many are."""

    @pijit.jit
    def f(x: int) -> int:
        return x

    f(1)
    with pytest.raises(IndexError, match="the root has 1 traces"):
        _core.trace_data(_core.root_of(f), 7)
