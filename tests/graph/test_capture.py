"""A call becomes a graph: once, with the names of the program, and right for other inputs and weights."""

from __future__ import annotations

import contextvars
import copy
import sys
import types
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_flatten

import pijit
from pijit.errors import ExportError, UsageError
from pijit.graph import Graph, Node, Value, capture

pytestmark = pytest.mark.torch


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.register_buffer("scale", torch.full((width,), 0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x)))) * self.scale


class Net(nn.Module):
    def __init__(self, width: int = 8, depth: int = 3) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.calls = 0
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None, flat: bool = False) -> Any:
        self.calls += 1
        for block in self.blocks:
            x = block(x)
        if mask is not None:
            x = x.masked_fill(mask[..., None], 0)
        pooled = x.mean(1)
        return pooled.flatten() if flat else {"states": (x,), "pooled": pooled}


def assert_same(one: Any, other: Any) -> None:
    (ones, spec), (others, other_spec) = tree_flatten(one), tree_flatten(other)
    assert spec == other_spec
    for a, b in zip(ones, others, strict=True):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)


def test_a_module():
    net = Net()
    graph = capture(net, torch.randn(2, 5, 8), mask=torch.zeros(2, 5, dtype=torch.bool))
    assert net.calls == 1
    assert [value.type for value in graph.inputs] == ["float32[x_0, x_1, 8]", "bool[x_0, x_1]"]
    assert [value.name for value in graph.inputs] == ["x", "mask"]
    assert {value.path: value.role for value in graph.parameters} == {
        **{name: "parameter" for name, _ in net.named_parameters()},
        **{name: "buffer" for name, _ in net.named_buffers()},
    }
    assert graph.symbols == {"x_0": 2, "x_1": 5}
    assert graph.is_neutral
    assert not graph.foreign
    assert not graph.breaks
    assert graph.parts == (graph,)
    (blocks,) = graph.region.regions
    assert [region.path for region in blocks.regions] == [f"blocks.{at}" for at in range(3)]
    assert [region.type for region in blocks.regions[0].regions] == ["LayerNorm", "Linear", "Linear"]
    linear = next(node for node in graph.nodes if node.op == "linear")
    assert (linear.region, linear.origin) == ("blocks.0.up", "aten::linear")
    assert linear.file == __file__
    assert "self.up(self.norm(x))" in open(__file__).read().splitlines()[linear.line - 1]
    for sizes in ((2, 5), (3, 7), (2, 5)):  # other sizes, then other weights
        x, mask = torch.randn(*sizes, 8), torch.rand(*sizes) > 0.5
        assert_same(graph.run(x, mask), net(x, mask))
        assert_same(graph.run(mask=mask, x=x), net(x, mask))
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.add_(0.1)


def test_what_is_fixed_is_a_number():
    graph = capture(lambda x, y: (x + y) @ torch.ones(4, 2), torch.randn(3, 4), torch.randn(1, 4))
    assert [value.type for value in graph.inputs] == ["float32[x_0, 4]", "float32[1, 4]"]
    same = capture(lambda x, y: x + y, torch.randn(3), torch.randn(3))
    assert {size for value in same.inputs for size in value.shape} == {"x_0"}


def test_sizes_are_computed():
    def halves(x: torch.Tensor) -> torch.Tensor:
        rows = x.shape[0] // 2
        return x[:rows].reshape(rows, -1) * rows + x.shape[1] / 2

    graph = capture(halves, torch.randn(6, 4))
    assert graph.results[0].shape == ("(x_0//2)", "x_1") or "x_0" in str(graph.results[0].shape[0])
    for rows in (6, 8, 9):
        x = torch.randn(rows, 4)
        assert_same(graph.run(x), halves(x))


def test_a_decision_on_sizes():
    def step(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] > 3 else x + 1

    graph = capture(step, torch.randn(5))
    assert [node.op for node in graph.nodes if not node.results] == ["check"]
    assert_same(graph.run(torch.ones(7)), step(torch.ones(7)))
    with pytest.raises(ExportError, match=r"test_capture.py:\d+: the program decides on a size here: False now, True"):
        graph.run(torch.ones(2))


