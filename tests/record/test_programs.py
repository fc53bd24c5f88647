"""Small programs plain and jitted, with a change in between: all that can be observed of their calls is the same."""

from __future__ import annotations

import pytest
from observe import MODES, compare
from small_programs import load_programs

PROGRAMS = load_programs()

CASES = [(name, mode) for name in PROGRAMS for mode in MODES]


@pytest.mark.parametrize(("name", "mode"), CASES)
def test_same(name: str, mode: str) -> None:
    expected, actual = compare(name, mode)
    assert actual.entries == expected.entries
    flags = PROGRAMS[name].flags
    if "stops" not in flags:
        assert actual.report["replays"] > 0, actual.report
        if "leaves" not in flags:
            assert actual.state == "replaying", actual.report


def test_enough_programs() -> None:
    """Most programs are asserted to be replayed, or the comparison would prove nothing."""
    replayed = [program for program in PROGRAMS.values() if "stops" not in program.flags]
    assert len(replayed) > 120
