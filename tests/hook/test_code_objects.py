"""Code objects that die, are exchanged, and carry what others keep on them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pijit

pytest.importorskip("ctypes")

# Another user of the slots that code objects have, who comes later.
OTHER = """
import ctypes, sys
import pijit
freed = []
kept = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(freed.append)
old = sys.version_info < (3, 12)
request = getattr(ctypes.pythonapi, "_PyEval_RequestCodeExtraIndex" if old else "PyUnstable_Eval_RequestCodeExtraIndex")
request.restype = ctypes.c_ssize_t
slot = request(kept)
set_extra = getattr(ctypes.pythonapi, "_PyCode_SetExtra" if old else "PyUnstable_Code_SetExtra")
set_extra.argtypes = (ctypes.py_object, ctypes.c_ssize_t, ctypes.c_void_p)
"""


def run_apart(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(pijit.__file__).parents[1]), **variables}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_others_hear_of_their_own_code_only() -> None:
    """A free function is called for what its owner has kept, and not for each function that was recorded."""
    program = (
        OTHER
        + """
for i in range(4):
    f = eval(f"lambda x: x + {i}")
    if i % 2: set_extra(f.__code__, slot, 100 + i)
    g = pijit.jit(f)
    assert [g(1), g(1), g(2)] == [1 + i, 1 + i, 2 + i]
    assert pijit.status(g).state == "replaying"
    if i == 3: set_extra(f.__code__, slot, 200)
    before = len(freed)
    del f, g
    print(freed[before:])
"""
    )
    done = run_apart(program)
    assert (done.returncode, done.stdout) == (0, "[]\n[101]\n[]\n[200]\n"), done.stderr


def test_the_interpreter_ends_after_others_are_gone() -> None:
    """At its end the callback of another user dies before the last code objects do."""
    program = (
        OTHER
        + """
pijit.enable(stress="record-all")
class Late:
    def __init__(self): self.method = eval("lambda x: x + 1")
    def use(self): return self.method(1)
late = Late()
sys.late = [late.use, late]  # the module `sys` is cleared last
assert [late.use(), late.use()] == [2, 2]
"""
    )
    done = run_apart(program, PYTHONMALLOC="debug")
    assert (done.returncode, done.stderr) == (0, "")


def test_code_that_dies_before_its_function() -> None:
    """A function that was to be recorded is given other code, and dies after its first one."""
    program = """
import gc
import pijit
def make(i):
    names = {}
    exec(f"def f(x): return x + {i}", names)
    return names.pop("f")
def replaced(i):
    f = pijit.jit(make(i))
    vars(f).clear()
    f.__code__ = make(1000 + i).__code__
    return f
kept = []
for i in range(100):
    f = replaced(i)
    other = [compile(f"x + {j}", "", "eval") for j in range(5)]
    assert [f(1), f(1)] == [1001 + i] * 2
    kept.append(f)
    if i % 7 == 0: kept.clear(); gc.collect()
first = make(0)
second = first.__code__
f = pijit.jit(first)
del first
f.__code__ = make(5).__code__
assert [f(1), f(1)] == [6, 6]
f.__code__ = second
assert [f(1), f(1), f(2)] == [1, 1, 2]
assert pijit.status(f).state == "replaying"
"""
    done = run_apart(program, PYTHONMALLOC="debug")
    assert (done.returncode, done.stderr) == (0, "")
