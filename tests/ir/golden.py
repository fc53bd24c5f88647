"""Small functions whose traces are kept as text in golden/: what the recorder and the passes make of each construct.

    python tests/ir/golden.py --write    writes the texts anew; look at the difference before you commit it
    python tests/ir/golden.py            prints those of the functions that are named, or all

A case is a function that is decorated with what it is called with, four times. Its traces are those of a process of
their own: with and without torch, nothing else may have been recorded before.
"""

from __future__ import annotations

import collections
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("golden")
PLAIN: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {}
TORCH: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {}


def case(arguments: Callable[[], tuple[Any, ...]], torch: bool = False) -> Callable[[Any], Any]:
    """Adds a function to those with or without torch."""

    def add(function: Any) -> Any:
        (TORCH if torch else PLAIN)[function.__name__] = (function, arguments)
        return function

    return add


@case(lambda: (3, 0.5))
def arithmetic(n: int, scale: float) -> Any:
    return n * scale + 1, n // 2, -n, n < 2


@case(lambda: (3,))
def block(n: int) -> Any:
    import pijit

    with pijit.region(backend="native"):
        return n + 1


@case(lambda: (3, True))
def branches(n: int, on: bool) -> Any:
    if n > 2:
        return "large" if on else "off"
    return "small"


@case(lambda: ([1, 2, 3],))
def loop(numbers: list[int]) -> Any:
    total = 0
    for number in numbers:
        if number == 2:
            continue
        total += number
    return total


class Counter:
    def __init__(self, step: int) -> None:
        self.step = step
        self.count = 0


KNOWN = {"add", "sub"}
COUNTER = Counter(2)


@case(lambda: (COUNTER,))
def attribute_store(counter: Counter) -> Any:
    counter.count += counter.step
    counter.last = None
    return counter.count


@case(lambda: ({"a": 1}, [1]))
def container_store(table: dict[str, int], items: list[int]) -> Any:
    table["b"] = table["a"] + 1
    items.append(2)
    del table["a"]
    return len(items)


@case(lambda: (1, "x"))
def building(n: int, name: str) -> Any:
    made = {"name": name, "items": [n, n + 1], "pair": (n, None)}
    made["items"].insert(0, -1)
    made["set"] = {n, 2}
    return made


@case(lambda: ())
def membership() -> Any:
    return "add" in KNOWN, "mul" not in KNOWN, Counter in KNOWN


@case(lambda: (5,))
def new_object(n: int) -> Any:
    made = Counter(n)
    made.count = n + made.step
    return made


@case(lambda: ({},))
def caught(table: dict[str, int]) -> Any:
    try:
        return table["missing"]
    except KeyError as error:
        return error.args


def outer(n: int) -> Callable[[int], int]:
    def inner(k: int) -> int:
        return k + n

    return inner


ADD = outer(4)


@case(lambda: (3,))
def closure(n: int) -> Any:
    made = outer(n)
    return made(1), ADD(2), made


def helper(n: int, *rest: int, scale: int = 2, **named: int) -> int:
    return n * scale + sum(rest) + len(named)


@case(lambda: (1,))
def inlined_call(n: int) -> Any:
    return helper(n, 2, 3, scale=4, other=5)


def numbers(n: int) -> Any:
    for i in range(n):
        yield i * i


@case(lambda: (2,))
def generator(n: int) -> Any:
    running = numbers(3)
    return next(running), list(numbers(n)), running


@case(lambda: ([3, 1, 2],))
def builtin_calls(items: list[int]) -> Any:
    return sorted(items, key=lambda item: -item), max(items), list(zip(items, "abc", strict=True))


@case(lambda: (1,))
def opaque_call(n: int) -> Any:
    number = os.getpid() * n
    return number > 0, COUNTER.step


@case(lambda: ("a-b",))
def strings(text: str) -> Any:
    return f"{text.upper()}!", text.split("-"), text[0]


# Places and numbers that differ from call to call.


NEXT = itertools.count(1)


def counter_of(n: int) -> Callable[[int], int]:
    def inner(k: int) -> int:
        nonlocal n
        n += k
        return n

    return inner


COUNT = counter_of(1)


@case(lambda: (2,))
def cell_that_varies(k: int) -> Any:
    return COUNT(k)


class Slotted:
    __slots__ = ("step",)


SLOTTED = Slotted()


def stepped() -> tuple[Any, ...]:
    SLOTTED.step = COUNTER.step = next(NEXT)
    return ()


@case(stepped)
def places_that_vary() -> Any:
    return SLOTTED.step + COUNTER.step


@case(lambda: (next(NEXT), next(NEXT) / 2))
def numbers_that_decide(n: int, x: float) -> Any:
    return ("a", "b")[n * 0], {0.0: "none"}[x * 0]


@case(lambda: ([3, 1],))
def unpacked(items: list[int]) -> Any:
    first, second = items
    return first - second


# Classes and objects of classes.


class Number(int):
    pass


