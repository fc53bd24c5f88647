"""Lists of tensors that are sorted by device and dtype, written at once, and the numbers of a torch.Size."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype

import pijit


def same(function: Callable[..., Any], *calls: tuple[Any, ...]) -> None:
    """Each call as in plain Python, results and what is written; the last one is replayed to its end."""
    fast = pijit.jit(function)
    for args in calls:
        copies = [[t.clone() for t in a] if isinstance(a, list) else a for a in args]
        before = pijit.stats()
        assert repr(fast(*args)) == repr(function(*copies))
        for given, copy in zip(args, copies, strict=True):
            assert repr(given) == repr(copy)
    after = pijit.stats()
    assert after["replays"] == before["replays"] + 1
    assert after["exits"] == before["exits"]


def tensors(*kinds: torch.dtype, scale: int = 1) -> list[Tensor]:
    return [torch.arange(3).add(i).mul(scale).to(kind) for i, kind in enumerate(kinds)]


F, D, INT = torch.float32, torch.float64, torch.int64


def test_groups_are_read_in_order() -> None:
    def groups(xs: list[Tensor], ys: list[Tensor]) -> Any:
        found = _group_tensors_by_device_and_dtype([xs, ys, []], True)
        return [(key, [x * 2 for x in lists[0]], lists[1:], places) for key, (lists, places) in found.items()]

    same(groups, *((tensors(F, D, F, INT, scale=i), tensors(D, D, F, F, scale=i)) for i in range(1, 6)))


def test_tensors_of_another_dtype_are_in_another_group() -> None:
    def groups(xs: list[Tensor]) -> Any:
        return [len(lists[0]) for lists, _ in _group_tensors_by_device_and_dtype([xs]).values()], xs[0] + 1

    same(groups, *((tensors(*kinds),) for kinds in ((F, F), (F, F), (F, D), (F, F), (F, D), (F, D), (F, F), (F, D))))


def test_a_group_is_seen_at_an_exit() -> None:
    def groups(xs: list[Tensor], limit: float) -> Any:
        found = _group_tensors_by_device_and_dtype([xs], True)
        if xs[0].sum() > limit:
            return {key: [len(lists), places] for key, (lists, places) in found.items()}, "above"
        return [key for key in found], "below"

    fast = pijit.jit(groups)
    for limit in (99.0, 99.0, 99.0, 0.0, 99.0, 0.0):
        xs = tensors(F, D, F)
        assert repr(fast(xs, limit)) == repr(groups(xs, limit))


@pytest.mark.parametrize("name", ["_foreach_add_", "_foreach_mul_", "_foreach_div_"])
def test_writes_to_lists(name: str) -> None:
    write = getattr(torch, name)

    def written(xs: list[Tensor], other: Tensor) -> Any:
        ys = [x * 1 for x in xs]
        given = write(ys, other)
        return given is ys, ys, ys[0].requires_grad, [y + 1 for y in ys]

    same(written, *((tensors(F, F, scale=i), torch.tensor(float(i))) for i in range(1, 6)))


def test_a_write_that_fails_in_the_middle_is_made_once() -> None:
    def written(xs: list[Tensor], ys: list[Tensor]) -> Any:
        torch._foreach_add_(xs, ys)
        return [x + 1 for x in xs]

    fast = pijit.jit(written)
    for wrong in (False, False, False, True, False, True):
        xs, copies, ys = tensors(F, F), tensors(F, F), [torch.ones(3), torch.ones(2 if wrong else 3)]
        if wrong:
            with pytest.raises(RuntimeError) as expected:
                written(copies, ys)
            with pytest.raises(RuntimeError) as given:
                fast(xs, ys)
            assert str(given.value) == str(expected.value)
        else:
            assert repr(fast(xs, ys)) == repr(written(copies, ys))
        assert repr(xs) == repr(copies)


def test_a_write_that_needs_gradients_is_seen() -> None:
    def written(xs: list[Tensor], w: Tensor) -> Any:
        ys = [x * 1 for x in xs]
        before = ys[0].requires_grad
        torch._foreach_mul_(ys, w)
        return before, ys[0].requires_grad, (ys[0] * 2).sum()

    fast = pijit.jit(written)
    for needs in (False, False, False, True, True, False, True):
        w = torch.tensor(2.0, requires_grad=needs)
        given, expected = fast(tensors(F, F), w), written(tensors(F, F), w)
        assert given[:2] == expected[:2] == (False, needs)
        assert torch.equal(given[2], expected[2])


@pytest.mark.parametrize("clip", [nn.utils.clip_grad_norm_, nn.utils.clip_grad_value_])
@pytest.mark.parametrize("foreach", [True, False])
def test_clipped_steps(clip: Callable[..., Any], foreach: bool) -> None:
    def make() -> tuple[nn.Module, Callable[[Tensor], Any]]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, foreach=foreach)

        def step(x: Tensor) -> Any:
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            norm = clip(model.parameters(), 0.05, foreach=foreach)
            optimizer.step()
            return loss.detach(), norm

        return model, step

    plain, slow = make()
    model, step = make()
    fast = pijit.jit(step)
    for seed in range(12):
        before = pijit.stats()
        x = torch.randn(5, 4, generator=torch.Generator().manual_seed(seed))
        assert repr(fast(x)) == repr(slow(x))
    after = pijit.stats()
    assert (after["replays"] - before["replays"], after["exits"] - before["exits"]) == (1, 0)
    for mine, other in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.equal(mine, other)
        assert torch.equal(mine.grad, other.grad)


def test_the_numbers_of_a_size() -> None:
    def numbers(x: Tensor) -> Any:
        return x.shape.numel(), torch.Size([2, 3]).numel(), torch.Size([]).numel(), (x.shape + (2,)).numel(), x + 1

    same(numbers, *((torch.ones(n, 2),) for n in (2, 2, 3, 4, 5, 3)))


class TestDistributions:
    """Properties of classes that derive from property, and sizes walked backwards."""

    @pytest.mark.parametrize("kind", ["Categorical", "Bernoulli"])
    def test_discrete(self, kind: str) -> None:
        make = getattr(torch.distributions, kind)

        def chosen(logits: Tensor) -> Any:
            policy = make(logits=logits)
            action = policy.sample()
            return action, policy.log_prob(action), policy.entropy(), policy.batch_shape

        fast = pijit.jit(chosen)
        for n in (3, 3, 3, 5, 3, 5, 5):
            logits = torch.randn(n, 4)
            torch.manual_seed(n)
            expected = chosen(logits)
            torch.manual_seed(n)
            before = pijit.stats()
            assert repr(fast(logits)) == repr(expected)
        after = pijit.stats()
        assert (after["replays"] - before["replays"], after["exits"] - before["exits"]) == (1, 0)
        assert after["opaque_calls"] == before["opaque_calls"]

    def test_normal_with_an_error(self) -> None:
        def scored(mean: Tensor, deviation: Tensor, x: Tensor) -> Any:
            normal = torch.distributions.Normal(mean, deviation)
            return normal.log_prob(x), normal.entropy(), normal.variance

        fast = pijit.jit(scored)
        for deviation in (1.0, 2.0, 2.0, -1.0, 1.0):
            args = torch.zeros(3), torch.full((3,), deviation), torch.ones(3)
            if deviation < 0:
                with pytest.raises(ValueError) as expected:
                    scored(*args)
                with pytest.raises(ValueError) as given:
                    fast(*args)
                assert str(given.value) == str(expected.value)
            else:
                assert repr(fast(*args)) == repr(scored(*args))
