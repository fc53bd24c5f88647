"""The types of a graph: sizes stay symbols, also where calls of one form are looked at once."""

import pytest
import torch

import pijit
from pijit.graph.build import types

pytestmark = pytest.mark.torch


def test_equal_layers_are_looked_at_once_and_have_the_same_types(monkeypatch):
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()) for _ in range(6)))
    made = []
    caller = types.torch_caller

    def counted(*given):
        call = caller(*given)
        return lambda node, values: made.append(node.op) or call(node, values)

    monkeypatch.setattr(types, "torch_caller", counted)
    for x in (torch.randn(3, 4), torch.randn(2, 5, 4)):
        graph = pijit.graph.capture(model, x)
        assert 2 <= len(made) <= 4  # of twelve
        made.clear()
        first = graph.inputs[0].shape
        assert all(isinstance(size, str) for size in first[:-1])
        assert {value.shape for node in graph.nodes for value in node.results} == {(*first[:-1], 4)}
        assert torch.equal(graph.run(torch.ones_like(x)), model(torch.ones_like(x)))


def test_a_call_that_changes_the_form_of_its_tensor():
    """Two tensors of one form, of which one is changed in place."""

    def f(x):
        a, b = x + 1, x + 1
        a.unsqueeze_(0)
        return a * 2, b * 2

    graph = pijit.graph.capture(f, torch.randn(3, 4))
    assert [value.shape for value in graph.results] == [(1, "x_0", "x_1"), ("x_0", "x_1")]
    for x in (torch.randn(3, 4), torch.randn(5, 2)):
        for found, expected in zip(graph.run(x), f(x)):
            assert torch.equal(found, expected)


def test_sizes_that_depend_on_data_are_different_ones():
    def f(x):
        return torch.nonzero(x), torch.nonzero(x + 1), torch.nonzero(x[:] + 1)

    for x in (torch.randn(6), torch.randn(3, 4)):
        graph = pijit.graph.capture(f, x)
        rows = [value.shape[0] for value in graph.results]
        assert len(set(rows)) == 3
        assert [value.shape[1] for value in graph.results] == [x.dim()] * 3


def test_true_and_one_are_different_arguments():
    def f(x):
        return x + 1, x + True, x * 1.0

    for x in (torch.tensor([1, 2, 3]), torch.tensor([True, False])):
        graph = pijit.graph.capture(f, x)
        for value, expected in zip(graph.results, f(x)):
            assert value.dtype == str(expected.dtype).removeprefix("torch.")
