"""Steps whose saved tensors go through functions of Python, as those of checkpoints do: replayed to the end, all bits
as in plain Python.
"""

# mypy: disable-error-code="no-untyped-call,no-any-return,func-returns-value,operator,unused-ignore"

from collections.abc import Callable
from typing import Any

import pytest
import torch
from taped_steps import Side, Step, batches, classified, compare, mlp, runs, seen, stepping, tapes
from torch import Tensor, nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint, checkpoint_sequential, set_checkpoint_early_stop

import pijit


def whole(fast: Step) -> int:
    """Replays of traces that go to the end of the step."""
    return sum(trace.replays for trace in pijit.traces(fast) if trace.stop is None)


def deep() -> nn.Sequential:
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 8), nn.Dropout(0.3), nn.ReLU(), nn.Linear(8, 4))


def plain(model: nn.Module, x: Tensor) -> Any:
    return model[5](checkpoint(model[1:5], model[0](x), use_reentrant=False))


def reentrant(model: nn.Module, x: Tensor) -> Any:
    return model[5](checkpoint(model[1:5], model[0](x), use_reentrant=True))


def other_numbers(model: nn.Module, x: Tensor) -> Any:
    return model[5](checkpoint(model[1:3], model[0](x), use_reentrant=False, preserve_rng_state=False))


def all_of_it(model: nn.Module, x: Tensor) -> Any:
    with set_checkpoint_early_stop(False):
        return checkpoint(model, x, use_reentrant=False)


def two(model: nn.Module, x: Tensor) -> Any:
    return checkpoint(model[3:], checkpoint(model[:3], x, use_reentrant=False), use_reentrant=False)


def nested(model: nn.Module, x: Tensor) -> Any:
    def inner(h: Tensor) -> Tensor:
        return model[5](checkpoint(model[2:5], h, use_reentrant=False)).square()

    return checkpoint(inner, model[:2](x), use_reentrant=False)


def sequential(model: nn.Module, x: Tensor) -> Any:
    return checkpoint_sequential(model, 3, x, use_reentrant=False)


def autocast(model: nn.Module, x: Tensor) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        return plain(model, x).float()


def on_cpu(model: nn.Module, x: Tensor) -> Any:
    with save_on_cpu():
        return model(x)


GLOBAL = [2.0]
CHECKPOINTS = [plain, reentrant, other_numbers, all_of_it, two, nested, sequential, autocast, on_cpu]


def freeze(model: nn.Module, index: int) -> None:
    model[2].weight.requires_grad_(index % 4 != 3)  # type: ignore[union-attr, operator, index]


def other_mode(model: nn.Module, index: int) -> None:
    model.train(index % 5 != 4)


@pytest.mark.parametrize("change", [None, freeze, other_mode])
@pytest.mark.parametrize("forward", CHECKPOINTS, ids=lambda forward: forward.__name__)
def test_checkpoints(forward: Callable[..., Any], change: Any) -> None:
    def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Any:
        out = forward(model, x)
        return F.cross_entropy(out, y), out

    fast = compare(lambda: stepping(deep(), loss_of), batches(12, 5), change)
    assert whole(fast) >= (6 if change is None else 2)


def test_statistics_are_written_twice() -> None:
    def make() -> tuple[nn.Module, Step]:
        model = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))
        return stepping(
            model, lambda model, x, y: classified(lambda x: checkpoint(model, x, use_reentrant=False), x, y)
        )  # type: ignore[arg-type]

    assert whole(compare(make, batches(10, 5))) >= 4


