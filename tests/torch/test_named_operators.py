"""Operators called by their names, as in a graph of aten operators: they are operators of the trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pijit

aten = torch.ops.aten
Call = Callable[[Tensor, Any], Any]

W = nn.Parameter(torch.arange(16.0).reshape(4, 4) / 10)

CALLS: dict[str, Call] = {
    "overload": lambda x, n: aten.add.Tensor(aten.mm.default(x, W), x),
    "packet": lambda x, n: aten.relu(aten.mm(x, W)),
    "keyword": lambda x, n: aten.add.Tensor(x, other=x, alpha=2),
    "number_for_a_tensor": lambda x, n: aten.add.Tensor(x, n),
    "scalar": lambda x, n: aten.mul.Scalar(x, n),
    "packet_with_a_number": lambda x, n: aten.mul(x, n),
    "view": lambda x, n: aten.permute.default(aten.view.default(x, [2, 8]), [1, 0]),
    "several_results": lambda x, n: aten.native_layer_norm.default(x, [4], W[0], None, 1e-5),
    "list_of_results": lambda x, n: aten.split.Tensor(x, 3, 1),
    "list_of_operands": lambda x, n: aten.cat.default([x, W, x], 1),
    "optional_list": lambda x, n: aten.index.Tensor(x, [None, torch.tensor([1, 0])]),
    "in_place": lambda x, n: aten.add_.Tensor(x, x),
    "out": lambda x, n: aten.add.out(x, x, out=torch.empty(4, 4)),
    "factory": lambda x, n: aten.full.default([2, 3], n, dtype=torch.float64, device=torch.device("cpu")),
    "like": lambda x, n: aten.ones_like.default(x, dtype=torch.int64),
    "random": lambda x, n: aten.rand_like.default(x),
    "number": lambda x, n: aten._local_scalar_dense.default(aten.sum.default(x)),
    "size": lambda x, n: aten.sym_size.int(x, 1),
    "truth": lambda x, n: aten.equal.default(x, x),
    "nothing_for_a_result": lambda x, n: aten.native_layer_norm_backward.default(
        x, x, [4], x.sum(1, True), x.sum(1, True) + 2, W[0].detach(), None, [True, n > 2, False]
    ),
    "accumulating": lambda x, n: (aten._foreach_add_.Scalar([x, x * 2], n), x),
    "wrong_shape": lambda x, n: aten.mm.default(x, x[: 4 if n < 3 else 3]),
}


def described(value: Any) -> Any:
    if isinstance(value, Tensor):
        return (
            value.dtype,
            value.stride(),
            value._version,
            value.requires_grad,
            value.is_leaf,
            type(value.grad_fn).__name__,
            value.tolist(),
        )
    if isinstance(value, (list, tuple)):
        return type(value), [described(part) for part in value]
    return type(value), value


def called(function: Call, seed: int, number: float) -> Any:
    torch.manual_seed(seed)
    x = torch.randn(4, 4)
    try:
        return described(function(x, number)), described(x), torch.get_rng_state().tolist()
    except RuntimeError as error:
        return str(error), described(x)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_by_name(name: str) -> None:
    """Other tensors each time, then other numbers, one of another class, and tensors that are in no graph."""
    plain, fast = CALLS[name], pijit.jit(lambda x, n: CALLS[name](x, n))
    numbers = [2, 2, 2, 2, 3, 4, 5, 2.5, 3.5, 2, 1]
    for seed, number in enumerate(numbers):
        assert called(fast, seed, number) == called(plain, seed, number)
    with torch.no_grad():
        for seed in range(4):
            assert called(fast, seed, 2) == called(plain, seed, 2)
    traces = [trace for trace in pijit.traces(fast) if trace.replays > 0]
    assert traces
    if name not in ("accumulating", "wrong_shape"):
        assert {trace.opaque_calls for trace in traces} == {0}


def test_gradients() -> None:
    def step(x: Tensor, w: Tensor) -> Tensor:
        y = aten.tanh.default(aten.mm.default(x, w))
        return aten.sum.default(aten.mul.Tensor(y, y))

    fast = pijit.jit(step)
    for seed in range(5):
        x = torch.randn(3, 4, generator=torch.Generator().manual_seed(seed))
        mine, other = (torch.ones(4, 2, requires_grad=True) for _ in range(2))
        fast(x, mine).backward()
        step(x, other).backward()
        assert torch.equal(mine.grad, other.grad)


def test_a_graph_of_operators() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.LayerNorm(6), nn.Linear(6, 2))
    graph = make_fx(lambda x: torch.softmax(model(x), 1))(torch.randn(3, 4))
    fast = pijit.jit(graph.forward)
    for seed in range(5):
        x = torch.randn(3, 4, generator=torch.Generator().manual_seed(seed))
        assert torch.equal(fast(x), graph(x))
    (trace,) = (trace for trace in pijit.traces(fast) if trace.replays > 0)
    assert trace.opaque_calls == 0
    assert trace.exits == 0


def test_what_stands_under_the_name_changes() -> None:
    """The program puts a function of its own, and another operator, where the overload keeps its function."""
    overload, seen = torch.ops.aten.sinh.default, []

    def f(x: Tensor) -> Tensor:
        return overload(x) + 1

    def own(*args: Any, **kwargs: Any) -> Tensor:
        seen.append(args)
        return args[0] * 3

    fast, kept = pijit.jit(f), overload._op
    x = torch.arange(3.0)
    try:
        for function, expected in [(kept, x.sinh()), (own, x * 3), (aten.cosh.default._op, x.cosh()), (kept, x.sinh())]:
            overload._op = function
            for _ in range(4):
                assert torch.equal(fast(x), expected + 1)
    finally:
        overload._op = kept
    assert len(seen) == 4


def test_a_kernel_in_python_comes_later() -> None:
    """An operator that gets a kernel in Python is called, and so is the kernel."""
    calls = []

    def f(x: Tensor) -> Tensor:
        return aten.asinh.default(x) + 1

    fast = pijit.jit(f)
    x = torch.arange(3.0)
    for _ in range(4):
        assert torch.equal(fast(x), x.asinh() + 1)
    library = torch.library.Library("aten", "IMPL")
    torch.set_warn_always(True)  # else torch says so once a process
    try:
        with pytest.warns(UserWarning, match="Overriding"):
            library.impl("asinh", lambda self: calls.append(self.shape) or torch.zeros_like(self), "CPU")
        for _ in range(4):
            assert torch.equal(fast(x), torch.ones(3))
    finally:
        torch.set_warn_always(False)
        library._destroy()
    assert len(calls) == 4
    for _ in range(3):
        assert torch.equal(fast(x), x.asinh() + 1)


def test_operators_that_torch_makes_one_after_the_other() -> None:
    """Torch makes the function of an overload when it is first asked for: each is found, also one of a packet that was
    looked into before.
    """
    x = torch.arange(1.0, 5.0)
    calls: list[Callable[[], Tensor]] = [
        lambda: aten.float_power.Tensor_Scalar(x, 2),
        lambda: aten.float_power.Scalar(2, x),
        lambda: aten.hypot.default(x, x),
        lambda: aten.hypot(x, x),
        lambda: aten.float_power.Tensor_Tensor(x, x),
    ]
    for call in calls:
        expected, fast = call(), pijit.jit(call)
        for _ in range(4):
            assert torch.equal(fast(), expected)
        traces = [trace for trace in pijit.traces(fast) if trace.replays > 0]
        assert traces
        assert {trace.opaque_calls for trace in traces} == {0}
