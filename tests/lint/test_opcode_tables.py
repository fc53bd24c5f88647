"""The table of CPython's instructions (csrc/cpython/opcodes_3XX.def) is that of the interpreter that runs the tests."""

from __future__ import annotations

import dis
import opcode
import re
import sys
from pathlib import Path
from typing import Any

CPYTHON = Path(__file__).resolve().parents[2] / "csrc" / "cpython"
OPERATIONS = CPYTHON / "operations.def"
TABLE = CPYTHON / f"opcodes_{sys.version_info.major}{sys.version_info.minor}.def"
OPCODE = re.compile(r"^PIJIT_OPCODE\((\d+), (\w+), (\d+), (\w+), (\w+)\)$", re.MULTILINE)
SPECIALISED = re.compile(r"^PIJIT_SPECIALISED\((\d+), (\w+), (\d+)\)$", re.MULTILINE)
OPERATION = re.compile(r"^PIJIT_OPERATION\((\w+), ", re.MULTILINE)
EFFECT = re.compile(r"^PIJIT_OPERATION\((\w+), \w+, \"(\d*)\", (\d), (\d), ", re.MULTILINE)


def test_numbers_and_caches() -> None:
    rows = {name: (int(number), int(caches)) for number, name, caches, _, _ in OPCODE.findall(TABLE.read_text())}
    known = {name: number for name, number in opcode.opmap.items() if number < 256}
    missing = {name for name in known if name not in rows and not name.startswith("INSTRUMENTED_")}
    assert not missing
    entries: Any = opcode._inline_cache_entries  # type: ignore[attr-defined]
    if not isinstance(entries, dict):  # before CPython 3.13 a list by number
        entries = {name: entries[number] for name, number in known.items() if number < len(entries)}
    for name, number in known.items():
        if name in rows:
            assert rows[name] == (number, entries.get(name, 0)), name


def test_specialised_forms_stand_for_their_base() -> None:
    text = TABLE.read_text()
    numbers = {name: number for number, name, _, _, _ in OPCODE.findall(text)}
    stand_for = {name: base for _, name, base in SPECIALISED.findall(text)}
    wanted = {form: base for base, forms in opcode._specializations.items() for form in forms}  # type: ignore[attr-defined]
    assert wanted
    for form, base in wanted.items():
        assert stand_for[form] == numbers[base], form


def test_no_number_twice() -> None:
    for table in CPYTHON.glob("opcodes_*.def"):
        text = table.read_text()
        numbers = [row[0] for row in OPCODE.findall(text)] + [row[0] for row in SPECIALISED.findall(text)]
        assert len(numbers) == len(set(numbers)) > 150, table


def test_operations_are_declared() -> None:
    declared = OPERATION.findall(OPERATIONS.read_text())
    assert len(declared) == len(set(declared))
    for table in CPYTHON.glob("opcodes_*.def"):
        used = {row[3] for row in OPCODE.findall(table.read_text())}
        assert used <= set(declared), table


def test_what_operations_pop_and_push() -> None:
    effects = {
        name: (call, int(pops), int(pushes)) for name, call, pops, pushes in EFFECT.findall(OPERATIONS.read_text())
    }
    assert len(effects) > 70
    assert all(len(call) in (0, pops) for call, pops, _ in effects.values())
    for number, name, _, operation, _ in OPCODE.findall(TABLE.read_text()):
        if operation in effects and opcode.opmap.get(name) == int(number):
            argument = 1 if int(number) >= opcode.HAVE_ARGUMENT else None
            _, pops, pushes = effects[operation]
            assert pushes - pops == dis.stack_effect(int(number), argument, jump=False), name
