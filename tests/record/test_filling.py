"""Every built-in that draws from an iterator and writes: what runs between two items sees what was written before.

A table: the statement, where its target is, and what gives the items. Each is a program as those of programs/.
"""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from observe import run
from small_programs import Program

import pijit
from pijit import api

SHELF = """
from collections import Counter, OrderedDict, defaultdict, deque
from array import array

xs = [3, 1, 2]
shelf = []
late = []


class Reader:
    def __init__(self, r):
        self.r, self.left = r, list(xs)

    def __iter__(self):
        return self

    def __next__(self):
        if not self.left:
            raise StopIteration
        return ITEM(self.left.pop(), len(self.r))


def reading(r):
    for y in xs:
        seen = 0
        for q in r:
            seen += 1
        yield ITEM(y, seen)


def raising(r):
    for y in xs:
        yield ITEM(6 // (2 - y), len(r))


def empty(r, first):
    # Makes it what it is at first.
    if hasattr(r, "clear"):
        r.clear()
        (r.update if hasattr(r, "update") else r.extend)(first)
    else:
        r[:] = first


def change():
    xs.append(0)


def undo():
    xs.pop()
"""

# How an item is made of a number and of what was seen of the target; how the target is written; what it is at first.
LISTS = ("def ITEM(y, seen): return y * 100 + seen", "r.append(-y)", "r.pop() if len(r) > 3 else None")
SETS = ("def ITEM(y, seen): return y if seen % 2 else seen", "r.add(50 + y)", "r.discard(0)")
DICTS = ("def ITEM(y, seen): return y, seen", "r[50 + y] = y", "r.pop(50 + y, None)")

TARGETS = {
    "local": "r = MAKE",
    "global": "r = kept",
    "grown": "r = grown",
    "argument": "r = given",
    "escaped": "r = MAKE; shelf.append(r)",
    "escapes": "r = MAKE; box = [r]",
}

SOURCES = {
    "length": "(ITEM(y, len(r)) for y in xs)",
    "sum": "(ITEM(y, sum(1 for q in r)) for y in xs)",
    "any": "(ITEM(y, 1 if any(y is q for q in r) else 2) for y in xs)",
    "loop": "reading(r)",
    "map": "map(lambda y: ITEM(y, len(r)), xs)",
    "two": "map(ITEM, xs, map(len, [r, r, r, r]))",
    "filter": "filter(lambda y: y not in r and len(r) < 9, [ITEM(y, y) for y in xs + xs])",
    "class": "Reader(r)",
    "writes": "writing(r)",
    "takes": "taking(r)",
    "raises": "raising(r)",
    "raises at first": "(ITEM(1 // y, len(r)) for y in [0, 1])",
    "plain": "[ITEM(y, y) for y in xs]",
    "iterator": "iter([ITEM(y, y) for y in xs])",
}

