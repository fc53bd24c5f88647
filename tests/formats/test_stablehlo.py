"""A graph as StableHLO text: what XLA's compiler, which is given the text alone, gives for it."""

import dataclasses

import numpy as np
import pytest
import torch
from graphs import graph_of, net, stack

import pijit
from pijit.errors import ExportError, UsageError
from pijit.graph import Graph, Node, Value

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.torch

FREE = ({0: torch.export.Dim("batch")},)
X = Value("x", "tensor", "input", "float32", ("n", 4))


def graph(nodes, outputs, inputs=(X,), **more):
    return Graph("f", tuple(inputs), more.pop("parameters", ()), tuple(nodes), outputs, **more)


def made(graph, **options):
    return pijit.export(graph, format="stablehlo", **options)


def array(thing):
    return thing.detach().numpy() if isinstance(thing, torch.Tensor) else np.asarray(thing)


def arguments(module, inputs):
    return [array(module.data[name]) if name in module.data else array(inputs[name]) for name in module.arguments]


def compiled(module):
    """What jaxlib compiles from the text alone."""
    from jax._src.lib import _jax

    device = jax.devices("cpu")[0]
    program = device.client.compile_and_load(module.text, _jax.DeviceList((device,)), _jax.CompileOptions())

    def call(**inputs):
        with jax.enable_x64(True):
            given = [jax.device_put(each, device) for each in arguments(module, inputs)]
            return dict(zip(module.results, map(np.asarray, program.execute(given)), strict=True))

    return call


def refined(module):
    """The text with free sizes, which JAX refines for the sizes of a call and compiles."""
    from jaxlib.mlir.dialects import stablehlo

    held = stablehlo.serialize_portable_artifact_str(module.text, module.version)
    exported = dataclasses.replace(module.exported, mlir_module_serialized=held)

    def call(**inputs):
        with jax.enable_x64(True):
            found = exported.call(*arguments(module, inputs))
            return dict(zip(module.results, map(np.asarray, found), strict=True))

    return call


