"""Checks that no two files of a room define one name in their unnamed namespaces: a release compiles them as one.

Functions that differ in their parameters are overloads, and clash with none; nor do two names of one type.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from check_owners import code_of

OPENS = re.compile(r"^namespace \{")
CLOSES = re.compile(r"^\}  // namespace$")
TYPE = re.compile(r"^(?:struct|class|enum class|enum|union) (\w+)\b(?!;)")
VALUE = re.compile(
    r"^(?!using |return |template|namespace |typedef )[\w:<>,&*\s]+?[\s*&](\w+)(?:\[[^\]]*\])*(?: = |\{|;$)"
)
FUNCTION = re.compile(r"^(?!using |return |namespace |typedef )[\w:<>,&*\s]+?[\s*&](\w+)\((.*)")


def names_in(text: str) -> Iterator[tuple[int, str]]:
    """What a file defines in unnamed namespaces: lines and names, those of functions with their parameters."""
    inside, depth = False, 0
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if OPENS.match(line) and not inside:
            inside, depth = True, 0
            continue
        if inside and CLOSES.match(line):
            inside = False
            continue
        code = code_of(line)
        if inside and depth == 0 and code and not code.startswith((" ", "#", "}", ")")):
            if found := TYPE.match(code):
                yield number, found[1]
            elif found := FUNCTION.match(code):
                yield number, f"{found[1]}({parameters(lines, number - 1, found[2])})"
            elif found := VALUE.match(code):
                yield number, found[1]
        if inside:
            depth = max(depth + code.count("{") - code.count("}"), 0)


def parameters(lines: list[str], at: int, rest: str) -> str:
    """The types of a function, whose list of parameters begins on that line and may go on."""
    text, opened = "", 1
    while True:
        for letter in rest:
            opened += {"(": 1, ")": -1}.get(letter, 0)
            if opened == 0:
                return ", ".join(type_of(each) for each in split(text))
            text += letter
        at += 1
        if at >= len(lines):
            return text
        rest = " " + code_of(lines[at]).strip()


def split(text: str) -> Iterator[str]:
    """At the commas that stand in no brackets."""
    depth, part = 0, ""
    for letter in text:
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            yield part
            part = ""
        else:
            part += letter
    if part.strip():
        yield part


def type_of(parameter: str) -> str:
    """Without its name and default."""
    text = " ".join(parameter.partition("=")[0].split())
    return re.sub(r"(?<=[\s*&])\w+$", "", text).strip() if re.search(r"[\s*&]\w+$", text) else text


def main(root: Path) -> int:
    """Prints a line for each clash."""
    bad = 0
    for room in sorted({path.parent for path in root.rglob("*.cpp")}):
        known: dict[str, str] = {}
        for path in sorted(room.glob("*.cpp")):
            own = set()
            for number, name in names_in(path.read_text()):
                if name in known and name not in own:
                    print(f"{path}:{number}: {name} is in the unnamed namespace of {known[name]}, too")
                    bad += 1
                known.setdefault(name, path.name)
                own.add(name)
    return bad


if __name__ == "__main__":
    sys.exit(1 if main(Path(sys.argv[1])) else 0)
