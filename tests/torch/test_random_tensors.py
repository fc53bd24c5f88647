"""Programs with tensors written at random, plain and jitted, with a change in between."""

from __future__ import annotations

from collections.abc import Iterator

import observe
import pytest
import torch
from random_tensors import HERE, TensorDescriber, program
from small_programs import Program

COUNT = 60

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("no_collections")]  # Things tell when they die


@pytest.fixture(autouse=True)
def _described(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tensors too."""
    monkeypatch.setattr(observe, "Describer", TensorDescriber)
    yield
    torch.set_grad_enabled(True)


def numbered(seed: int) -> Program:
    torch.set_grad_enabled(True)
    return Program(f"random{seed}", frozenset(), HERE / f"{seed}.py", 0, program(seed))


@pytest.mark.parametrize("seed", range(COUNT))
def test_same(seed: int) -> None:
    import pijit
    from pijit import api

    for mode in observe.MODES:
        actual = observe.run(numbered(seed), mode, pijit.jit, api.root_of).entries
        assert actual == observe.run(numbered(seed), mode).entries, mode
