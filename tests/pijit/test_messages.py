"""What pijit says by itself: when, in which words, how often, and how it is silenced."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import pijit
from pijit import _core, _messages
from pijit.api import root_of

HERE = Path(__file__).name


@pytest.fixture(autouse=True)
def _afresh():
    _messages.forget()
    before = {name: getattr(pijit.config, name) for name in pijit.config}
    yield
    pijit.config.update(before)


@pytest.fixture
def said(caplog):
    """The lines that pijit has said so far."""
    caplog.set_level(logging.WARNING, "pijit")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "pijit"]


def line_of(function, text):
    """The line of a function's source where a text stands."""
    lines = Path(__file__).read_text().splitlines()
    start = function.__code__.co_firstlineno
    return next(number for number in range(start, start + 20) if text in lines[number - 1])


def without_cost(line):
    """The line without `, 0.8 ms a call`, which differs from run to run."""
    return re.sub(r", [0-9.]+ (s|ms|us) a call\]", "]", line)


def looks(x):
    """Stops where it asks for its frame, which a replay does not have."""
    y = x + 1
    sys._getframe()
    return y


def test_a_stop_that_replays_keep_reaching(said):
    fast = pijit.jit(looks)
    for _ in range(8):
        fast(1)
    assert said() == []
    for _ in range(30):
        fast(1)
    where = f"{HERE}:{line_of(looks, 'sys._getframe')} in looks()"
    (line,) = said()
    assert without_cost(line) == (
        f"pijit: {where}: stopped recording at _getframe(...); the rest runs in CPython"
        " [PJ203] (python -m pijit help PJ203)"
    )
    assert line != without_cost(line)


def test_the_form():
    told = {"kind": "stopped", "root": 1, "name": "step", "codes": "PJ203", "file": "/a/train.py", "line": 42}
    told |= {"function": "step", "inside": "", "reason": f"{_messages.texts()['PJ203']}: print(...)", "seconds": 8e-4}
    assert _messages.line(told) == (
        "pijit: train.py:42 in step(): stopped recording at print(...); the rest runs in CPython"
        " [PJ203, 0.8 ms a call] (python -m pijit help PJ203)"
    )
    assert _messages.line(told | {"inside": "torch/nn/modules/linear.py:134", "seconds": 0.0}) == (
        "pijit: train.py:42 in step(): stopped recording at print(...) in torch/nn/modules/linear.py:134;"
        " the rest runs in CPython [PJ203] (python -m pijit help PJ203)"
    )
    assert _messages.line(told | {"seconds": 0.0}).endswith("CPython [PJ203] (python -m pijit help PJ203)")


def slow_then_stops(x):
    sys._getframe()
    time.sleep(0.02)
    return x


def sleeps(many):
    time.sleep(0.02)
    return len(many)


@pytest.mark.parametrize(("function", "argument"), [(slow_then_stops, 1), (sleeps, [1] * 2000)])
def test_what_it_costs(said, function, argument):
    """What CPython runs of each call: 20 ms at least."""
    fast = pijit.jit(function)
    for _ in range(12):
        fast(argument)
    (line,) = said()
    assert 20 <= float(re.search(r", ([0-9]+) ms a call\]", line)[1])


def test_once_for_a_cause_and_again_after_reset(said):
    for _ in range(3):
        fast = pijit.jit(looks)
        for _ in range(20):
            fast(1)
    assert len(said()) == 1
    pijit.reset()
    for _ in range(20):
        fast(1)
    assert len(said()) == 2


def test_another_reason(said):
    @pijit.jit
    def keyed(x):
        return {x: 1}[x]

    class Odd:
        def __hash__(self):
            return 1

        def __eq__(self, other):
            return self is other

    odd = Odd()
    for _ in range(20):
        keyed(odd)
    (line,) = said()
    assert "keyed(): stopped recording because an operand of this kind is not recorded yet: " in line
    assert "[PJ204]" in without_cost(line)


TABLE = {str(n): n for n in range(100)}


def differs(x):
    return TABLE[x]


