"""docs/versions.md says what the tables in the code say."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "versions"))
import versions_table as table


def test_the_page_is_up_to_date():
    assert table.TARGET.read_text() == table.page(), "run python tests/torch/versions/versions_table.py"


def test_every_row_is_on_it():
    page = table.page()
    rows = table.torches().TORCHES
    assert rows
    assert all(f"\n| {row.minor} | {row.tested} |" in page for row in rows)
    assert all(text in page for row in rows for text in row.differs)
