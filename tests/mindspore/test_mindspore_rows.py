"""Every row of the vocabulary gives in MindSpore what it gives in torch."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from cases import CASES
from checks import EXPECTED, as_numpy

from pijit.graph import forms
from pijit.graph.vocabulary import rows

mindspore = pytest.importorskip("mindspore")

# Rows whose float32 is further off, and by how much: MindSpore's tanh on CPUs.
COARSE = {"gelu": 1e-4, "gelu_backward": 1e-3}
UNINITIALISED = ("empty", "empty_like", "new_empty")


def mapped(argument: Any, change: Any) -> Any:
    """The argument with arrays replaced."""
    if isinstance(argument, dict):
        return {name: mapped(each, change) for name, each in argument.items()}
    if isinstance(argument, tuple | list):
        return tuple(mapped(each, change) for each in argument)
    return change(argument) if isinstance(argument, np.ndarray | np.generic | mindspore.Tensor) else argument


def flat(result: Any) -> list[Any]:
    return [each for item in result for each in flat(item)] if isinstance(result, tuple | list) else [result]


def same(found: Any, expected: Any, name: str, case: dict[str, Any]) -> None:
    found = flat(found)
    if name.endswith("_backward") and isinstance(case.get("mask"), tuple):  # torch may give what nobody wants
        found, expected = (list(itertools.compress(each, case["mask"])) for each in (found, expected))
    assert len(found) == len(expected)
    for own, (other, dtype_name) in zip(found, expected, strict=True):
        if not isinstance(other, np.ndarray):
            assert own == other
            assert type(own) is type(other)
            continue
        assert isinstance(own, mindspore.Tensor)
        own, dtype = as_numpy(own), str(own.dtype).lower()
        assert (dtype, own.shape) == (dtype_name, other.shape)
        if name in UNINITIALISED:
            continue
        if other.dtype.kind in "fc" and other.size:
            bound = max(np.abs(other[np.isfinite(other)]).max(initial=0), 1)
            close = {"float64": 1e-9, "complex128": 1e-9, "float16": 1e-3}.get(other.dtype.name, COARSE.get(name, 1e-5))
            np.testing.assert_allclose(own, other, rtol=close, atol=close * bound / 10)
        else:
            np.testing.assert_array_equal(own, other)


@pytest.fixture(scope="module")
def expected() -> Any:
    with (EXPECTED / "rows.pickle").open("rb") as file:
        return pickle.load(file)


@pytest.mark.parametrize("name", rows())
def test_mindspore_gives_what_torch_gives(name: str, expected: Any) -> None:
    form = forms.form_of(forms.load("mindspore"), name)
    for case, wanted in zip(CASES[name], expected[name], strict=True):
        given = mapped(case, lambda array: mindspore.Tensor(np.array(array)))
        before = mapped(given, as_numpy)
        same(form(**given), wanted, name, case)
        same(form(**given), wanted, name, case)  # the first call has written to nothing
        np.testing.assert_equal(mapped(given, as_numpy), before)
