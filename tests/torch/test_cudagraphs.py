"""The backend "cudagraphs": what is captured gives what eager gives, call after call, whatever changes in between.

Without a GPU it runs on `twin`, whose graphs keep kernels and run them again on the same memory (devices/twin.cpp).
`make test-cuda` runs the same on CUDA.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import queue
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest
import torch
from devices import scenarios
from devices.both import on_both
from devices.scenarios import DEVICE, data, filled
from torch import Tensor, nn

import pijit
from pijit.compilers import Options, cudagraphs, market
from pijit.compilers._base import Declines
from pijit.errors import BackendError

pytestmark = [pytest.mark.torch]

ALWAYS = {"always": True}  # on `twin` a graph wins no time


def counted(captured: type[cudagraphs.Captured] = cudagraphs.Captured, plain: str = "operators") -> list[str]:
    """From now on what recordings do: "capture", "run" of a graph, and `plain`, where there is no graph."""
    done: list[str] = []
    for owner, name, word in (
        (captured, "_capture", "capture"),
        (cudagraphs._Recording, "run", "run"),
        (captured, "_operators", plain),
    ):
        inner = getattr(owner, name)
        inner = getattr(inner, "counted", inner)

        def call(*arguments: Any, inner: Any = inner, word: str = word) -> Any:
            done.append(word)
            return inner(*arguments)

        call.counted = inner  # type: ignore[attr-defined]
        setattr(owner, name, call)
    return done


def connected() -> None:
    """`twin` stands for a GPU."""
    if DEVICE != "cuda":
        cudagraphs.BACKEND.devices = (DEVICE,)
        cudagraphs.BACKEND.usable = lambda: None  # type: ignore[method-assign]
        cudagraphs._bounds = lambda graph, pool: graph.bounds()


def jitted(fn: Any, **options: Any) -> Any:
    connected()
    return pijit.jit(fn, backend="cudagraphs", options={**ALWAYS, **options})


def kernels() -> list[str]:
    """Those that have run on `twin` since it was asked last, without copies."""
    log = [] if DEVICE == "cuda" else torch.twin.take_log()
    return [line for line in log if not line.startswith("copy ")]


def settled(call: Callable[[], Any], count: Callable[[], list[str]] = counted, seconds: float = 60) -> None:
    """Calls until graphs alone answer: each call captures one at most, and waits so long for compilers."""
    done: list[str] = []
    for _ in range(20):
        if done and set(done) == {"run"}:
            return
        done = count()
        call()
        assert market.wait(seconds)
    raise AssertionError(done)


def keys(fast: Any) -> list[Any]:
    return [key for trace in pijit.traces(fast) for segment in trace.segments for key in segment.keys]


def check(
    made: Callable[[], nn.Module],
    inputs: Callable[[int], Any],
    start: Callable[[Any], Any] = jitted,
    count: Callable[[], list[str]] = counted,
    same: Callable[[Any, Any], bool] = torch.equal,
    seconds: float = 60,
) -> None:
    """A model and its twin: other inputs, weights written in place, weights that are others, other sizes."""
    plain, model = made(), made()
    fast = start(model)
    settled(lambda: fast(inputs(0)), count, seconds)
    done = count()
    for seed in range(1, 4):
        assert same(fast(inputs(seed)), plain(inputs(seed)))
    assert set(done) == {"run"}, done
    for each in (plain, model):
        scenarios.changed(each, 5)
    assert same(fast(inputs(4)), plain(inputs(4)))
    assert set(done) == {"run"}, done
    for each in (plain, model):
        for at, parameter in enumerate(each.parameters()):
            parameter.data = data(50 + at, *parameter.shape)
    for seed in range(5, 14):  # of several graphs one is captured in a call
        assert same(fast(inputs(seed)), plain(inputs(seed)))
    assert "capture" in done
    assert done[-1] == "run"


def perceptron() -> None:
    with torch.no_grad():
        check(scenarios.mlp, data)


def attention() -> None:
    with torch.no_grad():
        check(lambda: filled(scenarios.Attention()).eval(), lambda seed: data(seed, 2, 5, 8))


def language_model() -> None:
    def words(seed: int) -> Tensor:
        return torch.randint(11, (2, 4), generator=torch.Generator().manual_seed(seed)).to(DEVICE)

    with torch.no_grad():
        check(lambda: filled(scenarios.Language()), words)


def text_model() -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_inner": 32, "bos_token_id": 1, "eos_token_id": 2}
    made = filled(transformers.GPT2Model(transformers.GPT2Config(vocab_size=50, **sizes)).eval())
    fast = jitted(made)

    def call(model: Any, seed: int) -> list[Tensor]:
        words = torch.randint(50, (1, 6), generator=torch.Generator().manual_seed(seed)).to(DEVICE)
        out = model(words)
        layers = out.past_key_values.layers
        return [out.last_hidden_state, *(each for layer in layers for each in (layer.keys, layer.values))]

    with torch.no_grad():
        settled(lambda: call(fast, 0))
        for seed in range(1, 4):
            for got, right in zip(call(fast, seed), call(made, seed), strict=True):
                assert torch.equal(got, right)
                assert got.stride() == right.stride()


def results_stay_as_they_were() -> None:
    fast = jitted(f := lambda x: ((x * 2).softmax(-1), (x + 1).t().exp()))
    with torch.no_grad():
        settled(lambda: fast(data(0)))
        first = fast(data(1))
        second = fast(data(2))
        for got, right in zip(first, f(data(1)), strict=True):
            assert torch.equal(got, right)
        for each in first + second:
            each.fill_(7)
        for got, right in zip(fast(data(3)), f(data(3)), strict=True):
            assert torch.equal(got, right)
            assert got.untyped_storage().nbytes() == right.untyped_storage().nbytes()


def inputs_of_all_layouts() -> None:
    f = lambda x: ((x * 2 + 1).tanh(), x.sum(-1).exp())  # noqa: E731
    with torch.no_grad():
        for make in (
            lambda seed: data(seed, 4, 3).t(),
            lambda seed: data(seed, 1, 4).expand(3, 4),
            lambda seed: data(seed, 3, 9)[:, ::2],
            lambda seed: data(seed, 13)[1:].view(3, 4),
            lambda seed: data(seed)[:0],
            lambda seed: data(seed, 1)[0],
            lambda seed: data(seed).to(torch.bfloat16),
            lambda seed: data(seed) > 0,
        ):
            fast = jitted(lambda x: f(x.float()))
            for seed in range(6):
                for got, right in zip(fast(make(seed)), f(make(seed).float()), strict=True):
                    assert torch.equal(got, right)
                    assert got.stride() == right.stride()
                assert market.wait(60)


def an_address_that_is_less_even() -> None:
    f = lambda x: (x * 2).exp() + x  # noqa: E731
    fast = jitted(f)
    with torch.no_grad():
        settled(lambda: fast(data(0, 12)))
        for seed in range(7):
            for x in (data(seed, 13)[1:], data(seed, 12)):
                assert torch.equal(fast(x), f(x))
            assert market.wait(60)
        done = counted()
        for seed in range(4):
            x = data(seed, 13)[1:]
            assert torch.equal(fast(x), f(x))
            assert torch.equal(fast(data(seed, 12)), f(data(seed, 12)))
        assert set(done) == {"run"}, done


def settings_that_change() -> None:
    f = lambda x: (x @ x.t()).exp()  # noqa: E731
    fast = jitted(f)
    with torch.no_grad():
        settled(lambda: fast(data(0)))
        before = torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction
        try:
            for value in (not before, before):
                done = counted()
                torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = value
                for seed in range(3):
                    assert torch.equal(fast(data(seed)), f(data(seed)))
                assert done.count("capture") == 1, done
                assert done[-1] == "run"
        finally:
            torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = before


def weights_that_move_at_every_call() -> None:
    """Such a plan is given up, and says why."""
    model, plain = scenarios.mlp(), scenarios.mlp()
    fast = jitted(model)
    with torch.no_grad():
        for seed in range(30):
            for at, (mine, other) in enumerate(zip(model.parameters(), plain.parameters(), strict=True)):
                mine.data = data(seed + at, *mine.shape)
                other.data = mine.data.clone()
            assert torch.equal(fast(data(seed)), plain(data(seed)))
            assert market.wait(60)
    assert any("weights move" in why for key in keys(fast) for why in key.refused.values()), keys(fast)


def other_modes() -> None:
    f = lambda x: ((x * 2).softmax(-1), x.exp())  # noqa: E731
    fast = jitted(f)
    for mode in (torch.inference_mode, torch.no_grad, torch.inference_mode, torch.no_grad, torch.no_grad):
        for seed in range(4):
            x = data(seed)
            with mode():
                made = fast(x)
                right = f(x)
            assert [each.is_inference() for each in made] == [each.is_inference() for each in right]
            assert all(map(torch.equal, made, right))
            assert market.wait(60)


def autocast() -> None:
    model, plain = scenarios.mlp(), scenarios.mlp()
    fast = jitted(model)
    with torch.no_grad():
        for seed in range(8):
            with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=seed % 4 < 3):
                made, right = fast(data(seed)), plain(data(seed))
            assert made.dtype == right.dtype
            assert torch.equal(made, right)
            assert market.wait(60)


def streams_and_threads() -> None:
    model, plain = scenarios.mlp(), scenarios.mlp()
    fast = jitted(model)
    wrong: list[int] = []

    def work(first: int) -> None:
        with torch.no_grad(), torch.Stream(DEVICE) as stream:
            for seed in range(first, first + 20):
                x = data(seed, 6, 4)
                if not torch.equal(fast(x), plain(x)):
                    wrong.append(seed)
            stream.synchronize()

    with torch.no_grad():
        settled(lambda: fast(data(0, 6, 4)))
    threads = [threading.Thread(target=work, args=(first,)) for first in (0, 20, 40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    with torch.no_grad():
        assert torch.equal(fast(data(99, 6, 4)), plain(data(99, 6, 4)))


def nothing_runs_beside_the_program() -> None:
    """Threads that compile ask nothing of the device; later calls see, capture and compare in turn."""
    fast, plain = jitted(scenarios.mlp()), scenarios.mlp()
    with torch.no_grad():
        done = counted()
        logs = []
        for model in (plain, fast):
            model(data(0))
            kernels()
            model(data(1))
            assert market.wait(60)
            logs.append(kernels())
        assert logs[0] == logs[1]
        assert not done, done
        assert torch.equal(fast(data(2)), plain(data(2)))
        assert done == ["operators"], done  # what the engine compares first
        for seed in range(3, 7):
            assert torch.equal(fast(data(seed)), plain(data(seed)))
        # One call sees the operators, one captures them, one compares with them.
        assert done == ["operators", "operators", "capture", "operators", "run", "run"], done


def another_device() -> None:
    """Which is current, or not."""
    if scenarios.COUNT < 2:
        pytest.skip("needs two devices")
    f = lambda x: ((x @ x.t()).exp() + 1, x * 2)  # noqa: E731
    with torch.no_grad():
        for current in (0, 1):
            fast = jitted(lambda x: f(x))
            for seed in range(6):
                with torch.accelerator.device_index(current):
                    x = data(seed, device=scenarios.OTHER)
                    assert all(map(torch.equal, fast(x), f(x)))
                    assert torch.accelerator.current_device_index() == current
                    assert market.wait(60)
            done = counted()
            with torch.accelerator.device_index(current):
                x = data(9, device=scenarios.OTHER)
                assert all(map(torch.equal, fast(x), f(x)))
            assert done == ["run"]


def synchronize() -> None:
    """Wait for the device, as a program does."""
    torch.cuda.synchronize() if DEVICE == "cuda" else torch.twin.synchronize()


class Beside:
    """Threads beside the program: one that sleeps and looks, as a progress bar has, one that waits for a queue, as one
    that pins memory does, and others that wait for the device again and again, and compute on a stream of their own."""

    def __init__(self) -> None:
        self.end, self.raised = threading.Event(), []
        self.queue: queue.Queue[int | None] = queue.Queue()
        works = (self.look, self.wait, self.synchronize, self.synchronize, self.compute)
        self.threads = [threading.Thread(target=self.work, args=(each,)) for each in works]

    def work(self, what: Callable[[], None]) -> None:
        try:
            what()
        except Exception as error:
            self.raised.append(repr(error))

    def look(self) -> None:
        while not self.end.wait(0.001):
            pass

    def wait(self) -> None:
        while self.queue.get() is not None:
            pass

    def synchronize(self) -> None:
        while not self.end.is_set():
            synchronize()

    def compute(self) -> None:
        with torch.Stream(DEVICE) as stream:
            x = data(1)
            while not self.end.is_set():
                assert torch.equal((x * 2).exp(), (x + x).exp())
                stream.synchronize()

    def __enter__(self) -> Beside:
        for each in self.threads:
            each.start()
        return self

    def __exit__(self, *why: object) -> None:
        self.end.set()
        self.queue.put(None)
        for each in self.threads:
            each.join()


def other_threads() -> None:
    """Captures are made beside them; they and the calls find what they would find without."""
    with torch.no_grad(), Beside() as beside:
        for made in range(4):
            fast = jitted(f := lambda x, made=made: (x * made).exp() + x)
            settled(lambda: fast(data(0)))
            done = counted()
            for seed in range(1, 4):
                beside.queue.put(seed)
                assert torch.equal(fast(data(seed)), f(data(seed)))
            assert set(done) == {"run"}, done
    assert beside.raised == []


def a_thread_that_waits_already() -> None:
    """A capture begins while a thread waits for what the device does."""
    fast = jitted(f := lambda x: (x * 2).exp() + x)
    raised: list[str] = []

    def work() -> None:
        try:
            synchronize()
        except Exception as error:
            raised.append(repr(error))

    with torch.no_grad():
        for seed in range(6):
            if DEVICE == "cuda":
                torch.cuda._sleep(200_000_000)
            thread = threading.Thread(target=work)
            thread.start()
            time.sleep(0.01)
            assert torch.equal(fast(data(seed)), f(data(seed)))
            thread.join()
            assert market.wait(60)
        done = counted()
        assert torch.equal(fast(data(9)), f(data(9)))
    assert done == ["run"]
    assert raised == []


def operators_of_python() -> None:
    """They give up the GIL: nothing is captured beside threads, and what is said is why."""

    @torch.library.custom_op("pijit_tests::doubled", mutates_args=())
    def doubled(x: Tensor) -> Tensor:
        return x * 2

    doubled.register_fake(torch.empty_like)
    fast = jitted(f := lambda x: (doubled(x).exp() + x).tanh() * 3 - 1)
    with torch.no_grad(), Beside() as beside:
        for seed in range(6):
            assert torch.equal(fast(data(seed)), f(data(seed)))
            assert market.wait(60)
    assert beside.raised == []


def numbers_in_between() -> None:
    """What waits for the device stands between two graphs."""

    def f(x: Tensor) -> Tensor:
        y = (x * 2).exp().softmax(-1)
        if y.sum().item() > 1e6:
            return y
        return (y + x).tanh() * 3 - y

    fast = jitted(f)
    with torch.no_grad():
        settled(lambda: fast(data(0)))
        for seed in range(1, 5):
            assert torch.equal(fast(data(seed)), f(data(seed)))


def random_numbers() -> None:
    """They are the program's, in its order."""
    f = lambda x: torch.nn.functional.dropout(x.exp() * 2, 0.5) + x  # noqa: E731
    fast = jitted(f)
    with torch.no_grad():
        for seed in range(6):
            torch.manual_seed(seed)
            right = [f(data(seed)), torch.rand(2, device=DEVICE)]
            torch.manual_seed(seed)
            made = [fast(data(seed)), torch.rand(2, device=DEVICE)]
            assert all(map(torch.equal, made, right))
            assert market.wait(60)


