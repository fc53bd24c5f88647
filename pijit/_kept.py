"""Traces that outlive the process: where their files are, under what they were made, and how they are written.

The core reads a file where a call is about to be recorded (csrc/hook/kept.h). Here they are written, at the end of the
process: never on a call, and by no thread that the program would have to live with.

1. Only this user can write there: a directory with the mode 0700 that belongs to the user, and files that are no links.
2. A file is made beside its place and moved there. Each trace has its size and digest, so what is damaged is seen.
3. Whatever goes wrong is one line of the log, and nothing is kept. `docs/cache.md` tells more.
"""

import atexit
import contextlib
import fcntl
import logging
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from pijit import _adapter_cache, _adapters, _core, _version
from pijit._config import OFF, OPTIONS, config, when_kept

_log = logging.getLogger("pijit")

SUFFIX = ".pijit"
HEADING = "pijit cache 1"
LAST = "last.json"  # what the last process has found
MOST_TRACES = 16  # of one function, from all processes

# Options under which other traces are recorded.
_OPTIONS = ("constant_propagation", "loops", "max_nodes", "max_operations", "stress")


class _State:
    at_exit = False  # something is to be written at the end
    directory: Path | None = None  # where
    process = 0  # that has begun to keep


def directory() -> Path:
    """Where the files are: `PIJIT_CACHE_DIR`, or a directory of the user's cache."""
    given = os.environ.get("PIJIT_CACHE_DIR", "")
    return Path(given) if os.path.isabs(given) else _adapter_cache.root() / "traces"


def environment() -> dict[str, str]:
    """What a trace depends on beside the program; a file that was made under something else is not read."""
    found = {
        "python": f"{sys.version.split()[0]} {sys.implementation.cache_tag}",
        "pijit": f"{_version.__version__} {_built()}",
        "machine": os.uname().machine,
    }
    if torch := sys.modules.get("torch"):
        found["torch"] = f"{torch.__version__} {getattr(torch.version, 'git_version', '')}"
        with contextlib.suppress(AttributeError):
            found["processor"] = torch.backends.cpu.get_cpu_capability()
    found |= {f"option {name}": str(_core.get_option(name)) for name in _OPTIONS if name in OPTIONS}
    return found


def as_line(data: object) -> str:
    """JSON without ends of lines."""
    import json  # which not every program pays for

    return json.dumps(data)


def _built() -> str:
    """Tells one build of the core and the adapters from another."""
    files = [_core.__file__, *(module.__file__ for name in _adapters.ADAPTERS if (module := _adapters.module(name)))]
    facts = [os.stat(file) for file in files if file]
    return _core.digest(repr([(each.st_size, each.st_mtime_ns) for each in facts]).encode())


def why_not(place: Path) -> str:
    """Why nothing is kept in this directory; "": something may be. Makes it, if it is not there."""
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            place.mkdir(mode=0o700)
        facts = place.lstat()
    except OSError as error:
        return f"{place} cannot be made: {error.strerror}"
    if not stat.S_ISDIR(facts.st_mode):
        return f"{place} is no directory"
    if facts.st_uid != os.geteuid():
        return f"{place} belongs to another user"
    if stat.S_IMODE(facts.st_mode) & 0o077:
        return f"others may enter {place}"
    return ""


def start() -> None:
    """Look for kept traces from now on, and write them at the end; nothing happens without a framework."""
    if OFF or not _adapters.attached():
        return
    if not config.cache:
        _core.set_keeping("", "")
        return
    place = directory()
    if why := why_not(place):
        _log.debug("pijit: no traces are kept: %s", why)
        _core.set_keeping("", "")
        return
    _State.directory, _State.process = place, os.getpid()
    _core.set_keeping(str(place), as_line(environment()))
    if not _State.at_exit:
        _State.at_exit = True
        atexit.register(_at_exit)


def _at_exit() -> None:
    if config.cache and _State.process == os.getpid():  # a forked child has nothing of its own to keep
        write()


def write() -> None:
    """Write the traces of all roots that have recorded something."""
    place = _State.directory
    if place is None:
        return
    try:
        with locked(place):
            for root in _core.kept_roots():
                _write_root(place, root)
            _evict(place)
            _replace(place / LAST, as_line(_core.keeping()).encode())
    except Exception as error:  # the program is at its end, and knows nothing of this
        _log.debug("pijit: no traces are kept: %s", error)


@contextlib.contextmanager
def locked(place: Path) -> Iterator[None]:
    """One process writes at a time; `BlockingIOError`: another one does."""
    file = os.open(place / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(file)


def _write_root(place: Path, root: int) -> None:
    kept = _core.kept_texts(root)
    for reason in kept["reasons"]:
        _log.debug("pijit: a trace of %s is not kept: %s", kept["function"], reason)
    if not kept["file"]:
        return
    path = place / kept["file"]
    if kept["found"] and not kept["records"]:
        os.utime(path)  # it was used
        return
    if not kept["texts"]:
        return
    made = _core.keeping()["environment"]
    before = _core.read_kept(str(path), made)[0]
    texts = list(dict.fromkeys([*kept["texts"], *before]))[:MOST_TRACES]
    if texts != before:
        write_file(path, made, {"function": kept["function"], "code": kept["code"]}, texts)


def write_file(path: Path, made_under: str, root: dict[str, str], texts: list[str]) -> None:
    """Write a file of traces, whole or not at all; `root`: what `cache info` and `cache explain` say of it."""
    parts = [f"{HEADING}\nenvironment {made_under}\nroot {as_line(root)}\n".encode()]
    for text in texts:
        data = text.encode()
        parts.append(f"trace {len(data)} {_core.digest(data)}\n".encode() + data)
    _replace(path, b"".join(parts))


def _replace(path: Path, data: bytes) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    with contextlib.suppress(FileNotFoundError):  # of a process of this number that was killed
        beside.unlink()
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(data)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


def files(place: Path) -> list[tuple[Path, os.stat_result]]:
    """The files of a cache, and what their directory says of them; the one that was used last comes first."""
    with os.scandir(place) as entries:
        found = [(Path(entry.path), entry.stat(follow_symlinks=False)) for entry in entries if _is_file(entry)]
    return sorted(found, key=lambda each: each[1].st_mtime_ns, reverse=True)


def _is_file(entry: "os.DirEntry[str]") -> bool:
    return entry.name.endswith(SUFFIX) and entry.is_file(follow_symlinks=False)


def _evict(place: Path) -> None:
    left = config.cache_limit
    if left == 0:
        return
    for path, facts in files(place):
        left -= facts.st_size
        if left < 0:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()


_adapters.when_attached(start)
when_kept(start)
