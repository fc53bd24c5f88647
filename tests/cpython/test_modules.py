"""CPython's own tests: what passes under a bare hook passes while everything is recorded, and while it is replayed."""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # pytest imports test files without a path

from outcomes import Outcomes, lost, run_module

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("test.test_grammar") is None, reason="python without its tests"),
]

MODULES = (
    "test_grammar",
    "test_exceptions",
    "test_raise",
    "test_except_star",
    "test_generators",
    "test_yield_from",
    "test_with",
    "test_contextlib",
    "test_iter",
    "test_dict",
    "test_list",
    "test_set",
    "test_tuple",
    "test_unpack_ex",
    "test_extcall",
    "test_keywordonlyarg",
    "test_class",
    "test_super",
    "test_scope",
    "test_listcomps",
    "test_code",
    "test_queue",
    "test_patma",
    "test_frame",
)

# What the program itself switches on is on trial here: much of these modules is not recorded at all.
TRACING = (
    "test_sys_settrace",
    "test_sys_setprofile",
    "test_bdb",
    "test_profile",
    "test_cprofile",
    "test_trace",
    "test_doctest",
)

DIFFERENCES = Path(__file__).parents[2] / "docs" / "cpython.md"


def differences(module: str) -> set[str]:
    """The tests of a module that are in the list of those that differ, on this version."""
    rows = ([cell.strip() for cell in line.split("|")] for line in DIFFERENCES.read_text().splitlines())
    rows = (row[1:4] for row in rows if len(row) > 4 and row[1] == module)
    minor = sys.version_info[1]
    return {test for _, test, on in rows if on == "all" or minor >= int(on.removeprefix("3."))}


def unexplained(module: str, mode: str) -> dict[str, str]:
    """What passes under the bare hook, does not in the mode, and is not in the list."""
    rows = lost(outcomes_of(module, "hook"), outcomes_of(module, mode))
    return {name: trouble for name, trouble in rows.items() if name.rsplit(".", 1)[1] not in differences(module)}


@functools.cache
def outcomes_of(module: str, mode: str) -> Outcomes:
    outcomes = run_module(module, mode)
    assert not outcomes.died, f"{module} under {mode}, in {outcomes.running or 'no test'}: {outcomes.died}"
    return outcomes


@pytest.mark.parametrize("mode", ["observe", "record-all"])
@pytest.mark.parametrize("module", MODULES)
def test_passes_as_before(module: str, mode: str) -> None:
    expected = outcomes_of(module, "hook")
    assert len(expected.passed()) > 0
    assert expected.stats["codes"] == expected.stats["replays"] == 0
    actual = outcomes_of(module, mode)
    print(f"{module} {mode}: {actual.summary()}")
    assert unexplained(module, mode) == {}
    assert actual.stats["codes"] > 0
    assert (actual.stats["replayed_codes"] > 0) == (actual.stats["replays"] > 0) == (mode == "record-all")


@pytest.mark.parametrize("mode", ["observe", "record-all", "outermost"])
@pytest.mark.parametrize("module", [*TRACING, "test_code", "test_queue", "test_patma", "test_frame"])
def test_passes_far_inside(module: str, mode: str) -> None:
    """With the test runner recorded most of a test runs in frames that no recorder follows."""
    assert len(outcomes_of(module, "hook").passed()) > 0
    assert unexplained(module, mode) == {}
    assert outcomes_of(module, mode).stats["records"] > 0 or mode == "observe"


def test_the_list_names_tests() -> None:
    for module in {*MODULES, *TRACING, "test_dis"}:
        names = {name.rsplit(".", 1)[1] for name in outcomes_of(module, "hook").tests}
        assert differences(module) <= names


@pytest.mark.parametrize("mode", ["observe", "record-all"])
def test_much_was_recorded(mode: str) -> None:
    """All modules together, or passing would prove little."""
    stats = [outcomes_of(module, mode).stats for module in MODULES]
    recorded, replayed = (sum(each[key] for each in stats) for key in ("codes", "replayed_codes"))
    print(f"{mode}, all modules: {recorded} code objects recorded, {replayed} replayed")
    assert recorded > 2000
    assert mode == "observe" or replayed > 1000