def test_a_decision_on_data_splits():
    def step(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        return y - 1 if y.sum() > 0 else y + 1

    graph = capture(step, torch.ones(5))
    before, decision, after = graph.parts
    assert isinstance(before, Graph)
    assert isinstance(decision, Node)
    assert isinstance(after, Graph)
    assert decision.op == "python::decision"
    assert decision.place.startswith(__file__)
    assert graph.breaks == (decision,)
    assert not graph.is_neutral
    x = torch.rand(5)
    with pytest.raises(ExportError, match=r"test_capture.py:\d+: graph step is split here, at decision"):
        graph.run(x)
    given = dict(zip([value.name for value in before.outputs], before.run(x), strict=True))
    assert given[decision.operands[0].name]
    found = after.run(**{value.name: {**given, "x": x}[value.name] for value in after.inputs})
    assert_same(found[0], step(x))


def test_an_opaque_call_splits():
    def step(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y = y.numpy().copy()
        return torch.from_numpy(y) + 1

    graph = capture(step, torch.ones(5))
    assert graph.breaks
    assert all(isinstance(part, Graph | Node) for part in graph.parts)
    assert any(node.line for node in graph.breaks)


def test_effects_are_told():
    class Counts(nn.Module):
        calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            self.last = x * 2
            return x + self.calls

    module = Counts()
    graph = capture(module, torch.ones(3))
    assert module.calls == 1
    assert {effect.what for effect in graph.effects} == {"setattr"}
    assert [value.name for effect in graph.effects for value in effect.values] == ["multiply"]


def test_it_runs_once_and_leaves_traces_alone():
    net = Net(depth=1)
    fast = pijit.jit(net)
    x = torch.randn(2, 3, 8)
    fast(x), fast(x)
    before = pijit.status(fast), len(pijit.traces(fast)), pijit.stats()["replays"]
    graph = capture(fast, x)
    assert net.calls == 3
    assert (pijit.status(fast), len(pijit.traces(fast)), pijit.stats()["replays"]) == before
    assert_same(graph.run(x), fast(x))
    assert pijit.status(capture).state == "cold"


def test_methods_functions_and_names():
    net = Net(depth=1)

    class Runner:
        def __init__(self) -> None:
            self.net = net

        def run(self, batch: dict[str, Any], *rest: torch.Tensor) -> Any:
            return self.net(batch["x"])["pooled"] + batch["more"][1] + rest[0]

    x, more, rest = torch.randn(2, 3, 8), [torch.ones(8), torch.ones(8)], torch.ones(8)
    for fn in (Runner().run, lambda batch, *rest: net(batch["x"])["pooled"] + batch["more"][1] + rest[0]):
        graph = capture(fn, {"x": x, "more": more}, rest)
        assert [value.name for value in graph.inputs] == ["batch_x", "batch_more_0", "batch_more_1", "arg_1"]
        assert_same(graph.run(x, *more, rest), fn({"x": x, "more": more}, rest))
        x = x + 1
    assert {value.path.split(".", 1)[1] for value in graph.parameters} == {
        name for name, _ in (*net.named_parameters(), *net.named_buffers())
    }
    assert capture(net.forward, x).parameters[0].path.startswith("blocks.0.")


def test_one_tensor_twice_and_tied_weights():
    one, other = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    other.weight = one.weight
    net = nn.Sequential(one, other)
    graph = capture(lambda a, b: net(a) + net(b), *[torch.randn(2, 4)] * 2)
    assert len(graph.inputs) == 1
    assert len(graph.parameters) == 1


def test_what_is_raised_is_raised():
    def fails(x: torch.Tensor) -> torch.Tensor:
        return x @ torch.ones(7)

    with pytest.raises(RuntimeError, match="inconsistent tensor size"):
        capture(fails, torch.ones(3))


def test_bad_input():
    with pytest.raises(UsageError, match="capture"):
        capture("net", torch.ones(3))  # type: ignore[arg-type]
    graph = capture(lambda x, y: x + y, torch.ones(3), torch.ones(3))
    for args, named, message in (
        ((torch.ones(3),), {}, "needs its input 'y'"),
        ((torch.ones(3),) * 3, {}, "takes 2 inputs"),
        ((torch.ones(3),), {"z": torch.ones(3)}, "no input 'z'"),
        ((torch.ones(3),), {"x": torch.ones(3)}, "'x' twice"),
    ):
        with pytest.raises(UsageError, match=message):
            graph.run(*args, **named)
    with pytest.raises(UsageError, match="no framework is called 'torhc'.*nearest is 'torch'"):
        graph.run(torch.ones(3), torch.ones(3), framework="torhc")
    with pytest.raises(ExportError, match=r"test_capture\.py:\d+: .* returns an object that a graph cannot give"):
        capture(lambda x: (x + 1, object), torch.ones(2))


def test_a_framework_that_is_missing_or_does_not_load_is_an_error_that_says_so(monkeypatch: Any) -> None:
    graph, x = capture(Net(), torch.ones(2, 8)), torch.ones(2, 8)
    before = graph.run(x, framework="numpy")
    with monkeypatch.context() as patch:
        patch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(UsageError, match="needs the package mindspore: pip install mindspore 'numpy<2'"):
            graph.run(x, framework="mindspore")

    def broken(name: str) -> Any:
        raise AttributeError("numpy has no StringDType")

    with monkeypatch.context() as patch:
        patch.setattr("importlib.import_module", broken)
        with pytest.raises(UsageError, match=r"'numpy' does not load: AttributeError: numpy has no StringDType"):
            graph.run(x, framework="numpy")
    np.testing.assert_equal(graph.run(x, framework="numpy"), before)


def test_a_call_that_is_not_recorded():
    def generated(x: torch.Tensor):
        yield x + 1

    with pytest.raises((ExportError, UsageError), match="generated|generator|returns an object"):
        capture(generated, torch.ones(2))


def writes() -> dict[str, Any]:
    def momentum(weight: torch.Tensor, buffer: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        buffer.mul_(0.9).add_(grad)
        weight.add_(buffer, alpha=-0.1)
        return weight.sum()

    def view(x: torch.Tensor) -> torch.Tensor:
        rows = x[1:]
        before = rows * 1
        rows.mul_(2)
        x.view(-1)[0] = 5
        return before + rows

    def of_views(x: torch.Tensor) -> torch.Tensor:
        x.transpose(0, 1)[0].add_(1)
        x[0, 1:].zero_()
        y = x.reshape(-1).clone()
        y[2] = 7
        return y

    def relu(x: torch.Tensor) -> torch.Tensor:
        return torch.relu_(x * 2) + x

    def dropout(x: torch.Tensor) -> torch.Tensor:
        y = x.flatten(1)
        torch.nn.functional.dropout(y, 0.5, training=False, inplace=True)
        return y.add_(1) + x.sum()

    return {
        "dropout": (dropout, [(3, 4)]),
        "momentum": (momentum, [(3, 4)] * 3),
        "view": (view, [(3, 4)]),
        "of_views": (of_views, [(3, 4)]),
        "relu": (relu, [(3, 4)]),
    }


@pytest.mark.parametrize("name", sorted(writes()))
def test_without_writes(name: str):
    fn, shapes = writes()[name]
    inputs = [torch.randn(shape) for shape in shapes]
    graph = pijit.graph.build.capture.captured(fn, tuple(copy.deepcopy(inputs)), {}, dynamic=False)
    pure = graph.functional()
    assert not any(node.writes for node in pure.nodes)
    assert any(node.writes for node in graph.nodes)
    assert set(graph.written) == set(pure.written)
    for _ in range(2):
        inputs = [torch.randn(shape) for shape in shapes]
        plain, own, kept = (copy.deepcopy(inputs) for _ in range(3))
        expected = fn(*plain)
        assert_same(graph.run(*own), expected)
        assert_same(own, plain)
        outputs, updates = pure.run(*kept, updates=True)
        assert_same(outputs, expected)
        assert_same(kept, inputs)
        for value, array, before in zip(graph.inputs, plain, inputs, strict=True):
            assert_same(updates.get(value.name, before), array)
        assert value.role == "input"
        assert isinstance(value, Value)


def with_arrays(x: torch.Tensor) -> Any:
    steps = torch.from_numpy(np.arange(4.0, dtype=np.float32))
    ones = torch.tensor(np.ones(4, np.dtype("int32")) * 3)
    return x * steps + ones, torch.from_numpy(np.array([1, 2, 3, 4], float)) * x


def test_arrays_of_numpy_in_a_dtype_are_constants() -> None:
    graph = capture(with_arrays, torch.randn(3, 4))
    assert not graph.breaks
    for size in (3, 5):
        x = torch.randn(size, 4)
        assert_same(graph.run(x), with_arrays(x))


def test_a_library_that_is_imported_in_part_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    variable = contextvars.ContextVar("variable", default=1)

    def function(x: Any) -> Any:
        token = variable.set(3)
        try:
            return x * variable.get()
        finally:
            variable.reset(token)

    monkeypatch.setitem(sys.modules, "mindspore", types.ModuleType("mindspore"))
    x = torch.ones(2)
    for _ in range(2):
        assert torch.equal(pijit.graph.capture(function, x).run(x), function(x))
