"""Torch's own layers, each with its inputs by batch size; test_layers.py and bench/graphs.py take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


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


LAYERS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], tuple[Any, ...]]]] = {
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