def close(found, expected):
    np.testing.assert_allclose(found, array(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("parameters", ["arguments", "constants"])
def test_text_gives_what_torch_gives(parameters):
    module, args = stack()
    text = made(graph_of(module, *args), parameters=parameters)
    assert ("layers.0.lin.weight" in text.arguments) == (parameters == "arguments") == bool(text.data)
    assert text.results == ("a", "rest.0", "rest.1", "count.updated")
    run = compiled(text)
    for _ in range(2):
        x = torch.randn(3, 8)
        found = run(x=x)
        with torch.no_grad():
            module.count.zero_()
            expected = module(x)
            module.count.zero_()
        close(found["a"], expected["a"])
        close(found["rest.0"], expected["rest"][0])
        close(found["rest.1"], expected["rest"][1])
        assert found["count.updated"] == 1


def test_parameters_that_are_arguments_may_change():
    module, (ids, scale) = net()
    run = compiled(made(graph_of(module, ids, scale)))
    for change in (0, 0.5):
        with torch.no_grad():
            module.out.weight.add_(change)
        found = run(ids=ids, scale=scale)
        for one, other in zip(found.values(), module(ids, scale), strict=True):
            close(one, other)


def test_free_sizes_are_free_in_the_text():
    module, args = stack()
    text = made(graph_of(module, *args, dynamic=FREE), dynamic=True)
    assert "tensor<?x8xf32>" in text.text
    assert text.sizes == {}
    run = refined(text)
    for size in (3, 7):
        x = torch.randn(size, 8)
        found = run(x=x)
        with torch.no_grad():
            module.count.zero_()
            expected = module(x)
            module.count.zero_()
        close(found["a"], expected["a"])
        close(found["rest.0"], expected["rest"][0])


def test_sizes_that_jax_cannot_follow_are_fixed_unless_they_are_asked_for():
    y, n, i = Value("y", dtype="float32"), Value("k", "int"), Value("i", dtype="float32")
    nodes = [
        Node("size", {"x": X, "axis": 0}, (n,)),
        Node("linspace", {"start": 0, "stop": 1, "num": n}, (i,), file="model.py", line=3),
        Node("matmul", {"x": i, "y": X}, (y,)),
    ]
    g = graph(nodes, y, symbols={"n": 3})
    text = made(g)
    assert text.sizes == {"n": 3}
    assert "// For n = 3." in text.text.splitlines()
    run = compiled(text)
    for seed in (1, 2):
        x = torch.randn(3, 4, generator=torch.Generator().manual_seed(seed))
        close(run(x=x)["output"], torch.linspace(0, 1, 3) @ x)
    with pytest.raises(
        ExportError, match=r"model\.py:3: linspace has no form in StableHLO here: .*; try dynamic=False"
    ):
        made(g, dynamic=True)


def test_only_the_sizes_that_jax_cannot_follow_are_fixed():
    x = Value("x", "tensor", "input", "float32", ("n", "m"))
    m, i, y = Value("k", "int"), Value("i", dtype="float32"), Value("y", dtype="float32")
    nodes = [
        Node("size", {"x": x, "axis": 1}, (m,)),
        Node("linspace", {"start": 0, "stop": 1, "num": m}, (i,)),
        Node("multiply", {"x": x, "y": i}, (y,)),
    ]
    text = made(graph(nodes, y, (x,), symbols={"n": 3, "m": 4}))
    assert text.sizes == {"m": 4}
    run = refined(text)
    for size in (3, 5):
        x = torch.randn(size, 4)
        close(run(x=x)["output"], x * torch.linspace(0, 1, 4))


def test_a_size_that_a_table_limits():
    table = Value("t", "tensor", "parameter", "float32", (9, 4), path="table")
    n, part, y = Value("k", "int"), Value("part", dtype="float32", shape=("n", 4)), Value("y", dtype="float32")
    nodes = [
        Node("size", {"x": X, "axis": 0}, (n,)),
        Node("slice", {"x": table, "axis": 0, "stop": n}, (part,)),
        Node("add", {"x": X, "y": part}, (y,)),
    ]
    data = torch.randn(9, 4)
    text = made(graph(nodes, y, parameters=(table,), data={"t": data}, symbols={"n": 3}), dynamic=True)
    run = refined(text)
    for size in (2, 9):
        x = torch.randn(size, 4)
        close(run(x=x)["output"], x + data[:size])


def test_checks_of_sizes_are_comments_and_constraints():
    n, less, y = Value("k", "int"), Value("less", "bool"), Value("y", dtype="float32")
    nodes = [
        Node("size", {"x": X, "axis": 0}, (n,)),
        Node("scalar_less", {"x": n, "y": 7}, (less,)),
        Node("check", {"x": less, "expected": True}, (), file="model.py", line=5),
        Node("exp", {"x": X}, (y,)),
    ]
    text = made(graph(nodes, y, symbols={"n": 3}), dynamic=True)
    assert "// Holds where model.py:5 scalar_less(k, 7) is True." in text.text.splitlines()
    run = refined(text)
    for size in (3, 5):
        x = torch.randn(size, 4)
        close(run(x=x)["output"], x.exp())
    with pytest.raises(ValueError, match="do not match the symbolic shape constraint"):
        text.exported.call(np.zeros((7, 4), np.float32))


def test_text_says_version_arguments_and_results():
    module, args = net()
    text = made(graph_of(module, *args))
    first, *lines = text.text.splitlines()
    assert first.startswith(f"// StableHLO {text.version} of 'Net', made by pijit {pijit.__version__} with JAX ")
    assert "//   0 table.weight: float32[11, 6]" in lines
    assert "loc(" not in text.text
    named = made(graph_of(module, *args), locations=True)
    assert "conv" in named.text
    assert "loc(" in named.text
    assert len(named.text) > len(text.text)
    compiled(named)


def test_files(tmp_path):
    from pijit._array_bytes import read_file

    module, args = net()
    for parameters in ("arguments", "constants"):
        path = pijit.export(graph_of(module, *args), format="stablehlo", path=tmp_path / f"{parameters}.mlir",
                            parameters=parameters)  # fmt: skip
        assert path.read_text().startswith("// StableHLO ")
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "arguments.mlir", "arguments.safetensors", "constants.mlir",
    ]  # fmt: skip
    held = read_file(tmp_path / "arguments.safetensors")
    assert held["out.weight"].shape == (3, 4)
    with pytest.raises(ExportError, match="parameters' file"):
        pijit.export(graph_of(module, *args), format="stablehlo", path=tmp_path / "a.safetensors")


def test_bad_options_and_operators():
    y = Value("y", dtype="float32")
    with pytest.raises(UsageError, match="'arguments', 'constants'"):
        made(graph([Node("exp", {"x": X}, (y,))], y), parameters="none")
    for op in ("aten::special_i0", "custom::thing"):
        with pytest.raises(ExportError, match=rf"model\.py:9: {op} has no row in the vocabulary"):
            made(graph([Node(op, {"x": X}, (y,), file="model.py", line=9)], y, symbols={"n": 2}))


@pytest.mark.parametrize("op", ["nonzero", "dropout"])
def test_sizes_that_depend_on_data_and_random_numbers_are_named_with_their_line(op):
    x, y = Value("x", "tensor", "input", "float32", (3, 4)), Value("y", dtype="float32")
    more = {"p": 0.5, "training": True} if op == "dropout" else {}
    g = graph([Node(op, {"x": x, **more}, (y,), file="model.py", line=8)], y, (x,))
    for parameters in ("arguments", "constants"):
        with pytest.raises(ExportError, match=rf"model\.py:8: {op} .*(; try format|`module\.eval)") as caught:
            made(g, parameters=parameters)
        assert not getattr(caught.value, "__notes__", None)
