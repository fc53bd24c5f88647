"""How often a function is recorded: never at each call for ever, whatever differs."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import Any

import pytest

import pijit
from pijit import _core, api


class State:
    """What the programs read and write."""

    number: Any = 1
    other: Any = 1
    held: Any = None


class Held:
    def __init__(self, value: int) -> None:
        self.value = value


KEPT: list[int] = []
STATE = State()


def int_or_float(turn: int) -> float:
    return turn if turn % 2 else float(turn)


def attribute(turn: int) -> float:
    return STATE.number * 2  # type: ignore[no-any-return]


def rounds(turn: int) -> int:
    return sum(number for number in range(STATE.other))


def behind_an_opaque_call(turn: int) -> float:
    bisect.insort(KEPT, 1)
    return STATE.number + STATE.other  # type: ignore[no-any-return]


def another_object(turn: int) -> int:
    bisect.insort(KEPT, 1)
    return STATE.held.value  # type: ignore[no-any-return]


def argument(number: float) -> float:
    return number * 2


def counter_of_a_class(turn: int) -> int:
    State.count = getattr(State, "count", 0) + 1  # type: ignore[attr-defined]
    return turn


def recorded() -> int:
    """Of all functions and the places in them so far."""
    return int(_core.stats()["records"])


@pytest.mark.parametrize(
    "program", [attribute, rounds, behind_an_opaque_call, another_object, argument, counter_of_a_class]
)
def test_recordings_end(program: Callable[[Any], Any]) -> None:
    """A number is an int in one call and a float in the next, an object is another one in each."""
    fast, before = pijit.jit(program), recorded()
    for turn in range(300):
        STATE.number, STATE.other, STATE.held = int_or_float(turn), turn % 40, Held(turn)
        given = int_or_float(turn) if program is argument else turn
        assert fast(given) == program(given)
    # A trace for each of 40 numbers of rounds, which come back, is wanted; the others are new in each call.
    assert recorded() - before <= (40 if program is rounds else 24)


def doubled(number: int) -> int:
    return number * 2


def tripled(number: int) -> int:
    return number * 3


def in_a_loop(turn: int) -> int:
    bisect.insort(KEPT, 1)
    return sum([STATE.held(number) for number in range(turn)])


def test_what_changes_for_good_behind_an_opaque_call_is_recorded_whole_again() -> None:
    """Other traces go on where replays are left, but a trace that goes through is faster."""
    fast = pijit.jit(in_a_loop)
    STATE.held = doubled
    for _ in range(100):
        assert fast(3) == in_a_loop(3)
    STATE.held = tripled
    for _ in range(100):
        assert fast(3) == in_a_loop(3)
    before = pijit.stats()
    for _ in range(20):
        assert fast(3) == in_a_loop(3)
    now = pijit.stats()
    assert now["exits"] == before["exits"]
    assert now["replays"] == before["replays"] + 20


class Point(tuple[float, float]):
    """A subclass of tuple that looks at its items in its own way."""

    def __getitem__(self, at: Any) -> Any:
        return tuple(self)[at]


def test_a_subclass_of_a_container_is_named() -> None:
    """Which argument differs, of which class it is, and what to do."""
    fast = pijit.jit(lambda point: len(point))
    for turn in range(100):
        assert fast(Point((float(turn), 1.0))) == 2
    reason = pijit.status(fast).reason
    assert "Point" in reason
    assert "a subclass of tuple" in reason
    assert "or tuple(point)" in reason


class TestTheLimit:
    """With few recordings that are free."""

    @pytest.fixture(autouse=True)
    def _few(self) -> Any:
        before = pijit.config.update({"max_recordings": 4, "give_up": False})
        yield
        pijit.config.update(before)

    def test_traces_go_on_serving(self) -> None:
        fast = pijit.jit(lambda key: key + "!")
        for turn in range(8):
            assert fast(str(turn)) == f"{turn}!"
        report = _core.root_report(api.root_of(fast))
        assert report["records"] == report["traces"] == 4
        assert fast("2") == "2!"
        assert _core.root_report(api.root_of(fast))["replays"] == report["replays"] + 1
        status = pijit.status(fast)
        assert status.state == "replaying"
        assert status.reason.startswith("calls kept being recorded, and few could be replayed")
        assert "4 recordings in 9 calls; the next one after" in status.reason

    def test_it_is_recorded_ever_more_rarely(self) -> None:
        fast = pijit.jit(lambda key: key + "!")
        at = []
        for turn in range(200):
            before = _core.root_report(api.root_of(fast))["records"]
            assert fast(str(turn)) == f"{turn}!"
            if _core.root_report(api.root_of(fast))["records"] != before:
                at.append(turn)
        assert at[:4] == [0, 1, 2, 3]
        pauses = [later - sooner for sooner, later in zip(at[3:], at[4:], strict=False)]
        assert pauses[0] == 33
        assert pauses == sorted(pauses)
        assert len(pauses) <= 3

    def test_replays_make_up_for_recordings(self) -> None:
        fast = pijit.jit(lambda key: key + "!")
        for turn in range(6):
            for _ in range(20):
                assert fast(str(turn)) == f"{turn}!"
        assert _core.root_report(api.root_of(fast))["records"] == 6
        assert not pijit.status(fast).reason

    def test_a_reset_begins_anew(self) -> None:
        fast = pijit.jit(lambda key: key + "!")
        for turn in range(8):
            fast(str(turn))
        pijit.reset(fast)
        assert fast("7") == fast("7") == "7!"
        assert pijit.status(fast).state == "replaying"
        assert not pijit.status(fast).reason

    def test_a_reason_that_nobody_uses_is_told_ever_more_rarely(self) -> None:
        """Each one takes longer than such a call, since the classes of what differs are looked for."""
        fast = pijit.jit(lambda key: key + "!")
        told = []
        for turn in range(60):
            assert fast(str(turn)) == f"{turn}!"
            told.append(_core.root_report(api.root_of(fast))["last_miss"])
        report = _core.root_report(api.root_of(fast))
        assert report["guard_failures"] == 59
        assert "'3'" in told[3]
        assert 4 < len(set(told)) < 16
