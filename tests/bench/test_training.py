"""bench/training.py measures a step, and names the first thing whose bits differ."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import pijit

BENCH = Path(__file__).parents[2] / "bench"

pytestmark = pytest.mark.torch


@pytest.fixture
def training(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import training

    return training


def test_a_step_is_measured_and_equal(tmp_path):
    variables = {**os.environ, "PYTHONPATH": str(Path(pijit.__file__).parents[1]), "PIJIT_QUIET": "1"}
    command = [sys.executable, str(BENCH / "training.py"), "--only", "mlp_sgd", "--pairs", "2"]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    head, row = lines[0].split(), lines[1].split()
    assert (head[0], head[-1]) == ("step", "bits")
    assert (row[0], row[-1]) == ("mlp_sgd", "equal")
    assert lines[-1] == f"MLP: mlp_sgd {row[2]}"


def sides(training):
    """Two equal ones after two steps of Adam."""
    from training_steps import STEPS

    made = [training.Side(STEPS["mlp_clip_schedule"][1]) for _ in range(2)]
    for side in made:
        for batch in side.training.batches[:2]:
            side.returned.append(side.run(*batch))
    return made


def weight(side):
    return side.training.state["model"][0].weight


def turn_bit(tensor):
    tensor.detach().flatten().view(torch.int32)[0] ^= 1


CHANGES = {
    "model.0.weight": lambda side: turn_bit(weight(side)),
    "model.0.weight.grad": lambda side: turn_bit(weight(side).grad),
    "optimizer.state.0.exp_avg": lambda side: turn_bit(side.training.state["optimizer"].state[weight(side)]["exp_avg"]),
    "optimizer.param_groups[0].eps": lambda side: side.training.state["optimizer"].param_groups[0].update(eps=1e-7),
    "scheduler.last_epoch": lambda side: setattr(side.training.state["scheduler"], "last_epoch", 7),
    "returned[1]": lambda side: side.returned.__setitem__(1, side.returned[1] + 1e-9),
    "random": lambda side: side.random[8].add_(1),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_differs_is_named(name, training):
    expected, found = sides(training)
    assert training.differing(expected, found) == ""
    CHANGES[name](found)
    assert training.differing(expected, found) == name


def test_zeros_of_other_sign_and_gradients_that_are_not_there_differ(training):
    assert not training.same(0.0, -0.0)
    assert not training.same(torch.zeros(1), -torch.zeros(1))
    assert not training.same(torch.zeros(1), None)
    assert training.same(float("nan"), float("nan"))
    assert not training.same(torch.zeros(2, 2), torch.zeros(2, 2).t().contiguous().t())


def test_a_step_whose_bits_differ_ends_with_1(training, monkeypatch, capsys):
    ratios = dict.fromkeys(("cpu", "cpu noise", "wall", "wall noise", "first", "eager ms"), 1.0)
    counts = dict.fromkeys(("records", "replays", "exits", "opaque_calls"), 1)
    told = {"opaque": {}, "opaque in others": {}, "stops": [], "reason": "", "twin differs": ""}
    row = {"step": "mlp_sgd", "group": "MLP", **ratios, **counts, **told}
    rows = iter([{**row, "differs": ""}, {**row, "differs": "model.0.weight"}, {"step": "mlp_sgd", "failed": "died"}])
    monkeypatch.setattr(training, "in_fresh_process", lambda name, pairs: next(rows))
    monkeypatch.setattr(sys, "argv", ["training.py", "--only", "mlp_sgd"])
    assert [training.main() for _ in range(3)] == [0, 1, 1]
    assert "differ: model.0.weight" in capsys.readouterr().out
