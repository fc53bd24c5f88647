"""Layers that repeat are compiled once, as a loop over stacked weights, and see weights that were written."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import pijit
from pijit.compilers import Options, get, market
from pijit.passes.layers_as_loop import looped

sys.path.append(str(Path(__file__).parents[1] / "passes"))
from test_repeats import Stack, captured  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
NEEDS = {"onnxruntime": "onnxruntime", "openvino": "openvino", "inductor": "torch"}


@pytest.fixture(autouse=True)
def without_gradients() -> Any:
    with torch.no_grad():
        yield


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(3, 4), torch.randn(4)


@pytest.mark.parametrize("mix", [False, True])
def test_a_loop_gives_the_same_bits(mix: bool) -> None:
    model = Stack(8, mix=mix)
    made = looped(captured(model, *inputs()), 6)
    assert made is not None
    assert [node.op for node in made.graph.nodes].count("while") == 1
    assert [value.path for value in made.graph.parameters[:2]] == ["head.weight", "head.bias"]
    for factor in (1.0, -3.0):
        model.layers[5].down.weight.mul_(factor)
        model.head.bias.add_(factor)
        changed = made.bound({"layers_5_down_weight": model.layers[5].down.weight})
        assert len(changed) == 1
        graph = dataclasses.replace(made.graph, data={**made.graph.data, **changed})
        x, mask = inputs()
        assert torch.equal(graph.run(x, mask), model(x, mask))


def test_what_is_no_loop_stays() -> None:
    few, several = (captured(Stack(layers), *inputs()) for layers in (5, 8))
    assert looped(few, 6) is None
    assert looped(several, 6) is not None
    assert looped(several, 6, most=16) is None  # the weights of a turn have more bytes
    assert looped(captured(Stack(8, hidden=True), *inputs()), 6) is None  # the result of a turn is needed, too


class Twice(torch.nn.Module):
    """A weight of a layer is used behind the layers, too."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = Stack(8)

    def forward(self, x: Any, mask: Any) -> Any:
        return self.stack(x, mask) @ self.stack.layers[2].up.weight[:2] + 1


def test_a_weight_of_a_layer_and_of_something_else() -> None:
    pytest.importorskip("onnxruntime")
    model = Twice()
    graph = captured(model, *inputs())
    plan = get("onnxruntime").compile(graph)
    assert not plan.shares_weights
    for factor in (1.0, -2.0):
        weight = model.stack.layers[2].up.weight.mul_(factor)
        plan.rebind({value.name: weight for value in graph.parameters if graph.data[value.name] is weight})
        x, mask = inputs()
        assert torch.allclose(plan(x, mask)[0], model(x, mask), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", NEEDS)
def test_plans_see_weights_that_were_written(backend: str) -> None:
    pytest.importorskip(NEEDS[backend])
    model = Stack(12)
    graph = captured(model, *inputs())
    plan = get(backend).compile(graph)
    assert not plan.shares_weights  # they are stacked
    assert not plan.left_out
    for factor in (1.0, -2.0):
        model.layers[2].up.weight.mul_(factor)
        model.head.weight.mul_(factor)
        plan.rebind(graph.data)
        for _ in range(2):
            x, mask = inputs()
            assert torch.allclose(plan(x, mask)[0], model(x, mask), rtol=1e-4, atol=1e-5)
    plan.close()


def test_folded_weights_are_no_stacks() -> None:
    pytest.importorskip("onnxruntime")
    model = Stack(8)
    plan = get("onnxruntime").compile(captured(model, *inputs()), Options(fold=True))
    assert plan.folded
    for _ in range(2):
        x, mask = inputs()
        assert torch.allclose(plan(x, mask)[0], model(x, mask), rtol=1e-4, atol=1e-5)


def test_calls_see_weights_that_were_written() -> None:
    pytest.importorskip("onnxruntime")
    plain = Stack(8)
    fast = pijit.jit(Stack(8), backend="onnxruntime")
    for scale in (1.0, 1.0, 2.0, 2.0, -1.0):
        for model in (plain, fast):
            model.layers[3].norm.weight.fill_(scale)
        for _ in range(4):
            x, mask = inputs()
            assert torch.allclose(fast(x, mask), plain(x, mask), rtol=1e-4, atol=1e-5)
            assert market.wait(60)
    told = " ".join(str(segment) for trace in pijit.traces(fast) for segment in trace.segments)
    assert "onnxruntime: " in told
