"""All traces have one budget of bytes: what was replayed least for its size makes room, and comes back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pijit
from pijit import _core, api

SOURCE = f"""
def f{{name}}(x, table):
    table[{{name}}] = x
{chr(10).join(["    x = x * 3 + table[{name}] % 7"] * 40)}
    return x + {{name}}
"""


@pytest.fixture(autouse=True)
def _options() -> Iterator[None]:
    pijit.reset()
    before = pijit.config.update({"give_up": False, "record_budget": 0, "memory_limit": 1 << 30})
    yield
    pijit.config.update(before)
    pijit.reset()


def functions(count: int) -> list[tuple[Callable[..., Any], Callable[..., Any]]]:
    """As many that differ, plain and jitted, with traces of about the same size."""
    made = []
    for name in range(count):
        names: dict[str, Any] = {}
        exec(compile(SOURCE.format(name=name), "<program>", "exec"), names)
        plain = names[f"f{name}"]
        made.append((plain, pijit.jit(plain)))
    return made


def call(pair: tuple[Callable[..., Any], Callable[..., Any]], number: float) -> None:
    """Compares what it gives and what it writes."""
    plain, fast = pair
    expected: dict[int, float] = {}
    written: dict[int, float] = {}
    assert fast(number, written) == plain(number, expected)
    assert written == expected


def held(pair: tuple[Callable[..., Any], Callable[..., Any]]) -> int:
    return len(pijit.traces(pair[1]))


def total() -> int:
    return int(_core.stats()["bytes"])


def size_of_one() -> int:
    """Bytes of the trace of one function, for any number, which is forgotten."""
    (pair,) = functions(1)
    for turn in range(4):
        call(pair, turn + 0.5)
    size = total()
    pijit.reset()
    assert size > 1000
    return size


def test_what_is_used_least_makes_room() -> None:
    size = size_of_one()
    pairs = functions(12)
    pijit.config.memory_limit = 6 * size
    often = pairs[0]
    for round_ in range(6):
        for pair in pairs:
            call(pair, round_ + 0.5)
            assert total() <= 6 * size
            for turn in range(4):
                call(often, turn + 0.25)
    assert held(often) == 1
    assert _core.root_report(api.root_of(often[1]))["records"] == 3  # the number is learned to vary
    assert sum(map(held, pairs)) < len(pairs)


def test_what_made_room_comes_back() -> None:
    size = size_of_one()
    first, *others = functions(8)
    pijit.config.memory_limit = 4 * size
    for turn in range(3):
        call(first, turn + 0.5)
    for pair in others:
        for turn in range(40):
            call(pair, turn + 0.5)
    assert held(first) == 0
    assert pijit.status(first[1]).state == "cold"
    for turn in range(40):
        call(first, turn + 0.5)
    assert held(first) == 1
    assert pijit.status(first[1]).state == "replaying"


def test_functions_that_take_turns_are_not_recorded_at_each_call() -> None:
    size = size_of_one()
    pairs = functions(10)
    pijit.config.memory_limit = 3 * size
    for turn in range(200):
        for pair in pairs:
            call(pair, turn + 0.5)
            assert total() <= 3 * size
    assert sum(_core.root_report(api.root_of(fast))["records"] for _, fast in pairs) < 400  # of 2,000 calls


def test_a_trace_that_is_larger_than_the_budget() -> None:
    pijit.config.memory_limit = 1000
    (pair,) = functions(1)
    for turn in range(4):
        call(pair, turn + 0.5)
    assert total() == 0
    assert pijit.status(pair[1]).state == "disabled"
    assert pijit.status(pair[1]).reason.startswith("a trace of it has more bytes than memory_limit: ")
    pijit.config.memory_limit = 0
    pijit.reset(pair[1])
    for turn in range(4):
        call(pair, turn + 0.5)
    assert pijit.status(pair[1]).state == "replaying"


def test_a_budget_that_shrinks() -> None:
    pairs = functions(9)
    for turn in range(3):
        for pair in pairs:
            call(pair, turn + 0.5)
    size = total() // 9
    pijit.config.memory_limit = 4 * size
    (last,) = functions(1)
    call(last, 1.5)  # with the next recording the others make room
    assert total() <= 4 * size
    for turn in range(60):
        for pair in [*pairs, last]:
            call(pair, turn + 0.75)


def test_loops_make_room_too() -> None:
    def turns(n: int, start: float) -> float:
        values = [start]
        for number in range(n):
            values.append(values[-1] * 0.5 + number % 3)
        return sum(values)

    fast = pijit.jit(turns)
    for n in (2000, 2100, 2200, 2000):
        assert fast(n, 1.5) == turns(n, 1.5)
    grown = total()
    pijit.config.memory_limit = max(grown // 2, 1)
    for pair in functions(6):
        call(pair, 1.5)
    assert total() <= pijit.config.memory_limit
    for n in (2000, 2100, 2200, 2000):
        assert fast(n, 1.5) == turns(n, 1.5)


def test_while_a_replay_is_under_way() -> None:
    """The traces of a function make room while one of them is in the middle of an opaque call."""
    size = size_of_one()
    others = functions(12)
    turn = 0

    def inside() -> int:
        for pair in others if turn % 2 else others[:1]:
            call(pair, turn + 0.5)
        return turn

    table = {"inside": inside}

    def outer(x: float) -> float:
        before = x * 2.0
        exec("got.append(inside())", {"got": got, **table})
        return before + got[-1] + x

    got: list[int] = []
    fast = pijit.jit(outer)
    pijit.config.memory_limit = 3 * size
    for turn in range(12):  # noqa: B007
        assert fast(turn + 0.5) == (turn + 0.5) * 2.0 + turn + (turn + 0.5)


def test_threads() -> None:
    size = size_of_one()
    pairs = functions(8)
    pijit.config.memory_limit = 3 * size
    failures: list[BaseException] = []

    def work(offset: int) -> None:
        try:
            for turn in range(60):
                call(pairs[(turn + offset) % len(pairs)], turn + 0.5)
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(offset,)) for offset in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert total() <= 3 * size
