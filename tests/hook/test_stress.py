"""The stress switch: what is recorded, what is replayed, what is left alone, and what it keeps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import pijit
from pijit import _core


def run_apart(words: str, program: str) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own, under PIJIT_STRESS."""
    environment = {**os.environ, "PYTHONPATH": str(Path(pijit.__file__).parents[1]), "PIJIT_STRESS": words}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def assert_passes(words: str, program: str) -> None:
    done = run_apart(words, program)
    assert done.returncode == 0, done.stderr[-2000:]


def test_every_function_is_a_root_from_its_first_call() -> None:
    assert_passes(
        "record-all",
        """
import pijit
from pijit import _core, api
def f(x): return x + 1
def generator(): yield 1
assert f(1) == 2
assert pijit.stats()["records"] == 0, "only enable() starts it"
pijit.enable()
before = pijit.stats()["replays"]
assert [f(1), f(1), f(1)] == [2, 2, 2]
pijit.disable()
assert pijit.stats()["replays"] == before + 2, pijit.stats()
assert pijit.stats()["codes"] >= 1
assert api.root_of(f) >= 0
assert f(1) == 2
assert pijit.stats()["replays"] == before + 2
pijit.enable()
assert list(generator()) == [1]
assert api.root_of(generator) == -1
assert api.root_of(pijit.disable) == api.root_of(pijit.config.update) == -1, "pijit's own Python is a root"
""",
    )


def test_no_root_is_left_alone() -> None:
    assert_passes(
        "record-all",
        """
import pijit
from pijit import _core, api
def f(x): return [int] if x else eval("x")
pijit.enable()
for _ in range(200): assert f(0) == 0
for x in range(200): assert f(object()) == [int]
pijit.disable()
report = _core.root_report(api.root_of(f))
assert _core.root_status(api.root_of(f))[0] != "disabled", report
""",
    )


def test_observing_keeps_nothing() -> None:
    assert_passes(
        "observe",
        """
import pijit
from pijit import api
def f(x): return x + 1
pijit.enable()
assert [f(1), f(1), f(1)] == [2, 2, 2]
pijit.disable()
stats = pijit.stats()
assert stats["codes"] > 0
assert stats["replays"] == stats["traces"] == 0, stats
assert api.root_of(f) == -1
""",
    )


def test_roots_go_with_their_functions() -> None:
    assert_passes(
        "record-all",
        """
import gc, pijit
from pijit import api
def make(k):
    def f(x): return x + k
    return f
kept = [make(k) for k in range(100)]
before = pijit.stats()["traces"]
pijit.enable()
for k, f in enumerate(kept): assert f(1) == f(1) == 1 + k
pijit.disable()
assert sum(api.root_of(f) >= 0 for f in kept) == 16
assert pijit.stats()["traces"] > before
del f
kept.clear()
gc.collect()
assert pijit.stats()["traces"] == before, pijit.stats()
""",
    )


def test_wrong_words() -> None:
    done = run_apart("record-al", "import pijit\nassert pijit.config.stress == ''")
    assert done.returncode == 0
    assert "PIJIT_STRESS has no word 'record-al'; the nearest is 'record-all'" in done.stderr


@pytest.mark.parametrize("words", ["", " , "])
def test_no_words(words: str) -> None:
    assert_passes(words, "import pijit\nassert pijit.config.stress == ''")


def test_replays_are_left_all_over_the_trace() -> None:
    assert_passes(
        "exits",
        """
import pijit
from pijit import _core, api
def f(x): return [x + 1, x * 2]
pijit.enable()
for _ in range(20):
    assert f(3) == [4, 6]
pijit.disable()
assert _core.choose_exit() >= 19, "each replay is left"
traces = _core.root_traces(api.root_of(f))
assert [number for number, _ in traces[0]["exit_points"]] == list(range(traces[0]["operations"])), traces
assert traces[0]["exits"] == 0, "that is not the trace's fault"
""",
    )


FAULTS = """
import pijit
from pijit import _core

class Point:
    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return self.x == other.x

def numbers(n):
    try:
        for i in range(n):
            yield i
    finally:
        log.append("closed")

def work(n):
    found = {}
    for i in numbers(n):
        found.setdefault(i % 3, []).append(Point(i))
    try:
        found["none"]
    except KeyError as error:
        log.append(str(error))
    return sum(p.x for row in found.values() for p in row), sorted(map(str, range(n)), key=len), Point(1) == Point(1)

log = []
expected = [work(n) for n in range(20)] , log[:]
log.clear()
pijit.enable()
actual = [work(n) for n in range(20)], log[:]
pijit.disable()
assert actual == expected, (actual, expected)
assert pijit.stats()["aborts"] > 20, pijit.stats()
assert {root["last_stop"]["code"] for root in _core.roots() if root["last_stop"]} == {"PJ218"}
"""


def test_the_program_outlives_a_recorder_that_is_wrong() -> None:
    if _core.checked:
        done = run_apart("faults", FAULTS)
        assert done.returncode == -signal.SIGABRT
        assert "pijit: the recorder failed: " in done.stderr
    else:
        assert_passes("faults", FAULTS)
