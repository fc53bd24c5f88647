"""State that a program keeps between calls: on an object, in a list, a dict, a closure or a global variable.

A trace takes such a place by kind: after at most three recordings the calls are replays, and stay so.
"""

from __future__ import annotations

import collections
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import pijit

pytestmark = pytest.mark.torch

CALLS = 12
Jit = Callable[[Any], Any]


def plain(function: Any) -> Any:
    return function


class Kept:
    """Something with attributes."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


# -- programs: each is called with x and gives an answer; what it keeps is in the object that comes with it


def average(jit: Jit) -> tuple[Any, Any]:
    kept = Kept(h=torch.zeros(3))

    def call(x: torch.Tensor) -> torch.Tensor:
        kept.h = kept.h * 0.9 + x * 0.1
        return kept.h.sum()

    return jit(call), kept


def average_from_none(jit: Jit) -> tuple[Any, Any]:
    kept = Kept(h=None)

    def call(x: torch.Tensor) -> torch.Tensor:
        kept.h = x.clone() if kept.h is None else kept.h * 0.9 + x
        return kept.h * 2

    return jit(call), kept


def average_by_method(jit: Jit) -> tuple[Any, Any]:
    class Average:
        def __init__(self) -> None:
            self.h = torch.zeros(3)
            self.steps = 0

        def step(self, x: torch.Tensor) -> torch.Tensor:
            self.h = self.h * 0.9 + x
            self.steps += 1
            return self.h / self.steps

    average = Average()
    return jit(average.step), average


class Slotted:
    __slots__ = ("h",)

    def __init__(self) -> None:
        self.h = torch.zeros(3)


def average_in_slot(jit: Jit) -> tuple[Any, Any]:
    kept = Slotted()

    def call(x: torch.Tensor) -> torch.Tensor:
        kept.h = kept.h * 0.9 + x
        return kept.h + 1

    return jit(call), kept


class Buffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("h", torch.zeros(3))
        self.steps = 0
        self.last: Any = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        self.h = self.h * 0.9 + y.detach()
        self.steps += 1
        self.last = y
        return y - self.h


def buffer_of_module(jit: Jit) -> tuple[Any, Any]:
    module = Buffer()
    return jit(module), module


def buffer_two_levels_deep(jit: Jit) -> tuple[Any, Any]:
    model = nn.Sequential(Buffer(), nn.Sequential(Buffer(), nn.ReLU(), Buffer()))
    return jit(model), model


class Cell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(3, 3)
        self.hidden: Any = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.hidden = self.cell(x.expand(2, 3), self.hidden)
        return self.hidden.sum()


def hidden_state(jit: Jit) -> tuple[Any, Any]:
    module = Cell()
    return jit(module), module


def hidden_state_detached(jit: Jit) -> tuple[Any, Any]:
    module = Cell()

    def call(x: torch.Tensor) -> Any:
        if module.hidden is not None:
            module.hidden = module.hidden.detach()
        loss = module(x)
        loss.backward()
        return loss.detach()

    return jit(call), module


def hidden_state_with_history(jit: Jit) -> tuple[Any, Any]:
    """The gradients go back through all calls."""
    kept = Kept(h=torch.zeros(3), w=torch.full((3,), 0.5, requires_grad=True))

    def call(x: torch.Tensor) -> torch.Tensor:
        kept.h = torch.tanh(kept.h * kept.w + x)
        return kept.h.sum()

    fast = jit(call)

    def run(x: torch.Tensor) -> Any:
        loss = fast(x)
        kept.w.grad = None
        loss.backward(retain_graph=True)
        return loss.detach(), kept.w.grad

    return run, kept


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(3, 3)
        self.state: Any = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.state = self.cell(x.expand(2, 3), self.state)
        return self.state[0].sum()


def pair_of_states(jit: Jit) -> tuple[Any, Any]:
    module = Lstm()
    return jit(module), module


def cache_that_grows(jit: Jit) -> tuple[Any, Any]:
    kept = Kept(keys=torch.zeros(1, 3), cache={"v": torch.zeros(1, 3)})

    def call(x: torch.Tensor) -> torch.Tensor:
        kept.keys = torch.cat([kept.keys, x[None]])
        kept.cache["v"] = torch.cat([kept.cache["v"], x[None] * 2])
        return torch.softmax(kept.keys @ x, 0) @ kept.cache["v"]

    return jit(call), kept


def window(jit: Jit) -> tuple[Any, Any]:
    kept = Kept(cache=[torch.zeros(3) for _ in range(3)])

    def call(x: torch.Tensor) -> torch.Tensor:
        kept.cache.append(x * 2)
        kept.cache = kept.cache[-3:]
        return torch.stack(kept.cache).sum()

    return jit(call), kept


def list_of_states(jit: Jit) -> tuple[Any, Any]:
    kept = Kept(hs=[torch.zeros(3), torch.ones(3)], counts=[0, 5])

    def call(x: torch.Tensor) -> torch.Tensor:
        for i in range(2):
            kept.hs[i] = kept.hs[i] * 0.5 + x
            kept.counts[i] += 1
            x = kept.hs[i] * kept.counts[i]
        return x

    return jit(call), kept


def ring_buffer(jit: Jit) -> tuple[Any, Any]:
    kept = Kept(ring=[torch.zeros(3) for _ in range(3)])

    def call(x: torch.Tensor) -> torch.Tensor:
        oldest = kept.ring.pop(0)
        kept.ring.append(x * 2)
        return oldest + kept.ring[-1]

    return jit(call), kept


def losses_in_a_list(jit: Jit) -> tuple[Any, Any]:
    kept = Kept(losses=[], numbers=[])

    def call(x: torch.Tensor) -> Any:
        loss = (x * x).sum()
        kept.losses.append(loss)
        kept.numbers.append(loss.item())
        return loss, len(kept.losses)

    return jit(call), kept


global_losses: list[Any] = []
global_state: Any = None


def global_variables(jit: Jit) -> tuple[Any, Any]:
    global global_state
    global_losses.clear()
    global_state = torch.zeros(3)

    def call(x: torch.Tensor) -> torch.Tensor:
        global global_state
        global_state = global_state * 0.5 + x
        global_losses.append(float(global_state.sum()))
        return global_state * 1

    return jit(call), global_losses


def closure(jit: Jit) -> tuple[Any, Any]:
    state = torch.zeros(3)
    losses: list[float] = []

    def call(x: torch.Tensor) -> torch.Tensor:
        nonlocal state
        state = state * 0.5 + x
        losses.append(float(state.sum()))
        return state

    return jit(call), losses


def moving_average_of_weights(jit: Jit) -> tuple[Any, Any]:
    model, shadow = nn.Linear(3, 2), nn.Linear(3, 2)
    shadow.load_state_dict(model.state_dict())

    def call(x: torch.Tensor) -> torch.Tensor:
        loss = model(x).square().sum()
        loss.backward()
        with torch.no_grad():
            for p, q in zip(model.parameters(), shadow.parameters()):
                p.sub_(p.grad, alpha=0.1)  # type: ignore[arg-type]
                q.lerp_(p, 0.1)
                p.grad = None
        return loss.detach()

    return jit(call), (model, shadow)


def running_statistics(jit: Jit) -> tuple[Any, Any]:
    norm = nn.BatchNorm1d(3)
    kept = Kept(seen=torch.zeros(3), norm=norm)

    def call(x: torch.Tensor) -> torch.Tensor:
        kept.seen.mul_(0.9).add_(x)
        return norm(torch.stack([x, kept.seen, x * 2]))

    return jit(call), kept


def swapped_buffers(jit: Jit) -> tuple[Any, Any]:
    kept = Kept(a=torch.zeros(3), b=torch.ones(3))

    def call(x: torch.Tensor) -> torch.Tensor:
        kept.a, kept.b = kept.b, kept.a + x
        return kept.a - kept.b

    return jit(call), kept


def one_tensor_two_names(jit: Jit) -> tuple[Any, Any]:
    kept = Kept(a=torch.zeros(3), b=None)
    kept.b = kept.a

    def call(x: torch.Tensor) -> Any:
        kept.b.add_(x)
        kept.a = kept.a * 1
        same = kept.a is kept.b
        kept.b = kept.a
        return kept.b + 0, same

    return jit(call), kept


def optimizer_of_ones_own(jit: Jit) -> tuple[Any, Any]:
    parameters = [torch.ones(3, requires_grad=True), torch.ones(2, requires_grad=True)]
    kept = Kept(parameters=parameters, state=[{"m": torch.zeros_like(p), "n": 0} for p in parameters])

    def call(x: torch.Tensor) -> torch.Tensor:
        loss = parameters[0].mul(x).sum() + parameters[1].square().sum()
        loss.backward()
        with torch.no_grad():
            for p, state in zip(parameters, kept.state):
                state["m"] = state["m"] * 0.9 + p.grad
                state["n"] += 1
                p.sub_(state["m"], alpha=0.1 / state["n"])
                p.grad = None
        return loss.detach()

    return jit(call), kept


@dataclass
class State:
    h: torch.Tensor
    n: int


def state_in_an_instance(jit: Jit) -> tuple[Any, Any]:
    kept = Kept(state=State(torch.zeros(3), 0))

    def call(x: torch.Tensor) -> torch.Tensor:
        kept.state = State(kept.state.h * 0.5 + x, kept.state.n + 1)
        return kept.state.h * kept.state.n

    return jit(call), kept


def set_from_outside(jit: Jit) -> tuple[Any, Any]:
    kept = Kept(mask=None)

    def call(x: torch.Tensor) -> torch.Tensor:
        return x * kept.mask

    fast = jit(call)

    def run(x: torch.Tensor) -> torch.Tensor:
        kept.mask = torch.full((3,), float(x[0]))
        return fast(x)

    return run, kept


def only_written(jit: Jit) -> tuple[Any, Any]:
    """What is stored for others to see is not read."""

    class Module(nn.Module):
        last: Any = None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.last = x * 2
            return x + 1

    module = Module()
    return jit(module), module


def array_argument(jit: Jit) -> tuple[Any, Any]:
    def call(array: Any) -> torch.Tensor:
        return torch.from_numpy(array).float() * 2

    fast, arrays = jit(call), []

    def run(x: torch.Tensor) -> torch.Tensor:
        arrays.append(x.numpy().astype(np.float64))
        return fast(arrays[-1])

    return run, None


def array_arithmetic(jit: Jit) -> tuple[Any, Any]:
    def call(array: Any, x: torch.Tensor) -> Any:
        return (array * 2 + 1).sum() > 3, x + 1

    fast, arrays = jit(call), []

    def run(x: torch.Tensor) -> Any:
        arrays.append(np.full(3, float(x[0])))
        return fast(arrays[-1], x)

    return run, None


PROGRAMS = [value for name, value in list(globals().items()) if getattr(value, "__annotations__", {}).get("jit")]


# -- comparing


def tensors_in(kept: Any, seen: dict[int, int]) -> Iterator[Any]:
    """All that is kept, with which objects are the same ones."""
    if isinstance(kept, nn.Module):
        yield from tensors_in({**kept.__dict__, "_modules": list(kept.children())}, seen)
        return
    if isinstance(kept, (int, float, str, type(None), bool)):
        yield kept
        return
    if isinstance(kept, (torch.Tensor, list, dict)):
        first = seen.setdefault(id(kept), len(seen))
        yield type(kept).__name__, first
    if isinstance(kept, torch.Tensor):
        grad = None if not kept.is_leaf or kept.grad is None else kept.grad.tolist()
        values = (kept.to_dense() if kept.layout != torch.strided else kept).tolist()
        yield kept.dtype, kept.shape, values, kept.requires_grad, kept.grad_fn is None, grad
    elif isinstance(kept, (list, tuple, collections.deque)):
        for item in kept:
            yield from tensors_in(item, seen)
    elif isinstance(kept, dict):
        for key, value in kept.items():
            yield key
            yield from tensors_in(value, seen)
    elif hasattr(kept, "__slots__") or hasattr(kept, "__dict__"):
        names = [*getattr(kept, "__slots__", ()), *getattr(kept, "__dict__", ())]
        yield from tensors_in({name: getattr(kept, name) for name in names if not callable(getattr(kept, name))}, seen)


def look(answer: Any, kept: Any) -> list[Any]:
    return list(tensors_in([answer, kept], {}))


def inputs(count: int = CALLS) -> list[torch.Tensor]:
    return [torch.arange(3.0) + float(i) for i in range(count)]


def run(program: Any, jit: Jit, steps: list[str] | None = None) -> list[Any]:
    """What every call gives and leaves behind; and whether it was recorded or replayed."""
    torch.manual_seed(0)
    call, kept = program(jit)
    seen = []
    others = []  # so that no address is used again
    for x in inputs():
        before = pijit.stats()
        answer = call(x)
        after = pijit.stats()
        if steps is not None:
            recorded = after["records"] > before["records"]
            exits = after["exits"] > before["exits"]
            replayed = after["replays"] > before["replays"] and not exits
            steps.append("record" if recorded else "replay" if replayed else "CPython")
        seen.append(look(answer, kept))
        others.append([answer, copy.copy(getattr(kept, "__dict__", kept)), torch.empty(3)])
    return seen


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_state_comes_to_rest(program: Any) -> None:
    steps: list[str] = []
    expected = run(program, plain)
    assert run(program, pijit.jit, steps) == expected
    assert steps.count("record") <= 3, steps
    assert set(steps[4:]) == {"replay"}, steps


# -- a second call with something else there


class Derived(torch.Tensor):
    pass


class Listing(list):  # type: ignore[type-arg]
    pass


def as_derived() -> torch.Tensor:
    return torch.ones(3).as_subclass(Derived)


CHANGES: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "another dtype": lambda kept, x: torch.ones(3, dtype=torch.float64),
    "integers": lambda kept, x: torch.ones(3, dtype=torch.int64),
    "another shape": lambda kept, x: torch.ones(2, 3),
    "one element": lambda kept, x: torch.ones(1),
    "no element": lambda kept, x: torch.ones(0),
    "without dimensions": lambda kept, x: torch.tensor(2.0),
    "strided": lambda kept, x: torch.ones(3, 2)[:, 0],
    "a subclass": lambda kept, x: as_derived(),
    "a parameter": lambda kept, x: nn.Parameter(torch.ones(3)),
    "the model's parameter": lambda kept, x: kept.weight,
    "the argument": lambda kept, x: x,
    "a view of the argument": lambda kept, x: x[:],
    "with gradient": lambda kept, x: torch.ones(3, requires_grad=True),
    "with history": lambda kept, x: torch.ones(3, requires_grad=True) * 2,
    "None": lambda kept, x: None,
    "a string": lambda kept, x: "ab",
    "a number": lambda kept, x: 2,
    "a float": lambda kept, x: 2.5,
    "True": lambda kept, x: True,
    "a list": lambda kept, x: [torch.ones(3)],
    "an array": lambda kept, x: np.ones(3, dtype=np.float32),
    "itself": lambda kept, x: kept.h,
    "sparse": lambda kept, x: torch.ones(3).to_sparse(),
    "conjugate": lambda kept, x: torch.ones(3, dtype=torch.complex64).conj(),
    "deleted": lambda kept, x: KeyError,
}


def reads(kept: Any, x: torch.Tensor) -> Any:
    kept.h = kept.h * 0.5 + x
    return kept.h.sum(), kept.h is x, isinstance(kept.h, nn.Parameter)


def writes_in_place(kept: Any, x: torch.Tensor) -> Any:
    y = x * 2 + kept.weight.detach()
    kept.h.mul_(0.5)
    z = x * 2 + kept.weight.detach()
    kept.h = kept.h + y
    return y, z, kept.h is kept.weight


def branches(kept: Any, x: torch.Tensor) -> Any:
    if kept.h is None:
        kept.h = x.clone()
    elif kept.h.dtype == torch.float64 or kept.h.dim() == 2:
        kept.h = x + 1
    else:
        kept.h = torch.cat([kept.h, x])[-3:]
    return kept.h.requires_grad, kept.h * 1


@pytest.mark.parametrize("body", [reads, writes_in_place, branches], ids=lambda body: body.__name__)
@pytest.mark.parametrize("change", CHANGES)
def test_another_object_takes_the_place(body: Any, change: str) -> None:
    def calls(jit: Jit) -> list[Any]:
        kept = Kept(h=torch.zeros(3), weight=nn.Parameter(torch.full((3,), 0.5)))

        def call(x: torch.Tensor) -> Any:
            return body(kept, x)

        fast = jit(call)
        seen: list[Any] = []

        def step(x: torch.Tensor) -> None:
            try:
                answer = fast(x)
            except Exception as error:
                answer = (type(error).__name__, str(error))
            seen.append(look(answer, {**kept.__dict__, "x": x}))

        for x in inputs(6):
            step(x)
        for x in inputs(4):
            before = getattr(kept, "h", None)
            other = CHANGES[change](kept, x)
            if other is KeyError:
                kept.__dict__.pop("h", None)
            else:
                kept.h = other
            step(x)
            kept.h = before if isinstance(before, torch.Tensor) and before.shape == (3,) else torch.zeros(3)
            step(x + 1)
        return seen

    assert calls(pijit.jit) == calls(plain)


LISTS: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "another length": lambda kept, x: [torch.ones(3)],
    "empty": lambda kept, x: [],
    "a derived list": lambda kept, x: Listing([torch.ones(3), torch.ones(3)]),
    "a tuple": lambda kept, x: (torch.ones(3), torch.ones(3)),
    "one tensor twice": lambda kept, x: [x, x],
    "None in it": lambda kept, x: [None, x],
    "itself in it": lambda kept, x: [kept.hs, x],
    "the argument's list": lambda kept, x: kept.other,
    "numbers": lambda kept, x: [1, 2.5],
}


@pytest.mark.parametrize("change", LISTS)
def test_another_list_takes_the_place(change: str) -> None:
    def calls(jit: Jit) -> list[Any]:
        kept = Kept(hs=[torch.zeros(3), torch.ones(3)], other=[torch.ones(3), torch.zeros(3)])

        def call(x: torch.Tensor) -> Any:
            kept.hs[0] = kept.hs[0] * 0.5 + x
            kept.other[1] = kept.other[1] + kept.hs[0]
            kept.hs = [kept.hs[1], kept.hs[0]]
            return kept.hs[0] + kept.other[1], kept.hs[0] is kept.hs[1], len(kept.hs)

        fast = jit(call)
        seen: list[Any] = []

        def step(x: torch.Tensor) -> None:
            try:
                answer = fast(x)
            except Exception as error:
                answer = (type(error).__name__, str(error))
            seen.append(look(answer, {**kept.__dict__, "x": x}))

        for x in inputs(6):
            step(x)
        for x in inputs(4):
            kept.hs = LISTS[change](kept, x)
            step(x)
            kept.hs = [torch.zeros(3), torch.ones(3)]
            kept.other = [torch.ones(3), torch.zeros(3)]
            step(x + 1)
        return seen

    assert calls(pijit.jit) == calls(plain)


def test_a_state_of_two_objects_in_turn() -> None:
    """Two objects are two ways of using a program: they have a trace each, until there is a third."""
    kept = Kept(h=None)
    pair = [torch.zeros(3), torch.ones(3)]

    @pijit.jit
    def call(x: torch.Tensor) -> torch.Tensor:
        return x + kept.h

    for i, x in enumerate(inputs(8)):
        kept.h = pair[i % 2]
        assert torch.equal(call(x), x + pair[i % 2])
    assert pijit.stats()["records"] >= 2
    assert len(pijit.traces(call)) == 2


def test_the_old_state_dies_when_it_did() -> None:
    import weakref

    def calls(jit: Jit) -> list[Any]:
        kept = Kept(h=torch.zeros(3))

        def call(x: torch.Tensor, told: list[Any]) -> torch.Tensor:
            old = weakref.ref(kept.h)
            kept.h = kept.h * 0.5 + x
            told.append(old() is None)
            return kept.h

        fast = jit(call)
        answers = []
        for x in inputs(8):
            told: list[Any] = []
            fast(x, told)
            answers.append(told)
        return answers

    assert calls(pijit.jit) == calls(plain)


def test_state_that_an_opaque_call_changes() -> None:
    """Behind foreign code the place is loaded anew."""

    def calls(jit: Jit) -> list[Any]:
        kept = Kept(h=torch.zeros(3), hs=[torch.zeros(3), torch.zeros(3)])
        reset = eval("lambda: setattr(kept, 'h', kept.h + 100)", {"kept": kept, "setattr": setattr})
        reset = pijit.opaque(reset) if jit is not plain else reset

        def call(x: torch.Tensor) -> Any:
            kept.h = kept.h * 0.5 + x
            first = kept.h
            kept.hs[0] = kept.hs[0] + first
            reset()
            kept.h = kept.h + 1
            kept.hs[1] = kept.hs[1] + kept.h
            return first, kept.h, kept.hs[0] + kept.hs[1]

        fast = jit(call)
        return [look(fast(x), kept) for x in inputs()]

    assert calls(pijit.jit) == calls(plain)
