"""Transformations of torch.func in a captured call: operators on plain tensors, or a place where the graph is split."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import func

import pijit
from pijit.errors import ExportError

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

W = torch.randn(3, 3, generator=torch.Generator().manual_seed(9))


def energy(x: Any) -> Any:
    return (x @ W).tanh().square().sum() + x.prod()


def gradient(x: Any) -> Any:
    return func.grad(energy)(x[0]) * 2


def gradients_and_value(x: Any) -> Any:
    made = func.grad_and_value(lambda x, y: ((x * y).sum(), {"y": y * 2}), argnums=(0, 1), has_aux=True)(x, x + 1)
    return made[0], made[1][0], made[1][1]["y"]


def second_gradient(x: Any) -> Any:
    return func.grad(lambda x: func.grad(energy)(x).square().sum())(x[0])


def without_gradients_outside(x: Any) -> Any:
    with torch.no_grad():
        return func.grad(energy)(x[0])


def without_gradients_inside(x: Any) -> Any:
    def f(x: Any) -> Any:
        with torch.no_grad():
            c = x**2
        return (x - c).sum()

    return func.grad(f)(x) + 1


def closed_over(x: Any) -> Any:
    scale = x.sum() * 3
    return func.grad(lambda row: (row * scale).sum())(x[0]), func.grad(lambda row: (row * row * scale).sum())(x[1])


def mapped(x: Any) -> Any:
    return func.vmap(lambda row: (W @ row).tanh())(x)


def mapped_over_another_axis(x: Any) -> Any:
    return func.vmap(lambda column, scale: column * scale, in_dims=(1, None), out_dims=1)(x, x[0, 0])


def mapped_twice(x: Any) -> Any:
    return func.vmap(func.vmap(lambda number: number * 2))(x)


def sized_inside(x: Any) -> Any:
    return func.vmap(lambda row: row / row.shape[0] + row.numel() * row.dim())(x)


def jacobian(x: Any) -> Any:
    return func.jacrev(lambda x: (x @ W).sin())(x[0])


def jacobian_forward(x: Any) -> Any:
    return func.jacfwd(lambda x: (x @ W).sin() * x)(x[0])


def pushed_forward(x: Any) -> Any:
    return func.jvp(lambda x, y: (x @ W).sin() * y, (x, x + 2), (x + 1, x))


WHOLE = [
    jacobian_forward,
    pushed_forward,
    mapped_twice,
    sized_inside,
    jacobian,
    mapped,
    mapped_over_another_axis,
    gradient,
    gradients_and_value,
    second_gradient,
    without_gradients_outside,
    without_gradients_inside,
    closed_over,
]


def data(size: int, seed: int) -> Any:
    return torch.randn(size, 3, generator=torch.Generator().manual_seed(seed))


def state() -> tuple[Any, ...]:
    core = torch._C
    return core._functorch.get_dynamic_layer_stack_depth(), torch.is_grad_enabled(), core._is_fwd_grad_enabled()


@pytest.mark.parametrize("f", WHOLE, ids=lambda f: f.__name__)
def test_operators_are_left(f: Any) -> None:
    before = state()
    graph = pijit.graph.capture(f, data(4, 0))
    assert state() == before
    assert graph.breaks == ()
    assert graph.is_neutral
    for size, seed in ((4, 0), (4, 1), (6, 2), (2, 3)):
        x = data(size, seed)
        plain = torch.utils._pytree.tree_leaves(f(x))
        made = torch.utils._pytree.tree_leaves(graph.run(x.clone()))
        numbers = torch.utils._pytree.tree_leaves(graph.run(x.numpy(), framework="numpy"))
        for a, b, c in zip(plain, made, numbers, strict=True):
            assert torch.equal(a, b)
            assert torch.allclose(a, torch.as_tensor(np.array(c)), atol=1e-5)


@pytest.mark.parametrize("format", ["fx", "exported_program", "onnx"])
def test_formats(format: str) -> None:
    exported: Any = pijit.export(second_gradient, data(4, 0), format=format)  # type: ignore[call-overload]
    if format == "onnx":
        session = pytest.importorskip("onnxruntime").InferenceSession(exported.SerializeToString())
        run: Any = lambda x: torch.as_tensor(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])  # noqa: E731
    else:
        run = exported.module() if format == "exported_program" else exported
    for seed in range(3):
        x = data(4, seed)
        assert torch.allclose(second_gradient(x), run(x), atol=1e-4, rtol=1e-4)


def decided_inside(x: Any) -> Any:
    return func.grad(lambda x: (x * 2).sum() if x.sum() > 0 else (x * 3).sum())(x[0])


def pushed_forward_by_a_decision(x: Any) -> Any:
    return func.jvp(lambda x: x.sin() if x.sum() > 0 else x.cos(), (x,), (x + 1,))[1] * 1


def under_autocast(x: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return func.grad(lambda x: (x @ W).float().sum())(x)


@pytest.mark.parametrize("f", [decided_inside, pushed_forward_by_a_decision, under_autocast], ids=lambda f: f.__name__)
def test_what_cannot_be_said_splits_the_graph(f: Any) -> None:
    """The levels are closed, whatever happens; the next call is plain torch's."""
    before, expected = state(), f(data(4, 1).abs())
    with pytest.raises(ExportError, match=r"test_transforms\.py:\d+.*torch\.func\.(grad|jvp)"):
        pijit.export(f, data(4, 0).abs(), format="onnx")
    assert state() == before
    assert torch.equal(f(data(4, 1).abs()), expected)
