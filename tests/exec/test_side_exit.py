"""Continuations: how an outer frame takes what the inner one gives it."""

from __future__ import annotations

import gc
import sys
import traceback
import weakref
from types import ModuleType
from typing import Any

import pytest
from describe import const, entry, frame, leaving, reg, returning, virtual


def helper(x: Any) -> Any:
    if isinstance(x, Exception):
        raise x
    return x


class Made:
    log: list[Any] = []

    def __init__(self, value: Any) -> None:
        self.value = helper(value)

    @property
    def item(self) -> Any:
        return self.log

    @item.setter
    def item(self, value: Any) -> None:
        self.log.append(helper(value))


def make(value: Any) -> Any:
    return [Made(value)]


def store(value: Any, made: Any) -> Any:
    made.item = value
    return value, "stored"


def test_init_gives_the_instance(probe: ModuleType) -> None:
    instance = {"kind": "kInstance", "type": Made}
    outer = frame(make, "Made", [reg(0)], [], continuation="init", extra=virtual(0))
    inner = frame(Made.__init__, "helper", [virtual(0), reg(0)], [const(7)], parent=0)
    probe.arm(make.__code__, leaving(make, [outer, inner], virtuals=[instance]))
    (made,) = make(1)
    assert type(made) is Made
    assert made.__dict__ == {"value": 7}
    assert probe.disarm() == (1, 0)


def test_init_must_return_none(probe: ModuleType) -> None:
    outer = frame(make, "Made", [reg(0)], [], continuation="init", extra=const("never"))
    inner = frame(helper, "isinstance", [const(5)], [const(False)], parent=0)
    probe.arm(make.__code__, leaving(make, [outer, inner]))
    with pytest.raises(TypeError, match=r"__init__\(\) should return None, not 'int'"):
        make(1)


class Whole(int):
    pass


class Index:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __index__(self) -> Any:
        return self.value


class Sized:
    def __init__(self, length: Any) -> None:
        self.length = length

    def __len__(self) -> Any:
        return self.length


def measure(sized: Any) -> Any:
    try:
        length = len(sized)
    except Exception as error:
        return type(error), str(error)
    return type(length), length


@pytest.mark.parametrize(
    "value",
    [
        0,
        3,
        True,
        Whole(2),
        Index(4),
        -1,
        Whole(-1),
        Index(-1),
        2**70,
        Whole(2**70),
        Index(2**70),
        "none",
    ],
    ids=lambda value: type(value).__name__ + str(getattr(value, "value", value)),
)
def test_a_length_is_what_len_makes_of_it(probe: ModuleType, value: Any) -> None:
    expected = measure(Sized(value))
    outer = frame(
        measure,
        "len",
        [reg(0)] + [None] * (measure.__code__.co_nlocals - 1),
        [],
        continuation="length",
    )
    inner = frame(helper, "isinstance", [const(value)], [const(False)], parent=0)
    probe.arm(measure.__code__, leaving(measure, [outer, inner]))
    assert measure(Sized("never asked")) == expected
    assert probe.disarm() == (1, 0)


def test_setter_gives_nothing(probe: ModuleType) -> None:
    Made.log.clear()
    setter = Made.__dict__["item"].fset
    outer = frame(store, "item", [reg(0), reg(1)], [], continuation="drop")
    inner = frame(setter, "helper", [reg(1), reg(0)], [], parent=0, resume=0)
    probe.arm(store.__code__, leaving(store, [outer, inner]))
    assert store(3, Made(0)) == (3, "stored")
    assert Made.log == [3]


def lines_of(error: Exception) -> list[tuple[str, int | None]]:
    return [(line.name, line.lineno) for line in traceback.extract_tb(error.__traceback__)]


def guarded(x: Any) -> Any:
    try:
        return [helper(x)]
    except ValueError as error:
        return lines_of(error)


def test_inner_exception_is_handled_outside(probe: ModuleType) -> None:
    error = ValueError("inner")
    expected = guarded(error)
    outer = frame(guarded, "helper", [reg(0), None], [], continuation="push")
    inner = frame(helper, "isinstance", [reg(0)], [const(True)], parent=0)
    probe.arm(guarded.__code__, leaving(guarded, [outer, inner]))
    assert guarded(ValueError("other")) == expected


def test_a_call_that_raises_raises_there(probe: ModuleType) -> None:
    call, resume = frame(guarded, "helper", [], [])["call"], 0
    state = frame(guarded, "helper", [reg(0), None], [], resume=resume, call=call)
    trace = leaving(guarded, [state])
    trace["regs"] = 2
    trace["nodes"] = [
        {
            "op": "kCall",
            "a": const(int),
            "operands": [const("no number")],
            "out": 1,
            "snapshot": 0,
        },
        {"op": "kReturn", "a": reg(1)},
    ]
    probe.arm(guarded.__code__, trace)
    assert guarded(1) == [("guarded", guarded.__code__.co_firstlineno + 2)]


def test_hook_and_evaluator_state_are_given_back(probe: ModuleType) -> None:
    outer = frame(make, "Made", [reg(0)], [], continuation="init", extra=const("it"))
    inner = frame(helper, "isinstance", [const(None)], [const(False)], parent=0)
    probe.arm(make.__code__, leaving(make, [outer, inner]))
    before = sys._getframe().f_lineno
    assert make(1) == ["it"]
    assert gc.isenabled()
    assert sys._getframe().f_lineno == before + 3


def test_nothing_leaks(probe: ModuleType) -> None:
    class Token:
        pass

    token = Token()
    count = sys.getrefcount(token)
    outer = frame(make, "Made", [reg(0)], [], continuation="init", extra=virtual(0))
    inner = frame(Made.__init__, "helper", [virtual(0), reg(0)], [virtual(1)], parent=0)
    virtuals = [{"kind": "kInstance", "type": Made}, {"kind": "kList", "type": list}]
    log = [entry(1, "item", virtual(1)), entry(1, "item", reg(0))]
    probe.arm(make.__code__, leaving(make, [outer, inner], virtuals=virtuals, log=log))
    for _ in range(5):
        (made,) = make(token)
        assert made.value[0] is made.value
        assert made.value[1] is token
        alive = weakref.ref(made)
        del made
        assert alive() is None
        gc.collect()
    assert sys.getrefcount(token) == count


def deep(n: int) -> int:
    return 0 if n == 0 else deep(n - 1) + 1


def test_recursion_limit_is_as_without(probe: ModuleType) -> None:
    probe.arm(
        deep.__code__,
        returning(
            deep,
            const(5),
            guards=[{"op": "kScalar", "subject": reg(0), "expected": 40}],
        ),
    )
    assert deep(50) == 15
    with pytest.raises(RecursionError):
        deep(100_000)
