"""Under torch.profiler replays go on, and each is a range with its operators."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import pijit
from pijit import _core
from pijit.api import root_of

pytestmark = pytest.mark.torch

CPU = [torch.profiler.ProfilerActivity.CPU]


def layer(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.relu(x @ w)


LINE = layer.__code__.co_firstlineno
RANGE = f"pijit: layer (test_profiler.py:{LINE})"


def profiled(*calls: Any, **options: Any) -> torch.profiler.profile:
    with torch.profiler.profile(activities=CPU, **options) as profile:
        for call in calls:
            call()
    return profile


def counts(profile: torch.profiler.profile) -> dict[str, int]:
    return {event.key: event.count for event in profile.key_averages()}


def ranges_around(profile: torch.profiler.profile, operator: str) -> list[list[str]]:
    """The ranges of pijit around each event of an operator, the innermost first."""
    found = []
    for event in profile.events():
        if event.name != operator:
            continue
        names, parent = [], event.cpu_parent
        while parent is not None:
            names.append(parent.name)
            parent = parent.cpu_parent
        found.append([name for name in names if name.startswith("pijit: ")])
    return found


@pytest.mark.parametrize("options", [{}, {"record_shapes": True, "profile_memory": True}])
def test_replays_are_ranges_with_their_operators(options: dict[str, bool]) -> None:
    fast, x, w = pijit.jit(layer), torch.randn(3, 4), torch.randn(4, 5)
    expected = layer(x, w)
    for _ in range(3):
        fast(x, w)
    before = _core.root_report(root_of(fast))
    results: list[torch.Tensor] = []
    profile = profiled(*[lambda: results.append(fast(x, w))] * 5, **options)
    after = _core.root_report(root_of(fast))
    assert all(torch.equal(each, expected) for each in results)
    assert (after["replays"] - before["replays"], after["records"]) == (5, before["records"])
    assert pijit.status(fast) == pijit.Status("replaying", "")
    assert counts(profile)[RANGE] == 5
    assert ranges_around(profile, "aten::relu") == ranges_around(profile, "aten::mm") == [[RANGE]] * 5


def test_nothing_is_recorded_under_a_profiler() -> None:
    fast, x, w = pijit.jit(layer), torch.randn(3, 4), torch.randn(4, 5)
    profile = profiled(*[lambda: fast(x, w)] * 3)
    assert ranges_around(profile, "aten::relu") == [[]] * 3
    assert _core.root_report(root_of(fast))["records"] == 0
    assert pijit.status(fast).state == "cold"
    assert "a profiler is on" in pijit.status(fast).reason
    fast(x, w)
    assert ranges_around(profiled(lambda: fast(x, w)), "aten::relu") == [[RANGE]]


def test_a_loop_of_its_own_traces_has_its_own_ranges() -> None:
    def turns(x: torch.Tensor, n: int) -> torch.Tensor:
        for _ in range(n):
            x = torch.cos(x)
        return x

    x = torch.randn(3)
    with pijit.enabled(loops="body"):
        fast = pijit.jit(turns)
        for n in (40, 50, 60):
            fast(x, n)
        profile = profiled(lambda: fast(x, 60))
    assert any("pijit: loop in " in key and "turns (test_profiler.py:" in key for key in counts(profile))
    around = ranges_around(profile, "aten::cos")
    inside = [each for each in around if any(name.startswith("pijit: loop in ") for name in each)]
    assert (len(around), len(inside) >= 50) == (60, True)  # the function's own trace has the first turns
    assert all(each[-1].startswith("pijit: ") for each in around)


def test_what_cpython_does_after_an_exit_is_outside() -> None:
    def branch(x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x)
        return torch.sin(y) if y.sum() > 100 else torch.cos(y)

    fast = pijit.jit(branch)
    for _ in range(3):
        fast(torch.ones(3))
    profile = profiled(lambda: fast(torch.full((3,), 100.0)))
    assert [len(around) for around in ranges_around(profile, "aten::relu")] == [1]
    assert ranges_around(profile, "aten::sin") == [[]]


def test_marks_of_the_program_stay() -> None:
    def marked(x: torch.Tensor) -> torch.Tensor:
        with torch.profiler.record_function("half"):
            y = x / 2
        return y + 1

    fast, x = pijit.jit(marked), torch.randn(3)
    for _ in range(3):
        fast(x)
    profile = profiled(lambda: fast(x), lambda: marked(x))
    assert counts(profile)["half"] == 2


def test_a_training_step() -> None:
    torch.manual_seed(0)
    model, plain = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)
    plain.load_state_dict(model.state_dict())
    sides = [(each, torch.optim.Adam(each.parameters(), lr=0.1)) for each in (model, plain)]

    def step(module: Any, optimizer: Any, x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = module(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    fast = pijit.jit(step)
    for turn in range(8):
        x = torch.randn(3, 4)
        if turn < 4:
            assert torch.equal(fast(*sides[0], x), step(*sides[1], x))
            continue
        with torch.profiler.profile(activities=CPU) as profile:
            assert torch.equal(fast(*sides[0], x), step(*sides[1], x))
        assert counts(profile)["Optimizer.step#Adam.step"] == 2
    assert torch.equal(model.weight, plain.weight)
    assert any(key.startswith("pijit: ") and "step (" in key for key in counts(profile))


def test_times_under_a_profiler_are_no_reason_to_give_up() -> None:
    fast, x, w = pijit.jit(layer), torch.randn(3, 4), torch.randn(4, 5)
    fast(x, w)
    profiled(*[lambda: fast(x, w)] * 60)
    report = _core.root_report(root_of(fast))
    assert (report["replays"], report["records"]) == (60, 1)  # no call was CPython's, to compare
