"""Torch's own layers: in one graph, the same in the formats of torch at other sizes, and close in others; or refused.

A layer in evaluation is exported as `fx` and `onnx`, and run in NumPy; in training it is exported as `fx`. What a
format does not take is an error that names the operator and the line.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from layers import LAYERS
from torch.utils._pytree import tree_leaves, tree_map

import pijit

runtime = pytest.importorskip("onnxruntime")


def made(name, training):
    torch.manual_seed(0)
    return LAYERS[name][0]().train(training)


def called(function, arguments):
    torch.manual_seed(5)  # what is drawn at random is the same
    return function(*tree_map(torch.clone, arguments))


def compare(found, expected, name, tolerance=0.0):
    found, expected = tree_leaves(found), tree_leaves(expected)
    assert len(found) >= len(expected)  # ONNX gives what is written, too
    for a, b in zip(found, expected, strict=False):
        if tolerance:
            np.testing.assert_allclose(a, b.detach().numpy(), rtol=tolerance, atol=tolerance)
            assert a.shape == tuple(b.shape), name
        else:
            assert torch.equal(a, b), name


def captured(name, training):
    layer = made(name, training)
    torch.manual_seed(5)
    return pijit.graph.capture(layer, *LAYERS[name][1](2))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("training", [False, True])
def test_in_torch(name, training):
    with torch.set_grad_enabled(training):
        graph = captured(name, training)
        assert not graph.breaks, graph.breaks
        module = pijit.export(graph, format="fx")
        layer = made(name, training)
        called(layer, LAYERS[name][1](2))  # as the module has been: running statistics were written
        for n in (2, 3):
            arguments = LAYERS[name][1](n)
            state = {key: each.clone() for key, each in module.state_dict().items()}
            expected = called(layer, arguments)
            if not training:
                compare(called(module, arguments), expected, name)
                compare(called(graph.run, arguments), expected, name)
            else:
                compare(called(module, arguments), expected, name)
            assert state.keys() == module.state_dict().keys()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("format", ["numpy", "onnx"])
def test_elsewhere(name, format):
    with torch.no_grad():
        graph = captured(name, False)
        layer = made(name, False)
        run = onnx_of(graph) if format == "onnx" else lambda *given: graph.run(*given, framework="numpy")
        for n in (2, 3):
            arguments = LAYERS[name][1](n)
            compare(run(*arguments), layer(*arguments), name, 1e-4)


def onnx_of(graph):
    model = pijit.export(graph, format="onnx")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    return lambda *given: session.run(None, dict(zip(names, (each.numpy() for each in given), strict=True)))


def test_the_readme_has_the_share():
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    count = 2 * len(LAYERS)
    assert f"{len(LAYERS)} of torch's own layers" in readme
    assert f"all {count} are one whole graph" in readme
