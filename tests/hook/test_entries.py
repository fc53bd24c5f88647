"""Traces that are entered in the middle of a function: behind branches, and at the heads of loops.

Each test runs a function plainly and jitted, again and again with other arguments, and compares everything.
"""

from __future__ import annotations

import array
import gc
import itertools
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from in_the_middle import NUMBERS, long_loops, same_under, seen  # noqa: F401

import pijit
from pijit import _core, api


def same(fn: Callable[..., Any], calls: list[tuple[Any, ...]], times: int = 3) -> Callable[..., Any]:
    """Compares all of these calls, time and again."""
    fast = pijit.jit(fn)
    for _ in range(times):
        for args in calls:
            assert seen(fast, *args) == seen(fn, *args), args
    return fast


def entries() -> list[dict[str, Any]]:
    return [dict(entry) for entry in _core.entries()]


def replays() -> int:
    return sum(entry["replays"] for entry in entries())


def tree(bits: list[bool]) -> tuple[str, ...]:
    """Eight decisions in a row on what foreign code answers."""
    answers = iter(tuple(bits))
    path: tuple[str, ...] = ()
    path += ("a",) if len(str(next(answers))) == 4 else ("A",)
    path += ("b",) if len(str(next(answers))) == 4 else ("B",)
    path += ("c",) if len(str(next(answers))) == 4 else ("C",)
    path += ("d",) if len(str(next(answers))) == 4 else ("D",)
    return path


def chain(numbers: Any) -> list[str]:
    """Decisions on items of an array, of which a trace knows the class alone."""
    path = []
    if numbers[0] > 0:
        path.append("a")
    else:
        path.append("A")
    if numbers[1] > 0:
        path.append("b")
    else:
        path.append("B")
    if numbers[2] > 0:
        path.append("c")
    else:
        path.append("C")
    if numbers[3] > 0:
        path.append("d")
    else:
        path.append("D")
    return path


def test_branches_on_data() -> None:
    calls = [(array.array("d", signs),) for signs in itertools.product((-1.0, 1.0), repeat=4)]
    same(chain, calls, times=8)
    same(tree, [([bool(number & bit) for bit in (1, 2, 4, 8)],) for number in range(16)])


def total(n: int) -> int:
    result = 0
    for number in range(n):
        result += number * number % 7
    return result


def sums(numbers: Any, n: int) -> float:
    """What foreign code gives is no constant: each turn has work to do."""
    result = 0.0
    for at in range(n):
        result += numbers[at % 8] * 0.5
    return result


def collatz(n: int) -> int:
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def leaves(n: int, at: int) -> str:
    for number in range(n):
        if number == at:
            break
        if number % 3 == 0:
            continue
        if number == at + 1000:
            return "returned"
    else:
        return "else"
    return f"broke at {number}"


def nested(rows: int, columns: int) -> int:
    found = 0
    for row in range(rows):
        for column in range(columns):
            if (row * column) % 5 == 2:
                found += row - column
        found ^= row
    return found


def raises(n: int, at: int) -> int:
    result = 0
    for number in range(n):
        result += 10 // (number - at)
    return result


