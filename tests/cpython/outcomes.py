"""Runs one of CPython's own test modules, every test three times in a row, and says how each test came out.

    python outcomes.py test_grammar record-all            a summary: counts, and what did not pass
    python outcomes.py test_grammar hook observe          two modes compared: what the second one loses
    python outcomes.py test_grammar record-all -k lambda  only tests with that in their names, verbosely

Modes: `plain` (pijit is not imported), `hook` (the hook is in place and records nothing), `observe` (every function is
recorded at its first calls, nothing is kept) and `record-all` (every function is recorded at its first call and
replayed from then on; three runs of a test so that it is), `outermost` (as `record-all`, and what runs the tests is
recorded, too: most of a test then runs under a recording that began far outside of it) and `exits` (as `record-all`,
and each replay is left at another instruction). A mode runs in a process of its own, which writes
one line of JSON when a test starts and one when it ends, so that a crash says where it was.
"""

from __future__ import annotations

import argparse
import doctest
import faulthandler
import importlib
import inspect
import json
import os
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MODES = ("plain", "hook", "observe", "record-all", "outermost", "exits")
STRESS = {"hook": "", "outermost": "record-all"}  # by mode; else it is the mode
TURNS = 3
SECONDS = 420


# ------------------------------------------------------------------------------------------------- in the inner process


class Reporter(unittest.TestResult):
    """Writes how each run of each test came out."""

    def __init__(self, stream: Any, loud: bool) -> None:
        super().__init__()
        self.stream, self.loud = stream, loud
        self.outcome, self.trouble = "passed", ""

    def write(self, **row: Any) -> None:
        self.stream.write(json.dumps(row) + "\n")
        self.stream.flush()

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.outcome, self.trouble = "passed", ""
        self.write(started=test.id())

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        self.write(ended=test.id(), outcome=self.outcome, trouble=self.trouble)
        self.failures.clear()
        self.errors.clear()

    def note(self, outcome: str, trouble: str) -> None:
        self.outcome = outcome
        self.trouble += trouble
        if self.loud and trouble:
            print(trouble, file=sys.stderr)

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        self.note("error", self.errors[-1][1])
        if not hasattr(test, "_testMethodName"):  # a fixture of the class or module
            self.write(ended=test.id(), outcome="error", trouble=self.trouble)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        self.note("failed", self.failures[-1][1])

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.note("failed", f"{subtest}: {self._exc_info_to_string(err, subtest)}")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self.note("skipped", reason)

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addExpectedFailure(test, err)
        self.note("expected failure", "")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        super().addUnexpectedSuccess(test)
        self.note("unexpected success", "")


def flatten(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flatten(test)
        else:
            yield test


def runners() -> Iterator[Any]:
    """What runs tests: one recording of all of it would be the only one there is."""
    for owner in (unittest.TestSuite, unittest.TestCase, doctest.DocTestRunner, doctest.DocTestCase, Reporter):
        yield from (value for value in vars(owner).values() if inspect.isfunction(value))
    yield run_inside


def run_inside(module: str, mode: str, out: str, chosen: str) -> None:
    """The inner process: runs the tests in its directory, which is empty."""
    faulthandler.enable()
    with open(out, "w", encoding="utf-8") as stream:
        core = None
        if mode != "plain":
            import pijit
            from pijit import _core as core

            pijit.enable(stress=STRESS.get(mode, mode))
            for function in () if mode == "outermost" else runners():
                pijit.skip(function)
        loader = unittest.TestLoader()
        tests = flatten(loader.loadTestsFromModule(importlib.import_module(f"test.{module}")))
        # The same instance in every turn: it is what its functions are called with.
        wanted = (test for test in tests if chosen in test.id())
        repeated = [test for test in wanted for _ in range(TURNS)]
        reporter = Reporter(stream, bool(chosen))
        unittest.TestSuite(repeated).run(reporter)
        reporter.write(errors=[str(error) for error in loader.errors], stats=dict(core.stats()) if core else {})
    os._exit(0)  # what the tests left behind is not on trial


# ------------------------------------------------------------------------------------------------- in the outer process


@dataclass
class Outcomes:
    """How a module came out in one mode."""

    tests: dict[str, list[str]] = field(default_factory=dict)  # outcome of each turn
    trouble: dict[str, str] = field(default_factory=dict)
    running: str = ""  # the test in which the process died
    died: str = ""  # how it ended, if it did not end by itself
    stats: dict[str, int] = field(default_factory=dict)

    def passed(self) -> set[str]:
        return {name for name, turns in self.tests.items() if turns == ["passed"] * TURNS}

    def summary(self) -> str:
        counts = {key: self.stats.get(key, 0) for key in ("records", "aborts", "replays", "exits")}
        text = f"{self.stats.get('codes', 0)} code objects recorded, {self.stats.get('replayed_codes', 0)} replayed: "
        text += ", ".join(f"{count} {key}" for key, count in counts.items())
        return f"{len(self.passed())} of {len(self.tests)} tests passed; {text}{'; ' + self.died if self.died else ''}"


def run_module(module: str, mode: str, chosen: str = "", seconds: float = SECONDS) -> Outcomes:
    """Runs the tests of test.<module> whose names contain `chosen`."""
    outcomes = Outcomes()
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory, "outcomes.jsonl")
        command = [sys.executable, __file__, "--inside", str(out), module, mode, "-k", chosen]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PIJIT_")}
        empty = Path(directory, "cwd")
        empty.mkdir()
        try:
            done = subprocess.run(
                command,
                cwd=empty,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=None if chosen else subprocess.PIPE,
                text=True,
                errors="replace",
                timeout=seconds,
                check=False,
            )
            if done.returncode != 0:
                outcomes.died = f"exit status {done.returncode}: {(done.stderr or '')[-3000:]}"
        except subprocess.TimeoutExpired:
            outcomes.died = f"not done in {seconds} s"
        for line in out.read_text().splitlines() if out.exists() else ():
            read_row(outcomes, json.loads(line))
    return outcomes


def read_row(outcomes: Outcomes, row: dict[str, Any]) -> None:
    if "started" in row:
        outcomes.running = row["started"]
    elif "ended" in row:
        outcomes.running = ""
        outcomes.tests.setdefault(row["ended"], []).append(row["outcome"])
        if row["outcome"] in ("error", "failed", "unexpected success"):
            outcomes.trouble.setdefault(row["ended"], row["trouble"] or row["outcome"])
    else:
        outcomes.stats = row["stats"]
        if row["errors"]:
            outcomes.died = f"the module was not loaded: {row['errors']}"


def lost(expected: Outcomes, actual: Outcomes) -> dict[str, str]:
    """What passes in every turn of `expected` and does not in `actual`, and why."""
    return {
        name: actual.trouble.get(name, f"turns: {actual.tests.get(name, 'none')}")
        for name in sorted(expected.passed() - actual.passed())
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("-k", default="", help="only tests with this in their names")
    parser.add_argument("module")
    parser.add_argument("modes", nargs="+", choices=MODES)
    options = parser.parse_args()
    if options.inside:
        return run_inside(options.module, options.modes[0], options.inside, options.k)
    first: Outcomes | None = None
    for mode in options.modes:
        outcomes = run_module(options.module, mode, options.k)
        print(f"{options.module} {mode}: {outcomes.summary()}")
        if outcomes.running:
            print(f"  died in {outcomes.running}")
        for name, trouble in (lost(first, outcomes) if first else outcomes.trouble).items():
            print(f"  {name}: {trouble.strip().splitlines()[-1]}")
        first = first or outcomes
    return None


if __name__ == "__main__":
    main()
