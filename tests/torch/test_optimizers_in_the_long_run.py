"""Optimizers that go another way from some step on: all bits as in plain Python, and in the long run no step is
recorded once more or left.
"""

# mypy: disable-error-code="no-untyped-call,no-any-return,func-returns-value,operator,unused-ignore"

from collections.abc import Callable
from typing import Any

import pytest
from taped_steps import Side, Step, batches, mlp, seen
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import ASGD, Adadelta, Adafactor, Adagrad, Muon, NAdam, RAdam, Rprop

import pijit

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "RAdam": RAdam,
    "RAdam with foreach": lambda given: RAdam(given, foreach=True),
    "NAdam": NAdam,
    "ASGD": lambda given: ASGD(given, t0=12),
    "Rprop": Rprop,
    "Adagrad": Adagrad,
    "Adadelta": lambda given: Adadelta(given, foreach=True),
    "Adafactor": Adafactor,
    "Muon": lambda given: Muon([each for each in given if each.dim() == 2]),
}


STEPS, SETTLED = 64, 52  # after SETTLED steps nothing is new


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps(name: str) -> None:
    def make() -> tuple[nn.Module, Step]:
        model = mlp(nn.Tanh())
        optimizer = OPTIMIZERS[name](model.parameters())

        def step(x: Tensor, y: Tensor) -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        return model, step

    plain, fast = Side(make, False), Side(make, True)
    told = []
    for at, args in enumerate(batches(STEPS, 5)):
        assert seen(fast.call(*args)) == seen(plain.call(*args))
        if at in (SETTLED, STEPS - 1):  # a look at the traces takes as long as twenty steps
            traces = pijit.traces(fast.run)
            told.append((len(traces), sum(trace.exits for trace in traces)))
    assert fast.state() == plain.state()
    assert told[0] == told[1]
