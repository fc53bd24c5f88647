"""The hook goes out where it costs a program more than replays gain, and comes back."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import pijit

pytestmark = pytest.mark.torch

COMMON = """
import pijit, time
from pijit import _core
import torch
torch.set_num_threads(1)
X = torch.ones(3)

def small(n): return n + 1
def many(thousands):
    for i in range(1000 * thousands): small(i)

def loses(x, seconds=1.0):
    "Many small functions beside few operators; whether the hook went out meanwhile."
    end, rested = time.process_time() + seconds, False
    while time.process_time() < end:
        many(20)
        x = x + 1
        rested = rested or _core.hook_rests()
    return rested

def step(x):
    for i in range(20): x = (x + x) * 0.5
    return x
"""


def run(program: str, **options: str) -> str:
    """A program in a process of its own, which ends well; what it printed."""
    share = {"PIJIT_HOOK_SHARE": "2", "PIJIT_RECORD_SHARE": "3", "PIJIT_GIVE_UP": "1", "PIJIT_LONG_CALL": "25"}
    environment = {**os.environ, "PYTHONPATH": str(Path(pijit.__file__).parents[1])} | share | options
    source = COMMON + textwrap.dedent(program)
    done = subprocess.run(
        [sys.executable, "-c", source], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return done.stdout


LOSES = """
pijit.enable()
exec("for k in range(50): step(X + k)")   # there are roots
print(_core.stats()["replays"] > 0, loses(X))
"""


def test_a_program_that_loses() -> None:
    assert run(LOSES) == "True True\n"


UNTIL_IT_RESTS = """
pijit.enable()
exec("for k in range(50): step(X + k)")   # there are roots
many(100)
total = sum(range(150_000_000))           # seconds in which no Python function is called
x, thousands = X, 0
while not _core.hook_rests() and thousands < 15000:
    many(20)
    x = x + 1
    thousands += 20
print(total == 150_000_000 * 149_999_999 // 2, torch.equal(x, X + thousands // 20), thousands < 1500)
"""


def test_time_in_which_nothing_was_lost_makes_up_for_no_loss() -> None:
    assert run(UNTIL_IT_RESTS) == "True True True\n"


def test_any_share() -> None:
    assert run(LOSES, PIJIT_HOOK_SHARE="0") == "True False\n"


def test_what_a_user_gave_to_jit_keeps_it() -> None:
    out = run("""
    pijit.enable()
    fast = pijit.jit(step)
    for k in range(5): assert torch.equal(fast(X + k), X + k)
    loses(X)
    before = _core.stats()["replays"]
    for k in range(20): assert torch.equal(fast(X + k), X + k)
    print(_core.stats()["replays"] - before >= 10)
    """)
    assert out == "True\n"


def test_it_comes_back_for_what_gains() -> None:
    out = run("""
    pijit.enable()
    lost = loses(X)
    def turns(count):
        exec("for k in range(count): assert torch.equal(step(X + k), X + k)", globals() | {"count": count})
    turns(100)
    end = time.process_time() + 60
    before = _core.stats()["replays"]
    while _core.stats()["replays"] < before + 1000 and time.process_time() < end: turns(100)
    print(lost, _core.stats()["replays"] >= before + 1000, _core.hook_rests())
    """)
    assert out == "True True False\n"


def test_what_gains_keeps_it() -> None:
    out = run("""
    pijit.enable()
    end, rested = time.process_time() + 2, False
    while time.process_time() < end:
        for k in range(100): step(X + k)
        rested = rested or _core.hook_rests()
    print(rested, _core.stats()["replays"] > 1000)
    """)
    assert out == "False True\n"