def test_what_a_recomputation_does_beside_its_operators() -> None:
    """It counts, keeps and draws: in the backward pass once more."""

    def make() -> tuple[nn.Module, Step]:
        model, kept = mlp(nn.Tanh()), []
        model.calls = 0  # type: ignore[assignment]

        def inner(x: Tensor) -> Tensor:
            model.calls += 1  # type: ignore[operator]
            kept.append(model.calls)
            return model[1](model[0](x)) + torch.rand(())

        def step(x: Tensor, y: Tensor) -> Any:
            model.zero_grad()
            local: list[int] = []

            def noted(x: Tensor) -> Tensor:
                local.append(len(local))
                return inner(x)

            out = model[2](checkpoint(noted, x, use_reentrant=False))
            F.cross_entropy(out, y).backward()
            return out, list(kept), local, model.calls

        return model, step

    compare(make, batches(10, 5))


class Noted:
    """Hooks of the program, with all that they were given."""

    def __init__(self) -> None:
        self.packed: list[Any] = []
        self.unpacked: list[Any] = []
        self.factor = 1.0

    def pack(self, tensor: Tensor) -> Any:
        self.packed.append((tuple(tensor.shape), tensor.requires_grad, type(tensor).__name__))
        return tensor.detach().to(torch.float64) if tensor.is_floating_point() else tensor

    def unpack(self, packed: Tensor) -> Tensor:
        self.unpacked.append(tuple(packed.shape))
        return packed.to(torch.float32) * self.factor if packed.is_floating_point() else packed


@pytest.mark.parametrize("part", ["all", "middle", "without gradients"])
def test_hooks_of_the_program(part: str) -> None:
    """What they do is done in each step, in its order; one of them is another from the eighth step on."""
    sides: list[Noted] = []

    def make() -> tuple[nn.Module, Step]:
        model, noted = mlp(nn.Tanh()), Noted()
        sides.append(noted)
        optimizer = torch.optim.Adam(model.parameters())

        def step(x: Tensor, y: Tensor) -> Any:
            optimizer.zero_grad()
            if part == "all":
                with saved_tensors_hooks(noted.pack, noted.unpack):
                    loss = F.cross_entropy(model(x), y)
            elif part == "middle":
                h = model[0](x)
                with saved_tensors_hooks(noted.pack, noted.unpack):
                    h = model[1](h) * 2
                    before = len(noted.packed)
                    h = h + sum(t for t in h.unbind(0)) * before * 1e-3
                loss = F.cross_entropy(model[2](h), y)
            else:
                with saved_tensors_hooks(noted.pack, noted.unpack), torch.no_grad():
                    target = model(x).softmax(-1)
                loss = F.mse_loss(model(x), target + 1)
            loss.backward()
            optimizer.step()
            return loss, list(noted.packed), list(noted.unpacked)

        return model, step

    def change(model: nn.Module, index: int) -> None:
        for each in sides:
            each.factor = 1.0 if index < 8 else 0.5

    assert whole(compare(make, batches(12, 5), change)) >= 5


def test_an_input_that_requires_gradients_later_on() -> None:
    """Under hooks an operator calls Python from then on."""
    noted: list[Noted] = []

    def make() -> tuple[nn.Module, Step]:
        model = mlp(nn.Tanh())
        noted.append(Noted())
        mine = noted[-1]

        def step(x: Tensor, y: Tensor) -> Any:
            with saved_tensors_hooks(mine.pack, mine.unpack):
                squared = (x * x).sin()
            return squared.detach(), squared.requires_grad, len(mine.packed)

        return model, step

    fast, slow = Side(make, True), Side(make, False)
    for index, (x, y) in enumerate(batches(14, 5)):
        given = [side.call(x.clone().requires_grad_(index % 4 == 3), y) for side in (slow, fast)]
        assert seen(given[0]) == seen(given[1]), index
    assert whole(fast.run) >= 4


def test_hooks_that_raise() -> None:
    def make() -> tuple[nn.Module, Step]:
        model, count = mlp(nn.Tanh()), []

        def pack(tensor: Tensor) -> Tensor:
            count.append(1)
            if len(count) % 11 == 7:
                raise ValueError(f"at {len(count)}")
            return tensor

        def step(x: Tensor, y: Tensor) -> Any:
            model.zero_grad()
            try:
                with saved_tensors_hooks(pack, lambda tensor: tensor):
                    loss = F.cross_entropy(model(x), y)
            except ValueError as error:
                return str(error), len(count)
            loss.backward()
            return loss, len(count)

        return model, step

    compare(make, batches(16, 5))


