"""What generators hold dies as without pijit where the turns of loops over them have traces of their own."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

from in_the_middle import NEVER, NUMBERS, long_loops  # noqa: F401

import pijit


class Noted:
    """Says when it dies."""

    def __init__(self, name: float, said: list[Any]) -> None:
        self.name = name
        self.said = said

    def __del__(self) -> None:
        self.said.append(self.name)


def things(numbers: Any, n: int, said: list[Any]) -> Iterator[Noted]:
    kept = Noted(-1.0, said)
    held = None
    for number in range(n):
        made = Noted(numbers[number % 8] + number, said)
        yield made
        held = made if number % 10 == 0 else held
    said.append((kept.name, held is None))


def holds(numbers: Any, n: int, said: list[Any], at: int) -> list[bool]:
    alive, last, turn = [], None, 0
    for thing in things(numbers, n, said):
        alive.append(last is not None and last() is not None)
        last = weakref.ref(thing)
        said.append(turn)
        if turn == at:
            break
        turn += 1
    said.append("left")
    return [*alive, last is not None and last() is not None]


def test_deaths_come_in_the_same_order() -> None:
    fast = pijit.jit(holds)
    gc.collect()
    for at in (NEVER, NEVER, 150, 299, NEVER, 150):
        said: list[Any] = []
        expected: list[Any] = []
        assert fast(NUMBERS, 300, said, at) == holds(NUMBERS, 300, expected, at)
        assert said == expected


def test_nothing_is_kept_alive() -> None:
    class Thing:
        pass

    def gives(thing: Any, n: int) -> Iterator[int]:
        for number in range(n):
            thing.value = number
            yield number % 3

    def use(thing: Any, n: int) -> int:
        result = 0
        for item in gives(thing, n):
            result += item
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
