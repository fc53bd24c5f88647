"""Operators of a graph in smaller numbers: where casts stand, and which copies of weights there are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import pijit
from pijit.graph import Graph
from pijit.passes.precision import Lowering, lowered, name_of

pytestmark = pytest.mark.torch


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        inner = self.first(x)
        return self.second(torch.relu(inner)) + x, inner.sum()


def captured() -> tuple[Graph, Block, torch.Tensor]:
    torch.manual_seed(0)
    block, x = Block().eval(), torch.randn(4, 8)
    with torch.no_grad():
        return pijit.graph.capture(block, x), block, x


def made(graph: Graph, kinds: dict[str, str]) -> Lowering:
    """With operators lowered, by what they are."""
    choice = {name_of(node): kinds[node.op] for node in graph.nodes if node.op in kinds}
    return lowered(graph, choice, lambda tensor, kind: tensor.detach().to(getattr(torch, kind)))


def run(graph: Graph, x: torch.Tensor) -> Any:
    with torch.no_grad():
        return graph.run(x)


@pytest.mark.parametrize(
    ("kinds", "casts"),
    [
        ({"linear": "bfloat16"}, 4),  # x; relu and the sum, and the second layer, read them
        ({"linear": "bfloat16", "relu": "bfloat16"}, 3),
        ({"linear": "bfloat16", "relu": "float16"}, 6),
        ({"relu": "float16"}, 2),
        ({}, 0),
    ],
)
def test_casts(kinds: dict[str, str], casts: int) -> None:
    graph, block, x = captured()
    there = [(value.dtype, value.shape) for value in graph.results]
    lowering = made(graph, kinds)
    assert sum(node.op == "astype" for node in lowering.graph.nodes) == casts
    assert [(value.dtype, value.shape) for value in lowering.graph.results] == there
    types = {node.op: [v.dtype for v in node.results if v is not None] for node in lowering.graph.nodes}
    assert all(types[op][0] == kind for op, kind in kinds.items())
    for _ in range(2):
        for got, right in zip(run(lowering.graph, x), block(x), strict=True):
            assert got.dtype == torch.float32
            assert torch.allclose(got, right, atol=0.1)
        assert torch.equal(run(lowering.graph, x)[0], block(x)[0]) == (not kinds)
        x = torch.randn(7, 8)
    assert torch.equal(run(graph, x)[0], block(x)[0])  # the graph that was given is as it was


def test_copies_of_weights() -> None:
    graph, block, _ = captured()
    lowering = made(graph, {"linear": "bfloat16"})
    data = lowering.graph.data
    assert len(lowering.copies) == 4
    for name, (weight, kind) in lowering.copies.items():
        assert kind == "bfloat16"
        assert torch.equal(data[name], graph.data[weight].to(torch.bfloat16))
    assert set(data) == set(lowering.copies) == {value.name for value in lowering.graph.parameters}
    held = {graph.data[weight].data_ptr() for weight, _ in lowering.copies.values()}
    assert held == {parameter.data_ptr() for parameter in block.parameters()}
