"""docs/graph.md has every operator and format, and is up to date; the picture is one."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pijit
from pijit.graph import vocabulary

sys.path.insert(0, str(Path(__file__).parent))
import graph_page as made


def test_page_is_up_to_date() -> None:
    assert made.PAGE.read_text() == made.page(), "run make docs"


def test_page_has_every_row_and_format() -> None:
    text = made.page()
    assert all(f"| `{made._cell(row.signature)}` |" in text for row in vocabulary.rows().values())
    assert all(f"| {name} |" in text for name in pijit.formats())
    assert '"schema"' not in text or "pijit.graph/1" in text
    assert "pijit.graph/1" in text


def test_the_picture_is_one() -> None:
    root = ElementTree.parse(made.PICTURE).getroot()
    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "\u00d7 12" in texts
    assert "scaled_dot_product_attention" in texts
    assert str(made.ROOT) not in made.PICTURE.read_text()
