"""docs/coverage.md says of every instruction and program what becomes of it, and is up to date."""

from __future__ import annotations

import opcode
import sys

import coverage_table as table


def test_every_opcode_has_a_fate() -> None:
    names = {name for name, number in opcode.opmap.items() if number < 256 and not name.startswith("INSTRUMENTED")}
    assert names <= set(table.opcodes(f"{sys.version_info.major}.{sys.version_info.minor}"))
    for version in table.VERSIONS:
        known = {*table.handlers(version), *table.OTHERS}
        assert not [name for name in table.opcodes(version) if name not in known]


def test_reasons_are_of_real_opcodes() -> None:
    assert set(table.OTHERS) <= {name for version in table.VERSIONS for name in table.opcodes(version)}


def test_page_is_up_to_date() -> None:
    assert table.TARGET.read_text() == table.page(), "run python tests/record/coverage_table.py"
