"""Checks the owners of a recording's state: each says of its members what becomes of them, and all of them go back.

The recorder itself stays small: what can be a function of its own is no method.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

OWNERS = "owners.h"
RECORDER = "recorder.h"
MAX_LINES = 120  # of an owner's header
MAX_MEMBERS = 12  # of the recorder: its life, and nothing that an instruction changes
MAX_METHODS = 90  # of the recorder, public ones
MAX_HEADER = 250  # lines of any header of the folder

FATE = re.compile(r"\b(Taken back|Kept|Computed anew|The same from)\b")
CLASS = re.compile(r"^(struct|class) (\w+)[^;]*\{$")
MEMBER = re.compile(
    r"^  (?!using |return |static |typename )(?:const )?[\w:]+(?:<.*>)?[\s*]+(?:const )?(\w+)(?: = [^(]*|\{.*\})?[;,]"
)
NAME = re.compile(r"\b(\w+_)(?= = | ?[;,{])")


def code_of(line: str) -> str:
    """The line without its comment."""
    return line.partition("//")[0].rstrip()


def owners_of(text: str) -> list[str]:
    """The classes that owners.h has as members."""
    body = text[text.index("struct Owners {") : text.index("\n};")]
    return re.findall(r"^  (\w+) \w+;", body, re.MULTILINE)


def taken_back(text: str) -> list[list[str]]:
    """What each_owner names: the members that it finds, and those that it goes over, both in order of the alphabet."""
    named = re.search(r"auto& \[([^\]]*)\]", text)
    used = re.search(r"\ball\(((?:\w+, )*\w+)\);", text)
    return [sorted(found[1].replace(" ", "").split(",")) if found else [] for found in (named, used)]


def check_header(text: str, owners: list[str]) -> Iterator[tuple[int, str]]:
    """Complaints about a header of owners: too long, or a member below no word about its fate."""
    lines = text.splitlines()
    if len(lines) > MAX_LINES:
        yield len(lines), f"more than {MAX_LINES} lines: the owner has too much"
    owner, told, commented = False, False, False
    for number, line in enumerate(lines, 1):
        if found := CLASS.match(line):
            owner = found[2] in owners
        if not line.strip() or line.startswith("}"):
            told = False
        if line.lstrip().startswith("//"):
            told = bool(FATE.search(line)) or (told and commented)
            commented = True
            continue
        commented = False
        member = MEMBER.match(code_of(line)) if owner else None
        if member and not told and not line.startswith("  struct "):
            yield number, f"{member[1]}: taken back, kept (why), or computed anew?"


def members(text: str) -> list[tuple[int, str]]:
    """Members of the recorder, with their lines."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        code = code_of(line)
        if (
            re.match(r"^  [\w:<>]+[\w:<>, *]* \w+_\b", code)
            and code.endswith(";")
            and "(" not in code.partition("=")[0]
        ):
            found += [(number, name) for name in NAME.findall(code)]
    return found


def public_methods(text: str) -> list[tuple[int, str]]:
    """Public methods of the recorder, with their lines."""
    found, public = [], False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("class Recorder "):
            public = True
        elif public and line in (" private:", "};"):
            break
        elif public and (method := re.match(r"^  (?! |//)[^=(]*?(~?\w+)\(", code_of(line))):
            found.append((number, method[1]))
    return found


def check_tree(record: Path) -> Iterator[str]:
    """Complaints about the folder of the recorder, one line each."""
    text = (record / OWNERS).read_text(encoding="utf-8")
    owners = owners_of(text)
    named, used = taken_back(text)
    if named != used or len(named) != len(owners):
        yield f"{OWNERS}: each_owner names {named}, goes over {used}, and there are {owners}"
    for header in sorted((record / "state").glob("*.h")):
        source = header.read_text(encoding="utf-8")
        if any(re.search(rf"^(struct|class) {owner} .*\{{$", source, re.MULTILINE) for owner in owners):
            for number, complaint in check_header(source, owners):
                yield f"state/{header.name}:{number}: {complaint}"
    for number, name in members((record / RECORDER).read_text(encoding="utf-8"))[MAX_MEMBERS:]:
        yield f"{RECORDER}:{number}: {name} is one too many: give it to an owner"
    for number, name in public_methods((record / RECORDER).read_text(encoding="utf-8"))[MAX_METHODS:]:
        yield f"{RECORDER}:{number}: {name} is one too many: a function of its own will do"
    for header in sorted(record.rglob("*.h")):
        if (lines := len(header.read_text(encoding="utf-8").splitlines())) > MAX_HEADER:
            yield f"{header.relative_to(record).as_posix()}:{lines}: more than {MAX_HEADER} lines: find the seam"


def main() -> int:
    """Prints what is wrong with the folder named on the command line; 1 if anything is."""
    complaints = list(check_tree(Path(sys.argv[1])))
    print("\n".join(complaints) or "owners: ok")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
