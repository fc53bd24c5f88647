"""Every code, produced by a program: what pijit says of it is in the table, and the program's answer is its own."""

from __future__ import annotations

import array
import bisect
import ctypes
import logging
import operator
import os
import sys
import types
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


TABLE = {str(n): n for n in range(100)}
MANY = 1_001  # more than the opaque calls that one trace may have


def both(a: list[int], b: list[int]) -> int:
    return len(a) + len(b)


@produces("PJ101")
def nothing_recorded():
    many = [1] * 1000
    return both, [(many, many)] * 4


@produces("PJ102")
def differs():
    return lambda key: TABLE[key], [(str(n),) for n in range(100)]


@produces("PJ103", needs="torch")
def keeps_leaving():
    import torch

    def f(x):
        os.getpid()
        return (x + 1 if x.sum() > 0 else x - 1).tolist()

    return f, [*[(torch.ones(2),)] * 2, *[(-torch.ones(2),)] * 80]


class Poked(list[tuple[Any, ...]]):
    """Calls, before the last of which a number becomes another without anybody being told."""

    def __init__(self, number: float) -> None:
        super().__init__([()] * 3)
        self.number = number

    def __iter__(self):
        place = ctypes.c_double.from_address(id(self.number) + sys.getsizeof(0.0) - ctypes.sizeof(ctypes.c_double))
        place.value = 1.5
        yield from self[:-1]
        place.value = 2.5
        yield self[-1]


@produces("PJ104")
def wrong():
    held = [float("1.5")]
    return lambda: held[0] + 1, Poked(held[0])


@produces("PJ106")
def does_not_pay():
    def f(numbers):
        kept = []
        for number in numbers:
            bisect.insort(kept, number)
        return kept

    return f, [([(7 * i) % 41 for i in range(40)],)] * 60


def add(left, *, right=1):
    return left + right


def long_loop():
    """Recording all of it takes longer than any recording may, however slow the machine or the build is."""
    total = 0
    for n in range(400_000):
        total = add(total, right=n % 7)
    return total


@produces("PJ107")
def passes_on():
    return lambda: long_loop(), [()] * 3


@produces("PJ109")
def recorded_often():
    return lambda key: TABLE[key], [(str(n),) for n in range(10)]


@produces("PJ201")
def bytecode():
    return types.FunctionType(compile("None", __file__, "single"), {}), [()] * 3


@produces("PJ108")
def larger_than_the_budget():
    return lambda: [number * 2 for number in range(MANY)], [()] * 3


@produces("PJ202")
def attribute():
    view = memoryview(b"four")

    def f():
        total = 0
        for _ in range(MANY):
            total = view.nbytes
        return total

    return f, [()] * 3


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
    class Source:
        error = KeyError("kept")

        def __getitem__(self, key):
            raise self.error

    source, first = Source(), operator.itemgetter(0)

    def f():
        try:
            return first(source)
        except KeyError as error:
            return error.args

    return f, [()] * 3


@produces("PJ206")
def escapes():
    def f(x):
        raise KeyError(x)

    return f, [("x",)] * 3


@produces("PJ208")
def too_long():
    def f():
        total = 0
        for n in range(200):
            total += n
        return total

    return f, [()] * 3


@produces("PJ209", needs="torch")
def adapter():
    import torch

    def f(x):
        y = x
        for _ in range(MANY):
            y = x.std()  # warns of its degrees of freedom each time
        return y.isnan().item()

    return f, [(torch.ones(1),)] * 3


@produces("PJ210")
def generator():
    def numbers():
        try:
            yield 1
        finally:
            len("closed")

    def f():
        made = numbers()
        number = next(made)
        made = None
        return number

    return f, [()] * 3


@produces("PJ211")
def unbuildable():
    """An iterator over a dict that has grown since: nothing makes another one like it."""

    class Held:
        def __init__(self, numbers):
            self.numbers = numbers

        def __eq__(self, other):
            return type(other) is Held

        __hash__ = None

    def f():
        found = {1: 1, 2: 2}
        numbers = iter(found)
        next(numbers)
        found[3] = 3
        return Held(numbers)

    return f, [()] * 3


@produces("PJ212")
def frames_looked_at():
    def names():
        return sorted(sys._getframe(1).f_locals)

    pijit.opaque(names)

    def f(x):
        y = x
        return names()

    return f, [(1,)] * 3


@produces("PJ213")
def argument():
    many = [1] * 1000
    return both, [(many, many)]


@produces("PJ214")
def write():
    items = array.array("q", [0])

    def f(x):
        for _ in range(MANY):
            items[0] = x
        return items[0]

    return f, [(1,)] * 3


@produces("PJ216", needs="torch")
def aside():
    import torch

    def call():
        with torch.autograd.set_detect_anomaly(True, check_nan=False):
            return f(torch.ones(2)).tolist()

    f = pijit.jit(lambda x: x + 1)
    call.root = f
    return call, [()] * 10


@produces("PJ105", needs="torch")
def another_way():
    import torch

    def f(x):
        return (x + 1 if x.sum() > 0 else x - 1).tolist()

    strict = pijit.jit(f, strict=True)

    def call(x):
        try:
            return strict(x)
        except pijit.errors.StrictError as error:
            logging.getLogger("pijit").warning("%s", error)
            return f(x)

    call.root = strict
    return call, [*[(torch.ones(2),)] * 2, (-torch.ones(2),)]


@produces("PJ217")
def traced():
    f = pijit.jit(lambda x: x + 1)

    def call():
        before = sys.gettrace()
        sys.settrace(lambda *_: None)
        try:
            return f(1)
        finally:
            sys.settrace(before)

    call.root = f
    return call, [()] * 3


def failed():
    def f(n):
        return [{"n": n, "square": n * n} for n in range(n)]

    return f, [(9,)] * 3


PROGRAMS["PJ218"] = (failed, [pytest.mark.skipif(_core.checked, reason="such a build stops the process")])


@produces("PJ219")
def over_budget():
    return lambda: long_loop(), [()]


OPTIONS = {
    "PJ103": {"loops": "unroll"},
    "PJ104": {"verify": 1},
    "PJ106": {"give_up": True},
    "PJ107": {"record_budget": 1},
    "PJ108": {"memory_limit": 1000},
    "PJ109": {"max_recordings": 2},
    "PJ202": {"loops": "unroll"},
    "PJ208": {"max_operations": 500},
    "PJ209": {"loops": "unroll"},
    "PJ214": {"loops": "unroll"},
    "PJ218": {"stress": "faults"},
    "PJ219": {"record_budget": 1},
}

# Where these were come to, an opaque call has taken the place of the stop; no program is known that comes to them now.
UNREACHED = ("PJ207", "PJ215")


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
    before = pijit.config.update(OPTIONS.get(code, {}))
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
