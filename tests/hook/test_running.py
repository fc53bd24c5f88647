"""Calls that run long pass the role of root on to what they call (csrc/hook/running.h)."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from module_level import at_module_level, report

import pijit

pytestmark = pytest.mark.torch

torch: Any = None  # imported by the fixture: where these tests are not run, nothing may import it
X: Any = None


@pytest.fixture(scope="module", autouse=True)
def _torch() -> None:
    global torch, X
    torch = pytest.importorskip("torch")
    X = torch.ones(3)


@pytest.fixture
def at_once() -> Iterator[None]:
    """A call has run long when it has made a few others; loops are test_in_loop.py's."""
    before = pijit.config.update({"long_call": 0, "enter_loops": False})
    yield
    pijit.config.update(before)


class TestPassingOn:
    MAIN = """
def step(x): return x + x
def main(turns):
    for turn in range(turns): y = step(X)
    return y
"""

    @pytest.mark.usefixtures("at_once")
    def test_a_long_call_passes_the_role_on(self) -> None:
        names = at_module_level(self.MAIN + "y = main(100)")
        assert torch.equal(names["y"], X + X)
        assert report(names["main"]) == {}
        assert report(names["step"])["replays"] > 60

    @pytest.mark.usefixtures("at_once")
    def test_a_function_that_is_called_again_is_recorded_all_the_same(self) -> None:
        """First calls are long; what they passed on does not keep the second from being recorded."""
        names = at_module_level(self.MAIN + "y = main(100)\ny = main(100)\ny = main(100)")
        assert torch.equal(names["y"], X + X)
        assert report(names["main"])["replays"] == 1

    def test_a_driver_passes_it_on_for_good(self) -> None:
        """A long call that has called roots again and again: its second call is not recorded."""
        source = """
import time
def step(x):
    time.sleep(0.006)
    return x + x
def main():
    for turn in range(60): y = step(X)
    return y
"""
        before = pijit.config.long_call
        pijit.config.long_call = 10
        try:
            names = at_module_level(source + "y = main()\ny = main()")
        finally:
            pijit.config.long_call = before
        assert torch.equal(names["y"], X + X)
        assert report(names["main"]) == {}
        assert report(names["step"])["calls"] > 70

    @pytest.mark.usefixtures("at_once")
    def test_through_all_that_runs(self) -> None:
        """However long the chain of functions is that are called once, of methods and of comprehensions."""
        source = """
def step(x): return x + x
class Trainer:
    def fit(self): return self.partial_fit()
    def partial_fit(self): return [self.epoch() for turn in range(1)]
    def epoch(self): return {turn: step(X) for turn in range(100)}
y = Trainer().fit()
"""
        names = at_module_level(source)
        assert len(names["y"][0]) == 100
        assert report(names["step"])["replays"] > 60

    @pytest.mark.usefixtures("at_once")
    def test_through_modules_that_run_inside_functions(self, tmp_path: Path) -> None:
        (tmp_path / "program.py").write_text(
            "import torch\nX = torch.ones(3)\ndef step(x): return x + x\nfor turn in range(100): y = step(X)\n"
        )
        sources = [
            "import runpy\ndef run(): return runpy.run_path(FILE)",
            "def run():\n    names = {}\n    exec(open(FILE).read(), names)\n    return names",
            "import importlib, sys\ndef run():\n    sys.path.append(DIRECTORY)\n"
            "    return vars(importlib.import_module('program'))",
        ]
        for source in sources:
            file = str(tmp_path / "program.py")
            names = at_module_level(source + "\nnames = run()", FILE=file, DIRECTORY=str(tmp_path))
            assert torch.equal(names["names"]["y"], X + X)
            assert report(names["names"]["step"])["replays"] > 60

    def test_imports_do_not_count_for_who_imports(self, tmp_path: Path) -> None:
        """The function has run long because it imports, and runs no operator of its own."""
        (tmp_path / "slow.py").write_text(
            "import time, torch\ndef g(): return torch.ones(3) + 1\n"
            "end = time.monotonic() + 1\nwhile time.monotonic() < end: g()\n"
        )
        source = """
import sys
def step(x): return x + x
def f():
    sys.path.append(DIRECTORY)
    import slow
    for turn in range(3): y = step(X)
    return slow
slow = f()
"""
        before = pijit.config.long_call
        pijit.config.long_call = 300
        try:
            names = at_module_level(source, DIRECTORY=str(tmp_path))
        finally:
            pijit.config.long_call = before
        assert report(names["f"]) == report(names["step"]) == {}
        assert report(names["slow"].g)["replays"] > 0

    def test_a_short_call_does_not(self) -> None:
        names = at_module_level(self.MAIN + "y = main(2_000)\ny = main(2_000)")
        assert report(names["step"]) == {}
        assert report(names["main"])["records"] == 1

    @pytest.mark.usefixtures("at_once")
    def test_operators_do_not_go_through_the_counter_for_ever(self) -> None:
        """After it was passed on nothing is counted any more, and later functions are counted on their own."""
        source = self.MAIN + "def late(x): return x * 3\n"
        names = at_module_level(source + "main(100)\nfor turn in range(5): late(X)")
        assert report(names["late"])["replays"] == 3

    @pytest.mark.usefixtures("at_once")
    def test_an_object_that_died_is_another(self) -> None:
        """The next one stands at its address, and is no second call of it."""
        gc.disable()  # its callbacks, which other tests may have left, are functions that are called, too
        before = pijit.stats()["records"]
        source = """
class A:
    def m(self, x): return x + x
def main():
    for turn in range(100): A().m(X)
main()
"""
        try:
            at_module_level(source)
        finally:
            gc.enable()
        assert pijit.stats()["records"] == before
