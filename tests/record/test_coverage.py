"""docs/coverage.md says of every instruction and program what becomes of it, and is up to date."""

from __future__ import annotations

import opcode

import coverage_table as table


def test_every_opcode_has_a_fate() -> None:
    names = {name for name, number in opcode.opmap.items() if number < 256}
    assert names <= set(table.opcodes())
    missing = [name for name in table.opcodes() if name not in table.handlers() and name not in table.OTHERS]
    assert not missing


def test_reasons_are_of_real_opcodes() -> None:
    assert set(table.OTHERS) <= set(table.opcodes())


def test_page_is_up_to_date() -> None:
    assert table.TARGET.read_text() == table.page(), "run python tests/record/coverage_table.py"
