"""What abstract base classes answer, when others are registered between two calls."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any

import pytest

import pijit
from pijit import _core, api

Counts = tuple[int, int]


def counts(fast: Any) -> Counts:
    """How many recordings and replays there were."""
    report = _core.root_report(api.root_of(fast))
    return report["records"], report["replays"]


def register_elsewhere() -> None:
    """As the import of a large library does."""

    class Other:
        pass

    class Base(abc.ABC):  # noqa: B024
        pass

    Base.register(Other)
    Mapping.register(Other)


def compare(fn: Callable[..., Any], change: Callable[[], object], *args: Any) -> Counts:
    """Two calls, a change, and two calls, beside a plain function; gives what the last two came to."""
    fast = pijit.jit(fn)
    for _ in range(2):
        assert fast(*args) == fn(*args)
    before = counts(fast)
    assert before == (1, 1)
    change()
    for _ in range(2):
        assert fast(*args) == fn(*args)
    after = counts(fast)
    return after[0] - before[0], after[1] - before[1]


def kinds(thing: Any) -> tuple[bool, ...]:
    return isinstance(thing, Mapping), isinstance(thing, Sized), issubclass(type(thing), Sequence)


class Plain:
    pass


@pytest.mark.parametrize("thing", [Plain(), 1, "text", {}, [1]], ids=lambda thing: type(thing).__name__)
def test_registrations_elsewhere_void_no_trace(thing: Any) -> None:
    assert compare(kinds, register_elsewhere, thing) == (0, 2)


def test_a_registration_of_the_class() -> None:
    class Own:
        pass

    assert compare(kinds, lambda: Mapping.register(Own), Own()) == (1, 1)


def test_a_registration_of_a_class_that_it_derives_from() -> None:
    class Upper:
        pass

    class Lower(Upper):
        pass

    assert compare(kinds, lambda: Sequence.register(Upper), Lower()) == (1, 1)


def test_a_registration_with_a_class_below_the_abstract_one() -> None:
    class Base(abc.ABC):  # noqa: B024
        pass

    class Below(Base):
        pass

    class Own:
        pass

    def f(thing: Any) -> bool:
        return isinstance(thing, Base)

    assert compare(f, lambda: Below.register(Own), Own()) == (1, 1)


def test_registrations_again_and_again() -> None:
    fast = pijit.jit(kinds)
    own = Plain()
    for turn in range(12):
        assert fast(own) == kinds(own) == (False, False, False)
        if turn % 3 == 2:
            register_elsewhere()
    assert counts(fast) == (1, 11)


def test_each_of_several_traces_is_asked_again() -> None:
    fast = pijit.jit(kinds)
    things = [Plain(), 1, {}]
    for thing in things * 2:
        assert fast(thing) == kinds(thing)
    before = counts(fast)
    assert before[0] == 3
    register_elsewhere()
    for thing in things * 2:
        assert fast(thing) == kinds(thing)
    assert counts(fast) == (3, before[1] + 6)


def test_a_hook_that_changes_its_mind() -> None:
    answers: list[Any] = [NotImplemented]

    class Base(abc.ABC):  # noqa: B024
        @classmethod
        def __subclasshook__(cls, other: type) -> Any:
            return answers[-1]

    def f(thing: Any) -> bool:
        return isinstance(thing, Base)

    def change() -> None:
        answers.append(True)
        register_elsewhere()

    assert compare(f, change, Plain()) == (1, 1)


def test_a_hook_that_raises() -> None:
    raises: list[int] = []

    class Base(abc.ABC):  # noqa: B024
        @classmethod
        def __subclasshook__(cls, other: type) -> Any:
            if raises:
                raise LookupError("no answer")
            return NotImplemented

    def f(thing: Any) -> str:
        try:
            return str(isinstance(thing, Base))
        except LookupError as error:
            return str(error)

    def change() -> None:
        raises.append(1)
        register_elsewhere()

    assert f(Plain()) == "False"
    compare(f, change, Plain())
    assert f(Plain()) == "no answer"


def test_a_metaclass_with_rules_of_its_own() -> None:
    """It is asked each time, whatever is registered."""

    class Turned(abc.ABCMeta):
        def __subclasscheck__(cls, other: type) -> bool:
            return not super().__subclasscheck__(other)

    class Base(metaclass=Turned):
        pass

    class Own:
        pass

    def f(thing: type) -> bool:
        return issubclass(thing, Base)

    assert compare(f, register_elsewhere, Own) == (0, 2)


def test_a_class_that_says_it_is_another() -> None:
    class Own:
        @property
        def __class__(self) -> Any:  # type: ignore[override]
            return said[-1]

    said: list[type] = [Plain]

    class Late:
        pass

    def change() -> None:
        said.append(Late)
        Mapping.register(Late)

    def f(thing: Any) -> bool:
        return isinstance(thing, Mapping)

    compare(f, change, Own())
    assert f(Own()) is True


def test_classes_that_differ_from_call_to_call() -> None:
    def f(cls: type) -> bool:
        return issubclass(cls, Mapping)

    fast = pijit.jit(f)
    for cls in (int, dict, str, dict, int):
        assert fast(cls) is f(cls)


def test_classes_in_a_list() -> None:
    def f(classes: list[type]) -> list[bool]:
        return [issubclass(cls, Mapping) for cls in classes]

    fast = pijit.jit(f)
    for classes in ([int, dict], [dict, int], [int, dict]):
        assert fast(list(classes)) == f(classes)
