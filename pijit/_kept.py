"""Traces that outlive the process: where their files are, under what they were made, and how they are written.

The core reads a file where a call is about to be recorded (csrc/hook/kept.h). Here they are written: at the end of the
process, and by a thread that begins a while after something was recorded, a quarter of a second to a minute, and that
ends when it has written. So a program that is killed has left what it knew, and one that forks has no thread to warn
of.

1. Only this user can write there: a directory with the mode 0700 that belongs to the user, and files that are no links.
2. A file is made beside its place and moved there. Each trace has its size and digest, so what is damaged is seen.
3. Whatever goes wrong is one line of the log, and nothing is kept. `docs/cache.md` tells more.
"""

import _thread
import atexit
import contextlib
import fcntl
import functools
import logging
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

try:
    import zlib
except ImportError:  # a Python that was built without it
    zlib = None  # type: ignore[assignment]

from pijit import _adapter_cache, _adapters, _core, _version
from pijit._config import OFF, OPTIONS, config, is_given, when_kept

_log = logging.getLogger("pijit")

SUFFIX = ".pijit"
PLAN, TYPES = ".plan", ".types"  # what compilers have made, and types of graphs (pijit/compilers/_kept_plans.py)
SIZE = "size"  # bytes of all files
LAST = "last.json"  # what the last process has found
MOST_TRACES = 16  # of one function, from all processes
EVERY = 60.0  # seconds between two writes, at most: there is one before the first, then twice as many each time
_DAY = 86400
_LEAST, _SHARE = 0.05, 0.05  # seconds, or of those of the process, that writing may take
_MOST_DEAD = 256  # functions and objects that have died since the last write, of which traces are written
_BESIDE = ".new"  # what a file ends in that is not in its place yet
_ABANDONED = 3600  # seconds after which a file that is not in its place was left by a process that was killed
_PATIENCE = 5.0  # seconds that the end of the process waits for a thread that writes

# Options under which other traces are recorded.
_OPTIONS = ("constant_propagation", "loops", "max_nodes", "max_operations", "stress")


class _State:
    dying: ClassVar[list[Callable[[int], object]]] = []  # who is told of roots whose object dies
    dead: ClassVar[dict[str, "_core.KeptTexts"]] = {}  # by file: what such roots knew, until it is written
    written = 0  # bytes that were not counted yet
    spent = 0.0  # seconds that this took
    at_exit = False  # something is to be written at the end
    directory: Path | None = None  # where
    process = 0  # that has begun to keep
    writing = _thread.allocate_lock()


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
        _core.set_writer(None)
        return
    found = directory()
    if why := why_not(found):
        _log.debug("pijit: no traces are kept: %s", why)
        _core.set_keeping("", "")
        return
    _State.directory, _State.process = found, os.getpid()
    _core.set_keeping(str(found), as_line(environment()))
    _core.set_writer(functools.partial(_thread.start_new_thread, write, ()), EVERY)
    when_dying(_keep_dying)
    if not _State.at_exit:
        _State.at_exit = True
        atexit.register(_at_exit)


def when_dying(call: Callable[[int], object]) -> None:
    """Have it called with the number of a root, before its function or object dies."""
    if call not in _State.dying:
        _State.dying.append(call)
    _core.set_dying(_tell_dying)


def _tell_dying(root: int) -> None:
    for call in _State.dying:
        call(root)


def _keep_dying(root: int) -> None:
    """Its traces are written with the others; a program that makes many such objects is not held up for long."""
    if place() is None or _State.spent > max(_LEAST, _SHARE * time.process_time()) or len(_State.dead) >= _MOST_DEAD:
        return
    start = time.thread_time()
    kept = _core.kept_texts(root)
    if kept["texts"] and kept["file"] and (kept["records"] or not kept["found"]):
        _State.dead[kept["file"]] = kept
    if (markets := _markets()) is not None:
        markets.note_winners_of(root)
    _State.spent += time.thread_time() - start


def _markets() -> Any:
    """The module that knows who won; None: no compiler was asked for."""
    return sys.modules.get("pijit.compilers.market")


def by_default() -> None:
    """`python -m pijit` keeps, if nobody has said otherwise."""
    if not is_given("cache") and not config.stress:
        config.update({"cache": True})


def _at_exit() -> None:
    _core.set_writer(None)
    write()


