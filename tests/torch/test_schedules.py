"""Training steps whose schedule gives an int now and then: several models share what goes on in the middle of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler as schedules

import pijit

pytestmark = pytest.mark.torch

MODELS, CALLS, LAST = 3, 150, 15


def step() -> tuple[Callable[[Any, Any], Any], Any]:
    """A training step, and its optimizer; the factor of the schedule is an int in each third call."""
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda turn: 1 if turn % 3 == 0 else 0.5 + turn / 1000)

    def run(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss

    return run, optimizer


def trained(jitted: bool) -> tuple[list[list[Any]], list[list[dict[str, float]]]]:
    """Of each model the losses and learning rates, and what the counters of the last calls show."""
    torch.manual_seed(3)
    found: list[list[Any]] = []
    counted: list[list[dict[str, float]]] = []
    for _ in range(MODELS):
        run, optimizer = step()
        fast = pijit.jit(run) if jitted else run
        seen: list[Any] = []
        rows: list[dict[str, float]] = []
        for _ in range(CALLS):
            before = pijit.stats()
            seen.append((fast(torch.randn(4, 8), torch.randn(4, 1)).item(), optimizer.param_groups[0]["lr"]))
            after = pijit.stats()
            rows.append({name: after[name] - before[name] for name in ("records", "replays", "guard_failures")})
        found.append(seen)
        counted.append(rows[-LAST:])
    return found, counted


def test_each_model_has_its_traces_in_the_middle() -> None:
    """The second model's recordings there were refused for ever, since those of the first one came to more."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIJIT_")}
    done = subprocess.run(
        [sys.executable, __file__],
        check=True,
        stdout=subprocess.PIPE,
        env={**environment, "PIJIT_GIVE_UP": "0", "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    found, plain, counted = json.loads(done.stdout)
    assert found == plain
    assert all(row["replays"] == 1 for rows in counted for row in rows)
    assert sum(row["records"] for rows in counted for row in rows) <= 2
    assert sum(row["guard_failures"] for row in counted[1]) <= 1


SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "StepLR": lambda o: schedules.StepLR(o, 7),
    "MultiStepLR": lambda o: schedules.MultiStepLR(o, [5, 5, 11, 12, 30], 0.5),
    "CosineAnnealingWarmRestarts": lambda o: schedules.CosineAnnealingWarmRestarts(o, 6),
    "OneCycleLR": lambda o: schedules.OneCycleLR(o, 0.3, total_steps=100),
    "ConstantLR": lambda o: schedules.ConstantLR(o, 0.3, 9),
    "LinearLR": lambda o: schedules.LinearLR(o, 0.3, 1.0, 15),
    "ExponentialLR": lambda o: schedules.ExponentialLR(o, 0.97),
    "CosineAnnealingLR": lambda o: schedules.CosineAnnealingLR(o, 13),
    "PolynomialLR": lambda o: schedules.PolynomialLR(o, 25, 1.5),
    "CyclicLR": lambda o: schedules.CyclicLR(o, 0.01, 0.1, 5),
    "LambdaLR": lambda o: schedules.LambdaLR(o, lambda turn: 0.95**turn),
    "MultiplicativeLR": lambda o: schedules.MultiplicativeLR(o, lambda turn: 0.95),
    "SequentialLR": lambda o: schedules.SequentialLR(
        o, [schedules.ConstantLR(o, 0.1, 4), schedules.ExponentialLR(o, 0.9)], [8]
    ),
    "ChainedScheduler": lambda o: schedules.ChainedScheduler(
        [schedules.ConstantLR(o, 0.1, 4), schedules.ExponentialLR(o, 0.9)], o
    ),
}
STEPS, TAIL = 120, 40


def steps_of(name: str, jitted: bool) -> tuple[list[Any], dict[str, float], dict[str, float]]:
    """What the steps give, and what counters show of all of them and of the last ones."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = SCHEDULES[name](optimizer)

    def step(x: torch.Tensor) -> Any:
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss.item(), list(schedule.get_last_lr())

    fast = pijit.jit(step) if jitted else step
    found, marks = [], []
    for i in range(STEPS if name != "OneCycleLR" else 99):
        if i in (0, STEPS - TAIL):
            marks.append(dict(pijit.stats()))
        found.append(fast(torch.full((4, 4), i / 10)))
    marks.append(dict(pijit.stats()))
    first, middle, last = marks
    return found, {k: last[k] - first[k] for k in last}, {k: last[k] - middle[k] for k in last}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_are_recorded_a_few_times(name: str) -> None:
    plain, _, _ = steps_of(name, False)
    fast, every, last = steps_of(name, True)
    assert fast == plain
    assert every["records"] <= 14
    assert last["records"] <= 5
    assert last["replays"] >= (TAIL if name != "OneCycleLR" else 19) - last["records"]


if __name__ == "__main__":
    torch.set_num_threads(1)
    made, counters = trained(jitted=True)
    print(json.dumps([made, trained(jitted=False)[0], counters]))
