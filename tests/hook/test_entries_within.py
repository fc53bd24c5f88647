"""Loops within blocks, over generators and over iterators written in Python: their turns have traces of their own.

Each test runs a function plainly and jitted, again and again with other arguments, and compares everything: results,
exceptions with their lines, what blocks and generators were told, and in which order objects die.
"""

from __future__ import annotations

import array
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from in_the_middle import NEVER, NUMBERS, long_loops, same_under, seen  # noqa: F401

import pijit
from pijit import _core


def same(fn: Callable[..., Any], calls: list[tuple[Any, ...]], times: int = 4) -> None:
    fast = pijit.jit(fn)
    for _ in range(times):
        for args in calls:
            assert seen(fast, *args) == seen(fn, *args), args


def replays() -> int:
    return sum(entry["replays"] for entry in _core.entries())


class Block:
    """Notes how it is left, and takes a KeyError."""

    def __init__(self, said: list[str]) -> None:
        self.said = said

    def __enter__(self) -> Block:
        self.said.append("in")
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        self.said.append("out" if kind is None else f"{kind.__name__} {error}")
        return kind is KeyError


def in_a_block(numbers: Any, n: int, at: int, error: type[Exception]) -> list[Any]:
    said: list[str] = []
    result = 0.0
    with Block(said) as block:
        for number in range(n):
            if number == at:
                raise error(number)
            result += numbers[number % 8] * 0.5
        else:
            block.said.append("else")
    return [result, *said]


def in_two_blocks(numbers: Any, n: int, at: int, back: bool) -> list[Any]:
    said: list[str] = []
    result = 0.0
    with Block(said), Block(said):
        for number in range(n):
            if number % 3 == 1:
                continue
            if number >= at:
                if back:
                    return [result, said]
                break
            result += numbers[number % 8] * 0.5
    return [result, said]


def a_block_in_each_turn(numbers: Any, n: int, at: int, error: type[Exception]) -> list[Any]:
    said: list[str] = []
    result = 0.0
    for number in range(n):
        with Block(said):
            result += numbers[number % 8] * 0.5
            if number == at:
                raise error(number)
    return [result, *said]


def in_a_try(numbers: Any, n: int, at: int, error: type[Exception]) -> list[Any]:
    said: list[str] = []
    result = 0.0
    try:
        for number in range(n):
            if number == at:
                raise error(number)
            result += numbers[number % 8] * 0.5
        else:
            said.append("else")
    except KeyError as found:
        said.append(str(found))
    finally:
        said.append("finally")
    return [result, *said]


def in_a_handler(numbers: Any, n: int, at: int, error: type[Exception]) -> list[Any]:
    said: list[str] = []
    result = 0.0
    try:
        raise LookupError("first")
    except LookupError as first:
        for number in range(n):
            if number == at:
                raise error(number)  # its context is the first one
            result += numbers[number % 8] * 0.5
        said.append(str(first))
    return [result, *said]


def in_a_finally(numbers: Any, n: int, at: int, error: type[Exception]) -> float:
    result = 0.0
    try:
        if at < n:
            raise error(at)
        return result
    finally:
        for number in range(n):
            result += numbers[number % 8] * 0.5
        numbers[0] = result % 2


def items(numbers: Any, n: int, said: list[str]) -> Iterator[float]:
    try:
        for number in range(n):
            yield numbers[number % 8] * 0.5
        said.append("end")
    finally:
        said.append("closed")


def over_a_generator(numbers: Any, n: int, at: int) -> list[Any]:
    said: list[str] = []
    result = 0.0
    for turn, item in enumerate(items(numbers, n, said)):
        if turn % 5 == 3:
            continue
        result += item * numbers[turn % 8]
        if turn >= at:
            break
    else:
        said.append("else")
    return [result, *said]


def closed_half_way(numbers: Any, n: int, at: int) -> list[Any]:
    said: list[str] = []
    result, turn = 0.0, 0
    made = items(numbers, n, said)
    for item in made:
        result += item
        turn += 1
        if turn == at:
            made.close()
            said.append("after")
    return [result, turn, *said]


def failing(numbers: Any, n: int, at: int, error: type[Exception]) -> Iterator[float]:
    for number in range(n):
        if number == at:
            raise error(number)
        yield numbers[number % 8]


def over_one_that_fails(numbers: Any, n: int, at: int, error: type[Exception]) -> list[Any]:
    result = 0.0
    try:
        for item in failing(numbers, n, at, error):
            result += item * 0.5
    except KeyError as found:
        return [result, str(found)]
    return [result]


def batches(numbers: Any, n: int) -> Iterator[float]:
    """A long loop between one item and the next."""
    for start in range(3):
        total = 0.0
        for number in range(n):
            total += numbers[(start + number) % 8] * 0.5
        yield total


def over_batches(numbers: Any, n: int) -> list[float]:
    return [total * 2 for total in batches(numbers, n)] + [sum(batches(numbers, n))]


class Loader:
    """A data set with an iterator of its own."""

    def __init__(self, numbers: Any, n: int) -> None:
        self.numbers = numbers
        self.n = n

    def __iter__(self) -> Items:
        return Items(self)


class Items:
    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self.at = 0

    def __iter__(self) -> Items:
        return self

    def __next__(self) -> float:
        if self.at >= self.loader.n:
            raise StopIteration
        self.at += 1
        return self.loader.numbers[self.at % 8] * 0.5


