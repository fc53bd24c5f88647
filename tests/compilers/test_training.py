"""A whole training step as a plan: the parameters, gradients and the optimizer's state are those of plain steps."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from plans import backends_and
from torch import nn

from pijit.compilers import get
from pijit.graph import capture

pytestmark = pytest.mark.torch


def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4))


def norms() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (2, 2, 2)),
        nn.Conv2d(2, 4, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(4, 4),
    )


def momentum(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=0.01)


def batch(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(5, 8, generator=generator), torch.randint(0, 4, (5,), generator=generator)


def state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """Parameters, buffers, gradients and the state of the optimizer."""
    found = dict(model.named_buffers())
    for name, parameter in model.named_parameters():
        found[name] = parameter.detach()
        if parameter.grad is not None:
            found[f"{name}.grad"] = parameter.grad
        for key, value in optimizer.state[parameter].items():
            if isinstance(value, torch.Tensor):
                found[f"{name}.{key}"] = value
    return found


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[nn.Module], torch.optim.Optimizer]]] = {
    "mlp": (mlp, momentum),
    "adamw": (mlp, adamw),
    "norms": (norms, momentum),
    "convolutions": (convolutions, momentum),
}
# Steps with operators that a backend has not got: torch runs them in between.
LACKS = {
    ("torchscript", "adamw"),
    ("torchscript", "norms"),
    ("torchscript", "convolutions"),
    ("iree", "adamw"),
    ("iree", "norms"),
    ("openvino", "norms"),
}


@pytest.mark.parametrize(("backend", "case"), backends_and(CASES))
def test_steps_of_a_plan_are_those_of_eager_torch(backend: str, case: str) -> None:
    compiler = get(backend)
    torch.manual_seed(0)
    make, optimize = CASES[case]
    model = make()
    optimizer = optimize(model)
    for seed in range(2):
        step(model, optimizer, *batch(seed))
    graph = capture(step, model, optimizer, *batch(2))
    plain = copy.deepcopy(model)
    plain_optimizer = optimize(plain)
    plain_optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    if not compiler.training:
        return
    plan = compiler.compile(graph)
    assert bool(plan.left_out) is ((backend, case) in LACKS)
    for said in plan.left_out:
        assert re.search(r"test_training.py:\d+: backend '.*' has not got", said)
    for seed in range(3, 6):
        expected = step(plain, plain_optimizer, *batch(seed))
        count = len(plan.results) - len(plan.updates)
        results = plan(*batch(seed))
        with torch.no_grad():
            for name, held in zip(plan.updates, results[count:], strict=True):
                graph.data[name].copy_(held)
        if not plan.shares_weights:
            plan.rebind(graph.data)
        close(compiler, results[0], expected)
        found = state(model, optimizer)
        for name, tensor in state(plain, plain_optimizer).items():
            close(compiler, found[name], tensor, name)


def close(backend: Any, found: torch.Tensor, expected: torch.Tensor, name: str = "loss") -> None:
    assert found.dtype == expected.dtype
    rtol, atol = backend.allowed(str(expected.dtype).removeprefix("torch."))
    torch.testing.assert_close(found, expected, rtol=rtol, atol=atol, msg=lambda said: f"{name}: {said}")
