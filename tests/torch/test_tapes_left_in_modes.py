"""Replays that are left in another mode than that under which a tape has run: what it did is done once more under that
of then, and all bits, graphs and versions are as in plain Python.
"""

# mypy: disable-error-code="no-untyped-call,no-any-return,operator,union-attr,index,unused-ignore"

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from taped_steps import Step, batches, compare, mlp, stepping, tapes
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


def bfloat16() -> AbstractContextManager[Any]:
    return torch.autocast("cpu", torch.bfloat16)


class Leaving:
    """A model with a place at which every ninth call goes another way."""

    def __init__(self) -> None:
        self.model, self.count = mlp(nn.Tanh()), [0]

    def leaves(self) -> bool:
        count = len(self.count)
        self.count.append(1)
        return count % 9 == 7

    def step(self, loss_of: Callable[..., Any]) -> tuple[nn.Module, Step]:
        return stepping(self.model, lambda model, x, y: loss_of(self, x, y))


def in_no_grad(of: Leaving, x: Tensor, y: Tensor) -> Any:
    out = of.model(x)
    loss = F.cross_entropy(out, y)
    with torch.no_grad():
        right = (out.argmax(-1) == y).sum()
        if of.leaves():
            right = right * 2
    return loss, right


def in_inference_mode(of: Leaving, x: Tensor, y: Tensor) -> Any:
    out = of.model(x)
    loss = F.cross_entropy(out, y)
    with torch.inference_mode():
        if of.leaves():
            of.count.append(1)
    return loss, len(of.count)


def behind_autocast(of: Leaving, x: Tensor, y: Tensor) -> Any:
    with bfloat16():
        out = of.model(x)
    out, more = out.float(), x + 1
    if of.leaves():
        more = more * 2
    return F.cross_entropy(out, y), more


def in_autocast(of: Leaving, x: Tensor, y: Tensor) -> Any:
    """The first layer ran without; the second one runs twice, once on either side."""
    hidden = of.model[0](x).tanh()
    with bfloat16():
        out, factor = of.model[2](hidden), 1
        if of.leaves():
            factor = 2
        out = out + of.model[2](hidden.cos()) * factor
    return F.cross_entropy(out.float(), y), factor


def in_autocast_that_is_off(of: Leaving, x: Tensor, y: Tensor) -> Any:
    with bfloat16():
        hidden = of.model[0](x)
        with torch.autocast("cpu", enabled=False):
            out = of.model[2](hidden.float().tanh())
            factor = 2 if of.leaves() else 1
            loss = F.cross_entropy(out, y) * factor
    return loss, factor


def behind_two_blocks(of: Leaving, x: Tensor, y: Tensor) -> Any:
    """The weight is cast in either of them."""
    with bfloat16():
        first = of.model(x)
    with bfloat16():
        second = of.model(x.cos())
    factor = 2 if of.leaves() else 1
    return F.cross_entropy(first.float() + second.float() * factor, y), factor


def in_a_checkpoint_that_counts(of: Leaving, x: Tensor, y: Tensor) -> Any:
    """The checkpoint does no more the second time."""
    seen: list[int] = []

    def inner(h: Tensor) -> Tensor:
        h = of.model[1](h).sin()
        if not seen and of.leaves():
            seen.append(1)
        return h.exp() * (1 + len(seen))

    return F.cross_entropy(of.model[2](checkpoint(inner, of.model[0](x), use_reentrant=False)), y), len(seen)


def in_a_checkpoint(of: Leaving, x: Tensor, y: Tensor) -> Any:
    leaves = of.leaves()

    def inner(h: Tensor) -> Tensor:
        h = F.dropout(of.model[1](h), 0.4).sin()
        if leaves:
            h = h.cos() * 2
        return h.exp()

    return F.cross_entropy(of.model[2](checkpoint(inner, of.model[0](x), use_reentrant=False)), y), leaves


def behind_a_checkpoint(of: Leaving, x: Tensor, y: Tensor) -> Any:
    leaves = of.leaves()

    def inner(h: Tensor) -> Tensor:
        return F.dropout(of.model[1](h), 0.4).exp().sin()

    out = of.model[2](checkpoint(inner, of.model[0](x), use_reentrant=False))
    with torch.no_grad():
        factor = 2 if leaves else 1
    return F.cross_entropy(out * factor, y), factor


PLACES = [
    in_no_grad,
    in_inference_mode,
    behind_autocast,
    in_autocast,
    in_autocast_that_is_off,
    behind_two_blocks,
    in_a_checkpoint_that_counts,
    in_a_checkpoint,
    behind_a_checkpoint,
]


@pytest.mark.parametrize("inside", [nullcontext, bfloat16])
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_a_replay_is_left(place: Callable[..., Any], inside: Callable[[], Any]) -> None:
    """In plain steps, and in steps that are under autocast from their first line on."""

    def loss_of(of: Leaving, x: Tensor, y: Tensor) -> Any:
        with inside():
            return place(of, x, y)

    fast = compare(lambda: Leaving().step(loss_of), batches(30, 5))
    if place is not in_a_checkpoint_that_counts:
        assert sum(row["runs"] for row in tapes(fast)) >= 5
        assert sum(row["left"] for row in tapes(fast)) >= 1


def test_a_cast_is_not_kept_for_the_next_step() -> None:
    """A weight that was cast where a replay was left changes behind it."""

    def make() -> tuple[nn.Module, Step]:
        of = Leaving()
        model, step = of.step(behind_autocast)

        def both(x: Tensor, y: Tensor) -> Any:
            given = step(x, y)
            with bfloat16(), torch.no_grad():
                return given, model(x)

        return model, both

    compare(make, batches(30, 5))
