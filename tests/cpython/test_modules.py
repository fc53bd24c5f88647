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

# Tests of what is outside the promise, with the reason.
EXCLUDED: dict[str, str] = {
    "test.test_tuple.TupleTest.test_track_dynamic": "which tuples the garbage collector has stopped looking at",
    "test.test_tuple.TupleTest.test_track_literals": "which tuples the garbage collector has stopped looking at",
}


@functools.cache
def outcomes_of(module: str, mode: str) -> Outcomes:
    names = frozenset(name for name in EXCLUDED if name.startswith(f"test.{module}."))
    outcomes = run_module(module, mode, without=names)
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
    assert (actual.stats["replays"] > 0) == (mode == "record-all")
