"""Operators written by hand become one that computes the same up to rounding: where patterns fit, and where not."""

from __future__ import annotations

import importlib
import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import pijit
from pijit import passes
from pijit.errors import UsageError
from pijit.graph import Graph, capture
from pijit.passes import replacements
from pijit.passes.replacements import builtin, forms
from pijit.passes.replacements.matching import Matcher

pytestmark = pytest.mark.torch


def randn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def replaced(graph: Graph) -> tuple[Graph, Counter[str]]:
    counts: Counter[str] = Counter()
    return passes.run(graph.functional(), replaced=counts), counts


def check(
    fn: Callable[..., Any], given: list[Any], wanted: dict[str, int], others: list[list[Any]] | None = None
) -> Graph:
    """The replacements are made; what comes out gives the same for these tensors, and for those of other sizes."""
    with torch.no_grad():
        graph = capture(fn, *given)
        made, counts = replaced(graph)
        assert counts == wanted
        for each in (given, *(others or ())):
            tensors = [x for x in each if isinstance(x, torch.Tensor)]
            low = tensors[0].dtype in {torch.bfloat16, torch.float16}
            rtol, atol = (2e-2, 2e-2) if low else (1e-4, 1e-5)
            torch.testing.assert_close(made.run(*tensors), fn(*each), rtol=rtol, atol=atol)
    return made


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


@pytest.mark.parametrize("family", builtin.FAMILIES)
def test_each_pattern_gives_what_stands_in_its_place_and_fits_itself(family: str) -> None:
    module = importlib.import_module(f"pijit.passes.replacements.builtin.{family}")
    for each in module.REPLACEMENTS:
        forms.check(each)
        assert list(Matcher(each.forms().pattern).found(each.forms())), each.forms().pattern


# --- attention -----------------------------------------------------------------------------------


def heads(queries: int, keys: int, *batch: int, width: int = 8, dtype: torch.dtype = torch.float32) -> list[Any]:
    lengths = (queries, keys, keys)
    return [randn(*batch, length, width, seed=at, dtype=dtype) for at, length in enumerate(lengths)]


def scaled_by_the_length(q: Any, k: Any, v: Any) -> Any:
    scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
    return F.dropout(F.softmax(scores, dim=-1), 0.1, training=False) @ v


