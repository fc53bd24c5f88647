"""sum() of tensors, and tensors where a binding wants a number: additions and numbers of the trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pijit
from pijit import _core

Case = Callable[[list[Tensor]], Any]
KEPT: list[Tensor] = []


def noted(tensor: Tensor) -> Tensor:
    KEPT.append(tensor)
    return tensor * 2


CASES: dict[str, Case] = {
    "of_a_list": lambda t: sum(t),
    "of_squares": lambda t: sum(each.pow(2).sum() for each in t),
    "of_some": lambda t: sum(each.sum() for each in t if each.sum() > 0),
    "with_a_start": lambda t: sum(t, 1.5),
    "from_a_tensor": lambda t: sum(t[1:], t[0]),
    "of_squares_from_a_tensor": lambda t: sum((each * each for each in t[1:]), t[0]),
    "of_a_dict": lambda t: sum(dict(enumerate(t)).values()),
    "of_numbers_and_tensors": lambda t: sum([1, 2.5, *t]),
    "of_tensors_and_numbers": lambda t: sum([t[0], 2.5, t[1], 3, float(t[2].sum() > 0), t[0].numel()]),
    "of_tensors_and_others": lambda t: (sum([t[0], True]), sum([t[0], t[0].sum().item()])),
    "of_what_is_written": lambda t: sum(each.mul_(2) for each in [t[0], t[0], t[1]]),
    "of_what_is_noted": lambda t: sum(noted(each) for each in t),
    "of_a_map": lambda t: sum(map(torch.relu, t)),
    "of_one_tensor_again": lambda t: sum([t[0]] * 3),
    "of_whole_numbers": lambda t: sum(each > 0 for each in t),
    "of_none": lambda t: (sum(t[:0]), t[0] + 1),
    "of_other_sizes": lambda t: sum(each[: 1 if each[0, 0] > 0 else 2] for each in t),
    "of_what_does_not_fit": lambda t: sum(each[:, : 2 if each.sum() > 9 else 3] for each in t),
}


def described(value: Any) -> Any:
    if isinstance(value, Tensor):
        graph = type(value.grad_fn).__name__
        return value.dtype, tuple(value.shape), value.stride(), value.requires_grad, graph, value.tolist()
    if isinstance(value, (tuple, list)):
        return [described(each) for each in value]
    return type(value), value


def outcome(function: Case, seed: int, grad: bool = False, big: bool = False) -> Any:
    generator = torch.Generator().manual_seed(seed)
    tensors = [torch.randn(2, 3, generator=generator) for _ in range(3)]
    if big:
        tensors[2] += 100
    if grad:
        tensors = [tensor.requires_grad_() for tensor in tensors]
    KEPT.clear()
    try:
        given = described(function(tensors))
    except RuntimeError as error:
        given = str(error)
    return given, described(tensors), described(KEPT)


@pytest.mark.parametrize("name", CASES)
def test_sum(name: str) -> None:
    plain, fast = CASES[name], pijit.jit(CASES[name])
    for seed in range(12):
        assert outcome(fast, seed) == outcome(plain, seed)
    if name not in ("of_a_map", "of_tensors_and_others"):
        assert all(trace.opaque_calls == 0 for trace in pijit.traces(fast) if trace.replays > 0)
    for seed in range(12, 18):
        big = seed % 2 == 0
        assert outcome(fast, seed, big=big) == outcome(plain, seed, big=big)
    if name != "of_what_is_written":
        for seed in range(18, 22):
            assert outcome(fast, seed, grad=True) == outcome(plain, seed, grad=True)


def test_whole_sums_are_replayed() -> None:
    @pijit.jit
    def f(tensors: list[Tensor]) -> Tensor:
        return sum(each.pow(2).sum() for each in tensors) + sum(tensors).sum()

    for seed in range(6):
        outcome(f, seed)
    before = _core.root_report(_core.root_of(f))
    for seed in range(4):
        outcome(f, seed)
    after = _core.root_report(_core.root_of(f))
    assert (after["records"], after["exits"]) == (before["records"], before["exits"])
    assert after["replays"] == before["replays"] + 4


NUMBERS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "alpha": lambda x, n: torch.ones(3).add_(x, alpha=n),
    "value": lambda x, n: torch.ones(3).addcdiv_(x, x + 9, value=n),
    "twice": lambda x, n: torch.clamp(x, n, n),
    "of_two": lambda x, n: torch.clamp(x, n, n + 1),
    "itself": lambda x, n: n.clone().add_(n, alpha=n),
    "fill": lambda x, n: torch.full((2, 2), n),
    "size": lambda x, n: x.narrow(0, n.long(), 1),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_tensor_for_a_number(name: str) -> None:
    plain, fast = NUMBERS[name], pijit.jit(lambda x, n: NUMBERS[name](x, n))
    numbers = [0.5, 0.25, 1.5, 0.75, 1.0, 2.0]
    for seed, number in enumerate([*numbers, *numbers]):
        x = torch.randn(3, generator=torch.Generator().manual_seed(seed))
        n = torch.tensor(number) if seed < 9 else torch.tensor(int(number))
        expected: Any
        try:
            expected = described(plain(x, n))
        except RuntimeError as error:
            expected = str(error)
        try:
            given = described(fast(x, n.clone()))
        except RuntimeError as error:
            given = str(error)
        assert given == expected


def test_steps_of_a_tensor_as_learning_rate() -> None:
    """Adam keeps its step in tensors; a learning rate that is one takes the same way."""

    def steps(jit: Callable[..., Any]) -> list[Any]:
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.1))

        def step(x: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        step, seen = jit(step), []
        for seed in range(14):
            before = pijit.stats()["opaque_calls"]
            seen.append(described([step(torch.randn(5, 3, generator=torch.Generator().manual_seed(seed)))]))
            seen.append(described(list(model.parameters())))
            if seed == 5:
                optimizer.param_groups[0]["lr"] = torch.tensor(0.5)
        opaque.append(pijit.stats()["opaque_calls"] - before)
        return seen

    opaque: list[int] = []
    assert steps(lambda function: function) == steps(pijit.jit)
    assert opaque == [0, 0]
