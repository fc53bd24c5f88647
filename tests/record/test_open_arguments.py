"""Numbers that differ from call to call, as arguments of what a recording does not follow: they stay open."""

from __future__ import annotations

import array
import bisect
import io
from collections.abc import Callable
from typing import Any

import pytest

import pijit
from pijit import _core


class Sink:
    """Keeps what it is given, in containers of C that no recording follows."""

    def __init__(self) -> None:
        self.numbers = array.array("d")
        self.text = io.StringIO()
        self.total = 0

    def content(self) -> tuple[list[float], str, int]:
        return self.numbers.tolist(), self.text.getvalue(), self.total


def one(sink: Sink, i: int) -> int:
    sink.numbers.append(i)
    return i


def spread(sink: Sink, i: int) -> int:
    sink.numbers.append(*(i,))
    return i


def in_a_tuple(sink: Sink, i: int) -> int:
    sink.numbers.extend((i, i + 1))
    return i


def in_a_list_and_a_slice(sink: Sink, i: int) -> int:
    sink.numbers.extend([i, i * 0.5, i])
    del sink.numbers[i % 2 : i]
    return i


def of_an_attribute(sink: Sink, i: int) -> int:
    sink.total += i
    sink.numbers.insert(0, sink.total)
    return sink.total


def in_a_loop(sink: Sink, i: int) -> int:
    for each in range(3):
        sink.numbers.append(each + i)
    return i


def formatted(sink: Sink, i: int) -> str:
    sink.text.write("%d of %s" % (i, "these"))
    return f"{i}"


FUNCTIONS: list[Callable[[Sink, int], Any]] = [
    one,
    spread,
    in_a_tuple,
    in_a_list_and_a_slice,
    of_an_attribute,
    in_a_loop,
    formatted,
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_arguments_stay_open(function: Callable[[Sink, int], Any]) -> None:
    plain, mine = Sink(), Sink()
    fast = pijit.jit(function)
    for i in range(20):
        if i == 10:
            before = _core.root_report(_core.root_of(fast))
        assert fast(mine, i) == function(plain, i)
        assert mine.content() == plain.content()
    after = _core.root_report(_core.root_of(fast))
    assert after["records"] == before["records"]
    assert after["replays"] == before["replays"] + 10
    for i in (2.5, True, -1, 2**70):
        given = []
        for call, sink in ((fast, mine), (function, plain)):
            try:
                given.append(repr(call(sink, i)))
            except (TypeError, OverflowError) as error:
                given.append(repr(error))
        assert given[0] == given[1]
        assert mine.content() == plain.content()


def test_positions_in_a_sorted_list() -> None:
    milestones, stages = [3, 6, 9.5], ["first", "second", "third", "fourth"]

    def f(i: int) -> tuple[str, int]:
        return stages[bisect.bisect_right(milestones, i)], bisect.bisect_left(milestones, i) + i

    fast = pijit.jit(f)
    for i in [*range(12), *range(12), *range(12)]:
        assert fast(i) == f(i)
    assert len([trace for trace in pijit.traces(fast) if trace.opaque_calls == 0 and trace.replays > 0]) >= 3
    milestones[1] = 7
    assert [fast(i) for i in range(12)] == [f(i) for i in range(12)]
    milestones[0] = "a"  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        fast(2)
