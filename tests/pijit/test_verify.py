"""Replays that are compared with CPython: what is compared, how often, and what becomes of one that differs."""

from __future__ import annotations

import collections
import ctypes
import dataclasses
import logging
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pijit
from pijit import _core, _messages
from pijit._verify import difference
from pijit.api import root_of
from pijit.errors import ConfigError, UsageError


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = pijit.config.verify
    _messages.forget()
    yield
    pijit.config.verify = before
    pijit.stance("on")


def poke(number: float, value: float) -> None:
    """The number becomes another without anybody being told."""
    size = ctypes.sizeof(ctypes.c_double)
    ctypes.c_double.from_address(id(number) + sys.getsizeof(number) - size).value = value


def poked(**options: Any) -> tuple[Callable[[], float], list[float]]:
    """A function that was recorded, and the number that it reads."""
    held = [float("1.5")]
    fast = pijit.jit(lambda: held[0] + 1, **options)
    assert [fast() for _ in range(3)] == [2.5] * 3
    return fast, held


def test_a_wrong_replay_is_seen_and_the_function_is_left_to_cpython(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "pijit")
    fast, held = poked()
    with pijit.stance("verify"):
        assert fast() == 2.5
        assert pijit.status(fast).state == "replaying"
        poke(held[0], 2.5)
        assert fast() == 3.5  # what CPython gives
    assert pijit.status(fast).state == "disabled"
    assert pijit.status(fast).reason.endswith("the result is 2.5 in a replay, and 3.5 in CPython")
    assert [record.getMessage() for record in caplog.records if "[PJ104]" in record.getMessage()]
    assert fast() == 3.5


def test_nothing_is_compared_without_being_asked_for() -> None:
    fast, held = poked()
    poke(held[0], 2.5)
    assert fast() == 2.5
    assert pijit.status(fast).state == "replaying"


@pytest.mark.parametrize("how", ["option", "config"])
def test_every_third_call(how: str) -> None:
    if how == "config":
        pijit.config.verify = 3
    fast, held = poked(**({"verify": 3} if how == "option" else {}))
    assert fast() == 2.5  # the third one since it was recorded
    poke(held[0], 2.5)
    assert [fast() for _ in range(3)] == [2.5, 2.5, 3.5]
    assert pijit.status(fast).state == "disabled"


def test_an_exception_instead_of_a_result() -> None:
    held = [float("2.0")]
    fast = pijit.jit(lambda: 1 / held[0])
    assert [fast() for _ in range(3)] == [0.5] * 3
    poke(held[0], 0.0)
    with pijit.stance("verify"), pytest.raises(ZeroDivisionError):
        fast()
    assert "CPython raises ZeroDivisionError" in pijit.status(fast).reason


def test_what_changes_something_is_replayed_as_ever() -> None:
    seen: list[int] = []

    def append(x: int) -> int:
        seen.append(x)
        return len(seen)

    fast = pijit.jit(append)
    with pijit.stance("verify"):
        assert [fast(7) for _ in range(4)] == [1, 2, 3, 4]
    assert seen == [7] * 4


def test_a_function_that_is_right_stays() -> None:
    def f(x: int) -> dict[str, Any]:
        return {"a": [x, x + 1], "b": (str(x), {x}, Point(x)), "c": lambda: x, "d": iter([x]), "e": (i for i in [x])}

    fast = pijit.jit(f)
    with pijit.stance("verify"):
        for x in (1, 1, 1, 2, 2, 1):
            answer = fast(x)
            assert (answer["a"], answer["b"], answer["c"]()) == ([x, x + 1], (str(x), {x}, Point(x)), x)
            assert (list(answer["d"]), list(answer["e"])) == ([x], [x])
    assert pijit.status(fast).state in {"recorded", "replaying"}
    assert _core.root_report(root_of(fast))["disabled"] == ""


def test_a_call_that_fits_no_trace_is_recorded() -> None:
    fast = pijit.jit(lambda x: x * 2)
    with pijit.stance("verify"):
        assert [fast(x) for x in (1, 1, "a", "a", 1)] == [2, 2, "aa", "aa", 2]
    assert _core.root_report(root_of(fast))["records"] >= 2


@dataclasses.dataclass
class Point:
    x: object
    y: object = 0


class Slotted:
    __slots__ = ("__hidden", "x")

    def __init__(self, x: object, hidden: object) -> None:
        self.x, self.__hidden = x, hidden