FIVE = Number(5)


@case(lambda: ())
def derived_number() -> Any:
    return FIVE + 1


class Stepper:
    def step(self) -> int:
        return 2


STEP = Stepper().step


@case(lambda: (1,))
def bound_method(n: int) -> Any:
    return STEP() + n


@case(lambda: (3,))
def containers(n: int) -> Any:
    made = collections.deque((1, 2))
    made.append(n)
    return made, map(str, made), id(made)


# Code of C that runs, and iterators and cells that others have.


@case(lambda: ("/nowhere/at/all",))
def raised_in_c(path: str) -> Any:
    try:
        os.stat(path)
    except OSError:
        return "none"


@case(lambda: (iter("abc"),))
def c_iterator(items: Any) -> Any:
    found = []
    for item in items:
        found.append(item)
    return found


TICKS = iter(range(1000))


@case(lambda: (TICKS,))
def range_iterator(ticks: Any) -> Any:
    for tick in ticks:
        return tick


KEPT: list[Any] = []


@case(lambda: (1,))
def escaped_cell(n: int) -> Any:
    KEPT.append(lambda: n)
    os.getpid()
    return n


# Exceptions, and frames that CPython runs.


@case(lambda: (1,))
def caught_error(n: int) -> Any:
    try:
        raise ValueError(n)
    except ValueError as error:
        return error.__traceback__, error.args


def line(n: int) -> int:
    return sys._getframe().f_lineno * 0 + n


@case(lambda: (1,))
def run_by_cpython(n: int) -> Any:
    return line(n) + 1


def failing(n: int) -> int:
    sys._getframe().f_lineno
    raise ValueError(n)


@case(lambda: (1,))
def raised_by_cpython(n: int) -> Any:
    try:
        return failing(n)
    except ValueError:
        return 5


# Those of tensors.


def tensor() -> tuple[Any, ...]:
    import torch

    return (torch.arange(6.0).reshape(2, 3),)


def module() -> tuple[Any, ...]:
    import torch

    torch.manual_seed(0)
    return MODULES.setdefault("linear", torch.nn.Linear(3, 2)), *tensor()


MODULES: dict[str, Any] = {}


@case(tensor, torch=True)
def operators(x: Any) -> Any:
    return (x + 1).relu() @ x.t(), x.sum(dim=1, keepdim=True)


@case(tensor, torch=True)
def in_place(x: Any) -> Any:
    x.mul_(2)
    x[0] = 1
    return x[:, 1:]


@case(tensor, torch=True)
def sizes(x: Any) -> Any:
    rows, columns = x.shape
    return x.view(rows * columns), rows + 1


@case(tensor, torch=True)
def decision(x: Any) -> Any:
    if x.sum() > 0:
        return x + x.mean().item()
    return x


@case(module, torch=True)
def layer(linear: Any, x: Any) -> Any:
    return linear(x)


@case(tensor, torch=True)
def tensors_in_containers(x: Any) -> Any:
    parts = list(x.unbind(0))
    parts.append(parts[0] * 2)
    return {"parts": parts, "count": len(parts)}


@case(tensor, torch=True)
def no_grad(x: Any) -> Any:
    import torch

    with torch.no_grad():
        return x * 2


def texts(cases: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]]) -> dict[str, str]:
    """The traces of each case, by its name."""
    import pijit
    from pijit import _core

    found = {}
    for name, (function, arguments) in cases.items():
        replayed = pijit.jit(function)
        for _ in range(4):
            replayed(*arguments())
        root = _core.root_of(replayed)
        report = _core.root_report(root)
        assert report["replays"] > 0, (name, report)
        found[name] = "".join(_core.trace_text(root, i) for i in range(len(_core.root_traces(root))))
    return found


def fresh_texts(torch: bool) -> dict[str, str]:
    """The same of a process of its own."""
    argument = "--torch" if torch else "--plain"
    settings = {**os.environ, "PIJIT_GIVE_UP": "0", "PIJIT_RECORD_BUDGET": "0", "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [sys.executable, __file__, argument], env=settings, check=True, capture_output=True, text=True, timeout=300
    )
    return dict(json.loads(done.stdout))


def main(arguments: list[str]) -> None:
    import golden  # classes of this file are called by its name, not __main__

    if arguments in (["--plain"], ["--torch"]):
        if arguments == ["--torch"]:
            import torch  # noqa: F401
        json.dump(golden.texts(golden.TORCH if arguments == ["--torch"] else golden.PLAIN), sys.stdout)
        return
    found = fresh_texts(False) | fresh_texts(True)
    if arguments == ["--write"]:
        FOLDER.mkdir(exist_ok=True)
        for old in FOLDER.glob("*.txt"):
            old.unlink()
        for name, text in found.items():
            (FOLDER / f"{name}.txt").write_text(text)
        return
    for name in arguments or found:
        print(f"# {name}\n{found[name]}")


if __name__ == "__main__":
    main(sys.argv[1:])
