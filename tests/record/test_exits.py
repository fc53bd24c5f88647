"""A replay that is left at any instruction of any small program goes on exactly as plain Python."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from exits import Points, evenly, leave
from observe import MODES, load_programs

PROGRAMS = load_programs()
MOST, FEW = 500, 50  # exits of a program: of more, so many are taken evenly


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_from_every_exit(name: str) -> None:
    exits = leave(PROGRAMS[name], MODES[0], evenly(MOST))
    assert not exits.wrong
    assert exits.left or not exits.points or "stops" in PROGRAMS[name].flags


@pytest.mark.parametrize("mode", MODES[1:])
@pytest.mark.parametrize("name", PROGRAMS)
def test_same_however_it_is_described(name: str, mode: str) -> None:
    assert not leave(PROGRAMS[name], mode, evenly(FEW)).wrong


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
