"""Nodes that repeat are found as a loop, which gives what they give."""

import pytest
import torch
from torch import nn

import pijit
from pijit.graph import Graph
from pijit.graph.model.sizes import fixed
from pijit.graph.run import bind, caller
from pijit.passes import repeats

pytestmark = pytest.mark.torch


class Layer(nn.Module):
    def __init__(self, mix=False):
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(4, 6), nn.Linear(6, 4), nn.LayerNorm(4)
        self.mix = mix

    def forward(self, x, mask, first):
        y = self.down(self.up(self.norm(x)).relu()) * mask
        return x + y + first if self.mix else x + y


class Stack(nn.Module):
    def __init__(self, layers, hidden=False, mix=False):
        super().__init__()
        torch.manual_seed(3)
        self.layers = nn.ModuleList(Layer(mix) for _ in range(layers))
        self.head, self.hidden = nn.Linear(4, 2), hidden

    def forward(self, x, mask):
        found, first = [], x * 2
        x = x + 1
        for layer in self.layers:
            x = layer(x, mask, first)
            found.append(x)
        return (self.head(x), found[1], found[3]) if self.hidden else self.head(x)


def captured(model, *args) -> Graph:
    with torch.no_grad():
        graph = pijit.graph.capture(model, *args)
    return fixed(graph, graph.symbols)


def run(graph: Graph, loop: repeats.Repeat, *inputs):
    """The graph with its loop as one."""
    call = caller("torch")
    values = {**graph.data, **dict(zip([value.name for value in graph.inputs], inputs, strict=True))}
    for node in graph.nodes[: loop.first]:
        bind(node, call(node, values), values)
    now = [values[start.name] for _, start, _ in loop.carried]
    for turn in range(loop.turns):
        inner = dict(values)
        inner.update((value.name, held) for (value, _, _), held in zip(loop.carried, now, strict=True))
        inner.update((value.name, values[each[turn].name]) for value, each in loop.stacked)
        for node in loop.nodes:
            bind(node, call(node, inner), inner)
        now = [inner[after.name] for _, _, after in loop.carried]
        values.update((each[turn].name, inner[value.name]) for value, each in loop.given)
    values.update((value.name, held) for value, held in zip(loop.last, now, strict=True))
    for node in graph.nodes[loop.end :]:
        bind(node, call(node, values), values)
    return [values[value.name] for value in graph.results]


@pytest.mark.parametrize(("hidden", "mix"), [(False, False), (True, False), (False, True)])
def test_layers_are_a_loop(hidden, mix):
    model = Stack(6, hidden, mix)
    graph = captured(model, torch.ones(3, 4), torch.ones(4))
    loop = repeats.find(graph.nodes, graph)
    assert loop is not None
    assert (loop.turns, len(loop.carried), len(loop.stacked), len(loop.given)) == (6, 1, 6, hidden)
    taken = repeats.arguments(graph, graph.nodes, loop)
    assert [value.path for value in taken.alone] == ["head.weight", "head.bias"]
    assert all(len(each) == 6 for each in taken.stacks)
    with torch.no_grad():
        for factor in (1.0, -2.0):
            model.layers[2].up.weight.mul_(factor)
            x, mask = torch.randn(3, 4), torch.randn(4)
            expected = model(x, mask)
            for one, other in zip(run(graph, loop, x, mask), expected if hidden else [expected], strict=True):
                assert torch.equal(one, other)


class Shared(nn.Module):
    """One layer again and again: its weights are the same in all turns, and nothing is stacked."""

    def __init__(self):
        super().__init__()
        self.layer = Layer()

    def forward(self, x, mask):
        for _ in range(6):
            x = self.layer(x, mask, x)
        return x


class Skips(Stack):
    """A layer takes what the layer before the last one has given."""

    def forward(self, x, mask):
        before = x
        for layer in self.layers:
            before, x = x, layer(x, mask, x) + before
        return x


class Draws(Stack):
    def forward(self, x, mask):
        for layer in self.layers:
            x = nn.functional.dropout(layer(x, mask, x), 0.5)
        return x


@pytest.mark.parametrize(
    "model", [Stack(3), Shared(), Skips(6), Draws(6)], ids=["three layers", "shared", "skips", "draws"]
)
def test_what_is_no_loop(model):
    graph = captured(model, torch.ones(3, 4), torch.ones(4))
    for nodes in (graph.nodes, graph.nodes[1:]):
        assert repeats.find(nodes, graph) is None
    taken = repeats.arguments(graph, graph.nodes, None)
    assert taken == repeats.Arguments(graph.parameters, ())


def test_xla_compiles_one_layer():
    pytest.importorskip("jax")
    from pijit._formats.stablehlo.lower import lowered
    from pijit.compilers._base import Options
    from pijit.compilers.xla import BACKEND

    model, texts = Stack(8, hidden=True), []
    graph = captured(model, torch.ones(3, 4), torch.ones(4)).functional()
    for loops in (True, False):
        texts.append(str(lowered(graph, False, False, "cpu", loops=loops)).count("stablehlo.dot_general"))
    assert texts == [3, 17]
    plan = BACKEND.make(graph, Options())
    assert not plan.shares_weights
    with torch.no_grad():
        for factor in (1.0, -2.0):
            model.layers[2].up.weight.mul_(factor)
            plan.rebind(graph.data)
            x, mask = torch.randn(3, 4), torch.randn(4)
            for one, other in zip(plan.run(x, mask), model(x, mask), strict=True):
                torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
