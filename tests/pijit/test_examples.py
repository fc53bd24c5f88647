"""The minimal examples of the README, run as a user would run them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pijit

EXAMPLES = Path(__file__).parents[2] / "examples"
README = EXAMPLES.parent / "README.md"

pytestmark = pytest.mark.torch


def run(*arguments, cwd, **environment):
    variables = {**os.environ, "PYTHONPATH": str(Path(pijit.__file__).parents[1]), **environment}
    done = subprocess.run([sys.executable, *arguments], cwd=cwd, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("name", ["jit_module.py", "jit_function.py", "jit_training_step.py"])
def test_jitted(name, tmp_path):
    """It is replayed, and without pijit it does the same."""
    done = run(EXAMPLES / name, cwd=tmp_path)
    assert "Status(state='replaying', reason='')" in done.stdout
    assert done.stderr == ""
    off = run(EXAMPLES / name, cwd=tmp_path, PIJIT="0")
    assert off.stdout.partition("Status")[0] == done.stdout.partition("Status")[0]
    assert "PIJIT=0 in the environment" in off.stdout


def test_unmodified(tmp_path):
    plain = run(EXAMPLES / "plain_script.py", cwd=tmp_path)
    under = run("-m", "pijit", "--report", EXAMPLES / "plain_script.py", cwd=tmp_path)
    assert under.stdout == plain.stdout
    assert re.match(r"pijit: the program took .*: .* (saved|lost) ", under.stderr)
    assert re.search(r"^ +\d+ +\d+ +[1-9]\d* .* classify \(plain_script\.py:\d+\)$", under.stderr, re.MULTILINE)


@pytest.mark.parametrize("name", ["jit_module.py", "jit_function.py", "jit_training_step.py", "plain_script.py"])
def test_the_readme_names_them(name):
    assert f"examples/{name}" in README.read_text()
