"""Places in messages are the user's own file and line, and reasons are the real ones."""

from __future__ import annotations

import cProfile
import json
import logging
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import pijit
from pijit import _core, _messages
from pijit.api import root_of

HERE = Path(__file__).name


def line_of(text):
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.fixture
def said(caplog):
    _messages.forget()
    caplog.set_level(logging.WARNING, "pijit")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "pijit"]


def looks(frame=None):
    return sys._getframe().f_lineno


# ------------------------------------------------------------------------------------------------------------- places


def test_a_stop_in_the_standard_library(said):
    """The line that called it; the library's is told besides."""

    def f(text):
        text = text + " "
        return textwrap.wrap(text * 20, 20)  # calls the library

    fast = pijit.jit(f)
    before = pijit.config.update({"max_operations": 500})
    try:
        for text in ["a b c"] * 20 + ["d e"] * 3:
            assert fast(text) == f(text)
    finally:
        pijit.config.update(before)
    stop = pijit.traces(fast)[0].stop
    assert stop.code == "PJ208"
    assert (Path(stop.file).name, stop.line) == (HERE, line_of("# calls the " + "library"))
    assert stop.inside.partition("/")[2].startswith("textwrap.py:")
    line = next(line for line in said() if "PJ208" in line)
    assert f"{HERE}:{stop.line} in " in line
    assert f" in {stop.inside}; the rest runs in CPython [PJ" in line
    assert f", in {stop.inside} [PJ" in str(stop)


@pytest.mark.torch
def test_a_stop_in_a_module_of_torch():
    import torch

    class Hooked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)
            self.layer.register_forward_hook(looking)

        def forward(self, x):
            return self.layer(x)  # calls the layer

    def looking(module, inputs, output):
        return logging.currentframe() and None  # in the hook

    model = pijit.jit(Hooked())
    x = torch.ones(2)
    plain = torch.nn.functional.linear(x, model.layer.weight, model.layer.bias)
    for _ in range(3):
        assert torch.equal(model(x), plain)
    report = _core.root_report(root_of(model))
    assert (Path(report["file"]).name, report["line"]) == (HERE, Hooked.forward.__code__.co_firstlineno)
    stop = pijit.traces(model)[0].stop or pijit.explain(model, x).stop
    if stop is not None:
        assert Path(stop.file).name == HERE


@pytest.mark.torch
def test_a_root_that_is_a_module_of_torch(said):
    """Jitted is the layer itself: the place is that of its call."""
    import torch

    class Odd(torch.nn.ReLU):
        def forward(self, x):
            return super().forward(x)

    odd = pijit.jit(Odd())
    odd.register_forward_pre_hook(lambda module, inputs: logging.currentframe() and None)
    for _ in range(3):
        assert odd(torch.ones(1)).tolist() == [1]
    report = _core.root_report(root_of(odd))
    assert (Path(report["file"]).name, report["line"]) == (HERE, Odd.forward.__code__.co_firstlineno)


# -------------------------------------------------------------------------------------------------- tracers, profilers


def watches(frame, event, argument):
    return None


@pytest.mark.parametrize("switch", [sys.settrace, sys.setprofile])
def test_under_a_tracer_or_profiler(switch):
    f = pijit.jit(lambda x: x * 2)
    assert [f(2), f(2)] == [4, 4]
    assert pijit.status(f) == pijit.Status("replaying", "")
    switch(watches)
    try:
        assert f(3) == 6
        status = pijit.status(f)
        report = pijit.explain(f, 4)
    finally:
        switch(None)
    assert status.state == "recorded"
    assert "something traces or profiles the program" in status.reason
    assert status.reason.endswith(f"({__name__}.watches)")
    assert report.result == 8
    assert report.stop.code == "PJ217"
    assert f"{HERE}:" in str(report)
    assert "watches) [PJ217]" in str(report)
    assert "in CPython" in str(report)
    assert f(5) == 10
    assert pijit.status(f).reason == ""
    assert pijit.explain(f, 2).stop is None


def test_under_cprofile():
    f = pijit.jit(lambda x: x * 2)
    f(1)
    with cProfile.Profile():
        assert f(3) == 6
    profiler = "a profiler is on (cProfile.Profile)"
    tool = "a tool of sys.monitoring is on (cProfile)"  # that is what it is from CPython 3.12 on
    assert pijit.status(f).reason.endswith(profiler if sys.version_info < (3, 12) else tool)
    assert f(2) == 4
    assert pijit.status(f).reason == ""


