"""Forms that differ in sizes only have one plan, which answers under none of them before it was compared there."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from counted import Counted, in_threads
from torch import nn

import pijit
from pijit import _backend_names, _core, _varying_sizes
from pijit.compilers import _compared, _free_sizes, market
from pijit.compilers._queue import Job

pytestmark = pytest.mark.torch


@pytest.fixture
def flexible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(_compared, "told", set())
    backend = Counted("flexible")
    monkeypatch.setitem(_backend_names.registered, "flexible", backend)
    with torch.no_grad():
        yield backend
    market.wait(60)


def layers() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()


def called(fast: Any, fn: Any, *inputs: Any, times: int = 3) -> None:
    """Calls with one form until nothing is left to compile, each with other numbers; compares all results."""
    for _ in range(times):
        given = [torch.randn_like(each) if each.is_floating_point() else each for each in inputs]
        got, right = fast(*given), fn(*given)
        for one, other in zip(
            *((each,) if isinstance(each, torch.Tensor) else each for each in (got, right)), strict=True
        ):
            assert type(one) is type(other)
            assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
            if isinstance(one, torch.Tensor):
                assert one.stride() == other.stride()
        assert market.wait(60)


def keys(fast: Any) -> Any:
    return [key for trace in pijit.traces(fast) for segment in trace.segments for key in segment.keys]


def test_one_plan_for_many_sizes(flexible: Counted) -> None:
    module = layers()

    def fn(x: Any) -> Any:
        return module(x).exp() * 2

    fast = pijit.jit(fn, backend="flexible")
    for size in range(2, 20):
        called(fast, fn, torch.randn(size, 8))
    assert flexible.compiled == [False, False, True]
    shared = [key.form for key in keys(fast) if key.shared]
    assert "Float[7, 8]" in shared
    runs = flexible.runs
    for size in (7, 19, 4, 12):
        called(fast, fn, torch.randn(size, 8), times=1)
    assert flexible.runs == runs + 4


@pytest.fixture
def no_marks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(_varying_sizes, "_sizes", {})
    yield
    _core.set_varying_sizes([])


@pytest.mark.usefixtures("no_marks")
def test_sizes_that_are_said_to_vary_are_free_from_the_first_form_on(flexible: Counted) -> None:
    module = layers()

    def fn(x: Any) -> Any:
        return module(x).exp() * 2

    for dynamic, marked in ((True, False), (None, True)):
        flexible.compiled.clear()
        fast = pijit.jit(fn, backend="flexible", dynamic=dynamic)
        for size in (2, 3, 6, 9):
            x = torch.randn(size, 8)
            called(fast, fn, pijit.dynamic(x, 0) if marked else x)
        assert flexible.compiled == [True]  # 8 is what the weights say, though a multiple of 2 is said to vary
        assert [key.form for key in keys(fast) if key.shared] == [f"Float[{size}, 8]" for size in (2, 3, 6, 9)]
        runs = flexible.runs
        called(fast, fn, torch.randn(6, 8), times=1)
        assert flexible.runs == runs + 1


def test_sizes_are_never_free_where_they_are_fixed(flexible: Counted) -> None:
    module = layers()

    def fn(x: Any) -> Any:
        return module(x).exp() * 2

    fast = pijit.jit(fn, backend="flexible", dynamic=False)
    for size in (2, 3, 4, 5, 6):
        called(fast, fn, torch.randn(size, 8))
    assert flexible.compiled == [False] * 5
    assert len(pijit.traces(fast)) == 5


def test_nothing_is_free_where_operators_fix_all(flexible: Counted) -> None:
    weight = torch.randn(8, 8)

    def fn(x: Any) -> Any:
        return (weight @ x).exp() * 2 + weight

    fast = pijit.jit(fn, backend="flexible", dynamic=True)
    called(fast, fn, torch.randn(8, 8))
    assert flexible.compiled == [False]


def test_a_size_that_is_new_is_replayed_natively_and_compared_first(flexible: Counted) -> None:
    module = layers()

    def fn(x: Any) -> Any:
        return module(x).exp() * 2

    fast = pijit.jit(fn, backend="flexible")
    for size in (2, 3, 4, 5):
        called(fast, fn, torch.randn(size, 8))
    # Wrong for one size: it never answers there.
    flexible.around = lambda outputs: [outputs[0] + (outputs[0].shape[0] == 9)]
    for size in (6, 9, 7, 9):
        called(fast, fn, torch.randn(size, 8))
    by_form = {key.form: key for key in keys(fast)}
    assert not by_form["Float[9, 8]"].shared or not by_form["Float[9, 8]"].plans
    assert "differs from native replay" in by_form["Float[9, 8]"].refused["flexible"]


def test_numbers_that_follow_from_sizes(flexible: Counted) -> None:
    module = layers()

    def fn(x: Any) -> Any:
        rows = x.shape[0]
        y = module(x) / rows
        return y.reshape(-1, 2 * rows) + x.size(-1), y.shape[0] * 3, x.numel()

    fast = pijit.jit(fn, backend="flexible")
    for size in range(2, 12):
        called(fast, fn, torch.randn(size, 8))
    assert flexible.compiled.count(True) == 1
    assert len(flexible.compiled) <= 4


def test_numbers_that_come_into_a_segment(flexible: Counted) -> None:
    """What was computed of sizes before; what is no size is part of the key as ever."""
    module = layers()

    def fn(x: Any, scale: int) -> Any:
        twice = x.shape[0] * 2 + 1
        y = module(x)
        if float(y.sum()) > 1e9:
            return y
        return ((y / twice).exp() + scale).reshape(-1, twice - 1)

    fast = pijit.jit(fn, backend="flexible")
    for size in range(2, 10):
        for _ in range(3):
            x = torch.randn(size, 8)
            assert torch.equal(fast(x, 3), fn(x, 3))
            assert market.wait(60)
    behind = [key for trace in pijit.traces(fast) for key in trace.segments[-1].keys]
    assert sum(key.shared for key in behind) >= 5
    for scale in (3, 4, 5, 6, 3):
        for size in (4, 9, 12):
            for _ in range(2):
                x = torch.randn(size, 8)
                assert torch.equal(fast(x, scale), fn(x, scale))
                assert market.wait(60)


def test_decisions_on_sizes_hold_under_each_form(flexible: Counted) -> None:
    module = layers()

    def fn(x: Any) -> Any:
        y = module(x)
        if y.shape[0] % 2 == 0:
            return (y * 2).exp() + 1
        return (y * 3).sin() - 1

    fast = pijit.jit(fn, backend="flexible")
    for size in (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 2, 3, 12, 13):
        called(fast, fn, torch.randn(size, 8))


def test_sizes_that_the_recording_relates(flexible: Counted) -> None:
    def fn(x: Any, y: Any) -> Any:
        return (x + y).exp() * 2 + x.sum()

    fast = pijit.jit(fn, backend="flexible")
    for size in (3, 4, 5, 6, 7):
        called(fast, fn, torch.randn(size, 8), torch.randn(size, 8))
    # Broadcasting is another relation of the sizes.
    called(fast, fn, torch.randn(6, 8), torch.randn(1, 8))
    called(fast, fn, torch.randn(1, 8), torch.randn(7, 8))
    called(fast, fn, torch.randn(8, 8), torch.randn(8, 8))
    with pytest.raises(RuntimeError):
        fast(torch.randn(6, 8), torch.randn(5, 8))
    called(fast, fn, torch.randn(6, 8), torch.randn(6, 8))


@pytest.mark.parametrize(
    "other",
    [
        lambda: torch.randn(8, 6).t(),
        lambda: torch.randn(6, 8).double(),
        lambda: torch.randn(6 * 8 + 1)[1:].view(6, 8),
        lambda: torch.randn(12, 8)[::2],
        lambda: torch.randn(6, 8).requires_grad_(),
        lambda: torch.randn(1, 8),
        lambda: torch.randn(0, 8),
    ],
    ids=["strides", "dtype", "alignment", "stepped", "requires_grad", "one", "none"],
)
def test_what_differs_in_more_than_sizes_is_another_kind(flexible: Counted, other: Callable[[], Any]) -> None:
    def fn(x: Any) -> Any:
        return (x * 2).exp() + x.sin() + x.t().reshape(-1).sum()

    fast = pijit.jit(fn, backend="flexible")
    for size in (2, 3, 4, 5):
        called(fast, fn, torch.randn(size, 8))
    assert flexible.compiled == [False, False, True]
    for _ in range(4):
        x = other()
        assert torch.equal(fast(x), fn(x))
        assert market.wait(60)
    # Without gradients `requires_grad` is another key, and nothing that a plan computes with.
    assert sum(key.shared for key in keys(fast)) == (3 if other().requires_grad else 2)
    for size in (5, 6, 7):
        called(fast, fn, torch.randn(size, 8))


def test_weights_are_those_of_now_under_every_form(flexible: Counted) -> None:
    module = layers()

    def fn(x: Any) -> Any:
        return module(x).exp() * 2

    fast = pijit.jit(fn, backend="flexible")
    for size in range(2, 9):
        called(fast, fn, torch.randn(size, 8))
    for at, size in enumerate((5, 6, 30, 7, 31, 6, 32, 33, 5)):
        if at % 2:
            module[0].weight.mul_(1.1)
        else:
            module[2].weight.data = torch.randn(4, 16)
        called(fast, fn, torch.randn(size, 8))
    assert all(key.plans for key in keys(fast))
    module[2].weight = nn.Parameter(torch.randn(4, 16))
    for size in (5, 6, 5, 30):
        called(fast, fn, torch.randn(size, 8))
    for key in keys(fast):
        assert not any("dropped" in why for why in key.refused.values())


def test_weights_that_another_form_has_seen_in_between(flexible: Counted) -> None:
    """One form meets the first weights again, or others at their place, while the plan holds the second ones."""
    module = layers()
    memories = [bytearray(4 * 16 * 4) for _ in range(2)]
    kept = [torch.randn(4, 16) for _ in range(2)]

    def fn(x: Any) -> Any:
        return module(x).exp() * 2

    fast = pijit.jit(fn, backend="flexible")
    for size in range(2, 8):
        called(fast, fn, torch.randn(size, 8))
    for at in range(12):
        memories[at % 2][:] = torch.randn(4, 16).numpy().tobytes()  # as an allocator gives memory to another tensor
        module[2].weight.data = torch.frombuffer(memories[at % 2], dtype=torch.float32).view(4, 16)
        called(fast, fn, torch.randn((4, 5)[at % 2], 8), times=1)
    for at in range(12):
        module[2].weight.data = kept[at % 2]
        called(fast, fn, torch.randn((4, 5)[at % 2], 8), times=1)
    assert all(key.plans for key in keys(fast))
    runs = flexible.runs
    called(fast, fn, torch.randn(4, 8), times=1)
    assert flexible.runs == runs + 1


def test_weights_that_are_written_between_offer_and_comparison(flexible: Counted) -> None:
    """What the worker finds then is no difference: the engine compares again."""
    module = layers()

    def fn(x: Any) -> Any:
        return module(x).exp() * 2

    fast = pijit.jit(fn, backend="flexible")
    for size in (2, 3, 4):
        called(fast, fn, torch.randn(size, 8))
    x, written = torch.randn(6, 8), threading.Event()
    market._worker.submit(Job(lambda: written.wait(60) or None))
    assert torch.equal(fast(x), fn(x))
    module[0].weight.mul_(2)
    written.set()
    assert market.wait(60)
    called(fast, fn, torch.randn(6, 8), times=4)
    (key,) = [key for key in keys(fast) if key.form == "Float[6, 8]"]
    assert key.plans
    assert key.plans[0].runs > 0


def test_inputs_with_holes_and_expanded_ones(flexible: Counted) -> None:
    def fn(x: Any, y: Any) -> Any:
        return (x * y).exp() + x.sin(), y * 2

    fast = pijit.jit(fn, backend="flexible")
    for size in (2, 3, 4, 5, 6):
        for _ in range(4):
            whole = torch.randn(size, 24)
            x, y = whole[:, 8:16], torch.randn(1, 8).expand(size, 8)
            for one, other in zip(fast(x, y), fn(x, y), strict=True):
                assert torch.equal(one, other)
                assert one.stride() == other.stride()
            assert market.wait(60)
    assert flexible.compiled == [False, False, True]
    assert all(key.plans for key in keys(fast))
    threads: list[int] = []  # in which the plan runs: that of the calls, or one that compares

    def noted(outputs: Any) -> Any:
        threads.append(threading.get_ident())
        return outputs

    flexible.around = noted
    x = torch.randn(6, 8)
    for one, other in zip(fast(x, x), fn(x, x), strict=True):
        assert torch.equal(one, other)
    assert threading.get_ident() not in threads


def test_threads_call_while_sizes_become_free(flexible: Counted) -> None:
    module, wrong = layers(), []

    def fn(x: Any) -> Any:
        return module(x).exp() * 2

    fast = pijit.jit(fn, backend="flexible")

    def work(seed: int) -> None:
        with torch.no_grad():
            made = torch.Generator().manual_seed(seed)
            for at in range(150):
                x = torch.randn(2 + (seed + at) % 12, 8, generator=made)
                if not torch.equal(fast(x), fn(x)):
                    wrong.append((seed, at))

    in_threads(work, 3)
    assert not wrong
    assert market.wait(60)
    called(fast, fn, torch.randn(7, 8))


def test_a_forked_child_waits_for_nothing_of_its_parent(flexible: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    module, memos = layers(), []

    class Kept(_free_sizes.Memo):
        def __init__(self) -> None:
            super().__init__()
            memos.append(self)

    monkeypatch.setattr(_free_sizes, "Memo", Kept)

    def fn(x: Any) -> Any:
        return module(x).exp() * 2

    fast = pijit.jit(fn, backend="flexible")
    for size in (2, 3):
        called(fast, fn, torch.randn(size, 8))
    (memo,) = memos
    for kind in memo.kinds.values():
        kind.compiling = 1  # as while a plan of free sizes is compiled
    child = os.fork()
    if child == 0:
        right = False
        try:
            pijit.enable()
            for size in (4, 5, 6, 5):
                called(fast, fn, torch.randn(size, 8))
            right = flexible.compiled.count(True) == 1
        finally:
            os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_what_cannot_have_free_sizes_has_plans_of_its_own(flexible: Counted) -> None:
    module = layers()

    def fn(x: Any) -> Any:
        return module(x).exp() * 2

    flexible.refuses_symbols = True
    fast = pijit.jit(fn, backend="flexible")
    for size in range(2, 16):
        called(fast, fn, torch.randn(size, 8))
    assert flexible.compiled.count(True) == 1
    assert flexible.compiled.count(False) == 8


def test_a_form_that_becomes_frequent_gets_the_plan_of_another(flexible: Counted) -> None:
    module = layers()

    def fn(x: Any) -> Any:
        return module(x).exp() * 2

    flexible.refuses_symbols = True
    fast = pijit.jit(fn, backend="flexible")
    for size in range(2, 16):
        called(fast, fn, torch.randn(size, 8))
    for _ in range(40):
        called(fast, fn, torch.randn(15, 8), times=1)
    by_form = {key.form: key for key in keys(fast)}
    assert by_form["Float[15, 8]"].plans
    assert sum(bool(key.plans) for key in by_form.values()) == 8
    assert not by_form["Float[2, 8]"].plans
    compiled = len(flexible.compiled)
    for _ in range(5):  # forms in turns do not take each other's places
        for size in range(2, 16):
            called(fast, fn, torch.randn(size, 8), times=1)
    assert len(flexible.compiled) <= compiled + 2


def test_plans_of_forms_that_are_gone_are_closed(flexible: Counted) -> None:
    module = layers()

    def fn(x: Any) -> Any:
        return module(x).exp() * 2

    fast = pijit.jit(fn, backend="flexible")
    for size in range(2, 9):
        called(fast, fn, torch.randn(size, 8))
    assert flexible.closed == 0
    pijit.reset(fast)
    market._worker.submit(Job(lambda: None))
    assert market.wait(60)
    assert flexible.closed == len(flexible.compiled) == 3
    called(fast, fn, torch.randn(5, 8))


def test_more_forms_than_are_remembered(flexible: Counted) -> None:
    module = layers()

    def fn(x: Any) -> Any:
        return module(x).exp() * 2

    fast = pijit.jit(fn, backend="flexible")
    for _ in range(2):
        for size in range(2, 90):
            called(fast, fn, torch.randn(size, 8), times=1)
    assert len(keys(fast)) == 64
    assert flexible.compiled.count(True) == 1


def test_onnxruntime_under_many_sequence_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from pijit.compilers import pool

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(50, 16)
            self.inner = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

        def forward(self, x: Any) -> Any:
            h = self.embed(x) + torch.arange(x.shape[1]).unsqueeze(-1) / x.shape[1]
            q = h.view(x.shape[0], x.shape[1], 2, 8).transpose(1, 2)
            h = (q @ q.transpose(-1, -2)).softmax(-1) @ q
            return h.transpose(1, 2).reshape(x.shape[0], x.shape[1], 16).tanh()

    torch.manual_seed(0)
    model, submitted = Block().eval(), []
    submit = pool.submit
    monkeypatch.setattr(pool, "submit", lambda *args, **kwargs: submitted.append(args) or submit(*args, **kwargs))
    with torch.no_grad():
        fast = pijit.jit(lambda x: model(x), backend="onnxruntime")
        for length in range(3, 33):
            for _ in range(3):
                x = torch.randint(0, 50, (2, length))
                torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
                assert market.wait(120)
    assert len(submitted) <= 4
    found = keys(fast)
    assert len(found) == 30
    assert all(key.plans for key in found)
    assert all(key.plans[0].runs > 0 for key in found[3:])
