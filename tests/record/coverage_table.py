"""Writes docs/coverage.md: what becomes of each instruction and construct while recording, and the test that shows it.

The opcodes are those of csrc/cpython/opcodes_3XX.def, which say of each what it does in pijit's own words. An
instruction is recorded if a source of csrc/record/step/ handles that operation, or else named below with the reason.
The constructs are the cells of programs/.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from constructs import CONSTRUCTS, opaque
from small_programs import load_programs

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = ROOT / "docs" / "coverage.md"

VERSIONS = ("3.11", "3.12", "3.13", "3.14")

# Instructions that no handler names, and what becomes of them.
OTHERS = {
    "EXTENDED_ARG": "recorded: a part of the instruction that follows (decode)",
    "MAKE_CELL": "recorded: before the first event of a frame (run_prologue)",
    "COPY_FREE_VARS": "recorded: before the first event of a frame (run_prologue)",
    "RETURN_GENERATOR": "recorded: the frame becomes a generator when it is left",
    "PRINT_EXPR": "stops: only the interactive prompt",
    "IMPORT_STAR": "stops: only a module body, which is not inlined",
    "ASYNC_GEN_WRAP": "stops: asynchronous generators are not inlined",
    "GET_AITER": "stops: asynchronous iteration",
    "GET_ANEXT": "stops: asynchronous iteration",
    "BEFORE_ASYNC_WITH": "stops: asynchronous context managers",
    "END_ASYNC_FOR": "stops: asynchronous iteration",
    "CALL_INTRINSIC_1": "recorded: as the operation that its argument names (decode)",
    "CALL_INTRINSIC_2": "recorded: as the operation that its argument names (decode)",
    "LOAD_FAST_LOAD_FAST": "recorded: as two loads of one instruction (decode)",
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": "recorded: as two loads of one instruction (decode)",
    "STORE_FAST_LOAD_FAST": "recorded: as a store and a load of one instruction (decode)",
    "STORE_FAST_STORE_FAST": "recorded: as two stores of one instruction (decode)",
    "BUILD_TEMPLATE": "stops: template strings",
    "BUILD_INTERPOLATION": "stops: template strings",
    "INTERPRETER_EXIT": "in no code of a program",
    "EXIT_INIT_CHECK": "in no code of a program",
    "ENTER_EXECUTOR": "in no code of a program",
    "RESERVED": "in no code of a program",
}


def opcode_table(version: str) -> str:
    """What is said of the instructions of a CPython."""
    return (ROOT / "csrc" / "cpython" / f"opcodes_{version.replace('.', '')}.def").read_text()


def opcodes(version: str) -> list[str]:
    """Names of the base instructions, in the order of their numbers."""
    return re.findall(r"PIJIT_OPCODE\(\d+, (\w+), ", opcode_table(version))


def operations(version: str) -> dict[str, str]:
    """Instruction -> the operation that it is."""
    return dict(re.findall(r"PIJIT_OPCODE\(\d+, (\w+), \d+, (\w+), \w+\)", opcode_table(version)))


def handlers(version: str) -> dict[str, str]:
    """Instruction -> the source that handles its operation."""
    found: dict[str, str] = {}
    for source in sorted((ROOT / "csrc" / "record" / "step").glob("step*.cpp")):
        for name in re.findall(r"\bcase Operation::(\w+):", source.read_text()):
            if name not in found or found[name] == "step.cpp":
                found[name] = source.name
    return {name: found[operation] for name, operation in operations(version).items() if operation in found}


def fate(name: str, version: str) -> str:
    """What becomes of an instruction; KeyError: nobody has said."""
    handled = handlers(version)
    return f"recorded ({handled[name]})" if name in handled else OTHERS[name]


def cells() -> list[tuple[str, frozenset[str], str]]:
    """Name, flags and file of every program."""
    return [(program.name, program.flags, program.file.name) for program in load_programs().values()]


def whole(construct: str) -> str:
    """How a construct is replayed."""
    reasons = {version: opaque(version).get(construct) for version in VERSIONS}
    if len(set(reasons.values())) > 1:
        fates = [f"{version}: " + (f"opaque: {why}" if why else "whole") for version, why in reasons.items()]
        return "; ".join(fates)
    why = reasons[VERSIONS[0]]
    return f"opaque: {why}" if why else "whole"


def page() -> str:
    """The whole of docs/coverage.md."""
    files = {name: source for name, _, source in cells()}
    lines = [
        "# What is recorded",
        "",
        "Made by `python tests/record/coverage_table.py`; a test compares it with the sources.",
        "",
        "Every program below runs plain and with pijit, before and after a change of what it depends on, and all that",
        "can be observed is the same. *replayed*: later calls are replays, to the return or to the first instruction",
        "that stops recording; *left*: a replay leaves to CPython on the way; *not replayed*: the recording stops at",
        "once, or every call differs.",
        "",
    ]
    for version in VERSIONS:
        lines += [f"## Instructions of CPython {version}", "", "| instruction | fate |", "| --- | --- |"]
        lines += [f"| {name} | {fate(name, version)} |" for name in opcodes(version)]
        lines.append("")
    lines += [
        "## Constructs",
        "",
        "*whole*: in steady state a replay comes to the return without an opaque call, an exit or a stop.",
        "",
        "| construct | fate | test |",
        "| --- | --- | --- |",
        *(f"| {what} | {whole(what)} | `programs/{files[name]}`: `{name}` |" for what, name in CONSTRUCTS.items()),
        "",
        "## Programs",
        "",
        "| program | fate | test |",
        "| --- | --- | --- |",
    ]
    for name, flags, source in cells():
        kind = "not replayed" if "stops" in flags else "left" if "leaves" in flags else "replayed"
        lines.append(f"| {name.replace('_', ' ')} | {kind} | `programs/{source}`: `{name}` |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(page())
    sys.exit(0)
