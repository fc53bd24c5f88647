"""Where adapters lie that `python -m pijit build` made for the torch of this machine, and whether one may be loaded.

They are native code, so one is loaded only if nobody but the user can have written it: the directory of the cache, the
one of the adapter and the file belong to the user, and nobody else may write them.
"""

import os
import re
import stat
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from pijit import _torches
from pijit._version import __version__


def root() -> Path:
    """The user's cache of pijit; a place where nothing can be if the user has no home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        home = os.path.expanduser("~")
        base = os.path.join(home, ".cache") if os.path.isabs(home) else os.devnull
    return Path(base, "pijit")


def directory(version: str, abi: bool) -> Path:
    """Where the adapter for this torch lies: by versions of pijit and Python, by torch and by its C++ ABI."""
    series = re.sub(r"[^\w.+]", "_", _torches.series(version))
    return root() / f"{__version__}-{sys.implementation.cache_tag}-torch{series}-abi{int(abi)}"


def file(version: str, abi: bool) -> Path:
    """The adapter itself, whether it is there or not."""
    return directory(version, abi) / (_torches.module_name(version) + EXTENSION_SUFFIXES[0])


def why_not(path: Path) -> str:
    """Why the adapter in this file must not be loaded; "" if it may."""
    for place in (path.parent.parent, path.parent, path):
        facts = place.lstat()
        if stat.S_ISLNK(facts.st_mode):
            return f"{place} is a link"
        if facts.st_uid != os.geteuid():
            return f"{place} belongs to another user"
        if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return f"others may write {place}"
    return ""


def make(path: Path) -> None:
    """Make a directory, and those above it, that only the user can enter."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    path.chmod(0o700)


def built() -> list[Path]:
    """The adapters in the cache that this pijit would look for, under this Python."""
    start = f"{__version__}-{sys.implementation.cache_tag}-torch"
    return sorted(root().glob(f"{start}*/_torch_*{EXTENSION_SUFFIXES[0]}"))
