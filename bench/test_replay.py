"""What a call costs that is replayed, beside the plain one."""

import pytest
import torch

import pijit

pytestmark = pytest.mark.benchmark(group="replay")


def test_plain(benchmark, model, tokens):
    with torch.no_grad():
        benchmark(model, tokens)


def test_replayed(benchmark, model, tokens):
    pijit.jit(model)
    with torch.no_grad():
        benchmark.pedantic(model, args=(tokens,), rounds=200, warmup_rounds=5)
    benchmark.extra_info["state"] = pijit.status(model).state


def test_training_step(benchmark):
    import alexnet

    model = alexnet.build()
    start = {name: value.clone() for name, value in model.state_dict().items()}
    arguments = model, alexnet.optimizer_of(model), alexnet.images()
    step = pijit.jit(alexnet.step)
    benchmark.pedantic(
        step, args=arguments, setup=lambda: model.load_state_dict(start) and None, rounds=10, warmup_rounds=2
    )
    benchmark.extra_info["state"] = pijit.status(step).state
