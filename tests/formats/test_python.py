"""A graph as a Python file: run in a process without pijit, it gives the bits of the module."""

import os
import pickle
import subprocess
import sys

import numpy
import pytest
import torch
from graphs import graph_of, net, stack
from torch.utils._pytree import tree_leaves

import pijit
from pijit.errors import ExportError, UsageError
from pijit.graph import Graph, Node, Value

pytestmark = pytest.mark.torch

RUN = """
import sys, torch
sys.path.insert(0, sys.argv[1])
import model
outputs = []
for inputs in torch.load(sys.argv[2]):
    outputs.append(getattr(model, sys.argv[3])(*inputs))
    if len(outputs) == 2:
        next(iter(model.PARAMETERS.values())).mul_(1.5)
torch.save(outputs, sys.argv[2])
"""


@torch.no_grad()
def in_another_process(process, folder, name, arguments):
    """What the file gives; the first parameter is changed behind the second call."""
    torch.save(arguments, folder / "arrays.pt")
    process.run(RUN, folder, folder / "arrays.pt", name)
    return torch.load(folder / "arrays.pt")


@torch.no_grad()
def check(process, folder, module, name, arguments):
    outputs = in_another_process(process, folder, name, arguments)
    for at, (inputs, given) in enumerate(zip(arguments, outputs, strict=True)):
        expected = module(*inputs)
        assert all(map(torch.equal, tree_leaves(expected), tree_leaves(given)))
        if at == 1:
            next(module.parameters()).mul_(1.5)


@pytest.mark.parametrize("framework", ["numpy", "jax"])
def test_a_file_has_what_its_only_operator_needs(framework):
    pytest.importorskip(framework)
    x = Value("x", "tensor", "input", "float32", (2,))
    y = Value("y", "tensor", "result", "float32", (2,))
    for op in ("tanh", "exp", "round", "logical_not"):
        namespace = {"__name__": "exported"}
        graph = Graph("f", (x,), (), (Node(op, {"x": x}, (y,)),), y)
        exec(pijit.export(graph, format="python", framework=framework), namespace)
        for numbers in ([0.5, -1.0], [0.0, 2.0]):
            array = numpy.array(numbers, "float32")
            found, expected = namespace["f"](array), graph.run(torch.from_numpy(array))
            numpy.testing.assert_allclose(numpy.asarray(found), expected.numpy(), rtol=1e-5)


@pytest.mark.parametrize("weights", ["inline", "safetensors"])
def test_the_same_bits_without_pijit(tmp_path, without_pijit, weights):
    module, args = stack()
    free = graph_of(module, *args, dynamic=({0: torch.export.Dim("batch")},))
    path = pijit.export(free, format="python", path=tmp_path / "model.py", weights=weights)
    assert sorted(os.listdir(tmp_path)) == ["model.py", "model.safetensors"][: 1 + (weights == "safetensors")]
    check(without_pijit, tmp_path, module, "Stack", [args, (torch.randn(5, 8),), args])
    assert 'p["layers.0.lin.weight"]' in path.read_text()
    module, args = net()
    pijit.export(graph_of(module, *args), format="python", path=path, weights=weights)
    check(without_pijit, tmp_path, module, "Net", [args, (args[0].flip(0), torch.tensor(3)), args])


