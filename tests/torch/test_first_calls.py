"""What functions of torch make at their first calls, and keep, costs no recording."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.torch

# In a process of its own: the optimizer's wrappers have been called in this one.
STEPS = """
import json, sys
import torch
import torch._dynamo
import pijit

torch.manual_seed(0)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def step(x):
    optimizer.zero_grad()
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
    return loss.item()


def kept(name):
    return getattr(getattr(torch.optim.Optimizer, name).__wrapped__, "__dynamo_disable", None)


before = kept("zero_grad") is None
run = pijit.jit(step) if sys.argv[1] == "jitted" else step
losses = [run(torch.full((3, 4), 0.1 * i)) for i in range(8)]
made = kept("zero_grad")
print(json.dumps({
    "before": before,
    "losses": losses,
    "weight": model.weight.tolist(),
    "made": [made.__qualname__, made.__module__, made._torchdynamo_wrapper_id == id(made),
             made._torchdynamo_orig_callable is torch.optim.Optimizer.zero_grad.__wrapped__],
    "stops": [trace.stop is not None for trace in pijit.traces(run)] if run is not step else [],
    "records": pijit.stats()["records"],
}))
"""


def ran(how: str) -> dict[str, object]:
    environment = os.environ | {"PIJIT_GIVE_UP": "0", "PIJIT_RECORD_BUDGET": "0"}
    command = [sys.executable, "-c", STEPS, how]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    given: dict[str, object] = json.loads(done.stdout)
    return given


def test_the_first_step_is_recorded_whole() -> None:
    plain, fast = ran("plain"), ran("jitted")
    assert fast["before"]
    for what in ("before", "losses", "weight", "made"):
        assert fast[what] == plain[what]
    assert not any(fast["stops"])  # type: ignore[arg-type, call-overload]
