"""The maps for those who come: every file, folder, target of make and page that they name is there."""

from __future__ import annotations

import functools
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAPS = ("CONTRIBUTING.md", "SECURITY.md", "csrc/README.md", "csrc/record/README.md", "pijit/README.md")
SUFFIXES = "py|pyi|h|cpp|def|md|toml|txt|sh"
PATH = re.compile(rf"(?<![\w<-])([\w./*-]*[\w*]\.(?:{SUFFIXES})|[\w.-]+(?:/[\w.-]+)*/)(?![\w(])")
PLACEHOLDERS = re.compile(r"NAME|XX|^program\.py$|^Python\.h$|^\w+\.md$")


@functools.cache
def files() -> tuple[str, ...]:
    """All files of the tree that are no build, each with a slash before its path."""
    rooms = ("csrc", "pijit", "tests", "bench", "docs", "examples", "requirements", ".ci", ".github")
    found = [file for room in rooms for file in (ROOT / room).rglob("*") if file.is_file()]
    found += [file for file in ROOT.iterdir() if file.is_file()]
    return tuple(f"/{file.relative_to(ROOT).as_posix()}" for file in found if "__pycache__" not in file.parts)


def quoted(text: str) -> list[str]:
    """What stands in backticks."""
    return [part for line in text.splitlines() for part in re.findall(r"`([^`]+)`", line)]


def paths(text: str) -> set[str]:
    """What stands there and looks like a path."""
    found = {path for part in quoted(text) for path in PATH.findall(part)}
    return {path for path in found if not PLACEHOLDERS.search(path)}


def is_there(path: str) -> bool:
    """A file or folder whose path ends so."""
    if path.endswith("/"):
        return any(f"/{path}" in file for file in files())
    return any(fnmatch(file, f"*/{path}") for file in files())


@pytest.mark.parametrize("page", MAPS)
def test_what_it_names_is_there(page: str) -> None:
    found = paths((ROOT / page).read_text())
    assert [path for path in sorted(found) if not is_there(path)] == []
    assert found


@pytest.mark.parametrize("page", MAPS)
def test_links_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text())
    assert [link for link in links if not ((ROOT / page).parent / link).exists()] == []


@pytest.mark.parametrize("page", MAPS)
def test_targets_of_make_exist(page: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {target for part in quoted((ROOT / page).read_text()) for target in re.findall(r"\bmake ([a-z-]+)", part)}
    assert named <= targets


def test_every_room_of_the_core_is_on_its_map() -> None:
    rooms = {f"{room.name}/" for room in (ROOT / "csrc").iterdir() if room.is_dir()}
    text = (ROOT / "csrc" / "README.md").read_text()
    assert rooms == set(re.findall(r"^\| `(\w+/)` \|", text, re.MULTILINE))


def test_reports_say_what_was_there() -> None:
    """Whoever reports something is asked for the installation, and for what pijit says of the function."""
    forms = {file.stem: file.read_text() for file in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")}
    assert forms.keys() - {"config"} == {"wrong_answer", "slower", "crash", "gap"}
    for name in forms.keys() - {"config"}:
        assert "python -m pijit doctor" in forms[name], name
        assert "pijit.why(fn)" in forms[name], name


def test_a_name_that_is_not_there_is_seen() -> None:
    text = "`nowhere.py`, `csrc/ir/trace.h`, `nowhere/trace.h`, `record/`, `noroom/`, `is_it()`, `tests/ir/golden`"
    assert [path for path in sorted(paths(text)) if not is_there(path)] == ["noroom/", "nowhere.py", "nowhere/trace.h"]
