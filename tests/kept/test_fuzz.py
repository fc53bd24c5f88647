"""Any text and any bytes in the place of what was kept are refused, or read as what they say; nothing else happens.

None of this needs torch: `make test-sanitize` runs it under the sanitizers, and PIJIT_FUZZ=N has so many inputs tried.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pijit
from pijit import _core, _kept

TRIES = int(os.environ.get("PIJIT_FUZZ", "400"))
SEED = int(os.environ.get("PIJIT_FUZZ_SEED", "2"))


class Part:
    """Something with attributes, methods and a place in a list."""

    scale = 3

    def __init__(self, size: int) -> None:
        self.size = size
        self.names = {"first": 1.5, "second": (1, 2)}

    def __call__(self, x: int) -> int:
        return x * self.size + self.scale


PARTS = [Part(2), Part(5)]


def calls(x: int) -> tuple[int, int]:
    """Objects in containers, their classes and attributes."""
    total = 0
    for part in PARTS:
        total += part(x)
    return total, len(PARTS[0].names)


def makes(x: int) -> list[Any]:
    """Virtual objects, closures and a generator."""
    made = {"x": x, "pair": (x, [x + 1])}
    add = (lambda by: lambda y: y + by)(x)
    return [made, sum(add(each) for each in (1, 2, 3)), f"{x:04d}", *sorted({"b": 1, "a": 2})]


def decides(x: int) -> Any:
    """Numbers that are compared, and an exception that is caught."""
    try:
        return {1: "one", 2: "two"}[x] if x < 5 else complex(x, 2.0)
    except KeyError as error:
        return error.args


def opaque(x: int) -> Any:
    """A call that is left whole, and what is checked anew behind it."""
    before = PARTS[0].size
    known = os.getpid() > 0
    return known, before, PARTS[1].size + x, PARTS[0].names["first"]


def kept(function: Callable[[int], Any]) -> tuple[int, str]:
    """The root of the function, and a text of its trace."""
    jitted = pijit.jit(function)
    assert [jitted(each) for each in (1, 2, 3)] == [function(each) for each in (1, 2, 3)]
    HELD.append(jitted)
    root = _core.root_of(jitted)
    found = _core.kept_texts(root)
    assert found["texts"], found["reasons"]
    return root, found["texts"][0]


HELD: list[Any] = []


def changed_text(text: str, lines: list[str], words: list[str], chance: random.Random) -> str:
    """A text with some bytes, words or lines changed."""
    if chance.random() < 0.3:
        changed = lines.copy()
        at = chance.randrange(len(changed))
        changed[at : at + 1] = chance.choice([[], [lines[at]] * 2, [chance.choice(lines)]])
        return "".join(changed)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(text))
        end = min(len(text), at + chance.choice([0, 1, 1, 4]))
        new = chance.choice(["", chance.choice(words), chr(chance.randrange(256)), "9" * 20])
        text = text[:at] + new + text[end:]
    return text


@pytest.mark.parametrize("function", [calls, makes, decides, opaque])
def test_any_text_can_be_read(function: Callable[[int], Any]) -> None:
    """It is read, or refused with a reason; what was written is read, before and after."""
    root, text = kept(function)
    words, lines = sorted(set(re.findall(r"\w+|\S", text))), text.splitlines(keepends=True)
    assert _core.check_kept(root, text) == ""
    chance, refused = random.Random(f"{SEED} {function.__name__}"), 0
    for _ in range(TRIES):
        why = _core.check_kept(root, changed_text(text, lines, words, chance))
        assert isinstance(why, str)
        refused += bool(why)
    assert refused > TRIES // 4
    assert _core.check_kept(root, text) == ""


@pytest.mark.parametrize("packed", [True, False])
def test_any_bytes_can_be_read(packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files with some bytes changed, left out or repeated give whole texts or none."""
    if not packed:
        monkeypatch.setattr(_kept, "zlib", None)
    file = tmp_path / "file.pijit"
    texts = ["pijit kept 1\n", "a\nb\n" * 20, "x"]
    _kept.write_file(file, "{}", {"function": "f"}, texts)
    whole, chance = file.read_bytes(), random.Random(SEED)
    for _ in range(TRIES * 5):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(data))
            end = min(len(data), at + chance.choice([1, 1, 1, 30]))
            data[at:end] = chance.choice([b"", bytes(data[at:end]) * 2, chance.randbytes(end - at), b"9" * (end - at)])
            if not data:
                break
        file.write_bytes(data)
        found, why = _core.read_kept(str(file), "{}")
        assert all(each in texts for each in found)
        assert not (found and why)
