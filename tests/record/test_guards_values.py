"""Guards on numbers, text and keys: equal and not the same, of other types, with hashes of their own."""

from __future__ import annotations

import itertools
import math
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest
from guard_changes import Key, Level, Mine, Number, records, replays, same
from observe import Describer

import pijit

# -------------------------------------------------------------------------------------------------------------- numbers


def test_nan_is_replayed() -> None:
    for value in (math.nan, complex(math.nan, 1.0), float("nan")):
        jitted = pijit.jit(lambda x, k=value: (x, k))
        for _ in range(5):
            jitted(value)
        assert replays(jitted) >= 3
        assert records(jitted) <= 2


def test_fresh_nans_do_not_record_for_ever() -> None:
    jitted = pijit.jit(lambda x: x + 1.0)
    for _ in range(50):
        assert math.isnan(jitted(float("nan")))
    assert records(jitted) <= 8


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, -0.0, 1e308, 5e-324, 2**70, -(2**63), 2**63])
def test_odd_numbers_in_guards(value: float) -> None:
    """Guards on odd numbers hold, print and fail without harm."""
    jitted = pijit.jit(lambda x: (x < 1, x * 1, x - 1 if x == x else 0))
    plain = lambda x: (x < 1, x * 1, x - 1 if x == x else 0)  # noqa: E731
    for x in (value, value, 1, value, 0.5, value):
        assert repr(jitted(x)) == repr(plain(x))
    str(pijit.traces(jitted))
    assert replays(jitted) >= 2


def test_negative_zero() -> None:
    jitted = pijit.jit(lambda x, y: (math.copysign(1.0, x), x * 0, x + y, -x, str(x)))
    for x, y in itertools.product([0.0, 0.0, -0.0, -0.0, 0.0], repeat=2):
        assert repr(jitted(x, y)) == repr((math.copysign(1.0, x), x * 0, x + y, -x, str(x)))


@pytest.mark.parametrize(
    "values", [[1, True, 1.0, Number(1), Level.LOW], [0, False, 0.0, -0.0, None], ["a", Key("a"), b"a"]]
)
def test_equal_but_of_other_types(values: list[Any]) -> None:
    def f(x: Any) -> Any:
        return x, type(x), {1: "found"}.get(x, "none"), x == 1, f"{x!r}", (x,), [x]

    for order in itertools.permutations(values):
        jitted = pijit.jit(f)
        for x in [*order, *order]:
            assert Describer()(jitted(x)) == Describer()(f(x))


def test_integer_subclass_operators() -> None:
    class Index(int):
        def __index__(self) -> int:
            return 99

        def __add__(self, other: object) -> str:
            return "add"

        def __eq__(self, other: object) -> bool:
            return False

        def __hash__(self) -> int:
            return 0

        def __bool__(self) -> bool:
            return False

    def f(x: Any) -> Any:
        return x + 1, x == 1, "yes" if x else "no", [10, 20, 30][x], range(x)

    jitted = pijit.jit(f)
    for x in (1, 1, 1, Index(1), Index(1), 1, Level.LOW, Index(1)):
        assert Describer()(jitted(x)) == Describer()(f(x))


def test_overflow() -> None:
    def f(x: Any, y: Any) -> Any:
        total = x
        for _ in range(3):
            total = total * y + x
        return total, -total, total - 2**62, total << 1, total // 3, total % 7, hash(total)

    jitted = pijit.jit(f)
    for x, y in itertools.product(
        [0, 1, -1, 2**31, 2**62, 2**63 - 1, -(2**63), 2**63, 2**64, 10**30], [1, -1, 2**31, 2**32, 3]
    ):
        assert jitted(x, y) == f(x, y)


def test_hash_collisions() -> None:
    prime = 2**61 - 1
    table = {0: "zero", 1: "one", -1: "minus", -2: "two"}

    def f(x: Any) -> Any:
        return table.get(x), x in table, x in {0, 1}

    jitted = pijit.jit(f)
    for x in (0, prime, 0, prime + 1, 1, -1, -2, -1, 2 * prime, 0.0, 1.0, True):
        assert jitted(x) == f(x)


# -------------------------------------------------------------------------------------------------------- keys and text


class Loud:
    """A key that counts how often it is looked at."""

    asked = 0

    def __init__(self, name: str) -> None:
        self.name = name

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        Loud.asked += 1
        return isinstance(other, Loud) and self.name == other.name


class LoudText(str):
    __slots__ = ()
    asked = 0

    def __hash__(self) -> int:
        LoudText.asked += 1
        return str.__hash__(self)

    def __eq__(self, other: object) -> bool:
        LoudText.asked += 1
        return str.__eq__(self, other)


def test_equal_text_of_other_identity() -> None:
    table = {"key": 1}
    jitted = pijit.jit(lambda k: (table[k], k == "key", k))
    for k in ("key", "key", "".join(["k", "ey"]), "".join(["ke", "y"])):
        assert jitted(k) == (1, True, "key")
    assert replays(jitted) >= 2


