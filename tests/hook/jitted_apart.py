"""What tests of the hook share: reports of roots, and programs in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pijit
from pijit import _core, api


def report(function: object) -> dict[str, Any]:
    return dict(_core.root_report(api.root_of(function)))


def plain(function: Any) -> Any:
    return function


def run_apart(program: str, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own, which neither crashes nor hangs."""
    environment = {**os.environ, "PYTHONPATH": str(Path(pijit.__file__).parents[1])}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode >= 0, (done.returncode, done.stdout[-1000:], done.stderr[-1000:])
    assert done.returncode not in {134, 139}, done.stderr[-1000:]
    return done
