"""Functions and cells of MindSpore's tensors, for what is recorded and what is captured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindspore
import numpy as np
from mindspore import Tensor, mint, nn, ops


def chain(x: Any, y: Any) -> Any:
    return ((x * y + 1 - y) * x / 2 + y).abs().sum()


def product(x: Any, y: Any) -> Any:
    return ops.matmul(ops.relu(x * y + 1), y.swapaxes(-1, -2))


def weighted(x: Any, y: Any) -> Any:
    return ops.softmax(x, -1) * ops.gelu(y)


def activations(x: Any, y: Any) -> Any:
    return ops.tanh(x) + ops.sigmoid(y) + ops.silu(x) + ops.gelu(y, approximate="tanh")


def reductions(x: Any, y: Any) -> Any:
    return x.mean(), (x + y).sum(-1), ops.mean(y, 0, True)


def shapes(x: Any, y: Any) -> Any:
    rows = x.shape[0]
    return ops.concat((x.reshape(rows, -1), y.reshape((rows, -1))), 1)


def sizes(x: Any, y: Any) -> Any:
    total = 1
    for size in x.shape:
        total *= size
    return (x / total, y * x.ndim) if len(x.shape) == 2 else x - total


def casts(x: Any, y: Any) -> Any:
    return (x * 3).astype(mindspore.int32), ops.cast(y > 0, x.dtype) + x


def by_dtype(x: Any, y: Any) -> Any:
    if x.dtype == mindspore.float32:
        return x + y
    return x - y if x.dtype in (mindspore.float16, mindspore.float64) else x * y


def compared(x: Any, y: Any) -> Any:
    return ops.where(x > y, x, y), (x >= 0) == (y >= 0)


def normal(x: Any, y: Any) -> Any:
    centred = x - x.mean(-1, True)
    return centred / ops.sqrt((centred * centred).mean(-1, True) + 1e-5) + y


def negated(x: Any, y: Any) -> Any:
    return -x, 2 - y, 1 / (y * y + 1), x**2


def looped(x: Any, y: Any) -> Any:
    for step in range(4):
        x = x + y * step
    return x


def collected(x: Any, y: Any) -> Any:
    made = {"a": x + y}
    made["b"] = [each * 2 for each in (made["a"], y)]
    return made["b"][0] - made["a"], len(made["b"])


def helped(x: Any, y: Any, scale: float = 1.5) -> Any:
    def inner(z: Any, *, by: float = scale) -> Any:
        return z * by

    return inner(x) + inner(y, by=3)


def with_names(x: Any, y: Any) -> Any:
    return mint.add(x, y, alpha=2), mint.sum(x, dim=-1, keepdim=True), x.max(axis=-1)


def items(x: Any, y: Any) -> Any:
    return x[0], y[..., 0], x[-1] + y[0]


def transposed(x: Any, y: Any) -> Any:
    return ops.transpose(x, (1, 0)) if x.ndim == 2 else x.T, y.flatten()


def square_roots(x: Any, y: Any) -> Any:
    return ops.sqrt(ops.abs(x)) + ops.exp(-ops.square(y)) + ops.rsqrt(ops.abs(y) + 1)


def several(x: Any, y: Any) -> Any:
    first, second = ops.split(ops.concat((x, y), 0), x.shape[0], 0)
    return second - first


def clipped(x: Any, y: Any) -> Any:
    return ops.clamp(x, -1.0, 1.0) + ops.maximum(x, y) - ops.minimum(x, y)


def in_place(x: Any, y: Any) -> Any:
    z = x + 0
    z[0] = y[0]
    z += y
    z.add_(y)
    return z


def made_here(x: Any, y: Any) -> Any:
    return x + Tensor(2.0, x.dtype), ops.zeros_like(y) + ops.ones(y.shape, y.dtype)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        *(chain, product, weighted, activations, reductions, shapes, sizes, casts, by_dtype, compared, normal, negated),
        *(looped, collected, helped, with_names, items, transposed, square_roots, several, clipped, in_place),
        made_here,
    )
}


class Attention(nn.Cell):  # type: ignore[misc]
    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Dense(width, width) for _ in range(4))

    def construct(self, x: Any) -> Any:
        weights = ops.softmax(ops.matmul(self.query(x), self.key(x).transpose(0, 2, 1)) / 8.0, -1)
        return self.out(ops.matmul(weights, self.value(x)))


class Block(nn.Cell):  # type: ignore[misc]
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.gelu = nn.LayerNorm((width,)), nn.GELU()
        self.up, self.down = nn.Dense(width, 4 * width), nn.Dense(4 * width, width)

    def construct(self, x: Any) -> Any:
        return x + self.down(self.gelu(self.up(self.norm(x))))


def stack() -> Any:
    return nn.SequentialCell(nn.Dense(8, 16), nn.ReLU(), nn.Dense(16, 16), nn.Tanh(), nn.Dense(16, 4))


# What makes a cell, and the shapes of what it is given.
CELLS: dict[str, tuple[Callable[[], Any], list[tuple[int, ...]]]] = {
    "stack": (stack, [(4, 8), (2, 8), (3, 2, 8)]),
    "attention": (lambda: Attention(8), [(2, 4, 8), (1, 3, 8)]),
    "block": (lambda: Block(8), [(4, 8), (2, 3, 8)]),
}


def tensors(seed: int, *shape: int, dtype: Any = np.float32, count: int = 2) -> tuple[Any, ...]:
    """Random tensors."""
    draw = np.random.default_rng(seed)
    return tuple(Tensor((draw.normal(size=shape) * 2).astype(dtype)) for _ in range(count))
