"""What tests of traces that begin in the middle of a function share: numbers that are no constants, options, `seen`."""

from __future__ import annotations

import array
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pijit

# What foreign code gives is no constant: each turn of a loop over it has work to do.
NUMBERS = array.array("d", (0.5, 2.0, -1.0, 4.0, 0.25, -8.0, 3.0, 1.0))
NEVER = 10**6


@pytest.fixture(autouse=True, params=["auto", "body"])
def long_loops(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both ways in which loops get traces of their own; nothing is given up."""
    pijit.reset()
    before = pijit.config.update({"loops": request.param, "give_up": False, "record_budget": 0})
    yield
    pijit.config.update(before)
    pijit.reset()


def same_under(stress: str, fn: Callable[..., Any], calls: list[tuple[Any, ...]]) -> None:
    """Under a stress the calls, of at most 60 turns, are as without pijit, again and again."""
    small = [tuple(min(arg, 60) if isinstance(arg, int) and arg != NEVER else arg for arg in args) for args in calls]
    before = pijit.config.update({"stress": stress})
    try:
        for _ in range(3):
            for args in small:
                with pijit.enable():
                    got = seen(fn, *args)
                assert got == seen(fn, *args), args
    finally:
        pijit.disable()
        pijit.config.update(before)


def seen(call: Callable[..., Any], *args: Any) -> Any:
    """What it returns, or the exception with its lines, the variables there, and what it came from."""
    try:
        return call(*args)
    except Exception as error:  # noqa: BLE001
        lines, at = [], error.__traceback__
        while at is not None:
            if at.tb_frame.f_code is not seen.__code__:
                lines.append((at.tb_frame.f_code.co_name, at.tb_lineno, sorted(at.tb_frame.f_locals)))
            at = at.tb_next
        return type(error), error.args, lines, type(error.__context__), type(error.__cause__), sys.exc_info()[0]
