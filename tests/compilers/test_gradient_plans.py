"""Where gradients are recorded, plans of a backend that was named leave what eager execution leaves.

Every test calls a jitted function beside an equal one that is not, waits for the plan, changes something, and calls
again. Results, gradients, errors and hooks are those of eager execution.
"""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from counted import Counting, in_threads, registered
from torch import nn

import pijit
from pijit.compilers import _compared, market

pytestmark = pytest.mark.torch


@pytest.fixture
def counting() -> Iterator[Counting]:
    yield from registered("counting")


def layers() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4))


class Pair:
    """A function over a module that is jitted, and the same over an equal module that is not."""

    def __init__(self, counting: Counting, fn: Callable[..., Any], make: Callable[[], nn.Module] = layers) -> None:
        self.counting, self.mine, self.theirs = counting, make(), make()
        self.fast = pijit.jit(lambda *args: fn(self.mine, *args), backend="counting")
        self.slow = lambda *args: fn(self.theirs, *args)

    @property
    def both(self) -> tuple[tuple[Callable[..., Any], nn.Module], ...]:
        return (self.fast, self.mine), (self.slow, self.theirs)

    def settle(self, *args: Any) -> None:
        """Calls until a plan is there, or is refused."""
        for _ in range(4):
            self.fast(*args)
            assert market.wait(60)

    def keys(self) -> list[Any]:
        return [key for trace in pijit.traces(self.fast) for segment in trace.segments for key in segment.keys]

    def refused(self) -> str:
        return "; ".join(key.refused.get("counting", "") for key in self.keys())

    def ran(self) -> int:
        """Runs of compiled code since it was asked for last, in both passes."""
        runs, self.counting.runs = self.counting.runs, 0
        return runs

    def compare(self, use: Callable[[Any, nn.Module], Any]) -> None:
        """What `use` gives of either is the same, and what it leaves in the parameters."""
        mine, theirs = use(self.fast, self.mine), use(self.slow, self.theirs)
        close(mine, theirs)
        for held, expected in zip(self.mine.parameters(), self.theirs.parameters(), strict=True):
            close(held, expected)
            close(held.grad, expected.grad)


def close(mine: Any, theirs: Any) -> None:
    if isinstance(theirs, tuple | list):
        assert len(mine) == len(theirs)
        for one, other in zip(mine, theirs, strict=True):
            close(one, other)
    elif isinstance(theirs, torch.Tensor):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
        assert mine.stride() == theirs.stride()
        assert mine.requires_grad is theirs.requires_grad
        assert mine.is_leaf is theirs.is_leaf
    else:
        assert mine == theirs


def loss(module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(module(x), y)


def batch(rows: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, 8, generator=generator), torch.randint(0, 4, (rows,), generator=generator)


def test_steps_of_an_optimizer(counting: Counting) -> None:
    pair = Pair(counting, loss)
    optimizers = {
        id(module): torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9) for module in (pair.mine, pair.theirs)
    }

    def step(fn: Any, module: nn.Module, *args: Any) -> Any:
        optimizers[id(module)].zero_grad()
        made = fn(*args)
        made.backward()
        optimizers[id(module)].step()
        return made

    for seed in range(6):
        pair.compare(lambda fn, module, seed=seed: step(fn, module, *batch(5, seed)))
        assert market.wait(60)
    pair.ran()
    pair.compare(lambda fn, module: step(fn, module, *batch(5, 7)))
    assert pair.ran() == 2
    (key,) = pair.keys()
    assert key.form == "Float[5, 8], Long[5], gradients recorded"
    assert key.plans[0].backend == "counting"
    for seed in range(4):  # another size is another key
        pair.compare(lambda fn, module, seed=seed: step(fn, module, *batch(3, seed)))
        assert market.wait(60)
    pair.ran()
    pair.compare(lambda fn, module: step(fn, module, *batch(3, 8)))
    assert pair.ran() == 2
    pair.compare(lambda fn, module: step(fn, module, *batch(5, 9)))
    assert pair.ran() == 2


