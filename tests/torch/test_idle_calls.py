"""Calls that nobody sees anything of, such as marks for a profiler: replays make them with no guard checked again."""

import collections.abc
import contextlib
import time
import typing
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.eval_frame import set_eval_frame

import pijit


def opaque_calls(function: Callable[..., object]) -> set[int]:
    """How many there are in each trace that serves."""
    return {trace.opaque_calls for trace in pijit.traces(function) if trace.replays > trace.exits}


def same(function: Callable[[Tensor], object], *, opaque: int = 0, calls: int = 5) -> None:
    """Each call as in plain Python, with another tensor each time; the last traces have so many opaque calls."""
    fast = pijit.jit(function)
    for seed in range(calls):
        x = torch.full((3,), float(seed))
        expected, given = function(x), fast(x)
        assert repr(given) == repr(expected)
        assert type(given) is type(expected)
    assert opaque_calls(fast) == {opaque}
    assert pijit.status(fast).state == "replaying"


def test_a_mark_for_a_profiler() -> None:
    def marked(x: Tensor) -> Tensor:
        with torch.autograd.profiler.record_function("marked"):
            y = x + 1
        return y * 2

    same(marked)


def test_a_mark_is_seen_by_a_profiler_that_comes_later() -> None:
    def marked(x: Tensor) -> Tensor:
        with torch.autograd.profiler.record_function("seen later"):
            return x + 1

    fast = pijit.jit(marked)
    for _ in range(4):
        fast(torch.ones(2))
    with torch.profiler.profile() as profile:
        fast(torch.ones(2))
    assert [event.name for event in profile.events()].count("seen later") == 1


def test_an_exception_in_the_middle_ends_the_mark() -> None:
    def marked(x: Tensor, limit: float) -> Tensor:
        with torch.autograd.profiler.record_function("marked"):
            if x.sum() > limit:
                raise ValueError(limit)
            return x + 1

    fast = pijit.jit(marked)
    for limit in (9.0, 9.0, 9.0, 1.0, 9.0, 1.0):
        with pytest.raises(ValueError, match="1.0") if limit < 3 else contextlib.nullcontext():
            assert torch.equal(fast(torch.ones(3), limit), torch.full((3,), 2.0))
    with torch.profiler.profile() as profile:  # nothing that began before is under way
        torch.ones(2) + 1
    assert "marked" not in [event.name for event in profile.events()]


def test_subclasses_are_off_inside_only() -> None:
    def off(x: Tensor) -> tuple[bool, bool, Tensor]:
        with torch._C.DisableTorchFunctionSubclass():
            inside = torch._C._is_torch_function_enabled()
            y = x + 1
        return inside, torch._C._is_torch_function_enabled(), y

    same(off)
    assert torch._C._is_torch_function_enabled()


def test_unions_and_optionals_made_by_a_call() -> None:
    def types(x: Tensor) -> tuple[object, object, object, Tensor]:
        return typing.Optional[Tensor], Tensor | tuple[Tensor], int | None | str, x + 1  # noqa: UP045

    same(types)


def test_a_metaclass_with_an_operator_of_its_own_is_called() -> None:
    class Meta(type):
        calls = 0

        def __or__(cls, other: object) -> str:
            Meta.calls += 1
            return f"{cls.__name__} or {other}"

    class Left(metaclass=Meta):
        pass

    class Right:
        pass

    def joined(x: Tensor) -> tuple[object, Tensor]:
        return Left | Right, x + 1

    fast = pijit.jit(joined)
    for _ in range(4):
        assert fast(torch.ones(1))[0] == f"Left or {Right}"
    assert Meta.calls == 4


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """torch.compile's hook is on, as in a function that it has compiled."""
    before = set_eval_frame(False)
    try:
        yield
    finally:
        set_eval_frame(before)


def test_a_hook_of_torch_compile_is_found_and_put_back() -> None:
    def unhooked(x: Tensor) -> tuple[object, object, Tensor]:
        before = set_eval_frame(None)
        y = x + 1
        between = set_eval_frame(before)
        return before, between, y

    fast = pijit.jit(unhooked)
    for _ in range(4):
        assert fast(torch.ones(1))[:2] == (None, None)
    assert opaque_calls(fast) == {0}
    with compiling():
        assert fast(torch.ones(1))[:2] == unhooked(torch.ones(1))[:2] == (False, None)
    assert fast(torch.ones(1))[:2] == (None, None)


def loss_of(model: nn.Module, x: Tensor) -> Tensor:
    return model(x).pow(2).mean()


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop])
def test_a_training_step_has_no_opaque_call(kind: type[torch.optim.Optimizer]) -> None:
    def make() -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
        optimizer = kind(model.parameters(), lr=0.1)

        def step(x: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = loss_of(model, x)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return model, step

    plain_model, plain = make()
    model, step = make()
    fast = pijit.jit(step)
    for seed in range(12):
        before = pijit.stats()
        x = torch.randn(5, 3, generator=torch.Generator().manual_seed(seed))
        assert torch.equal(fast(x), plain(x))
        after = pijit.stats()
    for mine, other in zip(model.parameters(), plain_model.parameters(), strict=True):
        assert torch.equal(mine, other)
        assert torch.equal(mine.grad, other.grad)
    assert after["replays"] - before["replays"] == 1
    assert after["exits"] == before["exits"]
    assert after["opaque_calls"] == before["opaque_calls"]


def test_clocks() -> None:
    """Each call reads them anew; a clock that the program puts in their place is called."""

    def timed(x: Tensor) -> tuple[Tensor, float, int]:
        begin, ticks = time.perf_counter(), time.monotonic_ns()
        y = x + 1
        return y, time.perf_counter() - begin, time.monotonic_ns() - ticks

    fast = pijit.jit(timed)
    started = time.time()
    for _ in range(6):
        y, seconds, nanoseconds = fast(torch.ones(2))
        assert torch.equal(y, torch.full((2,), 2.0))
        assert 0 < seconds < 60
        assert 0 < nanoseconds < 60e9
    assert opaque_calls(fast) == {0}
    later = pijit.jit(lambda: time.time() - started)
    seen = [later() for _ in range(6)]
    assert seen == sorted(seen)
    assert seen[0] >= 0
    kept = time.perf_counter
    try:
        time.perf_counter = iter(range(1, 100, 2)).__next__
        assert [fast(torch.ones(2))[1] for _ in range(4)] == [2, 2, 2, 2]
    finally:
        time.perf_counter = kept
    assert all(fast(torch.ones(2))[1] < 60 for _ in range(3))


def test_generic_aliases_made_by_a_call() -> None:
    def types(x: Tensor) -> tuple[object, object, object, object, Tensor]:
        pair, pairs = tuple[float, Tensor], collections.abc.Sequence[Tensor]
        return pair, pairs, dict[str, int], list[Tensor], x + 1

    same(types)


def test_a_metaclass_with_items_is_asked() -> None:
    class Meta(type):
        def __getitem__(cls, key: object) -> str:
            return f"{cls.__name__}[{key}]"

    class Keyed(metaclass=Meta):
        @classmethod
        def __class_getitem__(cls, key: object) -> str:
            return "never"

    class Plain:
        def __class_getitem__(cls, key: object) -> str:
            return f"{cls.__name__} of {key}"

    def items(x: Tensor) -> tuple[object, object, Tensor]:
        return Keyed[1], Plain[2], x + 1

    same(items)
