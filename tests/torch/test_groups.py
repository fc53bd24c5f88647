"""Lists of tensors that are sorted by device and dtype, written at once, and the numbers of a torch.Size."""

import weakref
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
            normal = torch.distributions.Normal(mean, deviation, validate_args=True)  # torch.compile switches it off
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


class Holder:
    def __init__(self) -> None:
        self.n, self.steps = 0, 0


holder = Holder()


def test_what_a_weak_reference_names_is_known_behind_a_write_to_lists() -> None:
    reference = weakref.ref(holder)

    def written(xs: list[Tensor], x: Tensor) -> Any:
        torch._foreach_mul_(xs, 2.0)
        found = reference()
        assert found is not None
        found.steps = 3
        return found.n, found.steps, x * found.n, xs

    fast = pijit.jit(written)
    for n in (0, 0, 1, 1, 2, 0, 1):
        holder.n = n
        assert repr(fast(tensors(F, F), torch.ones(2))) == repr(written(tensors(F, F), torch.ones(2)))
    for trace in pijit.traces(fast):
        assert trace.opaque_calls == 0, trace
        assert trace.stop is None, trace


def test_a_weak_reference_whose_object_dies_behind_a_write_to_lists() -> None:
    class Thing:
        kept: Any = None

    def written(xs: list[Tensor], reference: Any) -> Any:
        torch._foreach_mul_(xs, 2.0)
        before = reference() is None
        Thing.kept = None
        holder.steps = None  # type: ignore[assignment]
        return before, reference() is None, xs

    fast = pijit.jit(written)
    for kept in (True, True, False, True, False, False):
        given = []
        for function in (written, fast):
            thing = Holder()
            holder.steps = thing if kept else 1  # type: ignore[assignment]
            reference = weakref.ref(thing)
            del thing
            given.append(repr(function(tensors(F, F), reference)))
        assert given[0] == given[1]


def test_what_cpython_runs_behind_a_write_to_lists_is_checked() -> None:
    """Frames that are left to CPython change what they like, whatever was called before them."""
    mode = [5]

    def changes() -> None:
        locals()
        holder.n = mode[0]

    def written(xs: list[Tensor]) -> Any:
        torch._foreach_mul_(xs, 2.0)
        changes()
        return holder.n, xs

    fast = pijit.jit(written)
    for n in (5, 5, 5, 6, 6, 5, 7):
        mode[0] = n
        assert repr(fast(tensors(F, F))) == repr(written(tensors(F, F)))


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_a_schedule_behind_clipping(optimizer: Callable[..., Any]) -> None:
    """A scheduler marks its optimizer through a weak reference: all of the optimizer's state is known then."""

    def make() -> Callable[[Tensor], Any]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        chosen = optimizer(model.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(chosen, 100)

        def step(x: Tensor) -> Any:
            chosen.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.05)
            chosen.step()
            schedule.step()
            return loss.item(), chosen.param_groups[0]["lr"], [p.detach().clone() for p in model.parameters()]

        return step

    plain, fast = make(), pijit.jit(make())
    for i in range(16):
        x = torch.full((3, 4), 0.1 * i)
        assert repr(fast(x)) == repr(plain(x))
    assert min(trace.opaque_calls for trace in pijit.traces(fast) if trace.replays) == 0


def test_a_tensor_that_a_write_hands_back_is_the_one_it_was() -> None:
    """What follows an operator that adds up is followed, whether the tensor or what the operator gave is looked at."""

    def spread(x: Tensor, w: Tensor, index: Tensor) -> Any:
        out = torch.zeros(3, 4)
        given = out.index_add_(0, index, x * w)
        degree = torch.zeros(3).index_add_(0, index, torch.ones(4)).clamp(min=1).pow(-0.5)
        total = (given * degree[:, None]).sum()
        return given is out, given.requires_grad, out.requires_grad, total, given + 1

    fast = pijit.jit(spread)
    index = torch.tensor([0, 1, 1, 2])
    for seed, needs in enumerate((False, False, True, True, False, True)):
        x = torch.full((4, 4), float(seed))
        w = torch.full((4,), 2.0, requires_grad=needs)
        plain, given = spread(x, w, index), fast(x, w, index)
        assert repr(given) == repr(plain)
        assert given[3].requires_grad == plain[3].requires_grad == needs
        if needs:
            grads = [torch.autograd.grad(each[3], w)[0] for each in (plain, given)]
            assert torch.equal(*grads)
    assert all(trace.opaque_calls == 0 for trace in pijit.traces(fast))
    with pytest.raises((RuntimeError, IndexError)) as expected:
        spread(torch.ones(4, 4), torch.ones(4), index + 7)
    with pytest.raises(type(expected.value)) as raised:
        fast(torch.ones(4, 4), torch.ones(4), index + 7)
    assert str(raised.value) == str(expected.value)
