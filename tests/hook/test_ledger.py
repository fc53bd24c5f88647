"""Replays that take longer than CPython are given up, by the time that a few calls take; those that gain are kept.

The programs are extreme: a replay takes many times as long, or a fraction.
"""

from __future__ import annotations

import bisect
import random
from collections.abc import Iterator
from typing import Any

import pytest

import pijit
from pijit import _core, api

REASON = "its replays do not pay: a call takes "
NUMBERS = [(7 * i) % 41 for i in range(40)]


@pytest.fixture(autouse=True)
def _gives_up() -> Iterator[None]:
    before = pijit.config.update({"give_up": True})
    yield
    pijit.config.update(before)


SIGNS = {"records": "R", "replays": "r"}


def report(fn: Any) -> dict[str, Any]:
    return dict(_core.root_report(api.root_of(fn)))


def losing(n: int) -> list[int]:
    """Each insertion is an opaque call."""
    kept: list[int] = []
    for number in NUMBERS:
        bisect.insort(kept, number)
    return [*kept, n]


def gaining(n: int) -> int:
    """Folded: nothing of the loop is left in the trace."""
    total = n
    for number in (3, 1, 4, 1, 5) * 200:
        total += number * number % 7
    return total


def plain_calls(fn: Any) -> int:
    counts = report(fn)
    return counts["calls"] - counts["records"] - counts["replays"]


def test_a_loss_is_given_up() -> None:
    fast = pijit.jit(lambda n: losing(n))
    for turn in range(50):
        assert fast(turn) == losing(turn)
    assert pijit.status(fast).state == "disabled"
    assert pijit.status(fast).reason.startswith(REASON)
    replays = report(fast)["replays"]
    assert 0 < replays < 40
    for turn in range(50):
        assert fast(turn) == losing(turn)
    assert report(fast)["replays"] == replays


def test_a_gain_is_kept() -> None:
    fast = pijit.jit(lambda n: gaining(n))
    for turn in range(200):
        assert fast(turn) == gaining(turn)
    assert pijit.status(fast).state == "replaying"
    assert 0 < plain_calls(fast) <= 32


def test_calls_of_one_kind_come_one_after_the_other() -> None:
    """A plain call between replays would find its code in no cache, and would take longer than among plain calls."""
    fast = pijit.jit(lambda: gaining(1))
    kinds = ""
    for _ in range(100):
        before = report(fast)
        assert fast() == gaining(1)
        after = report(fast)
        kinds += next((sign for name, sign in SIGNS.items() if after[name] != before[name]), "p")
    a_round = "p" * 5 + "r" * 5
    assert kinds == "R" + "r" * 3 + a_round + "r" * 64 + a_round + "r" * 12


