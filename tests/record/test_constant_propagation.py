"""What is read of configuration is a constant: the number of guards does not grow with the rounds of loops or with
inlined calls, and the pass switch shows what it is without that.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pijit

SETTINGS = {"causal": True, "width": 3, "rate": 0.5}
LIMIT = 7


class Config:
    def __init__(self) -> None:
        self.layers, self.heads, self.mode, self.scale = 3, 3, "mean", 2.0
        self.nested = types.SimpleNamespace(flag=False, shift=1)

    @property
    def is_mean(self) -> bool:
        return self.mode == "mean"


def loops(config: Config, x: int, rounds: int) -> int:
    """Three loops; all branches depend on configuration only."""
    for _ in range(rounds):
        for head in range(config.heads):
            for i in range(SETTINGS["width"]):
                if SETTINGS["causal"] and i > head:
                    continue
                if config.nested.flag:
                    x -= 1
                elif config.is_mean and LIMIT > 5:
                    x = inner(config, x)
                while config.scale < 1:
                    x += 5
    return x


def inner(config: Config, x: int) -> int:
    return x + config.nested.shift if SETTINGS["rate"] < 1 else -x


def guards_of(function: Callable[..., Any], *arguments: Any) -> int:
    """Guards of the trace of a first call: at entry, and of branches inside."""
    fast = pijit.jit(function)
    expected = function(*arguments)
    assert fast(*arguments) == expected
    assert fast(*arguments) == expected
    (trace,) = pijit.traces(fast)
    assert (trace.ends, trace.opaque_calls, trace.replays, trace.exits) == ("return", 0, 1, 0)
    return len(trace.guards) + sum(node.op.startswith("guard") for node in trace.nodes)


@pytest.fixture
def without() -> Iterator[None]:
    before = pijit.config.update({"constant_propagation": False, "loops": "unroll"})
    yield
    pijit.config.update(before)


def test_rounds_add_no_guards() -> None:
    few, more, many = (guards_of(loops, Config(), 5, rounds) for rounds in (2, 20, 200))
    assert few == more == many


def test_rounds_add_guards_without_it(without: None) -> None:
    few, more, many = (guards_of(loops, Config(), 5, rounds) for rounds in (2, 20, 200))
    assert more - few >= 18 * 9
    assert many - more >= 180 * 9


def test_the_same_trace_serves_a_config_that_did_not_change() -> None:
    """Constants are guarded: a change between calls is noticed by the next one."""
    config, fast = Config(), pijit.jit(loops)
    for change in (
        lambda: None,
        lambda: setattr(config, "mode", "sum"),
        lambda: setattr(config.nested, "flag", True),
        lambda: setattr(config, "heads", 2),
        lambda: SETTINGS.update(causal=False),
        lambda: SETTINGS.update(causal=True),
        lambda: setattr(config, "nested", types.SimpleNamespace(flag=False, shift=4)),
    ):
        change()
        for _ in range(2):
            assert fast(config, 5, 4) == loops(config, 5, 4)


class Layer:
    def __init__(self, config: Config) -> None:
        self.config, self.weights, self.active = config, [1, 2], True

    def __call__(self, x: int) -> int:
        if not self.active or self.config.nested.flag:
            return x
        return x * self.weights[0] + self.weights[1]


def stack(layers: list[Layer], x: int, times: int) -> int:
    for _ in range(times):
        for layer in layers:
            x = layer(x) % 1000
    return x


def test_inlined_calls_add_guards_for_what_is_read_only() -> None:
    """One more layer reads one more list, and one more instance: its class, and three of its attributes."""
    config = Config()

    def guards(count: int, times: int = 1) -> int:
        layers = [Layer(config) for _ in range(count)]
        return guards_of(lambda x: stack(layers, x, times), 1)

    two, three, ten = guards(2), guards(3), guards(10)
    assert ten - three == 7 * (three - two)
    assert three - two <= 5
    assert guards(3, times=50) == three
