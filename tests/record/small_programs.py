"""Reads the small programs: cells of the files in programs/, each with a header.

    # %% name
    # %% name: stops
    # %% name: leaves long; f(2, [x]); k = 1 -> 2
    # %% name: f(2); k = 1 -> 2 -> 3; change Box.size = 4; undo del Box.size

The parts of a header are separated by semicolons, and each may be left out. They stand for text around the cell:

- Flags, at most once and first: what `FLAGS` says of them.
- `f(2)`: each call of `f` has these arguments, made anew. It stands for `def args(): return (2,)` behind the cell.
- `k = 1 -> 2`: the global `k` is 1 from the beginning, before the text of the cell, and `change()` makes it 2; a third
  value comes with `undo()`. Several globals are several parts.
- `change STATEMENT`: `change()` does this. `undo STATEMENT`: `undo()` does. Several are several parts again. What a
  statement binds or deletes is a global.

What needs more lines than a header has is written out in the cell: `args()`, `change()` and `undo()` as functions.
"""

from __future__ import annotations

import ast
import functools
import io
import itertools
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = Path(__file__).resolve().parent / "programs"
FLAGS = {
    "stops": "it need not be replayed",
    "leaves": "it need not be replayed to the end",
    "long": "eight calls each time, in place of three",
    "hooked": "under an eval-frame hook all the time: what CPython 3.12 does there depends on whether it has"
    " specialised the code, which it does not do then",
}
SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class HeaderError(ValueError):
    """A header that cannot be read: where, and why."""


@dataclass(frozen=True)
class Program:
    """One cell."""

    name: str
    flags: frozenset[str]
    file: Path
    line: int  # of the header, counted from 0: the text begins there
    text: str  # what is executed, with what the header stands for


@dataclass
class Header:
    """What stands behind a cell's name."""

    flags: frozenset[str] = frozenset()
    args: str | None = None
    first: list[str] = field(default_factory=list)  # assignments before the text
    change: list[str] = field(default_factory=list)
    undo: list[str] = field(default_factory=list)

    def around(self, body: str) -> str:
        """The text of the program: the body keeps its lines, below the line of the header."""
        text = "; ".join(self.first) + "\n" + body
        if self.args is not None:
            text += f"def args():\n    return ({self.args})\n"
        for name, statements in (("change", self.change), ("undo", self.undo)):
            if statements:
                names = sorted(set().union(*map(bound_names, statements)))
                lines = [f"global {', '.join(names)}"] * bool(names) + statements
                text += "".join([f"def {name}():\n", *(f"    {line}\n" for line in lines)])
        return text


def bound_names(statement: str) -> set[str]:
    """Variables that a statement binds or deletes, in its own scope."""

    def names(node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        if not isinstance(node, SCOPES):
            for child in ast.iter_child_nodes(node):
                yield from names(child)

    return set(names(ast.parse(statement)))


def split(text: str, operator: str) -> list[str]:
    """The pieces between operators, as Python's own tokens have it: none in a string counts."""
    pieces, start = [], 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.OP and token.string == operator:
            pieces.append(text[start : token.start[1]].strip())
            start = token.end[1]
    return [*pieces, text[start:].strip()]


def read_part(header: Header, part: str) -> None:
    """Adds one part to a header; ValueError says why it cannot be read."""
    word, _, rest = part.partition(" ")
    values = split(part, "->")
    if word in ("change", "undo"):
        statement = ast.parse(rest).body
        if len(statement) != 1 or not isinstance(
            statement[0], (ast.Assign, ast.AugAssign, ast.Delete, ast.Expr, ast.Pass)
        ):
            raise ValueError(f"{rest!r} is not one simple statement")
        getattr(header, word).append(rest)
    elif len(values) > 1:
        match = re.fullmatch(r"(\w+) = (.+)", values[0])
        if match is None or len(values) > 3:
            raise ValueError(f"{part!r} is not NAME = VALUE -> VALUE, or with a third value")
        name, values[0] = match[1], match[2]
        for value, statements in zip(values, (header.first, header.change, header.undo), strict=False):
            ast.parse(value, mode="eval")
            statements.append(f"{name} = {value}")
    elif part.startswith("f("):
        call = ast.parse(part, mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.keywords:
            raise ValueError(f"{part!r} is not a call of f with positional arguments")
        if header.args is not None:
            raise ValueError("f is called in two ways")
        header.args = part[2:-1] + ("," if len(call.args) == 1 else "")
        ast.parse(f"({header.args})", mode="eval")  # a generator without brackets is one for a call only
    elif part and set(part.split()) <= FLAGS.keys():
        if header != Header():
            raise ValueError(f"the flags {part!r} are not the first part")
        header.flags = frozenset(part.split())
    else:
        raise ValueError(
            f"{part!r} is neither flags ({', '.join(FLAGS)}), nor f(...), NAME = ... -> ..., change or undo"
        )


def read_header(line: str) -> tuple[str, Header]:
    """Name and parts; ValueError says why it cannot be read."""
    match = re.fullmatch(r"# %% (\w+)(?:: (.+))?", line)
    if match is None:
        raise ValueError("it is not `# %% name` or `# %% name: parts`")
    header = Header()
    if match[2] is not None:
        try:
            for part in split(match[2], ";"):
                read_part(header, part)
        except (SyntaxError, tokenize.TokenError) as error:
            raise ValueError(f"it is not Python: {error.args[0]}") from None
    return match[1], header


def read_file(file: Path) -> Iterator[Program]:
    """The cells of one file."""
    lines = file.read_text().splitlines(keepends=True)
    heads = [i for i, line in enumerate(lines) if line.startswith("# %%")] + [len(lines)]
    for start, end in itertools.pairwise(heads):
        try:
            name, header = read_header(lines[start].rstrip())
        except ValueError as error:
            raise HeaderError(f"{file}:{start + 1}: {lines[start].rstrip()!r}: {error}") from None
        yield Program(name, header.flags, file, start, header.around("".join(lines[start + 1 : end])))


@functools.cache
def load_programs() -> dict[str, Program]:
    """Every cell of every file of programs/."""
    found: dict[str, Program] = {}
    for file in sorted(PROGRAMS.glob("*.py")):
        for program in read_file(file):
            if program.name in found:
                raise HeaderError(
                    f"{file}:{program.line + 1}: {program.name} is a cell of {found[program.name].file}, too"
                )
            found[program.name] = program
    return found