def test_recordings_of_calls_that_come_back_are_no_loss() -> None:
    """One call is of another kind than those before it, while calls are timed; its trace is used from then on."""
    fast = pijit.jit(lambda kind, n: len(kind) + gaining(n))
    for turn in range(200):
        kind = "a" * (1 + turn // 8 if turn < 24 else 1 + turn % 3)
        assert fast(kind, turn) == len(kind) + gaining(turn)
    assert pijit.status(fast).state == "replaying"
    assert report(fast)["records"] < 10
    assert report(fast)["replays"] > 150


def test_a_loss_is_tried_again_after_many_calls() -> None:
    fast = pijit.jit(lambda n: losing(n))
    for turn in range(50):
        fast(turn)
    replays = report(fast)["replays"]
    for turn in range(900):
        fast(turn)
    assert report(fast)["replays"] == replays
    for turn in range(60_000):
        fast(turn)
    assert fast(7) == losing(7)
    assert report(fast)["replays"] > replays
    assert report(fast)["replays"] < replays + 50
    assert pijit.status(fast).state == "disabled"


@pytest.mark.parametrize(("source", "options"), [(gaining, {"strict": True}), (losing, {"verify": 1_000_000})])
def test_nothing_is_compared_where_replays_are_asked_for(source: Any, options: dict[str, Any]) -> None:
    """A strict function makes no opaque call, so it is one that gains: no call of it is CPython's either."""
    fast = pijit.jit(lambda n: source(n), **options)
    for turn in range(60):
        assert fast(turn) == source(turn)
    assert pijit.status(fast).state == "replaying"
    assert plain_calls(fast) == 0


def test_nothing_is_given_up_without_the_option() -> None:
    with pijit.enabled(give_up=False):
        fast = pijit.jit(lambda n: losing(n))
        for turn in range(60):
            assert fast(turn) == losing(turn)
    assert pijit.status(fast).state == "replaying"
    assert plain_calls(fast) == 0


def test_a_call_that_is_compared_is_the_call() -> None:
    """Effects and random numbers are those of as many calls of the plain function."""

    def draw(into: list[float], drawn: random.Random) -> float:
        into.append(drawn.random())
        if len(into) % 7 == 0:
            raise ValueError(len(into))
        return into[-1] + gaining(1)

    def outcomes(fn: Any) -> list[Any]:
        into: list[float] = []
        drawn, got = random.Random(1), []
        for _ in range(60):
            try:
                got.append(fn(into, drawn))
            except ValueError as error:
                got.append(error.args)
        return [got, into, drawn.random()]

    assert outcomes(pijit.jit(draw)) == outcomes(draw)


def test_reset_begins_anew() -> None:
    fast = pijit.jit(lambda n: losing(n))
    for turn in range(50):
        fast(turn)
    assert pijit.status(fast).state == "disabled"
    pijit.reset(fast)
    for _ in range(3):
        assert fast(5) == losing(5)
    assert pijit.status(fast).state == "replaying"


def test_reset_within_a_call() -> None:
    def f(n: int) -> list[int]:
        if n % 5 == 0:
            pijit.reset(fast)
        return losing(n)

    fast = pijit.jit(f)
    for turn in range(100):
        assert fast(turn) == losing(turn)


def test_a_function_that_calls_itself() -> None:
    def f(depth: int) -> int:
        return losing(depth)[-1] + (fast(depth - 1) if depth else 0)

    fast = pijit.jit(f)
    for turn in range(60):
        assert fast(turn % 4) == sum(range(turn % 4 + 1))


class TestTheHook:
    """A call that is CPython's runs without the hook while no function is replayed; it is back afterwards."""

    @staticmethod
    def given_up(source: Any) -> Any:
        fast = pijit.jit(source)
        for turn in range(50):
            fast(turn)
        assert pijit.status(fast).state == "disabled"
        return fast

    def test_is_back_afterwards(self) -> None:
        pijit.reset()
        fast = self.given_up(lambda n: losing(n))
        assert _core.hook_installed()
        other = pijit.jit(lambda n: gaining(n))
        for turn in range(5):
            assert other(turn) == gaining(turn)
            assert fast(turn) == losing(turn)
        assert report(other)["replays"] > 0

    def test_what_is_jitted_within_a_call(self) -> None:
        made = []

        def f(n: int) -> list[int]:
            if n == 100:
                made.append(pijit.jit(lambda n: gaining(n)))
                for turn in range(5):
                    made.append(made[0](turn))
            return losing(n)

        fast = self.given_up(f)
        assert fast(100) == losing(100)
        assert made[1:] == [gaining(turn) for turn in range(5)]
        assert report(made[0])["replays"] > 0
        assert _core.hook_installed()

    def test_what_raises(self) -> None:
        def f(n: int) -> int:
            return 1 // n + len(losing(n))

        fast = pijit.jit(f)
        for turn in range(1, 51):
            fast(turn)
        with pytest.raises(ZeroDivisionError):
            fast(0)
        assert fast(2) == f(2)
        assert _core.hook_installed()


@pytest.mark.torch
def test_what_a_loss_calls_is_not_tried_in_turn(caplog: pytest.LogCaptureFixture) -> None:
    """Of functions that enable() found nothing is said: nobody asked for them by name."""
    torch = pytest.importorskip("torch")
    names: dict[str, Any] = {"torch": torch, "losing": losing, "results": []}
    program = """
def g(x): return x + losing(1)[0]
def f(x): return g(x) * 2
for turn in range(60): results.append(f(torch.full((2,), float(turn))))
"""
    with pijit.enabled():
        exec(compile(program, "<module>", "exec"), names)
    assert all(torch.equal(each, torch.full((2,), 2.0 * turn)) for turn, each in enumerate(names["results"]))
    assert pijit.status(names["f"]).reason.startswith(REASON)
    assert api.root_of(names["g"]) < 0
    assert not [record for record in caplog.records if "PJ106" in record.getMessage()]
