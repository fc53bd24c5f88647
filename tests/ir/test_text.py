"""Traces as text: print, parse, print is the same text; what is no such text is refused where it goes wrong."""

from __future__ import annotations

import gc
import random
import re
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pijit
from pijit import _core, api
from pijit.errors import CacheError

sys.path.insert(0, str(Path(__file__).parents[1] / "record"))

from observe import run
from small_programs import Program, load_programs

# Constants of the standard library name its files.
LIBRARY = sysconfig.get_path("stdlib")
ADDRESS = re.compile(r"0x[57][0-9a-f]{11}\b|/work/|/home/|/usr/")


def texts(function: Callable[..., Any]) -> list[str]:
    """The traces of a function as text."""
    root = _core.root_of(function)
    return [_core.trace_text(root, index) for index in range(len(_core.root_traces(root)))]


def check_same(text: str) -> None:
    """Read and printed again it is the same, and nothing in it is of this process only."""
    try:
        again = _core.parse_trace(text).text()
    except CacheError as error:
        pytest.fail(f"{error}\n{text.splitlines()[error.line - 1]}\n{text}")
    assert again == text
    assert _core.parse_trace(again).text() == text
    for line in text.replace(LIBRARY, "").splitlines():
        assert not ADDRESS.search(re.sub(r"float\(0x\w+\)", "", line)), line


def by_file() -> Iterator[tuple[str, list[Program]]]:
    """The programs of each file."""
    files: dict[str, list[Program]] = {}
    for program in load_programs().values():
        files.setdefault(program.file.stem, []).append(program)
    yield from files.items()


@pytest.mark.parametrize(("file", "programs"), [pytest.param(*each, id=each[0]) for each in by_file()])
def test_every_program(file: str, programs: list[Program]) -> None:
    """All that programs of the recorder's tests leave in traces."""
    checked = 0
    for program in programs:
        held: list[Any] = []

        def root_of(jitted: Any, held: list[Any] = held) -> int:
            held.append(jitted)
            return api.root_of(jitted)

        run(program, "early", pijit.jit, root_of)
        for text in texts(held[0]):
            check_same(text)
            checked += 1
    assert checked >= len(programs) // 2, file


def branches(x: int, names: list[str], table: dict[str, Any]) -> Any:
    """Something of everything: numbers, containers, attributes, an exception, a generator."""
    made = {"sum": x + 1, "names": [*names, "last"], "pair": (x / 2, None)}
    try:
        made["known"] = table["known"]
    except KeyError as error:
        made["missing"] = str(error)
    made["squares"] = sum(each * each for each in range(3))
    if x > 2:
        table["seen"] = made["sum"]
    return made


@pytest.fixture(name="text")
def recorded_text() -> str:
    """The trace of `branches`."""
    replayed = pijit.jit(branches)
    for x in (1, 1, 5, 5, 1):
        first: dict[str, Any] = {"known": 1.5}
        second = dict(first)
        assert replayed(x, ["a"], first) == branches(x, ["a"], second)
        assert first == second
    found = texts(replayed)
    assert found
    return max(found, key=len)


def test_bad_versions(text: str) -> None:
    """Another version, another format, nothing at all."""
    for wrong in ("", "\n", "pijit", text.replace("trace 1", "trace 2", 1), "{}", text + "more", text[1:]):
        with pytest.raises(CacheError) as caught:
            _core.parse_trace(wrong)
        assert caught.value.line >= 1
        assert f"line {caught.value.line}, column {caught.value.column}: expected" in str(caught.value)


