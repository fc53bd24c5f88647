"""Checks of what pijit stands on, which need nothing of pijit's native core."""

import os
import platform
import sys
from typing import NamedTuple

from pijit import _built
from pijit._version import PYTHONS


class Check(NamedTuple):
    """One check: what is looked at, whether it is as it must be, what was found, and the command that mends it."""

    name: str
    good: bool
    found: str
    mend: str

    def __str__(self) -> str:
        mend = "" if self.good else f"\n      mend: {self.mend}"
        return f"{'ok' if self.good else 'NOT'!s:4}{self.name}: {self.found}{mend}"


def checks() -> list[Check]:
    """Python, the system, and whether pijit is built."""
    return [_check_python(), _check_system(), _check_build()]


def _check_python() -> Check:
    found = f"{platform.python_implementation()} {platform.python_version()}"
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    good = platform.python_implementation() == "CPython" and minor in PYTHONS
    return Check("Python", good, found, f"python3.11 -m venv .venv && .venv/bin/pip install {_built.sources()}")


def _check_system() -> Check:
    return Check("system", sys.platform == "linux", platform.platform(), "use Linux, or a container of it")


def _check_build() -> Check:
    found, mend = _built.missing()
    return Check("build", not found, found or f"in {os.path.dirname(_built.__file__)}", mend)
