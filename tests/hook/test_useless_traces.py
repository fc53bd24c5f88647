"""Traces that are always left are recorded anew."""

from __future__ import annotations

import ctypes
import random
import signal
from collections.abc import Callable, Iterator

import pytest
from jitted_apart import report

import pijit


def test_a_trace_that_is_always_left_is_recorded_anew() -> None:
    """What the first call found does not come back; what all later ones find is replayed to the end."""

    def f(source: random.Random) -> str:
        return "low" if source.choices((0.2, 0.8))[0] < 0.5 else "high"

    source, jitted = random.Random(), pijit.jit(f)
    while (state := source.getstate()) and source.random() >= 0.5:  # a state after which "low" is next
        pass
    source.setstate(state)
    assert jitted(source) == "low"
    while (state := source.getstate()) and source.random() < 0.5:  # one after which "high" is
        pass
    results = []
    for _ in range(6):
        source.setstate(state)
        results.append(jitted(source))
    assert results == ["high"] * 6
    found = report(jitted)
    assert found["exits"] == 2
    assert found["records"] == 2
    assert found["replays"] == 5


@pytest.mark.parametrize("before", [20, 100])
def test_a_trace_that_is_left_for_good_is_recorded_anew(before: int) -> None:
    """It served until something changed that is looked at behind an opaque call, in a handler, where no entry helps."""

    @pijit.opaque
    def refuse() -> None:
        raise ValueError

    def f(text: str) -> str:
        try:
            refuse()
        except ValueError:
            return steps["step"](text) + text
        return ""

    steps: dict[str, Callable[[str], str]] = {"step": lambda text: text + "a"}
    jitted = pijit.jit(f)
    for change in range(12):
        mark = str(change)
        steps["step"] = lambda text, mark=mark: text + mark
        assert [jitted("x") for _ in range(before)] == [f"x{mark}x"] * before
        found = report(jitted)
        # Each time: one recording and the replays that are left before it; without end, where each trace has served.
        most = 12 if before > 70 else 5
        assert found["records"] == min(change + 1, most)
        if change < most:
            assert found["exits"] == 8 * change
            assert found["replays"] == before * (change + 1) - found["records"]


def test_a_replay_that_was_interrupted_does_not_save_its_trace() -> None:
    """A trace that is always left is recorded anew, too, when a signal came into its first replay."""
    seen: list[int] = []

    def f(ticks: Iterator[None], source: random.Random) -> str:
        next(ticks)
        return "low" if source.random() < 0.5 else "high"

    before = signal.signal(signal.SIGUSR1, lambda *arguments: seen.append(1))
    send = getattr(ctypes.PyDLL(None), "raise")  # unlike signal.raise_signal it leaves the handler to the evaluator
    ticks = map(send, [0, signal.SIGUSR1, *[0] * 6])  # signal 0 is none
    source, jitted = random.Random(), pijit.jit(f)
    try:
        while (state := source.getstate()) and source.random() >= 0.5:  # a state after which "low" is next
            pass
        source.setstate(state)
        assert jitted(ticks, source) == "low"
        while (state := source.getstate()) and source.random() < 0.5:  # one after which "high" is
            pass
        results = []
        for _ in range(7):
            source.setstate(state)
            results.append(jitted(ticks, source))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert results == ["high"] * 7
    assert seen == [1]
    found = report(jitted)
    assert found["exits"] == 2
    assert found["records"] == 2
    assert found["replays"] == 6
