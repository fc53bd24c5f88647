"""What people are told of traces that begin in the middle of a function, and how these are forgotten.

Each function is called plainly and jitted, again and again, with something that differs; then it is asked about.
"""

from __future__ import annotations

import array
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pijit
from pijit import _core, api
from pijit.tools import page, report

NUMBERS = array.array("d", (0.5, 2.0, -1.0, 4.0, 0.25, -8.0, 3.0, 1.0))
SIGNS = array.array("d", (1.0,))
FILE = "test_entries_told.py"


@pytest.fixture(autouse=True)
def _options() -> Iterator[None]:
    pijit.reset()
    before = pijit.config.update({"loops": "auto", "give_up": False, "record_budget": 0})
    yield
    pijit.config.update(before)
    pijit.reset()


def line_of(fn: Callable[..., Any], text: str) -> int:
    """The line of the function that has this text."""
    import inspect

    lines, first = inspect.getsourcelines(fn)
    return first + next(at for at, line in enumerate(lines) if text in line)


def sums(numbers: Any, n: int) -> float:
    """What foreign code gives is no constant: each turn has work to do."""
    result = 0.0
    for at in range(n):
        result += numbers[at % 8] * 0.5
    return result


def answers(numbers: Any, flag: Any) -> list[str]:
    """A decision on what foreign code gives."""
    path = []
    if numbers[0] > 0:
        path.append("a")
    else:
        path.append("A")
    path.append(str(flag))
    return path


def same(fast: Any, fn: Any, *calls: tuple[Any, ...]) -> None:
    for args in calls:
        assert fast(*args) == fn(*args)


def warm(fast: Any, fn: Any) -> None:
    """The function is recorded, then its loop, and both are replayed, for two lengths, with other numbers each time."""
    for n in (3000, 2500, 3000, 2500, 3000, 2500):
        NUMBERS[3] += 1
        same(fast, fn, (NUMBERS, n))


def in_the_middle(fast: Any) -> list[Any]:
    return [trace for trace in pijit.traces(fast) if trace.entry]


def test_traces_of_a_loop() -> None:
    fast = pijit.jit(sums)
    same(fast, sums, (NUMBERS, 3000))
    where = f"loop at {FILE}:{line_of(sums, 'for at')}"
    assert [trace.entry for trace in pijit.traces(fast)] == ["", where]  # the call that is recorded goes on in it
    assert in_the_middle(fast)[0].replays > 10
    assert "the loop goes on in a trace of its own" in str(pijit.traces(fast))
    warm(fast, sums)
    entries = [trace.entry for trace in pijit.traces(fast)]
    assert set(entries) >= {"", where}
    assert entries == sorted(entries)  # the function's own come first
    loop = in_the_middle(fast)[0]
    assert loop.guards
    assert any(node.opaque for node in loop.nodes)
    assert loop.replays > 10
    assert loop.line == line_of(sums, "for at")
    text = str(loop)
    assert text.startswith(f"# {where}: ")
    assert "(numbers, n, result, at, stack_0):" in text
    assert "what follows goes on in a trace of its own" in text
    compile(text, "text", "exec")
    replays = loop.replays
    warm(fast, sums)
    assert in_the_middle(fast)[0].replays > replays


def test_what_follows_a_branch() -> None:
    fast = pijit.jit(answers)
    for sign in (1, 1, -1, 1, -1, -1, -1, 1, -1, -1, -1, -1):
        SIGNS[0] = sign
        same(fast, answers, (SIGNS, 1))
    found = {trace.entry for trace in in_the_middle(fast)}
    assert found
    assert all(entry.startswith(f"from {FILE}:") and entry.endswith(" on") for entry in found)


def helper(n: int, numbers: Any) -> float:
    result = 0.0
    for at in range(n):
        result += numbers[at % 8]
    return result


def test_a_loop_of_two_functions() -> None:
    def once(n: int) -> float:
        return helper(n, NUMBERS) + 1

    def twice(n: int) -> float:
        return 2 * helper(n, NUMBERS)

    one, two = pijit.jit(once), pijit.jit(twice)
    for n in (3000, 2500, 3000):
        same(one, once, (n,))
        same(two, twice, (n,))
    where = f"loop at {FILE}:{line_of(helper, 'for at')}"
    for fast in (one, two):
        assert {trace.entry for trace in in_the_middle(fast)} == {where}
    pijit.reset(one)
    assert not in_the_middle(one)
    assert not in_the_middle(two)  # they were the same
    for n in (2500, 3000):
        same(one, once, (n,))
        same(two, twice, (n,))
    assert in_the_middle(two)


