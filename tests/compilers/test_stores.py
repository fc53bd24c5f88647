"""Stores into attributes and containers do not end a segment: they are done, in order, when the plan has run."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import pytest
import torch
from counted import Counted
from torch import Tensor

import pijit
from pijit import _backend_names
from pijit.compilers import market

pytestmark = pytest.mark.torch


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    made = Counted("counted")
    made.symbolic = False
    monkeypatch.setitem(_backend_names.registered, "counted", made)
    with torch.no_grad():
        yield made
    market.wait(60)


class Kept:
    """What a call leaves."""

    def __init__(self) -> None:
        self.first: Any = None
        self.last: Any = None
        self.count = 0
        self.named: dict[str, Any] = {"a": None}
        self.listed: list[Any] = [None, None]

    def all(self) -> list[Any]:
        return [self.first, self.last, *self.named.values(), *self.listed]


def step(x: Tensor, kept: Kept) -> Tensor:
    y = (x * 2).exp()
    kept.first = y
    z = (y + x).tanh()
    kept.named["a"] = z
    kept.count = 7
    kept.listed[1] = y * z
    kept.first = z + 1
    kept.last = x
    return (z.sin() + kept.first).softmax(-1)


def settled(fast: Any, *arguments: Any) -> None:
    for _ in range(10):  # a call with another object is recorded again, until the object may be any
        fast(*[each() if callable(each) else each for each in arguments])
        assert market.wait(60)


def segments(fast: Any) -> list[Any]:
    return [each for trace in pijit.traces(fast) for each in trace.segments]


def data(seed: int, *shape: int) -> Tensor:
    return torch.randn(*(shape or (3, 4)), generator=torch.Generator().manual_seed(seed))


def test_all_that_is_stored_is_there(backend: Counted) -> None:
    fast = pijit.jit(step, backend="counted")
    settled(fast, data(0), Kept)
    for seed in range(1, 4):
        mine, right, runs = Kept(), Kept(), backend.runs
        x = data(seed)
        assert torch.equal(fast(x, mine), step(x, right))
        assert backend.runs > runs
        assert mine.last is x
        assert mine.count == right.count
        assert list(vars(mine)) == list(vars(right))
        for one, other in zip(mine.all(), right.all(), strict=True):
            assert one is other if other is None else torch.equal(one, other)
        assert mine.first.untyped_storage().data_ptr() != mine.named["a"].untyped_storage().data_ptr()
    held = weakref.ref(mine.named["a"])
    mine = right = None
    gc.collect()
    assert held() is None


def test_what_is_only_stored_is_an_output(backend: Counted) -> None:
    """Nothing else reads it, and it is let go where native replay has stored it."""

    def fn(x: Tensor, kept: Kept) -> Tensor:
        kept.first = (x * 3).exp() - x
        kept.last = kept.first.sum(-1).tanh()
        return (x + 1).sin().cos()

    fast = pijit.jit(fn, backend="counted")
    for seed in range(8):
        for shape in ((3, 4), (2, 5)):
            mine, right = Kept(), Kept()
            assert torch.equal(fast(data(seed, *shape), mine), fn(data(seed, *shape), right))
            assert torch.equal(mine.first, right.first)
            assert torch.equal(mine.last, right.last)
            assert market.wait(60)
    assert backend.runs > 8


def test_an_object_that_cannot_be_written_like_that(backend: Counted) -> None:
    """A store that fails leaves the call to native replay, and that to CPython, with all stores done once more."""

    class Proud(Kept):
        def __setattr__(self, name: str, value: Any) -> None:
            object.__setattr__(self, name, (type(self).__name__, value))

    fast = pijit.jit(step, backend="counted")
    settled(fast, data(0), Kept)
    for kind in (Proud, Kept):
        mine, right = kind(), kind()
        if kind is Proud:
            for each in (mine, right):
                object.__setattr__(each, "named", {"a": 1})
                object.__setattr__(each, "listed", [1, 2])
        results = []
        for call, kept in ((fast, mine), (step, right)):
            try:
                results.append(call(data(5), kept))
            except TypeError as error:
                results.append(str(error))
        assert type(results[0]) is type(results[1])
        assert results[0] == results[1] if isinstance(results[0], str) else torch.equal(*results)
        assert list(vars(mine)) == list(vars(right))
        assert str(vars(mine)) == str(vars(right))


def test_a_call_that_raises_behind_the_stores(backend: Counted) -> None:
    def fn(x: Tensor, kept: Kept, table: Any) -> Tensor:
        y = (x * 2).exp() + x
        kept.first = y.tanh()
        kept.last = kept.first * y
        z = kept.last.sin() + y
        return z[table["at"]]

    fast = pijit.jit(fn, backend="counted")
    settled(fast, data(0), Kept, {"at": 1})
    for table in ({"at": 1}, {}, {"at": 9}, {"at": 0}):
        mine, right, results = Kept(), Kept(), []
        for call, kept in ((fast, mine), (fn, right)):
            try:
                results.append(call(data(2), kept, table))
            except (KeyError, IndexError) as error:
                results.append(repr(error))
        assert results[0] == results[1] if isinstance(results[0], str) else torch.equal(*results)
        assert torch.equal(mine.first, right.first)
        assert torch.equal(mine.last, right.last)


def test_a_language_model_with_its_cache_is_one_segment(backend: Counted) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
    config = transformers.LlamaConfig(vocab_size=64, num_key_value_heads=2, **sizes)
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).eval()
    fast = pijit.jit(lambda words, cache: model(words, past_key_values=cache), backend="counted")

    def words(seed: int) -> Tensor:
        return torch.randint(64, (1, 6), generator=torch.Generator().manual_seed(seed))

    def cache() -> Any:
        return transformers.DynamicCache(config=config)

    settled(fast, words(0), cache)
    assert all(each.share > 0.9 for each in segments(fast)), segments(fast)
    for seed in range(1, 4):
        mine, right, runs = cache(), cache(), backend.runs
        assert torch.equal(fast(words(seed), mine).logits, model(words(seed), past_key_values=right).logits)
        assert backend.runs == runs + 1
        for one, other in zip(mine.layers, right.layers, strict=True):
            assert torch.equal(one.keys, other.keys)
            assert torch.equal(one.values, other.values)


context: ContextVar[Any] = ContextVar("context", default="nothing")
other: ContextVar[Any] = ContextVar("other", default=None)


class Setting:
    """A block in which the variable is set."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __enter__(self) -> None:
        self.token = context.set(self.value)

    def __exit__(self, *why: object) -> None:
        context.reset(self.token)


