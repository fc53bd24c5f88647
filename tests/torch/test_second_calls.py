"""What only a later call shows: tensors that are one now, state that an operator hides, who holds a tensor."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import pijit

pytestmark = pytest.mark.torch

kept = torch.ones(2, 3)


def both(make: Any, function: Any) -> tuple[Any, Any]:
    """What the calls give under plain Python and with pijit."""
    return make(function), make(pijit.jit(function))


@pytest.mark.parametrize("reshape", ["unsqueeze_", "squeeze_", "t_"])
def test_a_tensor_that_is_read_after_another_was_reshaped(reshape: str) -> None:
    """The two may be one: what guards find at entry is not what it is then."""
    arguments = (0,) if reshape == "unsqueeze_" else ()

    def read(x: torch.Tensor) -> tuple[int, tuple[int, ...], torch.Tensor]:
        getattr(x, reshape)(*arguments)
        return kept.dim(), tuple(kept.shape), kept * 2

    def calls(function: Any) -> list[Any]:
        global kept
        kept = torch.ones(1, 3)
        answers = [function(torch.ones(1, 3)) for _ in range(3)]
        return [*answers, function(kept), function(torch.ones(1, 3))]

    plain, replayed = both(calls, read)
    assert [answer[:2] for answer in plain] == [answer[:2] for answer in replayed]
    assert [answer[2].shape for answer in plain] == [answer[2].shape for answer in replayed]


def test_a_view_is_no_leaf_once_its_base_was_written() -> None:
    def write(x: torch.Tensor, w: torch.Tensor) -> tuple[bool, bool, torch.Tensor]:
        y = x * 1
        view = y[0]
        y.mul_(w)
        return view.is_leaf, view.requires_grad, view

    def calls(function: Any) -> list[Any]:
        answers: list[Any] = [function(torch.ones(3, 4), torch.ones(4))[:2] for _ in range(3)]
        for _ in range(3):
            w = torch.ones(4, requires_grad=True)
            *facts, view = function(torch.ones(3, 4), w)
            view.sum().backward()
            answers.append((facts, w.grad.tolist()))  # type: ignore[union-attr]
        return answers

    plain, replayed = both(calls, write)
    assert plain == replayed
    assert plain[-1][0] == [False, True]


def test_random_numbers_of_an_operator_that_fails() -> None:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        try:
            return F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
        except RuntimeError as error:
            return str(error)

    def calls(function: Any) -> Any:
        q = torch.ones(1, 2, 3, 4)
        for _ in range(3):
            function(q, q, q)
        torch.manual_seed(0)
        said = function(q, q, torch.ones(1, 2, 5, 4))
        return said, torch.rand(3).tolist()

    plain, replayed = both(calls, attend)
    assert plain == replayed
    assert isinstance(plain[0], str)


@pytest.mark.parametrize("normalise", ["batch_norm", "instance_norm"])
def test_running_statistics_are_written_once(normalise: str) -> None:
    """An exit in what C code calls does its instruction again, unless that would be noticed."""
    mean, variance = torch.zeros(4), torch.ones(4)

    def key(x: torch.Tensor) -> int:
        if normalise == "batch_norm":
            F.batch_norm(x, mean, variance, training=True)
        else:
            F.instance_norm(x[None].transpose(1, 2), mean, variance, use_input_stats=True)
        return 1 if x.sum() > 0 else 2

    def larger(a: torch.Tensor, b: torch.Tensor) -> float:
        return max(a, b, key=key).sum().item()

    def calls(function: Any) -> list[Any]:
        mean.zero_()
        variance.fill_(1.0)
        up = torch.arange(12.0).view(3, 4)
        answers = []
        for a, b in ((up, up), (up, up), (up, up), (up, -up), (-up, up), (up, up), (-up, -up)):
            answers.append((function(a, b), mean.tolist(), variance.tolist()))
        return answers

    plain, replayed = both(calls, larger)
    assert plain == replayed


def test_a_metaclass_of_c_says_what_is_an_instance() -> None:
    def ask(x: torch.Tensor) -> tuple[bool, ...]:
        return isinstance(x, torch.FloatTensor), isinstance(x, (torch.LongTensor, int)), torch.is_tensor(x)

    fast = pijit.jit(ask)
    for x in (torch.ones(2), torch.ones(2), torch.ones(2), torch.ones(2, dtype=torch.int64), torch.ones(2)):
        assert fast(x) == ask(x)


def test_a_tensor_changes_its_class() -> None:
    def change(x: torch.Tensor) -> tuple[bool, str, torch.Tensor]:
        x.__class__ = nn.Parameter
        return isinstance(kept, nn.Parameter), type(x).__name__, x * 2

    def calls(function: Any) -> list[Any]:
        global kept
        kept = torch.ones(3)
        return [function(x)[:2] for x in (torch.ones(3), torch.ones(3), torch.ones(3), kept, torch.ones(3))]

    plain, replayed = both(calls, change)
    assert plain == replayed


def test_tensors_that_are_swapped() -> None:
    """torch asks how many hold them: a replay that holds them in registers may not be told."""

    def swap(a: torch.Tensor, b: torch.Tensor) -> list[Any]:
        torch.utils.swap_tensors(a, b)
        return [(a + 1).tolist(), (b + 1).tolist()]

    fast = pijit.jit(swap)
    for _ in range(4):
        assert fast(torch.ones(3), torch.zeros(4)) == [[1.0] * 4, [2.0] * 3]


def test_not_in_a_tensor() -> None:
    """What is replayed is the opposite of membership, as a value and as a condition."""

    def f(x: torch.Tensor) -> Any:
        return 1 in x, 7 not in x, "absent" if 7 not in x else "there"

    def calls(function: Any) -> list[Any]:
        tensors = [torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0]), torch.tensor([7.0]), torch.tensor([4.0, 2.0])]
        return [function(x) for x in tensors]

    plain, replayed = both(calls, f)
    assert (
        plain
        == replayed
        == [
            (True, True, "absent"),
            (True, True, "absent"),
            (False, False, "there"),
            (False, True, "absent"),
        ]
    )
