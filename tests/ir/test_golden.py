"""The traces of small functions are those that are kept in golden/; golden.py --write writes them anew."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

import pytest

from pijit import _core

sys.path.insert(0, str(Path(__file__).parent))

import golden

pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the texts have code indices of CPython 3.11")


def check(found: dict[str, str]) -> None:
    """Nothing else than what is kept."""
    wrong = []
    for name, text in found.items():
        kept = golden.FOLDER / f"{name}.txt"
        before = kept.read_text() if kept.exists() else ""
        if before != text:
            wrong += difflib.unified_diff(before.splitlines(), text.splitlines(), f"golden/{kept.name}", "now", n=1)
    assert not wrong, "\n".join([*wrong[:200], "if it is meant: python tests/ir/golden.py --write"])


def test_without_a_framework() -> None:
    check(golden.fresh_texts(torch=False))


@pytest.mark.torch
def test_with_torch() -> None:
    check(golden.fresh_texts(torch=True))


def test_each_is_kept_and_read() -> None:
    """No text without a function, and each can be read and printed again."""
    kept = {file.stem: file.read_text() for file in golden.FOLDER.glob("*.txt")}
    assert set(kept) == set(golden.PLAIN) | set(golden.TORCH)
    for text in kept.values():
        for part in text.split("end\npijit trace"):
            whole = ("" if part.startswith("pijit") else "pijit trace") + part.removesuffix("end\n") + "end\n"
            assert _core.parse_trace(whole).text() == whole
