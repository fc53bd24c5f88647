"""Small programs plain and jitted, with a change in between: all that can be observed of their calls is the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from observe import MODES, compare, load_programs

import pijit

PROGRAMS = load_programs()

# Programs that go wrong today; each is run in a process of its own. A program that is mended is taken off the list.
BUGS = {
    "attribute_error_probed": "a caught AttributeError is recorded with a wrong stack depth (checked build stops)",
    "descriptor_becomes_data": "the descriptor's own class is not guarded",
    "exception_chain": "an exception inside a handler is recorded with a wrong stack depth (checked build stops)",
    "exception_returned": "install_trace: a caught exception cannot be built (checked build stops)",
    "generator_returned": "install_trace: a generator cannot be built (checked build stops)",
    "ordered_dict": "the order of an OrderedDict is not guarded",
}

CASES = [(name, mode) for name in PROGRAMS if name not in BUGS for mode in MODES]


@pytest.mark.parametrize(("name", "mode"), CASES)
def test_same(name: str, mode: str) -> None:
    expected, actual = compare(name, mode)
    assert actual.entries == expected.entries
    flags = PROGRAMS[name].flags
    if "stops" not in flags:
        assert actual.report["replays"] > 0, actual.report
        if "leaves" not in flags:
            assert actual.state == "replaying", actual.report


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.xfail(reason=why)) for name, why in BUGS.items()]
)
def test_bug(name: str) -> None:
    observe = Path(__file__).with_name("observe.py")
    environment = {**os.environ, "PYTHONPATH": str(Path(pijit.__file__).parents[1])}
    for mode in MODES:
        command = [sys.executable, str(observe), name, mode]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_enough_programs() -> None:
    """Most programs are asserted to be replayed, or the comparison would prove nothing."""
    replayed = [program for program in PROGRAMS.values() if "stops" not in program.flags]
    assert len(replayed) > 120
