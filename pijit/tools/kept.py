"""`python -m pijit cache`: what is kept for the next process."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pijit import _core, _kept
from pijit._config import config
from pijit.compilers import _kept_plans
from pijit.errors import CacheError


class _File(NamedTuple):
    path: Path
    size: int
    used: float  # seconds since the epoch
    environment: dict[str, str]
    function: str
    code: str
    traces: int
    why: str  # it is of no use


def run(words: list[str]) -> tuple[str, int]:
    """What the subcommand says, and its exit status."""
    what, *rest = words or ["info"]
    place = _kept.directory()
    if what == "explain" and len(rest) == 1:
        return _explain(place, rest[0]), 0
    if rest or what not in {"info", "clear", "verify"}:
        raise CacheError("cache takes info, clear, verify, or explain and the name of a function")
    if what == "clear":
        return _clear(place), 0
    return _info(place) if what == "info" else _verify(place)


def _info(place: Path) -> tuple[str, int]:
    all_files = list(_files(place))
    limit = f"at most {config.cache_limit:,}" if config.cache_limit else "no limit"
    lines = [f"{place}: {len(all_files)} files, {sum(each.size for each in all_files):,} bytes, {limit}"]
    if why := _kept.why_not(place):
        lines.append(f"not used: {why}")
    elif plans := _kept.files(place, _kept.PLAN):
        size = sum(facts.st_size for _, facts in plans)
        lines.append(f"code of compilers: {len(plans)} files, {size:,} bytes")
    last = _last(place)
    if last:
        lines.append(f"last run: {last['hits']} functions found here, {last['misses']} not")
    for each in all_files:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(each.used))
        lines.append(f"{each.path.name}  {each.size:>9,}  {when}  {each.traces} traces of {each.function}{_odd(each)}")
    return "\n".join(lines), 0


def _odd(file: _File) -> str:
    return f" ({file.why})" if file.why else ""


def _clear(place: Path) -> str:
    if why := _kept.why_not(place):
        raise CacheError(f"nothing is removed: {why}")
    with _kept.locked(place):
        all_files = _kept.files(place, _kept.SUFFIX, _kept.PLAN, _kept.TYPES)
        (place / _kept_plans.TABLE).unlink(missing_ok=True)
        for path, _ in all_files:
            path.unlink(missing_ok=True)
        for name in (_kept.LAST, _kept.SIZE):
            (place / name).unlink(missing_ok=True)
    return f"{place}: {len(all_files)} files removed"


def _verify(place: Path) -> tuple[str, int]:
    all_files = list(_files(place))
    damaged = [each for each in all_files if each.why]
    lines = [f"{each.path.name}: {each.why}" for each in damaged]
    lines.append(f"{len(all_files) - len(damaged)} of {len(all_files)} files are whole")
    return "\n".join(lines), int(bool(damaged))


def _explain(place: Path, function: str) -> str:
    last = _last(place)
    name = function.rpartition(".")[2]
    asked = [each for each in last.get("asked", []) if each["function"].rpartition(".")[2] == name]
    if not asked:
        return f"the last run did not look for {function}"
    return "\n".join(line for each in asked for line in _explained(place, last, each))


def _explained(place: Path, last: dict[str, Any], asked: dict[str, str]) -> Iterator[str]:
    if not asked["why"]:
        yield f"{asked['function']}: its traces were found ({asked['file']})"
        return
    yield f"{asked['function']}: {asked['why']}"
    now = {**json.loads(last["environment"]), "code": asked["code"]}
    for file in _files(place):
        if file.function != asked["function"] or file.path.name == asked["file"]:
            continue
        before = {**file.environment, "code": file.code}
        for name in sorted({*now, *before}):
            if now.get(name) != before.get(name):
                yield f"  {file.path.name} differs in {name}: {before.get(name)} there, {now.get(name)} in the last run"


def _last(place: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((place / _kept.LAST).read_text())
    except (OSError, ValueError):
        return {}
    return found


def _files(place: Path) -> Iterator[_File]:
    try:
        all_files = _kept.files(place, _kept.SUFFIX)
    except OSError:
        return
    for path, facts in all_files:
        try:
            with path.open("rb") as stream:
                lines = [stream.readline(1 << 20).decode() for _ in range(3)]
            made_under = lines[1].removeprefix("environment ").rstrip("\n")
            environment, root = json.loads(made_under), json.loads(lines[2].removeprefix("root "))
            texts, why = _core.read_kept(str(path), made_under)
            names = environment, root["function"], root["code"]
        except (OSError, ValueError, KeyError, TypeError):
            texts, why, names = [], "it is damaged", ({}, "?", "?")
        yield _File(path, facts.st_size, facts.st_mtime, *names, len(texts), why)
