"""Decisions after which a program raises are checks: a model of such a call fails where the program does."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import pijit
from pijit.errors import ExportError

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def asserted(x: Any) -> Any:
    assert x.max() < 10, "too large"
    return x * 2


def raised(x: Any) -> Any:
    y = x + 1
    if not torch.isfinite(y).all() or (x > 9).any():
        raise ValueError(f"not finite: {[float(row.sum()) for row in y]}")
    return y * 2


def of_a_number(x: Any) -> Any:
    total = x.sum().item()
    if total > 100:
        word = "large" if len(x) > 2 else "still large"
        raise RuntimeError(f"{total} is {word}")
    return x * 2


def of_two_numbers(x: Any) -> Any:
    if (x.shape[0], int((x[:, 0] < 50).sum())) != (x.shape[0], x.shape[0]):
        raise RuntimeError("some are large")
    return x * 2


def of_torch(x: Any) -> Any:
    torch._assert(x.max() < 10, "too large")
    torch._check(bool((x < 10).all()))
    return x * 2


def negated(x: Any) -> Any:
    assert not (x > 10).any()
    return x * 2


CHECKED = [asserted, raised, of_a_number, of_two_numbers, of_torch, negated]


def data(size: int) -> Any:
    return torch.randn(size, 4, generator=torch.Generator().manual_seed(size)).abs()


def runner(f: Any, format: str) -> Any:
    made: Any = pijit.export(f, data(3), format=format)  # type: ignore[call-overload]
    if format == "onnx":
        session = pytest.importorskip("onnxruntime").InferenceSession(made.SerializeToString())
        (name,) = (each.name for each in session.get_inputs())
        return lambda x: torch.from_numpy(session.run(None, {name: x.numpy()})[0])
    return made.module() if format == "exported_program" else made


@pytest.mark.parametrize("format", ["fx", "exported_program", "onnx"])
@pytest.mark.parametrize("f", CHECKED, ids=lambda f: f.__name__)
def test_a_model_fails_where_the_program_raises(f: Any, format: str) -> None:
    run = runner(f, format)
    for size in (3, 5):
        x = data(size)
        assert torch.equal(run(x), f(x))
        with pytest.raises((AssertionError, ValueError, RuntimeError)):
            f(x + 1000)
        with pytest.raises(Exception, match=r"test_raising\.py:\d+|Reshape"):
            run(x + 1000)


def helped(x: Any) -> Any:
    if (x > 10).any():
        raise ValueError("too large")
    return x * 2


def handled_above(x: Any) -> Any:
    try:
        return helped(x)
    except ValueError:
        return x * 3


def handled_here(x: Any) -> Any:
    try:
        if (x > 10).any():
            raise ValueError("too large")
    except ValueError:
        return x * 3
    return x * 2


def goes_on(x: Any) -> Any:
    if (x > 10).any():
        if x.shape[0] > 2:
            return x * 3
        raise ValueError("too large")
    return x * 2


@pytest.mark.parametrize("f", [handled_above, handled_here, goes_on], ids=lambda f: f.__name__)
def test_a_program_that_goes_on_is_split(f: Any) -> None:
    assert torch.equal(f(data(3) + 1000), (data(3) + 1000) * 3)
    with pytest.raises(ExportError, match=r"test_raising\.py:\d+.*decides on the data"):
        pijit.export(f, data(3), format="onnx")


def test_stablehlo_cannot_fail() -> None:
    pytest.importorskip("jax")
    with pytest.raises(ExportError, match=r"test_raising\.py:\d+.*raises here"):
        pijit.export(asserted, data(3), format="stablehlo")
