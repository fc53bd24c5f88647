"""A graph as an ONNX model: what ONNX Runtime gives for it, also at other sizes, and what the model says of itself."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from graphs import graph_of, net, stack

import pijit
from pijit.errors import ExportError, UsageError
from pijit.graph import Graph, Node, Region, Slice, Token, Value

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.torch

FREE = ({0: torch.export.Dim("batch")},)
X = Value("x", "tensor", "input", "float32", ("n", 4))


def graph(nodes, outputs, inputs=(X,), **more):
    return Graph("f", tuple(inputs), more.pop("parameters", ()), tuple(nodes), outputs, **more)


def made(graph, **options):
    """The model, checked."""
    model = pijit.export(graph, format="onnx", **options)
    onnx.checker.check_model(model, full_check=True)
    return model


def session(model):
    return runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def run(model, *arrays):
    """What the model gives, by the names of its outputs."""
    running = session(model)
    feeds = {each.name: np.asarray(array) for each, array in zip(running.get_inputs(), arrays, strict=True)}
    return dict(zip([each.name for each in running.get_outputs()], running.run(None, feeds), strict=True))


def notes(proto):
    return {each.key: each.value for each in proto.metadata_props}


def dims(info):
    return [dim.dim_param or dim.dim_value for dim in info.type.tensor_type.shape.dim]


def close(found, expected):
    np.testing.assert_allclose(found, expected.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_model_gives_what_torch_gives_at_other_sizes_and_names_its_outputs():
    module, args = stack()
    model = made(graph_of(module, *args, dynamic=FREE))
    assert [each.name for each in model.graph.output] == ["a", "rest.0", "rest.1", "count.updated"]
    assert [type(dim) for dim in dims(model.graph.input[0])] == [str, int]
    for size in (3, 7, 2):
        x = torch.randn(size, 8)
        before = module.count.clone()
        found = run(model, x)
        with torch.no_grad():
            module.count.zero_()
            expected = module(x)
            module.count.copy_(before)
        close(found["a"], expected["a"])
        close(found["rest.0"], expected["rest"][0])
        close(found["rest.1"], expected["rest"][1])
        assert found["count.updated"] == 1


def test_convolutions_normalisation_and_integers():
    module, (ids, scale) = net()
    model = made(graph_of(module, ids, scale, dynamic=({0: torch.export.Dim("batch")}, None)))
    for seed in (1, 2):
        ids = torch.randint(0, 11, (seed + 2, 4))
        found = run(model, ids, scale)
        for one, other in zip(found.values(), module(ids, scale), strict=True):
            close(one, other)


def test_parameters_have_their_paths_and_their_bytes():
    module, args = net()
    model = made(graph_of(module, *args))
    weights = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    for name in ("table.weight", "conv.weight", "norm.running_var", "out.weight"):
        np.testing.assert_array_equal(weights[name], module.state_dict()[name].numpy())
    with torch.no_grad():
        module.out.weight.add_(1)
    again = made(graph_of(module, *args))
    weights = {each.name: onnx.numpy_helper.to_array(each) for each in again.graph.initializer}
    np.testing.assert_array_equal(weights["out.weight"], module.out.weight.detach().numpy())


def test_nodes_say_layer_and_line():
    y, z = Value("y", dtype="float32"), Value("z", dtype="float32")
    region = Region("", "Model", (), (Region("layers.3", "Block", (0, 1)),))
    nodes = [
        Node("relu", {"x": X}, (y,), origin="aten::relu", region="layers.3", file="model.py", line=12),
        Node("softplus", {"x": y}, (z,), origin="aten::softplus", region="layers.3", file="model.py", line=13),
    ]
    model = made(graph(nodes, z, region=region, symbols={"n": 2}))
    first, *rest = model.graph.node
    assert first.name == "layers.3/relu"
    assert notes(first) == {
        "namespace": "Model/Block layers.3/relu",
        "pijit.layer": "layers.3",
        "pijit.line": "model.py:12",
        "pijit.origin": "aten::relu",
    }
    assert {notes(each)["pijit.line"] for each in rest} == {"model.py:13"}
    assert len({each.name for each in model.graph.node}) == len(model.graph.node)
    assert all(each.name.startswith("layers.3/softplus/") for each in rest)
    assert (model.producer_name, model.producer_version) == ("pijit", pijit.__version__)
    assert json.loads(notes(model)["pijit.sizes_seen"]) == {"n": 2}
    assert notes(model)["pijit.function"] == "f"
    assert [each.version for each in model.opset_import] == [21]


def test_known_types_of_values_are_in_the_model():
    y, z = Value("y", dtype="float32", shape=("n", 4)), Value("z", dtype="float32", shape=("n",))
    nodes = [Node("exp", {"x": X}, (y,)), Node("sum", {"x": y, "axis": (1,)}, (z,))]
    model = made(graph(nodes, z, symbols={"n": 3}))
    assert {each.name: dims(each) for each in model.graph.value_info} == {"y": ["n", 4]}
    assert dims(model.graph.output[0]) == ["n"]


TURNED = {
    "a matrix": (lambda x, y: x.T @ y, (3, 4), (3,)),
    "a computed one": (lambda x, y: (x + 1).T @ y, (3, 4), (3,)),
    "many": (lambda x, y: x.mT @ y, (5, 3, 4), (3,)),
    "mv": (lambda x, y: torch.mv(x.t(), y), (3, 4), (3,)),
    "addmv": (lambda x, y: torch.addmv(x[0], x.t(), y), (3, 4), (3,)),
    "from the left": (lambda x, y: y @ x.T, (3, 4), (4,)),
    "einsum": (lambda x, y: torch.einsum("ji,j->i", x, y), (3, 4), (3,)),
    "linear": (lambda x, y: torch.nn.functional.linear(x.T, y), (3, 4), (3,)),
}


@pytest.mark.parametrize("name", TURNED)
def test_the_product_of_a_transposed_matrix_and_a_vector(name):
    """ONNX Runtime's own fusion of both is wrong."""
    function, *sizes = TURNED[name]
    arrays = [torch.randn(size, generator=torch.Generator().manual_seed(at)) for at, size in enumerate(sizes)]
    with torch.no_grad():
        (found,) = run(made(pijit.graph.capture(function, *arrays)), *arrays).values()
        close(found, function(*arrays))


