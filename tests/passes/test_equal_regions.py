"""Modules that do the same become one function, through which the graph computes the same bits."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pijit.graph import capture
from pijit.graph.model.sizes import fixed
from pijit.passes.equal_regions import Call, outlined

pytestmark = pytest.mark.torch


class Block(nn.Module):
    def __init__(self, factor: float = 2.0) -> None:
        super().__init__()
        self.lin, self.norm, self.factor = nn.Linear(4, 4), nn.LayerNorm(4), factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + torch.tanh(self.lin(x)) * self.factor)


def net(*factors: float) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), *map(Block, factors), nn.Linear(4, 2))


def check(module: nn.Module, *inputs: torch.Tensor) -> tuple[list[str], list[str]]:
    """Regions of the calls, and operators that stay."""
    with torch.no_grad():
        graph = capture(module, *inputs)
    graph = fixed(graph, graph.symbols)
    made = outlined(graph)
    for seed in range(2):
        generator = torch.Generator().manual_seed(seed)
        given = [
            torch.randn(each.shape, generator=generator)
            if each.is_floating_point()
            else torch.randint(0, 9, each.shape, generator=generator)
            for each in inputs
        ]
        for one, other in zip(
            torch.utils._pytree.tree_leaves(made.run(*given)),
            torch.utils._pytree.tree_leaves(graph.run(*given)),
            strict=True,
        ):
            assert torch.equal(one, other)
    with torch.no_grad():  # weights are inputs of a function: what is written to them is seen
        for weight in module.parameters():
            weight.mul_(1.5)
        for one, other in zip(
            torch.utils._pytree.tree_leaves(made.run(*inputs)),
            torch.utils._pytree.tree_leaves(graph.run(*inputs)),
            strict=True,
        ):
            assert torch.equal(one, other)
    calls = [step.region for step in made.steps if isinstance(step, Call)]
    return calls, [step.op for step in made.steps if not isinstance(step, Call)]


def test_equal_layers_are_one_function() -> None:
    module, x = net(2.0, 2.0, 2.0), torch.ones(3, 4)
    assert check(module, x) == (["1", "2", "3"], ["linear", "linear"])
    with torch.no_grad():
        made = outlined(capture(module, x))
    assert [function.name for function in made.functions] == ["Block"]
    assert len(made.functions[0].nodes) == 5
    assert len(made.functions[0].inputs) == 5
    assert "# Block: 1, 2, 3" in str(made)


def test_another_literal_is_another_function() -> None:
    assert check(net(2.0, 3.0, 2.0), torch.ones(3, 4))[0] == ["1", "3"]
    assert check(net(2.0, 3.0), torch.ones(3, 4))[0] == []
    assert check(net(0.0, -0.0), torch.ones(3, 4))[0] == []


def test_other_data_flow_is_another_function() -> None:
    class Order(nn.Module):
        def __init__(self, swapped: bool) -> None:
            super().__init__()
            self.swapped = swapped

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x.exp()
            return (y - x if self.swapped else x - y).sin()

    assert check(nn.Sequential(Order(False), Order(True)), torch.ones(3))[0] == []
    assert check(nn.Sequential(Order(True), Order(False), Order(True)), torch.ones(3))[0] == ["0", "2"]


def test_bert() -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 32}
    module = transformers.BertModel(transformers.BertConfig(vocab_size=50, **sizes)).eval()
    calls, _ = check(Named(module), torch.zeros(2, 5, dtype=torch.int64))
    assert calls == [f"inner.encoder.layer.{at}" for at in range(4)]


class Named(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.inner(input_ids=ids).last_hidden_state
