"""What the header of a small program stands for, and what is said of one that cannot be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_programs import FLAGS, HeaderError, Program, load_programs, read_file, split

BODY = '\n\ndef f(*given):\n    return given\n\n\nclass Box:\n    size = "begin"\n'


def program(tmp_path: Path, header: str, body: str = BODY) -> Program:
    file = tmp_path / "cells.py"
    file.write_text(f"# A file.\n{header}{body}")
    [only] = read_file(file)
    return only


def names(tmp_path: Path, parts: str, body: str = BODY) -> dict[str, Any]:
    """The globals of a program with these parts in its header."""
    found: dict[str, Any] = {}
    exec(program(tmp_path, f"# %% cell: {parts}", body).text, found)
    return found


def test_a_name_alone(tmp_path: Path) -> None:
    made = program(tmp_path, "# %% cell")
    assert (made.name, made.flags, made.line, made.text) == ("cell", frozenset(), 1, BODY)


def test_flags(tmp_path: Path) -> None:
    assert program(tmp_path, "# %% cell: long stops").flags == {"long", "stops"}
    assert program(tmp_path, "# %% cell: leaves; f(1)").flags == {"leaves"}


@pytest.mark.parametrize(
    ("part", "args"),
    [
        ("f()", ()),
        ("f(2)", (2,)),
        ("f([1, 2], 'a; b -> c')", ([1, 2], "a; b -> c")),
        ("f(*range(3), 4)", (0, 1, 2, 4)),
        ("f(Box.size)", ("begin",)),
    ],
)
def test_arguments(tmp_path: Path, part: str, args: tuple[Any, ...]) -> None:
    assert names(tmp_path, part)["args"]() == args


def test_arguments_are_made_anew(tmp_path: Path) -> None:
    args = names(tmp_path, "f([])")["args"]
    assert args() == args()
    assert args()[0] is not args()[0]


def test_a_global_and_its_changes(tmp_path: Path) -> None:
    found = names(tmp_path, "k = [1, 2] -> lambda a, b: (a, b) -> 'x -> y'")
    assert found["k"] == [1, 2]
    found["change"]()
    assert found["k"](1, 2) == (1, 2)
    found["undo"]()
    assert found["k"] == "x -> y"
    assert "undo" not in names(tmp_path, "k = 1 -> 2")


def test_a_global_is_there_before_the_text(tmp_path: Path) -> None:
    assert names(tmp_path, "k = 1 -> 2", "\nclass Box:\n    size = k\n")["Box"].size == 1


def test_statements(tmp_path: Path) -> None:
    found = names(tmp_path, "change Box.size = 2; change n, m = 3, [n for n in 'ab']; undo del Box.size; undo del n")
    found["change"]()
    assert (found["Box"].size, found["n"], found["m"]) == (2, 3, ["a", "b"])
    found["undo"]()
    assert not hasattr(found["Box"], "size")
    assert "n" not in found


def test_lines_are_those_of_the_file(tmp_path: Path) -> None:
    """Tracebacks of a program name them."""
    made = program(tmp_path, "# %% cell: long; f(2); k = lambda: 0 -> 2")
    found: dict[str, Any] = {}
    exec(compile("\n" * made.line + made.text, str(made.file), "exec"), found)
    lines = made.file.read_text().splitlines()
    assert lines[found["f"].__code__.co_firstlineno - 1] == "def f(*given):"
    assert lines[found["k"].__code__.co_firstlineno - 1].startswith("# %% cell")


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ("# %%cell", "it is not `# %% name`"),
        ("# %% two words", "it is not `# %% name`"),
        ("# %% cell:", "it is not `# %% name`"),
        ("# %% cell: slow", "'slow' is neither flags (stops, leaves, long, hooked), nor f(...)"),
        ("# %% cell: f(1); stops", "the flags 'stops' are not the first part"),
        ("# %% cell: stops;", "'' is neither flags"),
        ("# %% cell: f(1", "it is not Python"),
        ("# %% cell: f(n=1)", "'f(n=1)' is not a call of f with positional arguments"),
        ("# %% cell: f(1)(2)", "is not a call of f"),
        ("# %% cell: f(n for n in 'ab')", "it is not Python"),
        ("# %% cell: f(1); f(2)", "f is called in two ways"),
        ("# %% cell: k = 1", "'k = 1' is neither flags"),
        ("# %% cell: k 1 -> 2", "'k 1 -> 2' is not NAME = VALUE -> VALUE"),
        ("# %% cell: k = 1 -> 2 -> 3 -> 4", "is not NAME = VALUE -> VALUE"),
        ("# %% cell: k = 1 -> ", "it is not Python"),
        ("# %% cell: change", "'' is not one simple statement"),
        ("# %% cell: change import os", "'import os' is not one simple statement"),
        ("# %% cell: undo if k: pass", "'if k: pass' is not one simple statement"),
        ("# %% cell: undo 1 +", "it is not Python"),
    ],
)
def test_a_header_that_cannot_be_read(tmp_path: Path, header: str, why: str) -> None:
    with pytest.raises(HeaderError) as caught:
        program(tmp_path, header)
    text = str(caught.value)
    assert text.startswith(f"{tmp_path / 'cells.py'}:2: {header.rstrip()!r}: ")
    assert why in text


def test_split_knows_strings() -> None:
    assert split("a; ';' ; [b]", ";") == ["a", "';'", "[b]"]
    assert split("a", ";") == ["a"]


def test_all_programs_are_read() -> None:
    programs = load_programs()
    assert len(programs) > 800
    assert set().union(*(each.flags for each in programs.values())) == FLAGS.keys()
