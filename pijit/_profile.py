"""What a run has learnt, in a file for a later one: `python -m pijit --profile=FILE`, then `--use-profile=FILE`.

The file is JSON. It says, by the digest of its code, of each function that pijit looked at what its recordings came to
and which of its inputs, variables and attributes varied; and which sizes of tensors varied where compilers were asked.
A later run records nothing of what did not pay, and leaves open from the start what varied. A profile is a guess: where
it is wrong, a function runs as in CPython, or its trace is more general than it need be, and no answer is another.
"""

import atexit
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pijit import _core, _kept, _varying_sizes
from pijit.errors import CacheError

if TYPE_CHECKING:
    from pijit._core import LearntRow, ProfileRow

_FORM = 1
_MOST_BYTES = 1 << 26
_MOST_DEAD = 1 << 12
_MOST_SIZE = 1 << 62
_dead: "list[LearntRow]" = []  # of roots whose function or object has died


def at_exit(path: str) -> None:
    """Write the profile at the end of the process; `OSError` if nothing can be written there."""
    file = Path(path).absolute()
    with file.open("a", encoding="utf-8"):
        pass
    process = os.getpid()
    _kept.when_dying(_note_dying)

    def write() -> None:
        if os.getpid() == process:
            _kept.replace(file, made().encode())

    atexit.register(write)


def made() -> str:
    """The profile of this process, as text."""
    rows = [*_dead, *filter(None, map(_core.learnt, _core.function_roots()))]
    rows.sort(key=lambda row: (-row["saved"], row["function"], row["code"]))
    functions = [_written(row) for row in rows if row["records"] or row["aborts"] or row["left"]]
    return json.dumps({"pijit profile": _FORM, "functions": functions, "sizes": _varying_sizes.seen()}, indent=1) + "\n"


def _note_dying(root: int) -> None:
    if len(_dead) < _MOST_DEAD and (row := _core.learnt(root)) is not None:
        _dead.append(row)


def _written(row: "LearntRow") -> dict[str, Any]:
    names = ("function", "code", "records", "aborts", "replays", "passes", "inputs", "places")
    found: dict[str, Any] = {name: row[name] for name in names}  # type: ignore[literal-required]
    return {**found, "saved": round(row["saved"], 6), "useless": _useless(row)}


def _useless(row: "LearntRow") -> str:
    """Why its recordings were of no use; "": they were."""
    if row["left"] or not row["automatic"] or row["replays"]:
        return row["left"]
    return "no call replayed what was recorded"


def use(path: str) -> None:
    """Begin with what the profile says.

    Raises:
        CacheError: it is no profile, or cannot be read.
    """
    try:
        with open(path, "rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
        found = json.loads(data) if len(data) <= _MOST_BYTES else None
    except OSError as error:
        raise CacheError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        found = None
    rows, sizes = _checked(found)
    if rows is None:
        raise CacheError(f"{path} is no profile of this pijit")
    _core.set_profile(rows)
    _varying_sizes.expect(sizes)


def _checked(found: object) -> tuple["list[ProfileRow] | None", list[int]]:
    """What the profile says; None: it is none."""
    if not isinstance(found, dict) or found.get("pijit profile") != _FORM:
        return None, []
    functions, sizes = found.get("functions"), found.get("sizes")
    if not isinstance(functions, list) or not isinstance(sizes, list) or not all(map(_is_index, sizes)):
        return None, []
    rows = [_row(each) for each in functions]
    return (None, []) if any(row is None for row in rows) else ([row for row in rows if row is not None], sizes)


def _row(one: object) -> "ProfileRow | None":
    if not isinstance(one, Mapping):
        return None
    code, useless, passes = one.get("code"), one.get("useless"), one.get("passes")
    inputs, places = one.get("inputs"), one.get("places")
    if not isinstance(code, str) or not isinstance(useless, str) or not isinstance(passes, bool):
        return None
    if not isinstance(inputs, list) or not all(_is_index(each) and each < 1 << 16 for each in inputs):
        return None
    if not isinstance(places, list) or not all(map(_is_place, places)):
        return None
    return {
        "code": code,
        "useless": useless,
        "passes": passes,
        "inputs": inputs,
        "places": [(number, key) for number, key in places],
    }


def _is_index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_SIZE


def _is_place(value: object) -> bool:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
        return False
    number, key = value
    return isinstance(key, str) and type(number) is int and -2 <= number < 1 << 16