def test_numbers_that_are_computed_from_sizes():
    n, half, twice = (Value(name, "int") for name in ("n_", "half", "twice"))
    less, y = Value("less", "bool"), Value("y", dtype="float32")
    nodes = [
        Node("size", {"x": X, "axis": 0}, (n,)),
        Node("scalar_multiply", {"x": n, "y": 2}, (twice,)),
        Node("scalar_floor_divide", {"x": 4, "y": 2}, (half,)),
        Node("reshape", {"x": X, "shape": (twice, half)}, (y,)),
        Node("scalar_less", {"x": n, "y": 7}, (less,)),
        Node("check", {"x": less, "expected": True}, (), file="model.py", line=5),
    ]
    model = made(graph(nodes, (y, twice), symbols={"n": 3}))
    for size in (3, 5):
        x = np.arange(size * 4, dtype=np.float32).reshape(size, 4)
        found = run(model, x)
        np.testing.assert_array_equal(found["output.0"], x.reshape(2 * size, 2))
        assert found["output.1"] == 2 * size
    with pytest.raises(Exception, match="check model.py:5"):
        run(model, np.zeros((7, 4), np.float32))
    assert "model.py:5" in notes(model)["pijit.holds_where"]


def test_what_is_known_is_computed_while_the_model_is_made():
    x = Value("x", "tensor", "input", "float32", (3, 4))
    n, m = Value("a", "int"), Value("b", "int")
    y = Value("y", dtype="float32")
    nodes = [
        Node("size", {"x": x, "axis": 0}, (n,)),
        Node("scalar_multiply", {"x": n, "y": 2}, (m,)),
        Node("reshape", {"x": x, "shape": (m, 2)}, (y,)),
    ]
    model = made(graph(nodes, y, (x,)))
    assert [each.op_type for each in model.graph.node] == ["Reshape"]