def divided_and_masked(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(mask == 0, -1e9)
    return torch.matmul(torch.softmax(scores, dim=-1), v)


def with_a_bias(q: Any, k: Any, v: Any, bias: Any) -> Any:
    scores = torch.matmul(q, k.transpose(3, 2))
    scores += bias
    weights = nn.functional.softmax(scores.float(), dim=-1).type_as(scores)
    return torch.matmul(weights, v)


def scaled_before(q: Any, k: Any, v: Any) -> Any:
    return (torch.softmax((q * 0.25) @ k.permute(0, 1, 3, 2), -1, dtype=torch.float32).to(q.dtype) @ v).relu()


def test_attention_by_hand() -> None:
    more = [heads(7, 3, 1, 2), heads(2, 9, 4, 3)]
    made = check(scaled_by_the_length, heads(4, 6, 2, 3), {"attention": 1}, more)
    assert "softmax" not in ops(made)
    assert "matmul" not in ops(made)
    check(scaled_by_the_length, heads(4, 6, 5), {"attention": 1}, [heads(3, 3, 2)])
    check(scaled_by_the_length, heads(4, 6, 2, 3, dtype=torch.bfloat16), {"attention": 1})
    mask = (randn(4, 6, seed=9) > -0.5).int()
    mask[:, 0] = 1
    check(divided_and_masked, [*heads(4, 6, 2, 3), mask], {"attention": 1})
    check(with_a_bias, [*heads(4, 6, 2, 3), randn(1, 3, 4, 6)], {"attention": 1})
    check(with_a_bias, [*heads(4, 6, 2, 3, dtype=torch.bfloat16), randn(4, 6, dtype=torch.bfloat16)], {"attention": 1})
    check(with_a_bias, [*heads(4, 6, 2, 3, dtype=torch.float16), randn(4, 6, dtype=torch.float16)], {"attention": 1})
    check(scaled_before, heads(4, 6, 2, 3), {"attention": 1})
    check(scaled_before, heads(4, 6, 2, 3, dtype=torch.bfloat16), {"attention": 1})


def test_a_row_that_is_masked_but_not_with_infinity_keeps_its_numbers() -> None:
    mask = torch.ones(4, 6)
    mask[2] = 0
    check(divided_and_masked, [*heads(4, 6, 2, 3), mask], {"attention": 1})


def test_who_reads_the_weights_keeps_attention_as_it_is() -> None:
    def gives_them(q: Any, k: Any, v: Any) -> Any:
        weights = torch.softmax(q @ k.transpose(-2, -1), -1)
        return weights @ v, weights

    def sums_them(q: Any, k: Any, v: Any) -> Any:
        weights = torch.softmax(q @ k.transpose(-2, -1), -1)
        return weights @ v + weights.sum()

    def another_axis(q: Any, k: Any, v: Any) -> Any:
        return torch.softmax(q @ k.transpose(-2, -1), -2) @ v

    def draws(q: Any, k: Any, v: Any) -> Any:
        return F.dropout(torch.softmax(q @ k.transpose(-2, -1), -1), 0.5, training=True) @ v

    for fn in (gives_them, sums_them, another_axis, draws):
        with torch.no_grad():
            graph = capture(fn, *heads(4, 6, 2, 3))
        made, counts = replaced(graph)
        assert not counts, fn.__name__
        assert "scaled_dot_product_attention" not in ops(made)


def test_the_mask_of_all_layers_is_computed_once() -> None:
    def layers(q: Any, k: Any, v: Any, tokens: Any) -> Any:
        for _ in range(3):
            q = divided_and_masked(q, k, v, tokens.unsqueeze(0) != 0)
        return q

    made = check(layers, [*heads(4, 6, 2, 3), torch.tensor([[1, 1, 0, 1, 0, 1]])], {"attention": 3})
    assert ops(made).count("not_equal") == 1


# --- norms and activations -------------------------------------------------------------------------


class HandNorm(nn.Module):
    """As in Llama, Gemma (the weight is one more) and T5."""

    def __init__(self, more: float, divides: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(randn(8))
        self.more, self.divides = more, divides

    def forward(self, x: Any) -> Any:
        wide = x.to(torch.float32)
        variance = wide.pow(2).mean(-1, keepdim=True) + 1e-6
        wide = wide / variance.sqrt() if self.divides else wide * torch.rsqrt(variance)
        return (self.more + self.weight) * wide.to(x.dtype) if self.more else self.weight * wide.to(x.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("more", [0.0, 1.0])
@pytest.mark.parametrize("divides", [False, True])
def test_root_mean_square_norms(dtype: torch.dtype, more: float, divides: bool) -> None:
    model = HandNorm(more, divides).to(dtype)
    check(model, [randn(2, 3, 8, dtype=dtype)], {"rms_norm": 1}, [[randn(5, 1, 8, seed=1, dtype=dtype)]])


def test_layer_norms() -> None:
    def by_hand(x: Any, weight: Any, bias: Any) -> Any:
        mean = x.mean(-1, keepdim=True)
        variance = (x - mean).pow(2).mean(-1, keepdim=True)
        return weight * ((x - mean) / torch.sqrt(variance + 1e-12)) + bias

    def bessel(x: Any, weight: Any, bias: Any) -> Any:
        return weight * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6) + bias

    given = [randn(2, 3, 8), randn(8, seed=1), randn(8, seed=2)]
    check(by_hand, given, {"layer_norm": 1}, [[randn(4, 1, 8, seed=3), *given[1:]]])
    check(bessel, given, {})
    # A weight over other axes than the last is none of the operator.
    wide = check(by_hand, [randn(2, 3, 8), randn(3, 8, seed=1), randn(3, 8, seed=2)], {"layer_norm": 1})
    assert "multiply" in ops(wide)
    assert "add" in ops(wide)


def test_activations() -> None:
    def new_gelu(x: Any) -> Any:
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))

    def exact(x: Any) -> Any:
        return x * 0.5 * (1.0 + torch.erf(x / 1.4142135623730951))

    def another(x: Any) -> Any:
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.05 * torch.pow(x, 3.0))))

    assert "tanh" not in ops(check(new_gelu, [randn(3, 8) * 3], {"gelu": 1}, [[randn(5, 2)]]))
    check(exact, [randn(3, 8) * 3], {"gelu": 1})
    check(lambda x: x * torch.sigmoid(x), [randn(3, 8)], {"silu": 1})
    check(lambda x: x * torch.sigmoid(1.702 * x), [randn(3, 8)], {})
    check(another, [randn(3, 8)], {})


# --- registered ones --------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    kept, kept_passes = list(replacements._REGISTERED), dict(passes._REGISTERED)
    yield
    replacements._REGISTERED[:] = kept
    passes._REGISTERED.clear()
    passes._REGISTERED.update(kept_passes)


