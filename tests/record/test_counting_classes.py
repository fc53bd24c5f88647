"""Classes in which a program counts: the count is read anew in each call, and what else they have is checked."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import pytest

import pijit
from pijit import _core


def report(function: Callable[..., Any]) -> tuple[int, int, int]:
    """Recordings, replays and exits of a jitted function."""
    found = _core.root_report(_core.root_of(function))
    return found["records"], found["replays"], found["exits"]


def rests(function: Callable[..., Any], *args: Any) -> None:
    """The next calls are replayed to their end."""
    records, replays, exits = report(function)
    for _ in range(4):
        function(*args)
    assert report(function) == (records, replays + 4, exits)


def test_instances_are_numbered() -> None:
    class Handle:
        next_id = 0

        def __init__(self) -> None:
            self.id = Handle.next_id
            Handle.next_id += 1

    @pijit.jit
    def made(x: float) -> tuple[int, int, float]:
        first, second = Handle(), Handle()
        return first.id, second.id, x + 1

    for call in range(6):
        assert made(float(call)) == (2 * call, 2 * call + 1, call + 1)
    rests(made, 1.0)
    assert Handle.next_id == 20
    Handle.next_id = 100  # others count, too
    assert made(0.5) == (100, 101, 1.5)
    rests(made, 1.0)
    assert Handle.next_id == 110


def test_what_else_the_class_has_is_checked() -> None:
    class Counter:
        calls = 0
        step = 1

        def scaled(self, x: float) -> float:
            Counter.calls += self.step
            return x * 2

    counter = Counter()

    @pijit.jit
    def f(x: float) -> tuple[float, int]:
        return counter.scaled(x), counter.calls

    for call in range(1, 6):
        assert f(1.0) == (2.0, call)
    rests(f, 1.0)
    Counter.step = 10
    assert f(1.0) == (2.0, 19)
    assert f(1.0) == (2.0, 29)
    Counter.scaled = lambda self, x: x * 3  # type: ignore[method-assign]
    assert f(1.0) == (3.0, 29)
    assert f(1.0) == (3.0, 29)
    Counter.__len__ = lambda self: 0  # type: ignore[attr-defined]
    assert f(1.0) == (3.0, 29)
    counter.calls = 7
    assert f(1.0) == (3.0, 7)


def test_an_attribute_comes_and_goes() -> None:
    class Base:
        total = 0

    class Derived(Base):
        pass

    @pijit.jit
    def f() -> int:
        Base.total += 1
        return Derived.total

    for call in range(1, 7):
        assert f() == call
    rests(f)
    Derived.total = 50
    assert [f(), f(), Base.total] == [50, 50, 12]
    del Derived.total
    assert [f(), f()] == [13, 14]
    Base.total = 1.5  # type: ignore[assignment]
    assert [f(), f(), f()] == [2.5, 3.5, 4.5]
    Base.total = "a"  # type: ignore[assignment]
    with pytest.raises(TypeError, match="str"):
        f()
    assert Base.total == "a"


def test_a_class_method_and_an_abstract_class() -> None:
    class Shape(abc.ABC):
        count = 0

        @classmethod
        def register_one(cls) -> int:
            cls.count += 1
            return cls.count

        @abc.abstractmethod
        def area(self) -> float: ...

    class Square(Shape):
        count = 100

        def area(self) -> float:
            return 4.0

    @pijit.jit
    def f() -> tuple[int, int, float, bool]:
        return Square.register_one(), Shape.register_one(), Square().area(), isinstance(Square(), Shape)

    for call in range(1, 7):
        assert f() == (100 + call, call, 4.0, True)
    rests(f)
    assert (Square.count, Shape.count) == (110, 10)


def test_a_metaclass_with_a_descriptor_or_a_method_is_asked() -> None:
    seen = []

    class Meta(type):
        @property
        def total(cls) -> int:
            return len(seen)

        @total.setter
        def total(cls, value: int) -> None:
            seen.append(value)

    class Watched(metaclass=Meta):
        pass

    class Loud(type):
        def __setattr__(cls, name: str, value: object) -> None:
            seen.append(name)
            super().__setattr__(name, value)

    class Noted(metaclass=Loud):
        total = 0

    @pijit.jit
    def f() -> tuple[int, int]:
        Watched.total += 1
        Noted.total += 1
        return Watched.total, Noted.total

    for call in range(1, 8):
        assert f() == (2 * call, call)
    assert len(seen) == 14


def test_a_count_decides() -> None:
    class Steps:
        done = 0

    log = []

    @pijit.jit
    def f(x: float) -> float:
        Steps.done += 1
        if Steps.done % 4 == 0:
            log.append(Steps.done)
        return x + Steps.done

    for call in range(1, 30):
        assert f(0.5) == call + 0.5
    assert log == list(range(4, 30, 4))


def test_an_exit_after_the_count() -> None:
    """The count is written once, whatever comes after it."""

    class Tries:
        made = 0

    @pijit.jit
    def f(values: list[float]) -> float:
        Tries.made += 1
        return 1 / values[0]

    for call in range(1, 6):
        assert f([2.0]) == 0.5
        assert Tries.made == call
    for call in range(6, 12):
        with pytest.raises(ZeroDivisionError):
            f([0.0])
        assert Tries.made == call
    assert f([4.0]) == 0.25
    assert Tries.made == 12


def test_weak_references_of_a_call() -> None:
    import weakref

    class Owner:
        pass

    owners = [Owner(), Owner()]

    @pijit.jit
    def f(x: int) -> tuple[bool, bool, int]:
        here = weakref.ref(owners[0])
        fresh = Owner()
        there = weakref.ref(fresh)
        found = there() is fresh
        del fresh
        return here() is owners[0], found and there() is None, x + 1

    for call in range(6):
        assert f(call) == (True, True, call + 1)
    rests(f, 1)
    owners[0] = Owner()
    for call in range(4):
        assert f(call) == (True, True, call + 1)
    assert weakref.getweakrefcount(owners[0]) == 0