def collected(x: Tensor) -> Tensor:
    y = (x * 2).exp()
    token = context.set({"layers": 2})
    z = y.sin() + 1
    context.reset(token)
    return (z.tanh() + y).softmax(-1)


def nested(x: Tensor) -> Tensor:
    with Setting("outer"):
        y = (x * 2).exp()
        with Setting("inner"):
            y = y.sin() + 1
            token = other.set(3)
        y = y.tanh() + x
        other.reset(token)
    return y.softmax(-1)


def raising(x: Tensor) -> Tensor:
    token = context.set("set")
    try:
        y = (x * 2).exp().sin() + 1
        y = y @ torch.ones(4, 3)
    finally:
        context.reset(token)
    return y.softmax(-1) * 2


@pytest.mark.parametrize("fn", [collected, nested, raising])
def test_a_variable_of_the_context_that_is_set_and_set_back(backend: Counted, fn: Callable[[Tensor], Tensor]) -> None:
    fast = pijit.jit(fn, backend="counted")
    settled(fast, data(0))
    for seed in range(1, 4):
        runs = backend.runs
        assert torch.equal(fast(data(seed)), fn(data(seed)))
        assert backend.runs == runs + 1
        assert (context.get(), other.get()) == ("nothing", None)
    (segment,) = segments(fast)
    assert segment.share == 1
    with Setting("around"):
        assert torch.equal(fast(data(5)), fn(data(5)))
        assert context.get() == "around"
    wide = data(6, 3, 5)
    outcomes = []
    for each in (fn, fast):
        try:
            outcomes.append(each(wide).tolist())
        except RuntimeError as error:
            outcomes.append(str(error))
        assert (context.get(), other.get()) == ("nothing", None)
    assert outcomes[0] == outcomes[1]


def left_set(x: Tensor, _: Any) -> Tensor:
    y = (x * 2).exp().sin() + 1
    context.set("left")
    y = (y * 2).tanh() + x
    other.set([1])
    return (y * 3).softmax(-1)


def set_back_later(x: Tensor, token: Any) -> Tensor:
    y = (x * 2).exp().sin() + 1
    context.reset(token)
    return ((y * 2).tanh() + x).softmax(-1)


@pytest.mark.parametrize("fn", [left_set, set_back_later])
def test_a_variable_of_the_context_that_stays_as_it_is_set(backend: Counted, fn: Callable[..., Tensor]) -> None:
    """Or is set back by another one than who set it: that ends a segment."""
    fast = pijit.jit(fn, backend="counted")
    for seed in range(12):
        seen = []
        for each in (fn, fast):
            first, second = context.set("before"), other.set("other")
            token = context.set(seed)
            made = each(data(seed), token)
            seen.append((made.tolist(), context.get(), other.get()))
            other.reset(second)
            context.reset(first)
        assert seen[0] == seen[1]
        assert market.wait(60)
    assert len(segments(fast)) > 1
