"""Operators that a program defines: they are nodes under their names, and have forms where the program gives them."""

import itertools

import numpy as np
import pytest
import torch

import pijit
from pijit.errors import ExportError, UsageError

COUNT = itertools.count()


@torch.library.custom_op("own_operators::scaled", mutates_args=())
def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x * 2 * factor


@scaled.register_fake
def _(x, factor):
    return torch.empty_like(x)


@torch.library.custom_op("own_operators::filled", mutates_args=("x",))
def filled(x: torch.Tensor, value: float) -> None:
    x.fill_(value)


@torch.library.custom_op("own_operators::unknown", mutates_args=())
def unknown(x: torch.Tensor) -> torch.Tensor:
    return x + 1


LIBRARY = torch.library.Library("own_operators", "FRAGMENT")
LIBRARY.define("both(Tensor x, int n=2) -> (Tensor, Tensor)")
LIBRARY.impl("both", lambda x, n=2: (x * n, x + n), "CPU")
torch.library.register_fake("own_operators::both", lambda x, n=2: (torch.empty_like(x), torch.empty_like(x)))
LIBRARY.define("broken(Tensor x) -> Tensor")
LIBRARY.impl("broken", lambda x: x + 1, "CPU")
LIBRARY.define("made_of_others(Tensor x) -> Tensor")
LIBRARY.impl("made_of_others", lambda x: (x * 4).relu(), "CompositeImplicitAutograd")
LIBRARY.define("either.one(Tensor x, int n) -> Tensor")
LIBRARY.define("either.two(Tensor x, Tensor y) -> Tensor")
LIBRARY.impl("either.one", lambda x, n: x + n, "CPU")
LIBRARY.impl("either.two", lambda x, y: x - y, "CPU")
for _overload in ("either.one", "either.two"):
    torch.library.register_fake(f"own_operators::{_overload}", lambda x, y: torch.empty_like(x))


class Layer(torch.nn.Module):
    def forward(self, x):
        return torch.ops.own_operators.scaled(x, 0.5)


def in_place(x):
    y = x * 2
    filled(y, 3.0)
    return y + x


OPS = torch.ops.own_operators
CASES = {
    "custom_op": (lambda x: scaled(x, 1.5) + 1, ["own_operators::scaled"]),
    "last": (lambda x: OPS.scaled(x + 1, 1.5), ["own_operators::scaled"]),
    "overload": (lambda x: OPS.scaled.default(x, factor=2.0), ["own_operators::scaled"]),
    "a module": (torch.nn.Sequential(Layer(), torch.nn.ReLU(), Layer()), ["own_operators::scaled"] * 2),
    "two results": (lambda x: OPS.both(x, n=3), ["own_operators::both"]),
    "two results used": (lambda x: sum(OPS.both(x.exp())), ["own_operators::both"]),
    "one of two": (lambda x: OPS.both(x)[1].relu(), ["own_operators::both"]),
    "in place": (in_place, ["own_operators::filled"]),
    "composite": (lambda x: OPS.made_of_others(x) - 1, ["own_operators::made_of_others"]),
    "packet": (
        lambda x: OPS.either(x, 2) * OPS.either(x, x),
        ["own_operators::either.one", "own_operators::either.two"],
    ),
    "unknown": (lambda x: unknown(x) * 2, ["own_operators::unknown"]),
    "primitive": (lambda x: torch.ops.prims.add(x, x), ["prims::add"]),
}


def equal(made, expected):
    made, expected = (list(each) if isinstance(each, tuple) else [each] for each in (made, expected))
    return len(made) == len(expected) and all(map(torch.equal, made, expected))


@pytest.mark.parametrize("name", CASES)
def test_they_are_nodes(name):
    function, operators = CASES[name]
    graph = pijit.graph.capture(function, torch.randn(2, 3))
    assert [node.origin for node in graph.nodes if node.is_foreign] == operators
    assert not graph.breaks
    module = pijit.export(graph, format="fx")
    again = pijit.graph.Graph.from_json(graph.to_json())
    for sizes in ((2, 3), (4, 3)):
        x = torch.randn(sizes)
        expected = function(x)
        for run in (graph.run, module, again.run):
            assert equal(run(x), expected)


