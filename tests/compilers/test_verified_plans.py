"""Plans are trusted anew: on every n-th run under a key a plan is compared with native replay."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import pijit
from pijit.compilers import _compared, market

pytestmark = pytest.mark.torch


class Turning:
    """A backend that runs the graph as torch does, and from some run on gives something else."""

    def __init__(self) -> None:
        self.runs = 0
        self.wrong_from = 1 << 60
        self.wrong: Callable[[Any], Any] = lambda outputs: [outputs[0] + 1]
        self.writes = False

    def __call__(self, module: Any, example_inputs: Any) -> Any:
        def run(*inputs: Any) -> Any:
            self.runs += 1
            made = module.forward(*inputs)
            if self.writes:
                inputs[-1].zero_()
            return self.wrong(made) if self.runs >= self.wrong_from else made

        return run


@pytest.fixture
def turning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Turning]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(_compared, "told", set())
    backend = Turning()
    pijit.register_backend("turning", backend)
    with torch.no_grad():
        yield backend
    market.wait(60)


def layers() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()


def program(module: nn.Module) -> Callable[[Any, Any], Any]:
    """It writes to what it is given: whole replays of it cannot be compared with CPython."""

    def fn(x: Any, count: Any) -> Any:
        count.add_(1)
        return module(x).exp() * 2

    return fn


def installed(fast: Any, *args: Any) -> Any:
    """Calls until a plan is there; the key under which it is."""
    for _ in range(3):
        fast(*args)
        assert market.wait(60)
    (key,) = [key for segment in pijit.traces(fast)[0].segments for key in segment.keys]
    assert key.plans
    return key


def key_of(fast: Any) -> Any:
    (key,) = [key for segment in pijit.traces(fast)[0].segments for key in segment.keys]
    return key


def test_a_plan_that_turns_wrong_is_dropped_at_the_next_comparison(
    turning: Turning, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    module, count = layers(), torch.zeros(())
    fn = program(module)
    fast = pijit.jit(fn, backend="turning", verify=4)
    x = torch.randn(3, 8)
    installed(fast, x, count)
    for _ in range(12):
        x = torch.randn(3, 8)
        assert torch.equal(fast(x, count), fn(x, count.clone()))
    assert key_of(fast).plans
    turning.wrong_from = turning.runs + 1
    wrong = 0
    for _ in range(12):
        x = torch.randn(3, 8)
        wrong += not torch.equal(fast(x, count), fn(x, count.clone()))
    assert wrong <= 3  # until the fourth of these runs at most, in whose place native replay answered
    key = key_of(fast)
    assert not key.plans
    assert "differs from native replay by 1" in key.refused["turning"]
    said = [row.message for row in caplog.records if row.levelname == "WARNING" and "differs" in row.message]
    assert len(said) == 1
    (directory,) = tmp_path.glob("pijit-difference-*")
    assert str(directory) in said[0]
    assert {each.name for each in directory.iterdir()} >= {"graph.json", "inputs.safetensors", "run.py"}
    runs = turning.runs
    assert torch.equal(fast(x, count), fn(x, count.clone()))
    assert turning.runs == runs


def test_without_verify_a_plan_is_not_compared_again(turning: Turning) -> None:
    module, count = layers(), torch.zeros(())
    fn = program(module)
    fast = pijit.jit(fn, backend="turning")
    x = torch.randn(3, 8)
    native = installed(fast, x, count).native_runs
    for _ in range(20):
        x = torch.randn(3, 8)
        assert torch.equal(fast(x, count), fn(x, count.clone()))
    assert key_of(fast).native_runs == native


def test_the_option_asks_for_all_functions(turning: Turning) -> None:
    module, count = layers(), torch.zeros(())
    fn = program(module)
    fast = pijit.jit(fn, backend="turning")
    x = torch.randn(3, 8)
    native = installed(fast, x, count).native_runs
    before = pijit.config.update({"verify": 2})
    try:
        for _ in range(10):
            assert torch.equal(fast(x, count), fn(x, count.clone()))
        assert key_of(fast).native_runs == native + 5
        turning.wrong_from = 0
        fast(x, count)
        assert torch.equal(fast(x, count), fn(x, count.clone()))
        assert not key_of(fast).plans
    finally:
        pijit.config.update(before)


def test_weights_that_are_written_are_those_of_both(turning: Turning) -> None:
    module, count = layers(), torch.zeros(())
    fn = program(module)
    fast = pijit.jit(fn, backend="turning", verify=1)
    x = torch.randn(3, 8)
    installed(fast, x, count)
    for at in range(6):
        module[0].weight.mul_(1.5)
        if at == 3:
            module[2].weight.data = torch.randn(4, 16)
        assert torch.equal(fast(x, count), fn(x, count.clone()))
        assert key_of(fast).plans
    assert turning.runs >= 6


@pytest.mark.parametrize(
    "wrong",
    [
        lambda outputs: [outputs[0][:2]],
        lambda outputs: [outputs[0].double()],
        lambda outputs: [None],
        lambda outputs: 1,
    ],
    ids=["sizes", "dtype", "nothing", "a number"],
)
def test_nonsense_is_dropped_beside_native_replay(turning: Turning, wrong: Callable[[Any], Any]) -> None:
    module, count = layers(), torch.zeros(())
    fn = program(module)
    fast = pijit.jit(fn, backend="turning", verify=1)
    x = torch.randn(3, 8)
    installed(fast, x, count)
    turning.wrong, turning.wrong_from = wrong, 0
    for _ in range(3):
        assert torch.equal(fast(x, count), fn(x, count.clone()))
    assert not key_of(fast).plans
    assert key_of(fast).refused["turning"].startswith("dropped: ")


def test_a_plan_that_raises_beside_native_replay_is_dropped(turning: Turning) -> None:
    module, count = layers(), torch.zeros(())
    fn = program(module)
    fast = pijit.jit(fn, backend="turning", verify=1)
    x = torch.randn(3, 8)
    installed(fast, x, count)

    def fail(outputs: Any) -> Any:
        raise RuntimeError("no luck")

    turning.wrong, turning.wrong_from = fail, 0
    for _ in range(3):
        assert torch.equal(fast(x, count), fn(x, count.clone()))
    assert not key_of(fast).plans
    assert "no luck" in key_of(fast).refused["turning"]


def test_a_plan_that_writes_to_its_inputs_writes_to_copies(turning: Turning) -> None:
    module, count = layers(), torch.zeros(())
    fn = program(module)
    fast = pijit.jit(fn, backend="turning", verify=1)
    x = torch.randn(3, 8)
    installed(fast, x, count)
    before = x.clone()
    turning.writes = True
    for _ in range(2):
        assert torch.equal(fast(x, count), fn(x, count.clone()))
        assert torch.equal(x, before)


def test_functions_with_the_backend_of_the_options_are_compared(turning: Turning) -> None:
    module, count = layers(), torch.zeros(())
    fn = program(module)
    before = pijit.config.update({"backend": "turning", "verify": 3})
    try:
        fast = pijit.jit(fn)
        x = torch.randn(3, 8)
        installed(fast, x, count)
        turning.wrong_from = 0
        for _ in range(3):
            fast(x, count)
        x = torch.randn(3, 8)
        assert torch.equal(fast(x, count), fn(x, count.clone()))
        assert not key_of(fast).plans
    finally:
        pijit.config.update(before)
