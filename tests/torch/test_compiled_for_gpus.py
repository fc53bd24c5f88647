"""The backend "inductor" for tensors of a GPU: what it has compiled runs under a graph, and gives what it gives alone.

Without a GPU it runs on `twin`, whose code is a stand-in: the graph's operators behind the face of a package. All else
is what runs on CUDA. `make test-cuda` runs the same with Triton's kernels.
"""

from __future__ import annotations

import functools
import gc
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import test_cudagraphs
import torch
from devices import scenarios
from devices.both import on_both
from devices.scenarios import DEVICE, data, filled
from growing import Decoder
from test_cudagraphs import Beside, keys
from torch import Tensor

import pijit
from pijit._formats.fx.lowering import targets
from pijit.compilers import _torch, cudagraphs, inductor, market
from pijit.compilers._captured_calls import CapturedCall
from pijit.graph.model import Graph

pytestmark = [pytest.mark.torch]

OF_GPU = inductor._OF_GPU
built: dict[str, Graph] = {}  # by the file of the package
run_alone = CapturedCall._operators


class Package:
    """What a loader of AOTInductor is, for the operators of a graph."""

    def __init__(self, file: str, name: str, single: bool, count: int, index: int) -> None:
        assert single, "a graph takes no code with locks and events of its own"
        graph = built[file]
        inputs = _torch.with_weights_as_inputs(graph, inductor._small(graph))
        self.module, self.paths, self.index = _torch.module_of(inputs), targets(inputs), index

    def get_constant_fqns(self) -> list[str]:
        return [*self.paths.values()]

    def load_constants(self, given: dict[str, Tensor], *flags: bool) -> None:
        self.module.pijit_rebind({name: given[path] for name, path in self.paths.items()})

    def boxed_run(self, given: list[Tensor]) -> list[Tensor]:
        assert not torch.is_autocast_enabled(DEVICE)
        assert torch.accelerator.current_device_index() == self.index
        for each in given:
            assert each.is_contiguous()
            assert each.data_ptr() % 64 == 0
        inputs = [*given]
        given.clear()
        with torch.no_grad():
            return [*self.module.forward(*inputs)]


