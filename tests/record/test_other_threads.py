"""Recordings beside other threads: what these write meanwhile, and code that their recordings follow, too."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import pijit

MANY = 400  # items: more than a thread takes before another one runs
SHARED: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def threads_change_often() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def take(items: Any, seen: list[Any]) -> None:
    for _ in range(MANY):
        try:
            item = items.pop()
        except IndexError:
            break
        seen.append(item)


def take_shared(seen: list[Any]) -> None:
    take(SHARED["items"], seen)


def take_keys(items: Any, seen: list[Any]) -> None:
    for key in range(MANY):
        if key in items:
            try:
                items.pop(key) if isinstance(items, dict) else items.remove(key)
            except KeyError:
                continue
            seen.append(key)


def count(counts: dict[str, int], turns: int) -> int:
    for _ in range(turns):
        counts["all"] = counts.get("all", 0) + 1
    return counts["all"]


def at_once(*functions: Callable[[], Any]) -> None:
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextmanager
def running(function: Callable[[threading.Event], Any]) -> Iterator[None]:
    """Another thread has run, and goes on until the block ends."""
    begun, ended = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        function(ended)

    thread = threading.Thread(target=pijit.skip(work))
    thread.start()
    begun.wait()
    yield
    ended.set()
    thread.join()


@pytest.mark.parametrize("kind", [list, deque])
@pytest.mark.parametrize("global_", [False, True])
def test_threads_take_from_one_container(kind: Callable[[Any], Any], global_: bool) -> None:
    """Each item is taken once, whichever thread records and whichever replays."""
    jitted = pijit.jit(take_shared if global_ else take)
    for _ in range(10):
        items = [object() for _ in range(MANY)]
        parts: list[list[object]] = [[] for _ in range(4)]
        SHARED["items"] = shared = kind(items)
        given = () if global_ else (shared,)
        at_once(*(lambda part=part, given=given: jitted(*given, part) for part in parts))
        assert sorted(id(item) for part in parts for item in part) == sorted(map(id, items))
        assert not shared
        pijit.reset(jitted)


@pytest.mark.parametrize("kind", [set, dict.fromkeys])
def test_threads_take_the_same_keys(kind: Callable[[Any], Any]) -> None:
    """Each key is taken once, and no thread finds one that another has taken."""
    jitted = pijit.jit(take_keys)
    for _ in range(10):
        parts: list[list[int]] = [[] for _ in range(4)]
        shared = kind(range(MANY))
        at_once(*(lambda part=part, shared=shared: jitted(shared, part) for part in parts))
        assert sorted(key for part in parts for key in part) == list(range(MANY))
        assert not shared
        pijit.reset(jitted)


def test_containers_that_another_thread_fills() -> None:
    """Records while another thread adds and removes other keys."""

    def change(ended: threading.Event) -> None:
        number = 0
        while not ended.is_set():
            number += 1
            counts[str(number)] = number
            counts.pop(str(number - 50), None)

    counts: dict[str, int] = {}
    jitted = pijit.jit(count)
    with running(change):
        for turn in range(1, 11):
            assert jitted(counts, 300) == 300 * turn
            pijit.reset(jitted)
    assert jitted(counts, 5) == jitted(counts, 5) - 5 == 3005


def test_code_that_another_thread_follows_anew() -> None:
    """What was known of code that runs here is gone when the recording that followed it has ended elsewhere."""
    rounds = 20
    inside, outside = threading.Barrier(2), threading.Barrier(2)

    @pijit.opaque
    def meet() -> None:
        inside.wait()
        outside.wait()

    def shared(x: int) -> int:
        y = x + 1
        if x == 1:
            meet()
        return x * y + y

    def first(x: int) -> int:
        return shared(x)

    @pijit.opaque
    def look() -> list[int]:
        seen = []
        for x in range(2, 2 + rounds):
            inside.wait()
            seen.append(shared(x))
            outside.wait()
        return seen

    def second(x: int) -> tuple[list[int], int]:
        return look(), shared(x)

    def work() -> None:
        for _ in range(2 * rounds):
            jitted = pijit.jit(first)
            results.append(jitted(1))
            pijit.unjit(jitted)

    results: list[int] = []
    expected = [(x + 1) ** 2 for x in range(2, 2 + rounds)]
    thread = threading.Thread(target=pijit.skip(work))
    thread.start()
    jitted = pijit.jit(second)
    for x in (5, 6):
        assert jitted(x) == (expected, (x + 1) ** 2)
    thread.join()
    assert results == [4] * 2 * rounds