def over_a_loader(numbers: Any, n: int, at: int) -> list[Any]:
    loader, result, turns = Loader(numbers, n), 0.0, 0
    for epoch in range(2):
        for turn, item in enumerate(loader):
            if turn >= at + epoch:
                break
            result += item
            turns += 1
    return [result, turns]


def over_an_iterator_from_outside(made: list[Any], numbers: Any, n: int) -> list[Any]:
    result, turns = 0.0, 0
    for item in made[0]:
        result += item * numbers[turns % 8]
        turns += 1
        if turns == n:
            break
    return [result, turns, sum(made[0])]


ERRORS = [(NUMBERS, 900, at, error) for at in (NEVER, NEVER, 700, 899) for error in (KeyError, ValueError)]
CASES: dict[str, tuple[Callable[..., Any], list[tuple[Any, ...]]]] = {
    "in_a_block": (in_a_block, ERRORS),
    "in_two_blocks": (in_two_blocks, [(NUMBERS, 900, at, back) for at in (NEVER, 700, 30) for back in (True, False)]),
    "a_block_in_each_turn": (a_block_in_each_turn, [(NUMBERS, 400, at, error) for *_, at, error in ERRORS]),
    "in_a_try": (in_a_try, ERRORS),
    "in_a_handler": (in_a_handler, ERRORS),
    "over_a_generator": (over_a_generator, [(NUMBERS, 900, NEVER), (NUMBERS, 800, 700), (NUMBERS, 900, 899)]),
    "closed_half_way": (closed_half_way, [(NUMBERS, 900, NEVER), (NUMBERS, 900, 700), (NUMBERS, 900, 1)]),
    "over_one_that_fails": (over_one_that_fails, ERRORS),
    "over_batches": (over_batches, [(NUMBERS, 700), (NUMBERS, 600)]),
    "over_a_loader": (over_a_loader, [(NUMBERS, 900, NEVER), (NUMBERS, 800, 500), (NUMBERS, 900, NEVER)]),
}
OWN = {"in_a_block", "in_two_blocks", "a_block_in_each_turn", "in_a_try", "over_a_generator", "closed_half_way"}


@pytest.mark.parametrize("name", CASES)
def test_within(name: str) -> None:
    same(*CASES[name])
    assert replays() > 0 or name not in OWN


@pytest.mark.parametrize("stress", ["record-all", "exits"])
@pytest.mark.parametrize("name", CASES)
def test_under_stress(name: str, stress: str) -> None:
    same_under(stress, *CASES[name])


def test_in_a_finally() -> None:
    fast = pijit.jit(in_a_finally)
    for at in (NEVER, NEVER, 5, NEVER, 5, 6):
        for error in (KeyError, ValueError):
            one, other = array.array("d", NUMBERS), array.array("d", NUMBERS)
            assert seen(fast, one, 900, at, error) == seen(in_a_finally, other, 900, at, error)
            assert one == other


def test_an_iterator_from_outside() -> None:
    fast = pijit.jit(over_an_iterator_from_outside)
    kinds: list[Callable[[], Any]] = [
        lambda: items(NUMBERS, 900, []),
        lambda: iter(Items(Loader(NUMBERS, 900))),
        lambda: map(abs, iter(list(NUMBERS) * 100)),
    ]
    for make in kinds:
        for n in (700, 600, NEVER, 700):
            made: list[Any] = [make()]
            expected: list[Any] = [make()]
            assert fast(made, NUMBERS, n) == over_an_iterator_from_outside(expected, NUMBERS, n)
            assert next(made[0], None) is next(expected[0], None) is None


class Noted:
    """Says when it dies."""

    def __init__(self, name: float, said: list[Any]) -> None:
        self.name = name
        self.said = said

    def __del__(self) -> None:
        self.said.append(self.name)


def things(numbers: Any, n: int, said: list[Any]) -> Iterator[Noted]:
    kept = Noted(-1.0, said)
    for number in range(n):
        yield Noted(numbers[number % 8] + number, said)
    said.append(kept.name)


def holds(numbers: Any, n: int, said: list[Any], at: int) -> list[bool]:
    """Whether what a turn has had is alive in the next one."""
    alive, last = [], None
    with Block([]):
        for turn, thing in enumerate(things(numbers, n, said)):
            alive.append(last is not None and last() is not None)
            last = weakref.ref(thing)
            said.append(turn)
            if turn == at:
                break
    return [*alive, last is not None and last() is not None]


def test_deaths_come_in_the_same_order() -> None:
    fast = pijit.jit(holds)
    gc.collect()
    for at in (NEVER, NEVER, 150, 299, NEVER):
        said: list[Any] = []
        expected: list[Any] = []
        assert fast(NUMBERS, 300, said, at) == holds(NUMBERS, 300, expected, at)
        assert said == expected


def test_a_loop_that_collects() -> None:
    """The list is longer in each turn, and somebody else may have it."""

    def collects(numbers: Any, n: int, keeps: Any, at: int) -> list[Any]:
        out: list[Any] = []
        lengths = []
        for number in range(n):
            out.append(numbers[number % 8] * 0.5)
            if number == at:
                keeps.append(out)
                lengths.append(len(keeps[0]))
        lengths.append(len(out))
        return [out, lengths]

    fast = pijit.jit(collects)
    for n, at in ((900, NEVER), (800, NEVER), (900, 500), (900, 899), (900, NEVER)):
        for _ in range(3):
            kept: list[Any] = []
            expected: list[Any] = []
            result = fast(NUMBERS, n, kept, at)
            assert result == collects(NUMBERS, n, expected, at)
            assert kept == expected
            assert not kept or kept[0] is result[0]
    assert replays() > 0
