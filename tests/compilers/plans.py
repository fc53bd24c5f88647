"""Models for tests of backends, and the comparison of a plan with eager torch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest
import torch
from torch import nn

import pijit
from pijit.compilers import OWN, Backend, Plan
from pijit.graph import Graph, capture

STATES = pijit.backends()
COMPILE_LONG = {"inductor"}  # a C++ compiler runs for each graph


def backends(*wanted: str, slow: Collection[str] = ()) -> list[Any]:
    """The backends, or those that are wanted; those that are not installed are left out."""
    return [pytest.param(name, marks=marks(name, name in slow)) for name in wanted or OWN]


def backends_and(cases: Iterable[str]) -> list[Any]:
    """Each backend with each case; `make test` has those that compile for long with the first case alone."""
    every = list(cases)
    return [
        pytest.param(name, case, marks=marks(name, name in COMPILE_LONG and case != every[0]))
        for name in OWN
        for case in every
    ]


def marks(name: str, slow: bool) -> list[Any]:
    return [pytest.mark.skipif(STATES[name] != "usable", reason=STATES[name]), *[pytest.mark.slow] * slow]


class Convolutions(nn.Module):
    """Convolutions with batch normalisation, pooling and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.rest = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.BatchNorm2d(8), nn.Hardswish())
        self.last = nn.Linear(8, 5)
        for norm in (self.first[1], self.rest[1]):
            nn.init.uniform_(norm.running_mean)
            nn.init.uniform_(norm.running_var, 0.5, 1.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        return self.last((x + self.rest(x)).mean((2, 3)))


class Bert(nn.Module):
    """A small BERT, of which two tensors come out."""

    def __init__(self) -> None:
        super().__init__()
        import transformers

        sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
        self.inner = transformers.BertModel(transformers.BertConfig(vocab_size=128, **sizes))

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = self.inner(input_ids=ids)
        return found.last_hidden_state, found.pooler_output


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), nn.LayerNorm(4), nn.GELU())


def floats(*shape: int) -> Callable[[int], torch.Tensor]:
    return lambda seed: torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def tokens(*shape: int) -> Callable[[int], torch.Tensor]:
    return lambda seed: torch.randint(0, 128, shape, generator=torch.Generator().manual_seed(seed))


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], torch.Tensor], Callable[[int], torch.Tensor]]] = {
    "mlp": (mlp, floats(3, 8), floats(7, 8)),
    "bert": (Bert, tokens(2, 8), tokens(3, 11)),
    "convolutions": (Convolutions, floats(2, 3, 32, 32), floats(5, 3, 32, 32)),
}


def model(name: str) -> tuple[nn.Module, Callable[[int], torch.Tensor], Callable[[int], torch.Tensor]]:
    """A model with the same weights each time, and what makes its inputs, of two sizes."""
    torch.manual_seed(0)
    make, *inputs = MODELS[name]
    return make().eval(), *inputs


def captured(module: Any, *inputs: Any) -> Graph:
    with torch.no_grad():
        return capture(module, *inputs)


def agrees(backend: Backend, plan: Plan, module: Any, *inputs: torch.Tensor) -> None:
    """A call of the plan gives what eager torch gives, within what the backend promises."""
    with torch.no_grad():
        expected = module(*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    found = plan(*inputs)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        close(backend, one, other, plan.folded)


def close(backend: Backend, found: torch.Tensor, expected: torch.Tensor, folded: bool = False) -> None:
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    rtol, atol = backend.allowed(str(expected.dtype).removeprefix("torch."), folded)
    torch.testing.assert_close(found, expected, rtol=rtol, atol=atol)
