"""Compilers that have a tolerance are given replacements; what comes out lies in memory as in eager execution."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from counted import Counting, registered
from torch.nn import functional as F

import pijit
from pijit import compilers
from pijit.compilers import Options, market
from pijit.graph import capture

pytestmark = pytest.mark.torch


@pytest.fixture
def counting() -> Iterator[Counting]:
    yield from registered("counting")


def heads(queries: int, keys: int, *batch: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(*batch, length, 8, generator=generator) for length in (queries, keys, keys)]


def scaled_by_the_length(q: Any, k: Any, v: Any) -> Any:
    scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
    return F.dropout(F.softmax(scores, dim=-1), 0.1, training=False) @ v


def test_what_comes_out_lies_as_a_product_does(counting: Counting) -> None:
    """A program may take views of it, and a plan has to give results as they lie in eager execution."""

    def views(q: Any, k: Any, v: Any) -> Any:
        made = scaled_by_the_length(q, k, v)
        return made.view(made.shape[0], -1), made.transpose(1, 2)

    fast = pijit.jit(views, backend="counting")
    for turn in range(4):
        given = [each + turn for each in heads(4, 6, 2, 3)]
        with torch.no_grad():
            for got, wanted in zip(fast(*given), views(*given), strict=True):
                torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
                assert got.stride() == wanted.stride()
        assert market.wait(60)
    assert counting.runs
    assert any("scaled_dot_product_attention" in each for each in counting.operators[0])


def test_only_backends_with_a_tolerance_are_given_them() -> None:
    given = heads(4, 6, 2, 3)
    with torch.no_grad():
        graph = capture(scaled_by_the_length, *given)
        want = scaled_by_the_length(*given)
        exact = compilers.get("torchscript").compile(graph)
        assert not exact.replaced
        assert torch.equal(exact(*given)[0], want)
        for name in ("onnxruntime", "xla"):
            backend = compilers.get(name)
            if backend.usable():
                continue
            plan = backend.compile(graph, Options())
            assert plan.replaced == {"attention": 1}
            torch.testing.assert_close(plan(*given)[0], want, rtol=1e-4, atol=1e-5)


def test_a_backend_that_lacks_the_operator_keeps_those_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = compilers.get("onnxruntime")
    if why := backend.usable():
        pytest.skip(why)
    given = heads(4, 6, 2, 3)
    with torch.no_grad():
        graph = capture(scaled_by_the_length, *given)
    lacks = type(backend).lacks
    missing = "scaled_dot_product_attention"
    monkeypatch.setattr(
        type(backend),
        "lacks",
        lambda self, graph: (*lacks(self, graph), *(node for node in graph.nodes if node.op == missing)),
    )
    plan = backend.compile(graph, Options())
    assert not plan.replaced
    assert not plan.left_out


def test_a_segment_tells_of_them() -> None:
    backend = compilers.get("onnxruntime")
    if why := backend.usable():
        pytest.skip(why)
    fn = pijit.jit(lambda q, k, v: scaled_by_the_length(q, k, v) * 2 + 1, backend="onnxruntime")
    for turn in range(6):
        given = [each + turn for each in heads(4, 6, 2, 3)]
        with torch.no_grad():
            torch.testing.assert_close(fn(*given), scaled_by_the_length(*given) * 2 + 1, rtol=1e-4, atol=1e-5)
        market.wait(60)
    told = [plan for trace in pijit.traces(fn) for each in trace.segments for key in each.keys for plan in key.plans]
    assert told
    assert all(plan.replaced == {"attention": 1} for plan in told)
    assert "attention replaced 1 times" in str(told[0])
