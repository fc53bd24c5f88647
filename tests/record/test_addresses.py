"""What a recording knows of an object by its address ends with the object: foreign code makes others there."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

import pijit


class Node:
    def __init__(self, *below: Node) -> None:
        self.below = below
        self.n = 1


FOUND: list[Any] = []
MAKE = {
    "nodes": "FOUND.extend(Node() for _ in range(200))",
    "functions": "FOUND.extend([lambda: 1 for _ in range(200)])",
    "tuples": "FOUND.extend((Node(), 1) for _ in range(200))",
}


def filler(what: str) -> Callable[[], None]:
    """Foreign code that fills the list once, with objects that stand where others have died."""
    return functools.partial(exec, f"if not FOUND: {MAKE[what]}", {"FOUND": FOUND, "Node": Node})


fill = filler("nodes")


def grow(node: Node) -> None:
    exec("node.n += 1", {"node": node})


def count(root: Node) -> int:
    seen, todo = set(), [root]
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo.extend(node.below)
    return len(seen)


def as_keys(x: int) -> Any:
    n = count(Node(Node(), Node()))
    fill()
    return {found: n for found in FOUND}


def as_members(x: int) -> Any:
    n = count(Node(Node(), Node()))
    fill()
    return {found for found in FOUND} if n else None


def as_one_member(x: int) -> Any:
    n = count(Node(Node(), Node()))
    fill()
    made = []
    for found in FOUND:
        one = {found}
        made.extend(one)
    return made if n else None


def as_copied_keys(x: int) -> Any:
    n = count(Node(Node(), Node()))
    fill()
    table = dict.fromkeys(FOUND, n)
    return {**table}


def in_tuples(x: int) -> Any:
    table = {(Node(), i): i for i in range(3)}
    n = len(table)
    del table
    fill()
    return {(found, n): n for found in FOUND}


def of_functions(x: int) -> Any:
    table = {(lambda: i): i for i in range(3)}
    n = len(table)
    del table
    fill()
    return {found: n for found in FOUND}


def members(made: Any) -> list[Any]:
    return [part for key in made for part in (key if isinstance(key, tuple) else (key,))]


@pytest.mark.parametrize("what", MAKE)
@pytest.mark.parametrize(
    "function", [as_keys, as_members, as_one_member, as_copied_keys, in_tuples, of_functions], ids=lambda f: f.__name__
)
def test_other_objects_at_the_addresses(function: Callable[[int], Any], what: str) -> None:
    global fill
    fill = filler(what)
    FOUND.clear()
    fast = pijit.jit(function)
    fast(1)
    for change in (False, False, True, True):
        if change:
            FOUND[:] = FOUND[::-1]
        made, plain = fast(1), function(1)
        assert len(made) == len(plain)
        here = {id(part) for found in FOUND for part in (found if isinstance(found, tuple) else (found,))}
        assert all(id(part) in here or isinstance(part, (int, tuple)) for part in members(made))
        if not isinstance(made, set):
            assert [id(part) for part in members(made)] == [id(part) for part in members(plain)] or what == "tuples"
    pijit.reset(fast)


def of_a_changed_key(x: int) -> Any:
    node = Node()
    table = {node: 1}
    grow(node)
    return [key.n + x for key in table], [key.n for key in set(table)], node in table, node.n


def of_a_key_in_two(x: int) -> Any:
    node, other = Node(), Node()
    table = {node: 1, other: 2}
    seen = {other}
    grow(other)
    return [key.n + x for key in table], [key.n for key in seen], seen <= set(table)


@pytest.mark.parametrize("function", [of_a_changed_key, of_a_key_in_two], ids=lambda f: f.__name__)
def test_foreign_code_changes_a_key(function: Callable[[int], Any]) -> None:
    fast = pijit.jit(function)
    for x in (1, 1, 1, 2, 2):
        assert fast(x) == function(x)
    pijit.reset(fast)


KEPT: dict[Any, int] = {}


def removed_key(x: int) -> int:
    table = {key: x for key in KEPT}
    for key in table:
        table[key] = x + 1
    total = sum(table.values())
    del table, key
    exec("KEPT.clear()", {"KEPT": KEPT})
    return total


def test_a_key_dies_while_it_is_recorded() -> None:
    fast = pijit.jit(removed_key)
    for _ in range(4):
        KEPT.update((Node(), i) for i in range(3))
        assert fast(2) == 9
    pijit.reset(fast)


SHARED = [True]


@pijit.opaque
def table_with_a_constant(n: int) -> dict[Any, int]:
    return {(1, "a"): n} if SHARED[0] else {tuple([1, "a"]): n}  # the constant of the function below, or an equal one


@pijit.opaque
def see(table: dict[Any, int]) -> None:
    table[2, "b"] = len(table)


def of_a_constant_in_a_table(n: int) -> Any:
    table = table_with_a_constant(n)
    first = table[1, "a"]
    see(table)
    table[1, "a"] += n
    see(table)
    return first, table[1, "a"], table, list(table)


@pytest.mark.parametrize("shared", [True, False])
def test_a_constant_is_a_key_that_was_loaded(shared: bool) -> None:
    fast = pijit.jit(of_a_constant_in_a_table)
    for SHARED[0] in (shared, shared, shared, not shared, not shared, shared):
        made, plain = fast(3), of_a_constant_in_a_table(3)
        assert made == plain
        assert made[3][0] is next(iter(made[2]))
        assert (made[3][0] is plain[3][0]) == SHARED[0]
    pijit.reset(fast)
