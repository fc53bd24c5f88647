"""Programs in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pijit
from pijit.devices.single import VARIABLES

ROOT = Path(pijit.__file__).parents[1]


# Of the only process that torchrun would start; port 0 is a free one.
TORCHRUN = {**VARIABLES, "MASTER_PORT": "0"}


def start(words, cwd, **environment):
    """A run of python that has ended."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1", **environment}
    return subprocess.run([sys.executable, *words], cwd=cwd, env=variables, capture_output=True, text=True, timeout=500)


def run(words, cwd, **environment):
    """What a program prints; it ends well."""
    done = start(words, cwd, **environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
