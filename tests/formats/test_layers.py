"""Torch's own layers: in one graph, the same in the formats of torch at other sizes, and close in others; or refused.

A layer in evaluation is exported as `fx` and `onnx`, and run in NumPy; in training it is exported as `fx`. What a
format does not take is an error that names the operator and the line.
"""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

import pijit
from pijit.errors import ExportError

runtime = pytest.importorskip("onnxruntime")


def rows(n):
    return (torch.randn(n, 5, 6),)


def images(n):
    return (torch.randn(n, 4, 8, 8),)


def tokens(n):
    return (torch.randn(n, 5, 8),)


def pairs(n):
    return torch.randn(n, 5, 8), torch.randn(n, 4, 8)


def classes(n):
    return torch.randn(n, 6), torch.randint(0, 6, (n,))


def two(n):
    return torch.rand(n, 6), torch.rand(n, 6)


def signs(n):
    return torch.randn(n, 6), torch.randint(0, 2, (n, 6)) * 2.0 - 1


class Self(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.attention = attention

    def forward(self, x):
        return self.attention(x, x, x)


class Unpooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool, self.unpool = nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)

    def forward(self, x):
        y, places = self.pool(x)
        return self.unpool(y, places)


LAYERS = {
    "Linear": (lambda: nn.Linear(6, 7), rows),
    "Bilinear": (lambda: nn.Bilinear(6, 6, 7), two),
    "Conv1d": (lambda: nn.Conv1d(5, 4, 3, padding=1), rows),
    "Conv2d": (lambda: nn.Conv2d(4, 4, 3, padding="same"), images),
    "Conv2d reflect": (lambda: nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect"), images),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1), images),
    "MaxPool2d": (lambda: nn.MaxPool2d(2), images),
    "MaxUnpool2d": (Unpooled, images),
    "AvgPool2d": (lambda: nn.AvgPool2d(3, 2, 1), images),
    "LPPool2d": (lambda: nn.LPPool2d(2, 2), images),
    "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d(3), images),
    "AdaptiveMaxPool2d": (lambda: nn.AdaptiveMaxPool2d(3), images),
    "ReflectionPad2d": (lambda: nn.ReflectionPad2d(1), images),
    "CircularPad2d": (lambda: nn.CircularPad2d(1), images),
    "PReLU": (nn.PReLU, images),
    "GLU": (nn.GLU, rows),
    "RReLU": (nn.RReLU, rows),
    "Softmin": (lambda: nn.Softmin(1), rows),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(4), images),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), images),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True), images),
    "LayerNorm": (lambda: nn.LayerNorm(6), rows),
    "RMSNorm": (lambda: nn.RMSNorm(6), rows),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(2), images),
    "LSTM": (lambda: nn.LSTM(6, 7), rows),
    "LSTM bidirectional": (lambda: nn.LSTM(6, 7, 2, batch_first=True, bidirectional=True), rows),
    "GRU": (lambda: nn.GRU(6, 7, batch_first=True), rows),
    "RNN": (lambda: nn.RNN(6, 7, nonlinearity="relu"), rows),
    "LSTMCell": (lambda: nn.LSTMCell(6, 7), lambda n: (torch.randn(n, 6),)),
    "GRUCell": (lambda: nn.GRUCell(6, 7), lambda n: (torch.randn(n, 6),)),
    "Embedding": (lambda: nn.Embedding(10, 6, padding_idx=0), lambda n: (torch.randint(0, 10, (n, 5)),)),
    "EmbeddingBag": (lambda: nn.EmbeddingBag(10, 6), lambda n: (torch.randint(0, 10, (n, 5)),)),
    "MultiheadAttention": (lambda: Self(nn.MultiheadAttention(8, 2, batch_first=True)), tokens),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), tokens),
    "TransformerEncoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, norm_first=True), 1),
        tokens,
    ),
    "TransformerDecoderLayer": (lambda: nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), pairs),
    "Dropout": (lambda: nn.Dropout(0.3), images),
    "AlphaDropout": (lambda: nn.AlphaDropout(0.3), images),
    "Upsample": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), images),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), images),
    "Fold": (lambda: nn.Fold((4, 4), (2, 2)), lambda n: (torch.randn(n, 12, 9),)),
    "CosineSimilarity": (nn.CosineSimilarity, two),
    "PairwiseDistance": (nn.PairwiseDistance, two),
    "CrossEntropyLoss": (nn.CrossEntropyLoss, classes),
    "MultiMarginLoss": (nn.MultiMarginLoss, classes),
    "SoftMarginLoss": (nn.SoftMarginLoss, signs),
    "PoissonNLLLoss": (nn.PoissonNLLLoss, two),
    "weight_norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(6, 7)), rows),
    "spectral_norm": (lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(6, 7)), rows),
}
# What is not in one graph, and why: none of it in evaluation.
SPLIT = {
    "MultiheadAttention": "its forward pass calls math.sqrt of a size in training",
    "spectral_norm": "it writes with out= in training, which torch refuses under gradients",
}
# What these formats say no to.
REFUSED = {
    ("AdaptiveMaxPool2d", "onnx"): "the sizes of the image have to be known",
}


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


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("training", [False, True])
def test_in_torch(name, training):
    with torch.set_grad_enabled(training):
        graph = captured(name, training)
        if training and name in SPLIT:
            return
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


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("format", ["numpy", "onnx"])
def test_elsewhere(name, format):
    with torch.no_grad():
        graph = captured(name, False)
        layer = made(name, False)
        if (name, format) in REFUSED:
            with pytest.raises(ExportError, match=r"\.py:\d+: .*" + re.escape(REFUSED[name, format])):
                pijit.export(graph, format="onnx")
            return
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
    assert f"{count - len(SPLIT)} of {count}" in readme
