"""Rounds: ways to do the same work are timed once each, in all orders in turn, and compared round by round, so that
what slows the machine down for a while slows both sides of a ratio.

A way that is not `jitted` runs without pijit's hook, as in a program that does not use pijit.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Mapping
from typing import Any

from report import seconds

from pijit import _core

Call = Callable[[], object]


class Rounds:
    """Times of each way, in seconds, one for each round."""

    def __init__(self, *ways: str, jitted: tuple[str, ...] = ("jitted",)) -> None:
        self.orders = itertools.cycle(itertools.permutations(ways))
        self.times: dict[str, list[float]] = {way: [] for way in ways}
        self.jitted = jitted

    def run(self, calls: Mapping[str, Call]) -> None:
        """One round; the hook is in afterwards."""
        for way in next(self.orders):
            with_hook(way in self.jitted)
            self.times[way].append(seconds(calls[way]))
        with_hook(True)

    def measure(self, benchmark: Any, one_round: Call, rounds: int, warmup_rounds: int) -> None:
        """Rounds as a benchmark, whose own time is that of a round; those that warm up are forgotten."""
        benchmark.pedantic(one_round, rounds=rounds, warmup_rounds=warmup_rounds)
        self.times = {way: times[-rounds:] for way, times in self.times.items()}

    def ratio(self, way: str, to: str) -> float:
        """Median over the rounds."""
        return statistics.median(mine / other for mine, other in zip(self.times[way], self.times[to], strict=True))

    def result(self) -> dict[str, float]:
        """For the ways eager, twin and jitted: the `ratio` to eager, and what the machine's noise makes of 1."""
        return {"ratio": self.ratio("jitted", "eager"), "noise": self.ratio("twin", "eager")}


def with_hook(wanted: bool) -> None:
    """Puts pijit's hook in, or takes it out."""
    if wanted and not _core.hook_installed():
        _core.hook_install()
    elif not wanted and _core.hook_installed():
        _core.hook_remove()


def many(call: Callable[..., object], *args: object, times: int = 1000) -> Call:
    """That many calls, for what takes microseconds."""

    def loop() -> None:
        for _ in itertools.repeat(None, times):
            call(*args)

    return loop