def refused_with(owner: Any, name: str, method: Callable[..., Any]) -> str:
    """Why no graph answers where this method stands in another's place; the results are right all the while."""
    f = lambda x: (x * 2).exp() + x  # noqa: E731
    fast = jitted(f)
    with pytest.MonkeyPatch.context() as patched, torch.no_grad():
        patched.setattr(owner, name, method)
        for seed in range(6):
            assert torch.equal(fast(data(seed)), f(data(seed)))
            assert market.wait(60)
    (key,) = keys(fast)
    return str(key.refused)


def results_of_a_graph_that_are_others() -> None:
    """It is not used; what comes after it is right."""
    inner = cudagraphs._Recording.run

    def other(self: Any, inputs: Any) -> Any:
        return tuple(each + 1 for each in inner(self, inputs))

    assert "gives other results" in refused_with(cudagraphs._Recording, "run", other)


def a_capture_that_fails() -> None:
    """The operators are called as before, and a later capture of something else is made."""
    connected()
    inner = cudagraphs._bounds

    def failing(graph: Any, pool: Any) -> tuple[Any, Any]:
        begin, end = inner(graph, pool)
        return lambda: (begin(), data(1).sum().item()), end

    assert "cannot capture" in refused_with(cudagraphs, "_bounds", failing)
    with torch.no_grad():
        torch.manual_seed(1)
        drawn = torch.rand(3, device=DEVICE)
        torch.manual_seed(1)
        assert torch.equal(torch.rand(3, device=DEVICE), drawn)
        other = jitted(g := lambda x: (x * 3).tanh() - 1)
        settled(lambda: other(data(0)))
        assert torch.equal(other(data(1)), g(data(1)))