def test_it_runs_as_a_program(tmp_path):
    module, args = stack()
    path = pijit.export(graph_of(module, *args), format="python", path=tmp_path / "model.py")
    done = subprocess.run([sys.executable, "-I", path], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("{'a': tensor(")


def test_without_weights():
    module, args = stack()
    text = pijit.export(graph_of(module, *args), format="python", weights="none")
    assert "base64" not in text
    namespace = {"__name__": "model"}
    exec(text, namespace)
    namespace["PARAMETERS"].update(dict(module.named_parameters()) | dict(module.named_buffers()))
    given = namespace["Stack"](*args)["a"]
    module.count.zero_()
    assert torch.equal(module(*args)["a"], given)


RUN_ARRAYS = """
import pickle, sys
import numpy as np
sys.path.insert(0, sys.argv[1])
import model
call = getattr(model, sys.argv[3])
with open(sys.argv[2], "rb") as file:
    arguments = pickle.load(file)
outputs = []
for inputs in arguments:
    outputs.append(call(*inputs))
    if len(outputs) == 2:
        name = next(iter(model.PARAMETERS))
        model.PARAMETERS[name] = model.PARAMETERS[name] * np.float32(1.5)

def arrays(thing):
    if isinstance(thing, dict):
        return {key: arrays(item) for key, item in thing.items()}
    if isinstance(thing, (tuple, list)):
        return [arrays(item) for item in thing]
    return np.asarray(thing)

with open(sys.argv[2], "wb") as file:
    pickle.dump((arrays(outputs), {key: np.asarray(each) for key, each in model.PARAMETERS.items()}), file)
"""


@torch.no_grad()
def check_arrays(process, folder, module, name, arguments, **options):
    """As `check`, in a process without torch, to the accuracy of float32."""
    graph = pijit.graph.capture(module, *arguments[0])
    path = pijit.export(graph, format="python", path=folder / "model.py", **options)
    assert "pijit" not in path.read_text().partition("\n")[2]
    with open(folder / "arrays.pickle", "wb") as file:
        pickle.dump([[each.numpy() for each in inputs] for inputs in arguments], file)
    process.run(RUN_ARRAYS, folder, folder / "arrays.pickle", name)
    with open(folder / "arrays.pickle", "rb") as file:
        outputs, parameters = pickle.load(file)
    first = graph.data[graph.parameters[0].name]
    for at, (inputs, given) in enumerate(zip(arguments, outputs, strict=True)):
        for one, other in zip(tree_leaves(module(*inputs)), tree_leaves(given), strict=True):
            assert one.numpy().dtype == other.dtype
            torch.testing.assert_close(torch.from_numpy(other.copy()), one, atol=2e-5, rtol=2e-5)
        if at == 1:
            first.mul_(1.5)
    return parameters


@pytest.mark.parametrize("framework", ["numpy", "jax"])
@pytest.mark.parametrize("weights", ["inline", "safetensors"])
def test_the_same_numbers_without_torch(tmp_path, without_torch, framework, weights):
    pytest.importorskip(framework)
    module, args = stack()
    options = {"framework": framework, "weights": weights}
    parameters = check_arrays(without_torch, tmp_path, module, "Stack", [args, (torch.randn(5, 8),), args], **options)
    assert parameters["count"] == module.count == 4  # the module writes to it; capture called it once
    module, args = net()
    check_arrays(without_torch, tmp_path, module, "Net", [args, (args[0].flip(0), torch.tensor(3)), args], **options)


def test_inputs_that_are_written():
    made = graph(Node("add", {"x": X, "y": C}, (Y,), "aten::add_.Tensor", ("x",)))
    namespace = {"__name__": "model"}
    exec(pijit.export(made, format="python", framework="numpy"), namespace)
    for x in (numpy.zeros((3, 4), numpy.float32), numpy.ones((3, 4), numpy.float32)):
        expected = x + numpy.arange(4, dtype=numpy.float32)
        namespace["f"](x)
        assert numpy.array_equal(x, expected)
    with pytest.raises(ExportError, match="'f' writes to its input 'x', and arrays of JAX cannot change"):
        pijit.export(made, format="python", framework="jax")


X = Value("x", "tensor", "input", "float32", (3, 4))
C = Value("c", "tensor", "constant", "bfloat16", (4,))
Y, Z = Value("y"), Value("z")


def graph(*nodes, **fields):
    return Graph("f", (X,), (C,), nodes, Y, data={"c": torch.arange(4.0).bfloat16()}, **fields)


def run(made, x):
    namespace = {"__name__": "model"}
    exec(pijit.export(made, format="python"), namespace)
    return namespace["f"](x)


def test_writes_and_updates():
    made = graph(
        Node("add", {"x": X, "y": C}, (Y,), "aten::add_.Tensor", ("x",)),
        Node("setitem", {"x": Y, "index": (0, ((1, 2))), "value": 9}, (Z,), "tensor::setitem"),
        updates=(("x", Z),),
    )
    for x in (torch.zeros(3, 4), torch.ones(3, 4)):
        expected = x + torch.arange(4.0)
        expected[0, [1, 2]] = 9
        run(made, x)
        assert torch.equal(x, expected)


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        ({"framework": "keras"}, UsageError, "framework='keras' is none that the format can write .*there are torch"),
        ({"weights": "all"}, UsageError, "weights= is one of inline, safetensors, none, not 'all'"),
    ],
)
def test_wrong_use(wrong, error, says):
    with pytest.raises(error, match=says):
        pijit.export(graph(), format="python", **wrong)


def test_what_it_cannot_hold():
    with pytest.raises(ExportError, match="m.py:3: print runs in CPython; there the graph of 'f' is split"):
        pijit.export(graph(Node("python::print", {}, (), file="m.py", line=3)), format="python")
    foreign = Node("aten::odd", {"self": X}, (Y,), "aten::odd", file="m.py", line=3)
    for framework in ("numpy", "jax"):
        with pytest.raises(ExportError, match=f"m.py:3: aten::odd has no row .* run in {framework}"):
            pijit.export(graph(foreign), format="python", framework=framework)
    big = Graph("f", (X,), (C,), (), X, data={"c": torch.empty(70 << 20, dtype=torch.int8)})
    with pytest.raises(ExportError, match='are 70 MB, too many for the text .* weights="safetensors" with a path'):
        pijit.export(big, format="python")
    without = Graph("f", (X,), (C,), (), X)
    with pytest.raises(ExportError, match="parameter 'c' has no array; read the graph with its weights"):
        pijit.export(without, format="python")
