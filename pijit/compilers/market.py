"""Makes plans for the segments of a root, beside the calls of the program.

The engine offers a segment once for each form of its tensors, with copies of what went in and came out. A thread of its
own builds the graph, has it compiled by each backend that was asked for, compares what the plan gives with what native
replay gave, and installs it. Until then, and wherever something goes wrong, native replay answers.

Rules:
1. A call of the program waits for nothing here: it leaves its offer in a queue.
2. A plan that differs by more than the backend's tolerance is never installed; that is said once.
3. Several backends take turns with native replay on the program's own calls; the fastest stays.
"""

import atexit
import contextlib
import logging
import os
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pijit import _core, compilers
from pijit.compilers import _reproduce, pool
from pijit.compilers._base import Backend, Options, Plan
from pijit.errors import BackendError, ExportError
from pijit.graph.model import Graph

# Of a plan: name, callable, what rebinds it, whether it reads weights where they lie, and the writes that it knows of.
_Row = tuple[str, Callable[..., Any], Callable[[], None], bool, tuple[int, int]]

_log = logging.getLogger("pijit")


@dataclass
class Outcome:
    """What became of one backend at one segment and key.

    Attributes:
        backend: its name.
        key: the form of the inputs.
        nodes: of the segment: the first, and the one behind the last.
        state: "compiling", "installed", or why not.
        difference: the largest absolute difference from native replay.
        seconds: that compiling took.
    """

    backend: str
    key: str
    nodes: tuple[int, int]
    state: str = "compiling"
    difference: float | None = None
    seconds: float = 0.0