def test_modes_and_flags_are_part_of_the_key(counting: Counting) -> None:
    pair = Pair(counting, loss)
    pair.settle(*batch(5))
    pair.ran()

    def backward(fn: Any, module: nn.Module) -> Any:
        made = fn(*batch(5, 1))
        made.backward()
        return made

    def plain(fn: Any, module: nn.Module) -> Any:
        with torch.no_grad():
            return fn(*batch(5, 2))

    pair.compare(plain)
    assert pair.ran() == 0
    for _ in range(4):
        pair.compare(plain)
        assert market.wait(60)
    pair.ran()
    pair.compare(plain)
    assert pair.ran() == 1
    pair.compare(backward)
    assert pair.ran() == 2
    for module in (pair.mine, pair.theirs):
        module[0].requires_grad_(False)
        module.zero_grad()
    for _ in range(4):
        pair.compare(backward)
        assert market.wait(60)
    assert pair.mine[0].weight.grad is None
    for module in (pair.mine, pair.theirs):
        module.requires_grad_(False)
    pair.compare(lambda fn, module: fn(*batch(5, 3)))
    for module in (pair.mine, pair.theirs):
        module.requires_grad_(True)
    pair.compare(backward)


def test_inputs_that_require_gradients(counting: Counting) -> None:
    pair = Pair(counting, lambda module, x, w: module(x * w).square().sum(1))
    x, w = torch.randn(5, 8), torch.randn(8)
    pair.settle(x.clone().requires_grad_(), w)
    pair.ran()

    def use(fn: Any, module: nn.Module) -> Any:
        leaf = x.clone().requires_grad_()
        made = fn(leaf, w)
        made.sum().backward()
        return made, leaf.grad

    pair.compare(use)
    assert pair.ran() == 2

    def of_another(fn: Any, module: nn.Module) -> Any:
        leaf = x.clone().requires_grad_()
        hidden = leaf.exp() + 1
        seen: list[torch.Tensor] = []
        hidden.register_hook(seen.append)
        made = fn(hidden, w)
        return made, torch.autograd.grad(made[1:].sum(), [leaf, module[0].weight]), seen

    pair.compare(of_another)
    assert pair.ran() == 2

    def weight_too(fn: Any, module: nn.Module) -> Any:
        factor = w.clone().requires_grad_()
        made = fn(x, factor)
        made.sum().backward()
        return made, factor.grad

    for _ in range(3):
        pair.compare(weight_too)
        assert market.wait(60)
    pair.ran()
    pair.compare(weight_too)
    assert pair.ran() == 2


def test_gradients_have_memory_of_their_own(counting: Counting) -> None:
    pair = Pair(counting, lambda module, x, v, w: module[:2](x) + v + w)
    x, gradient = torch.randn(5, 8), torch.randn(5, 16)
    pair.settle(x, torch.ones(5, 16).requires_grad_(), torch.ones(5, 16).requires_grad_())
    pair.ran()

    def use(fn: Any, module: nn.Module) -> Any:
        given, v, w = gradient.clone(), torch.ones(5, 16).requires_grad_(), torch.ones(5, 16).requires_grad_()
        made = fn(x, v, w)
        made.backward(given)
        given.zero_()
        v.grad.add_(1)
        return made, v.grad, w.grad

    pair.compare(use)
    assert pair.ran() == 2


def test_second_derivatives(counting: Counting) -> None:
    pair = Pair(counting, lambda module, x: module(x).exp().sum())
    pair.settle(torch.randn(5, 8).requires_grad_())
    x = torch.randn(5, 8)
    pair.ran()

    def penalty(fn: Any, module: nn.Module) -> Any:
        leaf = x.clone().requires_grad_()
        made = fn(leaf)
        (gradient,) = torch.autograd.grad(made, leaf, create_graph=True)
        (made + gradient.square().sum()).backward()
        return made, gradient, leaf.grad

    pair.compare(penalty)
    assert pair.ran() == 2  # forward, and backward of the sum

    def third(fn: Any, module: nn.Module) -> Any:
        leaf = x.clone().requires_grad_()
        found = [fn(leaf)]
        for _ in range(3):
            found += torch.autograd.grad(found[-1].sum(), leaf, create_graph=True)
        return found

    pair.compare(third)


def failing(result: torch.Tensor, module: nn.Module) -> str:
    """What its backward pass raises. In eager execution some gradients are there by then, here none is."""
    with pytest.raises(RuntimeError) as error:
        result.backward()
    module.zero_grad()
    return str(error.value).partition(":")[0]


def test_a_second_backward_pass(counting: Counting) -> None:
    pair = Pair(counting, loss)
    pair.settle(*batch(5))
    pair.ran()

    def twice(fn: Any, module: nn.Module) -> Any:
        made = fn(*batch(5))
        made.backward(retain_graph=True)
        made.backward()
        return made, failing(made, module)

    pair.compare(twice)
    assert pair.ran() == 3


