"""Each backend against eager torch: models, free sizes, weights that are written, inputs of other layouts."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from typing import Any

import pytest
import torch
from plans import MODELS, agrees, backends, backends_and, captured, close, floats, model
from torch import nn

import pijit
from pijit.compilers import Options, _partition, get
from pijit.errors import BackendError

pytestmark = pytest.mark.torch

pytest.importorskip("transformers")


@pytest.mark.parametrize(("backend", "name"), backends_and(MODELS))
def test_a_model_gives_what_eager_gives_before_and_after_its_weights_are_written(backend: str, name: str) -> None:
    module, inputs, _ = model(name)
    compiler = get(backend)
    plan = compiler.compile(captured(module, inputs(0)))
    agrees(compiler, plan, module, inputs(0))
    graph = captured(module, inputs(1))
    with torch.no_grad():
        for weight in module.parameters():
            weight.mul_(1.25)
        for buffer in module.buffers():
            if buffer.is_floating_point():
                buffer.add_(0.5)
    if not plan.shares_weights:
        plan.rebind(graph.data)
    agrees(compiler, plan, module, inputs(1))
    # As by `load_state_dict(assign=True)`: other tensors in their place.
    names = {id(tensor): each for each, tensor in graph.data.items()}
    new = {}
    for owner in module.modules():
        for key, weight in list(owner._parameters.items()):
            if weight is not None and id(weight) in names:
                owner._parameters[key] = nn.Parameter(weight.detach() * 0.75)
                new[names[id(weight)]] = owner._parameters[key]
    held = dict(graph.data) | new
    plan.rebind(new)
    agrees(compiler, plan, module, inputs(2))
    # What is not contiguous may be copied; the plan says so.
    new = {}
    for owner in module.modules():
        for key, weight in list(owner._parameters.items()):
            if weight is not None and weight.ndim == 2:
                owner._parameters[key] = nn.Parameter(weight.detach().t().contiguous().t())
                new.update((name, owner._parameters[key]) for name, each in held.items() if each is weight)
    plan.rebind(new)
    held |= new
    agrees(compiler, plan, module, inputs(3))
    with torch.no_grad():
        for weight in module.parameters():
            weight.mul_(1.5)
    if not plan.shares_weights:
        plan.rebind(held)
    agrees(compiler, plan, module, inputs(4))
    plan.close()
    with pytest.raises(BackendError, match="closed"):
        plan(inputs(0))


@pytest.mark.parametrize(("backend", "name"), backends_and(MODELS))
def test_folded_weights_stay_as_they_were(backend: str, name: str) -> None:
    module, inputs, _ = model(name)
    compiler = get(backend)
    plan = compiler.compile(captured(module, inputs(0)), Options(fold=True))
    agrees(compiler, plan, module, inputs(0))
    agrees(compiler, plan, module, inputs(1))
    if backend != "native":
        assert plan.folded
        with pytest.raises(BackendError, match="compile the graph again"):
            plan.rebind({})


def test_torchscript_leaves_filters_of_warnings_alone_and_does_not_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those of the whole process: what another thread says meanwhile would be lost."""

    def changed(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("filters are changed")

    module, inputs, _ = model("mlp")
    compiler, graph = get("torchscript"), captured(module, inputs(0))
    warnings.simplefilter("error")
    before = list(warnings.filters)
    monkeypatch.setattr(warnings, "catch_warnings", changed)
    plan, folded = compiler.compile(graph), compiler.compile(graph, Options(fold=True))
    agrees(compiler, folded, module, inputs(0))
    with torch.no_grad():
        for weight in module.parameters():
            weight.mul_(1.25)
    agrees(compiler, plan, module, inputs(1))
    agrees(compiler, compiler.compile(graph, Options(fold=True)), module, inputs(1))
    assert warnings.filters == before


@pytest.mark.parametrize(("backend", "name"), backends_and(MODELS))
def test_free_sizes_stay_free_where_the_backend_can(backend: str, name: str) -> None:
    module, inputs, others = model(name)
    compiler = get(backend)
    graph = captured(module, inputs(0))
    if not compiler.symbolic:
        with pytest.raises(BackendError, match="fixed sizes only"):
            compiler.compile(graph, Options(symbolic=True))
        return
    plan = compiler.compile(graph, Options(symbolic=True))
    agrees(compiler, plan, module, inputs(0))
    agrees(compiler, plan, module, others(1))
    agrees(compiler, plan, module, inputs(2))


@pytest.mark.parametrize("backend", backends())
def test_inputs_that_are_strided_or_not_aligned_are_read_rightly_or_refused(backend: str) -> None:
    """A plan checks nothing; for those that read what they are given as it is, the key says what that is."""
    module, inputs, _ = model("mlp")
    compiler = get(backend)
    plan = compiler.compile(captured(module, inputs(0)))
    x = inputs(1)
    strided = torch.empty(8, 3).t().copy_(x)
    shifted = torch.empty(25)[1:].view(3, 8).copy_(x)
    for each in (strided, shifted, x):
        agrees(compiler, plan, module, each)


@pytest.mark.parametrize("backend", backends())
def test_fourier_transforms_are_along_the_axis_that_is_said(backend: str) -> None:
    class Mixes(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.fft.fftn(x * 2, dim=(1, 2)).real * 1.5 + torch.fft.fft(x.tanh()).imag.abs()

    module, inputs = Mixes(), floats(2, 5, 7)
    compiler = get(backend)
    plan = compiler.compile(captured(module, inputs(0)))
    for seed in range(2):
        agrees(compiler, plan, module, inputs(seed))


@pytest.mark.parametrize("backend", backends())
def test_a_result_that_shares_memory_shares_it_in_a_plan(backend: str) -> None:
    class Views(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = x * 2
            return y, y[:, 0], y.t(), x[1:], x

    module, compiler = Views(), get(backend)
    x = torch.randn(3, 4)
    plan = compiler.compile(captured(module, x))
    for seed in range(2):
        x = torch.randn(3, 4, generator=torch.Generator().manual_seed(seed))
        found, expected = plan(x), module(x)
        for made in (found, expected):
            made[0].add_(1)
        for one, other in zip(found, expected, strict=True):
            close(compiler, one, other)
            assert one.stride() == other.stride()
        assert found[4] is x
        assert found[3].data_ptr() == expected[3].data_ptr()


def test_decisions_on_sizes_are_asked_of_a_plan_with_free_sizes() -> None:
    def fn(x: torch.Tensor, k: int) -> torch.Tensor:
        return x.exp() if x.shape[0] * 2 > k and x.numel() > 3 else x.sin()

    compiler = get("native")
    graph = captured(fn, torch.ones(3, 4), 5)
    plan = compiler.compile(graph, Options(symbolic=True))
    for size in (3, 7, 2, 1, 5):
        x = torch.randn(size, 4)
        right = torch.equal(plan(x)[0], fn(x, 5))
        assert plan.holds(x) is right is (size > 2)
    assert get("native").compile(graph).holds(torch.ones(3, 4)) is True


def test_a_graph_that_assumes_data_is_not_compiled() -> None:
    from pijit.graph.build.capture import captured as capture_with

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x.exp() if x.sum() > 0 else x.sin()

    for decisions in ("assume", "split"):
        graph = capture_with(fn, (torch.ones(3),), {}, None, decisions)  # type: ignore[arg-type]
        with pytest.raises(BackendError, match=r"test_backends.py:\d+: "):
            get("native").compile(graph)


@pytest.mark.parametrize("backend", backends())
def test_results_are_laid_out_as_torch_has_them(backend: str) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.exp(x.t()), x.sum(0)

    x = torch.randn(3, 4)
    compiler = get(backend)
    plan = compiler.compile(captured(fn, x))
    plan.lay_out([each.stride() for each in fn(x)][:1])
    for seed in range(2):
        x = torch.randn(3, 4, generator=torch.Generator().manual_seed(seed))
        for one, other in zip(plan(x), fn(x), strict=True):
            close(compiler, one, other)
            assert one.stride() == other.stride()


def test_a_graph_that_writes_to_its_input_gives_what_the_input_holds() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(x.sum(0))
            x.mul_(2)
            return x + self.count

    for name in ("native", "torchscript", "xla", "onnxruntime"):
        if pijit.backends()[name] != "usable":
            continue
        compiler, module = get(name), Counts()
        plan = compiler.compile(captured(module, torch.ones(2, 3)))
        for seed in range(2):
            x = torch.randn(2, 3, generator=torch.Generator().manual_seed(seed))
            before, own = module.count.clone(), x.clone()
            result, *updates = plan(x)
            assert torch.equal(module.count, before)
            assert torch.equal(x, own)
            expected = module(own)
            close(compiler, result, expected)
            assert plan.updates == plan.results[1:] or len(plan.updates) == len(updates) == 2
            held = dict(zip(plan.updates, updates, strict=True))
            for key, tensor in held.items():
                close(compiler, tensor, module.count if "count" in key else own)
            if not plan.shares_weights:
                plan.rebind({key: module.count for key in held if "count" in key})


def test_an_operator_that_a_backend_has_not_got_comes_with_its_line() -> None:
    def draw(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) + torch.rand_like(x)

    graph = captured(draw, torch.ones(3))
    for name in ("xla", "onnxruntime"):
        if pijit.backends()[name] == "usable":
            assert [node.random for node in get(name).lacks(graph)] == [True]
            with pytest.raises(BackendError, match=r"test_backends.py:\d+: backend '.*' does not take"):
                get(name).compile(graph)
    plan = get("torchscript").compile(graph)
    for seed in range(2):
        torch.manual_seed(seed)
        expected = draw(torch.ones(3))
        torch.manual_seed(seed)
        assert torch.equal(plan(torch.ones(3))[0], expected)


class Foreign(nn.Module):
    """An operator that torch alone has, between layers; what it gives and is given is seen, too."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = torch.relu(self.first(x))
        y = torch.special.bessel_j0(x * self.first.bias)
        return self.last(y).tanh() * 2, y, x.t()


@pytest.mark.parametrize("backend", backends())
def test_what_is_around_an_operator_that_a_backend_has_not_got_is_compiled(backend: str) -> None:
    torch.manual_seed(0)
    module, compiler = Foreign(), get(backend)
    graph = captured(module, torch.ones(3, 8))
    plan = compiler.compile(graph)
    said = r"test_backends.py:\d+: backend '.*' has not got aten::special_bessel_j0: torch runs it"
    if backend not in {"native", "torchscript", "inductor"}:
        assert sum(bool(re.search(said, line)) for line in plan.left_out) == 1
    for seed in range(2):
        x = torch.randn(3, 8, generator=torch.Generator().manual_seed(seed))
        agrees(compiler, plan, module, x)
        with torch.no_grad():
            for weight in module.parameters():
                weight.mul_(1.25)
        if not plan.shares_weights:
            plan.rebind(graph.data)
    agrees(compiler, plan, module, torch.randn(3, 8))
    plan.close()
    with pytest.raises(BackendError, match="closed"):
        plan(torch.ones(3, 8))


def test_pieces_are_as_few_as_the_ways_through_them_need() -> None:
    """Nodes change places: three foreign operators that do not depend on each other need two compiled pieces."""

    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        made = x.exp() * 2
        for at in range(3):
            made = made + torch.special.bessel_j0((y + at).sin()).cos()
        return made.tanh()

    graph = captured(fn, torch.ones(3), torch.ones(3))
    missing = [at for at, node in enumerate(graph.nodes) if "bessel" in node.op]
    assert len(missing) == 3
    pieces = _partition.partition(replace(graph, outputs=graph.results), "xla", missing)
    assert [piece.compiled for piece in pieces] == [True, False, True]
    assert sum(len(piece.graph.nodes) for piece in pieces) == len(graph.nodes)
    with pytest.raises(BackendError, match="does not take"):
        _partition.partition(graph, "xla", range(len(graph.nodes)))
