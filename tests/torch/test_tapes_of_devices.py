"""Tapes of steps on a device, whose gradients the engine computes in a thread of its own: all bits as in plain Python,
kernel by kernel and stream by stream.

Without a GPU they run on `twin` (devices/twin.cpp); `make test-cuda` runs the same on CUDA.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from devices import child as children
from devices import scenarios
from devices.both import on_both
from devices.scenarios import DEVICE, data, filled
from taped_steps import facts, tapes
from torch import Tensor, nn

import pijit

pytestmark = [pytest.mark.torch]

CALLS = 8
Step = Callable[[Tensor, Tensor], Any]
Make = Callable[[], tuple[nn.Module, Step]]


def log() -> list[str]:
    """Kernels that have run on `twin` since it was asked last, with their streams."""
    return [] if DEVICE == "cuda" else children.kernels(torch.twin.take_log())


def ran(make: Make, jitted: bool) -> tuple[list[Any], Any]:
    """What may be compared of each call, and the step."""
    torch.manual_seed(1)
    model, step = make()
    run = pijit.jit(step) if jitted else step
    calls = []
    for seed in range(CALLS):
        torch.manual_seed(seed)
        log()
        try:
            given = run(data(seed, 3, 5, 8), data(seed + 1, 3, 5, 8))
        except Exception as error:
            given = repr(error)
        kernels = log()
        drawn = torch.rand(2, device=DEVICE)
        gradients = [facts(each.grad) for each in model.parameters()]
        calls.append((facts(given) if isinstance(given, Tensor) else given, gradients, facts(drawn), kernels))
        scenarios.changed(model, seed)
    return calls, run


def check(make: Make, of_kernels: Callable[[list[str]], Any] = list) -> list[Any]:
    """Both sides do the same, as far as `of_kernels` tells; the tapes of the one that is jitted."""
    (plain, _), (replayed, step) = ran(make, False), ran(make, True)
    for at, (right, found) in enumerate(zip(plain, replayed, strict=True)):
        for what, a, b in zip(("result", "gradients", "draws", "kernels"), right, found, strict=True):
            if what == "kernels":
                a, b = of_kernels(a), of_kernels(b)
            assert a == b, (at, what, a, b)
    return tapes(step)


def stepping(model: nn.Module, loss_of: Callable[[Tensor, Tensor], Tensor], zeroed: bool = True) -> Step:
    def step(x: Tensor, y: Tensor) -> Tensor:
        if zeroed:
            for each in model.parameters():
                each.grad = None
        loss = loss_of(model(x), y)
        loss.backward()
        return loss.detach()

    return step


def squares(y: Tensor, right: Tensor) -> Tensor:
    return ((y - right) ** 2).mean()


def blocks() -> nn.Module:
    return filled(
        nn.Sequential(
            nn.Linear(8, 8), nn.GELU(), nn.Dropout(0.3), scenarios.Attention(), nn.LayerNorm(8), nn.Dropout(0.1)
        )
    )


def served(rows: list[Any], least: int = CALLS - 4) -> None:
    (row,) = rows
    assert row["runs"] >= least, row
    assert row["left"] == 0, row


def a_step_with_draws() -> None:
    def make() -> tuple[nn.Module, Step]:
        model = blocks()
        return model, stepping(model, squares)

    served(check(make))


def gradients_that_gather() -> None:
    """They are added when all of them are there."""

    def make() -> tuple[nn.Module, Step]:
        model = blocks()
        return model, stepping(model, squares, zeroed=False)

    served(check(make, sorted))


def gradients_that_are_given() -> None:
    def make() -> tuple[nn.Module, Step]:
        model = blocks()

        def step(x: Tensor, y: Tensor) -> Tensor:
            given = torch.autograd.grad(squares(model(x), y), list(model.parameters()))
            return sum(each.sum() for each in given).detach()

        return model, step

    served(check(make))


def under_autocast() -> None:
    def make() -> tuple[nn.Module, Step]:
        model = blocks()
        inner = stepping(model, lambda y, right: squares(y.float(), right))

        def step(x: Tensor, y: Tensor) -> Tensor:
            with torch.autocast(DEVICE, dtype=torch.bfloat16):
                return inner(x, y)

        return model, step

    check(make)


def on_a_stream_of_its_own() -> None:
    """It is current for the whole step."""

    def make() -> tuple[nn.Module, Step]:
        model, stream = blocks(), torch.Stream(DEVICE)
        inner = stepping(model, squares)

        def step(x: Tensor, y: Tensor) -> Tensor:
            stream.wait_stream(torch.accelerator.current_stream())
            with stream:
                loss = inner(x, y)
            torch.accelerator.current_stream().wait_stream(stream)
            return loss

        return model, step

    check(make)


def streams_that_differ() -> None:
    """The engine goes back to the stream of the forward pass, whichever is current behind it."""

    def make() -> tuple[nn.Module, Step]:
        model, stream = blocks(), torch.Stream(DEVICE)

        def step(x: Tensor, y: Tensor) -> Tensor:
            for each in model.parameters():
                each.grad = None
            loss = squares(model(x), y)
            stream.wait_stream(torch.accelerator.current_stream())
            with stream:
                loss.backward()
            torch.accelerator.current_stream().wait_stream(stream)
            return loss.detach()

        return model, step

    rows = check(make)
    assert all(row["tapes"] == 0 or row["runs"] == 0 for row in rows), rows


def left_before_the_engine() -> None:
    """What the tape has done is done once more with autograd, on the same draws."""

    def make() -> tuple[nn.Module, Step]:
        model, calls = blocks(), []

        def step(x: Tensor, y: Tensor) -> Any:
            for each in model.parameters():
                each.grad = None
            loss = squares(model(x), y)
            calls.append(len(calls))
            if len(calls) == CALLS - 1:
                raise ValueError("no more")
            loss.backward()
            return loss.detach()

        return model, step

    check(make, set)


def a_loss_of_the_cpu() -> None:
    """The engine works in two threads."""

    def make() -> tuple[nn.Module, Step]:
        model = blocks()
        return model, stepping(model, lambda y, right: squares(y.cpu(), right.cpu()))

    rows = check(make)
    assert all(row["tapes"] == 0 for row in rows), rows


def two_devices() -> None:
    if scenarios.COUNT < 2:
        pytest.skip("needs two devices")

    def make() -> tuple[nn.Module, Step]:
        model = nn.ModuleList([filled(nn.Linear(8, 8)), filled(nn.Linear(8, 8), 5).to(scenarios.OTHER)])

        def step(x: Tensor, y: Tensor) -> Tensor:
            for each in model.parameters():
                each.grad = None
            loss = squares(model[1](model[0](x).to(scenarios.OTHER)), y.to(scenarios.OTHER))
            loss.backward()
            return loss.detach()

        return model, step

    rows = check(make)
    assert all(row["tapes"] == 0 for row in rows), rows


def on_the_other_device() -> None:
    """Which is not the current one."""
    if scenarios.COUNT < 2:
        pytest.skip("needs two devices")

    def make() -> tuple[nn.Module, Step]:
        model = blocks().to(scenarios.OTHER)
        inner = stepping(model, squares)
        return model, lambda x, y: inner(x.to(scenarios.OTHER), y.to(scenarios.OTHER))

    served(check(make))


CASES = (
    a_step_with_draws,
    gradients_that_gather,
    gradients_that_are_given,
    under_autocast,
    on_a_stream_of_its_own,
    streams_that_differ,
    left_before_the_engine,
    a_loss_of_the_cpu,
    two_devices,
    on_the_other_device,
)
child, test_on_twin, test_on_cuda = on_both(__file__, CASES)
