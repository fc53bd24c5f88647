"""Each kind of guard, operation and virtual object stands in a golden text, or in a test of the engine by its name.

Whole programs use most of them as well. But what such a program does with a kind nobody sees when it changes.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLES = {"guards": ("PIJIT_GUARD", "g"), "ops": ("PIJIT_OP", "n"), "virtuals": ("PIJIT_VIRTUAL", "v")}


def kinds(table: str) -> dict[str, str]:
    """What the texts call each kind, by the name of its enumerator."""
    macro = TABLES[table][0]
    rows = re.findall(rf'^{macro}\((k\w+), (?:"(\w+)")?', (ROOT / "csrc" / "ir" / f"{table}.def").read_text(), re.M)
    return {name: printed or name[1:] for name, printed in rows}


def in_texts(table: str) -> set[str]:
    """The kinds in lines of golden texts."""
    texts = [file.read_text() for file in Path(__file__).with_name("golden").glob("*.txt")]
    return {kind for text in texts for kind in re.findall(rf"^{TABLES[table][1]}\d+ (?:= )?(\w+)", text, re.M)}


def in_tests() -> set[str]:
    """The enumerators that tests of the engine name."""
    texts = [file.read_text() for file in (ROOT / "tests" / "exec").glob("*.py")]
    return {name for text in texts for name in re.findall(r'"(k[A-Z]\w+)"', text)}


@pytest.mark.parametrize("table", TABLES)
def test_each_is_seen(table: str) -> None:
    rows = kinds(table)
    assert len(rows) >= 25
    printed, named = in_texts(table), in_tests()
    assert printed <= set(rows.values())
    assert [name for name, text in rows.items() if text not in printed and name not in named] == []
