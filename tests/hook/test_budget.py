"""A recording has a budget: over it the recording is cut, and what the function calls is recorded instead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import pijit
from pijit import _core, api

REASON = "to record it takes too long, so what it calls is recorded instead"
MANY = 10_000


@pytest.fixture(autouse=True)
def _budget() -> Iterator[None]:
    before = pijit.config.update({"record_budget": 1, "loops": "unroll"})
    yield
    pijit.config.update(before)


def report(fn: Any) -> dict[str, Any]:
    root = api.root_of(fn)
    return dict(_core.root_report(root)) if root >= 0 else {}


def add(left: int, *, right: int = 1) -> int:
    return left + right


def count(n: int, start: int) -> int:
    """Calls with keywords take the recorder many times as long as CPython."""
    total = start
    for number in range(n):
        total = add(total, right=number % 7)
    return total


def test_the_recording_is_cut() -> None:
    fast = pijit.jit(lambda n, start: count(n, start))
    assert fast(10 * MANY, 1) == count(10 * MANY, 1)
    assert pijit.status(fast).state == "disabled"
    assert pijit.status(fast).reason == REASON
    assert report(fast)["last_stop"]["code"] == "PJ219"
    assert fast(MANY, 2) == count(MANY, 2)
    assert (report(fast)["records"], report(fast)["traces"]) == (1, 0)  # nothing of it is kept
    pijit.reset(fast)
    assert [fast(3, n) for n in range(4)] == [count(3, n) for n in range(4)]
    assert report(fast)["replays"] > 0


@pytest.mark.parametrize("options", [{"strict": True}, {}])
def test_without_a_budget(options: dict[str, Any]) -> None:
    pijit.config.record_budget = 1 if options else 0
    fast = pijit.jit(lambda n, start: count(n, start), **options)
    assert [fast(MANY, n) for n in range(5)] == [count(MANY, n) for n in range(5)]
    assert pijit.status(fast).state == "replaying"


def test_recordings_that_no_call_could_use() -> None:
    """Each call is another one, and there is room for all of their traces."""
    texts = {str(n): n for n in range(400)}
    fast = pijit.jit(lambda key: texts[key] + count(MANY // 20, 0))
    with pijit.enabled(max_traces=1_000):
        for key, number in texts.items():
            assert fast(key) == number + count(MANY // 20, 0)
    assert pijit.status(fast).reason.startswith(REASON)
    assert 1 < report(fast)["records"] < 400


@pytest.mark.torch
class TestPassingOn:
    """torch is imported where it is needed: without it these are not run."""

    SOURCE = """
def add(left, *, right=1): return left + right
def step(x):
    total = 0
    for number in range(50): total = add(total, right=number % 7)
    return x * 0.5 + total
def loop(x, n):
    for _ in range(n): x = step(x)
    return x
def middle(x, n): return loop(x, n)
def f(x, n): return middle(x, n)
"""

    def functions(self) -> dict[str, Any]:
        names: dict[str, Any] = {}
        exec(compile(self.SOURCE, "<program>", "exec"), names)
        return names

    def run(self, call: Any, names: dict[str, Any]) -> None:
        torch = pytest.importorskip("torch")
        plain = self.functions()["f"]
        for n in (MANY, 500, 7, 8):
            x = torch.full((3,), float(n))
            assert torch.equal(call(x, n), plain(x, n))

    def test_from_a_jitted_function(self) -> None:
        names = self.functions()
        fast = pijit.jit(names["f"])
        self.run(fast, names)
        assert pijit.status(fast).reason.startswith(REASON)
        assert report(names["step"])["replays"] > 100
        assert report(names["middle"]) == report(names["loop"]) == {}
        replays = report(names["step"])["replays"]
        torch = pytest.importorskip("torch")
        names["step"](torch.ones(3))
        assert report(names["step"])["replays"] == replays  # only in calls of the function that was jitted

    def test_from_a_function_that_enable_found(self) -> None:
        names = self.functions()
        torch = pytest.importorskip("torch")
        program = "f(x, 3)\nfor n in (3, many, 500, 7): results.append(f(x, n))"
        names |= {"x": torch.ones(3), "many": MANY, "results": []}
        with pijit.enabled():
            exec(compile(program, "<module>", "exec"), names)
        plain = self.functions()["f"]
        expected = [plain(names["x"], n) for n in (3, MANY, 500, 7)]
        assert all(map(torch.equal, names["results"], expected))
        assert pijit.status(names["f"]).reason.startswith(REASON)
        assert report(names["step"])["replays"] > 100
        assert report(names["middle"]) == report(names["loop"]) == {}
