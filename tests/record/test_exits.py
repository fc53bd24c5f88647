"""A replay that is left at any instruction of any small program goes on exactly as plain Python.

`make test` leaves each program at about SOME instructions that are spread evenly, and at the first one of each
continuation, described at once, and at some in one other mode; `make test-long` at up to MOST, and at more in every
mode. The programs begin at different instructions, so together they are left in all kinds of places.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from exits import Points, evenly, leave
from observe import MODES
from small_programs import load_programs

PROGRAMS = load_programs()
MOST, SOME, FEW = 500, 16, 50  # exits of a program: of more, so many are taken evenly
VERY_FEW = 5
REPEATS = 1000  # a program with so many instructions does the same ones over and over


def some(points: Points) -> Iterable[int]:
    """One point of each continuation, and others evenly; few of a program that repeats, where each costs most."""
    seen: set[str] = set()
    most = SOME if len(points) < REPEATS else VERY_FEW
    chosen = set(evenly(most, first=len(points) // 3)(points))
    for point, continuations in points.items():
        if not continuations <= seen:
            seen |= continuations
            chosen.add(point)
    return sorted(chosen)


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_from_exits(name: str) -> None:
    exits = leave(PROGRAMS[name], MODES[0], some)
    assert not exits.wrong
    assert exits.left or not exits.points or "stops" in PROGRAMS[name].flags


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_however_it_is_described(name: str) -> None:
    """Each program in one of the modes that do not look at once."""
    mode = MODES[1 + list(PROGRAMS).index(name) % (len(MODES) - 1)]
    assert not leave(PROGRAMS[name], mode, evenly(VERY_FEW)).wrong


def test_most_have_exits() -> None:
    """Or the comparisons would prove little."""
    some = list(PROGRAMS)[::20]
    assert sum(bool(leave(PROGRAMS[name], MODES[0], lambda points: ()).points) for name in some) > 0.8 * len(some)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_same_from_every_exit(name: str) -> None:
    assert not leave(PROGRAMS[name], MODES[0], evenly(MOST)).wrong


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES[1:])
@pytest.mark.parametrize("name", PROGRAMS)
def test_same_in_every_mode(name: str, mode: str) -> None:
    assert not leave(PROGRAMS[name], mode, evenly(FEW)).wrong


@pytest.mark.slow
def test_every_continuation_is_taken() -> None:
    """Who adds one adds a program in which a frame waits that way. There are so many that this proves much."""
    from pijit import _core

    taken: set[str] = set()
    count = 0

    def of_new_kinds(points: Points) -> Iterable[int]:
        seen = set(taken)
        for point, continuations in points.items():
            if not continuations <= seen:
                seen |= continuations
                yield point

    for program in PROGRAMS.values():
        exits = leave(program, MODES[0], of_new_kinds)
        assert not exits.wrong
        taken |= exits.continuations()
        count += len(exits.points)
    assert taken == {name for name, _ in _core.tables()["continuations"]}
    assert count > 50_000
