"""A segment spans calls of torch.cond and its like: a plan has all sides, and answers while they read the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from counted import Counted
from plans import STATES
from torch import Tensor, nn

import pijit
from pijit import _backend_names
from pijit.compilers import market

hop = pytest.importorskip("torch._higher_order_ops")

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    made = Counted("counted")
    made.branches = True
    monkeypatch.setitem(_backend_names.registered, "counted", made)
    yield made
    market.wait(60)


def chosen(x: Tensor) -> Tensor:
    y = x.tanh() * 3 + 1
    z = torch.cond(y.sum() > 0, lambda y: y.sin() + 1, lambda y: y.cos() - 1, (y,))
    return z.exp().mul(2).add(1)


def by_closures(x: Tensor) -> Tensor:
    y, n = x.exp(), x.shape[0]

    def up(x: Tensor) -> Tensor:
        return x + y * n

    def down(x: Tensor) -> Tensor:
        return x - y

    z = torch.cond(x.sum() > 0, up, down, (x * 2,))
    return z.tanh() + y


def counted(x: Tensor) -> Tensor:
    y = x.sin() * 2
    turns, y = hop.while_loop(
        lambda i, y: (i < 4) & (y.abs().sum() < 50), lambda i, y: (i + 1, y * 2 + i), (torch.tensor(0), y)
    )
    return y.tanh() + turns


def scanned(x: Tensor) -> Tensor:
    carried, made = hop.scan(lambda c, x: (c + x, c * x + 1), torch.zeros(x.shape[1:]), x.sin() + 1)
    return made.tanh() + carried


def mapped(x: Tensor) -> Tensor:
    return hop.map(lambda x, y: x.sin() + y, x * 2, torch.ones(())).exp() + 1


PROGRAMS = [chosen, by_closures, counted, scanned, mapped]
CALLS = [torch.randn(4, 3, generator=torch.Generator().manual_seed(seed)) + shift for seed, shift in enumerate((1, -1))]


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.last = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 2)
        self.scale = 2.0

    def up(self, x: Tensor) -> Tensor:
        return self.a(x) * self.scale

    def forward(self, x: Tensor) -> Tensor:
        y = (x + 1).sin()
        y = torch.cond(x.sum() > 0, self.up, self.b, (y,))
        return self.last(y.tanh() * 2)


def segments(fast: Any) -> list[Any]:
    return [each for trace in pijit.traces(fast) for each in trace.segments]


def settled(fast: Any, run: Any, calls: Any = CALLS, close: bool = False) -> None:
    for x in (*calls, *calls, *calls):
        made, plain = fast(x), run(x)
        assert torch.allclose(made, plain, rtol=1e-4, atol=1e-5) if close else torch.equal(made, plain)
        assert market.wait(120)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_one_plan_has_all_of_it(program: Any, backend: Counted) -> None:
    fast = pijit.jit(program, backend="counted")
    with torch.no_grad():
        settled(fast, program)
        (segment,) = segments(fast)
        assert segment.share == 1
        runs = backend.runs
        for x in (*CALLS, *CALLS):
            assert torch.equal(fast(x), program(x))
        assert backend.runs == runs + 4
        for size in (5, 2, 7, 5, 2, 7, 3):  # sizes are free, or each gets a plan
            for shift in (1, -1):
                x = torch.randn(size, 3, generator=torch.Generator().manual_seed(size)) + shift
                assert torch.equal(fast(x), program(x))
                assert market.wait(60)
        assert backend.runs > runs + 12


COMPILED = {"chosen": chosen, "counted": counted, "gate": Gate}


@pytest.mark.parametrize("case", COMPILED)
@pytest.mark.parametrize("name", ["inductor", "xla", "onnxruntime"])
def test_compilers_get_all_of_it(name: str, case: str) -> None:
    if STATES[name] != "usable":
        pytest.skip(STATES[name])
    plain, program = (COMPILED[case]() if case == "gate" else COMPILED[case] for _ in range(2))
    fast = pijit.jit(program, backend=name)
    with torch.no_grad():
        settled(fast, plain, close=True)
        settled(fast, plain, close=True)
    assert all(each.share == 1 for each in segments(fast))
    plans = [plan for each in segments(fast) for key in each.keys for plan in key.plans]
    assert any(plan.backend == name and plan.runs > 2 for plan in plans)


def test_what_sides_read_is_guarded(backend: Counted) -> None:
    """A weight is written, a number set, a module replaced: also of the side that is not taken."""
    gate, plain = Gate(), Gate()
    both = (gate, plain)
    fast = pijit.jit(gate, backend="counted")
    with torch.no_grad():
        settled(fast, plain)
        assert backend.runs
        for name in ("a.weight", "b.bias"):
            for each in both:
                each.get_parameter(name).mul_(2)
            runs = backend.runs
            settled(fast, plain)
            assert backend.runs > runs + 2
        for x in CALLS:
            for each in both:
                each.b.weight.data = each.b.weight.data * 2
            assert torch.equal(fast(x), plain(x))
        for each in both:
            each.scale = 3.0
        settled(fast, plain)
        torch.manual_seed(1)
        gate.a = plain.a = nn.Linear(3, 3)
        settled(fast, plain)
        plain.b.bias = gate.b.bias = nn.Parameter(torch.ones(3))
        settled(fast, plain)


DOUBLES = True


def test_a_global_that_a_side_reads(backend: Counted) -> None:
    def run(x: Tensor) -> Tensor:
        y = (x * 2).sin() + 1
        return (
            torch.cond(
                y.sum() > 12, lambda y: y * 2 if DOUBLES else y + 1, lambda y: -y if DOUBLES else y, (y * 1,)
            ).tanh()
            + y
        )

    fast = pijit.jit(run, backend="counted")
    with torch.no_grad():
        settled(fast, run)
        assert backend.runs
        for doubles in (False, True, False):
            globals()["DOUBLES"] = doubles
            for x in (*CALLS, *CALLS):
                assert torch.equal(fast(x), run(x))
                assert market.wait(60)


def test_new_objects_that_a_call_is_given(backend: Counted) -> None:
    """A list and a variable that functions know go on behind it."""

    def run(x: Tensor) -> Any:
        y = x.sin() * 2 + 1
        given, n = [y], 2

        def up(y: Tensor) -> Tensor:
            return y * n

        z = torch.cond(y.sum() > 0, up, lambda y: y - n, given)
        given.append(z * 2)
        n += 1
        y = up(y)
        return (*given, y.exp() * n)

    fast = pijit.jit(run, backend="counted")
    with torch.no_grad():
        for x in CALLS * 5:
            made, plain = fast(x), run(x)
            assert len(made) == len(plain) == 3
            assert all(torch.equal(*pair) for pair in zip(made, plain, strict=True))
            assert market.wait(60)


def aliased(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x.sin() * 2 + 1
    z = torch.cond(y.sum() > 0, lambda y: y, lambda y: y + 1, (y,))
    z.add_(1)
    return y, z.exp() * 2 + 1


def written(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x.sin() * 2 + 1
    z = torch.cond(y.sum() > 0, lambda y: y.add_(1) * 2, lambda y: y + 1, (y,))
    return y, z.exp() * 2 + 1


def drawn(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x.sin() * 2 + 1
    z = torch.cond(y.sum() > 0, lambda y: y * torch.rand(3), lambda y: y + torch.rand(3), (y,))
    return y, z.exp() * 2 + 1


@pytest.mark.parametrize("program", [aliased, written, drawn], ids=lambda f: f.__name__)
def test_effects_that_torch_allows_are_left_to_torch(program: Any, backend: Counted) -> None:
    fast = pijit.jit(program, backend="counted")
    with torch.no_grad():
        for at, x in enumerate(CALLS * 5):
            torch.manual_seed(at)
            made = fast(x)
            torch.manual_seed(at)
            plain = program(x)
            assert all(torch.equal(*pair) for pair in zip(made, plain, strict=True))
            assert market.wait(60)


def test_a_call_of_a_side_alone_has_its_effects(backend: Counted) -> None:
    """A condition that is a number calls one function, as Python does."""
    seen: list[int] = []

    def run(x: Tensor, up: bool) -> Tensor:
        y = x.sin() * 2 + 1

        def noted(y: Tensor) -> Tensor:
            seen.append(len(seen))
            return y + 1

        return torch.cond(up, noted, lambda y: y - 1, (y,)).exp() * 2 + 1

    fast, expected = pijit.jit(run, backend="counted"), 0
    with torch.no_grad():
        for up in (True, True, False, True, False, True, True):
            for x in CALLS:
                made, plain = fast(x, up), run(x, up)
                expected += 2 * up
                assert torch.equal(made, plain)
                assert market.wait(60)
                assert seen == list(range(expected))


def test_gradients_are_torchs(backend: Counted) -> None:
    gate, other = Gate(), Gate()
    fast = pijit.jit(gate, backend="counted")
    for x in CALLS * 4:
        made, plain = fast(x), other(x)
        assert torch.equal(made, plain)
        made.square().sum().backward()
        plain.square().sum().backward()
        for one, two in zip(gate.parameters(), other.parameters(), strict=True):
            assert (one.grad is None) == (two.grad is None)
            assert one.grad is None or torch.equal(one.grad, two.grad)
        assert market.wait(60)


def test_a_replay_that_is_left_behind_the_plan(backend: Counted) -> None:
    """What the frame holds there was made by the plan, or is built then."""

    def run(x: Tensor, seen: list[Any]) -> Tensor:
        y = x.tanh() * 3 + 1

        def up(y: Tensor) -> Tensor:
            return y.sin() + 1

        given = (y,)
        z = torch.cond(y.sum() > 0, up, lambda y: y.cos() - 1, given)
        w = z.exp() * 2
        v = w + 1
        if v.sum() > 30:
            seen.append((up(z), given[0], w))
            return v * 2
        seen.append((z, w))
        return v - y

    fast = pijit.jit(run, backend="counted")
    with torch.no_grad():
        for x in [shift * each for each in CALLS for shift in (1, 1, 5, -5, 1, -1, 5, 1)] * 2:
            mine: list[Any] = []
            right: list[Any] = []
            assert torch.equal(fast(x, mine), run(x, right))
            assert all(torch.equal(*pair) for pair in zip(mine[0], right[0], strict=True))
            assert market.wait(60)
        assert backend.runs


def test_under_autocast_calls_are_torchs(backend: Counted) -> None:
    plain, fast = Gate(), pijit.jit(Gate(), backend="counted")
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        settled(fast, plain)
    with torch.no_grad():
        settled(fast, plain)


def test_an_exported_program_that_holds_one(backend: Counted) -> None:
    class Two(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = x.sin() * 2
            return torch.cond(y.sum() > 0, lambda y: y + 1, lambda y: y - 1, (y,)).exp() * 2

    with torch.no_grad():
        program = torch.export.export(Two(), (CALLS[0],)).module()
        fast = pijit.jit(lambda x: program(x) * 2 + 1, backend="counted")
        settled(fast, lambda x: program(x) * 2 + 1)
        assert backend.runs