@pytest.mark.torch
def test_under_the_profiler_of_torch_with_stacks():
    """It sees Python's calls, so CPython has to make them."""
    import torch

    f = pijit.jit(lambda x: x * 2)
    one = torch.ones(1)
    assert [f(one).item() for _ in range(3)] == [2] * 3
    before = _core.root_report(root_of(f))
    with torch.profiler.profile(with_stack=True):
        assert [f(one * 3).item() for _ in range(100)] == [6] * 100
        report = pijit.explain(f, one)
        assert pijit.status(f).state == "recorded"
    assert "a profiler is on" in pijit.status(f).reason
    assert report.stop.code in {"PJ216", "PJ217"}
    assert "a profiler is on" in str(report)
    assert f(one * 2).item() == 4
    assert pijit.status(f) == pijit.Status("replaying", "")
    after = _core.root_report(root_of(f))
    assert (after["records"], after["guard_failures"]) == (before["records"], before["guard_failures"])


# ------------------------------------------------------------------------------------------------------------- reasons


def report_of(file):
    """What the report at the end of a program says."""
    environment = {**os.environ, "PYTHONPATH": str(Path(pijit.__file__).parents[1])}
    command = [sys.executable, "-m", "pijit", "--report", str(file)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=True)


STEP = """
    import torch
    def step(x):
        return x + 1
    def helper(x):
        return x
"""


@pytest.mark.torch
@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (
            "def main():\n    for _ in range(100):\n        step(torch.ones(2))\nmain()",
            "the tensor operators ran inside main() (program.py:7), which was called once and took 0.00 s; recorded is "
            "a second call. What a function calls is recorded once its call has run for 1000000 ms. Give the function",
        ),
        (
            "step(torch.ones(2))",
            "the tensor operators ran inside step() (program.py:3), which was called once and took 0.",
        ),
        (
            "class A:\n    def f(self): return step(torch.ones(2))\na, b = A(), A()\na.f(), b.f()",
            "A.f() (program.py:8) runs tensor operators, and was called 2 times, each time for another object",
        ),
        ("for _ in range(5):\n    helper(1)", "no function ran tensor operators"),
        (
            "import sys\nsys.settrace(lambda *_: None)\nfor _ in range(5):\n    step(torch.ones(2))",
            "a debugger, coverage or a profiler was on",
        ),
    ],
)
def test_why_nothing_was_recorded(tmp_path, program, reason):
    file = Path(tmp_path, "program.py")
    file.write_text(textwrap.dedent(STEP) + program + "\n")
    assert f"pijit: nothing was recorded: {reason}" in report_of(file).stderr


def test_why_nothing_was_recorded_without_a_framework(tmp_path):
    file = Path(tmp_path, "program.py")
    file.write_text("print(sum(range(4)))\n")
    done = report_of(file)
    assert done.stdout == "6\n"
    assert "pijit: nothing was recorded: no tensor framework was imported" in done.stderr


def test_the_advice_of_pj102_can_be_followed():
    """Values that come back get a trace each; what is computed from a new one is passed instead."""
    table = {str(n): n for n in range(100)}

    def of_key(key):
        return table[key] * 2

    def of_number(number):
        return number * 2

    fast = pijit.jit(of_key)
    keys = [str(n % 100) for n in range(300)]
    assert [fast(key) for key in keys] == [of_key(key) for key in keys]
    assert pijit.status(fast).state == "disabled"
    assert "its calls keep differing" in pijit.status(fast).reason
    assert pijit.why(fast).startswith("key: ")
    advice = next(row[3] for row in _core.tables()["left"] if row[0] == "PJ102")
    assert "pijit.config.max_traces = 100" in advice
    before = pijit.config.max_traces
    pijit.config.max_traces = 100
    try:
        pijit.reset(fast)
        assert [fast(key) for key in keys] == [of_key(key) for key in keys]
        assert pijit.status(fast).state == "replaying"
    finally:
        pijit.config.max_traces = before
    outside = pijit.jit(of_number)
    assert [outside(table[str(n)]) for n in range(100)] == [2 * n for n in range(100)]
    assert pijit.status(outside).state == "replaying"
    assert json.loads(pijit.explain(outside, 3).to_json())["counts"]["replays"] == 1
