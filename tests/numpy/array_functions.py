"""A hundred small functions over arrays: what a program does with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Function = Callable[..., Any]

# name -> function of two arrays of one shape
FUNCTIONS: dict[str, Function] = {
    # elementwise
    "add": lambda x, y: x + y,
    "sub_scalar": lambda x, y: x - 1.5,
    "scalar_sub": lambda x, y: 2 - x,
    "mul_add": lambda x, y: x * y + x,
    "divide": lambda x, y: x / (np.abs(y) + 1),
    "floor_divide": lambda x, y: x // 2,
    "remainder": lambda x, y: np.mod(x, 3),
    "power": lambda x, y: x**2 + y**3,
    "negative": lambda x, y: -x,
    "absolute": lambda x, y: abs(x) + np.fabs(y),
    "sqrt": lambda x, y: np.sqrt(np.abs(x)),
    "exp_log": lambda x, y: np.log1p(np.exp(-np.abs(x))),
    "trigonometry": lambda x, y: np.sin(x) ** 2 + np.cos(x) ** 2,
    "tanh": lambda x, y: np.tanh(x) * np.arctan2(y, x),
    "maximum": lambda x, y: np.maximum(x, y) - np.minimum(x, y),
    "clip": lambda x, y: np.clip(x, -1, 1),
    "clip_method": lambda x, y: x.clip(0, 2),
    "sign_round": lambda x, y: np.sign(x) * np.rint(y),
    "floor_ceil": lambda x, y: np.floor(x) + np.ceil(y) + np.trunc(x),
    "hypot": lambda x, y: np.hypot(x, y),
    "isnan": lambda x, y: np.isnan(x) | np.isinf(y) | ~np.isfinite(x),
    "compare": lambda x, y: (x > y) & (x != 0),
    "logical": lambda x, y: np.logical_or(x > 0, np.logical_not(y > 0)),
    "relu": lambda x, y: np.maximum(x, 0),
    "sigmoid": lambda x, y: 1 / (1 + np.exp(-x)),
    "gelu": lambda x, y: 0.5 * x * (1 + np.tanh(0.79788456 * (x + 0.044715 * x * x * x))),
    "chain_of_ten": lambda x, y: np.abs(
        np.minimum(np.maximum(np.tanh(np.exp(np.sqrt(np.abs((x + y) * x)) - np.abs(y))) / 2, y), x)
    ),
    "square": lambda x, y: np.square(x) + np.reciprocal(np.abs(y) + 1.0),
    "where": lambda x, y: np.where(x > y, x, y),
    "where_scalar": lambda x, y: np.where(x > 0, 1.0, -1.0),
    "astype": lambda x, y: x.astype(np.float32) + y.astype("float64"),
    "copysign": lambda x, y: np.copysign(x, y),
    "expm1": lambda x, y: np.expm1(x / 10) + np.cbrt(y),
    # reductions
    "sum": lambda x, y: x.sum(),
    "sum_function": lambda x, y: np.sum(x),
    "sum_axis": lambda x, y: x.sum(axis=0),
    "sum_keepdims": lambda x, y: x - x.sum(axis=-1, keepdims=True),
    "mean": lambda x, y: x.mean(),
    "mean_function": lambda x, y: np.mean(x) + np.mean(y),
    "min_max": lambda x, y: (x - x.min()) / (x.max() - x.min() + 1),
    "amax_axis": lambda x, y: np.max(x, axis=0),
    "prod": lambda x, y: np.prod(x / 10),
    "any_all": lambda x, y: (np.any(x > 0), (y > 0).all()),
    "argmax": lambda x, y: (x.argmax(), np.argmin(y)),
    "std": lambda x, y: x.std(),
    "var": lambda x, y: np.var(x, ddof=1),
    "normalise": lambda x, y: (x - x.mean()) / (x.std() + 1e-5),
    "softmax": lambda x, y: np.exp(x - x.max()) / np.exp(x - x.max()).sum(),
    "logsumexp": lambda x, y: np.log(np.sum(np.exp(x - np.max(x)))) + np.max(x),
    "cumsum": lambda x, y: np.cumsum(x) + y.cumsum(),
    "count_nonzero": lambda x, y: np.count_nonzero(x > 0),
    "add_reduce": lambda x, y: np.add.reduce(x) + np.maximum.reduce(y),
    "accumulate": lambda x, y: np.maximum.accumulate(x),
    "outer": lambda x, y: np.multiply.outer(x.ravel()[:5], y.ravel()[:4]),
    "ptp": lambda x, y: np.ptp(x),
    "average": lambda x, y: np.average(x),
    "median": lambda x, y: np.median(x),
    "norm": lambda x, y: np.linalg.norm(x),
    "mse": lambda x, y: ((x - y) ** 2).mean(),
    "mae": lambda x, y: np.abs(x - y).mean(),
    "correlation": lambda x, y: ((x - x.mean()) * (y - y.mean())).sum() / (x.std() * y.std() + 1),
    "cosine": lambda x, y: (x * y).sum() / (np.sqrt((x * x).sum()) * np.sqrt((y * y).sum()) + 1),
    "nanmax": lambda x, y: np.nanmax(x),
    # shapes and indexing
    "slice": lambda x, y: x[1:] - x[:-1],
    "slice_step": lambda x, y: x[::2] * 2,
    "reverse": lambda x, y: x[::-1] + y,
    "item": lambda x, y: x[0] + y[-1],
    "ellipsis": lambda x, y: x[..., 0] + y[..., -1],
    "newaxis": lambda x, y: x[:, None] * y[None, :],
    "mask": lambda x, y: x[x > 0],
    "mask_sum": lambda x, y: x[y > 0].sum(),
    "take": lambda x, y: x[np.array([0, 2, 1])],
    "argsort": lambda x, y: x[np.argsort(y, axis=0).ravel()[:2]],
    "reshape": lambda x, y: x.reshape(-1) + y.reshape(-1),
    "ravel": lambda x, y: x.ravel() * np.ravel(y),
    "transpose": lambda x, y: x.T + y.T,
    "concatenate": lambda x, y: np.concatenate([x, y]),
    "stack": lambda x, y: np.stack([x, y]),
    "hstack": lambda x, y: np.hstack((x, y)),
    "vstack": lambda x, y: np.vstack((x, y)),
    "expand": lambda x, y: np.expand_dims(x, 0) + np.squeeze(y),
    "repeat": lambda x, y: np.repeat(x, 2),
    "tile": lambda x, y: np.tile(x, 2),
    "flip": lambda x, y: np.flip(x),
    "roll": lambda x, y: np.roll(x, 1),
    "diff": lambda x, y: np.diff(x),
    "split": lambda x, y: np.split(x[:4], 2)[0],
    "sizes": lambda x, y: x * x.shape[0] + x.ndim + x.size,
    "zeros": lambda x, y: np.zeros(x.shape) + np.ones(y.shape, dtype=x.dtype),
    "zeros_like": lambda x, y: np.zeros_like(x) + np.ones_like(y),
    "full": lambda x, y: np.full(x.shape, 2.0) * x,
    "arange": lambda x, y: np.arange(x.shape[0]) * 2,
    "linspace": lambda x, y: np.linspace(0, 1, 5) + x.ravel()[0],
    "eye": lambda x, y: np.eye(3) + x.ravel()[0],
    "copy": lambda x, y: x.copy() + np.array(y),
    # linear algebra, sorting, sets
    "dot": lambda x, y: np.dot(x.ravel(), y.ravel()),
    "matmul": lambda x, y: x.reshape(x.shape[0], -1) @ y.reshape(y.shape[0], -1).T,
    "einsum": lambda x, y: np.einsum("i,i->", x.ravel(), y.ravel()),
    "inner": lambda x, y: np.inner(x, y),
    "solve": lambda x, y: np.linalg.solve(np.eye(2) * 3, x.ravel()[:2]),
    "det": lambda x, y: np.linalg.det(x.ravel()[:4].reshape(2, 2)),
    "inv": lambda x, y: np.linalg.inv(x.ravel()[:4].reshape(2, 2) + np.eye(2) * 9),
    "sort": lambda x, y: np.sort(x),
    "searchsorted": lambda x, y: np.searchsorted(np.arange(5.0), x.ravel()),
    "unique": lambda x, y: np.unique(x),
    "interp": lambda x, y: np.interp(x.ravel(), [0.0, 1.0, 2.0], [3.0, 1.0, 4.0]),
    "bincount": lambda x, y: np.bincount(np.abs(x.ravel()).astype(np.int64) % 5),
    "convolve": lambda x, y: np.convolve(x.ravel(), np.ones(3) / 3, mode="valid"),
    "cross_entropy": lambda x, y: -np.log(np.exp(x.ravel())[0] / np.exp(x.ravel()).sum()),
}


def branch(x: Any, y: Any) -> Any:
    """A decision on a number in an array."""
    if x.sum() > y.sum():
        return x - y
    return y * 2


def loop(x: Any, y: Any) -> Any:
    """A loop over a constant number of steps."""
    for _ in range(5):
        x = 0.5 * (x + y)
    return x


def rows(x: Any, y: Any) -> Any:
    """A loop over the rows."""
    total = 0.0
    for i in range(len(x)):
        total = total + (x[i] * y[i]).sum()
    return total


def to_python(x: Any, y: Any) -> Any:
    """Numbers of Python."""
    return float(x.sum()), int(x.shape[0]), x.ravel()[:2].tolist(), y.mean().item()


def newton(x: Any, y: Any) -> Any:
    """Square roots by hand."""
    guess = np.ones_like(x)
    for _ in range(6):
        guess = 0.5 * (guess + np.abs(x) / guess)
    return guess


FUNCTIONS.update(branch=branch, loop=loop, rows=rows, to_python=to_python, newton=newton)
