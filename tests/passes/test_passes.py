"""Each pass: the graph before and after, and that it computes the same bits; and what it must leave alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from pijit import passes
from pijit.errors import ConfigError, UsageError
from pijit.graph import Graph, capture

pytestmark = pytest.mark.torch


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes if node.op != "check"]


def inputs(graph: Graph, seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shape = [torch.Size([graph.symbols.get(size, size) for size in value.shape]) for value in graph.inputs]
    made = [torch.randn(each, generator=generator) for each in shape]
    for each in made:
        if each.numel() > 4:
            each.view(-1)[:4] = torch.tensor([0.0, -0.0, float("nan"), float("inf")])
    return made


def bits(tensor: torch.Tensor) -> list[Any]:
    return [tensor.dtype, tensor.shape, tensor.stride(), tensor.contiguous().view(-1).view(torch.uint8).tolist()]


def flat(found: Any) -> list[torch.Tensor]:
    return [each for each in torch.utils._pytree.tree_leaves(found) if isinstance(each, torch.Tensor)]


def same_bits(before: Graph, after: Graph) -> None:
    """Results have the same bits on two inputs, and share memory with each other and with inputs as before."""
    for seed in range(2):
        made = []
        for graph in (before, after):
            given = inputs(graph, seed)
            torch.manual_seed(seed)
            results = flat(graph.run(*given))
            together = [*given, *results]
            storages = [each.untyped_storage().data_ptr() for each in together]
            made.append(
                (
                    [bits(each) for each in together],
                    [storages.index(each) for each in storages],
                    [[a is b for b in together] for a in together],
                )
            )
        assert made[0] == made[1]


def check(name: str, fn: Callable[..., Any], given: list[torch.Tensor], before: list[str], after: list[str]) -> Graph:
    with torch.no_grad():
        graph = capture(fn, *given)
    assert ops(graph) == before
    made = passes.run(graph, only=[name], fold=True)
    assert ops(made) == after
    if before == after:
        assert made is graph
    same_bits(graph, made)
    again = passes.run(made, only=[name], fold=True)
    assert ops(again) == after
    same_bits(graph, again)
    return made


X = [torch.ones(3, 4)]


class TestDeadCode:
    def test_what_nobody_uses_goes(self) -> None:
        def fn(x: torch.Tensor) -> torch.Tensor:
            y = x.exp()
            y.sin()
            return y.cos()

        check("dead_code", fn, X, ["exp", "sin", "cos"], ["exp", "cos"])

    def test_writes_and_draws_stay(self) -> None:
        def fn(x: torch.Tensor) -> torch.Tensor:
            y = x.exp()
            y.mul_(2)
            torch.rand(2)
            return y

        check("dead_code", fn, X, ["exp", "multiply", "aten::rand"], ["exp", "multiply", "aten::rand"])

    def test_the_modules_are_those_of_what_is_left(self) -> None:
        class Two(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.used, self.unused = nn.ReLU(), nn.Tanh()

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                self.unused(x)
                return self.used(x)

        made = check("dead_code", Two(), X, ["tanh", "relu"], ["relu"])
        assert [each.path for each in made.region.regions] == ["used"]
        assert made.region.regions[0].nodes == (0,)


class TestCommonSubexpressions:
    def test_equal_operators_are_computed_once(self) -> None:
        def fn(x: torch.Tensor) -> torch.Tensor:
            return x.exp().sin() + x.exp().sin() * 2

        before = ["exp", "sin", "exp", "sin", "multiply", "add"]
        check("common_subexpressions", fn, X, before, ["exp", "sin", "multiply", "add"])

    def test_other_arguments_are_other_operators(self) -> None:
        def fn(x: torch.Tensor) -> torch.Tensor:
            return (x + 0.0) / (x + -0.0) + x.sum(0) + x.sum(0, dtype=torch.float64) + x.mul(True) + x.mul(1)

        with torch.no_grad():
            graph = capture(fn, *X)
        assert passes.run(graph, only=["common_subexpressions"]) is graph

    def test_two_results_stay_two_tensors(self) -> None:
        def fn(x: torch.Tensor) -> Any:
            return x.exp(), x.exp()

        check("common_subexpressions", fn, X, ["exp", "exp"], ["exp", "exp"])

    def test_views_of_two_results_stay_apart(self) -> None:
        def fn(x: torch.Tensor) -> Any:
            return x.exp()[0], x.exp()[1]

        check(
            "common_subexpressions", fn, X, ["exp", "getitem", "exp", "getitem"], ["exp", "getitem", "exp", "getitem"]
        )

    def test_three_of_which_one_is_given(self) -> None:
        def fn(x: torch.Tensor) -> Any:
            return x.exp().sin(), x.exp(), x.exp().cos()

        check("common_subexpressions", fn, X, ["exp", "sin", "exp", "exp", "cos"], ["exp", "sin", "cos"])

    def test_what_is_written_is_not_shared(self) -> None:
        def fn(x: torch.Tensor) -> torch.Tensor:
            y = x.exp()
            z = x.exp()
            y[0].mul_(2)
            return y.sin() + z

        with torch.no_grad():
            graph = capture(fn, *X)
        made = passes.run(graph, only=["common_subexpressions"])
        assert ops(made).count("exp") == 2
        same_bits(graph, made)

    def test_a_write_between_makes_another_value(self) -> None:
        def fn(x: torch.Tensor) -> torch.Tensor:
            y = x * 2
            a = y.exp()
            y.t().add_(1)
            return a.sin() + y.exp()

        with torch.no_grad():
            graph = capture(fn, *X)
        made = passes.run(graph, only=["common_subexpressions"])
        assert ops(made).count("exp") == 2
        same_bits(graph, made)

    def test_random_numbers_are_drawn_each_time(self) -> None:
        def fn(x: torch.Tensor) -> torch.Tensor:
            return F.dropout(x) - F.dropout(x)

        with torch.no_grad():
            graph = capture(fn, *X)
        assert passes.run(graph, only=["common_subexpressions"]) is graph


class TestNoOps:
    def test_dropout_in_evaluation_a_cast_to_the_same_and_contiguous_twice(self) -> None:
        def fn(x: torch.Tensor) -> torch.Tensor:
            x = F.dropout(x.exp(), 0.5, training=False)
            x = x.to(torch.float32).type_as(x)
            return x.t().contiguous().contiguous()

        before = ["exp", "dropout", "astype", "t", "contiguous", "contiguous"]
        with torch.no_grad():
            graph = capture(fn, *X)
        before = ops(graph)
        made = passes.run(graph, only=["no_ops"])
        assert ops(made) == ["exp", "t", "contiguous"]
        assert len(before) > 3
        same_bits(graph, made)

    def test_a_result_is_the_very_argument(self) -> None:
        def fn(x: torch.Tensor) -> torch.Tensor:
            return F.dropout(x, 0.5, training=False)

        check("no_ops", fn, X, ["dropout"], [])

    def test_what_changes_something_stays(self) -> None:
        def fn(x: torch.Tensor) -> Any:
            return (
                x.to(torch.float64),
                x.to(torch.float32, copy=True),
                x.type_as(x.double()),
                x.t().contiguous(),
                F.dropout(x, 0.5),
            )

        with torch.no_grad():
            graph = capture(fn, *X)
        assert passes.run(graph, only=["no_ops"]) is graph


class TestIdentities:
    def test_what_changes_no_bit_goes(self) -> None:
        def fn(x: torch.Tensor) -> torch.Tensor:
            x = x.exp()
            x = -(-(x * 1)) / 1.0 - 0
            return torch.relu(torch.relu(x)).t().t() ** 1 + 2

        before = [
            "exp",
            "multiply",
            "negative",
            "negative",
            "divide",
            "subtract",
            "relu",
            "relu",
            "t",
            "t",
            "pow",
            "add",
        ]
        check("identities", fn, X, before, ["exp", "negative", "relu", "t", "add"])

    def test_what_changes_a_bit_or_a_type_stays(self) -> None:
        def fn(x: torch.Tensor) -> Any:
            y = x.exp()
            i = y.int()
            return y + 0, y * 1.5, y - (-0.0), i * 1.0, i / 1, torch.ones(3, 3, 4)[0] * 1 + y[0] * 1 + 3

        with torch.no_grad():
            graph = capture(fn, *X)
        kept = [node.op for node in passes.run(graph, only=["identities"]).nodes]
        assert kept.count("multiply") >= 2
        assert [kept.count(op) for op in ("add", "subtract", "divide")] == [
            ops(graph).count(op) for op in ("add", "subtract", "divide")
        ]
        same_bits(graph, passes.run(graph, only=["identities"]))

    def test_a_result_is_a_tensor_of_its_own(self) -> None:
        def fn(x: torch.Tensor) -> Any:
            y = x.exp()
            return x * 1, y * 1, y

        check("identities", fn, X, ["exp", "multiply", "multiply"], ["exp", "multiply", "multiply"])

    def test_a_view_that_is_given_is_another_tensor(self) -> None:
        check("identities", lambda x: x.t().t(), X, ["t", "t"], ["t", "t"])
        check("identities", lambda x: x.exp() * 1, X, ["exp", "multiply"], ["exp"])

    def test_what_is_empty_is_left_out_where_arrays_are_joined(self) -> None:
        def fn(x: torch.Tensor) -> Any:
            empty = torch.tensor([], dtype=x.dtype)
            alone = torch.cat([empty, x.t()])
            return alone, torch.cat([alone, empty, alone], -1), torch.cat([empty, empty])

        graph = capture(fn, *X)
        made = passes.run(graph, only=["identities"])
        same_bits(graph, made)
        assert [len(node.arguments["arrays"]) for node in made.nodes if node.op == "concat"] == [1, 2, 2]

        def promoted(x: torch.Tensor) -> torch.Tensor:
            return torch.cat([torch.tensor([], dtype=torch.float64), x])

        made = check("identities", promoted, X, ["asarray", "concat"], ["asarray", "concat"])
        assert [len(node.arguments["arrays"]) for node in made.nodes if node.op == "concat"] == [2]

    def test_what_is_written_stays_apart(self) -> None:
        def fn(x: torch.Tensor) -> torch.Tensor:
            y = x.exp()
            z = y * 1
            z.add_(1)
            return y.sin() + z

        with torch.no_grad():
            graph = capture(fn, *X)
        assert passes.run(graph, only=["identities"]) is graph


class Weights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(12.0).reshape(3, 4) / 7)

    def forward(self, x: torch.Tensor) -> Any:
        scaled = torch.softmax(self.weight.t() * 2, -1)
        return x @ scaled, self.weight * 3


class TestConstantFolding:
    def test_what_depends_on_weights_alone_is_computed_once(self) -> None:
        x = [torch.ones(2, 4)]
        before = ["t", "multiply", "softmax", "matmul", "multiply"]
        made = check("constant_folding", Weights(), x, before, ["matmul", "multiply"])
        assert sorted(value.role for value in made.parameters) == ["constant", "parameter"]

    def test_it_needs_consent(self) -> None:
        with torch.no_grad():
            graph = capture(Weights(), torch.ones(2, 4))
        assert passes.run(graph, only=["constant_folding"]) is graph
        assert passes.run(graph, only=["constant_folding"], fold=True) is not graph

    def test_weights_that_the_call_writes_to_are_no_constants(self) -> None:
        class Counts(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("count", torch.zeros(3))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                self.count.add_(1)
                return x + self.count * 2

        for functional in (False, True):
            module = Counts()
            graph = capture(module, torch.ones(3))
            graph = graph.functional() if functional else graph
            assert passes.run(graph, only=["constant_folding"], fold=True) is graph

    def test_what_grows_is_computed_at_each_call(self) -> None:
        class Large(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = nn.Parameter(torch.ones(1))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.weight.repeat(1 << 20).sum() + x

        with torch.no_grad():
            graph = capture(Large(), torch.ones(3))
        made = passes.run(graph, only=["constant_folding"], fold=True)
        assert "tile" in ops(made)


def test_all_of_them_on_a_training_step() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.0), nn.Tanh(), nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters())

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    step(torch.ones(5, 8))
    graph = capture(step, torch.ones(5, 8)).functional()
    made = passes.run(graph)
    assert len(made.nodes) < len(graph.nodes)
    for seed in range(2):
        x = torch.randn(5, 8, generator=torch.Generator().manual_seed(seed))
        one, theirs = graph.run(x, updates=True)
        other, mine = made.run(x, updates=True)
        assert bits(one) == bits(other)
        assert theirs.keys() == mine.keys()
        for name in theirs:
            assert bits(theirs[name]) == bits(mine[name]), name


def test_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    assert passes.chosen("") == passes.ORDER
    assert passes.chosen("-no_ops,-dead_code") == tuple(n for n in passes.ORDER if n not in {"no_ops", "dead_code"})
    assert passes.chosen("dead_code") == ("dead_code",)
    with pytest.raises(ConfigError, match="the nearest is 'no_ops'"):
        passes.chosen("-noops")
    graph = capture(lambda x: F.dropout(x, 0.5, training=False), torch.ones(3))
    with pytest.raises(UsageError, match="the nearest is 'dead_code'"):
        passes.run(graph, only=["deadcode"])
    monkeypatch.setenv("PIJIT_PASSES", "-no_ops")
    assert ops(passes.run(graph)) == ["dropout"]
    monkeypatch.setenv("PIJIT_PASSES", "")
    assert ops(passes.run(graph)) == []


def test_dump(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def drops(x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, 0.5, training=False)

    graph = capture(drops, torch.ones(3))
    passes.run(graph)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("PIJIT_DUMP", "passes")
    passes.run(graph)
    said = capsys.readouterr().err
    assert "drops before pass no_ops" in said
    assert "ops.dropout" in said.partition("after pass no_ops")[0]
    assert "ops.dropout" not in said.partition("after pass no_ops")[2]
    assert "pass dead_code has changed nothing in drops" in said


def test_the_command_line_lists_them() -> None:
    for _ in range(2):
        said = subprocess.run([sys.executable, "-m", "pijit", "passes"], capture_output=True, text=True, check=True)
        rows = [line.split()[:2] for line in said.stdout.splitlines()[:-1]]
        assert rows == [*([name, "on"] for name in passes.ORDER), ["equal_regions", "asked"]]
