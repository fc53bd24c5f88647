"""What it costs to find that a trace fits: calls with next to no work, and with few or many things to guard.

Where calls take microseconds, the jitted benchmark keeps in `extra_info` the `ratio` to plain calls and the `noise` of
plain calls to others, of rounds of a thousand calls each.
"""

import random
from collections.abc import Iterator

import pytest
import report
import torch
from rounds import Rounds, many
from torch import Tensor, nn

import pijit

pytestmark = pytest.mark.benchmark(group="guard")

LAYERS = 228  # modules in twelve layers of BERT
ROUNDS = 300


class Shift(nn.Module):
    """A module that costs one small operator and a few reads."""

    def __init__(self) -> None:
        super().__init__()
        self.by = nn.Parameter(torch.zeros(1))
        self.active = True

    def forward(self, x: Tensor) -> Tensor:
        """x, shifted if active."""
        return x + self.by if self.active else x


def increment(x: Tensor) -> Tensor:
    """The least that can be replayed."""
    return x + 1


def in_rounds(calls, jitted=("jitted",)):
    """The `ratio` and the `noise` of these calls: eager, twin and jitted."""
    rounds = Rounds(*calls, jitted=jitted)
    for _ in range(ROUNDS):
        rounds.run(calls)
    return rounds.result()


@pytest.mark.parametrize("way", ["plain", "jitted"])
def test_one_operator(benchmark, way):
    function, x = pijit.jit(increment) if way == "jitted" else increment, torch.ones(4)
    with torch.no_grad():
        benchmark(function, x)
        if way == "jitted":
            eager, twin = (lambda x: x + 1 for _ in range(2))
            calls = {"eager": many(eager, x), "twin": many(twin, x), "jitted": many(function, x)}
            benchmark.extra_info |= in_rounds(calls)


@pytest.mark.parametrize("way", ["plain", "jitted"])
def test_small_linear(benchmark, way):
    layer, x = nn.Linear(8, 8), torch.ones(1, 8)
    if way == "jitted":
        pijit.jit(layer)
    with torch.no_grad():
        benchmark(layer, x)
        if way == "jitted":
            calls = {"eager": many(nn.Linear(8, 8), x), "twin": many(nn.Linear(8, 8), x), "jitted": many(layer, x)}
            benchmark.extra_info |= in_rounds(calls)


@pytest.mark.parametrize("way", ["plain", "jitted"])
def test_many_modules(benchmark, way):
    model = nn.Sequential(*(Shift() for _ in range(LAYERS)))
    if way == "jitted":
        pijit.jit(model)
    with torch.no_grad():
        benchmark(model, torch.ones(1))


def test_second_shape(benchmark):
    function = pijit.jit(increment)
    batches = [torch.ones(4), torch.ones(2, 3)]

    def both() -> None:
        for batch in batches:
            function(batch)

    with torch.no_grad():
        benchmark(both)


@pytest.fixture
def many_traces() -> Iterator[None]:
    """A function may have a thousand traces."""
    before = pijit.config.max_traces
    pijit.config.max_traces = 1000
    yield
    pijit.config.max_traces = before


@pytest.mark.parametrize("count", [1, 500])
def test_hit_among_traces(benchmark, many_traces, count):
    """The `ratio` is that of 500 traces to one, of rounds of 500 calls."""
    hits = hits_among(count)
    benchmark(hits)
    if count > 1:
        ways = {"eager": hits_among(1), "twin": hits_among(1), "jitted": hits}
        benchmark.extra_info |= in_rounds(ways, jitted=tuple(ways))


def hits_among(count):
    """500 calls of a function with that many traces, of any of them."""

    def scale(x: Tensor, mode: str) -> Tensor:
        return x * len(mode)

    function, x = pijit.jit(scale), torch.ones(4)
    modes = [f"mode {i}" for i in range(count)]
    for mode in modes:
        function(x, mode)
    assert len(pijit.traces(function)) == count
    calls = random.Random(0).choices(modes, k=500)

    def hits() -> None:
        for mode in calls:
            function(x, mode)

    return hits


@pytest.mark.parametrize("propagation", [True, False], ids=["pruned", "unpruned"])
def test_model(benchmark, request, model, tokens, propagation):
    """`extra_info["guards"]` has the counts and times of the guards alone."""
    name = request.node.callspec.params["model"]
    pijit.config.constant_propagation = propagation
    try:
        pijit.jit(model)
        with torch.no_grad():
            benchmark.extra_info["guards"] = report.of_pijit(
                model, tokens, name if propagation else f"{name}, without constant propagation"
            )
            benchmark.pedantic(model, args=(tokens,), rounds=50, warmup_rounds=2)
    finally:
        pijit.config.constant_propagation = True


def test_model_of_dynamo(benchmark, request, model, tokens):
    """The same of torch.compile, backend eager."""
    name = request.node.callspec.params["model"]
    with torch.no_grad():
        benchmark.extra_info["guards"] = report.of_dynamo(model, tokens, f"{name}, torch.compile")
        benchmark.pedantic(model, args=(tokens,), rounds=5)
    torch.compiler.reset()
