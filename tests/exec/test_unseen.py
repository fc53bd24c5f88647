"""What no replay comes to is dropped from a trace, and what a replay may be left with is not."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pijit
from pijit import _core, api


@pytest.fixture(autouse=True)
def _options() -> Iterator[None]:
    pijit.reset()
    before = pijit.config.update({"give_up": False, "record_budget": 0})
    yield
    pijit.config.update(before)
    pijit.reset()


def counts(function: Callable[..., Any]) -> dict[str, int]:
    """Of the first trace of the function."""
    text = _core.trace_text(api.root_of(function), 0)
    (line,) = re.findall(r"^counts (.*)$", text, re.MULTILINE)
    return {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", line)}


def with_temporaries(count: int) -> Callable[..., Any]:
    """A function that makes as many objects that are gone before its only decision, and three that are not."""
    temporaries = "\n".join(f"    pair = (n, [n, {k}])\n    kept.append({k})" for k in range(count))
    source = f"""
def program(n, limit):
    kept = []
    def show():
        return kept
{temporaries}
    if n > limit:
        return "above", pair, show(), locals().keys()
    kept.append("later")
    pair[1].append(kept)
    return n, len(pair)
"""
    names: dict[str, Any] = {}
    exec(compile(source, "<program>", "exec"), names)
    return names["program"]


def test_what_ends_before_a_snapshot_is_not_kept() -> None:
    few, many = with_temporaries(2), with_temporaries(40)
    found = []
    for plain in (few, many):
        fast = pijit.jit(plain)
        for n in (1, 2, 3, 4, 5):
            assert fast(n, 10) == plain(n, 10)
        found.append(counts(fast))
    assert found[0]["virtuals"] == found[1]["virtuals"] > 0
    assert found[0]["states"] == found[1]["states"] > 0


def test_what_a_snapshot_sees_is_rebuilt() -> None:
    plain = with_temporaries(5)
    fast = pijit.jit(plain)
    for n, limit in ((1, 10), (2, 10), (3, 10), (4, 10), (11, 10), (12, 10), (5, 10), (13, 20)):
        expected, got = plain(n, limit), fast(n, limit)
        assert got == expected if n <= limit else (got[:3], list(got[3])) == (expected[:3], list(expected[3]))
        if n > limit:
            assert got[1][1] is not got[2]
    assert pijit.stats()["exits"] > 0


def shared_and_changed(numbers: list[int], at: int) -> Any:
    log: list[Any] = []
    state = {"turn": 0, "log": log}
    makers = []
    for turn, number in enumerate(numbers):
        state["turn"] = turn
        log.append((turn, number))
        if turn > 1:
            del log[0]
        makers.append(lambda number=number: (number, state))
        if number == at:
            return "left", state, [make() for make in makers], log is state["log"]
    state.clear()
    return log, len(makers)


@pytest.mark.parametrize("leave", range(5))
def test_at_each_snapshot_an_object_is_as_of_then(leave: int) -> None:
    numbers = [3, 5, 7, 9, 11]
    fast = pijit.jit(shared_and_changed)
    for at in (0, 0, 0, 0, numbers[leave], 0, numbers[leave]):
        got, expected = fast(numbers, at), shared_and_changed(numbers, at)
        assert got == expected
        if at != 0:
            assert all(made[1] is got[1] for made in got[2])


class Watched:
    pass


def drops(holder: Any, stop: bool) -> Any:
    boxes = [[holder.item], (holder.item,)]
    first = boxes.pop()
    holder.item = None
    before = holder.seen() is None
    del first
    boxes.clear()
    after = holder.seen() is None
    if stop:
        return "left", before, after, boxes
    return before, after


def test_what_was_held_by_an_object_that_is_dropped_dies_when_it_did() -> None:
    def call(function: Callable[..., Any], stop: bool) -> Any:
        holder = Watched()
        holder.item = Watched()
        holder.seen = weakref.ref(holder.item)
        return function(holder, stop)

    fast = pijit.jit(drops)
    for stop in (False, False, False, False, True, False, True):
        assert call(fast, stop) == call(drops, stop)
