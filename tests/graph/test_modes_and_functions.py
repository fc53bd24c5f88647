"""Functions of Python that stand for operators, and what is no operator of a graph: leaves and the grad mode."""

import numpy as np
import pytest
import torch

import pijit


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
