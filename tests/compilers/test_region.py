"""A block names its compilers: they get its operators, and no others, and the answers are those of eager torch."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from counted import Counting, registered

import pijit
from pijit.compilers import market
from pijit.errors import BackendError, UsageError

pytestmark = pytest.mark.torch


@pytest.fixture
def one() -> Iterator[Counting]:
    yield from registered("region_one")


@pytest.fixture
def two() -> Iterator[Counting]:
    yield from registered("region_two")


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def settled(fast: Callable[..., Any], *args: Any) -> None:
    """Calls until whatever is compiled is there."""
    for _ in range(3):
        fast(*args)
        assert market.wait(60)


def three(x: torch.Tensor, by: float) -> torch.Tensor:
    return (x * by).tanh() + by


def regions(fast: Any) -> list[str]:
    return [segment.region for segment in pijit.traces(fast)[0].segments]


def same(fast: Callable[..., Any], plain: Callable[..., Any], *args: Any) -> None:
    assert torch.equal(fast(*args), plain(*args))


def test_operators_of_the_block_go_to_its_backend(one: Counting) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        x = three(x, 2.0)
        with pijit.region(backend="region_one"):
            x = three(x, 3.0)
        return three(x, 4.0)

    fast = pijit.jit(step)
    settled(fast, torch.randn(3, 4))
    assert regions(fast) == ["pijit.region('region_one')"]
    runs = one.runs
    same(fast, step, torch.randn(3, 4))
    assert one.runs == runs + 1
    assert [len(each) for each in one.operators] == [3]
    assert "pijit.region('region_one')" in str(pijit.explain(fast, torch.randn(3, 4)))
    assert "begins: pijit.region('region_one')" in str(pijit.traces(fast))


def test_the_inner_block_counts(one: Counting, two: Counting) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        with pijit.region(backend="region_one"):
            x = three(x, 2.0)
            with pijit.region(backend="region_two"):
                x = three(x, 3.0) * 2
            with pijit.region(backend="native"):
                x = three(x, 3.5)
            x = three(x, 4.0).abs().neg()
        return three(x, 5.0)

    fast = pijit.jit(step, backend="region_two")
    settled(fast, torch.randn(3, 4))
    first, second = "pijit.region('region_one')", "pijit.region('region_two')"
    assert regions(fast) == [first, second, first, ""]
    before = one.runs, two.runs
    same(fast, step, torch.randn(3, 4))
    assert (one.runs, two.runs) == (before[0] + 2, before[1] + 2)
    assert sorted(len(each) for each in one.operators) == [3, 5]
    assert sorted(len(each) for each in two.operators) == [3, 4]


def test_what_is_called_in_the_block_belongs_to_it_and_what_is_behind_it_does_not(one: Counting) -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        with pijit.region(backend="region_one"):
            return three(x, 2.0)

    def step(x: torch.Tensor) -> torch.Tensor:
        return three(inner(x), 3.0)

    fast = pijit.jit(step)
    settled(fast, torch.randn(3, 4))
    same(fast, step, torch.randn(2, 4))
    settled(fast, torch.randn(2, 4))
    same(fast, step, torch.randn(2, 4))
    assert {len(each) for each in one.operators} == {3}


def test_a_generator_gives_its_values_outside_of_its_block(one: Counting) -> None:
    def parts(x: torch.Tensor) -> Iterator[torch.Tensor]:
        with pijit.region(backend="region_one"):
            yield three(x, 2.0)
            yield three(x, 3.0)

    def step(x: torch.Tensor) -> torch.Tensor:
        total = x
        for part in parts(x):
            total = three(total, 4.0) + part
        return total

    fast = pijit.jit(step)
    settled(fast, torch.randn(3, 4))
    same(fast, step, torch.randn(3, 4))
    assert {len(each) for each in one.operators} == {3}


def test_an_exception_leaves_the_block(one: Counting) -> None:
    def step(x: torch.Tensor, known: dict[str, float]) -> torch.Tensor:
        try:
            with pijit.region(backend="region_one"):
                x = three(x, 2.0)
                x = x * known["by"]
        except KeyError:
            x = x - 1
        return three(x, 3.0)

    fast = pijit.jit(step)
    for known in ({"by": 3.0}, {}, {"by": 4.0}):
        settled(fast, torch.randn(3, 4), known)
        same(fast, step, torch.randn(3, 4), known)
    assert {len(each) for each in one.operators} <= {3, 4}

    def raising(x: torch.Tensor) -> torch.Tensor:
        with pijit.region(backend="region_one"):
            raise ValueError(str(three(x, 2.0).shape))

    again = pijit.jit(raising)
    for _ in range(4):
        with pytest.raises(ValueError, match="3, 4"):
            again(torch.randn(3, 4))


def test_a_recording_that_stops_in_the_block(one: Counting) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        with pijit.region(backend="region_one"):
            x = three(x, 2.0)
            os.getpid()
            exec("pass", {})
            x = three(x, float(len(sys.modules) > 0))
        return three(x, 3.0)

    fast = pijit.jit(step)
    settled(fast, torch.randn(3, 4))
    same(fast, step, torch.randn(3, 4))


def test_options_and_lists_are_taken(one: Counting) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        with pijit.region(["region_one"], options={"threads": 1}):
            return three(x, 2.0)

    fast = pijit.jit(step)
    settled(fast, torch.randn(3, 4))
    same(fast, step, torch.randn(3, 4))
    assert regions(fast) == ["pijit.region(['region_one'], options={'threads': 1})"]
    assert pijit.region("region_one", options={"threads": 1}) is pijit.region("region_one", options={"threads": 1})
    assert pijit.region("region_one", options={"threads": 1}) is not pijit.region("region_one")


def test_a_block_that_was_made_before(one: Counting) -> None:
    block = pijit.region("region_one")

    def step(x: torch.Tensor, block: Any) -> torch.Tensor:
        with block, block:
            x = three(x, 2.0)
        return three(x, 3.0)

    fast = pijit.jit(step)
    settled(fast, torch.randn(3, 4), block)
    same(fast, step, torch.randn(3, 4), block)
    settled(fast, torch.randn(3, 4), pijit.region("native"))
    same(fast, step, torch.randn(3, 4), pijit.region("native"))
    assert [len(each) for each in one.operators] == [3]


def test_taking_the_backend_of_the_function_away_leaves_the_block(one: Counting, two: Counting) -> None:
    from pijit import _core, api

    def step(x: torch.Tensor) -> torch.Tensor:
        with pijit.region("region_one"):
            x = three(x, 2.0)
        return three(x, 3.0)

    fast = pijit.jit(step, backend="region_two")
    settled(fast, torch.randn(3, 4))
    assert len(regions(fast)) == 2
    _core.set_market(api.root_of(fast), None)
    settled(fast, torch.randn(3, 4))
    assert regions(fast) == ["pijit.region('region_one')"]
    same(fast, step, torch.randn(3, 4))


def test_wrong_arguments_are_told_whether_recorded_or_not() -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        with pijit.region("onxruntime"):
            return x + 1

    fast = pijit.jit(step)
    for call in (step, fast, fast):
        with pytest.raises(BackendError, match="no backend is called 'onxruntime' \\(the nearest is 'onnxruntime'"):
            call(torch.ones(2))
    with pytest.raises(UsageError, match="needs a backend"):
        pijit.region(None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"pijit.region\(\): backend is a name"):
        pijit.region(3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"pijit.region\(\): options is a dict"):
        pijit.region("torchscript", options=3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="has no option 'level'"):
        pijit.region("torchscript", options={"level": 3})


def test_graphs_and_code_of_a_function_with_a_block(one: Counting) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        with pijit.region("region_one"):
            x = three(x, 2.0)
        return three(x, 3.0)

    x = torch.randn(3, 4)
    graph = pijit.graph.capture(step, x)
    assert len(graph.nodes) == 6
    assert torch.equal(graph.run(x), step(x))
    assert torch.equal(pijit.export(step, x, format="code")(x), step(x))


def test_without_pijit_it_does_nothing() -> None:
    program = "import pijit\nwith pijit.region('native') as block: print(block, 3)\n"
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PIJIT": "0"}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "None 3\n", "")
