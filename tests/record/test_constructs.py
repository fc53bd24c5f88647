"""Each construct of the language has a program, and almost all of them are replayed whole."""

from __future__ import annotations

import pytest
from constructs import CONSTRUCTS, opaque, steady_state
from small_programs import load_programs

PROGRAMS = load_programs()


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_replayed_whole(construct: str) -> None:
    """Or it is said above that it is not, and why."""
    steady = steady_state(PROGRAMS[CONSTRUCTS[construct]])
    assert steady.calls >= 2
    assert steady.whole() == (construct not in opaque()), steady


def test_a_program_each() -> None:
    assert len(set(CONSTRUCTS.values())) == len(CONSTRUCTS) >= 150
    assert not any("stops" in PROGRAMS[name].flags for name in CONSTRUCTS.values())


def test_almost_all_are_replayed_whole() -> None:
    """At least 140 of 150."""
    assert set(opaque()) <= set(CONSTRUCTS)
    assert len(CONSTRUCTS) - len(opaque()) >= max(140, 0.85 * len(CONSTRUCTS))
