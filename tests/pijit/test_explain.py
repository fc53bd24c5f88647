"""explain: one call, and only one, and a report in three forms."""

import json

import pytest

import pijit


def test_it_runs_once():
    calls = []

    def f(x, *, y):
        calls.append(x)
        return x + y

    report = pijit.explain(f, 1, y=2)
    assert calls == [1]
    assert report.result == 3
    assert report.name.endswith("f")
    assert report.seconds > 0


def test_what_is_jitted_keeps_its_traces():
    calls = []
    fast = pijit.jit(lambda: calls.append(1))
    fast()
    before = len(pijit.traces(fast))
    pijit.explain(fast)
    assert calls == [1, 1]
    assert len(pijit.traces(fast)) >= before


def test_an_object_is_plain_again():
    class Adder:
        def __call__(self, x):
            return x + 1

    adder = Adder()
    assert pijit.explain(adder, 1).result == 2
    assert pijit.status(adder).reason == "neither jitted nor found under enable()"


def test_the_exception_is_the_functions_own():
    def f():
        raise KeyError("x")

    with pytest.raises(KeyError, match="x"):
        pijit.explain(f)


def test_forms():
    report = pijit.explain(lambda x: x, object())
    assert report.name in str(report)
    data = json.loads(report.to_json())
    assert set(data) == {"name", "status", "seconds", "counts", "inside", "stop", "advice", "miss", "traces"}
    assert "<pre>" in report.to_html()
    assert report._repr_html_() == report.to_html()
    assert "&lt;lambda&gt;" in report.to_html()


def test_refusals():
    with pytest.raises(pijit.errors.UsageError):
        pijit.explain(len, [])


@pytest.mark.torch
def test_a_tensor_function():
    import torch

    def f(x):
        y = x + 1
        return y * 2

    report = pijit.explain(f, torch.ones(3))
    assert torch.equal(report.result, torch.full((3,), 4.0))
    assert report.counts["records"] == 1
    assert len(report.traces) == 1
    text = str(report.traces[0])
    assert "test_explain.py" in text
    assert "# test_explain.py" in text
    assert "y * 2" in text