@pytest.mark.parametrize("kind", [Loud, LoudText])
def test_loud_keys_are_asked_as_often_as_without(kind: Any) -> None:
    def make(jit: Callable[[Any], Any]) -> list[Any]:
        table = {kind("a"): 1, "b": 2}
        f = jit(lambda k: (table[k], k in table, table["b"]))
        seen = []
        for k in [kind("a"), kind("a"), kind("a"), "a" if kind is LoudText else kind("a")]:
            kind.asked = 0
            seen.append((f(k), kind.asked))
        return seen

    assert make(pijit.jit) == make(lambda function: function)


HINTED = pytest.mark.skipif(sys.version_info >= (3, 13), reason="plain, the second lookup asks no key: it has a hint")


@pytest.mark.parametrize("where", ["global", pytest.param("attribute", marks=HINTED), "dict"])
def test_colliding_loud_key(where: str) -> None:
    """A key of user class with the hash of the name that is looked up: asked as often as plain."""

    class Same:
        asked = 0

        def __hash__(self) -> int:
            return hash("name")

        def __eq__(self, other: object) -> bool:
            Same.asked += 1
            return False

    def make(jit: Callable[[Any], Any]) -> list[Any]:
        table: dict[Any, Any] = {Same(): 0, "name": 1}
        if where == "global":
            f = types.FunctionType((lambda: name).__code__, table)  # noqa: F821
        elif where == "dict":
            f = lambda: table["name"]  # noqa: E731
        else:
            thing = Mine()
            thing.__dict__ = table
            f = lambda: thing.name  # noqa: E731
        f = jit(f)
        seen = []
        for step in range(6):
            if step == 3:
                table["name"] = 2
            Same.asked = 0
            seen.append((f(), Same.asked))
        return seen

    assert make(pijit.jit) == make(lambda function: function)


def test_guards_run_no_code() -> None:
    """Hits and misses run no `__eq__`, `__getattr__`, `__len__`, `__bool__`, `__hash__` or property of the program."""
    asked: list[str] = []

    class Noisy:
        def __init__(self) -> None:
            object.__setattr__(self, "v", 1)

        def __getattribute__(self, name: str) -> Any:
            asked.append("getattribute " + name)
            return object.__getattribute__(self, name)

        def __eq__(self, other: object) -> bool:
            asked.append("eq")
            return True

        def __hash__(self) -> int:
            asked.append("hash")
            return 1

        def __len__(self) -> int:
            asked.append("len")
            return 1

        def __bool__(self) -> bool:
            asked.append("bool")
            return True

        @property
        def p(self) -> int:
            asked.append("property")
            return 1

        @property
        def __class__(self) -> type:
            asked.append("class")
            return Noisy

    def make(jit: Callable[[Any], Any]) -> list[Any]:
        table = {"x": Noisy(), "y": 1}
        items = [Noisy()]

        def f(x: Any, flag: object) -> Any:
            return table["x"] is items[0], table["y"], x is None, len(items), flag

        f = jit(f)
        counts = []
        for step in range(12):
            if step == 3:
                table["x"] = Noisy()
            if step == 6:
                items[0] = table["x"]
            if step == 9:
                table["y"] = 2
            asked.clear()
            f(Noisy(), Noisy())
            counts.append(list(asked))
        return counts

    assert make(pijit.jit) == make(lambda function: function)


def test_later_source_is_gone() -> None:
    """What a later guard reads is gone: nothing escapes."""

    def make() -> tuple[Any, ...]:
        thing = Mine()
        thing.inner = Mine()
        thing.inner.items = [1, Mine()]
        thing.inner.items[1].v = 5

        def f() -> Any:
            try:
                return thing.inner.items[1].v
            except (AttributeError, IndexError) as error:
                return type(error).__name__

        return (
            f,
            lambda: delattr(thing.inner.items[1], "v"),
            lambda: thing.inner.items.pop(),
            lambda: delattr(thing.inner, "items"),
            lambda: setattr(thing, "inner", None),
            lambda: delattr(thing, "inner"),
        )

    same(make)


def test_many_shapes_of_calls_come_to_rest() -> None:
    """Arguments that never repeat: bounded traces, right answers, and left alone in the end."""
    jitted = pijit.jit(lambda x: x * 2)
    for x in map(str, range(1000)):
        assert jitted(x) == x * 2
    assert len(pijit.traces(jitted)) <= 8
    assert pijit.status(jitted).state == "disabled"
    assert pijit.status(jitted).reason


def test_alternating_states_are_each_replayed() -> None:
    mode = [True]
    jitted = pijit.jit(lambda: "train" if mode[0] else "eval")
    for turn in range(40):
        mode[0] = turn % 2 == 0
        assert jitted() == ("train" if mode[0] else "eval")
    assert records(jitted) == 2
    assert replays(jitted) == 38
