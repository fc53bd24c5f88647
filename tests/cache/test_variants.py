"""Functions with more variants than max_traces: those that come back are replayed, those that do not cost little."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pijit
from pijit import _core, api

# A function with code of its own for each word; some do more than others.
WAYS = {str(n): eval(f"lambda given: [given, {n}] + [len([given]){', given' * (n % 3)}]") for n in range(1_000)}


class State:
    mode = "0"


class Kept:
    """What calls have written."""

    def __init__(self) -> None:
        self.last: list[object] = []


def by_argument(key: str, kept: Kept) -> list[object]:
    kept.last = WAYS[key](key)
    return kept.last


STATE = State()


def by_attribute(kept: Kept) -> list[object]:
    return by_argument(STATE.mode, kept)


def fresh(program: Callable[..., Any]) -> Callable[..., Any]:
    """A function with traces of its own."""
    return pijit.jit(program)


def report(function: object) -> dict[str, Any]:
    return dict(_core.root_report(api.root_of(function)))


class Calls:
    """The same calls of a jitted function and of the plain one, which have to come to the same."""

    def __init__(self, program: Callable[..., Any]) -> None:
        self.program, self.fast = program, fresh(program)
        self.plain_kept, self.fast_kept = Kept(), Kept()

    def __call__(self, number: int) -> None:
        STATE.mode = str(number)
        key = (str(number),) if self.program is by_argument else ()
        assert self.fast(*key, self.fast_kept) == self.program(*key, self.plain_kept)
        assert vars(self.fast_kept) == vars(self.plain_kept)

    def replays(self, numbers: list[int]) -> int:
        """How many of these calls are replayed."""
        before = report(self.fast)["replays"]
        for number in numbers:
            self(number)
        return int(report(self.fast)["replays"] - before)


@pytest.fixture(autouse=True)
def _eight() -> Iterator[None]:
    before = pijit.config.max_traces
    pijit.config.max_traces = 8
    yield
    pijit.config.max_traces = before


@pytest.mark.parametrize("many", [9, 24, 32])
def test_variants_that_come_back_are_all_replayed(many: int) -> None:
    calls = Calls(by_argument)
    for _ in range(6):
        calls.replays([*range(many)])
    assert calls.replays([*range(many)]) == many
    assert report(calls.fast)["traces"] == report(calls.fast)["records"] == many


def test_in_any_order() -> None:
    calls, order = Calls(by_argument), random.Random(0)
    for _ in range(400):
        calls(order.randrange(24))
    assert calls.replays([order.randrange(24) for _ in range(100)]) == 100
    assert report(calls.fast)["records"] == 24


def test_variants_that_no_argument_tells_apart() -> None:
    """Traces that are replayed speak for one more."""
    calls = Calls(by_attribute)
    for _ in range(10):
        calls.replays([n for n in range(24) for _ in range(3)])
    assert calls.replays([*range(24)]) == 24


@pytest.mark.parametrize("program", [by_argument, by_attribute])
def test_variants_that_never_come_back_are_given_up(program: Callable[..., Any]) -> None:
    calls = Calls(program)
    assert calls.replays([*range(300)]) == 0
    assert report(calls.fast)["records"] <= (8 if program is by_argument else 20)
    assert pijit.status(calls.fast).state == "disabled"
    assert "its calls keep differing" in pijit.status(calls.fast).reason


@pytest.mark.parametrize("program", [by_argument, by_attribute])
def test_more_variants_than_there_can_be_traces(program: Callable[..., Any]) -> None:
    """Where most calls miss, their guards would be tried for nothing."""
    calls, order = Calls(program), random.Random(0)
    for _ in range(2_000):
        calls(order.randrange(200))
    assert report(calls.fast)["traces"] == 8
    assert report(calls.fast)["records"] < 80


def test_some_come_back_among_others_that_do_not() -> None:
    """Those stay, and the others are recorded rarely."""
    calls = Calls(by_argument)
    for turn in range(200):
        calls.replays([turn % 8, 100 + turn])
    assert calls.replays([*range(8)]) == 8
    assert report(calls.fast)["records"] < 40
    assert report(calls.fast)["traces"] <= 32


def test_other_variants_take_the_place_of_those_that_are_not_called_any_longer() -> None:
    calls = Calls(by_argument)
    for _ in range(80):
        calls.replays([*range(32)])
    for _ in range(8):
        calls.replays([*range(100, 116)])
    assert calls.replays([*range(100, 116)]) == 16
    assert report(calls.fast)["traces"] == 32
    assert report(calls.fast)["records"] == 48
    gone = calls.replays([*range(32)])
    assert 8 <= gone < 32


def test_what_saves_the_least_gives_way() -> None:
    """Of 32 variants one is called rarely: the next one takes its place."""
    calls = Calls(by_argument)
    for _ in range(20):
        calls.replays([*range(32)])
    rare = 18
    for _ in range(20):
        calls.replays([n for n in range(32) if n != rare])
    calls(500)
    assert report(calls.fast)["records"] == 33
    assert calls.replays([n for n in range(32) if n != rare]) == 31
    calls(500)
    assert calls.replays([500]) == 1


def test_strict_has_as_many_as_were_asked_for() -> None:
    fast = pijit.jit(by_argument, strict=True)
    kept = Kept()
    for number in [*range(8)] * 2:
        fast(str(number), kept)
    with pytest.raises(pijit.errors.StrictError, match="PJ102"):
        fast("8", kept)
    assert kept.last == WAYS["7"]("7")


def test_a_reset_begins_anew() -> None:
    calls = Calls(by_argument)
    for _ in range(4):
        calls.replays([*range(24)])
    pijit.reset(calls.fast)
    assert calls.replays([*range(8)]) == 0
    assert calls.replays([*range(8)]) == 8


def test_errors_in_some_variants() -> None:
    def program(key: str) -> float:
        return 1 / (len(WAYS[key](key)[2:]) - 2)

    fast = pijit.jit(program)

    def outcome(function: Callable[[str], float], key: str) -> Any:
        try:
            return function(key)
        except (ZeroDivisionError, KeyError) as error:
            return type(error), str(error)

    for _ in range(6):
        for number in [*range(20), 5_000]:
            assert outcome(fast, str(number)) == outcome(program, str(number))


def test_threads() -> None:
    fast = pijit.jit(by_argument)
    kept = Kept()
    wrong: list[int] = []

    def call(seed: int) -> None:
        order = random.Random(seed)
        for _ in range(300):
            key = str(order.randrange(40))
            if fast(key, kept) != by_argument(key, Kept()):
                wrong.append(seed)

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert wrong == []
    assert 24 <= report(fast)["traces"] <= 32