def test_the_place(text: str) -> None:
    """The line and the column of what is wrong, and what may stand there."""
    lines = text.splitlines(keepends=True)
    number = next(i for i, line in enumerate(lines) if line.startswith("g0 "))
    lines[number] = "g0 like r0\n"
    with pytest.raises(CacheError, match=f'line {number + 1}, column 4: expected the name of a guard, found "like r0"'):
        _core.parse_trace("".join(lines))


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (r"registers=\d+", "registers=4000000000"),
        (r"registers=\d+", "registers=99999999999999999999999"),
        (r"guards=\d+", "guards=18446744073709551615"),
        (r"virtuals=\d+", "virtuals=1"),
        (r"epochs=\d+", "epochs=7"),
        (r"units=\d+", "units=4000000000"),
        (r"units=\d+", "units=0"),
        (r"stack=\d+", "stack=0"),
        (r"inputs=\d+", "inputs=1000"),
        (r"locals=\(", "locals=(x, x, "),
        (r"clock=\d+", "clock=0"),
        (r"exit=s\d+", "exit=s9999"),
        (r"exit=s\d+", ""),
        (r"out=r\d+", "out=r1"),
        (r"out=r\d+", "out=r4294967295"),
        (r"time=\d+", "time=0"),
        (r"resume=\d+", "resume=2147483647"),
        (r"value=v\d+", "value=v0"),
        (r"parent=f\d+", "parent=f0"),
        (r"register=r\d+", "register=r999"),
        (r"@\d+", "@0"),
        (r"birth=\d+", "birth=2147483647"),
        (r"code\(0\)", "code(9)"),
        (r"\n\w+ return ", "\nn0 exit "),
        (r"tuple\(", "tuple(" * 500),
        (r"\"a\"", "tuple(" * 50 + ")" * 50),
        (r"\"a\"", "-" * 100),
        (r"\"a\"", '"\\u{110000}"'),
        (r"\"a\"", "9" * 5000),
        (r"\"a\"", "-0x"),
        (r"\"a\"", "1e"),
        (r"\"a\"", "arg(" * 200),
        (r"\"a\"", "arg(a)" + "[arg(a)" * 5000),
    ],
)
def test_hostile(text: str, pattern: str, replacement: str) -> None:
    """Counts, indices and depths beyond all bounds are refused, or are a text that is printed again as it is."""
    for count in (1, 0):
        attempt(re.sub(pattern, lambda _: replacement, text, count=count))


def check_fixed(text: str) -> None:
    assert _core.parse_trace(text).text() == text


def attempt(text: str) -> bool:
    """It is read and then printed as it is read, or refused."""
    try:
        parsed = _core.parse_trace(text)
    except CacheError as error:
        if "expected" not in str(error) and "contradicts itself" not in str(error):
            raise
        return False
    check_fixed(parsed.text())
    return True


def test_truncated(text: str) -> None:
    """Every beginning of a text is refused."""
    for end in range(0, len(text), max(1, len(text) // 1500)):
        assert not attempt(text[:end]), end


def test_mutated(text: str) -> None:
    """A byte that is another one, is missing or stands twice; lines that are missing, stand twice or change places."""
    chance = random.Random(7)
    lines = text.splitlines(keepends=True)
    read = 0
    for _ in range(3000):
        at = chance.randrange(len(text))
        other = chr(chance.choice([*range(32, 127), 10, 0, 233]))
        before, here, after = text[:at], text[at], text[at + 1 :]
        read += attempt(before + chance.choice([other, "", here * 2]) + after)
        first, second = chance.randrange(len(lines)), chance.randrange(len(lines))
        changed = list(lines)
        changed[first], changed[second] = chance.choice(
            [("", changed[second]), (changed[second], changed[first]), (changed[first] * 2, changed[second])]
        )
        read += attempt("".join(changed))
    assert read > 0  # names and numbers may be others


def test_nothing_is_kept(text: str) -> None:
    """What was made to stand for objects goes with the trace."""

    def count() -> int:
        gc.collect()
        return sys.getallocatedblocks()

    for _ in range(3):
        attempt(text)
        attempt(text[: len(text) // 2])
    before = count()
    for _ in range(20):
        attempt(text)
        attempt(text[: len(text) // 2])
    assert count() - before < 50


def test_no_such_trace() -> None:
    """A root without that trace, and no root at all."""
    replayed = pijit.jit(branches)
    replayed(1, [], {})
    root = _core.root_of(replayed)
    assert _core.trace_text(root, 0).startswith("pijit trace 1\n")
    with pytest.raises(IndexError, match="the root has 1 traces"):
        _core.trace_text(root, 1)
    with pytest.raises(ValueError, match="no such root"):
        _core.trace_text(10**6, 0)
    with pytest.raises(TypeError):
        _core.parse_trace(3)