def test_a_replacement_of_a_user() -> None:
    def distance(x: Any, y: Any, factor: float) -> Any:
        return torch.sqrt(((x - y) * factor).pow(2).sum(-1))

    def norm(x: Any, y: Any, factor: float) -> Any:
        return torch.linalg.vector_norm(x - y, dim=-1) * factor

    def program(a: Any, b: Any) -> Any:
        return distance(a, b, 2.0) + distance(b, a * 2, 0.125)

    given = [randn(3, 8), randn(3, 8, seed=1)]
    check(program, given, {})
    pijit.register_replacement(distance, norm, [*given, 0.73], where=lambda x, y, factor: factor > 0)
    assert "sqrt" not in ops(check(program, given, {"distance": 2}, [[randn(5, 2), randn(5, 2, seed=2)]]))
    pijit.register_replacement(distance, norm, [*given, 0.73], name="distance", where=lambda x, y, factor: factor > 1)
    check(program, given, {"distance": 1})


@pytest.mark.parametrize(
    ("pattern", "replacement", "inputs", "said"),
    [
        (lambda x: x + 1, lambda x: x + 2, [torch.ones(2)], "does not give what the pattern gives"),
        (lambda x: (x + 1, x), lambda x: x + 1, [torch.ones(2)], "has to give one tensor"),
        (lambda x: x.view(-1), lambda x: x + 1, [torch.ones(2)], "gives a view"),
        (lambda x: x + torch.rand(2), lambda x: x + 1, [torch.ones(2)], "no decisions, random numbers"),
        (lambda x: x + 1 if x.sum() > 0 else x, lambda x: x + 1, [torch.ones(2)], "no decisions, random numbers"),
        (lambda x: x.add_(1), lambda x: x + 1, [torch.ones(2)], "writes to something"),
        (lambda x, y: x + 1, lambda x, y: x + y, [torch.ones(2), torch.ones(2)], "does not take y"),
        (lambda x, scale: x * (1 / scale), lambda x, scale: x / scale, [torch.ones(2), 0.73], "does not take scale"),
        (lambda x: x + 1, lambda x: x + 1, [torch.ones(2), 0.73], "inputs= has 2 arguments"),
        (lambda x: x + 1, lambda x: x + 1, ["x"], "takes tensors and numbers"),
        (torch.ones(2), lambda x: x + 1, [torch.ones(2)], "pattern takes a function"),
        (lambda x: x + 1, 3, [torch.ones(2)], "replacement takes a function"),
    ],
)
def test_what_is_no_replacement(pattern: Any, replacement: Any, inputs: list[Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        pijit.register_replacement(pattern, replacement, inputs, name="wrong")
    assert all(each.name != "wrong" for each in replacements.registered())


def test_a_pattern_with_a_tensor_from_outside() -> None:
    held = torch.ones(())
    with pytest.raises(UsageError, match="takes a tensor from outside"):
        pijit.register_replacement(lambda x: x + held, lambda x: x + 1, [torch.ones(2)])
    # What the replacement holds is a constant of the graph.
    pijit.register_replacement(lambda x: torch.cos(x) + 1, lambda x: torch.cos(x) + held, [torch.ones(2)], name="held")
    made = check(lambda x: torch.cos(x) + 1, [randn(2)], {"held": 1})
    assert [each.role for each in made.parameters] == ["constant"]


def test_passes_of_users(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def look(graph: Graph) -> Graph:
        """Notes the names of graphs."""
        seen.append(graph.name)
        return graph

    graph = capture(lambda x: x * 2, randn(2)).functional()
    pijit.register_pass(look)
    assert passes.doc("look") == "Notes the names of graphs."
    assert passes.order()[-2] == "look"
    assert passes.run(graph) is not None
    assert len(seen) == 1
    monkeypatch.setenv("PIJIT_PASSES", "-look")
    passes.run(graph)
    assert len(seen) == 1
    monkeypatch.delenv("PIJIT_PASSES")
    pijit.register_pass(look, exact=False)
    passes.run(graph)
    assert len(seen) == 1
    passes.run(graph, replaced=Counter())
    assert len(seen) == 2
    pijit.register_pass(lambda graph: 3, name="wrong")
    with pytest.raises(UsageError, match="has to give a graph"):
        passes.run(graph)
    for name in ("dead_code", "no word"):
        with pytest.raises(UsageError, match="name= of a pass"):
            pijit.register_pass(look, name=name)
    with pytest.raises(UsageError, match="takes a function"):
        pijit.register_pass(3)
