"""Tests that the check of names sees two that would clash in one file, and only those."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).with_name("check_unity.py")
ROOT = CHECK.parents[2] / "csrc"


def run(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, CHECK, root], capture_output=True, text=True, check=False)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"namespace pijit {{\nnamespace {{\n\n{text}\n\n}}  // namespace\n\nint out;\n}}  // namespace pijit\n"
    )


CLASHES = {
    "kMost": "constexpr int kMost = 3;  // of them",
    "Row": "struct Row {\n  int at;\n};",
    "Kind": "enum class Kind : uint8_t { kA, kB };",
    "is_open(Val, int)": "bool is_open(Val key, int count) {\n  return true;\n}",
    "made(const std::map<int, int>&, Val)": "Ref made(const std::map<int, int>& all,\n         Val value) {\n}",
    "g_all": "std::vector<int> g_all;",
}


@pytest.mark.parametrize("name", CLASHES)
def test_two_of_one_name(name: str, tmp_path: Path) -> None:
    for file in ("a.cpp", "b.cpp"):
        write(tmp_path / "room" / file, CLASHES[name])
    done = run(tmp_path)
    assert done.returncode == 1
    assert done.stdout.endswith(f": {name} is in the unnamed namespace of a.cpp, too\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "room" / "b.cpp").rename(tmp_path / "other" / "b.cpp")
    assert run(tmp_path).returncode == 0


def test_overloads_and_what_is_inside_of_others(tmp_path: Path) -> None:
    write(tmp_path / "a.cpp", "bool is_open(Val key) {\n  int count = 0;\n}\nstruct Row {\n  int count = 0;\n};")
    write(tmp_path / "b.cpp", "bool is_open(Reg key) {\n  int count = 0;\n}\nstruct Rows {\n  int count = 0;\n};")
    (tmp_path / "c.cpp").write_text("namespace pijit {\nint count;\nstruct Row {\n  int at;\n};\n}\n")
    done = run(tmp_path)
    assert (done.returncode, done.stdout) == (0, "")


def test_these_files_can_be_compiled_as_one() -> None:
    done = run(ROOT)
    assert (done.returncode, done.stdout) == (0, "")
