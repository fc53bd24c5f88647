"""A replay that is left at any instruction of any small program goes on exactly as plain Python."""

from __future__ import annotations

import pytest
from exits import Exits, leave_everywhere, summary
from observe import MODES, load_programs

PROGRAMS = load_programs()
MOST = 500  # exits of a program: of more, so many are taken evenly


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Exits]:
    """Of the programs that ran so far."""
    return {}


def outcome(outcomes: dict[str, Exits], name: str) -> Exits:
    if name not in outcomes:
        outcomes[name] = leave_everywhere(PROGRAMS[name], MODES[0], MOST)
    return outcomes[name]


@pytest.mark.xdist_group("outcomes")  # one process has them all
@pytest.mark.parametrize("name", PROGRAMS)
def test_same_from_every_exit(outcomes: dict[str, Exits], name: str) -> None:
    assert not outcome(outcomes, name).wrong


@pytest.mark.xdist_group("outcomes")
def test_every_continuation_is_taken(outcomes: dict[str, Exits]) -> None:
    """Who adds one adds a program in which a frame waits that way. And so many are left that this proves something."""
    from pijit import _core

    every = [outcome(outcomes, name) for name in PROGRAMS]
    print(summary(every))
    assert set().union(*(exits.continuations() for exits in every)) == {n for n, _ in _core.tables()["continuations"]}
    assert sum(len(exits.left) for exits in every) > 10_000


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES[1:])
@pytest.mark.parametrize("name", PROGRAMS)
def test_same_however_it_is_described(name: str, mode: str) -> None:
    assert not leave_everywhere(PROGRAMS[name], mode, MOST).wrong
