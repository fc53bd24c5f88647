"""What a dict has under a key: a guard about this key, so a table may grow without another recording."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from guard_changes import Mine, records, replays, same
from test_membership import KEYS, LOG, Collides

import pijit


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("inside", [False, True])
def test_of_any_kind(kind: str, inside: bool) -> None:
    key: Any = KEYS[kind]

    def make() -> tuple[Any, ...]:
        table: dict[Any, Any] = {"first": 1, object: 2}
        if inside:
            table[key] = "there"

        def f() -> tuple[Any, bool]:
            return table.get(key, "default"), key in table

        return (
            f,
            lambda: table.update({"second": 3, 99: 4, len: 5}),
            lambda: table.update({key: "new"}),
            lambda: table.pop(key),
            lambda: table.update(dict.fromkeys(range(2000), 6)),
            table.clear,
        )

    same(make)


@pytest.mark.parametrize("key", [Mine, int, records, "word", 3], ids=["class", "class of C", "function", "text", "int"])
def test_a_table_that_grows_is_recorded_once(key: Any) -> None:
    table = {key: 5, "first": 0}

    @pijit.jit
    def f() -> tuple[int, bool]:
        return table[key], Mine in table

    more: list[type] = []
    for count in range(100):
        assert f() == (5, key is Mine)
        more.append(type(f"More{count}", (), {}))
        table[more[-1]] = count
    assert records(f) == 1
    assert replays(f) == 99
    table[Mine] = 7
    assert f() == (7 if key is Mine else 5, True)
    del table[Mine]
    if key is Mine:
        with pytest.raises(KeyError):
            f()
    else:
        assert f() == (5, False)


def test_a_registry_of_functions_grows() -> None:
    """singledispatch looks for the class of its argument in such a table."""

    @functools.singledispatch
    def by(thing: object) -> str:
        return "any"

    @by.register
    def _(thing: int) -> str:
        return "int"

    @pijit.jit
    def f(thing: object) -> str:
        return by(thing)

    for _ in range(5):
        assert (f(1), f("a")) == ("int", "any")
    by.register(type("Other", (), {}))(lambda thing: "other")
    for _ in range(5):
        assert (f(1), f("a")) == ("int", "any")
    by.register(str)(lambda thing: "str")
    for _ in range(5):
        assert (f(1), f("a")) == ("int", "str")


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("key", ["word", Mine, 5], ids=["text", "class", "int"])
def test_what_python_compares_is_compared_by_it(key: Any, equal: bool) -> None:
    """One of the same hash comes, whose `__eq__` is to be seen as often as in plain Python."""

    def make() -> tuple[Any, ...]:
        LOG.clear()
        table: dict[Any, Any] = {"first": 1}
        other = Collides(key, equal=equal)

        def f() -> tuple[Any, list[object]]:
            found = table.get(key), list(LOG)
            LOG.clear()
            return found

        return f, lambda: table.update({other: 2}), lambda: table.pop(other), lambda: table.update({key: 3})

    same(make)


def test_a_key_that_dies() -> None:
    """The class of the key goes, and another one may take its place in memory."""

    def make() -> tuple[Any, ...]:
        table: dict[Any, Any] = {}
        holder: dict[str, Any] = {}
        numbers = iter(range(100))

        def renew() -> None:
            table.clear()
            holder["kind"] = type("Kind", (), {})
            table[holder["kind"]] = next(numbers) // 2

        def f() -> tuple[Any, Any]:
            return table.get(holder["kind"]), table.get(Mine)

        renew()
        return f, renew, table.clear, renew, renew, renew, lambda: table.update({Mine: 1}), renew

    same(make)


def test_a_key_whose_number_is_used() -> None:
    """The trace has the text itself as a constant; the table has one that is equal."""

    def make() -> tuple[Any, ...]:
        word = "".join(["wo", "rd"])
        table: dict[Any, Any] = {"word": 1}
        seen: dict[int, str] = {}

        def f() -> tuple[Any, bool]:
            known = id(word) in seen
            seen[id(word)] = word
            return table[word], known

        return (
            f,
            lambda: table.update({"more": 2}),
            lambda: table.update({"".join(["wo", "rd"]): 3}),
            seen.clear,
            lambda: table.pop("more"),
        )

    same(make)
