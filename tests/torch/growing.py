"""A decoder whose cache grows by `cat`, as tests of pieces call it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

Cache = list[tuple[Tensor, Tensor]]


class Layer(nn.Module):
    """Attention over what the cache has, and a perceptron."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The next `x` [batch, 1, width], and the cache [batch, heads, length + 1, width / heads] twice."""
        batch, _, width = x.shape
        y = self.first(x)
        q, k, v = (
            part(y).view(batch, 1, self.heads, width // self.heads).transpose(1, 2) for part in (self.q, self.k, self.v)
        )
        keys, values = torch.cat([keys, k * 1.5], 2), torch.cat([values, v * 0.5], 2)
        scores = (q * 0.25) @ keys.transpose(-1, -2)
        found = (scores.softmax(-1) @ values).transpose(1, 2).reshape(batch, 1, width)
        x = x + self.out(found)
        return x + self.mlp(self.second(x)), keys, values


class Decoder(nn.Module):
    """Some layers over words."""

    def __init__(self, layers: int = 3, width: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.width, self.heads = width, heads
        self.words = nn.Embedding(11, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.last = nn.Linear(width, 11)

    def forward(self, words: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """The scores of the next words for `words` [batch, 1], and the cache with these."""
        x, grown = self.words(words), []
        for layer, (keys, values) in zip(self.layers, cache, strict=True):
            x, keys, values = layer(x, keys, values)
            grown.append((keys, values))
        return self.last(x), grown

    def empty(self, batch: int = 1, length: int = 3) -> Cache:
        """A cache of so many words."""
        device = self.last.weight.device
        sizes = (batch, self.heads, length, self.width // self.heads)
        made = [torch.linspace(-1, 1, batch * length * self.width).view(sizes).to(device) for _ in range(2)]
        return [(made[0], made[1]) for _ in self.layers]