def place() -> Path | None:
    """Where this process keeps what it learns; None: nowhere."""
    return _State.directory if config.cache and _State.process == os.getpid() else None


def read_own(path: Path, most: int) -> bytes | None:
    """All bytes of a file that only this user can have written; None: it is none, or larger than `most`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as stream:
            facts = os.fstat(descriptor)
            own = stat.S_ISREG(facts.st_mode) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o022
            return stream.read() if own and facts.st_size <= most else None
    except OSError:
        return None


def write() -> None:
    """Write the traces of all roots that have recorded something; a forked child has nothing of its own to keep."""
    where = place()
    if where is None or not _State.writing.acquire(timeout=_PATIENCE):
        return
    try:
        with locked(where):
            until = time.thread_time() + max(_LEAST, _SHARE * time.process_time())
            while _State.dead:
                _write_texts(where, _State.dead.popitem()[1])
            for root in _core.kept_roots():
                if time.thread_time() > until:
                    _log.debug("pijit: not all traces are kept: that would take too long")
                    break
                _write_root(where, root)
            if (markets := _markets()) is not None:
                markets.keep_winners(where)
            if _State.written:
                note_written(where, _State.written)
                _State.written = 0
            replace(where / LAST, as_line(_core.keeping()).encode())
    except Exception as error:  # the program knows nothing of this
        _log.debug("pijit: no traces are kept: %s", error)
    finally:
        _State.writing.release()


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
    _write_texts(place, _core.kept_texts(root))


def _write_texts(place: Path, kept: "_core.KeptTexts") -> None:
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
        with contextlib.suppress(FileNotFoundError):
            _State.written -= path.lstat().st_size
        write_file(path, made, {"function": kept["function"], "code": kept["code"]}, texts)
        _State.written += path.lstat().st_size


def write_file(path: Path, made_under: str, root: dict[str, str], texts: list[str]) -> None:
    """Write a file of traces, whole or not at all; `root`: what `cache info` and `cache explain` say of it."""
    traces = b"".join(f"trace {len(data)} {_core.digest(data)}\n".encode() + data for data in map(str.encode, texts))
    if zlib is not None:
        traces = f"packed {len(traces)}\n".encode() + zlib.compress(traces)
    replace(path, f"{_core.kept_heading}\nenvironment {made_under}\nroot {as_line(root)}\n".encode() + traces)


def replace(path: Path, data: bytes) -> None:
    """Put a file there, whole or not at all; only its user can read it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}{_BESIDE}")
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


def files(place: Path, *suffixes: str) -> list[tuple[Path, os.stat_result]]:
    """The files of a cache, and what their directory says of them; the one that was used last comes first."""
    with os.scandir(place) as entries:
        found = [
            (Path(entry.path), entry.stat(follow_symlinks=False))
            for entry in entries
            if entry.name.endswith(suffixes) and entry.is_file(follow_symlinks=False)
        ]
    return sorted(found, key=lambda each: each[1].st_mtime_ns, reverse=True)


def note_written(place: Path, size: int) -> None:
    """So many bytes have come. Where there are too many, those that were used least recently go.

    How many there are is known without a look at all files; once a day they are counted.
    """
    limit, known = config.cache_limit, place / SIZE
    with contextlib.suppress(OSError, ValueError):
        size += int(read_own(known, 64) or "none")
        if time.time() - known.lstat().st_mtime < _DAY and (limit == 0 or size <= limit):
            facts = known.lstat()
            replace(known, str(size).encode())
            os.utime(known, ns=(facts.st_atime_ns, facts.st_mtime_ns))
            return
    replace(known, str(_evict(place, limit)).encode())


def _evict(place: Path, limit: int) -> int:
    """Remove what does not fit, and what is left of processes that were killed; the bytes of all files."""
    for path in place.glob(f".*{_BESIDE}"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - path.lstat().st_mtime > _ABANDONED:
                path.unlink()
    size = 0
    for path, facts in files(place, SUFFIX, PLAN, TYPES):
        if limit and size + facts.st_size > limit:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
        else:
            size += facts.st_size
    return size


if zlib is not None:  # else only files are read whose traces are not compressed
    _core.set_unpacker(zlib.decompressobj)
_core.set_mark(write, "opaque", "it writes what was recorded")  # else enable() would look into it
_adapters.when_attached(start)
when_kept(start)
