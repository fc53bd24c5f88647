"""torch's higher order operators in a captured call: nodes "cond" and "while", right for data that goes other ways."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import numpy as np
import pytest
import torch

import pijit
from pijit.errors import ExportError
from pijit.graph import Graph
from pijit.graph.decompose.tracing import apart
from pijit.graph.model.branches import all_nodes

hop = pytest.importorskip("torch._higher_order_ops")

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def without_gradients() -> Any:
    with torch.no_grad():
        yield


def up(x: Any) -> Any:
    return x.sin() + 1


def down(x: Any) -> Any:
    return x.cos() - 1


def chosen(x: Any) -> Any:
    return torch.cond(x.sum() > 0, up, down, (x,)) * 2


def chosen_by_closures(x: Any) -> Any:
    y, n = x.exp(), x.shape[0]
    return torch.cond(x.sum() > 0, lambda x: x + y * n, lambda x: x - y, (x,))


def chosen_twice(x: Any) -> Any:
    inner = lambda x: torch.cond(x.max() > 1, up, down, (x,))  # noqa: E731
    return torch.cond(x.sum() > 0, inner, down, (x,))


def written_in_a_branch(x: Any) -> Any:
    def doubled(x: Any) -> Any:
        x = x.clone()
        x[0] = 5.0
        return x.mul_(2)

    return torch.cond(x.sum() > 0, doubled, down, (x,))


def less(i: Any, x: Any) -> Any:
    return (i < 3) & (x.sum() < 50)


def turn(i: Any, x: Any) -> Any:
    return i + 1, x * 2


def counted(x: Any) -> Any:
    return hop.while_loop(less, turn, (torch.tensor(0), x))


def added(carried: Any, x: Any) -> Any:
    return carried + x, carried * x


def scanned(x: Any) -> Any:
    carried, made = hop.scan(added, torch.zeros(3), x.sin())
    return carried * 2, made


def shifted(x: Any, y: Any) -> Any:
    return x.sin() + y


def mapped(x: Any) -> Any:
    return hop.map(shifted, x, torch.ones(()))


def plus(a: Any, b: Any) -> Any:
    return a + b


def summed(x: Any) -> Any:
    return hop.associative_scan(plus, x, 1, combine_mode="generic")


class Gate(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, self.a, self.b, (x,)).tanh()


class Two(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))


PROGRAMS: dict[str, tuple[Any, str]] = {
    "chosen": (chosen, "cond"),
    "chosen_by_closures": (chosen_by_closures, "cond"),
    "chosen_twice": (chosen_twice, "cond"),
    "written_in_a_branch": (written_in_a_branch, "cond"),
    "counted": (counted, "while"),
    "scanned": (scanned, "while"),
    "mapped": (mapped, "while"),
    "summed": (summed, ""),
    "gate": (Gate().eval(), "cond"),
}


def data(size: int, shift: float) -> Any:
    return torch.randn(size, 3, generator=torch.Generator().manual_seed(size)) + shift


CALLS = [data(4, 0), data(4, 2), data(4, -2), data(6, 3), data(2, -3)]


def close(plain: Any, made: Any, bits: bool) -> None:
    plain, made = (torch.utils._pytree.tree_leaves(each) for each in (plain, made))
    assert len(plain) == len(made)
    for a, b in zip(plain, made, strict=True):
        b = torch.as_tensor(np.array(b))
        assert a.shape == b.shape
        assert torch.equal(a, b) if bits else torch.allclose(a, b, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_graph_has_both_ways(name: str) -> None:
    program, op = PROGRAMS[name]
    graph = pijit.graph.capture(program, CALLS[0])
    assert graph.is_neutral
    assert not op or op in {node.op for node in all_nodes(graph)}
    again = Graph.from_json(graph.to_json())
    for x in CALLS if name != "summed" else CALLS[:3]:  # torch takes it apart for sizes like those of the call
        for made in (graph, again):
            close(program(x), made.run(x.clone()), bits=True)
        close(program(x), graph.run(x.numpy(), framework="numpy"), bits=False)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_replay_gives_the_same(name: str) -> None:
    program, _ = PROGRAMS[name]
    pijit.graph.capture(program, CALLS[0])  # recordings leave the operators whole from then on
    fast = pijit.jit(program)
    for x in (*CALLS, *CALLS):
        close(program(x), fast(x), bits=True)
    pijit.unjit(fast)


@pytest.mark.parametrize("format", ["fx", "exported_program", "onnx"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_formats_have_both_ways(name: str, format: str) -> None:
    program, _ = PROGRAMS[name]
    dynamic = None if name == "summed" else {"x": {0: "n"}}
    exported: Any = pijit.export(program, CALLS[0], format=format, dynamic=dynamic)  # type: ignore[call-overload]
    if format == "onnx":
        session = pytest.importorskip("onnxruntime").InferenceSession(exported.SerializeToString())
        run: Any = lambda x: session.run(None, {session.get_inputs()[0].name: x.numpy()})  # noqa: E731
    else:
        run = exported.module() if format == "exported_program" else exported
    for x in CALLS if name != "summed" else CALLS[:3]:
        close(program(x), run(x), bits=format != "onnx")


BIAS = torch.tensor([0.5, -2.0])


def attention(kind: str) -> Any:
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    if kind == "mask":
        mask = flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, 8, 8, device="cpu")
        return lambda x: flex.flex_attention(x, x * 2, x + 1, block_mask=mask)
    if kind == "groups":
        return lambda x: flex.flex_attention(x, x[:, :1], x[:, :1], enable_gqa=True, scale=0.3, return_lse=True)
    if kind == "scores":
        return lambda x: flex.flex_attention(x, x, x, score_mod=lambda s, b, h, i, j: s + BIAS[h] * (i - j) * 0.1)

    def closed_over(x: Any) -> Any:
        shift = x.mean()
        return flex.flex_attention(x, x, x, score_mod=lambda s, b, h, i, j: torch.where(i >= j, s + shift, -9.0)) + 1

    return closed_over


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["scores", "mask", "closed over", "groups"])
def test_attention_with_functions_of_the_program_is_the_operators_that_it_computes_with(kind: str) -> None:
    program = attention(kind)
    calls = [torch.randn(n, 2, 8, 16, generator=torch.Generator().manual_seed(n)) for n in (2, 3)]
    calls += [torch.randn(2, 2, 12, 16)] * (kind != "mask")  # whose size is that of the sequence
    graph = pijit.graph.capture(program, calls[0])
    assert graph.is_neutral
    assert not graph.breaks
    exported = pijit.export(graph, format="fx")
    session = pytest.importorskip("onnxruntime").InferenceSession(
        pijit.export(graph, format="onnx").SerializeToString()
    )
    for x in calls:
        close(program(x), exported(x), bits=True)
        close(program(x), graph.run(x.numpy(), framework="numpy"), bits=False)
        close(program(x), session.run(None, {session.get_inputs()[0].name: x.numpy()}), bits=False)


def test_an_associative_scan_fixes_sizes() -> None:
    """Torch takes it apart for those of the call."""
    with pytest.raises(ExportError, match=r"higher_order.py:\d+: dynamic= names axis 0 of 'x', whose size a decision"):
        pijit.export(summed, CALLS[0], format="fx", dynamic={"x": {0: "n"}})


def test_jax_has_both_ways() -> None:
    jax = pytest.importorskip("jax")
    for name in ("chosen", "counted", "scanned", "gate"):
        program, _ = PROGRAMS[name]
        graph = pijit.graph.capture(program, CALLS[0])
        compiled = jax.jit(lambda x, graph=graph: graph.run(x, framework="jax"))
        for x in CALLS[:3]:
            close(program(x), compiled(x.numpy()), bits=False)


def test_an_exported_program_that_holds_one() -> None:
    program = torch.export.export(Two(), (torch.ones(2),)).module()
    graph = pijit.graph.capture(program, torch.ones(2))
    assert "cond" in {node.op for node in graph.nodes}
    for x in (torch.ones(2), -torch.ones(2)):
        assert torch.equal(graph.run(x), program(x))


def test_a_few_items_are_copies() -> None:
    graph = pijit.graph.capture(lambda x: hop.scan(added, torch.zeros(3), x.reshape(2, 3))[1] * 1, data(2, 0))
    assert "while" not in {node.op for node in all_nodes(graph)} or graph.symbols
    for x in (data(2, 0), data(2, 5)):
        close(hop.scan(added, torch.zeros(3), x)[1], graph.run(x), bits=True)


def test_under_autocast_it_is_refused() -> None:
    """What is traced would lose the casts of the operators inside."""

    def program(x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return torch.cond(x.sum() > 0, up, down, (x,))

    with pytest.raises(ExportError, match=r"test_higher_order\.py:\d+.*cond"):
        pijit.export(program, CALLS[0], format="onnx")


class Remembers:
    """Keeps a tensor of the call, which a branch then reads."""

    def __call__(self, x: Any) -> Any:
        self.kept = x.exp()
        return torch.cond(x.sum() > 0, self.up, down, (x,))

    def up(self, x: Any) -> Any:
        return x + self.kept


def test_a_tensor_that_a_branch_is_not_given_is_refused() -> None:
    """It would be frozen: what this call has made is not what another one makes."""
    program = Remembers()
    with pytest.raises(ExportError, match=r"test_higher_order\.py:\d+.*cond.*give it as an operand"):
        pijit.export(program, CALLS[0], format="onnx")


def test_random_numbers_in_a_branch_are_refused() -> None:
    program = lambda x: torch.cond(x.sum() > 0, lambda x: x + torch.rand(3), lambda x: x - 1, (x,)) * 2  # noqa: E731
    with pytest.raises(ExportError, match=r"test_higher_order\.py:\d+.*draws random numbers"):
        pijit.export(program, CALLS[0], format="fx")


@pytest.mark.parametrize("name", ["counted", "scanned", "mapped"])
def test_eager_calls_before_fix_no_size(name: str) -> None:
    program, _ = PROGRAMS[name]
    for x in (CALLS[0], CALLS[3], CALLS[0]):  # torch compiles each of these with Dynamo
        program(x)
    graph = pijit.graph.capture(program, CALLS[0])
    for x in CALLS:
        close(program(x), graph.run(x.clone()), bits=True)


def test_threads_trace_one_behind_the_other() -> None:
    """The tracer at work is one for all threads of a process."""
    within: list[str] = []
    overlaps = 0

    def trace(name: str) -> None:
        nonlocal overlaps
        for _ in range(20):
            with apart(), apart():
                within.append(name)
                time.sleep(0.0005)
                overlaps += set(within) != {name}
                within.clear()

    threads = [threading.Thread(target=trace, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert overlaps == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_traces_though_a_thread_did_when_it_was_forked() -> None:
    graph = pijit.graph.capture(chosen, CALLS[0])  # what is imported late is there
    assert graph.is_neutral
    begun = threading.Event()

    def trace() -> None:
        with apart():
            begun.set()
            time.sleep(0.2)

    thread = threading.Thread(target=trace)
    thread.start()
    assert begun.wait(10)
    child = os.fork()
    if not child:
        with apart():
            os._exit(7)
    thread.join()
    for _ in range(200):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.05)
    else:
        os.kill(child, 9)
        os.waitpid(child, 0)
        pytest.fail("the child waits for a lock that a thread of its parent held")
    assert os.waitstatus_to_exitcode(status) == 7
