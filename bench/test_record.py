"""What a call costs that is recorded, beside the plain call that it would have been."""

import pytest
import torch

import pijit

pytestmark = pytest.mark.benchmark(group="record")


def test_plain(benchmark, model, tokens):
    with torch.no_grad():
        benchmark.pedantic(model, args=(tokens,), rounds=30)


def test_recorded(benchmark, model, tokens):
    pijit.jit(model)
    with torch.no_grad():
        benchmark.pedantic(model, args=(tokens,), setup=lambda: pijit.reset(model), rounds=30)
