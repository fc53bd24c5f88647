"""A thing that foreign code changes is changed wherever it stands, also where one container has it several times."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import pytest

import pijit


@pijit.opaque
def grow(thing: Any) -> None:
    thing.append(len(thing))


class Key:
    """Found by what it is; has a list."""

    def __init__(self) -> None:
        self.items: list[int] = []

    def append(self, n: int) -> None:
        self.items.append(n)

    def __len__(self) -> int:
        return len(self.items)


def inserted_before(thing: Any, n: int) -> Any:
    items = [thing, n]
    items.insert(0, thing)
    return items


def assigned_at_once(thing: Any, n: int) -> Any:
    items: list[Any] = []
    items[:] = [thing, thing]
    return items


def repeated(thing: Any, n: int) -> Any:
    return [thing, n] * 2 + [thing]


def moved_up(thing: Any, n: int) -> Any:
    items = [n, thing, thing, n, thing]
    del items[0]
    items.insert(1, thing)
    items.reverse()
    return items


def in_a_tuple(thing: Any, n: int) -> Any:
    return (thing, thing, n, thing)


def in_a_deque(thing: Any, n: int) -> Any:
    items = collections.deque([thing])
    items.appendleft(thing)
    items.appendleft(thing)
    return items


def written_over(thing: Any, n: int) -> Any:
    table: dict[int, Any] = {0: n, 1: n, 2: n}
    for i in range(2):
        table[i] = thing
    return table.values()


def deleted_and_put(thing: Any, n: int) -> Any:
    table: dict[int, Any] = {0: thing, 1: thing, 2: n}
    del table[0]
    table[0] = thing
    table[2] = thing
    return table.values()


def of_an_instance(thing: Any, n: int) -> Any:
    key = Key()
    key.a = key.b = n  # type: ignore[attr-defined]
    key.a = thing  # type: ignore[attr-defined]
    key.b = thing  # type: ignore[attr-defined]
    return [key.a, key.b]  # type: ignore[attr-defined]


def in_a_set(thing: Any, n: int) -> Any:
    key = Key()
    keys = {key}
    grow(key)
    return [len(each) for each in keys]


def in_a_larger_set(thing: Any, n: int) -> Any:
    keys = set(range(20))
    key = Key()
    keys.add(key)
    grow(key)
    return [key in keys, n in keys, len(keys), [len(each) for each in keys if isinstance(each, Key)]]


def in_a_generator(thing: Any, n: int) -> Any:
    def twice(mine: Any) -> Any:
        yield mine
        yield mine

    source = twice(thing)
    first = next(source)
    grow(thing)
    return [len(first), *(len(each) for each in source)]


WAYS = [
    inserted_before,
    assigned_at_once,
    repeated,
    moved_up,
    in_a_tuple,
    in_a_deque,
    written_over,
    deleted_and_put,
    of_an_instance,
    in_a_set,
    in_a_larger_set,
    in_a_generator,
]


def changed(put: Callable[[Any, int], Any], n: int, rounds: int) -> Any:
    thing: list[int] = [n]
    held = put(thing, n)
    sizes = []
    for _ in range(rounds):
        grow(thing)
        sizes += [len(each) if isinstance(each, list) else each for each in held]
        if isinstance(held, list):
            held.append(thing)
    return thing, sizes


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("put", WAYS)
def test_every_place(put: Callable[[Any, int], Any], rounds: int) -> None:
    fast = pijit.jit(changed)
    for n in (1, 2, 2, 3, 3):
        assert fast(put, n, rounds) == changed(put, n, rounds)
    pijit.reset(fast)
