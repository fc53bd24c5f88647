"""Where sizes keep changing, a compiler without free sizes has what is between the operators that vary, once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from counted import Counted

import pijit
from pijit import _backend_names
from pijit.compilers import get, market

sys.path.append(str(Path(__file__).parents[1] / "torch"))
from growing import Decoder  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(params=[False, True], ids=["fixed", "free"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    made = Counted("counted")
    made.symbolic = request.param
    monkeypatch.setitem(_backend_names.registered, "counted", made)
    with torch.no_grad():
        yield made
    market.wait(60)


def decoder() -> Decoder:
    torch.manual_seed(0)
    return Decoder().eval()


def calls(model: Any, plain: Decoder, tokens: int, batch: int = 1) -> list[list[torch.Tensor]]:
    words, cache, made = torch.ones(batch, 1, dtype=torch.long), plain.empty(batch), []
    for at in range(tokens):
        scores, cache = model(words, cache)
        words = torch.full((batch, 1), at % 11)
        made.append([scores, *(each for pair in cache for each in pair)])
        assert market.wait(60)
    return made


def segments(fast: Any) -> list[Any]:
    return [each for trace in pijit.traces(fast) for each in trace.segments]


def test_pieces_serve_all_sizes(backend: Counted) -> None:
    plain = decoder()
    fast = pijit.jit(decoder(), backend="counted")
    right = calls(plain, plain, 24)
    for made, wanted in zip(calls(fast, plain, 24), right, strict=True):
        assert all(map(torch.equal, made, wanted))
    compiled, runs = list(backend.compiled), backend.runs
    for made, wanted in zip(calls(fast, plain, 24), right, strict=True):
        assert all(map(torch.equal, made, wanted))
        assert all(one.stride() == other.stride() for one, other in zip(made, wanted, strict=True))
    found = segments(fast)
    if backend.symbolic:  # the whole serves them
        assert len(found) == 1, found
        return
    assert len(found) == len(plain.layers) + 1, found
    assert backend.compiled == compiled
    assert backend.runs == runs + 24 * len(found)
    assert sum(each.share for each in found) > 0.5


def test_weights_and_batches_that_change(backend: Counted) -> None:
    plain, model = decoder(), decoder()
    fast = pijit.jit(model, backend="counted")
    for step, batch in enumerate((1, 1, 2, 5, 3, 1)):
        for each in (plain, model):
            for parameter in each.parameters():
                parameter.mul_(1.01 - 0.02 * (step % 2))
        for made, wanted in zip(calls(fast, plain, 9, batch), calls(plain, plain, 9, batch), strict=True):
            assert all(map(torch.equal, made, wanted))


def test_what_varies_as_a_whole_is_left_whole(backend: Counted) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return ((x * 2).exp() + x).softmax(-1)

    fast = pijit.jit(fn, backend="counted")
    for size in (2, 3, 4, 5, 2, 3, 4, 5, 2, 3, 4, 5):
        x = torch.linspace(0, 1, size)
        assert torch.equal(fast(x), fn(x))
        assert market.wait(60)
    (found,) = segments(fast)
    assert all(key.plans for key in found.keys if key.form != "Float[5]"), found


@pytest.mark.parametrize("name", ["torchscript", "xla", "iree"])
def test_compilers_for_fixed_sizes(name: str) -> None:
    if (state := pijit.backends()[name]) != "usable":
        pytest.skip(state)
    compiler, plain = get(name), decoder()
    fast = pijit.jit(decoder(), backend=name)
    with torch.no_grad():
        calls(fast, plain, 8)
        asked = len(market.of(fast).outcomes)
        for made, wanted in zip(calls(fast, plain, 16), calls(plain, plain, 16), strict=True):
            for one, other in zip(made, wanted, strict=True):
                relative, absolute = compiler.allowed("float32")
                torch.testing.assert_close(one, other, rtol=8 * relative, atol=8 * absolute)
        found = segments(fast)
    assert len(market.of(fast).outcomes) == asked
    assert len(found) == len(plain.layers) + 1, found
    assert all(key.answers == name for each in found for key in each.keys), found