def a_capture_that_is_disturbed() -> None:
    """Somebody waits for the device while it is made. Who draws random numbers behind it gets those of eager."""
    connected()
    inner = cudagraphs._bounds

    def disturbed(graph: Any, pool: Any) -> tuple[Any, Any]:
        begin, end = inner(graph, pool)

        def both() -> None:
            begin()
            with contextlib.suppress(RuntimeError):
                synchronize()

        return both, end

    torch.manual_seed(3)
    right = [torch.rand(3, device=DEVICE) for _ in range(2)]
    torch.manual_seed(3)
    drawn = [torch.rand(3, device=DEVICE)]
    assert "cannot capture" in refused_with(cudagraphs, "_bounds", disturbed)
    drawn.append(torch.rand(3, device=DEVICE))
    assert all(map(torch.equal, drawn, right))
    with torch.no_grad():
        other = jitted(g := lambda x: (x * 3).tanh() - 1)
        settled(lambda: other(data(0)))
        assert torch.equal(other(data(1)), g(data(1)))


def steps_of_optimizers() -> None:
    for make in (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: torch.optim.Adam(p, lr=0.1)):
        sides = []
        for wrap in (lambda fn: fn, jitted):
            model = scenarios.mlp()
            optimizer = make(model.parameters())

            def step(x: Tensor, y: Tensor, model: Any = model, optimizer: Any = optimizer) -> Tensor:
                optimizer.zero_grad()
                loss = ((model(x) - y) ** 2).mean()
                loss.backward()
                optimizer.step()
                return loss.detach()

            sides.append((model, wrap(step)))
        for seed in range(8):
            losses = [step(data(seed), data(seed + 1, 3, 2)) for _, step in sides]
            assert torch.equal(*losses)
            for mine, other in zip(*(model.parameters() for model, _ in sides), strict=True):
                assert torch.equal(mine, other)
            assert market.wait(60)


