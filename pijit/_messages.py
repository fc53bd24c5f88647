"""What pijit says by itself: one line for each distinct cause, through the logger "pijit".

The core tells what it found worth saying (csrc/hook/tell.h): calls that keep ending where the recording stopped, calls
that are left to CPython from now on. A cold function is silent. Level WARNING, so that the standard library's handler
of last resort shows it where a program has not set up logging. To silence it: `pijit.config.quiet`, or the logger's
level.
"""

import logging
from functools import cache
from typing import TYPE_CHECKING

from pijit import _core
from pijit.traces import duration, place

if TYPE_CHECKING:
    from pijit._core import ToldInfo

logger = logging.getLogger("pijit")

_said: set[tuple[str, str, str, int, str]] = set()


@cache
def texts() -> dict[str, str]:
    """What happened, for each code."""
    tables = _core.tables()
    return {code: text for code, _, text, _ in (*tables["aborts"], *tables["left"])}


def forget() -> None:
    """What was said may be said again."""
    _said.clear()


def tell(told: "ToldInfo") -> None:
    """Say it, unless it was said before or nothing is to be said. Called by the core."""
    cause = (told["kind"], told["codes"], told["file"], told["line"], told["function"])
    if cause in _said or _core.get_option("quiet"):
        return
    _said.add(cause)
    logger.warning("%s", line(told) + _internals(told["root"], told["name"]))


def line(told: "ToldInfo") -> str:
    """The line that people see."""
    code = told["codes"].rpartition(", ")[2]  # the last one says most
    where = f"{place(told['file'], told['line'])} in {told['function']}()"
    cost = f", {duration(told['seconds'])} a call" if told["seconds"] else ""
    help_ = f"[{told['codes']}{cost}] (python -m pijit help {code})"
    if told["kind"] == "stopped":
        at = _at(code, told["reason"]) + (f" in {told['inside']}" if told["inside"] else "")
        return f"pijit: {where}: stopped recording {at}; the rest runs in CPython {help_}"
    if told["kind"] == "left":
        return f"pijit: {where}: left to CPython: {told['reason']} {help_}"
    return f"pijit: {where}: {told['reason']} {help_}"


def compare(plain: object, replayed: object) -> str:
    """Where what a replay gave differs from what CPython gave, or "". Called by the core."""
    from pijit._verify import difference  # few programs need it

    return difference(plain, replayed)


def _at(code: str, reason: str) -> str:
    """`at print(...)` where the reason names the call, else the reason itself."""
    text = texts().get(code, "")
    detail = reason.removeprefix(f"{text}: ")
    return f"at {detail}" if detail != reason and detail.endswith("(...)") else f"because {reason}"


def _internals(root: int, name: str) -> str:
    """With PIJIT_DEBUG: the root and its counters."""
    if not _core.get_option("debug"):
        return ""
    report = _core.root_report(root)
    names = ("calls", "records", "aborts", "replays", "exits", "guard_failures", "traces")
    counters = ", ".join(f"{counter} {report[counter]}" for counter in names)  # type: ignore[literal-required]
    return f" {{root {root} {name}: {counters}}}"
