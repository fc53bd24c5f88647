"""Programs written at random, plain and jitted, with a change in between: all that can be observed is the same, also
when replays are left on the way.
"""

from __future__ import annotations

import pytest
from exits import evenly, leave
from observe import MODES, run
from random_programs import HERE, program
from small_programs import Program

COUNT = 100  # more of them were run when this was written; these are to notice what a change breaks
LEFT = 15  # of those, so many with exits


pytestmark = pytest.mark.usefixtures("no_collections")  # Things tell when they die


def numbered(seed: int) -> Program:
    return Program(f"random{seed}", frozenset(), HERE / f"{seed}.py", 0, program(seed))


@pytest.mark.parametrize("seed", range(COUNT))
def test_same(seed: int) -> None:
    import pijit
    from pijit import api

    for mode in MODES:
        assert run(numbered(seed), mode, pijit.jit, api.root_of).entries == run(numbered(seed), mode).entries, mode


@pytest.mark.parametrize("seed", range(LEFT))
def test_same_from_exits(seed: int) -> None:
    assert not leave(numbered(seed), MODES[0], evenly(30)).wrong


def test_most_are_replayed() -> None:
    """Or the comparison would prove little."""
    import pijit
    from pijit import api

    reports = [run(numbered(seed), MODES[0], pijit.jit, api.root_of).report for seed in range(30)]
    assert sum(report["replays"] > 0 for report in reports) > 20
