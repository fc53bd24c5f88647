"""Seconds that the export of a twelve-layer BERT takes, capture included: to json, fx and onnx.

A call of the model has been made before, so that torch has loaded what it needs; the first export of a process loads
more, and is `first` in `extra_info`. Bars: 0.2, 0.5 and 3 seconds.
"""

import time

import pytest
import torch

import pijit

pytestmark = pytest.mark.benchmark(group="export")

pytest.importorskip("transformers")
BARS = {"json": 0.2, "fx": 0.5, "onnx": 3.0}


@pytest.mark.parametrize("format", BARS)
def test_bert(benchmark, format, tokens, capsys):
    import models

    if format not in pijit.formats() or pijit.formats()[format] != "usable":
        pytest.skip(f"no format {format}")
    model = models.MODELS["BERT"]()

    def export():
        return pijit.export(model, tokens, format=format)

    with torch.no_grad():
        model(tokens)
        began = time.perf_counter()
        export()
        benchmark.extra_info["first"] = time.perf_counter() - began
        benchmark.pedantic(export, rounds=5)
    benchmark.extra_info["bar"] = BARS[format]
    if benchmark.stats is not None:
        with capsys.disabled():
            print(f"\nBERT to {format}: {benchmark.stats.stats.median:.3f} s (bar: {BARS[format]} s), ", end="")
            print(f"the first time {benchmark.extra_info['first']:.3f} s")


def test_capture(benchmark, tokens):
    """The graph alone."""
    import models

    model = models.MODELS["BERT"]()
    with torch.no_grad():
        model(tokens)
        graph = benchmark.pedantic(pijit.graph.capture, args=(model, tokens), rounds=5)
    assert not graph.breaks