def test_a_second_backward_pass_where_nothing_is_saved(counting: Counting) -> None:
    pair = Pair(counting, lambda module, x: (x + module[0].bias[:8] - 1).sum(0) + 2)
    pair.settle(torch.randn(5, 8))
    pair.ran()

    def twice(fn: Any, module: nn.Module) -> Any:
        made = fn(torch.ones(5, 8))
        made.sum().backward()
        made.sum().backward()
        return made

    pair.compare(twice)
    assert pair.ran() == 3


def test_hooks(counting: Counting) -> None:
    pair = Pair(counting, loss)
    pair.settle(*batch(5))
    pair.ran()

    def use(fn: Any, module: nn.Module) -> Any:
        seen: list[Any] = []
        hooks = [
            module[0].weight.register_hook(lambda gradient: gradient * 2),
            module[2].bias.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.clone())),
        ]
        made = fn(*batch(5))
        made.retain_grad()
        made.register_hook(lambda gradient: gradient * 3)
        (made * 2).backward()
        for hook in hooks:
            hook.remove()
        return made, made.grad, seen

    pair.compare(use)
    assert pair.ran() == 2


def staged(module: nn.Module, x: torch.Tensor) -> Any:
    hidden = module[:3](x)
    return hidden, module[3:](hidden).square().sum(), hidden.argmax(1), hidden.detach() * 2


def test_a_result_of_which_another_one_is_computed(counting: Counting) -> None:
    pair = Pair(counting, staged)
    pair.settle(torch.randn(5, 8))
    x = torch.randn(5, 8)
    pair.ran()

    def hooked(fn: Any, module: nn.Module) -> Any:
        hidden, made, best, plain = fn(x)
        hidden.retain_grad()
        hidden.register_hook(lambda gradient: gradient.clamp(-0.1, 0.1))
        made.backward()
        return hidden, hidden.grad, made, best, plain

    pair.compare(hooked)
    assert pair.ran() == 3

    def both(fn: Any, module: nn.Module) -> Any:
        hidden, made, _, _ = fn(x)
        (hidden.sum() + made).backward()
        return hidden, made

    pair.compare(both)

    def between(fn: Any, module: nn.Module) -> Any:
        hidden, made, _, _ = fn(x)
        return torch.autograd.grad(made, [hidden, module[4].weight], create_graph=True)

    pair.compare(between)

    def first_alone(fn: Any, module: nn.Module) -> Any:
        hidden, made, _, _ = fn(x)
        hidden.sum().backward()
        return hidden, failing(made, module)

    pair.compare(first_alone)


def heads(module: nn.Module, x: torch.Tensor) -> Any:
    hidden = module[:4](x)
    return module[4](hidden), hidden.exp().sum(1)


def test_results_that_are_not_used(counting: Counting) -> None:
    pair = Pair(counting, heads)
    pair.settle(torch.randn(5, 8))
    x = torch.randn(5, 8)
    pair.ran()
    pair.compare(lambda fn, module: sum(each.sum() for each in fn(x)).backward())
    assert pair.ran() == 2
    pair.compare(lambda fn, module: fn(x)[0].sum().backward())
    assert pair.ran() == 1  # the gradients are torch's own

    def one_by_one(fn: Any, module: nn.Module) -> Any:
        module.zero_grad()
        first, second = fn(x)
        second.sum().backward()
        assert module[4].weight.grad is None
        return first, failing(first.sum(), module)

    pair.compare(one_by_one)


def test_results_with_gradients_apart_from_each_other(counting: Counting) -> None:
    def fn(module: nn.Module, x: torch.Tensor) -> Any:
        return module[0](x).relu().sum(), module[2](x.repeat(1, 2)).exp().sum()

    pair = Pair(counting, fn)
    pair.settle(torch.randn(5, 8))
    assert "apart from each other" in pair.refused()

    def one_by_one(fn: Any, module: nn.Module) -> Any:
        first, second = fn(torch.ones(5, 8))
        first.backward()
        second.backward()
        return first, second

    pair.compare(one_by_one)


def test_what_is_saved_is_written(counting: Counting) -> None:
    pair = Pair(counting, lambda module, x: module[:4](x))  # tanh keeps its result
    pair.settle(torch.randn(5, 8))

    def result(fn: Any, module: nn.Module) -> Any:
        made = fn(torch.ones(5, 8))
        made.mul_(2)
        return failing(made.sum(), module)

    def weight(fn: Any, module: nn.Module) -> Any:
        made = fn(torch.ones(5, 8))
        with torch.no_grad():
            module[2].weight.mul_(1)
        return failing(made.sum(), module)

    def given(fn: Any, module: nn.Module) -> Any:
        x = torch.ones(5, 8)
        made = fn(x)
        x.mul_(2)
        return failing(made.sum(), module)

    def bias(fn: Any, module: nn.Module) -> Any:  # which nothing keeps
        made = fn(torch.ones(5, 8))
        with torch.no_grad():
            module[2].bias.mul_(1)
        made.sum().backward()
        return made

    pair.ran()
    for use in (result, weight, given, bias):
        pair.compare(use)
    assert pair.ran() == 5