def test_a_reset_of_one_function_leaves_the_others() -> None:
    def other(numbers: Any, n: int) -> float:
        result = 1.0
        for at in range(n):
            result += numbers[at % 8] * 0.25
        return result

    one, two = pijit.jit(sums), pijit.jit(other)
    for n in (3000, 2500, 3000):
        same(one, sums, (NUMBERS, n))
        same(two, other, (NUMBERS, n))
    assert in_the_middle(one)
    kept = [trace.replays for trace in in_the_middle(two)]
    assert kept
    pijit.reset(one)
    assert not pijit.traces(one)
    assert [trace.replays for trace in in_the_middle(two)] == kept
    same(one, sums, (NUMBERS, 2000), (NUMBERS, 3000), (NUMBERS, 2000))
    assert in_the_middle(one)


@pytest.mark.parametrize("all_of_them", [True, False])
def test_a_reset_forgets_places_that_were_counted(all_of_them: bool) -> None:
    fast = pijit.jit(answers)

    def come_there(times: int) -> None:
        for sign in [1] * 2 + [-1] * times:
            SIGNS[0] = sign
            same(fast, answers, (SIGNS, 1))

    come_there(3)  # the fourth arrival gives it an entry
    assert not in_the_middle(fast)
    pijit.reset(None if all_of_them else fast)
    come_there(3)
    assert not in_the_middle(fast)
    come_there(3)
    assert in_the_middle(fast)


def test_why_and_status() -> None:
    fast = pijit.jit(sums)
    warm(fast, sums)
    assert pijit.status(fast) == pijit.Status("replaying", "")
    missed = "n: 2500 now, 3000 before"
    assert pijit.why(fast) == f"{missed}\nloop at {FILE}:{line_of(sums, 'for at')}: {missed}"
    same(fast, sums, (NUMBERS, 2000))
    first, second = pijit.why(fast).splitlines()
    assert first.startswith("n: 2000 now, ")
    assert second.endswith(missed)  # the loop was not come to
    pijit.reset(fast)
    assert pijit.why(fast) == ""


def test_explain() -> None:
    fast = pijit.jit(sums)
    recorded = pijit.explain(fast, NUMBERS, 3000)
    assert recorded.result == sums(NUMBERS, 3000)
    assert recorded.counts["records"] == 1
    assert recorded.inside["records"] > 0
    assert recorded.inside["replays"] > 10
    warm(fast, sums)
    replayed = pijit.explain(fast, NUMBERS, 2500)
    assert replayed.result == sums(NUMBERS, 2500)
    assert replayed.inside["records"] == 0
    assert replayed.inside["replays"] > 10
    text = str(replayed)
    assert "inside it, at loops and behind branches: " in text
    assert f"  loop at {FILE}:{line_of(sums, 'for at')}, trace 0: " in text
    assert f"<summary>loop at {FILE}:" in replayed.to_html()
    assert json.loads(replayed.to_json())["inside"] == replayed.inside
    short = pijit.explain(pijit.jit(lambda x: x + 1), 41)
    assert "inside it" not in str(short)


def test_the_report() -> None:
    fast = pijit.jit(sums)
    warm(fast, sums)
    where = f"loop at {FILE}:{line_of(sums, 'for at')}"
    text = report.text(1.0, in_full=True)
    assert f"{where}, trace 0: " in text
    for in_full in (False, True):
        made = page.page(report.Time(0.0, 1.0), in_full=in_full)
        assert f"{where}, trace 0: " in made
    data: Any = report.data(report.Time(0.0, 1.0))
    root = next(row for row in data["functions"] if row["root"] == api.root_of(fast))
    (entry,) = [row for row in data["entries"] if row["root"] in root["entries"]]
    assert (entry["entry"], entry["line"]) == ("loop", line_of(sums, "for at"))
    assert entry["replays"] > 10
    json.dumps(data)
    same(fast, sums, (NUMBERS, 2000))
    assert f"{where}, trace 0: " in report.text(1.0, in_full=True)


def test_a_function_that_is_gone() -> None:
    def make() -> Callable[[int], float]:
        def run(n: int) -> float:
            result = 0.0
            for at in range(n):
                result += NUMBERS[at % 8]
            return result

        return run

    fn = make()
    fast = pijit.jit(fn)
    same(fast, fn, (3000,), (2500,), (3000,))
    (loop, *_) = in_the_middle(fast)
    number = loop.root
    assert _core.root_report(number)["entry"] == "loop"
    del fast
    try:
        assert _core.root_traces(number)
    except ValueError:
        assert number not in [entry["root"] for entry in _core.entries()]
    assert "loop at" in str(loop)  # a view is a copy