def a_whole_step() -> None:
    """Forward and backward pass and the optimizer are one graph; what it gives is written at once."""
    sides = []
    for wrap in (lambda fn: fn, jitted):
        model = scenarios.mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(x: Tensor, y: Tensor, model: Any = model, optimizer: Any = optimizer) -> Tensor:
            optimizer.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        sides.append((model, optimizer, wrap(step)))
    done: list[str] = []
    for seed in range(14):
        if seed == 12:
            done = counted()
            kernels()
        losses = [step(data(seed), data(seed + 1, 3, 2)) for _, _, step in sides]
        assert torch.equal(*losses)
        for mine, other in zip(*(model.parameters() for model, _, _ in sides), strict=True):
            assert torch.equal(mine, other)
            assert torch.equal(mine.grad, other.grad)
        for mine, other in zip(*(optimizer.state.values() for _, optimizer, _ in sides), strict=True):
            assert torch.equal(mine["momentum_buffer"], other["momentum_buffer"])
        assert market.wait(60)
    assert done == ["run", "run"]
    if DEVICE != "cuda":
        kernels()
        sides[1][2](data(1), data(2, 3, 2))
        first, *others = kernels()
        assert first == "graph twin:0 stream 0"
        assert any(line.startswith("aten::native_layer_norm_backward") for line in others), others


