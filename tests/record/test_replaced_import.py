"""A program that has an `__import__` of its own: it sees its own imports and no others, and may refuse them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pijit

PROGRAM = """
import builtins, collections, functools, itertools, operator, threading, types
import pijit

lock, where = threading.RLock(), types.SimpleNamespace(n=3)


def f(n):
    made = collections.defaultdict(list)
    made[n].append(1)
    line = collections.deque([n, n + 1])
    line.append(2)
    with lock:
        pairs = list(itertools.chain(zip(line, itertools.count()), itertools.repeat((n, where.n), 2)))
    return dict(made), list(line), collections.Counter([n, n])[n], pairs, functools.partial(operator.add, n)(1)


def g(n):
    return collections.deque(x * n for x in (1, 2)), isinstance(n, int | str), operator.itemgetter(0)([n])


seen, plain = [], builtins.__import__


def refuse(name, *rest):
    seen.append(name)
    raise ImportError(name)


wanted = [repr((f(n), g(n))) for n in (1, 2, 1, 3)]
for stress in ("", "record-all", "exits"):
    pijit.config.update({"stress": stress})
    fast = pijit.jit(lambda n: (f(n), g(n)))
    for turn in range(3):
        builtins.__import__ = refuse if turn != 1 else plain
        try:
            with pijit.enable():
                made = [repr(fast(n)) for n in (1, 2, 1, 3)]
        finally:
            builtins.__import__ = plain
        assert made == wanted, (stress, turn, made)
assert not seen, seen
print("same")
"""


@pytest.mark.parametrize("first", ["", "import torch\n"])
def test_it_sees_no_imports_of_the_engine(first: str) -> None:
    if first:
        pytest.importorskip("torch")
    command = [sys.executable, "-X", "faulthandler", "-c", first + PROGRAM]
    environment = {**os.environ, "PYTHONPATH": str(Path(pijit.__file__).parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.stdout == "same\n", done.stderr
