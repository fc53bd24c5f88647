"""What a call costs that is replayed, beside the plain one."""

import statistics
from functools import partial

import pytest
import torch
from report import seconds
from rounds import Rounds

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


def test_length_never_seen(benchmark, model):
    """The first call with a length over the calls with it that follow is in `extra_info` as `ratio`."""
    import models

    pijit.jit(model)
    shown, again = [], []

    def next_length():
        if shown:
            again.append(statistics.median(seconds(lambda: model(shown[-1])) for _ in range(5)))
        shown.append(torch.randint(models.VOCABULARY, (1, models.TOKENS + 1 + len(shown))))
        return (shown[-1],), {}

    with torch.no_grad():
        for seed in range(10):
            model(models.input_ids(seed))
        before = len(pijit.traces(model))
        benchmark.pedantic(model, setup=next_length, rounds=30)
        next_length()
    benchmark.extra_info["new_traces"] = len(pijit.traces(model)) - before
    if benchmark.stats is not None:
        ratios = [first / later for first, later in zip(benchmark.stats.stats.data, again, strict=True)]
        benchmark.extra_info["ratio"] = statistics.median(ratios)


def test_generation(benchmark):
    """A small language model generates 32 tokens, greedily, after a prompt of its own each time. In `extra_info`: the
    `ratio` of all of generate() to the eager one, the `noise` of two eager ones, and how many `traces` there are.
    """
    models = {"eager": language_model(), "twin": language_model(), "jitted": pijit.jit(language_model())}
    rounds = Rounds(*models)

    def each_once():
        given = {"inputs": torch.randint(3, 128, (1, 8)), "max_new_tokens": 32, "do_sample": False, "pad_token_id": 0}
        expected = models["eager"].generate(**given)
        rounds.run({way: partial(model.generate, **given) for way, model in models.items()})
        assert torch.equal(models["jitted"].generate(**given), expected)

    rounds.measure(benchmark, each_once, rounds=30, warmup_rounds=5)
    benchmark.extra_info |= rounds.result() | {"traces": len(pijit.traces(models["jitted"]))}


def language_model():
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(n_layer=4, n_embd=128, n_head=4, vocab_size=128, n_positions=64)
    return GPT2LMHeadModel(config).eval()


def test_adamw(benchmark):
    """200 parameters, another learning rate at each step. In `extra_info`: its `ratio` to an eager step, the `noise` of
    two eager steps, and how many `traces` there are.
    """
    step = pijit.jit(lambda optimizer: optimizer.step())
    plain, twin, fast = optimizer_of_many(), optimizer_of_many(), optimizer_of_many()
    rounds = Rounds("eager", "twin", "jitted")

    def each_once():
        rounds.run({"eager": plain[0].step, "twin": twin[0].step, "jitted": lambda: step(fast[0])})
        for _, scheduler in (plain, twin, fast):
            scheduler.step()

    rounds.measure(benchmark, each_once, rounds=60, warmup_rounds=20)
    benchmark.extra_info |= rounds.result() | {"traces": len(pijit.traces(step))}
    for left, right in zip(plain[0].param_groups[0]["params"], fast[0].param_groups[0]["params"], strict=True):
        assert torch.equal(left, right)


def optimizer_of_many():
    """AdamW of 200 parameters of 64 x 64, and what changes its learning rate."""
    generator = torch.Generator().manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(64, 64, generator=generator)) for _ in range(200)]
    for parameter in parameters:
        parameter.grad = torch.randn(64, 64, generator=generator)
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    return optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.999)