def catches(n: int, at: int) -> list[str]:
    said = []
    for number in range(n):
        try:
            said.append(str(10 // (number - at)))
        except ZeroDivisionError as error:
            said.append(str(error))
        finally:
            said.append("-")
    return said


def appends(n: int) -> list[int]:
    items: list[int] = []
    for number in range(n):
        items.append(number if not items else items[-1] + number)
    return items


def fills(n: int) -> dict[str, int]:
    table: dict[str, int] = {}
    for number in range(n):
        key = str(number % 5)
        table[key] = table.get(key, 0) + number
    return table


def closes_over(n: int) -> list[int]:
    value = 0
    makers = []

    def read() -> int:
        return value

    for number in range(n):
        value += number
        if number % 50 == 0:
            makers.append(read())
    return [*makers, read()]


def deletes(n: int) -> list[bool]:
    flags = []
    for number in range(n):
        if number > 0:
            del last  # noqa: F821
        last = number
        flags.append(last == number)
    return flags


def unbound(n: int, at: int) -> int:
    for number in range(n):
        if number == at:
            late = number
    return late


def helper(n: int, scale: int) -> int:
    result = 0
    for number in range(n):
        result = (result + number * scale) % 1009
    return result


def inlines(n: int) -> int:
    return helper(n, 3) + helper(n, 5) - helper(n // 2, 7)


def by_generator(n: int) -> int:
    result = 0
    for number in (each * each for each in range(n)):
        result += number % 11
    return result


def over_lists(n: int) -> list[Any]:
    pairs = list(zip(range(n), reversed(range(n)), strict=True))
    out = []
    for at, (left, right) in enumerate(pairs):
        out.append(left * right - at)
    return out


def known(numbers: Any, n: int) -> float:
    result = numbers[0]
    for at in range(n):
        result = result * 0.99 + numbers[at % 8]
    return float(result)


def walrus(n: int) -> int:
    numbers = iter(range(n))
    result = 0
    while (number := next(numbers, None)) is not None:
        result += number
    return result


CASES: dict[str, tuple[Callable[..., Any], list[tuple[Any, ...]]]] = {
    "sums": (sums, [(NUMBERS, 1500), (NUMBERS, 1400), (array.array("d", [1.5] * 8), 1500), (NUMBERS, 0)]),
    "total": (total, [(3000,), (2000,), (0,), (1,), (2500,)]),
    "collatz": (collatz, [(27,), (97,), (1,), (871,)]),
    "leaves": (leaves, [(900, 500), (900, 2000), (3, 1), (900, 800)]),
    "nested": (nested, [(40, 40), (30, 60), (0, 5), (5, 0)]),
    "raises": (raises, [(600, 700), (600, 500), (600, 599), (0, 0)]),
    "catches": (catches, [(300, 700), (300, 150), (300, 299)]),
    "appends": (appends, [(500,), (400,), (1,)]),
    "fills": (fills, [(500,), (400,), (3,)]),
    "closes_over": (closes_over, [(500,), (400,), (0,)]),
    "deletes": (deletes, [(400,), (300,)]),
    "unbound": (unbound, [(400, 390), (400, 500), (400, 0)]),
    "inlines": (inlines, [(900,), (800,)]),
    "by_generator": (by_generator, [(700,), (600,)]),
    "over_lists": (over_lists, [(300,), (200,)]),
    "known": (known, [(NUMBERS, 900), (NUMBERS, 100), (NUMBERS, 2000)]),
    "walrus": (walrus, [(900,), (100,)]),
}


@pytest.mark.parametrize("name", CASES)
def test_loops(name: str) -> None:
    same(*CASES[name], times=4)


@pytest.mark.parametrize("stress", ["record-all", "exits"])
@pytest.mark.parametrize("name", CASES)
def test_under_stress(name: str, stress: str) -> None:
    same_under(stress, *CASES[name])


def test_a_long_loop_has_a_trace_of_its_own() -> None:
    same(sums, [(NUMBERS, 2000)])
    assert replays() > 10
    sizes = []
    for n in (2500, 6000):
        pijit.reset()
        same(sums, [(NUMBERS, n)])
        sizes.append(_core.stats()["bytes"])
    assert 0 < sizes[1] < 1.1 * sizes[0]


def test_a_loop_that_is_known_to_be_long_is_left_soon() -> None:
    """Its traces are of a few turns: as large as that of a whole loop of so many."""
    sizes = []
    for n in (5, 6000):
        pijit.reset()
        fast = same(known, [(NUMBERS, n), (NUMBERS, n + 1)])
        sizes.append(_core.stats()["bytes"])
        assert api.root_of(fast) >= 0
    assert replays() > 10
    assert 0 < sizes[1] < 3 * sizes[0]


def test_unrolled() -> None:
    pijit.config.loops = "unroll"
    same(sums, [(NUMBERS, 900)])
    assert entries() == []


def test_a_reset_forgets_entries() -> None:
    fast = same(sums, [(NUMBERS, 2000)])
    assert replays() > 0
    pijit.reset()
    assert entries() == []
    assert replays() == 0
    assert fast(NUMBERS, 2000) == sums(NUMBERS, 2000)
    assert replays() > 0


class Noted:
    """Says when it dies."""

    def __init__(self, name: int, said: list[int]) -> None:
        self.name = name
        self.said = said

    def __del__(self) -> None:
        self.said.append(self.name)


def holds(n: int, said: list[int]) -> int:
    last = None
    for number in range(n):
        last = Noted(number, said)
    return 0 if last is None else last.name


def test_deaths_come_in_the_same_order() -> None:
    fast = pijit.jit(holds)
    for n in (300, 300, 200, 300):
        said: list[int] = []
        expected: list[int] = []
        assert fast(n, said) == holds(n, expected)
        assert said == expected


def test_nothing_is_kept_alive() -> None:
    class Thing:
        pass

    def use(thing: Any, n: int) -> int:
        result = 0
        for number in range(n):
            result += number % 3
            thing.value = result
        return result

    fast = pijit.jit(use)
    alive = []
    for _ in range(6):
        thing, plain = Thing(), Thing()
        assert fast(thing, 2000) == use(plain, 2000)
        assert vars(thing) == vars(plain)
        alive.append(weakref.ref(thing))
        del thing
    gc.collect()
    assert sum(ref() is not None for ref in alive) <= 1


def test_functions_that_die() -> None:
    def make(scale: int) -> Callable[[int], int]:
        def run(n: int) -> int:
            result = 0
            for number in range(n):
                result += number * scale
            return result

        return run

    for scale in range(40):
        fn = make(scale)
        fast = pijit.jit(fn)
        for n in (1500, 1600, 1500):
            assert fast(n) == fn(n)
    gc.collect()
    assert len(entries()) < 40


def test_threads() -> None:
    fast = pijit.jit(sums)
    results: dict[int, list[float]] = {}

    def work(number: int) -> None:
        results[number] = [fast(NUMBERS, 2000 + number) for _ in range(6)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: [sums(NUMBERS, 2000 + number)] * 6 for number in range(4)}


def test_many_turns_take_no_stack() -> None:
    fast = same(sums, [(NUMBERS, 2000)])
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(200)
    try:
        assert [fast(NUMBERS, 100_000) for _ in range(3)] == [sums(NUMBERS, 100_000)] * 3
        assert replays() > 100
    finally:
        sys.setrecursionlimit(before)


def test_somebody_holds_the_frame() -> None:
    frames = []

    def shows(n: int) -> list[int]:
        frames.append(sys._getframe())
        result = 0
        for number in range(n):
            result += number
        frames.append(sys._getframe().f_locals["result"])
        return [result]

    fast = pijit.jit(shows)
    for n in (1500, 1500, 1400, 1500):
        assert fast(n) == shows(n)
        assert frames[-3] == frames[-1]
        frames.clear()


def test_the_option() -> None:
    for word in ("unroll", "auto", "body"):
        pijit.config.loops = word
        assert pijit.config.loops == word
    with pytest.raises(pijit.errors.ConfigError, match="one of 'unroll', 'auto', 'body', not 'some'"):
        pijit.config.loops = "some"
    assert api.root_of(total) == -1
