"""Loops over generators that are followed: a turn has a trace of its own, which begins with the generator suspended.

Each test runs a function plainly and jitted, again and again with other arguments, and compares everything: results,
exceptions with their lines, what generators were told and how they stand afterwards.
"""

from __future__ import annotations

import array
import gc
import inspect
import sys
import threading
import weakref
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
from in_the_middle import NEVER, NUMBERS, long_loops, same_under, seen  # noqa: F401

import pijit


def same(fn: Callable[..., Any], calls: list[tuple[Any, ...]], times: int = 4) -> None:
    fast = pijit.jit(fn)
    for _ in range(times):
        for args in calls:
            assert seen(fast, *args) == seen(fn, *args), args


def stands(made: Any) -> tuple[Any, ...]:
    """What can be asked of a generator."""
    if made.gi_frame is None:
        return inspect.getgeneratorstate(made), made.__name__, made.gi_yieldfrom
    variables = {name: value for name, value in made.gi_frame.f_locals.items() if not inspect.isgenerator(value)}
    within = stands(made.gi_yieldfrom) if inspect.isgenerator(made.gi_yieldfrom) else None
    return inspect.getgeneratorstate(made), made.gi_frame.f_lineno, repr(variables), made.gi_running, within


def steps(numbers: Any, n: int, scale: float) -> Iterator[float]:
    value = 0.0
    for number in range(n):
        value = value * 0.5 + numbers[number % 8] * scale
        yield value


def consumes(numbers: Any, n: int, scale: float, at: int) -> list[Any]:
    result, turns = 0.0, 0
    for item in steps(numbers, n, scale):
        result += item
        if turns == at:
            break
        turns += 1
    else:
        turns = -turns
    return [result, turns]


def while_loop(numbers: Any, n: int) -> Iterator[float]:
    number, value = 0, 1.0
    while number < n:
        if number % 5 == 3:
            number += 1
            continue
        value += numbers[number % 8]
        number += 1
        yield value
    yield -value


def over_while(numbers: Any, n: int, at: int) -> list[Any]:
    result, turns = 0.0, 0
    for item in while_loop(numbers, n):
        turns += 1
        if turns % 3 == 1:
            continue
        if turns > at:
            return ["early", result]
        result += item * numbers[turns % 8]
    return [turns, result]


def two_places(numbers: Any, n: int, said: list[Any]) -> Iterator[float]:
    for number in range(n):
        yield numbers[number % 8]
        if number % 4 == 2:
            yield -1.0
    said.append("end")


def over_two_places(numbers: Any, n: int) -> list[Any]:
    said: list[Any] = []
    result = 0.0
    for item in two_places(numbers, n, said):
        result = result * 0.5 + item
    return [result, said]


def inner(numbers: Any, n: int) -> Generator[float, None, str]:
    for number in range(n):
        yield numbers[number % 8]
    return "ended"


def doubled(numbers: Any, n: int) -> Iterator[float]:
    for item in inner(numbers, n):
        yield item * 2


