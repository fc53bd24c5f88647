"""Functions of Python that stand for operators, and what is no operator of a graph: leaves and the grad mode."""

import numpy as np
import pytest
import torch

import pijit
from pijit.errors import ExportError


def requires_grad(x):
    y = x * 2
    y.requires_grad_()
    return y * 3, y


def grad_mode(x):
    torch.set_grad_enabled(False)
    y = x * 2
    torch.set_grad_enabled(True)
    with torch.set_grad_enabled(False):
        return y + 1


def scattered(index, x):
    return torch.zeros(index.max() + 1, 6).index_add_(0, index, x)


def viewed(index, x):
    return x.new_ones(index.max(), 2) * 3


def rows(n):
    return torch.cat([torch.randint(0, 4, (n,)), torch.tensor([n + 2])]), torch.randn(n + 1, 6)


def one(n):
    return (torch.randn(n, 6),)


CASES = {
    "requires_grad_": (requires_grad, one),
    "detach_": (lambda x: (x * 2).detach_() * 3, one),
    "grad mode": (grad_mode, one),
    "sizes of data": (scattered, rows),
    "sizes of data in a method": (viewed, rows),
    "conj": (lambda x: (torch.complex(x, x * 2).conj() * torch.complex(x, x)).real, one),
}


@pytest.mark.parametrize("name", CASES)
def test_whole_and_the_same(name):
    function, inputs = CASES[name]
    graph = pijit.graph.capture(function, *inputs(2))
    assert graph.is_neutral
    module = pijit.export(graph, format="fx")
    for n in (2, 3):
        given = inputs(n)
        expected = function(*given)
        flat = expected if isinstance(expected, tuple) else (expected,)
        for run in (graph.run, module):
            made = run(*given)
            assert all(map(torch.equal, made if isinstance(made, tuple) else (made,), flat))
        made = graph.run(*given, framework="numpy")
        for a, b in zip(made if isinstance(made, tuple) else (made,), flat, strict=True):
            np.testing.assert_allclose(a, b.detach().numpy(), rtol=1e-5, atol=1e-6)


NET = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.LayerNorm(6), torch.nn.ReLU(), torch.nn.Linear(6, 3))


def under_autocast(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = NET(x)
        with torch.autocast("cpu", enabled=False):
            z = x @ w
        loss = torch.nn.functional.mse_loss(y, y * 2)
        joined = torch.cat([y, x], -1)
    return y, z, loss, joined, x @ w


def attention_under_autocast(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]), (x @ w).softmax(-1)


@pytest.mark.parametrize("function", [under_autocast, attention_under_autocast])
@pytest.mark.parametrize("gradients", [True, False])
def test_autocast_is_casts(function, gradients):
    torch.manual_seed(0)
    with torch.set_grad_enabled(gradients):
        graph = pijit.graph.capture(function, torch.randn(4, 6), torch.randn(6, 6))
        assert graph.is_neutral
        module = pijit.export(graph, format="fx")
        for n in (4, 5):
            given = torch.randn(n, 6), torch.randn(6, 6)
            expected = function(*given)
            for run in (graph.run, module):
                made = run(*given)
                assert [each.dtype for each in made] == [each.dtype for each in expected]
                assert all(map(torch.equal, made, expected))


def test_autocast_around_the_capture():
    x = torch.randn(4, 6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        graph, expected = pijit.graph.capture(NET, x), NET(x)
    assert expected.dtype == torch.bfloat16
    assert torch.equal(graph.run(x), expected)
    assert torch.is_autocast_enabled("cpu") is False


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_what_autocast_does_inside_an_operator_is_refused(kind):
    layer, x = kind(6, 4), torch.randn(3, 2, 6)

    def call(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return layer(x)[0]

    try:
        call(x)
    except RuntimeError as error:
        if "could not create a primitive" not in str(error):
            raise
        pytest.skip("oneDNN has none of these in bfloat16 for this processor")
    with pytest.raises(ExportError, match=f"aten::{kind.__name__.lower()}.input is called under autocast"):
        pijit.graph.capture(call, x)


@pytest.mark.parametrize("gradients", [True, False])
def test_a_checkpoint_is_what_its_function_calls(gradients):
    """What is kept for a backward pass is nothing of a graph."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))

    def function(x):
        return model[2](torch.utils.checkpoint.checkpoint(lambda h: model[:2](h).sin(), x, use_reentrant=False))

    with torch.set_grad_enabled(gradients):
        module = pijit.export(function, torch.randn(2, 4), format="fx")
        for n in (2, 5):
            x = torch.randn(n, 4)
            assert torch.equal(module(x), function(x))
