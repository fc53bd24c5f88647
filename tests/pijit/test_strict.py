"""strict=True: whatever leaves native replay raises, with code, place and what to try; nothing is left half changed."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pijit
from pijit.errors import StrictError

HERE = Path(__file__).name
DONE: list[int] = []


def clock(x: int) -> int:
    """A call that is not known to be safe to replay."""
    DONE.append(x)
    os.getpid()
    return x + 1


def raises(fast: Callable[..., Any], *arguments: Any) -> str:
    with pytest.raises(StrictError) as caught:
        fast(*arguments)
    return str(caught.value)


def line_of(text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.fixture(autouse=True)
def _afresh():
    DONE.clear()
    before = {name: getattr(pijit.config, name) for name in pijit.config}
    yield
    pijit.config.update(before)


def test_an_opaque_call_raises_when_it_is_done():
    fast = pijit.jit(clock, strict=True)
    told = raises(fast, 1)
    assert f"{HERE}:{line_of('os.getpid()')} in clock(): " in told
    assert "[PJ203]. Move the call out" in told
    assert DONE == [1]  # as after a plain call
    assert raises(fast, 1) == told  # a replay with the call in it
    assert raises(fast, 2) == told
    assert DONE == [1, 1, 2]


def test_a_stop_raises_when_it_is_done():
    @pijit.jit(strict=True)
    def frames(x):
        DONE.append(x)
        sys._getframe()  # the stop
        return x

    told = raises(frames, 1)
    assert f"{HERE}:{line_of('# the ' + 'stop')} in " in told
    assert [raises(frames, 1), raises(frames, 2)] == [told, told]
    assert DONE == [1, 1, 2]


def test_frames_that_are_left_to_cpython():
    def inner(x):
        sys._getframe()
        return x + len(DONE)

    @pijit.jit(strict=True)
    def outer(x):
        return inner(x) * 2

    told = raises(outer, 1)
    assert "[PJ2" in told
    assert [raises(outer, 1), raises(outer, 2)] == [told, told]


def test_an_exception_of_its_own_goes_first():
    @pijit.jit(strict=True)
    def fails(x):
        os.getpid()
        return 1 // x

    assert "[PJ203]" in raises(fails, 1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            fails(0)
    assert "[PJ203]" in raises(fails, 2)


def test_a_function_that_was_given_up_is_not_begun():
    table = {str(n): n for n in range(9)}

    @pijit.jit(strict=True)
    def f(key):
        DONE.append(1)
        return table[key]

    pijit.config.max_traces = 2
    assert [f(str(n)) for n in (1, 2)] == [1, 2]
    told = {raises(f, "5") for _ in range(70)}
    assert len(DONE) == 2
    assert pijit.status(f).state == "disabled"
    assert all(f"{HERE}:{line_of('def f(key)') - 1} in " in line and "[PJ102]. pijit.why" in line for line in told)
    assert "[PJ102]" in raises(f, "1")  # whatever the call is
    pijit.reset(f)
    assert [f("1"), f("1")] == [1, 1]


def test_an_argument_that_cannot_be_guarded():
    @pijit.jit(strict=True)
    def both(a, b):
        DONE.append(1)
        return len(a) + len(b)

    many = [1] * 1000
    told = [raises(both, many, many) for _ in range(5)]
    assert all("[PJ213]. Pass tensors, numbers, text" in line for line in told)
    assert DONE == []
    pijit.reset(both)
    assert [both([1], [2]), both([1], [2])] == [2, 2]


@pytest.mark.parametrize("switch", [sys.settrace, sys.setprofile])
def test_a_tracer_or_profiler(switch):
    @pijit.jit(strict=True)
    def f(x):
        DONE.append(x)
        return x + 1

    def watches(frame, event, argument):
        return None

    assert [f(1), f(1)] == [2, 2]
    switch(watches)
    try:
        with pytest.raises(StrictError) as caught:
            f(2)
    finally:
        switch(None)
    assert "[PJ217]" in str(caught.value)
    assert "watches" in str(caught.value)
    assert DONE == [1, 1]
    assert f(3) == 4


@pytest.mark.torch
def test_a_mode_of_the_framework():
    import torch

    fast = pijit.jit(lambda x: x + 1, strict=True)
    x = torch.ones(2)
    assert fast(x).tolist() == [2, 2]
    with torch.profiler.profile():
        assert fast(x).tolist() == [2, 2]
    with torch.autograd.detect_anomaly(check_nan=False):
        told = raises(fast, x)
    assert "anomaly mode is on [PJ216]. Call the function outside" in told
    assert fast(x).tolist() == [2, 2]
    with torch.profiler.profile(with_stack=True):
        told = raises(fast, x)
    assert "[PJ21" in told


@pytest.mark.torch
def test_a_replay_that_is_left():
    import torch

    @pijit.jit(strict=True)
    def branch(x):
        DONE.append(1)
        y = x + 1
        return y if x.sum() > 0 else -y  # the branch

    one = torch.ones(2)
    assert [branch(one).tolist() for _ in range(2)] == [[2, 2]] * 2
    told = raises(branch, -one)
    assert f"{HERE}:{line_of('# the ' + 'branch')} in " in told
    assert "[PJ105]. strict=True raises this" in told
    assert len(DONE) == 3
    assert branch(one).tolist() == [2, 2]


@pytest.mark.torch
def test_what_is_recorded_instead():
    """A call that no trace fits is recorded, as the first one was."""
    import torch

    fast = pijit.jit(lambda x, k: x * k, strict=True)
    for x in (torch.ones(2), torch.ones(2, 2), torch.ones(2, dtype=torch.float64)):
        for k in (2, 3):
            assert torch.equal(fast(x, k), x * k)


def test_a_stance_that_lets_nothing_be_recorded():
    fast = pijit.jit(clock_free, strict=True)
    with pijit.stance("replay_only"):
        assert 'the stance is "replay_only"' in raises(fast, 1)
    assert DONE == []
    assert [fast(1), fast(1)] == [2, 2]
    with pijit.stance("off"):
        assert fast("a") == "a1"
    with pijit.stance("fail_on_record"):
        assert 'the stance is "fail_on_record"' in raises(fast, "a")
    assert fast(2) == 3


def clock_free(x: Any) -> Any:
    DONE.append(x)
    return x + 1 if isinstance(x, int) else x + "1"


def test_another_thread_is_no_reason():
    """A replay that makes way for a thread goes on in CPython: nothing of the program has it do so."""

    @pijit.jit(strict=True)
    def total(n):
        s = 0
        for i in range(300):
            s += i * n
        return s

    expected = sum(i * 2 for i in range(300))
    assert total(2) == expected
    ended = threading.Event()
    busy = threading.Thread(target=lambda: [None for _ in iter(ended.is_set, True)])
    busy.start()
    try:
        assert all(total(2) == expected for _ in range(20_000))
    finally:
        ended.set()
        busy.join()