def test_a_result_is_written(counting: Counting) -> None:
    pair = Pair(counting, lambda module, x: module(x).view(2, -1))
    pair.settle(torch.randn(5, 8))
    pair.ran()

    def use(fn: Any, module: nn.Module) -> Any:
        made = fn(torch.ones(5, 8))
        made.mul_(2)
        made.sum().backward()
        return made

    pair.compare(use)
    assert pair.ran() == 2


def test_writes_within(counting: Counting) -> None:
    def fn(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
        hidden = module[0](x).relu_()
        hidden = hidden.add(1)
        hidden[:, :4] *= 2
        return module[2](hidden).sum()

    pair = Pair(counting, fn)
    pair.settle(torch.randn(5, 8))
    pair.ran()

    def use(fn: Any, module: nn.Module) -> Any:
        made = fn(torch.ones(5, 8))
        made.backward()
        return made

    pair.compare(use)
    assert pair.ran() == 2, pair.refused()


@pytest.mark.parametrize("training", [False, True])
def test_running_statistics(counting: Counting, training: bool) -> None:
    def make() -> nn.Module:
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.GELU(), nn.Linear(16, 16), nn.Tanh())
        return module.train(training)

    pair = Pair(counting, lambda module, x: module(x).square().mean(), make)
    for seed in range(5):
        x = batch(5, seed)[0]
        pair.ran()
        pair.compare(lambda fn, module, x=x: fn(x).backward())
        assert market.wait(60)
        close(list(pair.mine.buffers()), list(pair.theirs.buffers()))
    assert pair.ran() == (0 if training else 2), pair.refused()


def test_dropout_draws_as_in_eager_execution(counting: Counting) -> None:
    def make() -> nn.Module:
        torch.manual_seed(0)
        inner = [nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8)]
        return nn.Sequential(*inner, nn.Dropout(0.5), *copy.deepcopy(inner))

    pair = Pair(counting, lambda module, x: module(x).square().mean(), make)
    pair.settle(torch.randn(5, 8))
    pair.ran()

    def use(fn: Any, module: nn.Module) -> Any:
        torch.manual_seed(1)
        made = fn(torch.ones(5, 8))
        made.backward()
        return made, torch.rand(1)

    pair.compare(use)
    assert pair.ran() == 4


def test_a_variable_that_the_program_sees(counting: Counting) -> None:
    kept: list[Any] = []

    def fn(module: nn.Module, x: torch.Tensor, far: float) -> Any:
        hidden = module[:3](x)
        made = module[3:](hidden).sum()
        if float(made.detach()) > far:
            hidden.retain_grad()
            kept.append(hidden)
        return made

    pair = Pair(counting, fn)
    pair.settle(torch.randn(5, 8), 1e9)
    assert "may ask for its gradient" in pair.refused()

    def use(fn: Any, module: nn.Module) -> Any:
        made = fn(torch.ones(5, 8), -1e9)
        made.backward()
        return made, kept.pop().grad

    pair.compare(use)


def test_a_region(counting: Counting) -> None:
    module, plain = layers(), layers()

    def fn(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
        with pijit.region(backend="counting"):
            hidden = module[:4](x)
        return module[4](hidden).sum()

    fast = pijit.jit(lambda x: fn(module, x))
    for _ in range(4):
        fast(torch.randn(5, 8))
        assert market.wait(60)
    runs, x = counting.runs, torch.randn(5, 8)
    fast(x).backward()
    fn(plain, x).backward()
    assert counting.runs == runs + 2
    for mine, theirs in zip(module.parameters(), plain.parameters(), strict=True):
        close(mine.grad, theirs.grad)


def test_auto_asks_nobody() -> None:
    module = layers()
    fast = pijit.jit(lambda x, y: loss(module, x, y), backend="auto")
    for seed in range(4):
        fast(*batch(5, seed)).backward()
        assert market.wait(60)
    (key,) = [key for segment in pijit.traces(fast)[0].segments for key in segment.keys]
    assert not key.plans
    assert "gradients are recorded" in key.refused["auto"]


@pytest.mark.parametrize("name", ["torchscript", "onnxruntime", "xla"])
def test_backends(name: str) -> None:
    if pijit.backends()[name] != "usable":
        pytest.skip(f"{name} is not there")
    made, plain = ([layers(), None] for _ in range(2))
    fast = pijit.jit(lambda x, y: loss(made[0], x, y), backend=[name])
    for seed in range(4):
        x, y = batch(5, seed)
        for module, run in ((made[0], fast), (plain[0], lambda x, y: loss(plain[0], x, y))):
            module.zero_grad()
            run(x, y).backward()
        assert market.wait(120)
        for mine, theirs in zip(made[0].parameters(), plain[0].parameters(), strict=True):
            torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-5)
    (key,) = [key for segment in pijit.traces(fast)[0].segments for key in segment.keys]
    assert [plan.backend for plan in key.plans] == [name], key.refused


