"""A trace as a graph: of all calls that it replays, made without a call; and the facts of its nodes."""

import gc
import weakref

import pytest
import torch

import pijit
from pijit.errors import UsageError

pytestmark = pytest.mark.torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(2))
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x)) * 2
        self.count.add_(1)
        return {"x": x[:, :2], "rows": x.shape[0] + 1}


def model():
    torch.manual_seed(0)
    return Model().eval()


def traced(fn, *calls):
    fast = pijit.jit(fn)
    with torch.no_grad():
        for args in calls:
            fast(*args)
    return fast, pijit.traces(fast)[-1]


def test_graph_of_a_module():
    net, twin = model(), model()
    _, trace = traced(net, (torch.ones(2, 3),), (torch.ones(2, 3),))
    count = net.count.clone()
    graph = trace.graph()
    assert torch.equal(net.count, count)  # it is not called
    assert [value.path for value in graph.parameters] == [
        "layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias", "count",
    ]  # fmt: skip
    assert [(value.kind, value.dtype, len(value.shape)) for value in graph.inputs] == [("tensor", "float32", 2)]
    assert not graph.breaks
    for rows in (2, 5):
        x = torch.randn(rows, 3)
        with torch.no_grad():
            found, expected = graph.run(x), twin(x)
        assert torch.equal(found["x"], expected["x"])
        assert found["rows"] == expected["rows"]


def test_examples_give_the_types():
    net = model()
    _, trace = traced(net, (torch.ones(2, 3),), (torch.ones(4, 3),))
    for rows in (2, 5):
        graph = trace.graph(torch.ones(rows, 3))
        assert graph.results[0].shape == (graph.inputs[0].shape[0], 2)
        assert list(graph.symbols.values()) == [rows]
    with pytest.raises(UsageError, match=r"an example for each of the 1 inputs \(args_0\), or none; not 2"):
        trace.graph(torch.ones(2, 3), torch.ones(2, 3))


def test_numbers_and_items_of_arguments_are_inputs():
    def f(x, k, more):
        return torch.relu(x[:, 1:] + more["mask"]) * k

    x, mask = torch.randn(2, 3), torch.randn(2)
    _, trace = traced(f, *((x, k, {"mask": mask}) for k in (1.5, 2.5, 3.5)))
    graph = trace.graph()
    assert [(value.name, value.kind) for value in graph.inputs][::2] == [("x", "tensor"), ("k", "float")]
    for k in (0.5, -2.0):
        assert torch.equal(graph.run(x, mask, k), f(x, k, {"mask": mask}))
    assert trace.graph(x, mask).results[0].shape == ("x_0", graph.inputs[1].shape[0])


def test_a_trace_that_no_longer_stands():
    fast, trace = traced(lambda x: x + 1, (torch.ones(2),), (torch.ones(2),))
    assert torch.equal(trace.graph().run(torch.ones(3)), torch.ones(3) + 1)
    pijit.reset(fast)
    for _ in range(2):
        with pytest.raises(UsageError, match="no longer stands.*take it anew from pijit.traces"):
            trace.graph()
        fast(torch.ones(2))  # another trace, of the same function
    assert torch.equal(pijit.traces(fast)[0].graph().run(torch.ones(3)), torch.ones(3) + 1)


def test_facts_of_nodes():
    net = model()
    _, trace = traced(net, (torch.ones(2, 3),), (torch.ones(2, 3),))
    linear, add = (
        [node for node in trace.nodes if node.operator == name] for name in ("aten::linear", "aten::add_.Tensor")
    )
    assert [node.module for node in linear] == ["layers.0", "layers.1"]
    assert linear[1].arguments[1:] == (("weight", "self.layers[1].weight"), ("bias", "self.layers[1].bias"))
    assert linear[0].outputs[0] in dict(trace.nodes[trace.nodes.index(linear[0]) + 1].arguments).values()
    assert {(node.effect, node.writes) for node in linear} == {("pure", ())}
    assert [(node.effect, node.writes, node.module) for node in add] == [("write", ("self",), "")]
    assert all(node.line == Model.forward.__code__.co_firstlineno + 2 for node in linear)
    scalar = [node for node in trace.nodes if node.operator == "operator.add"]
    assert [node.arguments[1] for node in scalar] == [("", "1")]


def test_random_numbers_and_calls_of_python():
    words = []

    def f(x):
        words.append(str(sorted([x.dim()], key=abs)))
        return x + torch.rand(2)

    fast, trace = traced(f, (torch.ones(2),), (torch.ones(2),))
    assert "random" in {node.effect for node in trace.nodes if node.operator.startswith("aten::rand")}
    assert any(node.effect == "write" for node in trace.nodes if not node.operator.startswith("aten::"))
    fast(torch.ones(2))
    assert words == ["[1]"] * 3


def test_a_view_keeps_nothing_alive():
    net = model()
    fast, trace = traced(net, (torch.ones(2, 3),), (torch.ones(2, 3),))
    trace.graph()
    dead = weakref.ref(net.layers[0].weight)
    del net, fast
    gc.collect()
    assert dead() is None
    assert trace.nodes[0].arguments
    with pytest.raises(UsageError, match="no longer stands"):
        trace.graph()
