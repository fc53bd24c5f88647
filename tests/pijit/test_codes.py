"""Every code, produced by a program: what pijit says of it is in the table, and the program's answer is its own."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

import pytest

import pijit
from pijit import _core, _messages, api
from pijit.tools import tables

Program = Callable[[], tuple[Callable[..., Any], list[tuple[Any, ...]]]]
PROGRAMS: dict[str, tuple[Program, Any]] = {}


def produces(code: str, *, needs: str = "") -> Callable[[Program], Program]:
    """Registers a program: a function, and the arguments of each of its calls."""

    def register(program: Program) -> Program:
        PROGRAMS[code] = (program, [getattr(pytest.mark, needs)] if needs else [])
        return program

    return register


class Box:
    """Something with attributes that outlive a call."""

    kind = 1


BOX = Box()
TABLE = {str(n): n for n in range(100)}


def both(a: list[int], b: list[int]) -> int:
    return len(a) + len(b)


@produces("PJ101")
def nothing_recorded():
    one = [1]
    return both, [(one, one)] * 4


@produces("PJ102")
def differs():
    return lambda key: TABLE[key], [(str(n),) for n in range(100)]


@produces("PJ103", needs="torch")
def keeps_leaving():
    import torch

    return lambda x: (x + 1 if x.sum() > 0 else x - 1).tolist(), [(torch.ones(2),), *[(-torch.ones(2),)] * 80]


@produces("PJ201")
def bytecode():
    def f(x):
        class Made:
            value = x

        return Made.value

    return f, [(1,)] * 3


@produces("PJ202")
def attribute():
    view = memoryview(b"four")
    return lambda: view.nbytes, [()] * 3


@produces("PJ203")
def callable_():
    return lambda: sys._getframe().f_code.co_name, [()] * 3


class Odd:
    """Compares and hashes in Python."""

    def __hash__(self):
        return 1

    def __eq__(self, other):
        return self is other


@produces("PJ204")
def operand():
    odd = Odd()
    return lambda key: {key: 1}[key], [(odd,)] * 3


@produces("PJ205")
def raised():
    def f(text):
        try:
            return int(text)
        except ValueError:
            return -1

    return f, [("none",)] * 3


@produces("PJ206")
def escapes():
    def f(x):
        raise KeyError(x)

    return f, [("x",)] * 3


class ChangesTheClass:
    def __del__(self):
        Box.kind = 3


@produces("PJ207")
def changed():
    @pijit.jit
    def f():
        before = BOX.kind
        BOX.dies = None
        return before, BOX.kind

    def call():
        Box.kind = 1
        BOX.dies = ChangesTheClass()
        return f()

    call.root = f
    return call, [()] * 3


@produces("PJ208")
def too_long():
    def f():
        total = 0
        for n in range(1000):
            total += n
        return total

    return f, [()] * 3


@produces("PJ209", needs="torch")
def adapter():
    import torch

    return lambda x: x.std().isnan().item(), [(torch.ones(1),)] * 3  # warns of its degrees of freedom each time


@produces("PJ211")
def unbuildable():
    return lambda x: (n for n in [x]), [(1,)] * 3


@produces("PJ213")
def argument():
    one = [1]
    return both, [(one, one)]


class Slotted:
    __slots__ = ("value",)


@produces("PJ214")
def write():
    slotted = Slotted()

    def f(x):
        slotted.value = x
        return slotted.value

    return f, [(1,)] * 3


class LooksAtItself:
    def __del__(self):
        len([self])


@produces("PJ215")
def foreign_code():
    @pijit.jit
    def f():
        BOX.dies = None
        return 1

    def call():
        BOX.dies = LooksAtItself()
        return f()

    call.root = f
    return call, [()] * 2


@produces("PJ216", needs="torch")
def aside():
    import torch

    def call():
        with torch.autograd.set_detect_anomaly(True, check_nan=False):
            return f(torch.ones(2)).tolist()

    f = pijit.jit(lambda x: x + 1)
    call.root = f
    return call, [()] * 10


# No program is known that comes to these.
UNREACHED = {"PJ210": "a generator of the recording would have to end under a driver that is followed and is no loop"}


def outcome(function, arguments):
    """What a call gives, in a form that can be compared."""
    try:
        result = function(*arguments)
    except Exception as error:
        return type(error), error.args
    return list(result) if hasattr(result, "gi_frame") else result


@pytest.mark.filterwarnings("ignore:Anomaly Detection", "ignore:std")
@pytest.mark.parametrize("code", [pytest.param(code, marks=marks) for code, (_, marks) in PROGRAMS.items()])
def test_produced_by_a_program(code, caplog):
    _messages.forget()
    caplog.set_level(logging.WARNING, "pijit")
    function, calls = PROGRAMS[code][0]()
    fast = function if hasattr(function, "root") else pijit.jit(function)
    before = pijit.config.update({"max_operations": 3000})
    results = [outcome(fast, arguments) for arguments in calls]
    pijit.config.update(before)
    with pijit.stance("off"):
        assert results == [outcome(function, arguments) for arguments in calls]
    stop = _core.root_report(api.root_of(getattr(function, "root", fast)))["last_stop"]
    codes = {stop["code"]} if stop else set()
    codes |= {row[0] for row in rows() if any(f"[{row[0]}" in record.getMessage() for record in caplog.records)}
    assert code in codes
    if stop:
        text = next(row[2] for row in rows() if row[0] == stop["code"])
        assert stop["reason"].startswith(text)
        assert stop["file"]
        assert stop["line"] > 0
        assert stop["function"]


def rows():
    core = _core.tables()
    return [*core["left"], *core["aborts"]]


def test_every_code_has_a_program_and_a_page():
    codes = [row[0] for row in rows()]
    assert sorted(codes) == sorted([*PROGRAMS, *UNREACHED])
    assert all(tables.page(code) for code in codes)
