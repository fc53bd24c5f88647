"""What compilers have made, what that took, and who won, for the next process (pijit/_kept.py has the directory).

1. Code is kept of backends whose code travels as files, under a digest of all that was asked for: the graph, weights
   that are part of it, options, versions, the processor.
2. Such code is run as it is, and no loader of machine code stands hostile bytes. So a table has the SHA-256 of each
   file. Directory, table and files are this user's alone, or nothing is read.
3. Who won the turns with native replay is kept by a digest of the segment's graph. The next process asks that backend
   alone, and measures nothing. Where it cannot be had, it is forgotten, and all are asked again.
4. The types of a segment's values are kept by a digest of its graph without types: to find them anew, torch imports
   what takes seconds beside a program that runs.
5. Whatever is wrong with these files, compilers compile, and a line of the log says why.
"""

import contextlib
import hashlib
import json
import logging
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pijit import _kept
from pijit.errors import ExportError
from pijit.graph.build import types
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
        code: by key: the digest of the file, and of code the nodes that torch runs.
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


def _read(key: str, suffix: str = _kept.PLAN) -> tuple[bytes, list[int]] | None:
    """What was kept under a key, and what the table has beside its digest; None: it is damaged, or not there."""
    known = _known().code.get(key)
    place = _kept.place()
    if known is None or place is None:
        return None
    digest, missing = known
    data = _kept.read_own(place / f"{key}{suffix}", _MOST_BYTES)
    if data is None or hashlib.sha256(data).hexdigest() != digest:
        _log.debug("pijit: what was kept as %s is damaged, or gone", key)
        return None
    return data, missing


def _write(place: Path, key: str, data: bytes, missing: list[int], suffix: str = _kept.PLAN) -> None:
    def add(table: _Table) -> None:
        _kept.replace(place / f"{key}{suffix}", data)
        _kept.note_written(place, len(data))
        table.code.pop(key, None)
        table.code[key] = hashlib.sha256(data).hexdigest(), missing

    _change(place, add)


def typed(graph: Graph, examples: Mapping[str, Any], dynamic: Any = None, free: Any = None) -> Graph:
    """As `pijit.graph.build.types.typed`, which imports what takes longer than all else that a kept plan needs.

    Types follow from the graph and from the forms of its tensors, so they are kept under a digest of these.
    """
    key = _key_of_types(graph, examples, dynamic, free) if is_on() else ""
    if key and (found := _read(key, _kept.TYPES)) is not None:
        with contextlib.suppress(ExportError):
            return replace(Graph.from_json(found[0]), data=graph.data)
    made = types.typed(graph, examples, dynamic, free)
    place = _kept.place()
    if key and place is not None:
        text = made.to_json(weights="none")
        if replace(Graph.from_json(text), data=made.data).to_json(weights="none") == text:
            _write(place, key, text.encode(), [], _kept.TYPES)
    return made


def _key_of_types(graph: Graph, examples: Mapping[str, Any], dynamic: Any, free: Any) -> str:
    """The digest; "": they are not kept."""
    forms = [(name, _form_of(tensor)) for each in (graph.data, examples) for name, tensor in each.items()]
    if any(form is None for _, form in forms):
        return ""
    asked = dynamic, None if free is None else sorted(free)
    with contextlib.suppress(ExportError):
        return _digest(b"types", graph.to_json(weights="none").encode(), repr((forms, asked)).encode())
    return ""


def _form_of(tensor: Any) -> tuple[Any, ...] | None:
    """All that is seen of a tensor without data; None: it is more than sizes and strides."""
    import torch

    if type(tensor) not in {torch.Tensor, torch.nn.Parameter} or tensor.layout is not torch.strided:
        return None
    numbers = (*tensor.shape, -1, *tensor.stride(), -1, tensor.storage_offset())
    return str(tensor.dtype), str(tensor.device), tensor.is_conj(), tensor.is_neg(), numbers


def fetch(key: str, made: Path) -> list[int] | None:
    """Put the code that was kept into a directory; the nodes that torch runs, or None: there is none."""
    if (found := _read(key)) is None:
        return None
    data, missing = found
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
    _write(place, key, heads.encode() + b"\n" + b"".join(contents), missing)


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