def python_within_a_step() -> None:
    """Hits of caches, and a variable of the context that is set and set back: they are done behind the graph."""
    sides = []
    for wrap in (lambda fn: fn, jitted):
        model = scenarios.mlp()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        collected: ContextVar[Any] = ContextVar("collected", default="nothing")

        @functools.lru_cache
        def scale(device: Any, *more: int) -> float:
            return 0.5 * len(more)

        def step(
            x: Tensor,
            y: Tensor,
            model: Any = model,
            optimizer: Any = optimizer,
            of: Any = collected,
            scale: Any = scale,
        ) -> Tensor:
            optimizer.zero_grad()
            token = of.set({})
            out = model(x) * scale(x.device, 1, 2)
            of.reset(token)
            loss = ((out - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        sides.append((model, wrap(step), scale, collected))
    for seed in range(12):
        losses = [step(data(seed), data(seed + 1, 3, 2)) for _, step, *_ in sides]
        assert torch.equal(*losses)
        for mine, other in zip(*(model.parameters() for model, *_ in sides), strict=True):
            assert torch.equal(mine, other)
            assert torch.equal(mine.grad, other.grad)
        assert len({repr(scale.cache_info()) for *_, scale, _ in sides}) == 1, seed
        assert {collected.get() for *_, collected in sides} == {"nothing"}
        assert market.wait(60)
        if seed == 9:
            for *_, scale, _ in sides:
                scale.cache_clear()
    traces = pijit.traces(sides[1][1])
    assert any(len(trace.segments) == 1 and trace.segments[0].share > 0.95 for trace in traces)
    assert any(plan.runs > 0 for key in keys(sides[1][1]) for plan in key.plans)


def a_variable_within_a_forward() -> None:
    """One of the context that is set and set back is so behind the graph, also where nothing records gradients."""
    collected: ContextVar[Any] = ContextVar("collected", default="nothing")
    model = scenarios.mlp()

    def f(x: Tensor) -> Tensor:
        y = model(x)
        token = collected.set({})
        y = model[:2](y @ y.t() @ x)
        collected.reset(token)
        return y.exp()

    fast = jitted(f)
    with torch.no_grad():
        settled(lambda: fast(data(0)))
        done = counted()
        for seed in range(1, 4):
            assert torch.equal(fast(data(seed)), f(data(seed)))
            assert collected.get() == "nothing"
    assert done == ["run"] * 3, done


def operators_on_lists() -> None:
    """A GPU's kernels for lists round otherwise than those for tensors: what they compute stays one operator."""
    writes: dict[str, Callable[[Tensor, Tensor, Tensor], object]] = {
        "_foreach_div": lambda a, b, c: torch._foreach_div_([a, b], [3.0, 7.0]),
        "_foreach_addcdiv": lambda a, b, c: torch._foreach_addcdiv_([a, b], [c, c], [c, c], [1.5, -1.0]),
        "_foreach_sqrt": lambda a, b, c: torch._foreach_sqrt_([a, b]),
        "_foreach_lerp": lambda a, b, c: torch._foreach_lerp_([a, b], [c, c], 0.3),
        "": lambda a, b, c: torch._foreach_mul_([a, b], [b, c]),  # it reads what it writes
    }
    for name, write in writes.items():

        def f(a: Tensor, b: Tensor, c: Tensor, write: Any = write) -> tuple[Tensor, Tensor]:
            a, b = a.clone(), b.clone()
            write(a, b, c)
            return a + 0.5, b * 2

        graph = pijit.graph.capture(f, *(data(seed).abs() + 1 for seed in range(3)))
        kept = [node.op.partition("::")[2].partition(".")[0] for node in graph.nodes if "foreach" in node.op]
        assert kept == [name] * (name != ""), kept
        for seed in range(3):
            given = [data(seed + at).abs() + 1 for at in range(3)]
            assert all(map(torch.equal, graph.run(*given), f(*given)))
            assert all(map(torch.equal, graph.functional().run(*given), f(*given)))


class Dropping(nn.Module):
    """A dropout by hand: that of torch has a kernel of its own on a GPU alone."""

    def forward(self, x: Tensor) -> Tensor:
        return x * (torch.rand_like(x) < 0.6) * torch.empty_like(x).bernoulli_(0.9)


def dropping() -> nn.Sequential:
    drop = nn.Dropout(0.4) if DEVICE == "cuda" else Dropping()
    return scenarios.filled(nn.Sequential(nn.Linear(4, 8), drop, nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 2), drop))


def steps_that_draw(*wraps: Any) -> list[Callable[[int], list[Tensor]]]:
    """Training steps of equal models. A call seeds the generator, and gives all that follows from that."""

    def made(wrap: Any) -> Callable[[int], list[Tensor]]:
        model = dropping()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        @wrap
        def step(x: Tensor, y: Tensor) -> Tensor:
            optimizer.zero_grad()
            noisy = x + 0.1 * torch.randn_like(x)
            loss = ((model(noisy) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        def seeded(seed: int) -> list[Tensor]:
            torch.manual_seed(seed)
            before = torch.rand(seed % 3, device=DEVICE)
            loss = step(data(seed), data(seed + 1, 3, 2))
            after = torch.rand(2, device=DEVICE)
            weights = [each for p in model.parameters() for each in (p.detach().clone(), p.grad)]
            return [before, loss, after, *weights]

        return seeded

    return [made(wrap) for wrap in wraps]


def a_step_that_draws() -> None:
    """Its numbers are those of eager execution, and so are those that the program draws around it."""
    plain, fast = steps_that_draw(lambda fn: fn, jitted)
    done: list[str] = []
    for seed in range(16):
        if seed == 13:
            done = counted()
            kernels()
        assert all(map(torch.equal, plain(seed), fast(seed)))
        assert market.wait(60)
    assert done == ["run", "run", "run"]
    torch.manual_seed(7)
    first, second = plain(7), plain(8)
    assert not torch.equal(first[1], second[1])
    assert all(map(torch.equal, (*first, *second), (*fast(7), *fast(8))))


def a_graph_that_draws_otherwise() -> None:
    """It is dropped, whether its numbers are others or the generator is left elsewhere; the program's are right."""
    for wrong in ("more", "less"):
        inner = cudagraphs._Recording.run

        def other(self: Any, inputs: Any, wrong: str = wrong, inner: Any = inner) -> Any:
            runtime, index = torch.get_device_module(DEVICE), torch.accelerator.current_device_index()
            state = runtime.get_rng_state(index)
            given = inner(self, inputs)
            if wrong == "less":
                runtime.set_rng_state(state, index)
            else:
                torch.rand(3, device=DEVICE)
            return given

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(cudagraphs._Recording, "run", other)
            steps: list[Any] = []

            def kept(fn: Any, steps: list[Any] = steps) -> Any:
                steps.append(jitted(fn))
                return steps[0]

            plain, fast = steps_that_draw(lambda fn: fn, kept)
            for seed in range(12):
                assert all(map(torch.equal, plain(seed), fast(seed))), wrong
                assert market.wait(60)
        assert any("random numbers" in str(key.refused) or "draws from" in str(key.refused) for key in keys(steps[0]))


def gives_its_memory_back() -> None:
    model = scenarios.mlp()
    for _ in range(2):
        fast: Any = jitted(model)
        with torch.no_grad():
            settled(lambda: fast(data(0)))
        pool = cudagraphs._pools[data(0).device]
        assert len(pool.graphs) > 0
        fast = None
        pijit.reset()
        gc.collect()
        assert market.wait(60)
        for _ in range(100):
            if not pool.graphs:
                break
            threading.Event().wait(0.1)
        assert not pool.graphs
    with torch.no_grad():
        again = jitted(model)
        settled(lambda: again(data(0)))
        assert torch.equal(again(data(1)), model(data(1)))


def a_graph_by_itself() -> None:
    """A plan that is called by hand."""
    connected()
    model = scenarios.mlp()
    with torch.no_grad():
        graph = pijit.graph.capture(model, data(0))
        plan = cudagraphs.BACKEND.compile(graph, Options(settings=ALWAYS))
        answers = []
        for seed in range(6):
            with contextlib.suppress(Declines):  # the call that captures
                (made,) = plan(data(seed))
                answers.append(seed)
                assert torch.equal(made, model(data(seed)))
        assert answers == [0, 1, 3, 4, 5]
        pool = cudagraphs._pools[data(0).device]
        before = len(pool.graphs)
        plan = None  # not closed: what is captured later has a pool that is there
        gc.collect()
        assert len(pool.graphs) < before
        other = jitted(model)
        settled(lambda: other(data(0)))
        assert torch.equal(other(data(1)), model(data(1)))
        of_cpu = pijit.graph.capture(lambda x: x.exp() + 1, torch.ones(2))
        with pytest.raises(BackendError, match=f"takes tensors of {DEVICE} only; this has tensors of cpu"):
            cudagraphs.BACKEND.compile(of_cpu)


def other_compilers_take_none() -> None:
    model = scenarios.mlp()
    f, x = pijit.jit(scenarios.mlp(), backend="torchscript"), data(1)
    with torch.no_grad():
        for _ in range(8):
            assert torch.equal(f(x), model(x))
            assert market.wait(60)
    assert "takes tensors of cpu only" in str(keys(f)[0].refused)


def the_fastest_stays() -> None:
    """With "auto", whoever that is."""
    connected()
    model, plain = scenarios.mlp(), scenarios.mlp()
    fast = pijit.jit(model, backend="auto")
    with torch.no_grad():
        for seed in range(60):
            assert torch.equal(fast(data(seed)), plain(data(seed)))
            if seed < 4:
                assert market.wait(60)


CASES = (
    perceptron,
    attention,
    language_model,
    text_model,
    results_stay_as_they_were,
    inputs_of_all_layouts,
    an_address_that_is_less_even,
    settings_that_change,
    weights_that_move_at_every_call,
    other_modes,
    autocast,
    streams_and_threads,
    nothing_runs_beside_the_program,
    another_device,
    other_threads,
    a_thread_that_waits_already,
    operators_of_python,
    numbers_in_between,
    random_numbers,
    results_of_a_graph_that_are_others,
    a_capture_that_fails,
    a_capture_that_is_disturbed,
    steps_of_optimizers,
    a_whole_step,
    python_within_a_step,
    a_variable_within_a_forward,
    operators_on_lists,
    a_step_that_draws,
    a_graph_that_draws_otherwise,
    gives_its_memory_back,
    a_graph_by_itself,
    other_compilers_take_none,
    the_fastest_stays,
)
child, test_on_twin, test_on_cuda = on_both(__file__, CASES)
