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
)


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
    assert lost(expected, actual) == {}
    assert actual.stats["codes"] > 0
    assert (actual.stats["replayed_codes"] > 0) == (actual.stats["replays"] > 0) == (mode == "record-all")


@pytest.mark.parametrize("mode", ["observe", "record-all"])
def test_much_was_recorded(mode: str) -> None:
    """All modules together, or passing would prove little."""
    stats = [outcomes_of(module, mode).stats for module in MODULES]
    recorded, replayed = (sum(each[key] for each in stats) for key in ("codes", "replayed_codes"))
    print(f"{mode}, all modules: {recorded} code objects recorded, {replayed} replayed")
    assert recorded > 2000
    assert mode == "observe" or replayed > 1000
