"""Operators that would count double if they ran again after a failure in the middle: they run once, and raise."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pijit

Change = Callable[[list[Tensor], Tensor], Any]

CALLS: dict[str, Change] = {
    "foreach_add": lambda list_, x: torch._foreach_add_(list_, 2.5),
    "foreach_add_list": lambda list_, x: torch._foreach_add_(list_, [x, x, x], alpha=0.5),
    "foreach_mul_tensor": lambda list_, x: torch._foreach_mul_(list_, x.mean()),
    "foreach_lerp": lambda list_, x: torch._foreach_lerp_(list_, [x, x, x], 0.25),
    "foreach_addcdiv": lambda list_, x: torch._foreach_addcdiv_(list_, [x, x, x], [x + 9, x + 9, x + 9], value=-0.1),
    "foreach_zero": lambda list_, x: torch._foreach_zero_(list_),
    "foreach_sqrt": lambda list_, x: torch._foreach_sqrt_([x.abs_()]),
    "index_add": lambda list_, x: list_[0].index_add_(0, torch.tensor([0, 0]), x[:2]),
    "scatter_add": lambda list_, x: list_[0].scatter_add_(0, torch.zeros(2, 3, dtype=torch.int64), x[:2]),
    "put": lambda list_, x: list_[0].put_(torch.tensor([1, 1]), x[0, :2], accumulate=True),
    "index_put": lambda list_, x: list_[0].index_put_((torch.tensor([1, 1]),), x[0], accumulate=True),
}


def described(tensors: list[Tensor]) -> list[Any]:
    return [(tensor.tolist(), tensor._version, tensor.dtype, tensor.stride()) for tensor in tensors]


def outcome(function: Change, tensors: list[Tensor], x: Tensor) -> Any:
    """What the call gives or raises, and all that it left."""
    before = list(tensors)
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            given = function(tensors, x)
        said = [str(warning.message) for warning in told]
        same = [index for index, tensor in enumerate(before) if tensor is given]
        given = described([given] if isinstance(given, Tensor) else list(given or ()))
        return given, same, said, described(before), described([x])
    except (RuntimeError, IndexError) as error:
        return type(error), str(error), described(before), described([x])


def operands(seed: int, bad: int | None = None, dtype: torch.dtype = torch.float32) -> tuple[list[Tensor], Tensor]:
    generator = torch.Generator().manual_seed(seed)
    tensors = [torch.randn(2, 3, generator=generator).to(dtype) for _ in range(3)]
    if bad is not None:
        tensors[bad] = torch.ones(5, 7, dtype=dtype)
    return tensors, torch.randn(2, 3, generator=generator).to(dtype)


@pytest.mark.parametrize("name", CALLS)
def test_runs_once(name: str) -> None:
    """Other tensors in each call; then tensors that do not fit, of which some have been written when it fails."""
    plain, fast = CALLS[name], pijit.jit(lambda list_, x: (CALLS[name](list_, x), list_[0] + 1)[0])
    for seed in range(5):
        assert outcome(fast, *operands(seed)) == outcome(plain, *operands(seed))
    report = {trace.opaque_calls for trace in pijit.traces(fast) if trace.replays > 0}
    assert report == {0}
    for seed, bad in [(5, 2), (6, 2), (7, 0), (8, None), (9, 1), (10, None)]:
        assert outcome(fast, *operands(seed, bad)) == outcome(plain, *operands(seed, bad))
    for seed in range(11, 15):
        both = [operands(seed, dtype=torch.float64) for _ in range(2)]
        assert outcome(fast, *both[0]) == outcome(plain, *both[1])


def test_the_failure_is_handled_where_it_happens() -> None:
    """It has its place in the program, and the exception that is being handled for its context."""

    def f(tensors: list[Tensor], x: Tensor) -> Any:
        try:
            raise KeyError("first")
        except KeyError:
            try:
                torch._foreach_add_(tensors, [x, x, x])
            except RuntimeError as error:
                frames = error.__traceback__.tb_lineno - f.__code__.co_firstlineno
                return str(error), repr(error.__context__), frames, x + 1
        return "none", "", 0, x + 1

    def told(function: Change, bad: int | None) -> Any:
        tensors, x = operands(1, bad)
        given = function(tensors, x)
        return [*given[:3], given[3].tolist(), described(tensors)]

    fast = pijit.jit(f)
    for bad in (None, None, None, None, 2, 2, 2, None, 2):
        assert told(fast, bad) == told(f, bad)


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop])
def test_steps_over_lists_of_tensors(make: Callable[..., torch.optim.Optimizer]) -> None:
    """The engine of autograd is the only opaque call."""

    def steps(jit: Callable[..., Any]) -> list[Any]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
        optimizer = make(model.parameters(), lr=0.1, foreach=True)

        def step(x: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            return loss.detach()

        step, seen = jit(step), []
        for seed in range(12):
            before = pijit.stats()["opaque_calls"]
            loss = step(torch.randn(5, 3, generator=torch.Generator().manual_seed(seed)))
            seen.append(described([loss, *model.parameters(), *(each.grad for each in model.parameters())]))
        seen.append(repr(optimizer.state_dict()))
        opaque.append(pijit.stats()["opaque_calls"] - before)
        return seen

    opaque: list[int] = []
    assert steps(lambda function: function) == steps(pijit.jit)
    assert opaque == [0, 0]


def test_gradients_set_to_zero() -> None:
    def steps(jit: Callable[..., Any]) -> list[Any]:
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x: Tensor, graph: bool) -> Tensor:
            optimizer.zero_grad(set_to_none=False)
            loss = model(x).pow(2).mean()
            loss.backward(create_graph=graph)
            optimizer.step()
            return loss.detach()

        step, seen = jit(step), []
        for seed, graph in enumerate([False] * 8 + [True, True, False, False]):
            before = pijit.stats()["opaque_calls"]
            loss = step(torch.randn(5, 3, generator=torch.Generator().manual_seed(seed)), graph)
            seen.append(described([loss, *model.parameters(), *(each.grad for each in model.parameters())]))
            seen.append([type(each.grad.grad_fn).__name__ for each in model.parameters()])
            if seed == 7:
                opaque.append(pijit.stats()["opaque_calls"] - before)
        return seen

    opaque: list[int] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about graphs of gradients
        assert steps(lambda function: function) == steps(pijit.jit)
    assert opaque == [0, 0]
