"""Compiled segments answer in the place of native replay, and only where their key says so.

Each function is called with what it was recorded with, the plan is waited for, something changes, and it is called
again. A backend of these tests counts its runs, so that a test knows who answered.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from counted import Counting, in_threads, registered
from torch import nn

import pijit
from pijit.compilers import _compared, get, market
from pijit.errors import BackendError, UsageError

pytestmark = pytest.mark.torch


@pytest.fixture
def counting() -> Iterator[Counting]:
    yield from registered("counting")


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def layers() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4)).eval()


def settled(fast: Any, *args: Any) -> None:
    """Calls until whatever is compiled is there."""
    for _ in range(3):
        fast(*args)
        assert market.wait(60)


def segments(fast: Any) -> Any:
    return pijit.traces(fast)[0].segments


def test_a_plan_decides_on_no_count_of_data(counting: Counting) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x[x > 2]
        return y.sum() * 2 if y.shape[0] > 2 else y.prod() + 1

    fast = pijit.jit(f, backend=["counting", "torchscript"])
    calls = [torch.tensor(each) for each in ([1.0, 3, 4, 5], [1.0, 3, 2, 2], [9.0, 3, 4, 5])]
    for _ in range(3):
        for x in calls:
            settled(fast, x)
            assert torch.equal(fast(x), f(x))


def test_a_plan_answers(counting: Counting) -> None:
    module = layers()
    fast = pijit.jit(lambda x: module(x) * 2, backend="counting")
    x = torch.randn(3, 8)
    settled(fast, x)
    runs = counting.runs
    other = torch.randn(3, 8)
    assert torch.equal(fast(other), module(other) * 2)
    assert counting.runs == runs + 1
    (segment,) = segments(fast)
    assert (segment.operators, segment.share) == (6, 1)
    (key,) = segment.keys
    assert key.plans[0].backend == "counting"
    assert key.state == "settled"
    assert key.form == "Float[3, 8]"
    assert "counting: " in str(segment)
    assert pijit.stats()["segments"] > 0
    assert "segment: nodes 0 to 5: 6 operators" in str(pijit.explain(fast, x))


def test_sizes_are_numbers_of_the_key(counting: Counting) -> None:
    module = layers()

    def scaled(x: Any) -> Any:
        rows, columns = x.shape
        return module(x).reshape(-1, rows * 2) / (columns + x.size(-1)) + x.numel()

    fast = pijit.jit(scaled, backend=["torchscript", "counting"])
    settled(fast, torch.randn(3, 8))
    x = torch.randn(3, 8)
    assert torch.equal(fast(x), scaled(x))
    assert not segments(fast)[0].keys[0].refused
    x = torch.randn(5, 8)
    settled(fast, x)
    assert torch.equal(fast(x), scaled(x))
    assert [key.form for key in segments(fast)[0].keys] == ["Float[3, 8]", "Float[5, 8]"]


@pytest.mark.parametrize(
    "change",
    [
        lambda x: torch.randn(5, 8),
        lambda x: torch.randn(8, 3).t(),
        lambda x: torch.randn(6, 8)[::2],
        lambda x: torch.randn(25)[1:].view(3, 8),  # other alignment
    ],
    ids=["sizes", "strides", "stepped", "alignment"],
)
def test_another_form_is_another_key(counting: Counting, change: Callable[[Any], Any]) -> None:
    module = layers()
    fast = pijit.jit(lambda x: module(x) * 2, backend="counting")
    settled(fast, torch.randn(3, 8))
    runs, x = counting.runs, change(None)
    assert torch.equal(fast(x), module(x) * 2)
    assert counting.runs == runs
    market.wait(60)
    assert torch.equal(fast(x), module(x) * 2)


def test_tensors_of_numbers_and_a_grad_mode_that_stays_split_no_segment(counting: Counting) -> None:
    module = layers()

    def scaled(x: Any) -> Any:
        held = torch.tensor([], dtype=x.dtype)
        with torch.no_grad():
            y = module(x)
        return torch.cat([held, y.flatten()]) / torch.sqrt(torch.tensor(x.shape[0], dtype=x.dtype))

    fast = pijit.jit(scaled, backend="counting")
    for rows in (3, 5):
        settled(fast, torch.randn(rows, 8))
        runs, x = counting.runs, torch.randn(rows, 8)
        assert torch.equal(fast(x), scaled(x))
        assert counting.runs == runs + 1
    assert [each.share for each in segments(fast)] == [1]
    with torch.enable_grad():  # now the block changes the mode
        for x in (torch.randn(3, 8, requires_grad=True), torch.randn(3, 8)):
            for _ in range(3):
                assert torch.equal(fast(x), scaled(x))
                assert not fast(x).requires_grad
                assert torch.is_grad_enabled()
                assert market.wait(60)
    x = torch.randn(3, 8)
    assert torch.equal(fast(x), scaled(x))


def test_numbers_that_come_from_before_a_segment_are_computed_with(counting: Counting) -> None:
    module = layers()

    def padded(x: Any) -> Any:
        rows = x.shape[0]
        if x.sum().item() > 1e9:  # what stands behind it is a segment of its own
            return x
        y = nn.functional.pad(module(x), (0, 0, 0, (4 - rows % 4) % 4))
        return y.view(-1, rows // 4 + 1, 4) * (rows / 2)

    fast = pijit.jit(padded, backend="counting")
    for rows in (3, 6):
        settled(fast, torch.randn(rows, 8))
        runs, x = counting.runs, torch.randn(rows, 8)
        assert torch.equal(fast(x), padded(x))
        assert counting.runs == runs + 1
    assert not any(key.refused for segment in segments(fast) for key in segment.keys)


def test_a_tensor_of_a_number_that_was_read_from_data_or_is_a_leaf_is_made_anew(counting: Counting) -> None:
    module = layers()

    def scaled(x: Any) -> Any:
        return module(x) * torch.tensor(x.sum().item()) + torch.tensor(float(x.shape[0]), requires_grad=True)

    fast = pijit.jit(scaled, backend="counting")
    for mode in (torch.no_grad, torch.enable_grad):
        with mode():
            for _ in range(4):
                x = torch.randn(3, 8)
                found, right = fast(x), scaled(x)
                assert torch.equal(found, right)
                assert found.requires_grad is right.requires_grad
                assert market.wait(60)
    assert counting.runs


@pytest.mark.parametrize("backend", ["torchscript", "counting"])
def test_a_weight_that_is_written_is_seen_at_once(counting: Counting, backend: str) -> None:
    module = layers()
    fast = pijit.jit(lambda x: module(x) * 2, backend=backend)
    x = torch.randn(3, 8)
    settled(fast, x)
    module[0].weight.mul_(3)
    assert torch.equal(fast(x), module(x) * 2)
    module[2].weight.data = torch.randn(16, 16)
    assert torch.equal(fast(x), module(x) * 2)
    module[4].weight = nn.Parameter(torch.randn(4, 16))
    assert torch.equal(fast(x), module(x) * 2)
    assert torch.equal(fast(x), module(x) * 2)


def test_folded_weights_that_are_written_are_seen_at_once() -> None:
    module = layers()
    fast = pijit.jit(lambda x: module(x) * 2, backend="torchscript", options={"fold": True})
    x = torch.randn(3, 8)
    settled(fast, x)
    assert segments(fast)[0].keys[0].plans
    module[0].weight.mul_(3)
    assert torch.equal(fast(x), module(x) * 2)
    assert not segments(fast)[0].keys[0].plans
    assert torch.equal(fast(x), module(x) * 2)


def test_a_plan_without_gradients_answers_only_there(counting: Counting) -> None:
    """Where they are recorded: test_gradient_plans.py."""
    module = layers()
    fast = pijit.jit(lambda x: module(x).sum() * 2 + 1, backend="counting")
    x = torch.randn(3, 8)
    fast(x)
    settled(fast, x)
    runs = counting.runs
    assert not fast(x).requires_grad
    assert counting.runs == runs + 1
    with torch.enable_grad():
        runs = counting.runs
        made = fast(x)
        assert counting.runs == runs
        made.backward()
        assert module[0].weight.grad is not None


def test_what_only_python_reads_is_there_where_a_replay_is_left(counting: Counting) -> None:
    module = layers()

    def decide(x: Any) -> Any:
        hidden = module(x).exp()
        other = hidden * 2 + 1
        view = other[0]
        if other.sum() > 1000:
            return hidden - other, view, locals()["view"] is view
        return other.relu()

    fast = pijit.jit(decide, backend="counting")
    settled(fast, torch.zeros(3, 8))
    runs, large = counting.runs, torch.full((3, 8), 300.0)
    module[4].bias.fill_(6)
    right, got = decide(large), fast(large)
    assert counting.runs > runs
    assert isinstance(right, tuple)
    assert torch.equal(got[0], right[0])
    assert torch.equal(got[1], right[1])
    assert got[2]


def test_an_exception_behind_a_segment_sees_the_variables(counting: Counting) -> None:
    module = layers()

    def fails(x: Any, fail: list[int]) -> Any:
        hidden = module(x).exp()
        other = hidden * 2 + 1
        fail[0] += 1
        if float(other.sum()) > 1000:
            raise ValueError(float(hidden.sum()))
        return other

    fast = pijit.jit(fails, backend="counting")
    settled(fast, torch.zeros(3, 8), [0])
    module[4].bias.fill_(6)
    large, counts = torch.ones(3, 8), [0]
    with pytest.raises(ValueError) as right:
        fails(large, [0])
    with pytest.raises(ValueError) as got:
        fast(large, counts)
    assert counts == [1]
    assert got.value.args == right.value.args
    frame = got.traceback[-1].frame
    assert torch.equal(frame.f_locals["hidden"], module(large).exp())


def test_results_that_share_memory_share_it(counting: Counting) -> None:
    module = layers()

    def both(x: Any) -> Any:
        y = module(x) + 1
        return y, y.view(-1), y[0]

    fast = pijit.jit(both, backend="counting")
    settled(fast, torch.randn(3, 8))
    runs, x = counting.runs, torch.randn(3, 8)
    whole, flat, first = fast(x)
    assert counting.runs == runs + 1
    whole.zero_()
    assert not flat.any()
    assert not first.any()
    first.fill_(2)
    assert whole[0].eq(2).all()


def test_a_result_that_is_the_input_stays_it(counting: Counting) -> None:
    module = layers()
    fast = pijit.jit(lambda x: (module(x) * 2, x.view(-1), x), backend="counting")
    settled(fast, torch.randn(3, 8))
    x = torch.randn(3, 8)
    made, flat, same = fast(x)
    assert same is x
    x.zero_()
    assert not flat.any()


def test_writes_to_an_input_are_native(counting: Counting) -> None:
    module = layers()

    def write(x: Any, state: Any) -> Any:
        y = module(x) * 2 + state
        state.add_(y.mean())
        z = module(x) * 3 - state
        x.mul_(2)
        return z

    fast = pijit.jit(write, backend="counting")
    states = torch.ones(()), torch.ones(())
    for at in range(8):
        x = torch.full((3, 8), float(at))
        y = x.clone()
        assert torch.equal(fast(x, states[0]), write(y, states[1]))
        assert torch.equal(x, y)
        assert torch.equal(*states)
        market.wait(60)
    assert counting.runs > 0


def test_a_plan_that_raises_is_dropped(counting: Counting) -> None:
    module = layers()
    fast = pijit.jit(lambda x: module(x) * 2, backend="counting")
    x = torch.randn(3, 8)
    settled(fast, x)

    def fail(outputs: Any) -> Any:
        raise RuntimeError("no luck")

    counting.around = fail
    assert torch.equal(fast(x), module(x) * 2)
    (key,) = segments(fast)[0].keys
    assert not key.plans
    assert "no luck" in key.refused["counting"]
    counting.around = lambda outputs: outputs
    runs = counting.runs
    assert torch.equal(fast(x), module(x) * 2)
    assert counting.runs == runs


def test_a_plan_that_gives_another_form_is_dropped(counting: Counting) -> None:
    module = layers()
    fast = pijit.jit(lambda x: module(x) * 2, backend="counting")
    x = torch.randn(3, 8)
    settled(fast, x)
    for wrong in (lambda outputs: [outputs[0].double()], lambda outputs: [None]):
        counting.around = wrong
        assert torch.equal(fast(x), module(x) * 2)
    assert not segments(fast)[0].keys[0].plans


def test_a_plan_that_differs_is_never_installed(
    counting: Counting, caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(_compared, "told", set())
    module = layers()
    counting.around = lambda outputs: [outputs[0] + 1]
    fast = pijit.jit(lambda x: module(x) * 2, backend="counting")
    x = torch.randn(3, 8)
    settled(fast, x)
    assert torch.equal(fast(x), module(x) * 2)
    assert not segments(fast)[0].keys[0].plans
    assert "differs from native replay by 1" in segments(fast)[0].keys[0].refused["counting"]
    settled(fast, torch.randn(4, 8))
    said = [row.message for row in caplog.records if row.levelname == "WARNING" and "differs" in row.message]
    assert len(said) == 1
    (directory,) = tmp_path.glob("pijit-difference-*")
    assert str(directory) in said[0]
    program = (directory / "run.py").read_text()
    assert "compilers.get('counting')" in program
    # The backend of this test is no package: another one, which is right, shows that the program runs.
    (directory / "run.py").write_text(program.replace("'counting'", "'torchscript'"))
    done = subprocess.run([sys.executable, directory / "run.py"], capture_output=True, text=True, check=True)
    assert done.stdout == "output 0: largest difference 0.0\n"


@pytest.mark.skipif(pijit.backends()["onnxruntime"] != "usable", reason="needs onnxruntime")
def test_an_operator_that_a_backend_has_not_got_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    module = layers()

    def both(x: Any) -> Any:
        return module(torch.special.bessel_j0(module(x).repeat(1, 2))) + 1

    fast = pijit.jit(both, backend="onnxruntime")
    for rows in (3, 4):
        settled(fast, torch.randn(rows, 8))
        x = torch.randn(rows, 8)
        torch.testing.assert_close(fast(x), both(x), rtol=1e-4, atol=1e-5)
    (segment,) = segments(fast)
    assert [key.plans[0].backend for key in segment.keys] == ["onnxruntime", "onnxruntime"]
    said = [row.message for row in caplog.records if "has not got" in row.message]
    assert len(said) == 1
    assert "test_segments.py:" in said[0]


@pytest.mark.skipif(pijit.backends()["onnxruntime"] != "usable", reason="needs onnxruntime")
def test_what_is_around_an_operator_of_the_program_is_compiled() -> None:
    with torch.library._scoped_library("pijit_test", "FRAGMENT") as library:
        library.define("twist(Tensor x, float by) -> Tensor")
        library.impl("twist", lambda x, by: x.flip(0) * by, "CPU")
        module, twist = layers(), torch.ops.pijit_test.twist
        assert twist(torch.ones(1), 2.0) == 2

        def both(x: Any) -> Any:
            return module(twist(module(x).repeat(1, 2), 1.5)) + 1

        fast = pijit.jit(both, backend="onnxruntime")
        settled(fast, torch.randn(3, 8))
        settled(fast, torch.randn(3, 8))
        found = segments(fast)
        assert [[each.backend for each in key.plans] for one in found for key in one.keys] == [["onnxruntime"]] * 2
        for _ in range(2):
            x = torch.randn(3, 8)
            torch.testing.assert_close(fast(x), both(x), rtol=1e-4, atol=1e-5)


def test_turns_end_with_the_fastest(counting: Counting) -> None:
    import time

    def slow(module: Any, example_inputs: Any) -> Any:
        def run(*inputs: Any) -> Any:
            time.sleep(0.01)
            return module.forward(*inputs)

        return run

    pijit.register_backend("slow", slow)
    module = layers()
    fast = pijit.jit(lambda x: module(x) * 2, backend=["slow", "counting"])
    x = torch.randn(3, 8)
    settled(fast, x)
    for _ in range(40):
        assert torch.equal(fast(x), module(x) * 2)
    (key,) = segments(fast)[0].keys
    assert key.state in {"settled", "settled natively"}
    assert key.plans[0].backend == "counting"


def test_a_number_of_data_is_in_no_key(counting: Counting) -> None:
    """It differs from call to call; so each call would be another form. Here in a side trace, too."""
    module = layers()

    def decide(x: Any) -> Any:
        y = module(x) + 1
        y = y * 2 if y.shape[0] > 3 else y * 3
        if float(y.sum()) > 1e9:
            return y
        return (y.relu() * 2 + 1).tanh().exp()

    fast = pijit.jit(decide, backend="counting")
    settled(fast, torch.randn(3, 8))
    for _ in range(12):
        x = torch.randn(5, 8)
        assert torch.equal(fast(x), decide(x))
        assert market.wait(60)
    assert len(pijit.traces(fast)) == 2
    for trace in pijit.traces(fast):
        for segment in trace.segments:
            forms = [key.form for key in segment.keys]
            assert len(forms) == len(set(forms))


def test_threads_call_while_plans_come(counting: Counting) -> None:
    module = layers()
    fast = pijit.jit(lambda x: module(x) * 2, backend=["counting", "torchscript"])
    wrong: list[Any] = []

    def work(seed: int) -> None:
        with torch.no_grad():
            made = torch.Generator().manual_seed(seed)
            for at in range(60):
                x = torch.randn(1 + (seed + at) % 4, 8, generator=made)
                if not torch.equal(fast(x), module(x) * 2):
                    wrong.append((seed, at))

    in_threads(work, 4)
    assert not wrong


def test_a_forked_child_compiles_for_itself(counting: Counting) -> None:
    import os

    module = layers()
    fast = pijit.jit(lambda x: module(x) * 2, backend="counting")
    settled(fast, torch.randn(3, 8))
    child = os.fork()
    if child == 0:
        right = False
        try:
            pijit.enable()
            x = torch.randn(5, 8)
            for _ in range(3):
                right = torch.equal(fast(x), module(x) * 2) and market.wait(60)
            right = right and counting.compiled == 2
        finally:
            os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_traces_that_go_while_plans_are_made(counting: Counting) -> None:
    module = layers()
    fast = pijit.jit(lambda x: module(x) * 2, backend="counting")
    x = torch.randn(3, 8)
    for _ in range(5):
        for _ in range(3):
            assert torch.equal(fast(x), module(x) * 2)
        pijit.reset(fast)
    assert market.wait(60)
    settled(fast, x)
    assert torch.equal(fast(x), module(x) * 2)


def test_functions_found_by_themselves_have_the_backend_of_the_options(counting: Counting) -> None:
    module = layers()

    def found(x: Any) -> Any:
        return module(x) * 2

    before = pijit.config.update({"backend": "counting"})
    try:
        x = torch.randn(3, 8)
        with pijit.enabled():
            for _ in range(4):
                assert torch.equal(found(x), module(x) * 2)
                market.wait(60)
            runs = counting.runs
            assert torch.equal(found(x), module(x) * 2)
            assert counting.runs > runs
    finally:
        pijit.config.update(before)
        pijit.reset()
    assert pijit.config.backend == "native"


def test_a_backend_that_is_not_installed_is_said_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = layers()
    monkeypatch.setattr(type(get("xla")), "packages", ("a_package_of_nobody",))
    before = pijit.config.update({"backend": ["xla"]})
    try:
        fast = pijit.jit(lambda x: module(x) * 2)
        x = torch.randn(3, 8)
        for _ in range(4):
            assert torch.equal(fast(x), module(x) * 2)
            fast(torch.randn(4, 8))
        said = [row.message for row in caplog.records if row.name == "pijit" and row.levelname == "WARNING"]
        assert len(said) == 1
        assert "backend 'xla' needs a_package_of_nobody; run: pip install" in said[0]
    finally:
        pijit.config.update(before)


def test_wrong_backends_are_named() -> None:
    with pytest.raises(BackendError, match=r"no backend is called 'torchscipt'.*torchscript"):
        pijit.jit(lambda x: x, backend="torchscipt")
    with pytest.raises(UsageError, match="backend is a name"):
        pijit.jit(lambda x: x, backend=3)  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="options are those of a backend"):
        pijit.jit(lambda x: x, options={"fold": True})
    with pytest.raises(UsageError, match="has no option 'fold_it'"):
        pijit.jit(lambda x: x, backend="torchscript", options={"fold_it": True})


def test_a_replay_is_left_where_an_output_is_dead(counting: Counting) -> None:
    """What only a snapshot reads is computed of an output that later nodes were the last to read."""

    def branch(x: Any) -> Any:
        a = torch.relu(x)
        h = torch.tanh(a * 2) + a
        total = float((torch.tanh(a) * 3).sum())  # ends the segment
        b = torch.exp(a)  # too few operators for a plan
        del a
        if float(b.sum()) > 1000:
            return h * 2
        return torch.sigmoid(b) + total

    fast = pijit.jit(branch, backend="counting")
    x = torch.randn(3, 8)
    settled(fast, x)
    runs = counting.runs
    assert torch.equal(fast(x), branch(x))
    assert counting.runs > runs
    x = torch.full((3, 8), 5.0)
    assert torch.equal(fast(x), branch(x))
    assert torch.equal(fast(x), branch(x))


def test_a_replay_is_left_where_a_weight_is_let_go(counting: Counting) -> None:
    """The weight is read for the last time behind the plan."""
    held = {"weight": torch.randn(8, 8)}

    def branch(x: Any) -> Any:
        weight = held["weight"]
        h = torch.tanh(x @ weight) * 2
        total = float((torch.relu(x @ weight) * 3).sum())
        b = x @ weight  # too few operators for a plan
        del weight
        if float(b.sum()) * 0 + float(x[0, 0]) > 4:
            return h * 2
        return torch.sigmoid(b) + total

    fast = pijit.jit(branch, backend="counting")
    x = torch.zeros(3, 8)
    settled(fast, x)
    assert torch.equal(fast(x), branch(x))
    x = torch.full((3, 8), 5.0)
    assert torch.equal(fast(x), branch(x))


def test_a_module_that_is_an_argument(counting: Counting) -> None:
    """Its weights are found as those of a module that the function knows; another module has a trace of its own."""
    ours, other = layers(), layers()
    with torch.no_grad():
        other[0].weight.mul_(2)
    fast = pijit.jit(lambda module, x: module(x), backend="counting")
    x, y = torch.randn(3, 8), torch.randn(5, 8)
    for module in (ours, other):
        settled(fast, module, x)
        before = counting.runs
        assert torch.equal(fast(module, x), module(x))
        assert torch.equal(fast(module, y), module(y))
        assert counting.runs > before
        module[2].weight.data.mul_(3)
        assert torch.equal(fast(module, x), module(x))
        module[2].weight = nn.Parameter(torch.ones(16, 16))
        assert torch.equal(fast(module, x), module(x))


def test_a_module_that_is_an_argument_may_die(counting: Counting) -> None:
    fast = pijit.jit(lambda module, x: module(x), backend="counting")
    x = torch.randn(3, 8)
    for _ in range(6):
        module = layers()
        with torch.no_grad():
            module[0].bias.fill_(counting.compiled)
        gone = weakref.ref(module)
        settled(fast, module, x)
        assert torch.equal(fast(module, x), module(x))
        del module
        gc.collect()
        assert gone() is None
