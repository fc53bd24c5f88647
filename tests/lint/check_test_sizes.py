"""Checks that no file of tests/ is longer than MAX_LINES: a longer one is about more than one thing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

MAX_LINES = 1000


def check(root: Path) -> Iterator[str]:
    """What is wrong in a tree: one line a file."""
    for file in sorted(root.rglob("*.py")):
        lines = len(file.read_text().splitlines())
        if lines > MAX_LINES:
            yield f"{file.relative_to(root)}: {lines} lines, more than {MAX_LINES}: split it along its concepts"


if __name__ == "__main__":
    WRONG = list(check(Path(sys.argv[1])))
    print("\n".join(WRONG), end="\n" if WRONG else "")
    sys.exit(bool(WRONG))
