"""What compilers have made, and who won, for the next process (pijit/_kept.py has the directory).

1. Code is kept of backends whose code travels as files, under a digest of all that was asked for: the graph, weights
   that are part of it, options, versions, the processor.
2. Such code is run as it is, and no loader of machine code stands hostile bytes. So a table has the SHA-256 of each
   file. Directory, table and files are this user's alone, or nothing is read.
3. Who won the turns with native replay is kept by a digest of the segment's graph. The next process asks that backend
   alone, and measures nothing. Where it cannot be had, it is forgotten, and all are asked again.
4. Whatever is wrong with these files, compilers compile, and a line of the log says why.
"""

import hashlib
import json
import logging
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pijit import _kept
from pijit.graph.model import Graph

_log = logging.getLogger("pijit")

TABLE = "plans.json"
_FORM = 1
_MOST = 4096  # rows of a kind; the newest stay
_MOST_BYTES = 1 << 29  # of one file
_TRIES, _PAUSE = 20, 0.1  # while another process writes
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")


class _Table:
    """The rows of the file, as they were read last.

    Attributes:
        code: by key: the digest of the file, and the nodes that torch runs.
        won: by key: who answers.
    """

    def __init__(self) -> None:
        self.place: Path | None = None
        self.code: dict[str, tuple[str, list[int]]] = {}
        self.won: dict[str, str] = {}

    def read(self, place: Path) -> "_Table":
        """This one, read of the file, if that is there and this user's alone."""
        self.place, self.code, self.won = place, {}, {}
        data = _kept.read_own(place / TABLE, _MOST_BYTES)
        try:
            found = json.loads(data or b"{}")
            if found.get("pijit plans") == _FORM:
                for key, (digest, missing) in found["code"].items():
                    self.code[str(key)] = str(digest), [int(each) for each in missing]
                self.won = {str(key): str(name) for key, name in found["won"].items()}
        except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
            self.code, self.won = {}, {}
            _log.debug("pijit: the table of plans is damaged")
        return self

    def written(self) -> bytes:
        code, won = (dict(list(rows.items())[-_MOST:]) for rows in (self.code, self.won))
        return json.dumps({"pijit plans": _FORM, "code": code, "won": won}).encode()


_table = _Table()


def is_on() -> bool:
    """Something is kept in this process."""
    return _kept.place() is not None


def _known() -> _Table:
    place = _kept.place()
    if place is None:
        return _Table()
    return _table if _table.place == place else _table.read(place)


def _digest(*parts: bytes) -> str:
    made = hashlib.sha256()
    for part in (_kept.as_line(_kept.environment()).encode(), *parts):
        made.update(len(part).to_bytes(8, "little") + part)
    return made.hexdigest()[:32]


def key_of_job(directory: Path) -> str:
    """Of all files that say what is to be compiled; "": nothing is kept."""
    if not is_on():
        return ""
    files = sorted(path for path in directory.iterdir() if path.is_file())
    return _digest(*(part for path in files for part in (path.name.encode(), path.read_bytes())))


def fetch(key: str, made: Path) -> list[int] | None:
    """Put the code that was kept into a directory; the nodes that torch runs, or None: there is none."""
    known = _known().code.get(key)
    place = _kept.place()
    if known is None or place is None:
        return None
    digest, missing = known
    data = _kept.read_own(place / f"{key}{_kept.PLAN}", _MOST_BYTES)
    if data is None or hashlib.sha256(data).hexdigest() != digest:
        _log.debug("pijit: the code %s is damaged, or gone", key)
        return None
    heads, _, rest = data.partition(b"\n")
    files = json.loads(heads)["files"]
    for name, size in files:
        if _NAME.fullmatch(name) is None:
            return None
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_bytes(rest[:size])
        rest = rest[size:]
    return missing


def store(key: str, made: Path, missing: list[int]) -> None:
    """Keep what a compiler has made."""
    place = _kept.place()
    if not key or place is None:
        return
    files = sorted(path for path in made.rglob("*") if path.is_file() and not path.is_symlink())
    names = [path.relative_to(made).as_posix() for path in files]
    contents = [path.read_bytes() for path in files]
    if not all(map(_NAME.fullmatch, names)) or sum(map(len, contents)) > _MOST_BYTES // 2:
        return
    heads = json.dumps({"files": [(name, len(data)) for name, data in zip(names, contents, strict=True)]})
    data = heads.encode() + b"\n" + b"".join(contents)

    def add(table: _Table) -> None:
        _kept.replace(place / f"{key}{_kept.PLAN}", data)
        _kept.note_written(place, len(data))
        table.code.pop(key, None)
        table.code[key] = hashlib.sha256(data).hexdigest(), missing

    _change(place, add)


def _change(place: Path, change: Any) -> None:
    """Change the table, which other processes may have changed meanwhile."""
    for _ in range(_TRIES):
        try:
            with _kept.locked(place):
                change(_table.read(place))
                _kept.replace(place / TABLE, _table.written())
            return
        except BlockingIOError:
            time.sleep(_PAUSE)
        except OSError as error:
            _log.debug("pijit: no plan is kept: %s", error)
            return


def key_of_graph(graph: Graph, *asked: object) -> str:
    """Of a segment's graph, and of who was asked how; "": nothing is kept."""
    return _digest(graph.to_json(weights="none").encode(), repr(asked).encode()) if is_on() else ""


def winner(key: str) -> str:
    """Who won the turns: the name of a plan, "native", or "": nobody knows."""
    return _known().won.get(key, "")


def any_winner() -> bool:
    """Of some segment it is known who won."""
    return bool(_known().won)


def forget(key: str) -> None:
    """Who won cannot be had."""
    _known().won.pop(key, None)


def note_winners(place: Path, found: Mapping[str, str]) -> None:
    """Keep who won; the caller has the lock of the directory."""
    if all(_known().won.get(key) == name for key, name in found.items()):
        return
    table = _table.read(place)
    table.won |= found
    _kept.replace(place / TABLE, table.written())
