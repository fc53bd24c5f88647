"""Compiled code at the borders: memory that is handed out, numbers that a dtype just holds, data that decide.

Each backend is given what a first call does not show: a result that is written, the largest integers, infinities and
NaN, an index that is out of range.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from plans import COMPILE_LONG, backends, captured, close
from torch import nn
from torch.nn import functional

import pijit
from pijit.compilers import Options, get
from pijit.compilers._base import Declines
from pijit.errors import BackendError

pytestmark = pytest.mark.torch

INF, NAN = math.inf, math.nan


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def same(found: Any, expected: Any) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5, equal_nan=True)


def made(backend: str, fn: Callable[..., Any], *inputs: torch.Tensor) -> Any:
    """The plan of a function, compiled with these inputs."""
    return get(backend).compile(captured(fn, *inputs))


# ---- Memory


@pytest.mark.parametrize("backend", backends(slow=COMPILE_LONG))
def test_constants_are_the_programs_own_at_each_call(backend: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        fixed = torch.ones(4) * 2
        return torch.tanh(x).exp(), fixed, fixed.reshape(2, 2), torch.arange(4.0).exp(), torch.zeros(3)

    x = torch.randn(4)
    plan = made(backend, fn, x)
    for _ in range(3):
        found, expected = plan(x), fn(x)
        same(found, expected)
        for one, other in zip(found, expected, strict=True):
            one.add_(1)
            other.add_(1)
        same(found, expected)  # the second and the third share memory


@pytest.mark.parametrize("backend", backends("torchscript", "onnxruntime", "openvino", "xla", "iree"))
def test_what_follows_from_folded_weights_alone_is_a_constant(backend: str) -> None:
    layer = nn.Linear(4, 4)
    graph = captured(lambda x: (layer(x).tanh(), layer.weight.exp() * 2), torch.ones(2, 4))
    plan = get(backend).compile(graph, Options(fold=True))
    before = plan(torch.ones(2, 4))[1]
    kept = before.clone()
    before.zero_()
    close(get(backend), plan(torch.ones(2, 4))[1], kept, folded=True)


# ---- Data that decide


def table(*shape: int) -> torch.Tensor:
    return torch.arange(float(math.prod(shape))).reshape(shape) / 8


# What is called, data with which it gives something, data with which it raises.
RAISING: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "embedding": (lambda i: functional.embedding(i, table(5, 3)).tanh() * 2, [0, 4], [0, 5]),
    "embedding below": (lambda i: functional.embedding(i, table(5, 3)).tanh() * 2, [0, 4], [0, -1]),
    "index": (lambda i: table(5, 3).tanh()[i] * 2, [0, -5], [0, 5]),
    "index below": (lambda i: table(5, 3).tanh()[i] * 2, [0, 4], [0, -6]),
    "second index": (lambda i: table(5, 3).tanh()[:, i] * 2, [0, 2], [0, 3]),
    "two indices": (lambda i: table(5, 3).tanh()[i, i] * 2, [0, 2], [0, 4]),
    "gather": (lambda i: table(5, 2).tanh().gather(0, i[None]) * 2, [0, 4], [0, 5]),
    "index_select": (lambda i: table(5, 3).tanh().index_select(0, i) * 2, [0, 4], [-1, 4]),
    "take": (lambda i: table(5, 3).tanh().take(i) * 2, [0, -15], [0, 15]),
    "scatter": (lambda i: table(5).tanh().scatter(0, i, 1.0) * 2, [0, 4], [0, 5]),
    "scatter_add": (lambda i: table(5).tanh().scatter_add(0, i, table(2)) * 2, [0, 4], [0, -1]),
    "index_add": (lambda i: table(5).tanh().index_add(0, i, table(2)) * 2, [0, 4], [0, 5]),
    "index_copy": (lambda i: table(5).tanh().index_copy(0, i, table(2)) * 2, [0, 4], [0, 5]),
    "index_fill": (lambda i: table(5).tanh().index_fill(0, i, 2.0) * 2, [0, -5], [0, -6]),
    "index_put": (lambda i: table(5).tanh().index_put((i,), torch.tensor(1.0)) * 2, [0, -5], [0, 5]),
    "cross_entropy": (lambda i: functional.cross_entropy(table(2, 3).tanh(), i) * 2, [0, -100], [0, 3]),
    "nll_loss": (lambda i: functional.nll_loss(table(2, 3).tanh(), i, reduction="sum") * 2, [2, 1], [-1, 1]),
    "floor division": (lambda i: (torch.tensor([7, -7]) * i) // i + i, [2, -3], [2, 0]),
    "remainder": (lambda i: (torch.tensor([7, -7]) + i) % i + i, [2, -3], [2, 0]),
    "fmod": (lambda i: torch.fmod(torch.tensor([7, -7]) + i, i) + i, [2, -3], [2, 0]),
    "truncated division": (lambda i: torch.div(i + 7, i, rounding_mode="trunc") + i, [2, -3], [2, 0]),
    "one_hot": (lambda i: functional.one_hot(i, 5).float().tanh() * 2, [0, 4], [0, -1]),
    "computed index": (lambda i: table(5, 3).tanh()[(i * 2 - 1).clamp(max=9)] * 2, [0, 2], [0, 4]),
    "binary_cross_entropy": (
        lambda x: functional.binary_cross_entropy(x, torch.tensor([0.0, 1.0])) * 2 + x.tanh(), [0.25, 1.0], [0.5, 1.3],
    ),
    "binary_cross_entropy of NaN": (
        lambda x: functional.binary_cross_entropy(x * 1, torch.tensor([0.0, 1.0])) * 2 + x.tanh(), [0.5, 1.0], [NAN, 0],
    ),
    "inverse": (lambda x: torch.linalg.inv(x.tanh().diag()).exp() * 2, [0.5, 1.0], [0.0, 1.0]),
    "solve": (lambda x: torch.linalg.solve(x.tanh().diag(), x).exp() * 2, [0.5, 1.0], [0.0, 1.0]),
    "cholesky": (lambda x: torch.linalg.cholesky(x.tanh().diag()).exp() * 2, [0.5, 1.0], [-0.5, 1.0]),
    "singular values": (lambda x: torch.linalg.svdvals(x.tanh().diag()).exp() * 2, [0.5, 1.0], [NAN, 1.0]),
    "its target": (lambda y: functional.binary_cross_entropy(torch.ones(2) / 2, y) + y.tanh(), [0.0, 1.0], [1.5, 0]),
}  # fmt: skip


@pytest.mark.parametrize("case", RAISING)
@pytest.mark.parametrize("backend", backends("onnxruntime", "xla", "openvino"))
def test_data_for_which_eager_raises_are_declined(backend: str, case: str) -> None:
    fn, good, bad = RAISING[case]
    kind = torch.float32 if isinstance(good[0], float) else torch.int64
    good, bad = torch.tensor(good, dtype=kind), torch.tensor(bad, dtype=kind)
    with pytest.raises((RuntimeError, IndexError)):
        fn(bad)
    try:
        plan = made(backend, fn, good)
    except BackendError:  # torch runs all of it
        return
    same(plan(good), [fn(good)])
    with pytest.raises((BackendError, RuntimeError, IndexError)):
        plan(bad)
    same(plan(good), [fn(good)])


@pytest.mark.parametrize("backend", backends("native", "torchscript", "onnxruntime", "xla", "openvino"))
def test_an_operator_whose_result_nobody_reads_raises_all_the_same(backend: str) -> None:
    def fn(i: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        functional.embedding(i, table(5, 3))
        return x.tanh().exp() * 2

    x = torch.randn(3)
    plan = made(backend, fn, torch.tensor([1, 4]), x)
    same(plan(torch.tensor([0, 4]), x), [fn(torch.tensor([0, 4]), x)])
    with pytest.raises(Declines, match="embedding"):
        plan(torch.tensor([0, 5]), x)

    def computed(x: torch.Tensor) -> torch.Tensor:
        functional.binary_cross_entropy(x.exp() / 4, x)
        return x.tanh().exp() * 2

    with pytest.raises(BackendError, match="nobody reads"):
        made(backend, computed, torch.rand(3))


# ---- Numbers


BIG = 2**31


@pytest.mark.parametrize("backend", backends("onnxruntime", "xla", "openvino", "tvm"))
def test_integers_are_as_wide_as_their_dtype(backend: str) -> None:
    def fn(i: torch.Tensor) -> Any:
        x = (i % 7).float().tanh() * 2
        return i * 31 + 7, (i.sum(0), i.max(), (i > BIG)), x.exp(), i.argmax(), i // 3, i.cumsum(0), -i

    def flat(i: torch.Tensor) -> Any:
        first, several, *rest = fn(i)
        return (first, *several, *rest)

    plan = made(backend, flat, torch.tensor([1, 2, 3]))
    for numbers in ([BIG, -BIG - 1, 5 * BIG], [2**53 + 1, 2**53, -(2**60)], [2**63 - 1, -(2**63) + 1, 7]):
        i = torch.tensor(numbers)
        for found, right in zip(plan(i), flat(i), strict=True):
            if right.is_floating_point():
                torch.testing.assert_close(found, right)
            else:
                assert torch.equal(found, right)


@pytest.mark.parametrize("backend", backends("onnxruntime", "xla", "openvino", "tvm"))
@pytest.mark.parametrize("kind", ["int64", "int32", "uint8"])
def test_floats_become_integers_as_in_torch(backend: str, kind: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        y = x.tanh().exp() * 2
        return y, (x * 1).to(getattr(torch, kind)), x.to(getattr(torch, kind))

    plan = made(backend, fn, torch.tensor([1.0, 2.5]))
    same(plan(torch.tensor([0.0, 100.75])), fn(torch.tensor([0.0, 100.75])))
    for numbers in ([3e9, 1.0], [INF, 1.0], [NAN, 1.0], [-3e19, 1.0]):
        x = torch.tensor(numbers)
        try:
            found = plan(x)
        except Declines:
            continue
        assert all(torch.equal(a, b) for a, b in zip(found[1:], fn(x)[1:], strict=True))


@pytest.mark.parametrize("backend", backends("onnxruntime", "xla", "openvino"))
def test_doubles_are_doubles(backend: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        return x * 3, x.float().tanh().exp() * 2, torch.erf(x), x.sum(), functional.gelu(x)

    plan = made(backend, fn, torch.tensor([1.0, 2.0], dtype=torch.float64))
    for numbers in ([1e300, 1.5], [1 / 3, 1e-200]):
        x = torch.tensor(numbers, dtype=torch.float64)
        for found, right in zip(plan(x), fn(x), strict=True):
            torch.testing.assert_close(found, right, rtol=1e-4 if right.dtype == torch.float32 else 1e-12, atol=0)


def matrix() -> torch.Tensor:
    return torch.tensor([[1.0, NAN, 3.0, 2.0], [NAN, NAN, INF, -INF], [-INF, -INF, -INF, -INF], [0.0, -0.0, INF, 1.0]])


NUMBERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "max": lambda x: (x.max(), x.amax(1), x.max(0)[0], x.max(1)[1]),
    "min": lambda x: (x.min(), x.amin(0), x.min(1)[0], x.min(1)[1]),
    "arg": lambda x: (x.argmax(), x.argmax(1), x.argmin(0), x.argmin(1, keepdim=True)),
    "sums": lambda x: (x.sum(), x.mean(1), x.prod(0), x.cumsum(1)),
    "norms": lambda x: (torch.linalg.vector_norm(x, INF, 1), torch.linalg.vector_norm(x, 2, 0)),
    "sort": lambda x: (x.sort(1)[0], x.sort(1, descending=True)[0], x.topk(2, 1)[0], x.sort(dim=0)[0]),
    "floor": lambda x: (x // 0.0, x // 3.0, 7.0 // x, x // x.flip(0), torch.div(x, x.t(), rounding_mode="floor")),
    "remainder": lambda x: (x % 3.0, x % INF, x % x.flip(0), torch.fmod(x, x.t()), torch.fmod(x, 0.0)),
    "pow": lambda x: (x**0.5, x**-0.5, x**2, x**3.0),
    "choice": lambda x: (torch.maximum(x, x.t()), torch.minimum(x, x.flip(0)), x.clamp(0, 1), torch.where(x > 1, x, 0)),
    "activation": lambda x: (x.relu(), functional.relu6(x), functional.hardtanh(x), functional.hardsigmoid(x)),
    "compare": lambda x: (x == x, x != x, x >= x.t(), x < x.flip(0), x.isnan(), x.bool(), x.logical_not()),
    "softmax": lambda x: (x.softmax(1), x.log_softmax(0), x.exp(), torch.logsumexp(x, 1)),
    "pool": lambda x: (functional.max_pool2d(x[None, None], 2), functional.max_pool1d(x[None], 3, 1, 1)),
    "search": lambda x: (torch.bucketize(x, torch.tensor([0.0, 2.0])), torch.hypot(x, x.t())),
}


@pytest.mark.parametrize("case", NUMBERS)
@pytest.mark.parametrize("backend", backends("onnxruntime", "xla", "openvino"))
def test_nan_and_infinities_are_as_in_torch(backend: str, case: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        return (*NUMBERS[case](x), x.tanh().sin() * 2)

    x = matrix()
    same(made(backend, fn, torch.rand(4, 4) + 0.5)(x), fn(x))


@pytest.mark.parametrize("case", NUMBERS)
def test_nan_and_infinities_are_as_in_torch_in_a_file_of_onnx(case: str) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    fn, x = NUMBERS[case], matrix()
    model = pijit.export(fn, torch.rand(4, 4) + 0.5, format="onnx")
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    same(map(torch.from_numpy, found), fn(x))


@pytest.mark.parametrize("backend", backends("onnxruntime", "xla", "openvino"))
def test_integers_divide_and_multiply_at_their_ends(backend: str) -> None:
    def fn(i: torch.Tensor) -> Any:
        return i // 3, i % 7, i**2, i**3, i // -5, i.float().tanh() * 2

    for kind in (torch.int64, torch.int32, torch.int8):
        ends = torch.iinfo(kind)
        plan = made(backend, fn, torch.tensor([1, 2, 3, 4], dtype=kind))
        i = torch.tensor([ends.min, ends.min + 1, ends.max, -7], dtype=kind)
        try:
            found = plan(i)
        except Declines:
            assert backend == "openvino"  # the cast to float32, in which it computes with integers
            continue
        assert all(torch.equal(a, b) for a, b in zip(found[:-1], fn(i)[:-1], strict=True))
