"""What a replay costs beside the same operators performed with nothing around them: neither guards nor Python."""

import bare
import pytest
import torch
from rounds import Rounds
from subjects import difference, tensors_in

import pijit

pytestmark = pytest.mark.benchmark(group="replay")


def test_over_bare(benchmark, request, model, tokens):
    """In `extra_info`, as medians of the ratios of a round: `steady` is pijit over eager, `bare` the operators alone
    over eager, `over_bare` pijit over them, `noise` eager over eager; and how many `operators` there are.
    """
    import models

    twin, fast, source = (models.MODELS[request.node.callspec.params["model"]]() for _ in range(3))
    operators = bare.operators_of(source, tokens)
    replay = bare.program(operators)
    pijit.jit(fast)
    with torch.no_grad():
        for seed in range(3):
            expected = tensors_in(model(models.input_ids(seed)))
            assert difference(expected, replay([models.input_ids(seed)])) == 0
            assert difference(expected, tensors_in(fast(models.input_ids(seed)))) == 0
        rounds = Rounds("eager", "twin", "jitted", "bare")
        calls = {
            "eager": lambda: model(tokens),
            "twin": lambda: twin(tokens),
            "jitted": lambda: fast(tokens),
            "bare": lambda: replay([tokens]),
        }
        rounds.measure(benchmark, lambda: rounds.run(calls), rounds=720, warmup_rounds=24)
    (trace,) = pijit.traces(fast)
    performed, recorded = bare.names(operators.graph), bare.names_recorded(trace)
    assert recorded <= performed
    benchmark.extra_info |= {
        "steady": rounds.ratio("jitted", "eager"),
        "bare": rounds.ratio("bare", "eager"),
        "over_bare": rounds.ratio("jitted", "bare"),
        "noise": rounds.ratio("twin", "eager"),
        "operators": {"bare": performed.total(), "recorded": recorded.total(), "nodes of the trace": len(trace.nodes)},
    }
