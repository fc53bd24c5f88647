"""Every kind of rule: recorded on one set of operands, replayed on another, compared with eager bit for bit."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from one_call import BOOL, CONTAINS, ITER, LEN, UNPACK, Calls, NotRecorded, Trace, load, same  # noqa: E402

Tensor = torch.Tensor
VF = torch._C._VariableFunctions
NN = torch._C._nn


@pytest.fixture(scope="module")
def calls() -> Calls:
    harness = load()
    if harness is None:
        pytest.skip("no C++ compiler")
    return Calls(harness)


def x(*sizes: int) -> torch.Tensor:
    return torch.randn(*(sizes or (2, 3, 4)))


def check(trace: Trace, eager: Callable[..., Any], *operands: Any) -> None:
    """Replay equals eager on these operands; arguments that are written to are compared too."""
    copies = tuple(
        o.clone() if isinstance(o, torch.Tensor) and o.is_leaf and not o.requires_grad else o for o in operands
    )
    expected = eager(*copies)
    assert same(trace(*operands), expected), str(trace)
    assert same([o for o in operands if isinstance(o, Tensor)], [o for o in copies if isinstance(o, Tensor)])


W = torch.nn.Parameter(torch.randn(5, 4))
B = torch.nn.Parameter(torch.randn(5))

# callable, operands to record, operands to replay
CALLS: list[tuple[Any, tuple[Any, ...], tuple[Any, ...]]] = [
    (NN.linear, (x(), W, B), (x(3, 3, 4), W, B)),
    (NN.gelu, (x(),), (x(5, 3, 4),)),
    (NN.scaled_dot_product_attention, (x(), x(), x()), (x(3, 5, 4), x(3, 5, 4), x(3, 5, 4))),
    (NN.silu, (x(),), (x(5, 3, 4),)),
    (VF.layer_norm, (x(), (4,), W[0], W[1], 1e-5, True), (x(7, 3, 4), (4,), W[0], W[1], 1e-5, True)),
    (VF.dropout, (x(), 0.1, False), (x(1, 2, 3), 0.1, False)),
    (VF.dropout, (W, 0.1, False), (W, 0.1, False)),
    (VF.embedding, (W, torch.tensor([1, 2]), -1, False, False), (W, torch.tensor([4]), -1, False, False)),
    (VF.cat, ((x(), x()), -1), ((x(1, 2, 3), x(1, 2, 9)), -1)),
    (VF.cat, ([x(), x()], 0), ([x(1, 2, 3), x(9, 2, 3)], 0)),
    (VF.split, (x(4, 4), 2, 1), (x(7, 4), 2, 1)),
    (VF.where, (x() > 0, x(), 0.0), (x(1, 2, 5) > 0, x(1, 2, 5), 0.0)),
    (VF.clamp, (x(), 0), (x(1, 1, 1), 0)),
    (VF.einsum, ("ij,jk->ik", (x(2, 3), x(3, 4))), ("ij,jk->ik", (x(5, 3), x(3, 1)))),
    (VF.rsqrt, (x().abs(),), (x(1, 1, 2).abs(),)),
    (VF.addmm, (B, x(2, 3), x(3, 5)), (B, x(7, 3), x(3, 5))),
    (
        VF.conv2d,
        (x(1, 3, 8, 8), x(4, 3, 3, 3), None, (1, 1), (1, 1), (1, 1), 1),
        (x(2, 3, 9, 9), x(4, 3, 3, 3), None, (1, 1), (1, 1), (1, 1), 1),
    ),
    (VF.max_pool2d, (x(1, 3, 8, 8), 2, None, 0, 1, False), (x(2, 3, 9, 9), 2, None, 0, 1, False)),
    (VF.flatten, (x(), 1), (x(3, 5, 7), 1)),
    (VF.arange, (5,), (5,)),
    (VF.zeros, (2, 3), (2, 3)),
    (VF.full, ((2, 3), 1.5), ((2, 3), 1.5)),
    (VF.zeros_like, (x(),), (x(4, 4, 4),)),
    (VF.tensor, ([1.0, 2.0],), ([1.0, 2.0],)),
    (VF.max, (x(), 1), (x(5, 5, 5), 1)),
    (Tensor.view, (x(), 2, -1), (x(6, 3, 4), 2, -1)),
    (Tensor.view, (x(), (2, -1)), (x(6, 3, 4), (2, -1))),
    (Tensor.view, (x(), torch.int32), (x(), torch.int32)),
    (Tensor.reshape, (x(), -1, 4), (x(3, 2, 4).transpose(0, 1), -1, 4)),
    (Tensor.permute, (x(), 2, 0, 1), (x(5, 6, 7), 2, 0, 1)),
    (Tensor.transpose, (x(), 1, 2), (x(5, 6, 7), 1, 2)),
    (Tensor.expand, (x(1, 3), 4, -1), (x(1, 8), 4, -1)),
    (Tensor.contiguous, (x(),), (x().transpose(0, 1),)),
    (Tensor.contiguous, (x().transpose(0, 1),), (x(),)),
    (Tensor.to, (x(), torch.float64), (x(9, 9, 9), torch.float64)),
    (Tensor.to, (x(), torch.float32), (x(9, 9, 9), torch.float32)),
    (Tensor.to, (x(), torch.ones(1, dtype=torch.int32)), (x(), torch.ones(3, dtype=torch.int32))),
    (Tensor.to, (x(), "cpu"), (x(), "cpu")),
    (Tensor.float, (x(),), (x(1, 1, 1),)),
    (Tensor.type, (x(), torch.int64), (x(), torch.int64)),
    (Tensor.chunk, (x(), 2, -1), (x(5, 5, 4), 2, -1)),
    (Tensor.masked_fill, (x(), x() > 0, float("-inf")), (x(1, 1, 3), x(1, 1, 3) > 0, float("-inf"))),
    (Tensor.item, (torch.tensor(2.5),), (torch.tensor(float("nan")),)),
    (Tensor.item, (torch.tensor(3),), (torch.tensor(-3),)),
    (Tensor.item, (torch.tensor(True),), (torch.tensor(False),)),
    (Tensor.add_, (x(), x()), (x(5, 1, 1), x(5, 1, 1))),
    (Tensor.size, (x(),), (x(),)),
    (Tensor.size, (x(), -1), (x(8, 8, 4), -1)),
    (Tensor.numel, (x(),), (x(),)),
    (Tensor.is_contiguous, (x(),), (x(9, 9, 9),)),
    (float, (torch.tensor(3),), (torch.tensor(-7),)),
    (int, (torch.tensor(3.7),), (torch.tensor(-5.2),)),
    (bool, (torch.tensor(1.0),), (torch.tensor(0.0),)),
]


@pytest.mark.parametrize(("function", "first", "second"), CALLS)
def test_call(calls: Calls, function: Any, first: tuple[Any, ...], second: tuple[Any, ...]) -> None:
    trace = calls.call(function, *first)
    check(trace, function, *first)
    check(trace, function, *second)


@pytest.mark.parametrize(
    ("function", "first", "second"),
    [
        (Tensor.view, (x(), 2, -1), (x(), 3, -1)),
        (Tensor.view, (x(), (2, 12)), (x(), (3, 8))),
        (Tensor.narrow, (x(), 1, 0, 2), (x(), 2, 1, 3)),
        (VF.arange, (5,), (7,)),
        (VF.arange, (0.5, 3.0, 0.5), (1.5, 8.0, 1.0)),
        (VF.full, ((2, 3), 1.5), ((4, 1), -2.0)),
        (VF.tensor, ([1.0, 2.0],), ([3.0, -0.0],)),
        (VF.add, (x(), 2.5), (x(), -1.0)),
        (VF.add, (x(), 2), (x(), 3)),
        (VF.clamp, (x(), -0.5, 0.5), (x(), 0.0, 1.0)),
        (VF.softmax, (x(), 1), (x(), 2)),
        (VF.leaky_relu if hasattr(VF, "leaky_relu") else NN.leaky_relu, (x(), 0.5), (x(), 0.25)),
    ],
)
def test_scalars_keep_their_registers(
    calls: Calls, function: Any, first: tuple[Any, ...], second: tuple[Any, ...]
) -> None:
    trace = calls.call(function, *first, dynamic=True)
    check(trace, function, *first)
    check(trace, function, *second)


@pytest.mark.parametrize("oparg", range(26))
def test_binary(calls: Calls, oparg: int) -> None:
    from one_call import BINARY_FUNCTIONS

    function = BINARY_FUNCTIONS[oparg]
    integral = oparg % 13 in (1, 3, 7, 9, 12)
    make = (lambda: torch.randint(0, 5, (3, 3))) if integral else lambda: torch.rand(3, 3) + 0.5
    number, other = (2, 3) if integral else (2.5, 1.5)
    pairs = [((make(), make()), (make(), make()))]
    if oparg % 13 != 4:
        pairs += [((make(), number), (make(), other))]
        if oparg < 13:
            pairs += [((number, make()), (other, make()))]
    for first, second in pairs:
        constant = calls.binary(oparg, *(o.clone() if isinstance(o, Tensor) else o for o in first))
        check(constant, function, *first)
        trace = calls.binary(oparg, *(o.clone() if isinstance(o, Tensor) else o for o in first), dynamic=True)
        check(trace, function, *first)
        check(trace, function, *second)


@pytest.mark.parametrize("oparg", range(6))
def test_compare(calls: Calls, oparg: int) -> None:
    function = [operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge][oparg]
    for a, b in ((x(), x()), (x(), 0.5), (0.5, x())):
        check(calls.compare(oparg, a, b), function, a, b)


def test_compare_with_none(calls: Calls) -> None:
    assert calls.compare(2, x(), None)(x(), None) is False
    assert calls.compare(3, x(), None)(x(), None) is True


@pytest.mark.parametrize(
    "index",
    [
        0,
        -1,
        slice(None, 2),
        slice(0, 3),
        slice(1, None),
        slice(None, None, 2),
        None,
        ...,
        (..., slice(0, 2)),
        (0,),
        (slice(None),),
        (slice(None), 1),
        (slice(None), None, 0),
        (slice(0, 2), slice(0, 3)),
        True,
        (0, 1, 2),
        (slice(None), slice(None), slice(-3, None)),
        torch.tensor([0, 1]),
        torch.tensor(1),
        (torch.tensor([0, 1]), slice(1, 3)),
        (slice(None), torch.tensor([[0], [1]])),
    ],
)
@pytest.mark.parametrize("sizes", [(2, 3, 4), (3, 3, 4), (2, 4, 6)])
def test_index(calls: Calls, index: Any, sizes: tuple[int, ...]) -> None:
    for recorded in ((2, 3, 4), (3, 3, 3)):
        trace = calls.index(x(*recorded), index, dynamic=True)
        check(trace, operator.getitem, x(*sizes), index)
        check(trace, operator.getitem, x(*sizes).requires_grad_(), index)


def test_index_by_registers(calls: Calls) -> None:
    trace = calls.index(x(), (slice(None, 1), slice(0, 2)), dynamic=True)
    check(trace, operator.getitem, x(), (slice(None, 2), slice(1, 3)))


@pytest.mark.parametrize(
    "index", [0, slice(0, 2), (slice(0, 2), 1), ..., None, torch.tensor([0, 1]), (slice(None), torch.tensor([1]))]
)
@pytest.mark.parametrize("value", [1.5, 2, True, torch.ones(1, 3), torch.tensor(3.0)])
def test_store(calls: Calls, index: Any, value: Any) -> None:
    def run(into: torch.Tensor) -> None:
        into[index] = value

    for recorded in (2, 4):
        try:
            run(torch.zeros(recorded, 3))
        except RuntimeError:
            continue
        trace = calls.store(torch.zeros(recorded, 3), index, value)
        for rows in (2, 4):
            a, b = torch.zeros(rows, 3), torch.zeros(rows, 3)
            try:
                run(a)
            except RuntimeError:
                continue
            trace(b, index, value)
            assert same(a, b)


def test_the_binding_decides_anew(calls: Calls) -> None:
    """Traps: buf[0:n] = y recorded with n rows; contiguous() on a transposed tensor."""
    trace = calls.store(torch.zeros(2, 3), slice(0, 2), torch.ones(1, 3))
    buffer = torch.zeros(4, 3)
    trace(buffer, slice(0, 2), torch.ones(1, 3))
    assert buffer[2:].eq(0).all()
    base = torch.zeros(2, 2)
    trace = calls.call(Tensor.contiguous, base)
    assert trace(base) is base
    assert trace(base.t()) is not base


@pytest.mark.parametrize(
    "name", ["shape", "dtype", "device", "ndim", "requires_grad", "is_leaf", "T", "mT", "real", "layout", "is_cuda"]
)
def test_attribute(calls: Calls, name: str) -> None:
    trace = calls.attribute(name, x(2, 3))
    check(trace, lambda o: getattr(o, name), x(2, 3))


@pytest.mark.parametrize(
    ("owner", "name"),
    [(torch.finfo(torch.float32), "min"), (torch.float16, "itemsize"), (torch.device("cpu"), "type")],
)
def test_attribute_of_a_constant(calls: Calls, owner: Any, name: str) -> None:
    assert calls.attribute(name, owner)(owner) == getattr(owner, name)


def test_data_is_detached_and_shares(calls: Calls) -> None:
    trace = calls.attribute("data", W)
    assert trace(W).data_ptr() == W.data_ptr()
    assert not trace(W).requires_grad


def test_sizes_are_read(calls: Calls) -> None:
    for of in (Tensor.size, Tensor.numel):
        trace = calls.call(of, x(2, 3, 4))
        for shape in ((2, 3, 5), (1, 0, 7)):
            assert trace(x(*shape)) == of(x(*shape))


def test_what_was_looked_at_is_checked(calls: Calls) -> None:
    for trace, bad in (
        (calls.call(Tensor.stride, x()), x().transpose(0, 1)),
        (calls.attribute("requires_grad", x()), x().requires_grad_()),
        (calls.call(Tensor.is_contiguous, x()), x().transpose(0, 1)),
    ):
        with pytest.raises(RuntimeError, match="failed: tensor::check"):
            trace(bad)
    with pytest.raises(RuntimeError, match=r"float64\[2, 3, 4\] now, float32\[\*, \*, \*\] before"):
        calls.attribute("shape", x())(x().double())


def test_modes_are_guarded(calls: Calls) -> None:
    trace = calls.call(torch.is_grad_enabled)
    assert trace() is True
    with torch.no_grad(), pytest.raises(RuntimeError, match="grad mode: off now, on before"):
        trace()
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(RuntimeError, match="default dtype: Double now, Float before"):
            trace()
    finally:
        torch.set_default_dtype(torch.float32)
    assert trace() is True


def test_truth_length_and_rows(calls: Calls) -> None:
    one = torch.tensor(1.0)
    trace = calls.site(BOOL, (one,), lambda: bool(one))
    assert trace(one) is True
    assert trace(torch.tensor(0.0)) is False
    assert calls.unary(3, one)(torch.tensor(0.0)) is True
    t = x()
    assert calls.site(LEN, (t,), lambda: len(t))(t) == 2
    check(calls.site(UNPACK, (t,), lambda: tuple(t), oparg=2), lambda o: tuple(o), x())
    check(calls.site(ITER, (t,), lambda: iter(t)), lambda o: tuple(o), x())
    assert calls.site(CONTAINS, (t, 2.5), lambda: 2.5 in t)(torch.tensor([[[2.5]]]), 2.5) is True


def test_errors_leave_no_trace(calls: Calls) -> None:
    trace = calls.call(VF.add, x(2, 3), x(2, 3))
    with pytest.raises(RuntimeError, match="failed: aten::add"):
        trace(x(2, 3), x(2, 4))
    check(trace, VF.add, x(2, 3), x(2, 3))


def test_refused(calls: Calls) -> None:
    zeros = torch.zeros(3)
    for function, operands in (
        (Tensor.tolist, (zeros,)),
        (Tensor.data_ptr, (zeros,)),
    ):
        with pytest.raises(NotRecorded):
            calls.call(function, *operands)


def test_a_python_kernel_is_refused(calls: Calls) -> None:
    calls.call(VF.sinh, x())
    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("sinh", lambda t: torch.cosh(t), "CPU")
        with pytest.raises(NotRecorded):
            calls.call(VF.sinh, x())
    calls.call(VF.sinh, x())


def test_gradients_flow(calls: Calls) -> None:
    trace = calls.call(NN.linear, x(2, 4), W, B)
    data = x(3, 4)
    grads = [torch.autograd.grad(f(data, W, B).square().sum(), (W, B)) for f in (trace, NN.linear)]
    assert same(grads[0], grads[1])


def test_random_numbers_are_those_of_eager(calls: Calls) -> None:
    trace = calls.call(VF.dropout, x(), 0.5, True)
    data = x()
    torch.manual_seed(0)
    first = trace(data, 0.5, True), torch.rand(1)
    torch.manual_seed(0)
    second = VF.dropout(data, 0.5, True), torch.rand(1)
    assert same(first, second)


def test_the_eye_closes(calls: Calls) -> None:
    calls.call(VF.relu, x())
    assert not torch._C._dispatch_tls_is_dispatch_key_included("TESTING_ONLY_GenericMode")
    assert calls.harness.count(lambda: torch.relu(x()) + 1) == 3
    with pytest.raises(RuntimeError):
        calls.call(VF.add, x(2, 3), x(2, 4))
    assert not torch._C._dispatch_tls_is_dispatch_key_included("TESTING_ONLY_GenericMode")


def test_steps_aside(calls: Calls) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    with Mode(), pytest.raises(NotRecorded, match="__torch_dispatch__"):
        calls.call(VF.relu, torch.ones(1))
    with torch.autograd.detect_anomaly(check_nan=False), pytest.raises(NotRecorded, match="anomaly"):
        calls.call(VF.relu, torch.ones(1))
    with pytest.raises(NotRecorded, match="torch.func"):
        torch.func.vmap(lambda t: calls.call(VF.relu, torch.ones(1)) and t)(torch.ones(2))
