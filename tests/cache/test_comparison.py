"""What the ledger makes of times: the times are made up, so that each verdict is known.

A program of the tests gives for each call its form and how long CPython would take; a replay takes so many times as
long. Nothing runs, and nothing depends on the machine.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import NamedTuple

import pytest

from pijit import _core


class Call(NamedTuple):
    """How long CPython takes, and what the ledger sees of the call."""

    seconds: float
    way: int = 1
    elements: float = 64.0
    lengths: float = 0.0


class Outcome(NamedTuple):
    """The verdicts, each with the number of the call after which it came, and the ratio that was told."""

    verdicts: list[tuple[int, str, float]]
    plain: int

    def lost(self) -> int:
        """The number of the call after which replays were given up; 0: they were not."""
        return next((number for number, verdict, _ in self.verdicts if verdict == "loses"), 0)


def run(
    program: Callable[[int, random.Random], Call],
    ratio: float,
    *,
    calls: int = 600,
    seed: int = 0,
    noise: float = 0.05,
    kind: Callable[[int, int, random.Random], str] = lambda number, replays, drawn: "replayed",
    cost: dict[str, float] | None = None,
) -> Outcome:
    """Ask the ledger about each call, and tell it what the call took.

    Args:
        program: gives the calls.
        ratio: of a replay to the plain call.
        calls: how many there are.
        seed: of everything that is drawn.
        noise: the standard deviation of a call's time, upwards.
        kind: what a call that may be replayed comes to, given its number and the replays of its way so far.
        cost: by kind, of a call that is no whole replay: how many times the plain call it takes.
    """
    drawn, ledger = random.Random(seed), _core.Ledger()
    verdicts, replays, plain = [], {}, 0
    for number in range(calls):
        call = program(number, drawn)
        taken = call.seconds * math.exp(abs(drawn.gauss(0, noise)))
        turn = ledger.next()
        came_to = "plain"
        if turn != "plain":
            replays[call.way] = replays.get(call.way, 0) + 1
            came_to = kind(number, replays[call.way], drawn)
            taken *= (cost or {}).get(came_to, ratio)
        plain += turn == "plain"
        if turn == "free":
            continue
        verdict = ledger.end(came_to, taken, call.way, (call.elements, call.lengths))
        if verdict:
            verdicts.append((number, verdict, ledger.ratio))
        if verdict == "loses":
            break
    return Outcome(verdicts, plain)


def steady(number: int, drawn: random.Random) -> Call:
    return Call(1e-4)


def rows(number: int, drawn: random.Random) -> Call:
    """Batches of 1 to 2,048 rows: a hundred times as long as the shortest."""
    count = drawn.randint(1, 2048)
    return Call(2e-5 + 1e-6 * count, elements=16.0 * count)


def steps(number: int, drawn: random.Random) -> Call:
    """A number that is an argument says how long it takes."""
    count = drawn.randint(5, 100)
    return Call(1e-5 * count, lengths=float(count))


def twelve_ways(number: int, drawn: random.Random) -> Call:
    way = drawn.randint(1, 12)
    return Call(1e-4 * way, way=way)


def hidden(number: int, drawn: random.Random) -> Call:
    """Nothing that the arguments show says how long it takes."""
    return Call(1e-4 * math.exp(drawn.gauss(0, 0.7)))


def growing(number: int, drawn: random.Random) -> Call:
    return Call(1e-4 * (1 + 0.01 * number))


def counting(number: int, drawn: random.Random) -> Call:
    """A number is another one in each call, and says nothing."""
    return Call(1e-4, lengths=float(number))


PROGRAMS = [steady, rows, steps, twelve_ways, hidden, growing, counting]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_gain_is_kept(program: Callable[[int, random.Random], Call]) -> None:
    for seed in range(40):
        outcome = run(program, 0.8, seed=seed)
        assert not outcome.lost(), (seed, outcome.verdicts)
        assert outcome.plain < 150


@pytest.mark.parametrize("program", [steady, rows, steps, growing, counting])
def test_a_loss_is_given_up(program: Callable[[int, random.Random], Call]) -> None:
    """The ratio that is told is that of calls which are alike."""
    for ratio, latest in ((1.3, 250), (2.0, 100), (10.0, 60)):
        for seed in range(20):
            outcome = run(program, ratio, seed=seed)
            assert 0 < outcome.lost() < latest, (ratio, seed, outcome.verdicts)
            assert outcome.verdicts[-1][2] == pytest.approx(ratio, rel=0.2)


def test_a_loss_on_many_ways_is_given_up() -> None:
    assert all(0 < run(twelve_ways, 2.0, seed=seed).lost() < 200 for seed in range(20))


def test_a_clear_loss_is_given_up_after_two_rounds() -> None:
    assert run(steady, 5.0).lost() == 3 + 2 * 10 - 1


def test_what_is_as_fast_is_kept() -> None:
    assert not any(run(steady, 1.0, seed=seed).lost() for seed in range(40))


def test_the_first_replays_do_not_count() -> None:
    """Of 12 ways something is new for long."""

    def kind(number: int, replays: int, drawn: random.Random) -> str:
        return "fresh" if replays <= 2 else "replayed"

    for seed in range(40):
        assert not run(twelve_ways, 0.8, seed=seed, kind=kind, cost={"fresh": 5.0}).lost()


def test_a_machine_that_is_slower_for_a_while() -> None:
    """For 15 calls at a time all takes half as much again: one round may say anything."""
    for seed in range(40):
        drawn, slow = random.Random(seed), [False]

        def program(number: int, _: random.Random, drawn: random.Random = drawn, slow: list[bool] = slow) -> Call:
            if number % 15 == 0:
                slow[0] = drawn.random() < 0.4
            return Call(1.5e-4 if slow[0] else 1e-4)

        assert not run(program, 0.8, seed=seed).lost()


def test_recordings_count_only_where_they_keep_coming() -> None:
    """Ten early ones are no loss; one in each second call is, though replays gain."""
    cost = {"recorded": 8.0}
    early = run(
        steady, 0.7, kind=lambda number, *_: "recorded" if number < 20 and number % 2 else "replayed", cost=cost
    )
    assert early.verdicts[-1][1] == "pays"
    ever = run(steady, 0.7, kind=lambda number, *_: "recorded" if number % 2 else "replayed", cost=cost)
    assert 0 < ever.lost() < 100


def test_what_is_left_or_missed_counts_in_full() -> None:
    cost = {"left": 3.0, "other": 1.2}
    assert run(steady, 0.7, kind=lambda number, *_: "left" if number % 3 else "replayed", cost=cost).lost()
    assert not run(steady, 0.7, kind=lambda number, *_: "other" if number % 3 == 0 else "replayed", cost=cost).lost()
    assert run(steady, 0.7, kind=lambda *_: "other", cost=cost).lost()


def test_calls_of_a_way_that_no_plain_call_took_say_nothing() -> None:
    """Those of the other way take ten times as long, replayed or not, and none of them is plain."""
    ledger, verdicts = _core.Ledger(), []
    for _ in range(400):
        turn = ledger.next()
        if turn == "plain":
            verdicts.append(ledger.end("plain", 1e-4, 1, (1.0, 0.0)))
        elif turn == "timed":
            verdicts.append(ledger.end("replayed", 1e-3, 2, (1.0, 0.0)))
    assert set(verdicts) == {""}


@pytest.mark.parametrize("hasty", [False, True])
def test_one_round_decides_for_what_nobody_asked_for(hasty: bool) -> None:
    """And a loss that is not clear is doubted, so that CPython runs the calls between the rounds."""

    def rounds(ratio: float) -> tuple[int, str, bool]:
        ledger, timed, doubted = _core.Ledger(), 0, False
        for _ in range(400):
            turn = ledger.next()
            doubted |= turn == "free" and ledger.doubts
            if turn == "free":
                continue
            timed += 1
            kind, taken = ("plain", 1e-4) if turn == "plain" else ("replayed", ratio * 1e-4)
            if verdict := ledger.end(kind, taken, 1, (1, 0), hasty):
                return timed, verdict, doubted
        return timed, "", doubted

    assert rounds(2.0) == (10 if hasty else 20, "loses", False)
    assert rounds(0.5) == (10, "pays", False)
    assert rounds(1.2)[1:] == ("loses", True)


@pytest.mark.parametrize("kind", ["replayed", "left"])
@pytest.mark.parametrize("hasty", [False, True])
def test_long_calls_that_lose_much_are_given_up_within_a_round(hasty: bool, kind: str) -> None:
    """Where nobody asked for them: two calls of 40 ms that lose half of that decide, and they begin at once."""

    def timed(plain: float, ratios: list[float]) -> tuple[int, str]:
        ledger, replays = _core.Ledger(), 0
        if hasty:
            ledger.begin_soon(plain)
        assert (ledger.next() == "plain") is (hasty and plain >= 5e-3)
        for _ in range(12):
            turn = ledger.next()
            if turn == "free":
                continue
            taken = plain if turn == "plain" else ratios[replays % len(ratios)] * plain
            replays += turn != "plain"
            if verdict := ledger.end("plain" if turn == "plain" else kind, taken, 1, (1, 0), hasty):
                return replays, verdict
        return replays, ""

    lost = (3, "loses") if hasty else (0, "") if kind == "left" else (5, "")
    assert timed(0.04, [1.5])[1] == lost[1]
    if hasty:
        assert timed(0.04, [1.5]) == lost  # the first one of a kind does not count
        assert timed(1e-4, [1.2])[1] != "loses"  # so short that little is lost before all is known
    assert timed(0.04, [1.1])[1] != "loses"  # not clear
    assert timed(0.04, [1.5, 1.0, 1.0])[1] != "loses"  # one of them was slow, and not each


def test_a_loss_is_tried_again() -> None:
    """And ever more rarely; once replays gain they are kept."""
    ledger = _core.Ledger()

    def end(ratio: float) -> str:
        for _ in range(200):
            turn = ledger.next()
            taken = 1e-4 if turn == "plain" else ratio * 1e-4
            verdict = "" if turn == "free" else ledger.end("plain" if turn == "plain" else "replayed", taken, 1, (1, 0))
            if verdict:
                return verdict
        return ""

    assert end(2.0) == "loses"
    rests = []
    for _ in range(3):
        rests.append(next(number for number in range(1, 100_000) if ledger.rested()))
        assert end(2.0) == "loses"
    assert rests == pytest.approx([600, 1200, 2400], abs=1)
    while not ledger.rested():
        pass
    assert end(0.7) == "pays"