def delegates(numbers: Any, n: int, said: list[Any]) -> Iterator[float]:
    yield 0.0
    said.append((yield from inner(numbers, n)))
    yield from doubled(numbers, n // 2)


def over_nested(numbers: Any, n: int) -> float:
    result = 0.0
    for item in doubled(numbers, n):
        result = result * 0.25 + item
    return result


def over_delegates(numbers: Any, n: int) -> list[Any]:
    said: list[Any] = []
    result = 0.0
    for item in delegates(numbers, n, said):
        result = result * 0.25 + item
    return [result, said]


def over_an_expression(numbers: Any, n: int) -> float:
    result, scale = 0.0, numbers[1]
    for item in (numbers[number % 8] * scale for number in range(n) if number % 3 != 1):
        result = result * 0.5 + item
    return result


def cleans_up(numbers: Any, n: int, said: list[Any]) -> Iterator[float]:
    number = -1
    try:
        for number in range(n):
            yield numbers[number % 8]
        said.append("end")
    except KeyError as error:
        said.append(("caught", str(error)))
        yield 100.0
    finally:
        said.append(("closed", number))


def left(numbers: Any, n: int, at: int, error: type[Exception]) -> list[Any]:
    """The consumer fails, or leaves the loop, and the generator dies."""
    said: list[Any] = []
    result = 0.0
    try:
        for turn, item in zip(range(n), cleans_up(numbers, n, said), strict=False):
            result += item
            if turn == at:
                raise error(turn)
    except KeyError:
        said.append("in the handler")
    return [result, said]


def left_in_a_loop(numbers: Any, n: int, at: int) -> list[Any]:
    said: list[Any] = []
    result = turn = 0
    for item in cleans_up(numbers, n, said):
        result += item
        turn += 1
        if turn == at:
            said.append("break")
            break
    said.append("after")
    return [result, said]


def thrown_into(numbers: Any, n: int, at: int, error: type[Exception]) -> list[Any]:
    said: list[Any] = []
    result, turn = 0.0, 0
    made = cleans_up(numbers, n, said)
    for item in made:
        result += item
        turn += 1
        if turn == at:
            result += made.throw(error("thrown"))
            said.append(stands(made))
    said.append(stands(made))
    return [result, turn, said]


def closed(numbers: Any, n: int, at: int) -> list[Any]:
    said: list[Any] = []
    result, turn = 0.0, 0
    made = cleans_up(numbers, n, said)
    for item in made:
        result += item
        turn += 1
        if turn == at:
            said.append(stands(made))
            made.close()
            said.append(stands(made))
    said.append(stands(made))
    return [result, turn, said]


def failing(numbers: Any, n: int, at: int, error: type[Exception]) -> Iterator[float]:
    for number in range(n):
        if number == at:
            raise error(number)
        yield numbers[number % 8]


def over_one_that_fails(numbers: Any, n: int, at: int, error: type[Exception]) -> list[Any]:
    result = 0.0
    try:
        for item in failing(numbers, n, at, error):
            result += item * 0.5
    except KeyError as found:
        return [result, str(found)]
    return [result]


def handles(numbers: Any, n: int, at: int) -> Iterator[float]:
    """Exceptions come and go within it, between the items."""
    for number in range(n):
        try:
            value = 10 // (number % 7 - at)
        except ZeroDivisionError as error:
            value = len(str(error))
        yield value * numbers[number % 8]


def yields_in_a_handler(numbers: Any, n: int, at: int) -> Iterator[Any]:
    for number in range(n):
        try:
            value = 10 // (number % 7 - at)
        except ZeroDivisionError:
            yield sys.exc_info()[0] is ZeroDivisionError
            value = 0
        yield value * numbers[number % 8]


def over_handlers(numbers: Any, n: int, at: int, make: Any) -> list[Any]:
    result = 0.0
    for item in make(numbers, n, at):
        result = result * 0.5 + item
    return [result, sys.exc_info()[0]]


def averages() -> Generator[float, float, str]:
    total, count, mean = 0.0, 0, 0.0
    while True:
        item = yield mean
        if item is None:
            return f"{count} items"
        total += item
        count += 1
        mean = total / count


def sends(numbers: Any, n: int) -> list[Any]:
    made = averages()
    next(made)
    result = 0.0
    for number in range(n):
        result += made.send(numbers[number % 8] * number)
    before = stands(made)
    try:
        made.send(None)
    except StopIteration as stop:
        return [result, before, stop.value]
    return [result]


def in_turns(numbers: Any, n: int, m: int) -> list[Any]:
    """One is asked in a loop over the other, and ends first or not."""
    other = steps(numbers, m, 0.5)
    result = 0.0
    for item in steps(numbers, n, 2.0):
        result += item * next(other, 0.25)
    return [result, stands(other), list(other)[-3:]]


def stops_and_goes_on(numbers: Any, n: int, at: int) -> list[Any]:
    """The rest is for whoever comes later."""
    made = steps(numbers, n, 1.0)
    result, turns = 0.0, 0
    for item in made:
        result += item
        turns += 1
        if turns == at:
            break
    before = stands(made)
    rest = list(made)
    return [result, before, len(rest), sum(rest), stands(made)]


def has_variables(numbers: Any, n: int) -> Iterator[tuple[int, float]]:
    """A list that grows, a dict, a variable of a closure, one that is deleted."""
    items: list[float] = []
    table: dict[int, float] = {}
    total = 0.0

    def add(value: float) -> float:
        nonlocal total
        total += value
        return total

    for number in range(n):
        items.append(numbers[number % 8])
        table[number % 3] = add(items[-1])
        last = number
        yield len(items), table[number % 3]
        del last
    yield len(table), sum(items)


def over_variables(numbers: Any, n: int) -> list[Any]:
    count, result = 0, 0.0
    for length, value in has_variables(numbers, n):
        count += length
        result = result * 0.5 + value
    return [count, result]


def made_by_a_closure(numbers: Any, n: int, scale: float) -> float:
    def make(m: int) -> Iterator[float]:
        for number in range(m):
            yield numbers[number % 8] * scale

    result = 0.0
    for item in make(n):
        result = result * 0.5 + item
    return result


class Stream:
    """Its iterator is a generator, which writes to it."""

    def __init__(self, numbers: Any, n: int) -> None:
        self.numbers, self.n, self.given = numbers, n, 0

    def __iter__(self) -> Iterator[float]:
        for number in range(self.n):
            self.given += 1
            yield self.numbers[number % 8]


def over_a_stream(numbers: Any, n: int, at: int) -> list[Any]:
    stream = Stream(numbers, n)
    result = 0.0
    for item in stream:
        result = result * 0.5 + item
        if stream.given == at:
            break
    return [result, stream.given]


def numbered(numbers: Any, n: int, first: int, at: int) -> list[Any]:
    result, number = 0.0, -1
    for number, item in enumerate(while_loop(numbers, n), first):
        result = result * 0.5 + item * (number % 3)
        if number == at:
            break
    return [result, number]


def numbered_within(numbers: Any, n: int) -> Iterator[float]:
    for number, item in enumerate(doubled(numbers, n)):
        if number % 7 == 5:
            yield item
        elif item < 0:
            yield -item * number


def over_numbered(numbers: Any, n: int) -> list[float]:
    return [number * item for number, item in enumerate(numbered_within(numbers, n))]


def two_ways(numbers: Any, n: int) -> Iterator[float]:
    """What it does with a number is decided by what foreign code gives."""
    value = 1.0
    for number in range(n):
        if numbers[number % 8] > 1.0:
            value = value * 0.5 + number
            yield value
        else:
            value -= numbers[number % 8]


def over_two_ways(numbers: Any, n: int) -> float:
    result = 0.0
    for item in two_ways(numbers, n):
        result = result * 0.5 + (item if item > numbers[2] else 1.0)
    return result


def part(numbers: Any, start: int, n: int) -> float:
    total = 0.0
    for number in range(n):
        total = total * 0.5 + numbers[(start + number) % 8]
    return total


def batches(numbers: Any, n: int, said: list[Any]) -> Iterator[float]:
    """Long loops between one item and the next, its own and one of a function that it calls."""
    try:
        for start in range(3):
            total = 0.0
            for number in range(n):
                total = total * 0.5 + numbers[(start + number) % 8]
            yield total
            yield part(numbers, start, n)
    finally:
        said.append("closed")


def over_batches(numbers: Any, n: int, at: int) -> list[Any]:
    said: list[Any] = []
    found = []
    for total in batches(numbers, n, said):
        found.append(total)
        if len(found) == at:
            break
    return [found, said]


def fails_late(numbers: Any, n: int, at: int, error: type[Exception]) -> Iterator[float]:
    for start in range(3):
        total = 0.0
        for number in range(n):
            total = total * 0.5 + numbers[number % 8]
            if number == at:
                raise error(number)
        yield total + start


def over_late_failures(numbers: Any, n: int, at: int, error: type[Exception]) -> list[Any]:
    found = []
    try:
        for total in fails_late(numbers, n, at, error):
            found.append(total)
    except KeyError as caught:
        found.append(str(caught))
    return found


def notes_contexts(numbers: Any, n: int, said: list[Any]) -> Iterator[float]:
    for start in range(3):
        total = 0.0
        for number in range(n):
            try:
                total = total * 0.5 + numbers[number % 8] / (number % 90)
            except ZeroDivisionError as error:
                said.append((type(error.__context__), sys.exc_info()[0]))
            total += numbers[0]
        said.append(sys.exc_info()[0])
        yield total + start


def in_a_handler(numbers: Any, n: int, at: int) -> list[Any]:
    said: list[Any] = []
    found = []
    try:
        if at == 0:
            raise LookupError("first")
        found += list(notes_contexts(numbers, n, said))
        for total in notes_contexts(numbers, n, said):
            found.append(total)
    except LookupError:
        for total in notes_contexts(numbers, n, said):
            found.append(total)
            said.append(sys.exc_info()[0])
    return [found, said, sys.exc_info()[0]]


def called_in_a_handler(numbers: Any, n: int, at: int) -> list[Any]:
    try:
        if at == 0:
            raise LookupError("first")
        return over_contexts(numbers, n)
    except LookupError:
        return over_contexts(numbers, n)


def over_contexts(numbers: Any, n: int) -> list[Any]:
    said: list[Any] = []
    found = []
    for total in notes_contexts(numbers, n, said):
        found.append(total)
        said.append(sys.exc_info()[0])
    return [found, said]


def knows_itself(numbers: Any, n: int, held: list[Any], said: list[Any]) -> Iterator[float]:
    """It looks at its own frame, by way of the generator."""
    for start in range(3):
        total = 0.0
        for number in range(n):
            total = total * 0.5 + numbers[number % 8]
            if number % 50 == 7:
                said.append((held[0].gi_running, held[0].gi_frame.f_locals["number"]))
        yield total + start


def over_one_that_knows_itself(numbers: Any, n: int) -> list[Any]:
    held: list[Any] = []
    said: list[Any] = []
    found = []
    held.append(knows_itself(numbers, n, held, said))
    for total in held[0]:
        found.append(total)
    return [found, said]


def inlined(numbers: Any, n: int) -> list[Any]:
    return [consumes(numbers, n, 0.5, NEVER), over_nested(numbers, n), consumes(numbers, n, 2.0, 350)]


CASES: dict[str, tuple[Callable[..., Any], list[tuple[Any, ...]]]] = {
    "consumes": (consumes, [(NUMBERS, n, scale, at) for n, scale, at in
                            ((900, 0.5, NEVER), (800, 0.5, NEVER), (900, 2.0, 500), (0, 1.0, 1), (1, 1.0, 0))]),
    "over_while": (over_while, [(NUMBERS, 900, NEVER), (NUMBERS, 800, 500), (NUMBERS, 900, NEVER), (NUMBERS, 0, 1)]),
    "over_two_places": (over_two_places, [(NUMBERS, 900), (NUMBERS, 700), (NUMBERS, 1)]),
    "over_nested": (over_nested, [(NUMBERS, 900), (NUMBERS, 700), (NUMBERS, 1)]),
    "over_delegates": (over_delegates, [(NUMBERS, 900), (NUMBERS, 700), (NUMBERS, 1)]),
    "over_an_expression": (over_an_expression, [(NUMBERS, 1200), (NUMBERS, 900)]),
    "left": (left, [(NUMBERS, n, at, error) for n, at in ((900, 500), (900, NEVER), (800, 799))
                    for error in (KeyError, ValueError)]),
    "left_in_a_loop": (left_in_a_loop, [(NUMBERS, n, at) for n, at in ((900, NEVER), (900, 600), (900, 899), (5, 5))]),
    "thrown_into": (thrown_into, [(NUMBERS, n, at, error) for n, at in ((900, 500), (900, NEVER), (800, 799))
                                  for error in (KeyError, ValueError)]),
    "closed": (closed, [(NUMBERS, 900, 500), (NUMBERS, 900, NEVER), (NUMBERS, 800, 800), (NUMBERS, 3, 1)]),
    "over_one_that_fails": (over_one_that_fails, [(NUMBERS, n, at, error) for n, at in ((900, NEVER), (900, 600))
                                                  for error in (KeyError, ValueError)]),
    "over_handlers": (over_handlers, [(NUMBERS, 900, at, make) for at in (50, 3)
                                      for make in (handles, yields_in_a_handler)]),
    "sends": (sends, [(NUMBERS, 900), (NUMBERS, 800), (NUMBERS, 1)]),
    "in_turns": (in_turns, [(NUMBERS, 900, 2000), (NUMBERS, 900, 600), (NUMBERS, 900, 900)]),
    "stops_and_goes_on": (stops_and_goes_on, [(NUMBERS, 900, 600), (NUMBERS, 900, 700), (NUMBERS, 900, NEVER)]),
    "over_variables": (over_variables, [(NUMBERS, 500), (NUMBERS, 400), (NUMBERS, 0)]),
    "made_by_a_closure": (made_by_a_closure, [(NUMBERS, 900, 0.5), (NUMBERS, 800, 1.5)]),
    "over_a_stream": (over_a_stream, [(NUMBERS, 900, NEVER), (NUMBERS, 900, 700), (NUMBERS, 800, NEVER)]),
    "numbered": (numbered, [(NUMBERS, n, first, at) for n, first, at in
                            ((900, 0, NEVER), (800, 5, NEVER), (900, 0, 500), (900, 2**63 - 300, NEVER), (0, 3, 1))]),
    "over_numbered": (over_numbered, [(NUMBERS, 900), (NUMBERS, 700), (NUMBERS, 1)]),
    "over_two_ways": (over_two_ways, [(NUMBERS, 900), (NUMBERS, 700), (array.array("d", [4.0, -1.0] * 4), 900)]),
    "over_batches": (over_batches, [(NUMBERS, 700, NEVER), (NUMBERS, 600, NEVER), (NUMBERS, 700, 3), (NUMBERS, 0, 1)]),
    "over_late_failures": (over_late_failures, [(NUMBERS, 700, at, error) for at in (NEVER, 600, 0)
                                                for error in (KeyError, ValueError)]),
    "in_a_handler": (in_a_handler, [(NUMBERS, 500, 1), (NUMBERS, 500, 0), (NUMBERS, 400, 1), (NUMBERS, 400, 0)]),
    "called_in_a_handler": (called_in_a_handler, [(NUMBERS, 500, 1), (NUMBERS, 500, 0), (NUMBERS, 400, 0)]),
    "over_one_that_knows_itself": (over_one_that_knows_itself, [(NUMBERS, 700), (NUMBERS, 600)]),
    "inlined": (inlined, [(NUMBERS, 900), (NUMBERS, 800)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_loops(name: str) -> None:
    same(*CASES[name])


@pytest.mark.parametrize("stress", ["record-all", "exits"])
@pytest.mark.parametrize("name", CASES)
def test_under_stress(name: str, stress: str) -> None:
    same_under(stress, *CASES[name])


def test_it_is_handed_to_others_half_way() -> None:
    """Who is given the generator finds it as it stands, and may run it."""

    def gives_away(numbers: Any, n: int, at: int, take: Callable[[Any], Any]) -> list[Any]:
        made = steps(numbers, n, 1.0)
        result, turn = 0.0, 0
        found = None
        while True:
            item = next(made, None)
            if item is None:
                break
            result += item
            turn += 1
            if turn == at:
                found = take(made)
        return [result, turn, found]

    def run(made: Any) -> Any:
        return [stands(made), next(made), next(made), stands(made)]

    fast = pijit.jit(gives_away)
    kept: list[Any] = []
    takes: list[Callable[[Any], Any]] = [run, stands, lambda made: kept.append(weakref.ref(made)) or len(kept)]
    for n, at in ((900, 400), (900, 400), (900, 700), (800, NEVER), (900, 400)):
        for take in takes:
            got = fast(NUMBERS, n, at, take)
            kept.clear()
            assert got == gives_away(NUMBERS, n, at, take)
            kept.clear()


def test_collections_and_threads() -> None:
    fast = pijit.jit(over_nested)
    results: dict[int, list[float]] = {}

    def work(number: int) -> None:
        results[number] = [fast(NUMBERS, 1500 + number) for _ in range(6)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    before = gc.get_threshold()
    gc.set_threshold(50, 2, 2)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        gc.set_threshold(*before)
    assert results == {number: [over_nested(NUMBERS, 1500 + number)] * 6 for number in range(4)}


def test_a_function_whose_code_is_replaced() -> None:
    def make(numbers: Any, n: int) -> Iterator[float]:
        for number in range(n):
            yield numbers[number % 8]

    def other(numbers: Any, n: int) -> Iterator[float]:
        for number in range(n):
            yield numbers[number % 8] * 3

    def use(numbers: Any, n: int) -> float:
        result = 0.0
        for item in make(numbers, n):
            result = result * 0.5 + item
        return result

    fast = pijit.jit(use)
    for _ in range(3):
        for n in (900, 800):
            assert fast(NUMBERS, n) == use(NUMBERS, n)
        make.__code__, other.__code__ = other.__code__, make.__code__