class Standing(Package):
    """`(x * 2).exp() + x` as one function of C, which keeps the GIL."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.boxed_run = torch.twin.compiled


def connected() -> None:
    """`twin` stands for a GPU, and a graph is worth it."""
    cudagraphs._GAIN = 1e9
    if DEVICE == "cuda":
        return
    OF_GPU.devices, OF_GPU.remote = (DEVICE,), False
    OF_GPU.usable = lambda: None  # type: ignore[method-assign]
    OF_GPU.machine = lambda graph: {}  # type: ignore[method-assign]
    OF_GPU.build = build  # type: ignore[method-assign]
    inductor._loader = Package
    cudagraphs._bounds = lambda graph, pool: graph.bounds()


def build(graph: Graph, options: Any, directory: Path) -> None:
    file = directory / inductor._FILE
    file.write_text("code")
    built[str(file)] = graph


def jitted(fn: Any, **options: Any) -> Any:
    connected()
    return pijit.jit(fn, backend="inductor", **options)


def same(made: Any, right: Any) -> bool:
    """Bits on `twin`; on CUDA within the promise."""
    made, right = ([each] if isinstance(each, Tensor) else each for each in (made, right))
    if any(a.stride() != b.stride() or a.dtype != b.dtype for a, b in zip(made, right, strict=True)):
        return False
    return all(map(torch.equal if DEVICE != "cuda" else OF_GPU.within, made, right))


counted = functools.partial(test_cudagraphs.counted, CapturedCall, "alone")  # the code itself
settled = functools.partial(test_cudagraphs.settled, count=counted, seconds=300)
check = functools.partial(test_cudagraphs.check, start=jitted, count=counted, same=same, seconds=300)


def perceptron() -> None:
    with torch.no_grad():
        check(scenarios.mlp, data)


def attention() -> None:
    with torch.no_grad():
        check(lambda: filled(scenarios.Attention()).eval(), lambda seed: data(seed, 2, 5, 8))


def language_model() -> None:
    """Nothing looks at its words beside the code, which would wait for the device."""

    def words(seed: int) -> Tensor:
        return torch.randint(11, (2, 4), generator=torch.Generator().manual_seed(seed)).to(DEVICE)

    with torch.no_grad():
        check(lambda: filled(scenarios.Language()), words)


def the_code_answers_at_once() -> None:
    """Until there is a graph, and in the call that captures it; threads that compile run nothing."""
    fast, plain = jitted(f := scenarios.mlp()), f
    with torch.no_grad():
        done = counted()
        for seed in range(2):
            fast(data(seed))
            assert market.wait(300)
        assert not done, done
        for seed in range(2, 8):
            assert same(fast(data(seed)), plain(data(seed)))
        # One call sees the code on the other stream, one captures it, one compares with it, and one weighs.
        assert done[:6] == ["alone", "alone", "capture", "alone", "alone", "run"], done
        assert set(done[6:]) == {"run"}, done


def inputs_of_all_layouts() -> None:
    f = lambda x: ((x * 2 + 1).tanh(), x.sum(-1).exp())  # noqa: E731
    with torch.no_grad():
        for make in (
            lambda seed: data(seed, 4, 3).t(),
            lambda seed: data(seed, 1, 4).expand(3, 4),
            lambda seed: data(seed, 3, 9)[:, ::2],
            lambda seed: data(seed, 13)[1:].view(3, 4),
            lambda seed: data(seed)[:0],
            lambda seed: data(seed).to(torch.bfloat16).float(),
        ):
            fast = jitted(lambda x: f(x))
            for seed in range(8):
                assert same(fast(make(seed)), f(make(seed)))
                assert market.wait(300)


def results_stay_as_they_were() -> None:
    fast = jitted(f := lambda x: ((x * 2).softmax(-1), (x + 1).exp()))
    with torch.no_grad():
        settled(lambda: fast(data(0)))
        first, second = fast(data(1)), fast(data(2))
        assert same(first, f(data(1)))
        for each in first + second:
            each.fill_(7)
        assert same(fast(data(3)), f(data(3)))


def a_cache_that_grows() -> None:
    """Pieces get code of their own; what one gives the next stays in its memory."""
    plain, model = filled(Decoder().eval()), filled(Decoder().eval())
    fast = jitted(model)

    def generated(model: Any, tokens: int) -> Iterator[list[Tensor]]:
        words, cache = torch.ones(1, 1, dtype=torch.long, device=DEVICE), plain.empty(1, 3)
        for _ in range(tokens):
            scores, cache = model(words, cache)
            words = scores.argmax(-1)
            yield [scores, *(each for pair in cache for each in pair)]
            assert market.wait(300)

    with torch.no_grad():
        for _ in range(2):
            done = counted()
            for made, right in zip(generated(fast, 20), generated(plain, 20), strict=True):
                assert same(made, right)
    assert set(done) == {"run"}, done
    assert len([each for trace in pijit.traces(fast) for each in trace.segments]) == len(plain.layers) + 1


def another_device() -> None:
    """Which is current, or not."""
    if scenarios.COUNT < 2:
        pytest.skip("needs two devices")
    f = lambda x: ((x @ x.t()).exp() + 1, x * 2)  # noqa: E731
    with torch.no_grad():
        for current in (0, 1):
            fast = jitted(lambda x: f(x))
            for seed in range(9):
                done = counted()
                with torch.accelerator.device_index(current):
                    x = data(seed, device=scenarios.OTHER)
                    assert same(fast(x), f(x))
                    assert torch.accelerator.current_device_index() == current
                    assert market.wait(300)
            assert done == ["run"]


def autocast() -> None:
    model, plain = scenarios.mlp(), scenarios.mlp()
    fast = jitted(model)
    with torch.no_grad():
        for seed in range(12):
            with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=seed % 6 < 5):
                assert same(fast(data(seed)), plain(data(seed)))
            assert market.wait(300)


def other_modes() -> None:
    fast = jitted(f := lambda x: ((x * 2).softmax(-1), x.exp()))
    for mode in (torch.inference_mode, torch.no_grad, torch.inference_mode, torch.no_grad):
        for seed in range(8):
            with mode():
                made, right = fast(data(seed)), f(data(seed))
            assert [each.is_inference() for each in made] == [each.is_inference() for each in right]
            assert same(made, right)
            assert market.wait(300)


def other_threads() -> None:
    """It is captured beside them; they and the calls find what they would find without."""
    with torch.no_grad(), Beside() as beside, pytest.MonkeyPatch.context() as patched:
        for made in range(3):
            fast = jitted(f := lambda x, made=made: (x * 2).exp() + x)
            if DEVICE != "cuda":
                patched.setattr(inductor, "_loader", Standing)
            settled(lambda: fast(data(0)))
            done = counted()
            for seed in range(1, 4):
                beside.queue.put(seed)
                assert same(fast(data(seed)), f(data(seed)))
            assert set(done) == {"run"}, done
    assert beside.raised == []


def answers_alone(patch: Callable[[pytest.MonkeyPatch], None]) -> list[str]:
    """What is done at last where no graph can answer: the code does, and the results are right all the while."""
    fast = jitted(f := lambda x: (x * 2).exp() + x)
    with pytest.MonkeyPatch.context() as patched, torch.no_grad():
        patch(patched)
        done: list[str] = []
        for seed in range(10):
            done = counted()
            assert same(fast(data(seed)), f(data(seed)))
            assert market.wait(300)
    (key,) = keys(fast)
    assert not key.refused, key.refused
    return done


def a_graph_that_wins_nothing() -> None:
    assert answers_alone(lambda patched: patched.setattr(cudagraphs, "_GAIN", 0.0)) == ["alone"]


def a_capture_that_fails() -> None:
    connected()
    inner = cudagraphs._bounds

    def failing(graph: Any, pool: Any) -> tuple[Any, Any]:
        begin, end = inner(graph, pool)
        return lambda: (begin(), data(1).sum().item()), end

    assert answers_alone(lambda patched: patched.setattr(cudagraphs, "_bounds", failing)) == ["alone"]


def a_graph_that_gives_other_bits() -> None:
    connected()
    inner = cudagraphs._Recording.run

    def other(self: Any, inputs: Any) -> Any:
        return tuple(each * (1 + 1e-6) for each in inner(self, inputs))

    done = answers_alone(lambda patched: patched.setattr(cudagraphs._Recording, "run", other))
    assert done == ["alone"]


def code_that_errs() -> None:
    """By more than is promised: it is dropped, whether a graph has launched it or not."""
    if DEVICE == "cuda":
        pytest.skip("Triton's code does not")

    class Wrong(Package):
        def boxed_run(self, given: list[Tensor]) -> list[Tensor]:
            return [each + 1 for each in super().boxed_run(given)]

    fast = jitted(f := lambda x: (x * 2).exp() + x)
    with torch.no_grad(), pytest.MonkeyPatch.context() as patched:
        patched.setattr(inductor, "_loader", Wrong)
        for seed in range(6):
            assert same(fast(data(seed)), f(data(seed)))
            assert market.wait(300)
    (key,) = keys(fast)
    assert "more than it promises" in str(key.refused), key


def what_data_decide() -> None:
    """It is left to torch, between pieces of code; the indices of a table are not looked at."""
    table = data(9, 11, 4)

    def f(at: Tensor, x: Tensor) -> Tensor:
        rows = torch.nn.functional.embedding(at, table).exp() * 2 + x
        return (rows * 3).to(torch.int64).float().exp() + rows.tanh() - 1

    fast = jitted(f)
    done: list[str] = []
    with torch.no_grad():
        for seed in range(12):
            at = torch.randint(11, (3,), generator=torch.Generator().manual_seed(seed)).to(DEVICE)
            done = counted()
            assert same(fast(at, data(seed)), f(at, data(seed)))
            assert market.wait(300)
    assert done == ["run", "run"], (done, keys(fast))


def code_that_draws() -> None:
    """A compiled call by itself: a graph draws what it would draw, and the program what comes behind."""

    def call(given: list[Tensor]) -> list[Tensor]:
        (x,) = given
        given.clear()
        return [x * torch.randn_like(x), x + torch.randn_like(x)]

    class Code:
        first: Sequence[Tensor] = ()

        def rebind(self, weights: Any) -> bool:
            return True

    connected()
    code: Any = Code()
    code.call = call
    captured = CapturedCall(code, f"{DEVICE}:0", draws=True)
    with torch.no_grad():
        for seed in range(10):
            done = counted()
            sides = []
            for run in (lambda x: call([x]), captured.run):
                torch.manual_seed(seed)
                sides.append([*run(data(seed)), torch.rand(3, device=DEVICE)])
            assert all(map(torch.equal, *sides))
    assert done == ["run"]
    captured.close()


def gives_its_memory_back() -> None:
    model = scenarios.mlp()
    fast: Any = jitted(model)
    with torch.no_grad():
        settled(lambda: fast(data(0)))
    pool = cudagraphs._pools[data(0).device]
    before = len(pool.graphs)
    assert before > 0
    fast = None
    pijit.reset()
    gc.collect()
    assert market.wait(60)
    for _ in range(100):
        if len(pool.graphs) < before:
            break
        time.sleep(0.1)
    assert len(pool.graphs) < before


def without_triton() -> None:
    """ "auto" does not ask it, and one who names it is told what to install; nothing of it is imported."""
    connected()
    before = set(sys.modules)
    f = lambda x: ((x * 2).exp() + x).tanh() * 3 - x.sin()  # noqa: E731
    with torch.no_grad(), pytest.MonkeyPatch.context() as patched:
        patched.setattr(OF_GPU, "usable", lambda: "needs Triton for tensors of a GPU; run: pip install triton")
        for backend in ("auto", "inductor"):
            fast = pijit.jit(lambda x: f(x), backend=backend)
            for seed in range(5):
                assert same(fast(data(seed)), f(data(seed)))
                assert market.wait(60)
            refused = str([key.refused for key in keys(fast)])
            assert ("pip install triton" in refused) == (backend == "inductor"), refused
    new = {name.partition(".")[2].partition(".")[0] for name in set(sys.modules) - before if name.startswith("torch.")}
    assert "triton" not in set(sys.modules) - before
    assert "_inductor" not in new, new


CASES = (
    perceptron,
    attention,
    language_model,
    the_code_answers_at_once,
    inputs_of_all_layouts,
    results_stay_as_they_were,
    a_cache_that_grows,
    another_device,
    autocast,
    other_modes,
    other_threads,
    a_graph_that_wins_nothing,
    a_capture_that_fails,
    a_graph_that_gives_other_bits,
    code_that_errs,
    what_data_decide,
    code_that_draws,
    gives_its_memory_back,
    without_triton,
)
child, test_on_twin, test_on_cuda = on_both(__file__, CASES)
