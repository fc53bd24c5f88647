"""Tests that the check of sizes sees a file that is too long, and only that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHECK = Path(__file__).with_name("check_test_sizes.py")
LIMIT = 1000


def run(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, CHECK, root], capture_output=True, text=True, check=False)


def test_a_file_may_have_as_many(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("\n" * LIMIT)
    (tmp_path / "long.txt").write_text("\n" * 2 * LIMIT)
    assert (run(tmp_path).returncode, run(tmp_path).stdout) == (0, "")


def test_one_more_is_too_many(tmp_path: Path) -> None:
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "a.py").write_text("\n" * (LIMIT + 1))
    done = run(tmp_path)
    assert done.returncode == 1
    assert done.stdout == "programs/a.py: 1001 lines, more than 1000: split it along its concepts\n"


def test_these_tests_are_short_enough() -> None:
    done = run(CHECK.parents[1])
    assert (done.returncode, done.stdout) == (0, "")
