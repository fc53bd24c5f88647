"""A recording that begins imports nothing: the import would be recorded, and so on. Processes that record all end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pijit

UNITTEST = """
import torch, pijit, unittest
pijit.enable()
class T(unittest.TestCase):
    def test_a(self):
        for i in range(5): self.assertEqual({i: 1}, {i: 1})
unittest.TextTestRunner(verbosity=0).run(unittest.defaultTestLoader.loadTestsFromTestCase(T))
print("end")
"""

REMOVED = """
import sys, torch, pijit
pijit.enable()
removed = sys.modules.pop("torch.library")
def f(x): return x + 1
for _ in range(4): assert f(torch.ones(2)).tolist() == [2, 2]
assert "torch.library" not in sys.modules, "a recording has imported it"
assert pijit.stats()["replays"] > 0
print("end")
"""

LOCKS = """
import contextlib, importlib, sys, threading, torch, pijit
pijit.enable()
lock, again, condition = threading.Lock(), threading.RLock(), threading.Condition()
@contextlib.contextmanager
def held(lock):
    lock.acquire()
    try: yield lock
    finally: lock.release()
def f(n):
    with lock, again, again, condition: condition.notify_all()
    with contextlib.ExitStack() as stack:
        stack.enter_context(held(lock))
        stack.enter_context(held(again))
        if n % 3 == 2: raise KeyError(n)
        n = n * 2.5 if n % 4 == 3 else n + 1
    sys.modules.pop("colorsys", None)
    importlib.import_module("colorsys")
    return n
def outcome(n):
    try: return f(n)
    except KeyError as error: return error.args
for n in range(24):
    expected = (n,) if n % 3 == 2 else n * 2.5 if n % 4 == 3 else n + 1
    assert outcome(n) == expected, n
    assert not lock.locked() and not again._is_owned() and not condition._is_owned(), n
print("end")
"""


@pytest.mark.parametrize("words", ["record-all", "record-all,exits"])
@pytest.mark.parametrize("program", [UNITTEST, REMOVED, LOCKS], ids=["unittest", "removed", "locks"])
def test_the_process_ends(program: str, words: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(pijit.__file__).parents[1]), "PIJIT_STRESS": words}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=40, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == "end\n"
