"""Checks csrc/ against the rules of the house: who may include whom, and what only one room may use."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

# From the bottom up: a room may include itself and what stands before it.
ROOMS = (
    *("common", "cpython", "ir", "adapter.h", "scalar", "numpy", "pandas", "mindspore", "plan", "guard", "kept"),
    *("record", "exec", "cache", "hook", "bind"),
)
# The PyTorch adapter stands beside the layers, and sees of them what adapter.h speaks of.
TORCH_MAY_INCLUDE = {"common", "ir", "adapter.h", "torch"}
# Rooms within record/, from the bottom up. Headers of record/ itself are for all of them, its sources include all.
ROOMS_OF_RECORD = ("state", "mirror", "step")

MAX_LINES = 700  # beyond this a file is two concepts

# What a header's name begins with -> rooms that may include it.
HEADERS = (
    (re.compile(r"Python\.h$"), {"common", "torch"}),
    (re.compile(r"(internal/|frameobject\.h$|opcode\.h$|structmember\.h$)"), {"cpython"}),
    (re.compile(r"pybind11/"), {"bind", "torch"}),
    (re.compile(r"(ATen|c10|caffe2|torch)/"), {"torch"}),
)

HERE = Path(__file__).resolve().parent
CPYTHON = HERE.parent.parent / "csrc" / "cpython"


def opcode_names() -> list[str]:
    """Names of CPython's instructions, of all versions that have a table."""
    tables = sorted(CPYTHON.glob("opcodes_*.def"))
    names = {
        name for table in tables for name in re.findall(r"^PIJIT_\w+\(\d+, (\w+)", table.read_text(), re.MULTILINE)
    }
    return sorted(names)


# What a line of code says -> files or rooms that may say it, and the rule in words.
WORDS = (
    (
        re.compile(rf"\b({'|'.join(opcode_names())}|NB_[A-Z_]+)\b"),
        {"cpython"},
        "only cpython/ names CPython's instructions: say cpython::Operation",
    ),
    (
        re.compile(r"\b(_Py[A-Z_]\w*|_co_\w+)"),
        {"cpython", "torch"},  # the adapter sees no cpython/, and names what CPython exports only
        "what is private to CPython is only for cpython/",
    ),
    (
        re.compile(r"\bPy_SIZE\b"),
        {"cpython", "torch"},
        "Py_SIZE of an int has its sign on 3.11 only: say cpython::int_sign, or PyList_GET_SIZE and the like",
    ),
    (
        re.compile(r"\bPY_(VERSION_HEX|MINOR_VERSION)\b"),
        {"cpython"},
        "only cpython/ may ask for the Python version",
    ),
    (
        re.compile(r"\bPy_(X?(INCREF|DECREF)|CLEAR|X?SETREF|X?NewRef)\b"),
        {"common/ref.h"},
        "references are counted only in common/ref.h: use Ref and Borrowed",
    ),
    (
        re.compile(r"\bTORCH_VERSION_(MAJOR|MINOR|PATCH)\b"),
        {"torch/compat.h"},
        "only torch/compat.h may ask for the version of PyTorch",
    ),
    (re.compile(r"\b(printf|puts)\s*\(|std::c(out|err)\b"), set(), "the core does not print"),
)

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
LITERAL = re.compile(r'"(\\.|[^"\\])*"')
COMMENT = re.compile(r"//.*|/\*.*?\*/")


def room_of(path: str) -> str:
    """The room of a path relative to csrc/: its first part."""
    return path.split("/", 1)[0]


def may_include(room: str, target: str) -> bool:
    """Whether a file of `room` may include one of `target`."""
    if room == "torch":
        return target in TORCH_MAY_INCLUDE
    return target in ROOMS and ROOMS.index(target) <= ROOMS.index(room)


def room_of_record(path: str) -> int | None:
    """Which of the rooms within record/ has the file; None: record/ itself, or another room."""
    parts = path.split("/")
    return ROOMS_OF_RECORD.index(parts[1]) if parts[0] == "record" and len(parts) > 2 else None


def may_record_include(path: str, header: str) -> bool:
    """Whether a file may include one of record/: of its rooms a lower one, and step/ only from record/."""
    target = room_of_record(header)
    if target is None:
        return True
    own = room_of_record(path)
    if own is not None:
        return target <= own
    return ROOMS_OF_RECORD[target] != "step" or (path.startswith("record/") and path.endswith(".cpp"))


def check_include(path: str, quote: str, header: str, root: Path) -> Iterator[str]:
    """Complaints about one include of the file at `path`."""
    room = room_of(path)
    if quote == '"':
        if not (root / header).is_file():
            yield f'"{header}" is not a path from csrc/'
        elif not may_include(room, room_of(header)):
            yield f"{room} may not include {header}"
        elif not may_record_include(path, header):
            yield f"{path.rpartition('/')[0]} may not include {header}"
        return
    for pattern, rooms in HEADERS:
        if pattern.match(header) and room not in rooms:
            yield f"<{header}> is only for {', '.join(sorted(rooms))}"


def check_file(path: str, text: str, root: Path) -> Iterator[tuple[int, str]]:
    """Complaints about one file, with the line they are about."""
    if room_of(path) not in {*ROOMS, "torch"}:
        yield 1, f"no room is called {room_of(path)}"
        return
    lines = text.splitlines()
    if not lines or not lines[0].startswith("//"):
        yield 1, "the first line does not say what lives here"
    if len(lines) > MAX_LINES:
        yield len(lines), f"more than {MAX_LINES} lines: find the seam"
    for number, line in enumerate(lines, 1):
        if match := INCLUDE.match(line):
            for complaint in check_include(path, match[1], match[2], root):
                yield number, complaint
            continue
        code = COMMENT.sub("", LITERAL.sub('""', line))
        for pattern, allowed, rule in WORDS:
            if pattern.search(code) and path not in allowed and room_of(path) not in allowed:
                yield number, rule


def check_tree(root: Path) -> Iterator[str]:
    """Complaints about all C++ files under `root`, one line each."""
    for file in sorted(root.rglob("*")):
        if file.suffix not in {".h", ".cpp", ".def", ".inc"}:
            continue
        path = file.relative_to(root).as_posix()
        for number, complaint in check_file(path, file.read_text(encoding="utf-8"), root):
            yield f"{root.name}/{path}:{number}: {complaint}"


def main() -> int:
    """Prints what is wrong with the tree named on the command line; 1 if anything is."""
    complaints = list(check_tree(Path(sys.argv[1])))
    print("\n".join(complaints) or "layering: ok")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