def test_calls_that_keep_differing(said):
    fast = pijit.jit(differs)
    for n in range(100):
        assert fast(str(n)) == n
    assert pijit.status(fast).state == "disabled"
    where = f"{HERE}:{differs.__code__.co_firstlineno} in differs()"
    (line,) = said()
    assert without_cost(line) == (
        f"pijit: {where}: left to CPython: its calls keep differing from every recorded one: {pijit.why(fast)}"
        " [PJ102] (python -m pijit help PJ102)"
    )
    assert pijit.why(fast) == "x: '64' now, '7' before"


@pytest.mark.torch
def test_replays_that_are_left(said, monkeypatch):
    import torch

    monkeypatch.setattr(pijit.config, "loops", "unroll")  # else other traces do the rest

    @pijit.jit
    def branch(x):
        os.getpid()
        return x + 1 if x.sum() > 0 else x - 1

    for _ in range(2):
        branch(torch.ones(2))
    for _ in range(100):
        assert branch(-torch.ones(2)).tolist() == [-2, -2]
    assert len(pijit.traces(branch)) == 1
    assert _core.root_report(root_of(branch))["exits"] == 32  # then the call is recorded that goes the other way
    (line,) = said()
    assert line.startswith(f"pijit: {HERE}:")
    assert ".branch(): most of its replays are left before their end [PJ103]" in without_cost(line)


def both(a, b):
    return len(a) + len(b)


def test_nothing_recorded(said):
    """A list that is too long to be guarded."""
    fast = pijit.jit(both)
    many = [1, 2] * 500
    for _ in range(10):
        assert fast(many, many) == 2000
    assert pijit.status(fast).state == "disabled"
    where = f"{HERE}:{both.__code__.co_firstlineno} in {both.__qualname__}()"
    (line,) = said()
    assert without_cost(line) == (
        f"pijit: {where}: left to CPython: nothing could be recorded: an argument of this kind cannot be guarded yet"
        " [PJ101, PJ213] (python -m pijit help PJ213)"
    )


def test_silent_where_all_is_well(said):
    fast = pijit.jit(lambda x: x * 2)
    for _ in range(50):
        fast(1)
    assert pijit.status(fast).state == "replaying"
    assert said() == []


def test_quiet(said):
    fast = pijit.jit(looks)
    pijit.config.quiet = True
    for _ in range(20):
        fast(1)
    assert said() == []


def test_internals_only_when_asked_for(said):
    pijit.config.debug = True
    fast = pijit.jit(looks)
    for _ in range(20):
        fast(1)
    (line,) = said()
    assert line.endswith("}")
    assert "replays 8" in line


def run(code, **environment):
    variables = {**os.environ, "PYTHONPATH": str(Path(pijit.__file__).parents[1]), **environment}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=True)


SPEAKS = """
    import logging, sys, pijit
    {setup}
    def f(x):
        sys._getframe()
    g = pijit.jit(f)
    for _ in range(20):
        g(1)
"""


@pytest.mark.parametrize(
    ("setup", "environment", "lines"),
    [
        ("", {}, 1),
        ("", {"PIJIT_QUIET": "1"}, 0),
        ("", {"PIJIT": "0"}, 0),
        ("logging.getLogger('pijit').setLevel(logging.ERROR)", {}, 0),
        ("logging.basicConfig(format='mine %(name)s %(levelname)s')", {}, 1),
    ],
)
def test_seen_without_setting_up_logging(setup, environment, lines):
    done = run(SPEAKS.format(setup=setup), **environment)
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == lines
    if "basicConfig" in setup:
        assert done.stderr == "mine pijit WARNING\n"
    elif lines:
        assert done.stderr.startswith("pijit: <string>:5 in f(): stopped recording at _getframe(...)")


def test_a_handler_that_raises_is_no_error_of_the_program():
    code = """
        import logging, sys, pijit
        class Bad(logging.Filter):
            def filter(self, record):
                raise ValueError("no")
        logging.getLogger("pijit").addFilter(Bad())
        @pijit.jit
        def f(x):
            sys._getframe()
            return x
        print([f(1) for _ in range(20)] == [1] * 20)
    """
    done = run(code)
    assert done.stdout == "True\n"
    assert "ValueError: no" in done.stderr
