"""Programs of bench/programs/ that take no package but torch print under pijit what they print without it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pijit

PROGRAMS = Path(__file__).parents[2] / "bench" / "programs"
NAMES = ("beam_search", "cnn_epoch", "mcts", "named_batches", "seq2seq", "trainer_class")

pytestmark = pytest.mark.torch


def run(*arguments, cwd, **environment):
    variables = {**os.environ, "PYTHONPATH": str(Path(pijit.__file__).parents[1]), "PIJIT_QUIET": "1", **environment}
    return subprocess.run(
        [sys.executable, *map(str, arguments)], cwd=cwd, env=variables, capture_output=True, text=True
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
def test_prints_the_same(name, tmp_path):
    """At the size of a moment, a hash of the weights included."""
    size = {"PIJIT_BENCH_SCALE": "0.03"}
    plain = run(PROGRAMS / f"{name}.py", cwd=tmp_path, **size)
    assert plain.returncode == 0, plain.stderr
    assert plain.stdout.splitlines()[-1].startswith("weights ")
    under = run("-m", "pijit", PROGRAMS / f"{name}.py", cwd=tmp_path, **size)
    assert under.stdout == plain.stdout, under.stderr
    assert '"replays"' in under.stderr, "pijit was not there"


def test_the_runner_compares_and_sums_up(tmp_path):
    done = run(PROGRAMS / "run.py", *"--only hmm --scale 0.02 --pairs 1 --sides jit".split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    head, row, total = done.stdout.splitlines()
    assert head.split()[:3] == ["program", "plain", "s"]
    assert row.split()[0] == "hmm"
    ratio = row.split()[3]  # of jit: the column before is empty
    assert total.startswith(f"pijit.jit(): geometric mean {ratio}, ")
    assert total.endswith(f"worst {ratio} (hmm)")


def test_a_program_that_prints_something_else_is_told(monkeypatch):
    monkeypatch.syspath_prepend(str(PROGRAMS))
    import run as runner

    printed = iter([b"loss 1.0\nweights a\n", b"loss 1.0\nweights b\n", b"loss 1.0\nweights a\n"])
    times = {"thread": 1.0, "records": 1, "replays": 2, "exits": 0, "opaque": 0}
    monkeypatch.setattr(runner, "run", lambda *arguments: (next(printed), times))
    row = runner.measure("hmm", ["pijit"], 1.0, 1)
    assert row.wrong == "prints something else: 'weights a' and 'weights b'"
    assert row.ratio("pijit") is None
    assert runner.summary([row], "pijit") == "python -m pijit: no program"
