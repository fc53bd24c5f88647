"""The share of the process's time that recordings of functions that enable() found may take."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.torch

# Forty functions, each with a body of its own that is long to record, called three times.
PROGRAM = """
import torch, pijit
from pijit import _core
X = torch.ones(3)
body = "".join(f"    y = y * {i % 7} + x\\n" for i in range(2_000))
def make(i):
    names = {}
    exec(f"def f{i}(x):\\n    y = x\\n{body}    return y + {i}", names)
    return names[f"f{i}"]
functions = [make(i) for i in range(40)]
expected = [f(X) for f in functions]
pijit.enable()
exec("for _ in range(3): got = [f(X) for f in functions]")
pijit.disable()
assert all(torch.equal(f(X), y) for f, y in zip(functions, expected))
print(pijit.stats()["records"])
"""


def recordings(**options: str) -> int:
    env = os.environ | {"PIJIT_RECORD_BUDGET": "4", "PIJIT_GIVE_UP": "0"} | options
    command = [sys.executable, "-c", PROGRAM]
    return int(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout)


def test_what_is_over_the_share_waits() -> None:
    any_number = recordings(PIJIT_RECORD_SHARE="0")
    few = recordings(PIJIT_RECORD_SHARE="1")
    assert any_number == 40
    assert 1 <= few < 30


def test_no_budget_no_share() -> None:
    assert recordings(PIJIT_RECORD_SHARE="1", PIJIT_RECORD_BUDGET="0") == 40


DIFFERING = """
import torch, pijit
X = torch.ones(3)
def helpful(x): return (x + x) * 3 - x
def differing(x, text): return helpful(x), [text.count(c) for c in text]
pijit.enable()
exec("for i in range(60): y = differing(X, str(i) * (1 + i % 7))")
pijit.disable()
from pijit import _core, api
roots = {root["name"]: root for root in _core.roots()}
print(roots["differing"]["records"], roots["helpful"]["replays"] > 20 if "helpful" in roots else None)
"""


def test_what_differs_from_call_to_call_passes_its_role_on() -> None:
    """After a few recordings, so that what it calls gains."""
    env = os.environ | {"PIJIT_RECORD_BUDGET": "4", "PIJIT_GIVE_UP": "0"}
    command = [sys.executable, "-c", DIFFERING]
    assert subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout == "6 True\n"
