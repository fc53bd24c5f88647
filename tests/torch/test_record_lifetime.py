"""What a program drops dies right there, as in eager mode, although there are traces: no collection is waited for."""

from __future__ import annotations

import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pijit

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("no_collections")]

Jit = Callable[[Any], Any]


class Net(nn.Module):
    """Containers, a buffer and a hook."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 4))
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Linear(4, 2)})
        self.register_buffer("scale", torch.ones(4))
        self.heads["a"].register_forward_hook(lambda module, args, out: out * 2)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        hidden = self.layers(x) * self.scale
        return tuple(head(hidden) for head in self.heads.values())


def data(seed: int = 0) -> Tensor:
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(seed))


def parts(model: nn.Module) -> list[weakref.ref[Any]]:
    return list(map(weakref.ref, (*model.modules(), *model.parameters(), *model.buffers())))


def alive(watched: list[weakref.ref[Any]]) -> list[Any]:
    return [thing() for thing in watched if thing() is not None]


@pytest.fixture(params=["eager", "jitted"])
def jit(request: pytest.FixtureRequest) -> Jit:
    """pijit, or nothing: a test that needs a collection in eager mode would show it."""
    return pijit.jit if request.param == "jitted" else lambda what: what


def replayed(what: Any, jit: Jit) -> None:
    """There is a trace, and it serves."""
    assert jit is not pijit.jit or any(trace.replays for trace in pijit.traces(what))


@pytest.mark.parametrize("grad", [False, True])
def test_model(jit: Jit, grad: bool) -> None:
    before = pijit.stats()["traces"]
    model = jit(Net())
    with torch.set_grad_enabled(grad):
        for seed in range(4):
            model(data(seed))
    replayed(model, jit)
    watched = parts(model)
    del model
    assert alive(watched) == []
    assert pijit.stats()["traces"] == before


@pytest.mark.parametrize("where", ["argument", "attribute", "cell", "list"])
def test_model_of_a_function(jit: Jit, where: str) -> None:
    """The traces outlive the model."""
    cell = Net()
    holder = SimpleNamespace(model=cell, models=[cell])
    uses = {
        "argument": lambda x, *given: given[0](x),
        "attribute": lambda x: holder.model(x),
        "cell": lambda x: cell(x),
        "list": lambda x: [model(x) for model in holder.models],
    }
    call = jit(uses[where])
    with torch.no_grad():
        for seed in range(4):
            call(data(seed), *([cell] if where == "argument" else []))
    replayed(call, jit)
    watched = parts(cell)
    cell = holder.model = holder.models = None
    assert alive(watched) == []
    assert jit is not pijit.jit or len(pijit.traces(call)) > 0


def test_one_model_after_another(jit: Jit) -> None:
    call = jit(lambda model, x: model(x))
    for _ in range(6):
        model = Net()
        for seed in range(4):
            call(model, data(seed))
        watched = parts(model)
        del model
        assert alive(watched) == []
    replayed(call, jit)


@pytest.mark.parametrize("grad", [False, True])
def test_arguments_and_results(jit: Jit, grad: bool) -> None:
    model = jit(Net())
    with torch.set_grad_enabled(grad):
        for seed in range(4):
            x = data(seed)
            results = model(x)
            watched = list(map(weakref.ref, (x, *results)))
            del x, results
            assert alive(watched) == []
    replayed(model, jit)


def test_what_is_replaced(jit: Jit) -> None:
    """Parameters, buffers and modules for which others are put in."""
    model = jit(Net())
    with torch.no_grad():
        for _ in range(3):
            for seed in range(4):
                model(data(seed))
            watched = [model.layers[0].weight, model.scale, model.layers[3], model.heads["b"].bias]
            watched = list(map(weakref.ref, watched))
            model.layers[0].weight = nn.Parameter(torch.ones(4, 4))
            model.scale = torch.zeros(4)
            model.layers[3] = nn.Linear(4, 4)
            model.heads["b"].bias = None
            assert alive(watched) == []
            model.heads["b"].bias = nn.Parameter(torch.zeros(2))
    replayed(model, jit)


def test_training(jit: Jit) -> None:
    """Gradients are dropped at each step, and the model at the end; an optimizer is part of a cycle."""

    def train(model: nn.Module, x: Tensor) -> Tensor:
        model.zero_grad()
        loss = sum(out.square().sum() for out in model(x))
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 1e-3 * parameter.grad
        return loss.detach()

    step, model = jit(train), Net()
    for seed in range(6):
        watched = [weakref.ref(parameter.grad) for parameter in model.parameters() if parameter.grad is not None]
        step(model, data(seed))
        assert alive(watched) == []
    replayed(step, jit)
    watched = parts(model)
    del model
    assert alive(watched) == []


DEAD_CALLABLES = """
import gc, zlib, torch, pijit

class Holder: ...

h = Holder()

def of_an_attribute(x):
    return h.call(x), x

def of_a_global(x):
    return G(x), x

for function in (of_an_attribute, of_a_global):
    jitted = pijit.jit(function)
    for _ in range(6):
        h.call = G = zlib.compressobj().compress
        assert jitted(b"a" * 10) == (bytes.fromhex("789c"), b"a" * 10)
        del h.call, G
        gc.collect()
print("done")
"""


def test_what_an_opaque_call_has_called_is_dead() -> None:
    """Nothing asks it again when the trace is made ready for the next call."""
    environment = os.environ | {"PYTHONMALLOC": "debug"}  # what is freed is overwritten
    made = subprocess.run(
        [sys.executable, "-c", DEAD_CALLABLES], capture_output=True, text=True, env=environment, check=False
    )
    assert (made.returncode, made.stdout) == (0, "done\n"), made.stderr
