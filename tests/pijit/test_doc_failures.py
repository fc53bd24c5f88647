"""docs/failures.md: every test that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "failures.md"
ROWS = re.findall(r"^\| (.+) \| `([\w/]+\.py)::(\w+)` \|$", PAGE.read_text(), re.MULTILINE)


@pytest.mark.parametrize(("failure", "file", "name"), ROWS, ids=[row[2] for row in ROWS])
def test_named_test_exists(failure: str, file: str, name: str) -> None:
    """A function, a scenario (some are named by a string) or a small program."""
    pattern = rf'^ *(async )?def {name}\(|^# %% {name}\b|^\w*\(?"{name}"|^@\w+\("{name}"'
    assert re.search(pattern, (TESTS / file).read_text(), re.MULTILINE), failure


def test_every_row_is_read() -> None:
    table = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and "---" not in line]
    heads = [line for line in table if line == "| class of failure | test |"]
    assert len(ROWS) == len(table) - len(heads) > 100
