"""Every instruction of these programs is left at, in every frame, and CPython must go on as if nothing had happened."""

from __future__ import annotations

import sys
import traceback
import types
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.version_info >= (3, 12), reason="calls are captured by a trace function")


def plain(a: int) -> int:
    return a + 1


def keywords(a: int, /, b: int, *rest: int, c: int, d: int = 4, **more: int) -> tuple[Any, ...]:
    x = plain(a)
    return a, b, rest, c, d, more, x


def calls(a: int) -> list[Any]:
    return [keywords(a, 2, 3, c=4, e=5), keywords(a, 2, c=a, d=plain(a))]


def loops(n: int) -> list[Any]:
    result = []
    for i in range(n):
        if i % 2:
            continue
        for letter in "ab":
            result.append((i, letter, plain(i)))
    return result


def comprehension(n: int) -> dict[int, list[int]]:
    return {i: [j * n for j in range(i)] for i in range(n)}


def counter(start: int) -> Callable[[], int]:
    value = start

    def step() -> int:
        nonlocal value
        value += plain(0)
        return value

    return step


def closures(a: int) -> list[int]:
    first, second = counter(a), counter(a * 10)
    return [first(), second(), first(), second()]


def frames(a: int) -> list[tuple[str, int]]:
    def look() -> list[tuple[str, int]]:
        frame: types.FrameType | None = sys._getframe(1)
        found = []
        while frame is not None and frame.f_code.co_name not in ("outcome", "test_exit_everywhere"):
            found.append((frame.f_code.co_name, frame.f_lineno))
            frame = frame.f_back
        return found

    def middle(x: int) -> list[tuple[str, int]]:
        y = x + 1
        return look() + [("middle", y)]

    return middle(a) + middle(a)


def fails(a: int) -> float:
    b = plain(a)
    return a / (b - b)


def raises(a: int) -> list[Any]:
    return [
        plain(a),
        fails(a),
    ]


def catches(a: int) -> str:
    try:
        return str(raises(a))
    except ZeroDivisionError as error:
        text = str(error) + str([line.lineno for line in traceback.extract_tb(error.__traceback__)])
    return text


def local_names(a: int) -> dict[str, Any]:
    def inner(x: int) -> dict[str, Any]:
        y = plain(x)
        return dict(locals(), outer=dict(sys._getframe(1).f_locals))

    b = a + 1
    found = inner(b)
    del found["outer"]["inner"]
    return found


class Point:
    def __init__(self, x: int, y: int) -> None:
        self.x = x
        self.y = y

    def moved(self, by: int) -> "Point":
        return Point(self.x + by, self.y + by)

    def sum(self) -> int:
        return plain(self.x) + self.y


def methods(a: int) -> tuple[int, int]:
    point = Point(a, a + 1)
    bound = point.moved(2).sum
    return bound(), point.sum()


def spread(a: int) -> Any:
    args, names = (a, 2), {"c": 5, "z": 6}
    return keywords(*args, **names)


def wide(a: int) -> int:
    v0 = v1 = v2 = v3 = v4 = v5 = v6 = v7 = v8 = v9 = a
    total = 0
    while a > 0:
        a -= 1
        total += v0 + v1 + v2 + v3 + v4 + v5 + v6 + v7 + v8 + v9
        assert total > 0, "unreachable"
    first, *others = [total, v1, v2]
    return first + len(others) + (1 if others else 2)


exec(
    "def extended(a):\n" + "".join(f"    x{i} = a + {i}\n" for i in range(300)) + "    return x0 + x299, plain(x298)\n"
)

PROGRAMS = [
    plain, calls, loops, comprehension, closures, frames, raises, catches, local_names, methods, spread, wide,
    globals()["extended"],
]  # fmt: skip


def outcome(function: Callable[[int], Any], argument: int) -> Any:
    """The result, or the exception with its lines."""
    try:
        return function(argument)
    except Exception as error:
        lines = [(line.name, line.lineno) for line in traceback.extract_tb(error.__traceback__)[1:]]
        return type(error), error.args, lines


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_exit_everywhere(probe: ModuleType, function: Callable[[int], Any]) -> None:
    expected = outcome(function, 3)
    exits = at = 0
    while (armed := probe.capture(function, (3,), at)) is not None:
        at += 1
        if not armed:
            continue
        assert outcome(function, 3) == expected, f"instruction {at - 1}"
        replays, _ = probe.disarm()
        assert replays == 1
        exits += 1
    assert exits > at // 3
