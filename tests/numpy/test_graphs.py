"""The graph of a function of arrays, run in other frameworks on other values, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from array_functions import FUNCTIONS

import pijit
from pijit.errors import ExportError

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

# Those that no graph says: an export of them is an error.
NOT_SAID = {"accumulate", "nanmax", "tile", "unique", "interp", "bincount", "convolve", "to_python"}


def changes() -> Iterator[tuple[Any, Any, Any, Any]]:
    """Arguments of a capture, and others of the same form."""
    draw = np.random.default_rng(7)

    def pair(*shape: int) -> tuple[Any, Any]:
        return draw.normal(size=shape) * 3, draw.normal(size=shape)

    yield (*pair(8), *pair(8))
    yield (*pair(6, 4), *pair(6, 4))
    x, y, z, t = (each.astype(np.float32) for each in (*pair(8), *pair(8)))
    yield x, y, z, t
    yield x, y.astype(np.float64), z, t.astype(np.float64)
    x, y, z, t = ((each * 4).astype(np.int64) for each in (*pair(8), *pair(8)))
    yield x, y, z, t
    yield x.astype(np.int32), y, z.astype(np.int32), t
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e308, -3.0, 2.0])
    yield (*pair(8), special, special[::-1].copy())


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for each in value:
            yield from leaves(each)
    else:
        yield np.asarray(value)


def assert_alike(made: Any, expected: Any, single: bool) -> None:
    for one, other in zip(leaves(made), leaves(expected), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        with np.errstate(all="ignore"):
            near = {"rtol": 2e-5, "atol": 1e-5} if single else {"rtol": 1e-9, "atol": 1e-11}
            np.testing.assert_allclose(one, other, equal_nan=True, **near)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - NOT_SAID - {"branch"}))  # which decides on data
def test_functions(name: str) -> None:
    plain = FUNCTIONS[name]
    compared = 0
    for x, y, z, t in changes():
        with np.errstate(all="ignore"):
            try:
                expected = plain(z, t)
                plain(x, y)
            except (TypeError, ValueError, IndexError):
                continue
            graph = pijit.graph.capture(plain, x, y)
        if any(node.op == "check" and node.origin for node in graph.nodes) or graph.breaks:
            continue
        single = np.float32 in (x.dtype, y.dtype)
        for framework in ("numpy", "torch"):
            if framework == "numpy" and np.isnan(np.asarray(z, dtype=float)).any() and name in {"argmax", "sort"}:
                continue  # where NaN goes, the form of the row says
            assert_alike(graph.run(z.copy(), t.copy(), framework=framework), expected, single)
        compared += 1
    assert compared > 1


@pytest.mark.parametrize("name", sorted(NOT_SAID))
def test_what_no_graph_says_is_named_with_its_line(name: str) -> None:
    x, y = np.linspace(-2, 3, 8), np.linspace(1, 4, 8)
    with pytest.raises(ExportError, match=r"array_functions\.py:\d+: .*split"):
        pijit.graph.capture(FUNCTIONS[name], x, y).run(x, y)


def writes(x: Any, y: Any) -> Any:
    z = x.copy()
    first = z[:2]
    z[0] = 1
    z[2:4] = y[:2]
    z += 1
    z[y > 0] *= 2
    np.multiply(z, y, out=z)
    return first, z, x


def into_argument(x: Any, y: Any) -> Any:
    x -= y
    x[1] = 7
    return x.sum()


def divides(x: Any, y: Any) -> Any:
    return x // y, x % y, np.fmod(x, y), x // 3, x % -3, x / 2, np.sqrt(x)


def promotes(x: Any, y: Any) -> Any:
    scalar = np.float64(0.5)
    return x * scalar, x * 0.5, x + y.sum(), np.where(x > 0, x, 0), np.mean(x), x.sum(), x / 2, np.power(x, 2.0)


def indexes(x: Any, y: Any) -> Any:
    at = np.argsort(y)[:3]
    return x[at], x[y > 0].sum(), x[::-2], x[np.argmax(y)], x[-1], x[..., None] * y[None]


def counts(x: Any, y: Any) -> Any:
    rows, total = len(x), x.size
    return x.sum() / rows, np.zeros(rows) + total, np.arange(rows) * 2 + x


@pytest.mark.parametrize("plain", [writes, divides, promotes, indexes, counts], ids=lambda plain: plain.__name__)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32", "int8"])
def test_meaning(plain: Callable[..., Any], dtype: str) -> None:
    draw = np.random.default_rng(3)
    x, y, z, t = (draw.integers(-5, 6, 8).astype(dtype) for _ in range(4))
    with np.errstate(all="ignore"):
        graph = pijit.graph.capture(plain, x.copy(), y.copy())
        expected = plain(z.copy(), t.copy())
    for framework in ("numpy", "torch"):
        assert_alike(graph.run(z.copy(), t.copy(), framework=framework), expected, dtype == "float32")


def test_an_argument_that_is_written_is_an_update() -> None:
    x, y = np.linspace(-2, 3, 8), np.linspace(1, 4, 8)
    graph = pijit.graph.capture(into_argument, x.copy(), y)
    z = x * 2
    expected = into_argument(z, y)
    made, updates = graph.run(x * 2, y, framework="numpy", updates=True)
    assert_alike((made, updates["x"]), (expected, z), False)


@pytest.mark.parametrize("format", ["onnx", "fx", "exported_program", "json", "python"])
def test_formats(format: str) -> None:
    def plain(x: Any, y: Any) -> Any:
        z = np.exp(-np.abs(x)) * y + 2
        return np.where(z > 1, z, 0.1 * z).sum(axis=0), z.mean(), np.clip(z, 0.5, 1)

    pytest.importorskip({"onnx": "onnxruntime"}.get(format, "torch"))
    x, y = np.linspace(-2, 3, 8), np.linspace(1, 4, 8)
    made = pijit.export(plain, x, y, format=format)
    if format == "json":
        assert '"float64"' in made
        return
    import torch

    z, t = x * 3, y - 1
    if format == "onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(made.SerializeToString())
        names = [each.name for each in session.get_inputs()]
        found = session.run(None, dict(zip(names, (z, t), strict=True)))
    elif format == "python":
        space: dict[str, Any] = {}
        exec(made, space)
        found = space["plain"](torch.from_numpy(z), torch.from_numpy(t))
    else:
        module = made.module() if format == "exported_program" else made
        found = module(torch.from_numpy(z), torch.from_numpy(t))
    assert_alike(found, plain(z, t), False)


def test_jax() -> None:
    pytest.importorskip("jax")
    x, y = np.linspace(-2, 3, 8), np.linspace(1, 4, 8)
    for plain in (divides, promotes):
        for dtype in ("float64", "int32"):
            a, b = (x * 3).astype(dtype), (y + 1).astype(dtype)
            graph = pijit.graph.capture(plain, a, b)
            assert_alike(graph.run(b, a * 0 + b, framework="jax"), plain(b, a * 0 + b), False)
