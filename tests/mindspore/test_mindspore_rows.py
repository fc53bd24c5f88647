"""Every row of the vocabulary gives in MindSpore what it gives in torch."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from cases import CASES
from checks import EXPECTED, as_numpy

import pijit
from pijit.errors import ExportError
from pijit.graph import Graph, Node, Slice, Value, forms
from pijit.graph.vocabulary import rows

mindspore = pytest.importorskip("mindspore")

# Rows whose float32 is further off, and by how much: MindSpore's tanh on CPUs.
COARSE = {"gelu": 1e-4, "gelu_backward": 1e-3}
# Rows whose results have sizes that depend on values.
SIZED_BY_DATA = ("masked_select", "nonzero", "unique")
# Tested in float16 and bfloat16, too.
SHORT = ("add", "multiply", "mean", "matmul", "linear", "conv2d", "layer_norm", "rms_norm", "softmax", "sigmoid")
SHORT += ("scaled_dot_product_attention", "embedding", "addmm", "cumulative_sum", "relu", "silu", "max", "where")
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


def as_graph(name: str, case: dict[str, Any], expected: Any) -> tuple[Graph, list[Any]]:
    """The graph of one call of the row, and the arrays in the case, which are its inputs."""
    arrays: list[Any] = []

    def argument(thing: Any) -> Any:
        if isinstance(thing, slice):
            return Slice(*map(argument, (thing.start, thing.stop, thing.step)))
        if isinstance(thing, tuple | list):
            return tuple(map(argument, thing))
        if not isinstance(thing, np.ndarray | np.generic):
            return thing
        arrays.append(np.array(thing))
        return Value(f"x{len(arrays)}", "tensor", "input", str(thing.dtype), thing.shape)

    arguments = {key: argument(each) for key, each in case.items()}
    taken = [each is not None for each, _ in expected]
    if name.endswith("_backward") and isinstance(case.get("mask"), tuple):
        taken = list(case["mask"])
    results = tuple(Value(f"y{at}", "tensor", "result") if each else None for at, each in enumerate(taken))
    inputs = tuple(
        Value(f"x{at}", "tensor", "input", str(array.dtype), array.shape) for at, array in enumerate(arrays, 1)
    )
    outputs = tuple(each for each in results if each is not None)
    return Graph(name, inputs, (), (Node(name, arguments, results),), outputs), arrays


NO_CELLS = ("check", "cond", "while")


@pytest.mark.parametrize("name", [name for name in rows() if not name.startswith("scalar_") and name not in NO_CELLS])
def test_a_compiled_cell_gives_what_torch_gives(name: str, expected: Any) -> None:
    for case, wanted in list(zip(CASES[name], expected[name], strict=True))[:2]:
        if not any(isinstance(each, np.ndarray | np.generic) for each in case.values()) and "arrays" not in case:
            continue  # it is a constant
        graph, arrays = as_graph(name, case, wanted)
        if name in SIZED_BY_DATA or (name == "one_hot" and case.get("classes", -1) == -1):
            with pytest.raises(ExportError, match=f"{name} needs the data of a tensor"):
                pijit.export(graph, format="mindspore")
            continue
        cell = mindspore.jit(pijit.export(graph, format="mindspore"))
        kept = [
            (each, dtype)
            if dtype
            else (np.asarray(each), str(arrays[0].dtype) if name == "item" else str(np.asarray(each).dtype))
            for (each, dtype), result in zip(wanted, graph.nodes[0].results, strict=True)
            if result is not None
        ]
        for _ in range(2):
            found = flat(cell(*map(mindspore.Tensor, arrays)))[: len(kept)]  # what batch norm updates comes after
            same(found, kept, name, {})


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_numbers_of_16_bits_keep_their_dtype(dtype: str, expected: Any) -> None:
    short = getattr(mindspore, dtype)

    def tensor(array: Any) -> Any:
        made = mindspore.Tensor(np.array(array))
        return made.astype(short) if array.dtype == np.float32 else made

    for name in SHORT:
        form = forms.form_of(forms.load("mindspore"), name)
        for case, wanted in zip(CASES[name], expected[name], strict=True):
            arrays = [each for each in case.values() if isinstance(each, np.ndarray)]
            dtypes = {each.dtype.name for each in arrays}
            if dtypes & {"float64", "complex64"} or "float32" not in dtypes or "dtype" in case:
                continue
            for own, (other, dtype_name) in zip(flat(form(**mapped(case, tensor))), wanted, strict=True):
                assert str(own.dtype).lower() == (dtype if dtype_name == "float32" else dtype_name), name
                wide = np.asarray(as_numpy(own), np.float64)
                close = 0.03 * max(np.abs(other[np.isfinite(other)]).max(initial=0), 1)
                np.testing.assert_allclose(wide, other, rtol=0.03, atol=close, err_msg=name)
