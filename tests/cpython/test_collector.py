"""Work beside the program starts no full collection, then or later, and takes none from the program."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pijit.compilers._without_full_collections import quietly


@pytest.fixture
def full() -> Iterator[Callable[[], int]]:
    """How many full collections there were since it was asked last."""
    seen: list[int] = []

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "stop" and info["generation"] == 2:
            seen.append(1)

    def count() -> int:
        found = len(seen)
        seen.clear()
        return found

    gc.collect()
    gc.callbacks.append(note)
    yield count
    gc.callbacks.remove(note)


def lasting(count: int) -> list[Any]:
    return [[[]] for _ in range(count)]


def many() -> int:
    """More than a quarter of all objects, and enough for the collector to look."""
    return max(len(gc.get_objects()), 200_000)


def test_what_is_made_quietly_starts_no_full_collection(full: Callable[[], int]) -> None:
    kept = lasting(many())
    assert full() > 0
    with quietly, quietly:
        kept += lasting(many())
        assert full() == 0
    more = lasting(len(gc.get_objects()) // 40)
    assert full() == 0
    more += lasting(many())
    assert full() > 0
    del kept, more


def test_the_program_collects_when_it_wants_to(full: Callable[[], int]) -> None:
    class Node:
        pass

    found = []
    with quietly:
        before = gc.get_threshold(), gc.isenabled()
        node = Node()
        node.self = node  # type: ignore[attr-defined]
        del node
        gc.collect()
        found = [each for each in gc.get_objects() if type(each) is Node]
        assert full() == 1
        assert (gc.get_threshold(), gc.isenabled()) == before
    assert not found
    kept = lasting(many())
    assert full() > 0
    del kept