def test_a_model_that_is_called_under_hooks() -> None:
    """It steps aside where the hooks were set outside of what is jitted."""

    def make() -> tuple[nn.Module, Step]:
        model = mlp(nn.Tanh())
        return model, lambda x, y: F.cross_entropy(model(x), y)

    sides = [Side(make, False), Side(make, True)]
    for index, args in enumerate(batches(10, 5)):
        found = []
        for side in sides:
            noted = Noted()
            if index % 3 == 2:
                with saved_tensors_hooks(noted.pack, noted.unpack):
                    loss = side.call(*args)
            else:
                loss = side.call(*args)
            loss.backward()
            found.append((seen(loss), side.state(), noted.packed, noted.unpacked))
        assert found[0] == found[1], index
    assert whole(sides[1].run) >= 4


# -- tapes


def taped(fast: Step) -> tuple[int, list[str]]:
    """Replays that a tape has served, and why there is none for others."""
    return runs(fast), [row["why"] for row in tapes(fast) if row["why"]]


@pytest.mark.parametrize("forward", [plain, two, nested, sequential, autocast, on_cpu], ids=lambda each: each.__name__)
def test_what_is_recomputed_is_on_the_tape(forward: Callable[..., Any]) -> None:
    """Random numbers of the first time among it."""

    def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Any:
        out = forward(model, x)
        return F.cross_entropy(out, y), out

    fast = compare(lambda: stepping(deep(), loss_of), batches(14, 5))
    assert taped(fast)[0] >= 6, taped(fast)
    assert min(trace.opaque_calls for trace in pijit.traces(fast) if trace.backwards) == 0


def test_a_mask_is_recomputed() -> None:
    """What needs no gradients runs once more, too, and reads what it has read before."""

    def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Any:
        def inner(h: Tensor) -> Tensor:
            mask = (torch.rand(h.shape) > 0.3).float() * x.abs().mean()
            return (model[1](h) * mask).square()

        return classified(lambda x: model[2](checkpoint(inner, model[0](x), use_reentrant=False)), x, y)

    compare(lambda: stepping(mlp(nn.Tanh()), loss_of), batches(14, 5))


@pytest.mark.parametrize("what", ["an attribute", "a list", "a cell", "a global", "a dict", "a weight"])
def test_what_is_recomputed_reads_something_else(what: str) -> None:
    """It changes between the two passes: gradients are those of the second one."""

    class Factors:
        def __init__(self) -> None:
            self.one = 2.0

    def make() -> tuple[nn.Module, Step]:
        model, many, named, factors = mlp(nn.Tanh()), [2.0], {"one": 2.0}, Factors()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

        def step(x: Tensor, y: Tensor) -> Any:
            cell = 2.0
            own = Factors()

            def inner(h: Tensor) -> Tensor:
                factor = {
                    "an attribute": factors.one + own.one,
                    "a list": many[0],
                    "a cell": cell,
                    "a global": GLOBAL[0],
                    "a dict": named["one"],
                    "a weight": 2.0,
                }[what]
                return (model[1](h) * factor * model[2].bias.sum()).exp()  # type: ignore[union-attr, operator, index]

            def put(value: float) -> None:
                nonlocal cell
                factors.one = own.one = many[0] = named["one"] = GLOBAL[0] = cell = value

            put(2.0)
            loss = F.cross_entropy(model[2](checkpoint(inner, model[0](x), use_reentrant=False)), y)
            if what == "a weight":
                with torch.no_grad():
                    model[2].bias.mul_(0.5)
            else:
                put(3.0)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss, cell

        return model, step

    compare(make, batches(10, 5))