@pytest.mark.parametrize("name", ["custom_op", "two results", "composite", "in place"])
def test_exported_program_and_python(name, tmp_path):
    function, _ = CASES[name]
    graph = pijit.graph.capture(function, torch.randn(2, 3))
    program = pijit.export(graph, format="exported_program").module()
    source = pijit.export(graph, format="python")
    assert "pybind11" not in source
    namespace = {"__name__": "made"}
    exec(source, namespace)
    for sizes in ((2, 3), (4, 3)):
        x = torch.randn(sizes)
        assert equal(program(x), function(x))


def test_a_composite_one_is_decomposed():
    graph = pijit.graph.capture(CASES["composite"][0], torch.randn(2, 3))
    x = torch.randn(4, 3)
    np.testing.assert_allclose(graph.run(x, framework="numpy"), CASES["composite"][0](x).numpy(), rtol=1e-6)


def test_without_a_form_it_is_refused():
    graph = pijit.graph.capture(CASES["two results"][0], torch.randn(2, 3))
    with pytest.raises(ExportError, match=r"test_own_operators\.py:\d+: own_operators::both has no row"):
        graph.run(torch.randn(2, 3), framework="numpy")


def new_operator(definition):
    """An operator that no other test gives a form to."""
    name = f"new_{next(COUNT)}"
    LIBRARY.define(f"{name}{definition}")
    LIBRARY.impl(name, lambda x: x * 2 + 1, "CPU")
    torch.library.register_fake(f"own_operators::{name}", lambda x: torch.empty_like(x))
    return getattr(OPS, name)


def onnx_of(graph, x):
    runtime = pytest.importorskip("onnxruntime")
    model = pijit.export(graph, format="onnx")
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]


def test_a_form_in_torch_is_one_everywhere():
    op = new_operator("(Tensor x) -> Tensor")
    graph = pijit.graph.capture(lambda x: op(x).relu(), torch.randn(2, 3))
    pijit.register_lowering(op, torch=lambda x: x * 2 + 1)
    for sizes in ((2, 3), (4, 3)):
        x = torch.randn(sizes)
        expected = op(x).relu().numpy()
        np.testing.assert_allclose(graph.run(x, framework="numpy"), expected, rtol=1e-6)
        np.testing.assert_allclose(onnx_of(graph, x), expected, rtol=1e-6)


def test_forms_of_arrays_and_onnx():
    op = new_operator("(Tensor x) -> Tensor")
    graph = pijit.graph.capture(lambda x: op.default(x).exp(), torch.randn(2, 3))
    asked = []
    pijit.register_lowering(op.default, arrays=lambda xp, x: asked.append(xp) or x * 2 + 1)
    pijit.register_lowering(op._qualified_op_name, onnx=lambda o, x: o.Add(o.Mul(x, 2.0), 1.0))
    for sizes in ((2, 3), (4, 3)):
        x = torch.randn(sizes)
        expected = op(x).exp().numpy()
        np.testing.assert_allclose(graph.run(x, framework="numpy"), expected, rtol=1e-5)
        np.testing.assert_allclose(onnx_of(graph, x), expected, rtol=1e-5)
    assert asked == [np, np]


@pytest.mark.parametrize(
    ("op", "given", "says"),
    [
        ("twice", {"torch": abs}, "is the name of an operator"),
        (3, {"torch": abs}, "is the name of an operator"),
        ("own_operators::scaled", {}, "is given no form"),
        (scaled, {"onnx": 3}, "onnx= takes a function"),
    ],
)
def test_wrong_use(op, given, says):
    with pytest.raises(UsageError, match=says):
        pijit.register_lowering(op, **given)


@torch.library.register_fake("own_operators::broken")
def without_data(x):
    raise ValueError("nothing is known")


def test_an_error_of_a_form_without_data_is_one_of_the_export_with_its_line():
    with pytest.raises(
        ExportError, match=r"test_own_operators\.py:\d+: own_operators::broken runs, .*nothing is known"
    ):
        pijit.graph.capture(lambda x: torch.ops.own_operators.broken(x) * 2, torch.ones(2, 3))
