"""Every row of the vocabulary in ONNX Runtime gives what torch gives, on the cases that NumPy and JAX are tested on."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pijit.errors import ExportError
from pijit.graph import Graph, Node, Slice, Token, Value, forms

sys.path.append(str(Path(__file__).parents[1] / "graph"))
from cases import CASES

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.torch

# Cases that ONNX Runtime computes differently: it has no NaN in a largest, nor in the mean of nothing.
DIFFERENT = {("mean", 10), ("max", 9), ("min", 9), ("argmax", 7), ("argmin", 7)}
# Rows for which sizes of the last axes have to be known.
NEED_SIZES = {
    *("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_avg_pool2d_backward", "avg_pool2d_backward"),
    *("array_equal", "chunk", "tensor_split", "squeeze", "concat", "im2col", "convolution_backward"),
    *("fft", "ifft", "rfft", "irfft", "fftn", "ifftn", "lstm", "gru", "rnn_tanh", "rnn_relu"),
}
# Arguments that are parameters in models: their sizes are known.
PARAMETERS = {"weight", "bias", "mean", "variance"}
# Rows without a form: ONNX does not look at the bits of a number.
LACKING = ("nextafter",)
# Of a check nothing is left; those with graphs in them have tests of their own.
ELSEWHERE = ("check", "cond", "while")
ROWS = [name for name in CASES if name not in (*ELSEWHERE, *LACKING)]
UNINITIALISED = ("empty", "empty_like", "new_empty")
NUMBERS = {"int": "int64", "float": "float64", "bool": "bool"}


def in_torch(name: str, case: dict[str, Any]) -> list[Any]:
    def tensors(argument: Any) -> Any:
        if isinstance(argument, tuple | list):
            return tuple(map(tensors, argument))
        return torch.from_numpy(np.array(argument)) if isinstance(argument, np.ndarray | np.generic) else argument

    result = forms.form_of(forms.load("torch"), name)(**{key: tensors(each) for key, each in case.items()})
    result = list(result) if isinstance(result, tuple | list) else [result]
    mask = case.get("mask") if name.endswith("_backward") else None
    return [each if not isinstance(mask, tuple) or mask[at] else None for at, each in enumerate(result)]


class Cases:
    """The cases of a row as one graph, each a node."""

    def __init__(self, free: bool, known: bool) -> None:
        self.free, self.known = free, known
        self.inputs: list[Value] = []
        self.feeds: dict[str, Any] = {}
        self.symbols: dict[str, int] = {}
        self.nodes: list[Node] = []
        self.expected: list[Any] = []
        self.results: list[Value] = []

    def value(self, array: Any, free: bool) -> Value:
        name = f"in{len(self.inputs)}"
        shape = tuple(f"s{size}" for size in array.shape) if free else array.shape
        self.symbols |= {f"s{size}": size for size in array.shape if free}
        self.inputs.append(Value(name, role="input", dtype=str(array.dtype), shape=shape))
        self.feeds[name] = np.stack([array.real, array.imag], -1) if array.dtype.kind == "c" else array
        return self.inputs[-1]

    def number(self, number: Any) -> Value:
        kind = type(number).__name__
        self.inputs.append(Value(f"in{len(self.inputs)}", kind=kind, role="input"))
        self.feeds[self.inputs[-1].name] = np.asarray(number, NUMBERS[kind])
        return self.inputs[-1]

    def argument(self, argument: Any, free: bool) -> Any:
        if isinstance(argument, np.ndarray | np.generic):
            return self.value(np.asarray(argument), free)
        if isinstance(argument, tuple | list):
            return tuple(self.argument(each, free) for each in argument)
        if isinstance(argument, slice):
            return Slice(argument.start, argument.stop, argument.step)
        return argument

    def add(self, name: str, case: dict[str, Any]) -> None:
        expected = in_torch(name, case)
        arguments = {key: self.argument(each, self.free and key not in PARAMETERS) for key, each in case.items()}
        if self.free and name.startswith("scalar_"):
            arguments = {key: self.number(each) for key, each in case.items()}
        results: list[Value | None] = []
        for each in expected:
            label = f"out{len(self.nodes)}_{len(results)}"
            if each is None:
                results.append(None)
            elif isinstance(each, torch.Tensor):
                dtype, shape = str(each.dtype).removeprefix("torch."), tuple(each.shape)
                results.append(Value(label, dtype=dtype, shape=shape) if self.known else Value(label))
            else:
                results.append(Value(label, kind=type(each).__name__))
        self.nodes.append(Node(name, arguments, tuple(results), region="layers.0", file="model.py", line=7))
        self.expected += [each for each in expected if each is not None]
        self.results += [each for each in results if each is not None]

    def graph(self) -> Graph:
        return Graph("row", tuple(self.inputs), (), tuple(self.nodes), tuple(self.results), symbols=self.symbols)

    def check(self, name: str) -> None:
        from pijit._formats import onnx as format

        model = format.make(self.graph())
        onnx.checker.check_model(model, full_check=True)
        session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        results = session.run(None, self.feeds)[: len(self.expected)]  # behind them are running statistics
        for found, expected in zip(results, self.expected, strict=True):
            same(found, expected, name)


def same(found: Any, expected: Any, name: str) -> None:
    if not isinstance(expected, torch.Tensor):
        expected = np.asarray(expected, NUMBERS[type(expected).__name__])
    elif expected.is_complex():
        expected = torch.view_as_real(expected.resolve_conj()).numpy()
    else:
        expected = expected.resolve_conj().resolve_neg().numpy()
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if name in UNINITIALISED:
        return
    if expected.dtype.kind == "f":
        close = 1e-2 if expected.dtype == np.float16 else 1e-4
        np.testing.assert_allclose(found, expected, rtol=close, atol=close)
    else:
        np.testing.assert_array_equal(found, expected)


def usable(name: str) -> list[dict[str, Any]]:
    """The cases of a row; NumPy has no bfloat16, so no model can give it here."""
    given = enumerate(CASES[name])
    half = Token("dtype", "bfloat16")
    return [case for at, case in given if (name, at) not in DIFFERENT and half not in [*map(_plain, case.values())]]


def _plain(argument: Any) -> Any:
    return argument if isinstance(argument, Token) else None


@pytest.mark.parametrize("name", LACKING)
def test_what_onnx_lacks_is_said_with_its_line(name: str) -> None:
    from pijit._formats import onnx as format

    for case in CASES[name]:
        cases = Cases(free=False, known=True)
        cases.add(name, case)
        with pytest.raises(ExportError, match=rf"model\.py:7: {name} has no form in "):
            format.make(cases.graph())


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("name", ROWS)
def test_onnx_gives_what_torch_gives(name: str, known: bool) -> None:
    cases = Cases(free=False, known=known)
    for case in usable(name):
        cases.add(name, case)
    cases.check(name)


def is_lowered(graph: Graph, name: str) -> bool:
    """False: the row needs sizes that are known, and says so with the line."""
    from pijit._formats import onnx as format

    if name not in NEED_SIZES:
        format.make(graph)
        return True
    with contextlib.suppress(ExportError):
        format.make(graph)
        return True
    with pytest.raises(ExportError, match=r"model\.py:7"):
        format.make(graph)
    return False


@pytest.mark.parametrize("name", ROWS)
def test_onnx_gives_what_torch_gives_for_free_sizes(name: str) -> None:
    whole = Cases(free=True, known=False)
    for case in usable(name):
        alone = Cases(free=True, known=False)
        alone.add(name, case)
        if is_lowered(alone.graph(), name):
            whole.add(name, case)
    if whole.nodes:
        whole.check(name)