def test_dynamic_false_fixes_sizes():
    y = Value("y", dtype="float32", shape=("n", 4))
    model = made(graph([Node("exp", {"x": X}, (y,))], y, symbols={"n": 3}), dynamic=False)
    assert dims(model.graph.input[0]) == [3, 4]
    with pytest.raises(Exception, match="Got: 2 Expected: 3"):
        run(model, np.zeros((2, 4), np.float32))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("float32", "int64", "float32"),
        ("int32", "int64", "int64"),
        ("uint8", "int8", "int16"),
        ("bool", "int64", "int64"),
        ("float16", "float32", "float32"),
        ("float64", "float32", "float64"),
        ("bool", "bool", "bool"),
        ("uint8", "uint8", "uint8"),
    ],
)
def test_dtypes_are_cast_as_torch_promotes_them(one, other, expected):
    a, b = (Value(name, "tensor", "input", dtype, (3,)) for name, dtype in (("a", one), ("b", other)))
    y = Value("y")
    model = made(graph([Node("add", {"x": a, "y": b}, (y,))], y, (a, b)))
    for fill in (1, 0):
        arrays = [torch.full((3,), fill, dtype=getattr(torch, dtype)) for dtype in (one, other)]
        found = run(model, *arrays)["output"]
        assert found.dtype == np.dtype(expected)
        np.testing.assert_array_equal(found, torch.add(*arrays).numpy())


@pytest.mark.parametrize(
    ("number", "dtype"), [(2, "float16"), (2.5, "float16"), (2.5, "int64"), (2, "int32"), (True, "int8"), (2, "bool")]
)
def test_a_number_is_weak(number, dtype):
    a, y = Value("a", "tensor", "input", dtype, (2,)), Value("y")
    model = made(graph([Node("multiply", {"x": a, "y": number}, (y,))], y, (a,)))
    for fill in (1, 0):
        x = torch.full((2,), fill, dtype=getattr(torch, dtype))
        np.testing.assert_array_equal(run(model, x)["output"], (x * number).numpy(), strict=True)


@pytest.mark.parametrize(
    "index",
    [
        (slice(1, None), ...),
        (..., None, 1),
        (slice(None, None, 2), [0, 2]),
        ([[0, 1], [1, 2]], slice(1, 3)),
        ([0, 1], [2, 3]),
        (slice(None), None, [3, 1]),
        (-1, slice(-3, -1)),
    ],
    ids=str,
)
def test_items(index):
    inputs, feeds, own = [X], [], []
    for part in index:
        if isinstance(part, list):
            inputs.append(Value(f"i{len(inputs)}", "tensor", "input", "int64", np.shape(part)))
            feeds.append(np.array(part))
            own.append(inputs[-1])
        else:
            own.append(Slice(part.start, part.stop, part.step) if isinstance(part, slice) else part)
    y = Value("y")
    model = made(graph([Node("getitem", {"x": X, "index": tuple(own)}, (y,))], y, inputs, symbols={"n": 3}))
    for size in (3, 5):
        x = torch.randn(size, 4)
        expected = x[tuple(torch.tensor(part) if isinstance(part, list) else part for part in index)]
        np.testing.assert_array_equal(run(model, x, *feeds)["output"], expected.numpy())


def test_outputs_that_are_inputs_parameters_numbers_or_given_twice():
    w = Value("w", "tensor", "parameter", "float32", (2,), path="weight")
    y = Value("y", dtype="float32")
    n = Value("count", "int")
    nodes = [Node("exp", {"x": X}, (y,)), Node("ndim", {"x": X}, (n,))]
    g = graph(nodes, {"x": X, "w": w, "y": [y, y], "n": n, "none": None}, parameters=(w,), data={"w": torch.ones(2)})
    model = made(g)
    for size in (1, 2):
        x = np.full((size, 4), size, np.float32)
        found = run(model, x)
        assert list(found) == ["x_1", "w", "y.0", "y.1", "n"]
        np.testing.assert_array_equal(found["x_1"], x)
        np.testing.assert_array_equal(found["w"], np.ones(2))
        np.testing.assert_array_equal(found["y.0"], found["y.1"])
        assert found["n"] == 2


def test_half_precision_parameters_keep_their_bits():
    w = Value("w", "tensor", "parameter", "bfloat16", (3,))
    y = Value("y", dtype="float32")
    for data in (torch.tensor([1.5, -2, 3e30], dtype=torch.bfloat16), torch.zeros(3, dtype=torch.bfloat16)):
        cast = Node("astype", {"x": w, "dtype": Token("dtype", "float32")}, (y,))
        model = made(graph([cast], y, (), parameters=(w,), data={"w": data}))
        np.testing.assert_array_equal(run(model)["output"], data.float().numpy())


