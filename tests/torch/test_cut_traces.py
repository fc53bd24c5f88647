"""A trace that ends before the recording did holds nothing that only what was recorded after its end knows."""

from __future__ import annotations

import re
from typing import Any

import pytest

import pijit
from pijit import _core

torch = pytest.importorskip("torch")


class Slot:
    n = 0

    def __iter__(self) -> Slot:
        return self

    def __next__(self) -> int:
        self.n += 1
        if self.n > 5:
            self.n = 0
            raise StopIteration
        return self.n


def rows(t: Any) -> Any:
    for row in t:
        yield row * 2


SLOT = Slot()
WEIGHT = torch.ones(4)


def step(x: Any, c: Any) -> Any:
    global WEIGHT
    for _ in SLOT:
        WEIGHT = WEIGHT.clone()
        for row in rows(x):
            last = row
        c += 0
    return x + c, last


def unknown_registers(text: str) -> list[str]:
    """Those that a replay holds, and that neither a guard nor a tensor of the trace loads."""
    loaded = set(re.findall(r"^g\d+ load.* out=(r\d+)", text, re.M)) | set(re.findall(r"^tensor (r\d+) ", text, re.M))
    held = [register for line in re.findall(r"retained (.*)", text) for register in re.findall(r"r\d+", line)]
    return [register for register in held if register not in loaded]


def test_held_registers_are_loaded() -> None:
    before = pijit.config.update({"loops": "body", "give_up": False, "record_budget": 0})
    seen = 0
    others = {entry["root"] for entry in _core.entries()}  # of tests before, each of which takes a while to print
    try:
        fast = pijit.jit(step)
        for k in range(16):
            x = [WEIGHT, torch.ones(4), torch.randn(4), torch.randint(0, 5, (4,)), WEIGHT[:]][k // 2 % 5]
            c = [1.0, 10**12, 3, True][k // 2 % 4]
            total, last = fast(x, c)
            assert torch.equal(total, x + c)
            assert torch.equal(last, x[3] * 2)
            assert torch.equal(WEIGHT, torch.ones(4))
            for root in {entry["root"] for entry in _core.entries()} - others:
                for i in range(len(_core.root_traces(root))):
                    text = _core.trace_text(root, i)
                    seen += "retained" in text
                    assert unknown_registers(text) == []
        pijit.reset(fast)
    finally:
        pijit.config.update(before)
    assert seen > 0


def test_memory_is_not_touched_after_its_end() -> None:
    before = pijit.config.update({"loops": "body", "give_up": False, "record_budget": 0})
    try:
        for _ in range(8):
            fast = pijit.jit(step)
            for k in range(8):
                c = [1.0, 10**12, 3, True][k // 2]
                assert torch.equal(fast(WEIGHT, c)[0], torch.ones(4) + c)
            pijit.reset(fast)
    finally:
        pijit.config.update(before)
