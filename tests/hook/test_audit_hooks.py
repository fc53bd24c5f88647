"""Audit hooks that are written in Python are told what they are told without pijit, and see what they see then."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

# A hook stays for ever: each case has a process of its own. `behave` is what the hook does with an event.
PROGRAM = """
import json, sys
import pijit
from pijit import _core, api

log, count, telling = [], 0, False

def behave(event, args):
    global count
    BEHAVE

def hook(event, args, *, of_interest=frozenset({"builtins.id", "object.__getattr__", "os.fork"})):
    if telling and event in of_interest:
        behave(event, args)

def second(event, args):
    if telling and event == "builtins.id":
        log.append("second")

def told(first, *, default=3):
    return first

def f(kind):
    try:
        code, names = told.__code__, told.__kwdefaults__
        same = id(told) == id(code), type(id(kind)) is int
        return "first" in code.co_varnames, names["default"], told.__defaults__, same
    except ValueError as error:
        return repr(error), error.__traceback__.tb_next.tb_lineno

def outcome(function, argument):
    global count, telling
    log.clear()
    count = 0
    telling = True
    result = function(argument)
    telling = False
    return [repr(result), list(log), count]

sys.addaudithook(hook)
jitted = pijit.jit(f)
seen = []
for step in range(9):
    if step == 3:
        told.__kwdefaults__ = {"default": 4}
    if step == 6:
        sys.addaudithook(second)
    seen.append([outcome(f, step), outcome(jitted, step)])
report = _core.root_report(api.root_of(jitted))
print(json.dumps({"seen": seen, "replays": report["replays"], "opaque": report["opaque_calls"]}))
"""

BEHAVIOURS = {
    "does nothing": "return",
    "looks only": "kept = event, len(args)",
    "counts": "count += 1",
    "keeps": "log.append((event, repr(args) if event != 'builtins.id' else len(args)))",
    "raises": "raise ValueError(event)",
    "is audited itself": "log.append(told.__code__.co_name if event != 'object.__getattr__' else 'code')",
}


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_hooks_are_told_the_same(behaviour: str, tmp_path: Path) -> None:
    """With a change of what is read, and with one hook more."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("BEHAVE", BEHAVIOURS[behaviour]))
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for plain, jitted in found["seen"]:
        assert plain == jitted
    if behaviour in {"keeps", "counts"}:
        assert found["seen"][0][0][1] or found["seen"][0][0][2]
    assert "second" in found["seen"][-1][1][1] or behaviour == "raises"
    if sys.version_info >= (3, 12) and behaviour in {"does nothing", "looks only"}:
        assert found["replays"] > 0
        assert found["opaque"] == 0
