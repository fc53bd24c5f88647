"""Whether a key is in a set: a guard about this key, so a registry may grow without another recording."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import pytest
from guard_changes import Key, Mine, records, replays, same

import pijit


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


class Collides:
    """It has the hash of another key, and code of Python compares both."""

    log: list[object]

    def __init__(self, key: object, *, equal: bool) -> None:
        self.hash, self.equal = hash(key), equal

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        LOG.append(type(other).__name__)
        return self.equal


LOG: list[object] = []
KEYS = {
    "text": "word",
    "bytes": b"word",
    "int": 7,
    "large int": 2**80,
    "float": 1.5,
    "bool": True,
    "None": None,
    "tuple": (1, "a"),
    "tuple with a class": (1, Mine),
    "class": Mine,
    "class of C": int,
    "function of C": len,
    "function": records,
    "enumeration": Level.LOW,
    "frozenset": frozenset({1}),
    "derived from str": Key("word"),
}


def members(function: Callable[..., Any]) -> list[str]:
    """The kinds of guards about sets."""
    return [guard.kind for guard in pijit.traces(function)[-1].guards if guard.kind in {"set", "has", "has_not"}]


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("inside", [False, True])
def test_of_any_kind(kind: str, inside: bool) -> None:
    key: Any = KEYS[kind]

    def make() -> tuple[Any, ...]:
        registry = {"first", Mine, *([key] if inside else [])}

        def f() -> tuple[bool, bool]:
            return key in registry, key not in registry

        return (
            f,
            lambda: registry.update({"second", 99, object}),
            lambda: registry.add(key),
            lambda: registry.discard(key),
            lambda: registry.update(range(2000)),
            registry.clear,
        )

    same(make)


@pytest.mark.parametrize("key", [Mine, "word", 3], ids=["class", "text", "int"])
def test_a_set_that_grows_is_recorded_once(key: Any) -> None:
    registry = {key, "first"}
    others: set[Any] = set()

    @pijit.jit
    def f() -> tuple[bool, bool]:
        return key in registry, key in others

    for count in range(200):
        assert f() == (True, False)
        registry.add(f"more {count}")
        others.add(f"more {count}")
    assert records(f) == 1
    assert replays(f) == 199
    assert members(f) == ["has", "has_not"]
    others.add(key)
    assert f() == (True, True)
    registry.remove(key)
    assert f() == (False, True)


@pytest.mark.parametrize("there", [True, 1.0, 1, "1"], ids=repr)
@pytest.mark.parametrize("key", [True, 1.0, 1, "1"], ids=repr)
def test_equal_keys_of_other_classes(there: Any, key: Any) -> None:
    def make() -> tuple[Any, ...]:
        registry: set[Any] = set()

        def f() -> bool:
            return key in registry

        return f, lambda: registry.add(there), lambda: registry.remove(there), lambda: registry.add(there)

    same(make)


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("key", ["word", Mine, 5], ids=["text", "class", "int"])
def test_what_python_compares_is_compared_by_it(key: Any, equal: bool) -> None:
    """One of the same hash comes, whose `__eq__` is to be seen as often as in plain Python."""

    def make() -> tuple[Any, ...]:
        LOG.clear()
        registry = {"first"}
        other = Collides(key, equal=equal)

        def f() -> tuple[bool, list[object]]:
            found = key in registry, list(LOG)
            LOG.clear()
            return found

        return f, lambda: registry.add(other), lambda: registry.discard(other)

    same(make)


def test_written_by_the_call() -> None:
    def make() -> tuple[Any, ...]:
        seen: set[Any] = set()
        names = ["a", "b", "a", "c"]

        def f() -> tuple[list[str], int]:
            new = []
            for name in names:
                if name not in seen:
                    seen.add(name)
                    new.append(name)
            return new, len(seen)

        return f, seen.clear, lambda: seen.add("z"), lambda: names.append("d"), lambda: seen.discard("b")

    same(make)


def test_asked_then_walked() -> None:
    """A guard about one key, then one about all: both hold for the set before the call."""

    def make() -> tuple[Any, ...]:
        registry = {1, 2, 3}

        def f() -> tuple[bool, list[int], int, bool]:
            return 2 in registry, sorted(registry), len(registry), 9 in registry

        return f, lambda: registry.add(9), lambda: registry.remove(2), lambda: registry.add(4)

    same(make)


def test_changed_between_two_looks() -> None:
    """What runs in between is not looked into, and changes the set."""

    def make() -> tuple[Any, ...]:
        registry: set[Any] = set()
        keys = iter("abcdefghijklmnopqrstuvwxyz" * 4)
        add = pijit.opaque(lambda: registry.add(next(keys)))

        def f() -> tuple[bool, bool, bool]:
            before = "c" in registry
            add()
            return before, "c" in registry, "z" in registry

        return f, registry.clear, lambda: registry.add("z")

    same(make, replayed=False)


def test_many_keys_of_one_set() -> None:
    def make() -> tuple[Any, ...]:
        registry = {2, 5, 30}

        def f() -> list[int]:
            return [each for each in range(40) if each in registry]

        return f, lambda: registry.add(7), lambda: registry.remove(30), lambda: registry.add("word")

    same(make)


def test_a_key_that_dies() -> None:
    """The class of the key goes, and another one may take its place in memory."""

    def make() -> tuple[Any, ...]:
        registry: set[Any] = set()
        holder: dict[str, Any] = {}

        def renew() -> None:
            registry.clear()
            holder["kind"] = type("Kind", (), {})
            registry.add(holder["kind"])

        def f() -> tuple[bool, bool]:
            return holder["kind"] in registry, Mine in registry

        renew()
        return f, renew, lambda: registry.clear(), renew, renew

    same(make)
