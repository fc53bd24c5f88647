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


def test_the_readme_has_the_table_that_is_printed():
    """Not its numbers, which are those of a machine."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        import compare
    finally:
        sys.path.remove(str(EXAMPLES))
    head, rule, *rest = compare.markdown([]).splitlines()
    table = [line for line in README.read_text().splitlines() if line.startswith("| ")]
    assert head in table
    assert rest == []
    names = [row.split(" | ")[0].removeprefix("| ") for row in table[table.index(head) + 2 :][: len(compare.NAMES)]]
    assert names == ["AlexNet step" if name == "AlexNet" else name for name in compare.NAMES]


def test_a_wrong_result_fails_the_comparison():
    sys.path.insert(0, str(EXAMPLES))
    try:
        import compare
    finally:
        sys.path.remove(str(EXAMPLES))
    row = {"model": "BERT"}
    assert list(compare.wrong({**row, "difference": 0})) == []
    for gap in (None, 1e-9, float("nan"), float("inf")):
        assert len(list(compare.wrong({**row, "difference": gap}))) == 1
