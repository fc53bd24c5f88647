"""What the tests of MindSpore share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pijit.graph import Graph

EXPECTED = Path(__file__).parents[2] / "build" / "mindspore"  # what `expected.py` has written


def as_numpy(tensor: Any) -> Any:
    """The array of NumPy with what a tensor of MindSpore holds; anything else as it is."""
    if not hasattr(tensor, "asnumpy"):
        return tensor
    return tensor.float().asnumpy() if str(tensor.dtype) == "BFloat16" else tensor.asnumpy()


def graph_of(name: str) -> Graph:
    """The graph of a model, with its weights."""
    return Graph.from_json(EXPECTED / f"{name}.json", framework="numpy")


def calls(name: str) -> list[tuple[tuple[Any, ...], list[Any]]]:
    """Two calls of a model: inputs, and the results that torch gave."""
    held = np.load(EXPECTED / f"{name}.npz")

    def arrays(start: str) -> list[Any]:
        return [held[key] for key in held if key.startswith(start)]

    return [(tuple(arrays(f"in{seed}_")), arrays(f"out{seed}_")) for seed in (0, 1)]


def leaves(result: Any) -> list[Any]:
    """The arrays of a result, in order."""
    if isinstance(result, dict):
        result = tuple(result.values())
    return [each for item in result for each in leaves(item)] if isinstance(result, tuple | list) else [result]


def close(found: list[Any], expected: list[Any]) -> None:
    """All arrays are the same, but for rounding."""
    assert len(found) == len(expected)
    for own, other in zip(map(as_numpy, found), expected, strict=True):
        assert (own.dtype, own.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(own, other, rtol=1e-4, atol=1e-5)
