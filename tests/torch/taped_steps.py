# mypy: disable-error-code="no-untyped-call,no-any-return,func-returns-value,operator,unused-ignore"
"""Training steps that run twice, plain and under pijit, for tests of tapes."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import pijit
from pijit import _core
from pijit._roots import root_of

Step = Callable[..., Any]
Make = Callable[[], tuple[nn.Module, Step]]


def graph(tensor: Tensor) -> list[Any]:
    """The functions of a tensor, breadth first: types, names, edges, leaves."""
    functions: list[Any] = [tensor.grad_fn]
    for each in functions:
        functions += [after for after, _ in each.next_functions if after is not None and after not in functions]
    return [
        (
            type(each),
            each.name(),
            [(None if after is None else functions.index(after), index) for after, index in each.next_functions],
            tuple(each.variable.shape) if hasattr(each, "variable") else None,
        )
        for each in functions
    ]


def facts(tensor: Tensor | None) -> Any:
    """All of a tensor that a program may compare."""
    if tensor is None:
        return None
    functions = graph(tensor) if tensor.grad_fn is not None else []
    bits = tensor.detach().clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8).tolist()
    shown = (tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.requires_grad, functions, tensor._version)
    return (*shown, tensor._is_view(), bits)


def seen(value: Any) -> Any:
    """What a step has given."""
    if isinstance(value, Tensor):
        return facts(value)
    if isinstance(value, dict):
        return {key: seen(each) for key, each in value.items()}
    return [seen(each) for each in value] if isinstance(value, tuple | list) else repr(value)


class Side:
    """A program with random numbers of its own; `jitted` runs its step under pijit."""

    def __init__(self, make: Make, jitted: bool) -> None:
        torch.manual_seed(3)
        self.model, step = make()
        self.run = pijit.jit(step) if jitted else step
        self.random = torch.get_rng_state()

    def call(self, *args: Any) -> Any:
        torch.set_rng_state(self.random)
        try:
            given: Any = self.run(*args)
        except Exception as error:
            given = (type(error).__name__, str(error).splitlines()[0])
        self.random = torch.get_rng_state()
        return given

    def state(self) -> Any:
        named = [*self.model.named_parameters(), *self.model.named_buffers()]
        return {name: (facts(tensor), facts(tensor.grad)) for name, tensor in named}, self.random.tolist()[:700]


def tapes(fn: Step) -> list[Any]:
    return [row for trace in _core.root_traces(root_of(fn)) for row in trace["tapes"]]


def runs(fn: Step) -> int:
    """Replays that a tape has served."""
    return sum(row["runs"] for row in tapes(fn))


def compare(
    make: Make, calls: Iterator[tuple[Any, ...]], change: Callable[[nn.Module, int], None] | None = None
) -> Step:
    """Both sides call by call, with `change` done to both models before each; gives what was jitted."""
    plain, fast = Side(make, False), Side(make, True)
    for index, args in enumerate(calls):
        for side in (plain, fast):
            if change is not None:
                change(side.model, index)
        expected = plain.call(*copy.deepcopy(args))
        found = fast.call(*copy.deepcopy(args))
        assert seen(found) == seen(expected), index
        assert fast.state() == plain.state(), index
    return fast.run


def batches(count: int, *sizes: int, classes: int = 4, rows: Callable[[int], int] = lambda _: 6) -> Iterator[Any]:
    drawn = torch.Generator().manual_seed(1)
    for index in range(count):
        x = torch.randn(rows(index), *sizes, generator=drawn)
        yield x, torch.randint(0, classes, (rows(index),), generator=drawn)


def stepping(model: nn.Module, loss_of: Callable[..., Any], **options: Any) -> tuple[nn.Module, Step]:
    """A usual step; it returns the loss, and what `loss_of` gives beside it."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def step(x: Tensor, y: Tensor) -> Any:
        optimizer.zero_grad(**options)
        loss, *others = loss_of(model, x, y)
        loss.backward()
        optimizer.step()
        return loss, others

    return model, step


def mlp(*middle: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(5, 8), *middle, nn.Linear(8, 4))


def classified(model: nn.Module, x: Tensor, y: Tensor) -> Any:
    out = model(x)
    return F.cross_entropy(out, y), out