def test_a_backend_that_takes_one_pass_only(counting: Counting) -> None:
    def forward_only(module: Any, example_inputs: Any) -> Any:
        if any("backward" in str(node.target) for node in module.graph.nodes):
            raise ValueError("no gradients today")
        return module.forward

    pijit.register_backend("counting", forward_only)
    pair = Pair(counting, loss)
    pair.settle(*batch(5))
    assert "no gradients today" in pair.refused()
    pair.compare(lambda fn, module: fn(*batch(5)).backward())


class Wrong:
    """A backend whose gradients are twice as large."""

    def __call__(self, module: Any, example_inputs: Any) -> Any:
        backward = any("backward" in str(node.target) for node in module.graph.nodes)
        return lambda *inputs: [2 * each if backward else each for each in module.forward(*inputs)]


def test_gradients_that_differ(
    counting: Counting, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(_compared, "told", set())
    pijit.register_backend("counting", Wrong())
    pair = Pair(counting, loss)
    for rows in (5, 3):
        pair.settle(*batch(rows))
    assert "differs from native replay" in pair.refused()
    assert "in gradients" in pair.refused()
    assert not any(key.plans for key in pair.keys())
    assert len([row for row in caplog.records if row.levelname == "WARNING" and "differs" in row.message]) == 1
    (directory,) = tmp_path.glob("pijit-difference-*")
    assert (directory / "run.py").exists()

    def use(fn: Any, module: nn.Module) -> Any:
        made = fn(*batch(5))
        made.backward()
        return made

    pair.compare(use)


@pytest.mark.parametrize("wrong", ["raises", "another form"])
def test_the_backward_pass_fails(counting: Counting, wrong: str) -> None:
    pair = Pair(counting, loss)
    pair.settle(*batch(5))
    pair.ran()

    def fail(outputs: Any) -> Any:
        if wrong == "raises":
            raise RuntimeError("no luck")
        return [each.double() for each in outputs]

    def use(fn: Any, module: nn.Module) -> Any:
        made = fn(*batch(5))
        counting.around = fail
        made.backward()
        counting.around = lambda outputs: outputs
        return made

    pair.compare(use)
    assert pair.ran() == 2
    pair.compare(use)
    assert pair.ran() == 0
    assert "in the backward pass" in pair.refused()


def test_a_loss_that_is_kept_keeps_no_batch(counting: Counting) -> None:
    pair = Pair(counting, loss)
    pair.settle(*batch(5))
    pair.ran()
    x, y = batch(5)
    made = pair.fast(x, y)
    made.backward()
    assert pair.ran() == 2
    seen = weakref.ref(x)
    del x
    gc.collect()
    assert seen() is None
    assert made.grad_fn is not None


def test_threads(counting: Counting) -> None:
    module, plain = layers(), layers()
    fast = pijit.jit(lambda x: module(x).exp().sum(), backend="counting")
    wrong: list[Any] = []

    def work(seed: int) -> None:
        made = torch.Generator().manual_seed(seed)
        for at in range(20):
            x = torch.randn(1 + (seed + at) % 3, 8, generator=made).requires_grad_()
            mine = torch.autograd.grad(fast(x), [x, module[0].weight])
            theirs = torch.autograd.grad(plain(x).exp().sum(), [x, plain[0].weight])
            if not all(map(torch.allclose, mine, theirs)):
                wrong.append((seed, at))

    in_threads(work, 4)
    assert not wrong
    assert market.wait(60)
    work(4)
    assert not wrong
    assert any(key.plans for trace in pijit.traces(fast) for segment in trace.segments for key in segment.keys)