def test_complex_values_inside_and_outside():
    a = Value("a", "tensor", "input", "complex64", (2, "n"))
    f, y = Value("f", dtype="complex64"), Value("y", dtype="complex64")
    nodes = [Node("fft", {"x": a}, (f,)), Node("multiply", {"x": f, "y": a}, (y,))]
    model = made(graph(nodes, y, (a,), symbols={"n": 4}))
    for size in (4, 6):
        x = torch.randn(2, size, dtype=torch.complex64)
        close(run(model, torch.view_as_real(x))["output"], torch.view_as_real(torch.fft.fft(x) * x))


def test_file_is_what_was_made(tmp_path):
    y = Value("y", dtype="float32")
    g = graph([Node("exp", {"x": X}, (y,))], y)
    for name in ("a.onnx", "b.onnx"):
        path = pijit.export(g, format="onnx", path=tmp_path / name)
        assert onnx.load(path) == made(g)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.onnx", "b.onnx"]


def test_large_models_have_their_weights_beside_them(tmp_path, monkeypatch):
    from pijit._formats.onnx import lower as onnx_lower

    monkeypatch.setattr(onnx_lower, "LIMIT", 1000)
    module, x = torch.nn.Linear(32, 16), torch.randn(3, 32)
    path = pijit.export(graph_of(module, x), format="onnx", path=tmp_path / "net.onnx")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["net.onnx", "net.onnx.data"]
    running = runtime.InferenceSession(path)
    for size in (1, 2):
        close(running.run(None, {"input": (x * size).numpy()})[0], module(x * size))


def foreign(op):
    y = Value("y", dtype="float32")
    return graph([Node(op, {"x": X}, (y,), file="model.py", line=9)], y)


@pytest.mark.parametrize("op", ["aten::special_i0", "custom::thing"])
def test_operator_without_a_form_is_named_with_its_line(op, tmp_path):
    with pytest.raises(ExportError, match=rf"model\.py:9: {op} has no row in the vocabulary.*torch"):
        pijit.export(foreign(op), format="onnx", path=tmp_path / "no.onnx")
    assert not list(tmp_path.iterdir())


def test_what_a_row_cannot_do_is_named_with_its_line():
    y, z = Value("y", dtype="float32"), Value("z", dtype="float32")
    chunk = Node("chunk", {"x": X, "chunks": 3}, (y, z), file="model.py", line=4)
    with pytest.raises(ExportError, match=r"model\.py:4: chunk has no form in ONNX here: .* free size; try"):
        pijit.export(graph([chunk], (y, z), symbols={"n": 2}), format="onnx", dynamic=True)


@pytest.mark.parametrize(
    ("fn", "free"),
    [
        (
            lambda x: torch.nn.functional.conv2d(
                x, x.new_ones(1, 1, 3, 3).expand(x.size(1), 1, 3, 3), groups=x.size(1)
            ),
            {0, 2, 3},
        ),
        (lambda x: torch.nn.functional.adaptive_max_pool2d(x, 2), {0, 1}),
        (lambda x: torch.stack(x.tensor_split(2, 1)), {0, 2, 3}),
    ],
    ids=["groups", "windows", "parts"],
)
def test_an_operator_that_needs_a_size_fixes_that_size_alone(fn, free):
    x = torch.rand(2, 4, 6, 8)
    other = torch.rand(*(size + (at in free) for at, size in enumerate(x.shape)))
    graph = pijit.graph.capture(fn, x)
    assert not any(isinstance(size, int) for size in graph.inputs[0].shape)
    model = pijit.export(graph, format="onnx")
    assert {at for at, size in enumerate(dims(model.graph.input[0])) if isinstance(size, str)} == free
    for given in (x, other):
        close(
            next(iter(run(model, given.numpy()).values())), fn(given)[0] if isinstance(fn(given), tuple) else fn(given)
        )
    with pytest.raises(ExportError, match=r"test_onnx\.py:\d+: "):
        pijit.export(graph, format="onnx", dynamic=True)


def test_unknown_opset_is_an_error_and_a_newer_one_is_taken():
    y = Value("y", dtype="float32")
    g = graph([Node("exp", {"x": X}, (y,))], y)
    with pytest.raises(UsageError, match="21 to"):
        pijit.export(g, format="onnx", opset=9)
    assert [each.version for each in made(g, opset=22).opset_import] == [22]


def test_no_package_is_imported_before_it_is_needed():
    code = "import sys, pijit; pijit.formats(); print([n for n in ('onnx', 'jax', 'onnxruntime') if n in sys.modules])"
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]"
