"""Runs a program in two processes, one after the other, with one cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

# Runs `call()` of the program plainly and jitted, and says what came of it and what pijit did.
_HEAD = """
import json, os, sys
import torch
import pijit
from pijit import _core, config

torch.manual_seed(0)
torch.set_num_threads(1)
config.cache = os.environ.get("KEEP", "1") == "1"


def words(value):
    if isinstance(value, torch.Tensor):
        return [str(value.dtype), list(value.shape), value.detach().flatten().tolist()]
    if isinstance(value, (list, tuple)):
        return [words(each) for each in value]
    return repr(value)


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


def run(program: str, cache: Path, **environment: str) -> dict[str, Any]:
    """What `tell` says at the end of the program, and "log": what it wrote to standard error."""
    made = {**os.environ, "PIJIT_CACHE_DIR": str(cache), "PIJIT_LOG": "record", **environment}
    done = subprocess.run(
        [sys.executable, "-c", _HEAD + program], env=made, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**told, "log": done.stderr}


def plain(program: str, cache: Path, **environment: str) -> Any:
    """The results under plain Python."""
    return run(program, cache, KEEP="0", PIJIT="0", **environment)["results"]


def run_twice(program: str, cache: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both processes give what plain Python gives."""
    expected = plain(program, cache)
    first, second = run(program, cache), run(program, cache)
    assert first["results"] == expected
    assert second["results"] == expected
    return first, second
