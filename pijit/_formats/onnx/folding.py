"""Computes nodes of ONNX on small constants while the graph is built: what sizes and numbers come to, mostly."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

# Constants of up to so many elements are computed.
FOLDED = 64

Fold = Callable[..., Any]


def _divided(x: Any, y: Any) -> Any:
    return x / y if np.issubdtype(x.dtype, np.floating) else np.trunc(x / y).astype(x.dtype)


_FOLDS: dict[str, Fold] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": _divided,
    "Mod": np.mod,
    "Pow": np.power,
    "Neg": np.negative,
    "Abs": np.abs,
    "Sqrt": np.sqrt,
    "Exp": np.exp,
    "Log": np.log,
    "Reciprocal": np.reciprocal,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Round": np.round,
    "Min": np.minimum,
    "Max": np.maximum,
    "Equal": np.equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Not": np.logical_not,
    "Where": np.where,
    "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(int(axis) for axis in axes.reshape(-1))),
    "Squeeze": lambda x, axes: np.squeeze(x, tuple(int(axis) for axis in axes.reshape(-1))),
}


def fold(kind: str, inputs: Sequence[Any]) -> Any:
    """What an operator gives on constants; None: it is not computed here."""
    python = _FOLDS.get(kind)
    arrays = [None if each is None else each.const for each in inputs]
    if python is None or not arrays or any(each is None or each.size > FOLDED for each in arrays):
        return None
    with np.errstate(all="ignore"):
        return python(*arrays)
