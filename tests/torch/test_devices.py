"""Tensors of a second device, `twin`: what is replayed there equals eager, kernel by kernel and stream by stream.

`twin` is a backend outside of PyTorch that computes in the memory of the CPU (devices/twin.cpp). So what a GPU needs of
pijit is tested where there is none. The scenarios that CUDA runs too are in devices/scenarios.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import side_by_side
import torch
from devices import scenarios, twin
from devices.child import Child
from devices.scenarios import DEVICE, data
from side_by_side import Jit, replayed
from torch import nn

import pijit
from pijit import _core, api
from pijit.tools import doctor

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(twin.compiler() is None, reason="needs a C++ compiler"),
]

TABLE = side_by_side.Table(scenarios.TABLE)
scenario = TABLE.add


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    made = Child(__file__)
    yield made
    made.end()


@scenario(whole=False)
def a_draw_that_fails(jit: Jit) -> Iterator[Any]:
    """What it has drawn before it failed is not drawn twice."""
    f = jit(lambda x, rate: x.clone().exponential_(rate))
    for rate in (1.0, 1.0, 13.0, 1.0, 13.0):
        yield lambda: f(data(1), rate)
    own = torch.Generator(DEVICE)
    g = jit(lambda x, rate: torch.empty_like(x).exponential_(rate, generator=own))
    for rate in (1.0, 1.0, 13.0, 1.0):
        yield lambda: (g(data(1), rate), own.get_state().sum())


@scenario(whole=False)
def during_a_capture(jit: Jit) -> Iterator[Any]:
    """Neither recorded nor replayed."""
    f = jit(lambda x: x * 2 + 1)
    yield lambda: f(data(1))
    for _ in range(2):
        torch.twin.capture(True)
        try:
            yield lambda: f(data(2))
        finally:
            torch.twin.capture(False)
        yield replayed(lambda: f(data(3)))


@scenario(whole=False)
def streams_that_are_not_told(jit: Jit) -> Iterator[Any]:
    """As during a capture."""
    f = jit(lambda x: x * 2 + 1)
    for seed in range(6):
        torch.twin.silence(seed % 3 == 0)
        call = lambda seed=seed: (f(data(seed)), torch.twin.silence(False))  # noqa: E731
        yield replayed(call) if seed % 3 == 2 else call


@scenario(whole=False)
def a_capture_within(jit: Jit) -> Iterator[Any]:
    def f(x: Any) -> Any:
        y = x + 1
        torch.twin.capture(True)
        try:
            return y * 2
        finally:
            torch.twin.capture(False)

    f = jit(f)
    for seed in range(4):
        yield lambda: f(data(seed))


@scenario()
def moved_by_its_own_method(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: (x.twin() * 2, x.is_twin))
    yield lambda: f(data(1, device="cpu"))
    yield replayed(lambda: f(data(2, device="cpu")))


@scenario()
def text_model(jit: Jit) -> Iterator[Any]:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    made = transformers.BertModel(transformers.BertConfig(vocab_size=50, **sizes))
    model = jit(scenarios.filled(made).eval())
    with torch.no_grad():
        for seed in range(3):
            words = torch.randint(50, (1, 6), generator=torch.Generator().manual_seed(seed)).to(DEVICE)
            call = lambda words=words: model(words).last_hidden_state  # noqa: E731
            yield replayed(call) if seed else call
    assert isinstance(made, nn.Module)


@scenario()
def a_kernel_of_its_own_for_gradients(jit: Jit) -> Iterator[Any]:
    """It runs where no gradients are recorded, too."""
    f = jit(lambda x: torch.nn.functional.silu(x * 2))
    with torch.no_grad():
        yield lambda: f(data(1))
        yield replayed(lambda: f(data(2)))


# what pijit says and makes of a device; each runs in the child


def says_which_mode_is_another() -> None:
    f = pijit.jit(lambda x: torch.softmax(x * 2, -1))
    for _ in range(2):
        f(data(1))
    with torch.Stream(DEVICE):
        f(data(1))
    said = pijit.why(f)
    assert said.startswith("current stream of twin:0: ")
    assert said.endswith(" now, 0 before")
    g = pijit.jit(lambda: torch.ones(2, device=DEVICE))
    g()
    with torch.accelerator.device_index(1):
        g()
    assert pijit.why(g) == "current device of twin: 1 now, 0 before"
    assert "device twin:1" in pijit.traces(g)[1].modes


def a_trace_of_the_cpu_asks_no_device() -> None:
    f, g = pijit.jit(lambda x: x + 1), pijit.jit(lambda x: x.cpu() + 1)
    f(torch.ones(2))
    g(torch.ones(2, device=DEVICE))
    asks = ["current device of twin" in pijit.traces(each)[0].guards[0].text for each in (f, g)]
    assert asks == [False, True]


def can_tell_of_captures() -> None:
    if not hasattr(torch.Stream, "is_capturing"):
        pytest.skip("in this torch CUDA alone tells of captures")


def says_that_a_capture_is_under_way() -> None:
    can_tell_of_captures()
    f = pijit.jit(lambda x: x + 1)
    x = data(1)
    f(x)
    torch.twin.capture(True)
    try:
        f(x)
        assert "the current stream of a device is captured" in pijit.status(f).reason
        with pytest.raises(pijit.errors.StrictError):
            pijit.jit(lambda x: x + 1, strict=True)(x)
    finally:
        torch.twin.capture(False)


def is_seen_first_during_a_capture() -> None:
    """What was recorded until then is left where the device is met; later calls are replayed as ever."""
    can_tell_of_captures()
    f = pijit.jit(lambda x: x + 1)
    torch.twin.capture(True)
    assert torch.equal(f(data(1)), data(1) + 1)
    torch.twin.capture(False)
    assert "the current stream of a device is captured" in pijit.status(f).reason
    exits = []
    for seed in range(40):
        assert torch.equal(f(data(seed)), data(seed) + 1)
        exits.append(_core.root_report(api.root_of(f))["exits"])
    assert pijit.status(f).state == "replaying"
    assert exits[-1] == exits[-10], exits


def makes_graphs_of_it() -> None:
    model, x = scenarios.mlp(), data(1)
    with torch.no_grad():
        graph = pijit.graph.capture(model, x)
        for seed in (2, 3):
            x = data(seed, 5, 4)
            expected = model(x)
            assert torch.equal(graph.run(x), expected)
            for form in ("fx", "code"):
                assert torch.equal(pijit.export(model, data(1), format=form)(x), expected)
        loaded = pijit.graph.Graph.from_json(graph.to_json())  # the numbers of a file are on the CPU
        torch.testing.assert_close(loaded.run(x.cpu()), expected.cpu())


def puts_its_generators_back() -> None:
    x = data(1)
    before = torch.twin.random_state(0)
    found = pijit.verify(lambda x: torch.nn.functional.dropout(x, 0.5) + 1, x)
    assert found.same, str(found)
    assert torch.twin.random_state(0) == before


def is_listed() -> None:
    assert "\ndevices: cpu, 2 of twin\n" in doctor.environment()


SAID = (
    says_which_mode_is_another,
    a_trace_of_the_cpu_asks_no_device,
    says_that_a_capture_is_under_way,
    makes_graphs_of_it,
    puts_its_generators_back,
    is_listed,
)


@pytest.mark.parametrize("name", [each.__name__ for each in SAID])
def test_said_of_twin(child: Child, name: str) -> None:
    assert child.ask(name) == ""


def test_seen_first_during_a_capture() -> None:
    child = Child(__file__)
    assert child.ask(is_seen_first_during_a_capture.__name__) == ""
    child.end()


@pytest.mark.parametrize("name", TABLE.cases())
def test_same_on_twin(child: Child, name: str) -> None:
    assert child.ask(name) == ""