class Words(list[str]):
    def __eq__(self, other: object) -> bool:
        raise AssertionError("code of the program runs")

    __hash__ = None  # type: ignore[assignment]


def adder(n: object) -> Callable[[int], int]:
    return lambda x: x + n  # type: ignore[operator]


DIFFERENT: list[tuple[Any, Any, str]] = [
    (1, 2, "the result is 2 in a replay, and 1 in CPython"),
    (1, True, "the result is of type bool in a replay, and int in CPython"),
    (0.0, -0.0, "is -0.0"),
    (complex(0, 0.0), complex(0, -0.0), "is -0j"),
    ("a", "b", "is 'b'"),
    (b"a", b"b", "is b'b'"),
    ([1, [2]], [1, [3]], "the result[1][0] is 3"),
    ([1], [1, 2], "has 2 items"),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "a key of the result"),
    ({"a": {"b": 1}}, {"a": {"b": 2}}, "the result['a']['b']"),
    ({1, 2}, {1, 3}, "the result holds other items"),
    (collections.deque([1]), collections.deque([2]), "the result[0]"),
    (Point(1), Point(2), "vars(the result)['x']"),
    (Slotted(1, 2), Slotted(1, 3), "the result._Slotted__hidden"),
    (Words(["a"]), Words(["b"]), "the result[0]"),
    (adder(1), adder(2), "__closure__[0].cell_contents"),
    (ValueError("a"), ValueError("b"), "the result.args[0]"),
    (slice(1), slice(2), "the result.stop"),
    (None, 0, "of type int"),
]


@pytest.mark.parametrize(("plain", "replayed", "says"), DIFFERENT)
def test_differences(plain: Any, replayed: Any, says: str) -> None:
    assert says in difference(plain, replayed)
    assert says in difference([plain], [replayed]).replace("the result[0]", "the result", 1)


def test_no_differences() -> None:
    def make() -> list[Any]:
        held: list[Any] = [
            math.nan,
            -0.0,
            2**70,
            {"a": (1,)},
            {Point},
            Point([1]),
            Slotted(1, 2),
            Words("ab"),
            adder(1),
        ]
        held += [ValueError("a"), range(3), bytearray(b"a"), object(), frozenset({1, "a"}), {object()}, slice(1, 2)]
        held.append(held)
        return held

    assert difference(make(), make()) == ""


@pytest.mark.torch
def test_tensors() -> None:
    import torch

    x = torch.arange(6.0).reshape(2, 3)
    for a, b, says in (
        (x, x + torch.tensor([0, 0, 1]), "differs in 2 of 6 numbers, the first at 2"),
        (x, x.double(), ".dtype is torch.float64 in a replay, and torch.float32 in CPython"),
        (x, x.t().contiguous().t(), ".stride()"),
        (x, x[:1], ".shape"),
        (x, x.clone().requires_grad_(), ".requires_grad is True"),
        (x.clone().requires_grad_() * 2, x.clone().requires_grad_() + 2, ".grad_fn"),
        (torch.zeros(2), -torch.zeros(2), "differs in 2 of 2 numbers"),
        (x.to_sparse(), (x * 2).to_sparse(), "differs in 5 of 6"),
    ):
        assert says in difference([a], [b])
        assert difference({"a": (a,)}, {"a": (a.clone() if a.is_leaf else a,)}) == ""
    for same in (
        torch.tensor(math.nan),
        torch.zeros(0, 3),
        torch.zeros(2, device="meta"),
        torch.ones(2, dtype=torch.bool),
    ):
        assert difference([same], [same.clone()]) == ""


@pytest.mark.torch
def test_a_model_is_compared() -> None:
    import torch

    torch.manual_seed(0)
    model = pijit.jit(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU(), torch.nn.Linear(4, 2)))
    with pijit.stance("verify"):
        for rows in (1, 2, 2, 3):
            x = torch.randn(rows, 4)
            fast = model(x)
            with pijit.stance("off"):
                assert torch.equal(fast, model(x))
    assert pijit.status(model).state in {"recorded", "replaying"}


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "3"])
def test_refusals(wrong: Any) -> None:
    with pytest.raises(UsageError, match="verify is a whole number from 1 on, or None"):
        pijit.jit(verify=wrong)
    if wrong in (-1, 1.5) or wrong is True:
        with pytest.raises(ConfigError):
            pijit.config.verify = wrong
