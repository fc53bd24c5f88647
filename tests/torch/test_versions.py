"""docs/versions.md, pyproject.toml and the README say what the tables in the code say."""

import sys
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "versions"))
import versions_table as table

PYTHONS = table.table("_version").PYTHONS


def test_the_page_is_up_to_date():
    assert table.TARGET.read_text() == table.page(), "run python tests/torch/versions/versions_table.py"


def test_every_row_is_on_it():
    page = table.page()
    rows = table.table("_torches").TORCHES
    assert rows
    assert all(f"\n| {row.minor} | {row.tested} |" in page for row in rows)
    assert all(text in page for row in rows for text in row.differs)


def test_the_package_is_for_these_pythons():
    project = tomllib.loads((table.ROOT / "pyproject.toml").read_text())["project"]
    named = [line.rpartition(" ")[2] for line in project["classifiers"] if " :: Python :: 3." in line]
    assert named == list(PYTHONS)
    assert project["requires-python"] == f">={PYTHONS[0]},<3.{int(PYTHONS[-1].partition('.')[2]) + 1}"


def test_pages_name_these_pythons():
    text = f"CPython {PYTHONS[0]} to {PYTHONS[-1]}"
    assert all(text in (table.ROOT / page).read_text() for page in ("README.md", "docs/limits.md"))
