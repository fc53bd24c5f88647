"""Objects that a recorded call has seen, and that are gone when it ends: nothing looks at them any more.

The programs run in a process whose allocator overwrites what is freed.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.torch

PROGRAM = """
import functools, operator, sys
import torch, pijit

class Box:
    def __init__(self, n): self.n = n

def counts(held, x):
    box = held.pop()
    box.n += 1
    y = x * box.n
    del box
    return y + 1

def calls(held, x):
    make = held.pop()
    y = make(x)
    del make
    return y + x

def takes(held, x):
    make = held.pop()
    first = make((x, 1))
    del make
    return first * 2

CASES = {
    "counter": (counts, lambda i: [Box(1), Box(i)]),
    "method of a tensor": (calls, lambda i: [torch.ones(3).add]),
    "partial of a method": (calls, lambda i: [functools.partial(torch.ones(3).add, alpha=2)]),
    "partial": (calls, lambda i: [functools.partial(torch.mul, other=i + 2)]),
    "method caller": (calls, lambda i: [functools.partial(operator.methodcaller("exp"))]),
    "item getter": (takes, lambda i: [operator.itemgetter(0)]),
    "object": (calls, lambda i: [type("C", (), {"__call__": lambda self, x: x * i})()]),
    "closure": (calls, lambda i: [lambda x, c=torch.ones(1): c * x]),
}
for name, (function, make) in CASES.items():
    print(name, end=": ", flush=True)
    before = pijit.stats()["records"]
    fast = pijit.jit(function)
    for i in range(6):
        x = torch.arange(3.0) + i
        plain, held = make(i), make(i)
        assert torch.equal(function(plain, x), fast(held, x)), i
        assert len(plain) == len(held)
        assert [box.n for box in plain if isinstance(box, Box)] == [box.n for box in held if isinstance(box, Box)]
    print(pijit.stats()["records"] - before, flush=True)
    pijit.unjit(fast)
"""


CASES = "counter, method of a tensor, partial of a method, partial, method caller, item getter, object, closure".split(
    ", "
)


def test_what_is_gone_at_the_end_of_a_recording_is_not_looked_at() -> None:
    environment = {
        **os.environ,
        "PYTHONMALLOC": "debug",
        "PIJIT_GIVE_UP": "0",
        "PIJIT_RECORD_BUDGET": "0",
        "PIJIT_RECORD_SHARE": "0",
        "PIJIT_HOOK_SHARE": "0",
    }
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    records = dict(line.split(": ") for line in done.stdout.splitlines())
    assert list(records) == CASES
    assert all(int(count) > 0 for count in records.values()), records
