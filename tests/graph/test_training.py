"""A training step as one graph: forward, backward and optimizer, run in torch and in JAX as the step itself."""

from __future__ import annotations

import copy
import dataclasses
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import pijit
from pijit import errors
from pijit.graph import Graph, capture

pytestmark = pytest.mark.torch
HAS_JAX = importlib.util.find_spec("jax") is not None and importlib.util.find_spec("pijit.graph.forms.jax") is not None

Step = Callable[..., torch.Tensor]
Make = Callable[[nn.Module], torch.optim.Optimizer]


def mlp() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def classify(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


def batches(count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(5, 8, generator=generator), torch.randint(0, 4, (5,), generator=generator)) for _ in range(count)
    ]


def momentum(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=0.01)


def state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """Parameters, gradients and the state of the optimizer."""
    found = {}
    for name, parameter in model.named_parameters():
        found[name] = parameter.detach()
        if parameter.grad is not None:
            found[f"{name}.grad"] = parameter.grad
        for key, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, torch.Tensor):
                found[f"{name}.{key}"] = value
    return {name: tensor.detach().clone() for name, tensor in found.items()}


def differences(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> float:
    assert a.keys() == b.keys()
    return max(float((a[name].double() - b[name].double()).abs().max()) for name in a)


class Twin:
    """A model with its optimizer after two steps, the graph of the third, and an equal pair that takes plain steps."""

    def __init__(self, model: nn.Module, make: Make, step: Step, data: Any) -> None:
        self.model, self.step = model, step
        self.optimizer = make(model)
        for arguments in data[:2]:
            step(model, self.optimizer, *arguments)
        self.plain = copy.deepcopy(model)
        self.plain_optimizer = make(self.plain)
        self.plain_optimizer.load_state_dict(copy.deepcopy(self.optimizer.state_dict()))
        for mine, theirs in zip(self.plain.parameters(), model.parameters(), strict=True):
            mine.grad = None if theirs.grad is None else theirs.grad.clone()
        torch.manual_seed(7)
        expected = step(self.plain, self.plain_optimizer, *data[2])
        torch.manual_seed(7)
        self.graph: Graph = capture(step, model, self.optimizer, *data[2])
        self.loss = expected
        self.check(0.0)

    def check(self, tolerance: float) -> None:
        assert differences(state(self.model, self.optimizer), state(self.plain, self.plain_optimizer)) <= tolerance

    def tensors(self) -> dict[str, torch.Tensor]:
        """What the graph calls each tensor of the plain pair."""
        where = {id(tensor): name for name, tensor in self.graph.data.items()}
        found = {}
        pairs = zip(self.model.named_parameters(), self.plain.parameters(), strict=True)
        for (_, mine), theirs in pairs:
            found[where[id(mine)]] = theirs.detach()
            if theirs.grad is not None:
                found[where[id(mine.grad)]] = theirs.grad
            for key, value in self.optimizer.state.get(mine, {}).items():
                if id(value) in where:
                    found[where[id(value)]] = self.plain_optimizer.state[theirs][key]
        return {name: tensor.clone() for name, tensor in found.items()}

    def run_torch(self, arguments: Any, tolerance: float) -> None:
        """One step of the graph, which writes to the model's own tensors, beside a plain one."""
        before = self.tensors()
        torch.manual_seed(11)
        expected = self.step(self.plain, self.plain_optimizer, *arguments)
        torch.manual_seed(11)
        loss, updates = self.graph.run(*arguments, updates=True)
        assert abs(float(loss - expected)) <= tolerance
        self.compare(before, updates, tolerance)

    def compare(self, before: dict[str, torch.Tensor], updates: dict[str, torch.Tensor], tolerance: float) -> None:
        """The updates are what the plain step has made; it has changed nothing else."""
        theirs = self.tensors()
        assert {name for name in theirs if not torch.equal(theirs[name], before[name])} <= set(updates)
        assert set(updates) <= set(theirs)
        assert (
            differences({name: each.detach() for name, each in updates.items()}, {n: theirs[n] for n in updates})
            <= tolerance
        )

    def run_jax(self, data: Any, tolerance: float) -> None:
        """Steps of the graph that hand on what they update."""
        graph = self.graph
        for arguments in data:
            before = self.tensors()
            expected = self.step(self.plain, self.plain_optimizer, *arguments)
            loss, updates = graph.run(*arguments, framework="jax", updates=True)
            assert abs(float(loss) - float(expected)) <= tolerance
            got = {name: torch.from_numpy(np.array(array)) for name, array in updates.items()}
            self.compare(before, got, tolerance)
            graph = dataclasses.replace(graph, data={**graph.data, **got})


@pytest.mark.parametrize("make", [momentum, adamw])
def test_an_mlp(make: Make) -> None:
    data = batches(6)
    twin = Twin(mlp(), make, classify, data)
    assert not twin.graph.breaks
    assert twin.graph.is_neutral, twin.graph.foreign
    assert len(twin.graph.parts) == 1
    for arguments in data[3:]:
        twin.run_torch(arguments, 1e-6)


@pytest.mark.skipif(not HAS_JAX, reason="JAX is not there")
@pytest.mark.parametrize("make", [momentum, adamw])
def test_an_mlp_in_jax(make: Make) -> None:
    data = batches(6)
    Twin(mlp(), make, classify, data).run_jax(data[3:], 1e-4)


def bert() -> nn.Module:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        vocab_size=100,
        max_position_embeddings=32,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    made: nn.Module = transformers.BertForSequenceClassification(config).train()
    return made


def classify_text(
    model: nn.Module, optimizer: torch.optim.Optimizer, ids: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    optimizer.zero_grad()
    loss = model(input_ids=ids, labels=labels).loss
    loss.backward()
    optimizer.step()
    return loss.detach()


def texts(count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randint(0, 100, (3, 10), generator=generator), torch.randint(0, 2, (3,), generator=generator))
        for _ in range(count)
    ]


def small_adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def test_bert() -> None:
    """In a process of its own: after the tests of torch in one process, what is recorded has opaque calls."""
    command = [sys.executable, __file__, check_bert.__name__]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "checked\n"


def check_bert() -> None:
    data = texts(5)
    twin = Twin(bert(), small_adamw, classify_text, data)
    assert not twin.graph.breaks
    assert twin.graph.is_neutral, twin.graph.foreign
    for arguments in data[3:]:
        twin.run_torch(arguments, 1e-6)
    print("checked")


@pytest.mark.slow
@pytest.mark.skipif(not HAS_JAX, reason="JAX is not there")
def test_bert_in_jax() -> None:
    data = texts(5)
    Twin(bert(), small_adamw, classify_text, data).run_jax(data[3:], 1e-4)


@pytest.fixture
def alexnet() -> Any:
    sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
    try:
        return importlib.import_module("alexnet")
    finally:
        sys.path.pop(0)


def images(alexnet: Any, count: int) -> list[tuple[torch.Tensor]]:
    return [(alexnet.images(seed)[:2],) for seed in range(count)]


def narrow(alexnet: Any, width: int) -> nn.Module:
    """An AlexNet whose linear layers are of this width; 4096: the whole one."""
    torch.manual_seed(0)
    model: nn.Module = alexnet.AlexNet(classes=10).train()
    if width != 4096:
        layers = [nn.Dropout(0.5), nn.Linear(256 * 6 * 6, width), nn.ReLU(inplace=True), nn.Dropout(0.5)]
        model.classifier = nn.Sequential(*layers, nn.Linear(width, 10))
    return model


WIDTHS = [32, pytest.param(4096, marks=pytest.mark.slow)]


@pytest.mark.parametrize("width", WIDTHS)
def test_alexnet(alexnet: Any, width: int) -> None:
    """Its dropout draws from the same generator."""
    data = images(alexnet, 5)
    twin = Twin(narrow(alexnet, width), alexnet.optimizer_of, alexnet.step, data)
    assert not twin.graph.breaks
    assert any(node.random for node in twin.graph.nodes)
    for arguments in data[3:]:
        twin.run_torch(arguments, 1e-6)


@pytest.mark.slow
@pytest.mark.skipif(not HAS_JAX, reason="JAX is not there")
@pytest.mark.parametrize("width", WIDTHS)
def test_alexnet_without_dropout_in_jax(alexnet: Any, width: int) -> None:
    data = images(alexnet, 5)
    model = narrow(alexnet, width)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    twin = Twin(model, alexnet.optimizer_of, alexnet.step, data)
    twin.run_jax(data[3:], 1e-4)


def accumulate(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    return loss.detach()


def test_gradients_that_add_up() -> None:
    """Without zero_grad, what a parameter has for a gradient is written to."""
    data = batches(5)
    twin = Twin(mlp(), momentum, accumulate, data)
    assert not twin.graph.breaks
    for arguments in data[3:]:
        twin.run_torch(arguments, 0.0)


def halve(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad(set_to_none=False)
    loss = nn.functional.mse_loss(model(x)[:, 0], y.float())
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter.grad.mul_(0.5)
    optimizer.step()
    return loss.detach()


def test_gradients_that_are_changed_before_the_optimizer_takes_them() -> None:
    data = batches(5)
    twin = Twin(mlp(), momentum, halve, data)
    assert not twin.graph.breaks, twin.graph.breaks
    for arguments in data[3:]:
        twin.run_torch(arguments, 1e-6)


def test_where_its_nodes_come_from() -> None:
    """Those of the backward pass come from the module and the line of what they are the gradient of."""
    data = batches(3)
    graph = Twin(mlp(), momentum, classify, data).graph
    (backward,) = (node for node in graph.nodes if node.op == "threshold_backward")
    (forward,) = (node for node in graph.nodes if node.op == "relu")
    assert (backward.region, backward.place) == (forward.region, forward.place)
    assert forward.region


def test_other_sizes() -> None:
    """Numbers in a backward pass come from sizes: it holds for these only."""
    data = batches(3)
    graph = Twin(mlp(), momentum, classify, data).graph
    (x, y) = data[2]
    with pytest.raises(errors.ExportError, match="5 when it was captured"):
        graph.run(x[:4], y[:4])
    graph.run(x, y)


class Counter:
    count = 0


def test_a_number_that_changes_from_step_to_step() -> None:
    """A graph would freeze it."""
    model, counter = mlp(), Counter()
    optimizer = momentum(model)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = classify(model, optimizer, x, y) * counter.count
        counter.count += 1
        return loss

    data = batches(3)
    for arguments in data[:2]:
        step(*arguments)
    with pytest.raises(errors.ExportError, match="keeps the number 'count'"):
        capture(step, *data[2])
    assert counter.count == 3


class Note:
    """An object of the program."""

    number = 0


@pijit.opaque
def show(note: Note) -> None:
    """Code that is not looked into."""
    note.shown = True


def test_a_number_of_an_object_that_the_step_makes() -> None:
    """No later call finds it."""
    model = mlp()
    optimizer = momentum(model)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        note = Note()
        show(note)
        note.number = 3
        return classify(model, optimizer, x, y) * note.number

    data = batches(3)
    for arguments in data[:2]:
        step(*arguments)
    graph = capture(step, *data[2])
    assert graph.effects  # the call of `show`


def test_opaque_calls_without_tensors_are_effects() -> None:
    written: list[str] = []

    def step(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        print("between", file=Writer(written))
        return y + 1

    x = torch.ones(3)
    for at in (1, 2):
        graph = capture(step, x * at)
        assert not graph.breaks
        assert any(effect.what == "print" for effect in graph.effects)
        assert torch.equal(graph.run(x * 3), torch.full((3,), 7.0))
        assert "".join(written) == "between\n" * at


class Attention(nn.Module):
    """Attention without dropout, and a batch norm that is frozen: operators that could draw, and write."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner, self.norm = nn.Linear(8, 8), nn.BatchNorm1d(2).eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = self.norm(self.inner(x).view(5, 2, 4)).unsqueeze(1)
        return nn.functional.scaled_dot_product_attention(heads, heads, heads).flatten(1)


def test_what_draws_nothing_and_writes_nothing_is_neither() -> None:
    model, plain = Attention(), Attention()
    optimizers = momentum(model), momentum(plain)
    data = [(x, y) for x, y in batches(4)]
    for x, y in data[:2]:
        for each, optimizer in zip((model, plain), optimizers, strict=True):
            classify(each, optimizer, x, y)
    graph = capture(classify, model, optimizers[0], *data[2])
    classify(plain, optimizers[1], *data[2])
    assert not any(node.random for node in graph.nodes)
    assert not any("running" in name for name in graph.written)
    torch.testing.assert_close(graph.run(*data[3]), classify(plain, optimizers[1], *data[3]))
    for (name, mine), theirs in zip(model.state_dict().items(), plain.state_dict().values(), strict=True):
        torch.testing.assert_close(mine, theirs, msg=name)


class Writer:
    def __init__(self, written: list[str]) -> None:
        self.write = written.append


if __name__ == "__main__":
    globals()[sys.argv[1]]()