STATEMENTS = {
    "list.extend": (LISTS, "[7, 8, 9]", "r.extend(SOURCE)"),
    "list +=": (LISTS, "[7, 8, 9]", "r += SOURCE"),
    "list[1:2] =": (LISTS, "[7, 8, 9]", "r[1:2] = SOURCE"),
    "list[-1:] =": (LISTS, "[7, 8, 9]", "r[-1:] = SOURCE"),
    "list[:] =": (LISTS, "[7, 8, 9]", "r[:] = SOURCE"),
    "list[3:1] =": (LISTS, "[7, 8, 9]", "r[3:1] = SOURCE"),
    "list.__init__": (LISTS, "[7, 8, 9]", "list.__init__(r, SOURCE)"),
    "deque.extend": (LISTS, "deque([7, 8, 9])", "r.extend(SOURCE)"),
    "deque +=": (LISTS, "deque([7, 8, 9])", "r += SOURCE"),
    "deque.extendleft": (LISTS, "deque([7, 8, 9])", "r.extendleft(SOURCE)"),
    "bytearray.extend": (
        ("def ITEM(y, seen): return y + seen", *LISTS[1:]),
        "bytearray(b'abc')",
        "r.extend(abs(y) for y in SOURCE)",
    ),
    "array.extend": (LISTS, "array('l', [7, 8, 9])", "r.extend(SOURCE)"),
    "set.update": (SETS, "{7, 8, 9}", "r.update(SOURCE)"),
    "set |=": (SETS, "{7, 8, 9}", "r |= set(SOURCE)"),
    "set.intersection_update": (SETS, "{0, 1, 2, 3, 4}", "r.intersection_update(SOURCE)"),
    "set.difference_update": (SETS, "{0, 1, 2, 3, 4}", "r.difference_update(SOURCE)"),
    "set.symmetric_difference_update": (SETS, "{0, 1, 2, 3, 4}", "r.symmetric_difference_update(SOURCE)"),
    "set.union": (SETS, "{0, 1, 2}", "late.append(r.union(SOURCE))"),
    "set.intersection": (SETS, "{0, 1, 2}", "late.append(r.intersection(SOURCE))"),
    "set.difference": (SETS, "{0, 1, 2}", "late.append(r.difference(SOURCE))"),
    "set.symmetric_difference": (SETS, "{0, 1, 2}", "late.append(r.symmetric_difference(SOURCE))"),
    "set.isdisjoint": (SETS, "{1, 7}", "it = iter(SOURCE); late.append((r.isdisjoint(it), list(it)))"),
    "set.issuperset": (SETS, "{1, 3, 8}", "it = iter(SOURCE); late.append((r.issuperset(it), list(it)))"),
    "set.issubset": (SETS, "{1, 3}", "it = iter(SOURCE); late.append((r.issubset(it), list(it)))"),
    "dict.update": (DICTS, "{1: 0, 9: 9}", "r.update(SOURCE)"),
    "dict.update, names": (DICTS, "{1: 0, 9: 9}", "r.update(SOURCE, a=len(r))"),
    "dict |=": (DICTS, "{1: 0, 9: 9}", "r |= SOURCE"),
    "dict.__init__": (DICTS, "{1: 0, 9: 9}", "dict.__init__(r, SOURCE)"),
    "OrderedDict.update": (DICTS, "OrderedDict({1: 0, 9: 9})", "r.update(SOURCE)"),
    "OrderedDict |=": (DICTS, "OrderedDict({1: 0, 9: 9})", "r |= SOURCE"),
    "defaultdict.update": (DICTS, "defaultdict(list, {1: 0, 9: 9})", "r.update(SOURCE)"),
    "Counter.update": (("def ITEM(y, seen): return seen", *DICTS[1:]), "Counter({1: 2})", "r.update(SOURCE)"),
    "list.sort": (
        LISTS,
        "[7, 9, 8]",
        "it = iter(SOURCE); r.sort(key=lambda q: (next(it, 0), late.append(len(r)))[0])",
    ),
}

CASES = [(statement, target) for statement in STATEMENTS for target in TARGETS]


def program_of(statement: str, target: str, source: str) -> Program:
    (item, write, take), make, line = STATEMENTS[statement]
    taken_by_kind = make.startswith(("[", "{1: ", "OrderedDict"))  # other arguments are guarded to be the same object
    given = "None" if target != "argument" else make if taken_by_kind else "kept"
    parts = [
        SHELF,
        item,
        f"kept, grown = {make}, {make}",
        f"def writing(r):\n    for y in xs:\n        {write}\n        yield ITEM(y, len(r))\n        {write}",
        f"def taking(r):\n    for y in xs:\n        yield ITEM(y, len(r))\n        {take}",
        "def f(given):",
        "    " + TARGETS[target].replace("MAKE", make),
        "    told = None",
        "    try:",
        "        " + line.replace("SOURCE", SOURCES[source]),
        "    except (ZeroDivisionError, ValueError, TypeError, RuntimeError) as error:",
        "        told = type(error).__name__, str(error)",
        "    left = list(shelf), late[:]",
        "    shelf.clear()",
        "    late.clear()",
        "    return r, len(r), told, left",
        f"def args():\n    empty(kept, {make})\n    return ({given},)",
    ]
    return Program(f"{statement}_{target}", frozenset(), Path(__file__), 0, "\n".join(parts) + "\n")


@pytest.mark.parametrize(("statement", "target"), CASES)
def test_what_is_written_is_seen(statement: str, target: str) -> None:
    wrong = {}
    for source in SOURCES:
        program = program_of(statement, target, source)
        expected = run(program, "early")
        gc.collect()
        actual = run(program, "early", pijit.jit, api.root_of)
        if actual.entries != expected.entries:
            wrong[source] = next((a, b) for a, b in zip(expected.entries, actual.entries, strict=False) if a != b)
    assert wrong == {}


# A deque that existed before is not written.
FOLLOWED = [
    (statement, target)
    for statement in ("list.extend", "list +=", "list[:] =", "deque.extend", "set.update", "dict.update", "dict |=")
    for target in ("local", "global", "argument")
    if statement != "deque.extend" or target == "local"
]


@pytest.mark.parametrize(("statement", "target"), FOLLOWED)
@pytest.mark.parametrize("source", ["length", "map", "plain", "iterator"])
def test_it_is_replayed(statement: str, target: str, source: str) -> None:
    actual = run(program_of(statement, target, source), "early", pijit.jit, api.root_of)
    assert actual.report["replays"] > 0, actual.report
    assert actual.report["exits"] == 0, actual.report
