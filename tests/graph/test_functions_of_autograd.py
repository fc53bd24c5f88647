"""A `torch.autograd.Function` in a graph is what its forward pass calls."""

import pytest
import torch

import pijit


class Rounded(torch.autograd.Function):
    """The gradient goes straight through."""

    @staticmethod
    def forward(ctx, x, digits):
        ctx.digits = digits
        return torch.round(x * digits) / digits

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class Two(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x)
        return x.clamp(min=0) @ y.mT, x + 1

    @staticmethod
    def backward(ctx, a, b):
        return a, b


class Weighted(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return torch.nn.functional.linear(x, weight, bias).reshape(x.shape[0], -1)

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return gradient @ weight, gradient.mT @ x, gradient.sum(0)


class OfData(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2 if x.sum() > 0 else x * 3

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(5, 6))
        self.bias = torch.nn.Parameter(torch.randn(5))

    def forward(self, x):
        return Rounded.apply(Weighted.apply(Rounded.apply(x, 8), self.weight, self.bias), 4)


def both(x):
    a, b = Two.apply(x * 2, x)
    return a.sum(-1) + b.mean(-1)


CASES = {
    "a number": lambda x: Rounded.apply(x, 10) + 1,
    "two results": both,
    "the second": lambda x: Two.apply(x, x)[1] * 2,
    "the last call": lambda x: Rounded.apply(x.exp(), 10),
    "a module": Layer(),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("gradients", [True, False])
def test_they_are_what_they_compute(name, gradients):
    function = CASES[name]
    with torch.set_grad_enabled(gradients):
        graph = pijit.graph.capture(function, torch.randn(2, 6).requires_grad_(gradients))
        assert graph.is_neutral
        module = pijit.export(graph, format="fx")
        for n in (2, 4):
            x = torch.randn(n, 6)
            for run in (graph.run, module):
                assert torch.equal(run(x), function(x))


class Cast(torch.autograd.Function):
    """As autocast would have it, whatever the mode is."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, x, weight):
        return x @ weight.mT

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, gradient):
        return gradient, None


class Mixed(Layer):
    def forward(self, x, case="inside"):
        with torch.autocast("cpu", torch.bfloat16):
            if case == "cast inputs":
                return Cast.apply(self.linear(x), self.weight)
            out = Weighted.apply(self.linear(x), self.weight, self.bias)
            return out if case == "inside" else torch.nn.functional.linear(out, self.weight.mT) * 2

    def linear(self, x):
        return torch.nn.functional.linear(x, self.weight.mT @ self.weight)


@pytest.mark.parametrize("case", ["inside", "an operator behind it", "cast inputs"])
@pytest.mark.parametrize("gradients", [True, False])
def test_operators_are_cast_as_in_the_call(case, gradients):
    model = Mixed()
    function = lambda x: model(x, case)  # noqa: E731
    with torch.set_grad_enabled(gradients):
        module = pijit.export(function, torch.randn(2, 6), format="fx")
        for n in (2, 4):
            x = torch.randn(n, 6)
            found, expected = module(x), function(x)
            assert found.dtype == expected.dtype
            assert torch.equal(found, expected)


def test_parameters_stay_parameters():
    graph = pijit.graph.capture(CASES["a module"], torch.randn(2, 6))
    assert {value.path for value in graph.parameters} == {"weight", "bias"}
    (x,) = graph.inputs
    assert x.shape == ("x_0", 6)


def test_what_looks_at_data_stays_a_call_of_python():
    graph = pijit.graph.capture(lambda x: OfData.apply(x) + 1, torch.ones(2, 6))
    assert [node.op for node in graph.breaks][0] == "python::OfData"


def test_a_training_step_has_the_gradient_that_the_function_says():
    """Operators would have gradients of their own: the step stays split."""

    def step(x, w):
        w.grad = None
        Rounded.apply(x * w, 10).sum().backward()
        return w.grad

    x, w = torch.randn(2, 6), torch.randn(6, requires_grad=True)
    graph = pijit.graph.capture(step, x, w)
    assert torch.allclose(w.grad, x.sum(0))
    assert graph.breaks
