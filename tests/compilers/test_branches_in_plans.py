"""A backend is given a graph with both sides of decisions: it compiles them, or torch runs them between what it has."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch

from pijit.compilers import get
from pijit.graph import Graph, capture_branches

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def without_gradients() -> Any:
    with torch.no_grad():
        yield


torch.manual_seed(0)
MIX, TABLE = torch.randn(4, 4), torch.randn(5, 4)


def sides(x: Any) -> Any:
    y = torch.tanh(x @ MIX) + 1
    y = torch.sin(y) * 2 if x.sum() > 12 else torch.cos(y @ MIX)
    return (torch.relu(y) * 3 - 1) @ MIX


def nested(x: Any) -> Any:
    y = x * 2
    if y.sum() > 0:
        y = y + 1 if y.max() > 3 else y - 1
    else:
        y = y.abs()
    return y @ MIX


def settles(x: Any) -> Any:
    total, x = x.exp().sum(), x * 1.5
    while x.abs().max() > 1:
        x = x * 0.6
        total = total + x.sum()
    return (total * x) @ MIX


def doubles(x: Any) -> Any:
    x = torch.cat([x, x + 1]).exp() * 0.01
    while x.sum() < 50:
        x = torch.cat([x, x + 1])
    return x.tanh() + 1


def looks_up(x: Any) -> Any:
    places = (x.abs().sum(0) * 2).long()
    y = TABLE[places] * 2 if x.sum() > 0 else x.exp() + 1
    return y.tanh() * 3


class Case(NamedTuple):
    """A program, shapes of its argument to be captured, and what is added to it in calls of each kind."""

    run: Any
    shown: tuple[Any, ...]
    others: tuple[Any, ...]
    torch_runs: str = ""


def full(*numbers: float) -> tuple[Any, ...]:
    return tuple(torch.arange(16.0).reshape(4, 4) / 16 + number for number in numbers)


CASES = {
    "sides": Case(sides, full(1, -1), full(3, -3, 0.2)),
    "nested": Case(nested, full(1, -2, 0.01, 3), full(5, -1, 0.1)),
    "settles": Case(settles, full(-0.5, 1, 3), full(-0.4, 2, 9)),
    "doubles": Case(doubles, full(-1, 0, 1), full(-2, 2), "while"),
    "looks up": Case(looks_up, full(0.05, -1), full(0.01, -2), "cond"),
}
BACKENDS = {
    "xla": "jax",
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
    "iree": "iree.runtime",
    "torchscript": "torch",
}
THEIR_OWN = ("xla", "onnxruntime")


def captured(case: Case) -> Graph:
    first, *also = case.shown
    graph = capture_branches(case.run, (first,), also=[(each,) for each in also])
    assert {"cond", "while"} & {node.op for node in graph.nodes}
    return graph


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_plan_goes_both_ways(backend: str, name: str) -> None:
    pytest.importorskip(BACKENDS[backend])
    case = CASES[name]
    made, graph = get(backend), captured(case)
    plan = made.compile(graph)
    for x in (*case.shown, *case.others, *case.shown):
        (found,) = plan(x)
        expected = case.run(x)
        assert found.shape == expected.shape
        assert torch.allclose(found, expected, rtol=1e-4, atol=1e-5)
    left = " ".join(plan.left_out)
    if backend in THEIR_OWN:
        assert ("cond" in left or "while" in left) == bool(case.torch_runs)
    assert case.torch_runs in left
    plan.close()


class Gate(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(4))

    def forward(self, x: Any) -> Any:
        return (x * self.scale if x.sum() > 0 else x - self.scale).exp() + 1


@pytest.mark.parametrize("backend", ["xla", "onnxruntime", "torchscript"])
def test_both_ways_see_weights_that_were_written(backend: str) -> None:
    pytest.importorskip(BACKENDS[backend])
    gate = Gate()
    graph = capture_branches(gate, (torch.ones(4),), also=[(-torch.ones(4),)])
    plan = get(backend).compile(graph)
    for scale in (1.0, 3.0):
        gate.scale.fill_(scale)
        plan.rebind(graph.data)
        for x in (torch.ones(4) * 0.5, -torch.ones(4)):
            assert torch.allclose(plan(x)[0], gate(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", ["xla", "onnxruntime"])
def test_what_raises_on_one_side_raises(backend: str) -> None:
    """A compiler would give a number for an index that is out of range; torch runs that side, and raises."""
    pytest.importorskip(BACKENDS[backend])
    plan = get(backend).compile(captured(CASES["looks up"]))
    (far,) = full(1.0)
    for _ in range(2):
        with pytest.raises(IndexError):
            looks_up(far)
        with pytest.raises(IndexError):
            plan(far)
        assert torch.allclose(plan(-far)[0], looks_up(-far), rtol=1e-4, atol=1e-5)
