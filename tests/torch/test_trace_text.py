"""Operations as lines of Python, which give the same when they are run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import pijit

pytestmark = pytest.mark.torch


def x(*sizes: int) -> torch.Tensor:
    return torch.arange(float(torch.Size(sizes).numel())).reshape(sizes) + 1


def same(a: Any, b: Any) -> bool:
    """Equal to the bit, tensors in any container."""
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())
    if isinstance(a, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and bool(a == b)


def lines(text: str) -> list[str]:
    """The statements of a printed trace."""
    statements = [line.partition("  # ")[0].strip() for line in text.splitlines()[2:]]
    return [line for line in statements if line and not line.startswith("#")]


def run(text: str, arguments: tuple[Any, ...]) -> Any:
    """What a printed trace returns."""
    scope: dict[str, Any] = {"torch": torch}
    exec(text, scope)
    name = text.splitlines()[1].removeprefix("def ").partition("(")[0]
    return scope[name](*arguments)


def assigned(a: torch.Tensor) -> torch.Tensor:
    a = a.clone()
    a[0] = 2
    a[:, 1:] = 2.5
    return a


def looked_at(a: torch.Tensor) -> Any:
    b = a + 1
    return b.dtype, b.stride(), b.is_contiguous(), b.requires_grad, b.is_leaf, b.numel(), b.storage_offset()


def without_gradients(a: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        b = a * 2
    return b


PROGRAMS: list[tuple[Callable[..., Any], list[str]]] = [
    (
        lambda a: torch.add(a, 2.5, alpha=2) + 1,
        ["r2 = torch.ops.aten.add.Tensor(a, 2.5, alpha=2)", "r3 = torch.ops.aten.add.Tensor(r2, 1)", "return r3"],
    ),
    (lambda a: a.max(0), ["r2, r3 = torch.ops.aten.max.dim(a, 0)", "return torch.return_types.max((r2, r3))"]),
    (lambda a: a.split(9), ["(r2,) = torch.ops.aten.split.Tensor(a, 9)", "return (r2,)"]),
    (lambda a: a.split(1, 1), ["r2, r3 = torch.ops.aten.split.Tensor(a, 1, 1)", "return (r2, r3)"]),
    (
        lambda a: torch.cat([a, a], 1),
        ["r2 = torch.ops.aten.cat([a, a], 1)", "return r2"],
    ),
    (lambda a: a[0, 1:, None], ["r2 = a[0, 1:, None]", "return r2"]),
    (lambda a: a[..., ::2], ["r2 = a[..., ::2]", "return r2"]),
    (lambda a: a[()], ["r2 = a[()]", "return r2"]),
    (lambda a: a[[0, 1]], ["r2 = a[[0, 1]]", "return r2"]),
    (
        assigned,
        ["r2 = torch.ops.aten.clone(a)", "r2[0] = 2", "r2[:, 1:] = 2.5", "return r2"],
    ),
    (
        lambda a: (a[0, 0].item(), int(a[0, 0]), float(a[0, 0]), bool(a[0, 0])),
        [
            "r2 = a[0, 0]",
            "r3 = r2.item()",
            "r4 = a[0, 0]",
            "r5 = int(r4)",
            "r6 = a[0, 0]",
            "r7 = float(r6)",
            "r8 = a[0, 0]",
            "r9 = bool(r8)",
            "return (r3, r5, r7, r9)",
        ],
    ),
    (
        looked_at,
        [
            "r2 = torch.ops.aten.add.Tensor(a, 1)",
            "assert r2.dtype == torch.float32 and r2.stride() == (2, 1)",
            "assert r2.is_contiguous(memory_format=torch.contiguous_format) is True and r2.requires_grad is False",
            "assert r2.is_leaf is True",
            "r3 = r2.numel()",
            "assert r2.storage_offset() == 0",
            "return (torch.float32, (2, 1), True, False, True, r3, 0)",
        ],
    ),
    (
        without_gradients,
        [
            "torch.set_grad_enabled(False)",
            "r2 = torch.ops.aten.mul.Tensor(a, 2)",
            "torch.set_grad_enabled(True)",
            "return r2",
        ],
    ),
    (
        lambda a: (a.t().contiguous(), a.data, torch.tensor([[1, 2], [3, 4]]), torch.tensor([])),
        [
            "r2 = torch.ops.aten.t(a)",
            "r3 = r2.contiguous()",
            "r4 = a.data",
            "r5 = torch.tensor([[1, 2], [3, 4]], dtype=torch.int64)",
            "r6 = torch.empty([0], dtype=torch.float32)",
            "return (r3, r4, r5, r6)",
        ],
    ),
    (
        lambda a: F.gelu(a.to(torch.float64), approximate="tanh"),
        [
            "r2 = torch.ops.aten.to.dtype(a, torch.float64)",
            "r3 = torch.ops.aten.gelu(r2, approximate='tanh')",
            "return r3",
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("program", "expected"), PROGRAMS, ids=[lines[0] for _, lines in PROGRAMS])
def test_lines(program: Callable[..., Any], expected: list[str]) -> None:
    """What is printed, and that it gives what the program gives."""
    replayed = pijit.jit(program)
    first, second = (x(2, 2),), (x(2, 2) * 3,)
    for arguments in (first, second, first):
        assert same(replayed(*arguments), program(*arguments))
    (trace,) = pijit.traces(replayed)
    assert lines(str(trace)) == expected
    for arguments in (first, second):
        if "return_types" not in expected[-1]:
            assert same(run(str(trace), arguments), program(*arguments))


def test_gradients() -> None:
    """Attributes that are read, checked and set."""

    def step(w: torch.Tensor, v: torch.Tensor) -> Any:
        found = w.grad + 1
        w.grad = None
        none = v.grad
        v.grad = found
        v.requires_grad_(False)
        return found, none

    replayed = pijit.jit(step)
    for size in (2, 3, 2):
        w, v = x(size).requires_grad_(), x(size).requires_grad_()
        w.grad = x(size)
        found, none = replayed(w, v)
        assert same(found, x(size) + 1)
        assert (none, w.grad, v.requires_grad) == (None, None, False)
    (trace,) = pijit.traces(replayed)
    assert lines(str(trace)) == [
        "assert w.grad_fn is None",
        "r4 = w.grad",
        "r5 = torch.ops.aten.add.Tensor(r4, 1)",
        "w.grad = None",
        "assert v.grad_fn is None and v.grad is None",
        "v.grad = r5",
        "v.requires_grad = False",
        "return (r5, None)",
    ]


def test_a_dead_constant_and_one_that_lives() -> None:
    """Constants of the code are alive as long as the code is."""

    def f(a: torch.Tensor) -> Any:
        return a.new_tensor([[1.5, 2.5], [3.5, a.shape[0] * 1.0]]), "text", 12345678901

    replayed = pijit.jit(f)
    for rows in (2, 3):
        assert same(replayed(x(rows)), f(x(rows)))
    (trace,) = pijit.traces(replayed)
    assert "_at_0x" not in str(trace)
    assert same(run(str(trace), (x(4),)), f(x(4)))


class Pair:
    __slots__ = ("left", "right")

    def __init__(self, left: torch.Tensor, right: torch.Tensor) -> None:
        self.left = left
        self.right = right


class Inline:
    def __init__(self, scale: torch.Tensor) -> None:
        self.scale = scale


def test_arguments_that_hold_tensors() -> None:
    """Slots, attributes and items of keyword arguments by their names, so that the text can be run."""

    def f(pair: Pair, inline: Inline, **more: torch.Tensor) -> Any:
        return pair.left * inline.scale + pair.right, more["bias"] - 1

    def arguments(rows: int) -> tuple[Any, ...]:
        return Pair(x(rows), x(rows) * 2), Inline(x(rows) + 3)

    replayed = pijit.jit(f)
    for rows in (2, 3, 4, 5):
        assert same(replayed(*arguments(rows), bias=x(rows)), f(*arguments(rows), bias=x(rows)))
    trace = pijit.traces(replayed)[-1]
    text = str(trace)
    for part in ("pair.left", "pair.right", "inline.scale", "more['bias']"):
        assert part in text, text
    scope: dict[str, Any] = {"torch": torch}
    exec(text, scope)
    assert same(
        scope["test_arguments_that_hold_tensors__locals__f"](*arguments(7), bias=x(7)), f(*arguments(7), bias=x(7))
    )


def test_an_argument_that_stays_the_same() -> None:
    """What a slot held is that slot in the text, though the trace does not keep it alive."""

    def f(pair: Pair, a: torch.Tensor) -> torch.Tensor:
        return pair.left * a + pair.right

    replayed = pijit.jit(f)
    pair = Pair(x(2), x(2) * 2)
    for factor in (1, 2, 3):
        assert same(replayed(pair, x(2) * factor), f(pair, x(2) * factor))
    text = str(pijit.traces(replayed)[-1])
    assert "pair is pair" in text
    assert "_at_0x" not in text
    assert same(run(text, (Pair(x(3), x(3) - 1), x(3))), f(Pair(x(3), x(3) - 1), x(3)))
    del pair
    assert "_at_0x" not in str(pijit.traces(replayed)[-1])


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.inner(a)))


def test_a_module() -> None:
    """Its text is a function of the module: parameters are its attributes."""
    torch.manual_seed(0)
    model, other = (
        nn.Sequential(*(Layer() for _ in range(3))).eval(),
        nn.Sequential(*(Layer() for _ in range(3))).eval(),
    )
    replayed = pijit.jit(model)
    for rows in (2, 4, 2):
        assert same(replayed(x(rows, 3)), model(x(rows, 3)))
    text = str(pijit.traces(replayed)[-1])
    for each in (model, other):
        assert same(run(text, (each, x(5, 3))), each(x(5, 3)))
