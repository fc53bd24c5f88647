"""Every row of the vocabulary gives the same in torch, NumPy and JAX on the cases of `cases`."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cases import CASES

from pijit.graph import forms
from pijit.graph.vocabulary import rows

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

# `jax.jit` does not know the values that they depend on, or they give numbers.
NOT_COMPILED = ("array_equal", "item", "item_int", "item_float", "item_bool", "item_not", "ndim", "numel", "size")
NOT_COMPILED += ("masked_select", "nonzero", "one_hot", "pack_sequences", "pad_sequences", "unique")
# Tested in float16 and bfloat16, too.
SHORT = ("add", "multiply", "mean", "matmul", "linear", "conv2d", "layer_norm", "rms_norm", "softmax", "sigmoid")
SHORT += ("scaled_dot_product_attention", "embedding", "addmm", "cumulative_sum", "relu", "silu")
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}  # compiled sooner
UNINITIALISED = ("empty", "empty_like", "new_empty")


def mapped(argument: Any, change: Callable[[Any], Any]) -> Any:
    """The argument with arrays replaced."""
    if isinstance(argument, dict):
        return {name: mapped(each, change) for name, each in argument.items()}
    if isinstance(argument, tuple | list):
        return tuple(mapped(each, change) for each in argument)
    return change(argument) if isinstance(argument, np.ndarray | np.generic) else argument


def in_torch(name: str, case: dict[str, Any]) -> Any:
    form = forms.form_of(forms.load("torch"), name)
    return form(**mapped(case, lambda array: torch.from_numpy(np.array(array))))


def in_numpy(name: str, case: dict[str, Any]) -> Any:
    return forms.form_of(forms.load("numpy"), name)(**case)


def in_jax(name: str, cases: list[dict[str, Any]]) -> list[Any]:
    """The results of all cases, from one compiled function where the row does not depend on values."""
    import jax

    form = forms.form_of(forms.load("jax"), name)
    arrays: list[Any] = []

    def call(arrays: list[Any]) -> list[Any]:
        rest = iter(arrays)
        return [form(**mapped(case, lambda _: next(rest))) for case in cases]

    with forms.load("jax").wide():
        mapped(cases, lambda array: arrays.append(jax.numpy.asarray(array)))
        return (call if name in NOT_COMPILED or not arrays else jax.jit(call, compiler_options=QUICK))(arrays)


def flat(result: Any) -> list[Any]:
    return [each for item in result for each in flat(item)] if isinstance(result, tuple | list) else [result]


def same(found: Any, expected: Any, name: str, case: dict[str, Any]) -> None:
    found, expected = flat(found), flat(expected)
    if name.endswith("_backward") and isinstance(case.get("mask"), tuple):  # torch may give what nobody wants
        found, expected = (list(itertools.compress(each, case["mask"])) for each in (found, expected))
    assert len(found) == len(expected)
    for own, other in zip(found, expected, strict=True):
        if other is None or not isinstance(other, torch.Tensor):
            own = own.item() if hasattr(own, "devices") else own  # a number that JAX has carried
            assert own == other
            if type(own).__module__ in ("builtins", "numpy"):
                assert type(own) is type(other)
            continue
        assert str(own.dtype) == str(other.dtype).removeprefix("torch.")
        assert tuple(own.shape) == tuple(other.shape)
        if name in UNINITIALISED:
            continue
        if other.dtype == torch.bfloat16:
            own, other = np.asarray(own, np.float32), other.float()
        other = other.resolve_conj().numpy()
        if other.dtype.kind in "fc" and other.size:
            finite = np.abs(other[np.isfinite(other)])
            bound = max(finite.max(initial=0), 1)
            close = {"float64": 1e-9, "complex128": 1e-9, "float16": 1e-3}.get(other.dtype.name, 1e-5)
            np.testing.assert_allclose(np.asarray(own), other, rtol=close, atol=close * bound / 10)
        else:
            np.testing.assert_array_equal(np.asarray(own), other)


def test_every_row_has_a_case_and_every_case_a_row() -> None:
    assert sorted(CASES) == sorted(rows())
    assert [name for name, cases in CASES.items() if len(cases) < 2] == []


@pytest.mark.parametrize("name", rows())
def test_numpy_gives_what_torch_gives(name: str) -> None:
    for case in CASES[name]:
        before = mapped(case, np.copy)
        expected = in_torch(name, case)
        same(in_numpy(name, case), expected, name, case)
        same(in_numpy(name, case), expected, name, case)  # the first call has written to nothing
        np.testing.assert_equal(case, before)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_numbers_of_16_bits_keep_their_dtype(dtype: str) -> None:
    short = np.dtype(getattr(pytest.importorskip("ml_dtypes"), dtype, dtype))
    own, other = forms.load("numpy"), forms.load("torch")
    for name in SHORT:
        for case in CASES[name]:
            case = mapped(case, lambda array: array.astype(short) if array.dtype == np.float32 else array)
            if any(each.dtype in (np.float64, np.complex64) for each in case.values() if isinstance(each, np.ndarray)):
                continue
            found = flat(forms.form_of(own, name)(**case))
            for each, expected in zip(found, flat(forms.form_of(other, name)(**mapped(case, tensor))), strict=True):
                assert str(each.dtype) == str(expected.dtype).removeprefix("torch.")
                wide = expected.double().numpy()
                close = 0.03 * max(np.abs(wide[np.isfinite(wide)]).max(initial=0), 1)
                np.testing.assert_allclose(np.asarray(each, np.float64), wide, rtol=0.03, atol=close)


def tensor(array: Any) -> Any:
    """A tensor of the array; torch does not know the bfloat16 of NumPy."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.astype(np.float32)).bfloat16()
    return torch.from_numpy(np.array(array))


@pytest.mark.parametrize("name", rows())
def test_jax_gives_what_torch_gives(name: str) -> None:
    pytest.importorskip("jax")
    for case, found in zip(CASES[name], in_jax(name, CASES[name]), strict=True):
        same(found, in_torch(name, case), name, case)
