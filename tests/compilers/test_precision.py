"""jit(precision=): operators in smaller numbers where that is faster and errs little, by the program's own inputs."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from plans import MODELS, floats
from torch import nn

import pijit
from pijit.compilers import _compared, market
from pijit.compilers import _precision as precision
from pijit.errors import BackendError, UsageError

pytestmark = pytest.mark.torch


def layers() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 64), nn.ReLU(), nn.LayerNorm(64), nn.Linear(64, 8)
    ).eval()


class Attention(nn.Module):
    """As people write it, with what is around it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (each.view(*x.shape[:2], 4, 8).transpose(1, 2) for each in self.qkv(self.norm(x)).chunk(3, -1))
        scores = (q @ k.transpose(-2, -1) / 8**0.5).softmax(-1)
        return x + self.out((scores @ v).transpose(1, 2).reshape(x.shape))


def take(call: Any) -> float:
    call()
    return 1.0


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(_compared, "told", set())
    with torch.no_grad():
        yield
    market.wait(60)


@pytest.fixture
def faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each operator is taken to be faster in smaller numbers, whatever this machine says of it."""
    monkeypatch.setattr(
        precision, "_seconds", lambda call, device: take(call) / (10 if call.__name__ == "lowered_call" else 1)
    )


def lowered(fn: Any, **options: Any) -> Any:
    """A function whose first plan answers, without turns."""
    fast = pijit.jit(fn, **options)
    market.of(fast).turns = False
    return fast


def served(fast: Any, *args: Any) -> Any:
    """Calls until all has been compiled; the row of the plan that answers, or None."""
    for _ in range(6):
        fast(*args)
        assert market.wait(60)
    plans = [key.plans[0] for key in keys_of(fast) if key.plans]
    return plans[-1] if plans else None


def keys_of(fast: Any) -> list[Any]:
    return [key for trace in pijit.traces(fast) for segment in trace.segments for key in segment.keys]


def gap(got: torch.Tensor, right: torch.Tensor) -> float:
    assert got.dtype == right.dtype
    assert got.shape == right.shape
    assert got.stride() == right.stride()
    return float((got - right).abs().max() / right.abs().max())


@pytest.mark.usefixtures("faster")
@pytest.mark.parametrize(("kind", "error", "dtype"), [("bf16", 2e-2, "bfloat16"), ("fp16", 2e-3, "float16")])
class TestLowered:
    def test_calls_with_changes(self, kind: Any, error: float, dtype: str) -> None:
        net = layers()
        plain = copy.deepcopy(net)
        fast = lowered(net, precision=kind, error=error)
        x = torch.randn(4, 32)
        plan = served(fast, x)
        assert plan.backend == kind
        assert plan.note.startswith(f"in {dtype}: linear 3 of 3, ")
        for n in (4, 4, 7, 1):
            x = torch.randn(n, 32)
            for _ in range(2):
                assert gap(fast(x), plain(x)) <= error
                market.wait(60)
            assert 0 < gap(fast(x), plain(x)) <= error
        for module in (net, plain):
            module[0].weight.mul_(1.5)
            module[5].bias.add_(2.0)
        assert 0 < gap(fast(x), plain(x)) <= error
        assert str(pijit.explain(fast, x)).count(f"in {dtype}: linear 3 of 3") >= 1

    def test_what_is_not_lowered(self, kind: Any, error: float, dtype: str) -> None:
        """Calls that record gradients, and tensors of other types."""
        net = layers()
        plain = copy.deepcopy(net)
        fast = lowered(net, precision=kind, error=error)
        with torch.enable_grad():
            for n in range(4):
                x = torch.randn(n + 1, 32)
                made, right = fast(x), plain(x)
                assert torch.equal(made, right)
                made.sum().backward()
                right.sum().backward()
                market.wait(60)
        assert torch.equal(net[0].weight.grad, plain[0].weight.grad)
        net.double(), plain.double()
        x = torch.randn(4, 32, dtype=torch.float64)
        for _ in range(4):
            assert torch.equal(fast(x), plain(x))
            market.wait(60)

    @pytest.mark.parametrize("name", ["convolutions", "attention"])
    def test_models(self, name: str, kind: Any, error: float, dtype: str) -> None:
        torch.manual_seed(1)
        make, first, _ = MODELS.get(name, (Attention, floats(2, 5, 32), None))
        net, given = make().eval(), [first(0), first(1)]
        plain = copy.deepcopy(net)
        fast = lowered(net, precision=kind, error=error)
        assert served(fast, given[0]).backend == kind
        for x in given:
            assert gap(fast(x), plain(x)) <= 4 * error  # other inputs than those that were measured

    def test_special_values(self, kind: Any, error: float, dtype: str) -> None:
        net = layers()
        plain = copy.deepcopy(net)
        fast = lowered(net, precision=kind, error=error)
        x = torch.randn(4, 32)
        served(fast, x)
        for special in (float("nan"), float("inf")):
            given = x.clone()
            given[1, 3] = special
            made, right = fast(given), plain(given)
            assert torch.equal(made.isnan(), right.isnan())
            assert gap(made[[0, 2, 3]], right[[0, 2, 3]]) <= error
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            fast(torch.ones(4, 31))

    def test_threads(self, kind: Any, error: float, dtype: str) -> None:
        net = layers()
        plain = copy.deepcopy(net)
        fast = lowered(net, precision=kind, error=error)
        gaps: list[float] = []

        def call(n: int) -> None:
            with torch.no_grad():
                for seed in range(30):
                    x = torch.randn(n, 32, generator=torch.Generator().manual_seed(seed))
                    gaps.append(gap(fast(x), plain(x)))

        threads = [threading.Thread(target=call, args=(n,)) for n in (2, 3)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert len(gaps) == 60
        assert max(gaps) <= error


def test_nothing_is_lowered_where_it_is_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        precision, "_seconds", lambda call, device: take(call) * (10 if call.__name__ == "lowered_call" else 1)
    )
    net = layers()
    plain = copy.deepcopy(net)
    fast = pijit.jit(net, precision="auto")
    x = torch.randn(4, 32)
    assert served(fast, x) is None
    for _ in range(3):
        x = torch.randn(4, 32)
        assert torch.equal(fast(x), plain(x))
    (key,) = pijit.traces(fast)[0].segments[0].keys
    assert {name: why for name, why in key.refused.items() if "no operator is faster in" in why} == key.refused
    assert {"bf16", "fp16"} <= key.refused.keys()


@pytest.mark.usefixtures("faster")
def test_a_plan_that_is_slower_as_a_whole_does_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = precision.Lowered._plan

    def slow(*given: Any) -> Any:
        plan = inner(*given)
        run = plan.run
        plan.run = lambda *inputs: (time.sleep(0.005), run(*inputs))[1]
        return plan

    monkeypatch.setattr(precision.Lowered, "_plan", slow)
    net = layers()
    plain = copy.deepcopy(net)
    fast = pijit.jit(net, precision="bf16")
    x = torch.randn(4, 32)
    served(fast, x)
    for _ in range(60):
        fast(x)
        market.wait(60)
    (key,) = pijit.traces(fast)[0].segments[0].keys
    assert key.state == "settled natively"
    assert torch.equal(fast(x), plain(x))


def cancelling(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """The first product errs much in bfloat16: large numbers cancel."""
    return torch.matmul(torch.cat([x, x + y], 1), torch.cat([w, -w], 0)) + 3 * torch.matmul(y, w)


@pytest.mark.usefixtures("faster")
def test_an_operator_that_errs_stays() -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.full((4, 16), 1e3), torch.randn(4, 16, generator=generator)
    w = torch.randn(16, 8, generator=generator)
    fast = lowered(cancelling, precision="bf16", error=1e-2)
    plan = served(fast, x, y, w)
    assert "matmul 1 of 2" in plan.note
    assert 0 < gap(fast(x, y, w), cancelling(x, y, w)) <= 1e-2


@pytest.mark.usefixtures("faster")
def test_what_the_results_do_not_allow_goes_back() -> None:
    """Each operator errs little, and what is made of one of them errs more."""
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(16, 16, generator=generator) / 4
    x = torch.randn(4, 16, generator=generator)

    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.exp(40 * torch.tanh(torch.matmul(x, w))), torch.tanh(torch.matmul(x, w.T)) * 2

    fast = lowered(program, precision="bf16", error=1e-2)
    plan = served(fast, x)
    assert "matmul 1 of 2" in plan.note
    for got, right in zip(fast(x), program(x), strict=True):
        assert gap(got, right) <= 1e-2


@pytest.mark.usefixtures("faster")
def test_a_plan_that_errs_later_is_dropped() -> None:
    """With verify= what a plan gives is compared again, with the inputs that come then."""
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(16, 8, generator=generator)
    good, bad = torch.randn(4, 16, generator=generator), torch.full((4, 16), 1e3)
    bad[:, ::2] *= -1
    even = w.repeat_interleave(2, 0)[:16]
    even[::2] *= 1.002  # of large numbers little is left

    def program(x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        count.add_(1)
        return torch.matmul(x, even) * 2 + 1

    fast = lowered(program, precision="bf16", error=1e-2, verify=2)
    count, other = torch.zeros(1), torch.zeros(1)
    plan = served(fast, good, count)
    assert plan.backend == "bf16"
    for _ in range(8):
        fast(bad, count)
        market.wait(60)
    program(bad, other)
    assert torch.equal(fast(bad, count), program(bad, other))
    assert "of the largest magnitude" in str(keys_of(fast)[-1])


@pytest.mark.usefixtures("faster")
def test_a_backend_runs_what_is_lowered() -> None:
    net = layers()
    plain = copy.deepcopy(net)
    fast = lowered(net, precision="bf16", error=2e-2, backend="torchscript")
    x = torch.randn(4, 32)
    assert served(fast, x).backend == "torchscript in bf16"
    for _ in range(3):
        x = torch.randn(4, 32)
        assert 0 < gap(fast(x), plain(x)) <= 2e-2


@pytest.mark.usefixtures("faster")
def test_quantised_linear_layers() -> None:
    pytest.importorskip("torchao")
    net = layers()
    plain = copy.deepcopy(net)
    fast = lowered(net, precision="int8-dynamic", error=5e-2)
    x = torch.randn(16, 32)
    plan = served(fast, x)
    assert plan.note.startswith("in int8: linear 3 of 3")
    assert 0 < gap(fast(x), plain(x)) <= 5e-2
    for module in (net, plain):
        module[0].weight.mul_(-1.5)
    assert 0 < gap(fast(x), plain(x)) <= 5e-2


def test_without_torchao(monkeypatch: pytest.MonkeyPatch) -> None:
    from pijit.compilers import _base

    there = _base.installed
    monkeypatch.setattr(_base, "installed", lambda package: package != "torchao" and there(package))
    with pytest.raises(BackendError, match="needs torchao; run: pip install torchao"):
        pijit.jit(layers(), precision="int8-dynamic")
    assert [each.name for each in market.of(pijit.jit(layers(), precision="auto")).backends] == ["bf16", "fp16"]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"precision": "bf61"}, "precision 'bf61' is not known .the nearest is 'bf16'"),
    ({"precision": torch.bfloat16}, "is not known"),
    ({"precision": "bf16", "error": 0}, "error is a number between 0 and 1"),
    ({"precision": "bf16", "error": "1e-2"}, "error is a number between 0 and 1"),
]


@pytest.mark.parametrize(("options", "says"), WRONG)
def test_what_is_no_precision(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        pijit.jit(layers(), **options)


def test_the_error_of_a_result() -> None:
    right = torch.tensor([1.0, -4.0, float("inf"), float("nan")])
    assert precision.error_of(right.clone(), right) == 0
    assert precision.error_of(torch.tensor([1.0, -3.0, float("inf"), float("nan")]), right) == 0.25
    assert precision.error_of(torch.tensor([1.0, -4.0, 5.0, float("nan")]), right) == float("inf")
    assert precision.error_of(torch.tensor([1.0, -4.0, -float("inf"), float("nan")]), right) == float("inf")
    assert precision.error_of(torch.zeros(0), torch.zeros(0)) == 0
    assert precision.error_of(torch.ones(2), torch.zeros(2)) == float("inf")
    assert precision.error_of(torch.tensor([1]), torch.tensor([2])) == float("inf")
