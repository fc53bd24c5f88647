"""Runs programs in processes of their own, each program with the cache that it is given.

A process imports torch once and runs many programs, one after the other. Each has a `__main__` of its own, is run
jitted and then plainly, and what it changes in torch is put back. What it has recorded is written when it ends.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

# What each program begins with.
_HEAD = """
import json, os, sys
import torch
import pijit
from pijit import _core, config

torch.manual_seed(0)
torch.set_num_threads(1)


def words(value):
    if isinstance(value, torch.Tensor):
        return [str(value.dtype), list(value.shape), value.detach().flatten().tolist()]
    if isinstance(value, (list, tuple)):
        return [words(each) for each in value]
    return repr(value)

"""
# And, in a process for it alone, with what `tell` says.
_ALONE = """
config.cache = os.environ.get("KEEP", "1") == "1"


def tell(*results):
    stats = pijit.stats()
    keeping = _core.keeping()
    print(json.dumps({
        "results": [words(each) for each in results],
        "records": stats["records"],
        "replays": stats["replays"],
        "hits": keeping["hits"],
        "misses": keeping["misses"],
    }))
"""
ALONE = _HEAD + _ALONE
_ENDS = "--- end of the program"


def run(program: str, cache: Path, **environment: str) -> dict[str, Any]:
    """What `tell` says at the end of the program, and "log": what it wrote to standard error."""
    made = {**os.environ, "PIJIT_CACHE_DIR": str(cache), "PIJIT_LOG": "record", **environment}
    done = subprocess.run(
        [sys.executable, "-c", ALONE + program], env=made, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**told, "log": done.stderr}


def plain(program: str, cache: Path, **environment: str) -> Any:
    """The results under plain Python."""
    return run(program, cache, KEEP="0", PIJIT="0", **environment)["results"]


def run_all(programs: Sequence[tuple[str, Path]], **environment: str) -> list[dict[str, Any]]:
    """What each of the programs tells in one process, each with its cache; "plain": its results under plain Python."""
    made = {**os.environ, "PIJIT_LOG": "record", **environment}
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps([(program, str(cache)) for program, cache in programs]),
        env=made,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    told: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    logs = done.stderr.split(_ENDS)
    assert len(told) == len(logs) - 1 == len(programs)
    return [{**each, "log": log} for each, log in zip(told, logs, strict=False)]


class _Process:
    """The process that runs them."""

    def __init__(self) -> None:
        import torch

        import pijit
        from pijit import _core, _kept, config

        self.core, self.kept, self.config, self.pijit = _core, _kept, config, pijit
        self.jit = pijit.jit
        self.places: tuple[Any, ...] = (torch, torch.nn.functional, torch.Tensor)
        torch.set_num_threads(1)

    def counts(self) -> dict[str, int]:
        stats, keeping = self.pijit.stats(), self.core.keeping()
        return {name: int({**stats, **keeping}[name]) for name in ("records", "replays", "hits", "misses")}

    @contextlib.contextmanager
    def unchanged(self) -> Iterator[None]:
        """What is changed in torch meanwhile is put back."""
        before = [dict(vars(place)) for place in self.places]
        try:
            yield
        finally:
            for place, held in zip(self.places, before, strict=True):
                for name, value in vars(place).copy().items():
                    if name in held and value is not held[name]:
                        setattr(place, name, held[name])
                    elif name not in held and isinstance(place, type):  # a module may have been imported into torch
                        delattr(place, name)

    def results(self, program: str) -> Any:
        """What the program gives to `tell`."""
        told: list[Any] = []
        main = sys.modules["__main__"] = ModuleType("__main__")
        with self.unchanged(), contextlib.suppress(SystemExit):
            exec(_HEAD, vars(main))
            vars(main)["tell"] = lambda *results: told.append([vars(main)["words"](each) for each in results])
            exec(program, vars(main))
        (found,) = told
        return found

    def run(self, program: str, cache: str) -> dict[str, Any]:
        os.environ["PIJIT_CACHE_DIR"] = cache
        self.config.cache = True
        before = self.counts()
        results = self.results(program)
        counts = {name: value - before[name] for name, value in self.counts().items()}
        self.kept.write()
        self.config.cache = False
        sys.modules["__main__"] = ModuleType("__main__")
        gc.collect()
        assert not self.core.kept_roots(), "its functions are alive, and would be written into the next cache"
        self.pijit.jit = lambda function=None, **options: function
        try:
            return {"results": results, **counts, "plain": self.results(program)}
        finally:
            self.pijit.jit = self.jit


if __name__ == "__main__":
    process = _Process()
    for each in json.load(sys.stdin):
        print(json.dumps(process.run(*each)), flush=True)
        print(_ENDS, file=sys.stderr, flush=True)