@dataclass
class Market:
    """The backends that a root asks for; called by the engine with offers.

    Attributes:
        backends: in the order in which they are tried.
        options: for all of them.
        turns: plans and native replay take turns, and the fastest stays; else the first plan answers.
        outcomes: what became of each offer.
    """

    backends: Sequence[Backend]
    options: Options = field(default_factory=Options)
    turns: bool = False
    outcomes: list[Outcome] = field(default_factory=list)

    def __call__(self, place: Any, inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
        """An offer of the engine, after a call of the program."""
        import torch

        threads = torch.get_num_threads()
        _worker.submit(lambda: self._take(place, inputs, outputs, threads))

    def _take(self, place: Any, inputs: tuple[Any, ...], outputs: tuple[Any, ...], threads: int) -> None:
        import torch

        from pijit.graph.segment import graph_of_segment

        if not place.alive:
            return
        if torch.get_num_threads() != threads:  # of this thread: kernels add in another order with more of them
            torch.set_num_threads(threads)
        rows = [Outcome(backend.name, place.describe(), place.nodes) for backend in self.backends]
        self.outcomes += rows
        try:
            graph = graph_of_segment(place, inputs)
        except ExportError as error:
            for row in rows:
                row.state = str(error)
            return
        offered = _Offered(self, place, inputs, outputs, graph)
        for backend, row in zip(self.backends, rows, strict=True):
            if not place.alive or _worker.stopping:
                return
            writes = place.writes()
            compilation = pool.submit(graph, backend, self.options)
            if backend.remote:  # in a process, which other offers need not wait for
                _worker.wait_for(compilation, partial(offered.try_plan, backend, row, compilation, writes))
            else:
                offered.try_plan(backend, row, compilation, writes)


@dataclass
class _Offered:
    """One offer, and the plans that came of it."""

    market: Market
    place: Any
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    graph: Graph
    made: list[_Row] = field(default_factory=list)

    def try_plan(self, backend: Backend, row: Outcome, compilation: pool.Compilation, writes: tuple[int, int]) -> None:
        """Compare a plan, as soon as it is compiled, with native replay, and install it."""
        try:
            plan = compilation.wait()
            if plan is None or not self.place.alive:
                return
            row.difference = _difference(backend, plan, self.inputs, self.outputs)
        except _Differs as error:
            row.state = self._told(backend, error)
            return
        except BackendError as error:
            row.state = str(error)
            _log.info("pijit: %s", error)
            return
        row.seconds = compilation.seconds
        for line in set(plan.left_out) - _told:
            _log.log(logging.INFO if self.market.turns else logging.WARNING, "pijit: %s", line)
        _told.update(plan.left_out)
        call, rebind = _callable(plan, self.outputs), _rebinding(plan, self.graph.data)
        self.made.append((backend.name, call, rebind, plan.shares_weights, writes))
        row.state = "installed"
        self.place.install(self.made, self.market.turns)

    def _told(self, backend: Backend, error: "_Differs") -> str:
        """What is said of a difference, once for each backend, with where it can be seen again."""
        if backend.name in _told:
            return str(error)
        _told.add(backend.name)
        try:
            where = f"; {_reproduce.write(self.graph, backend.name, self.market.options, self.inputs, self.outputs)}"
            where += " has what is needed to see it again (run.py)"
        except (OSError, ExportError) as why:
            where = f" (it cannot be written down: {why})"
        _log.warning("pijit: %s%s", error, where)
        return f"{error}{where}"


def _callable(plan: Plan, outputs: Sequence[Any]) -> Callable[..., tuple[Any, ...]]:
    """What the engine calls: tensors without history in, tensors of the recorded strides out."""

    forms = [(tuple(tensor.shape), tensor.stride()) for tensor in outputs]

    def call(*inputs: Any) -> tuple[Any, ...]:
        made = plan(*[each.detach() if each.requires_grad else each for each in inputs])
        return tuple(
            tensor if tensor.stride() == stride else _laid_out(tensor, shape, stride)
            for tensor, (shape, stride) in zip(made, forms, strict=True)
        )

    _core.set_mark(call, "skip", "it runs compiled code")
    return call


def _laid_out(tensor: Any, shape: tuple[int, ...], stride: tuple[int, ...]) -> Any:
    import torch

    return torch.empty_strided(shape, stride, dtype=tensor.dtype).copy_(tensor)


def _rebinding(plan: Plan, weights: Mapping[str, Any]) -> Callable[[], None]:
    """What the engine calls when bound tensors were written; it raises where the plan cannot follow."""
    return lambda: plan.rebind(weights)


def _difference(backend: Backend, plan: Plan, inputs: Sequence[Any], outputs: Sequence[Any]) -> float:
    """The largest difference of a plan from native replay, relative to what is allowed.

    Raises:
        BackendError: it is beyond the backend's tolerance, or the results are of another form.
    """
    import torch

    with torch.no_grad():
        made = plan(*inputs)
    if len(made) != len(outputs):
        raise BackendError(f"backend {backend.name!r} gave {len(made)} results in the place of {len(outputs)}")
    largest = 0.0
    for got, right in zip(made, outputs, strict=True):
        if got.shape != right.shape or got.dtype != right.dtype:
            raise BackendError(
                f"backend {backend.name!r} gave {got.dtype}{list(got.shape)} in the place of "
                f"{right.dtype}{list(right.shape)}"
            )
        if right.numel() == 0 or torch.equal(got, right):
            continue
        relative, absolute = backend.allowed(str(right.dtype).removeprefix("torch."), plan.folded)
        if not torch.allclose(got, right, rtol=relative, atol=absolute, equal_nan=True):
            gap = (got.double() - right.double()).abs().max().item() if not right.is_complex() else float("nan")
            raise _Differs(
                f"backend {backend.name!r} differs from native replay by {gap:.3g}, which is more than it promises "
                f"(relative {relative:g}, absolute {absolute:g}): its plan is not used"
            )
        if not right.is_complex():
            largest = max(largest, (got.double() - right.double()).abs().max().item())
    return largest


class _Differs(BackendError):
    """A plan gives other numbers than native replay."""


_told: set[str] = set()  # backends of which a difference was said, and what was said of operators


class _Worker:
    """One thread that compiles, started with the first offer and ended before the interpreter is."""

    def __init__(self) -> None:
        self.stopping = False
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._pending = 0
        self._idle = threading.Condition()

    def submit(self, job: Callable[[], None]) -> None:
        """Done later, in the order of the calls."""
        if self.stopping:
            return
        with self._idle:
            self._pending += 1
        self._jobs.put(job)
        self._start()

    def wait_for(self, compilation: pool.Compilation, job: Callable[[], None]) -> None:
        """Submit the job when the compilation has ended."""
        with self._idle:
            self._pending += 1

        def wait() -> None:
            with contextlib.suppress(BackendError):
                compilation.wait()
            self.submit(job)
            self._done()

        threading.Thread(target=wait, name="pijit-compiled", daemon=True).start()

    def _start(self) -> None:
        if self._thread is None:
            _core.set_mark(_Worker._run, "opaque", "it compiles")  # else enable() would look into it
            self._thread = threading.Thread(target=self._run, name="pijit-compile", daemon=True)
            self._thread.start()
            atexit.register(self.stop)

    def wait(self, seconds: float | None = None) -> bool:
        """Until nothing is left to do; False: it took longer."""
        with self._idle:
            return self._idle.wait_for(lambda: self._pending == 0, seconds)

    def stop(self) -> None:
        """What compiles is given up, and nothing else is begun."""
        self.stopping = True
        pool.shutdown()
        self._jobs.put(None)
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None and not self.stopping:
            try:
                job()
            except Exception:
                _log.exception("pijit: a segment was not compiled")
            finally:
                self._done()

    def _done(self) -> None:
        with self._idle:
            self._pending -= 1
            self._idle.notify_all()


_worker = _Worker()


def _after_fork() -> None:
    """A child has no thread: what was offered before stays the parent's."""
    global _worker  # noqa: PLW0603
    _worker = _Worker()


os.register_at_fork(after_in_child=_after_fork)


def wait(seconds: float | None = None) -> bool:
    """Wait until every offer has been dealt with; False: it took longer."""
    return _worker.wait(seconds)


def of(fn: object) -> Any:
    """The market that `fn` asks; None: native replay alone answers."""
    from pijit import api

    root = api.root_of(fn)
    return _core.market_of(root) if root >= 0 else None


def market(backend: str | Sequence[str], options: Mapping[str, Any] | None = None) -> Market | None:
    """The market that `jit(backend=..., options=...)` asks for; None: native replay alone.

    Args:
        backend: "native", "auto", a name of `pijit.backends()`, or several names.
        options: fields of `Options`, and the backend's own settings.

    Raises:
        BackendError: there is no such backend, or it is not installed; the message names what is, or the command.
    """
    import torch

    given = dict(options or {})
    own = {name: given.pop(name) for name in ("fold", "threads") if name in given}
    made = Options(**{"threads": torch.get_num_threads(), **own}, settings=given)
    if backend == "native":
        return None
    if backend == "auto":
        usable = [each for each in map(compilers.get, compilers.OWN) if each.name != "native" and not each.usable()]
        return Market(usable, made, turns=True)
    names = [backend] if isinstance(backend, str) else list(backend)
    found = [compilers.get(name) for name in names if name != "native"]
    for each in found:
        each.check(made)
    return Market(found, made, turns=not isinstance(backend, str))
