"""Makes plans for the segments of a root, beside the calls of the program.

The engine offers a segment once for each form of its tensors, with copies of what went in and came out. A thread of its
own builds the graph, has it compiled by each backend that was asked for, compares what the plan gives with what native
replay gave, and installs it. Until then, and wherever something goes wrong, native replay answers.

Rules:
1. A call of the program waits for nothing here: it leaves its offer in a queue.
2. A plan that differs by more than the backend's tolerance is never installed; that is said once.
3. Several backends take turns with native replay on the program's own calls; the fastest stays.
4. "auto" begins nothing that cannot repay: a segment that is small and quick, or that was replayed once only. Hot
   segments go first, and of a segment the compiler that is quickest to compile.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pijit import _core, compilers
from pijit.compilers import _reproduce, pool
from pijit.compilers._base import Backend, Options, Plan
from pijit.compilers._queue import Job, Queue
from pijit.compilers._quietly import quietly
from pijit.errors import BackendError, ExportError

if TYPE_CHECKING:
    from pijit.graph.segment import SegmentGraph

# Of a plan: name, callable, what rebinds it, whether it reads weights where they lie, and the writes that it knows of.
_Row = tuple[str, Callable[..., Any], Callable[[], None], bool, tuple[int, int]]

_log = logging.getLogger("pijit")

# "auto" leaves a segment alone that has fewer operators, and takes fewer seconds, than that: what a plan could save is
# about what its call takes.
_FEWEST_OPERATORS = 5
_LEAST_SECONDS = 2e-4
_OLD = "weights were written while it compiled"
_MOST_OLD = 12  # plans of a segment and key that this happened to, until it is left alone
_AGAIN = 2  # replays of a segment under a key from which on it pays


@dataclass
class Outcome:
    """What became of one backend at one segment and key.

    Attributes:
        backend: its name; " (folded)" behind it where weights were part of the code, beside a plan where they were not.
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
        automatic: nothing is begun that cannot repay; with `options.fold` weights are folded and bound.
    """

    backends: Sequence[Backend]
    options: Options = field(default_factory=Options)
    turns: bool = False
    outcomes: list[Outcome] = field(default_factory=list)
    automatic: bool = False

    def candidates(self) -> Iterator[tuple[str, Backend, Options]]:
        """What is tried for a segment, in this order: name, backend, options."""
        for backend in self.backends:
            if not (self.automatic and self.options.fold):
                yield backend.name, backend, self.options
                continue
            yield backend.name, backend, replace(self.options, fold=False)
            if backend.folds:
                yield f"{backend.name} (folded)", backend, self.options

    def __call__(self, place: Any, inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
        """An offer of the engine, after a call of the program."""
        import torch

        threads = torch.get_num_threads()
        sampled = place.writes()
        job = Job(
            lambda: self._take(place, inputs, outputs, sampled, threads), heat=lambda: place.operators * place.runs
        )
        if self.automatic:
            if place.operators < _FEWEST_OPERATORS and place.seconds < _LEAST_SECONDS:
                self._note(place, f"not begun: {place.operators} operators are too few to repay it")
                return
            job.ready = lambda: place.runs >= _AGAIN or not place.alive
            job.forget = lambda: self._note(place, "not begun: it was not called again")
        _worker.submit(job)

    def _note(self, place: Any, state: str) -> None:
        self.outcomes.append(Outcome("auto", place.describe(), place.nodes, state))

    def _take(
        self,
        place: Any,
        inputs: tuple[Any, ...],
        outputs: tuple[Any, ...],
        sampled: tuple[int, int],
        threads: int,
    ) -> None:
        import torch

        from pijit.graph.segment import graph_of_segment

        if not place.alive:
            return
        if torch.get_num_threads() != threads:  # of this thread: kernels add in another order with more of them
            torch.set_num_threads(threads)
        candidates = list(self.candidates())
        rows = [Outcome(name, place.describe(), place.nodes) for name, _, _ in candidates]
        self.outcomes += rows
        try:
            with quietly:
                made = graph_of_segment(place, inputs)
        except ExportError as error:
            for row in rows:
                row.state = str(error)
            return
        offered, graph = _Offered(self, place, inputs, outputs, sampled, made), made.graph
        heat = float(place.operators * place.runs)
        for at, ((_, backend, options), row) in enumerate(zip(candidates, rows, strict=True)):
            if not place.alive or _worker.stopping:
                return
            writes = place.writes()
            compilation = pool.submit(graph, backend, options, priority=heat / 2**at)
            if backend.remote:  # in a process, which other offers need not wait for
                compare = partial(offered.try_plan, backend, options, row, compilation, writes)
                _worker.submit_behind(compilation, Job(compare, heat=lambda: place.operators * place.runs))
            else:
                offered.try_plan(backend, options, row, compilation, writes)


@dataclass
class _Offered:
    """One offer, and the plans that came of it."""

    market: Market
    place: Any
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    sampled: tuple[int, int]  # writes to weights that the outputs know of
    segment: "SegmentGraph"
    made: list[_Row] = field(default_factory=list)
    versions: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.versions = self._versions()

    def _versions(self) -> list[int]:
        own = set(self.segment.effects)  # what the segment writes itself
        weights = [each for name, each in self.segment.graph.data.items() if name not in own]
        return [0 if each.is_inference() else each._version for each in weights]

    def _is_old(self) -> bool:
        """Weights were written since native replay gave the outputs: they say nothing of a plan."""
        return self.place.writes() != self.sampled or self._versions() != self.versions

    def try_plan(
        self, backend: Backend, options: Options, row: Outcome, compilation: pool.Compilation, writes: tuple[int, int]
    ) -> None:
        """Compare a plan, as soon as it is compiled, with native replay, and install it."""
        try:
            plan = compilation.wait()
            if plan is None or not self.place.alive:
                return
            if self._is_old():
                row.state = _OLD
                plan.close()
                self._offer_again()
                return
            order = self.segment.order(plan.updates)
            with quietly:
                row.difference = _difference(backend, plan, order, self.inputs, self.outputs)
        except _Differs as error:
            row.state = self._told(backend, options, error, order)
            return
        except BackendError as error:
            if _worker.stopping:
                return
            row.state = str(error)
            _log.info("pijit: %s", error)
            return
        finally:
            row.seconds = compilation.seconds
        call, rebind = _callable(plan, order, self.outputs), _rebinding(plan, self.segment.graph.data)
        self.made.append((row.backend, call, rebind, plan.shares_weights, writes))
        row.state = "installed"
        self.place.install(self.made, self.market.turns)

    def _offer_again(self) -> None:
        """Have a later native replay offered; not for ever, as for weights that are written before each call."""
        same = (self.place.nodes, self.place.describe())
        olds = [each for each in self.market.outcomes if each.state == _OLD and (each.nodes, each.key) == same]
        if len(olds) < _MOST_OLD:
            self.place.forget()

    def _told(self, backend: Backend, options: Options, error: "_Differs", order: Sequence[int | None]) -> str:
        """What is said of a difference, once for each backend, with where it can be seen again."""
        if backend.name in _told:
            return str(error)
        _told.add(backend.name)
        try:
            by_place = {at: right for at, right in zip(order, self.outputs, strict=True) if at is not None}
            outputs = [by_place[at] for at in sorted(by_place)]
            where = f"; {_reproduce.write(self.segment.graph, backend.name, options, self.inputs, outputs)}"
            where += " has what is needed to see it again (run.py)"
        except (OSError, ExportError) as why:
            where = f" (it cannot be written down: {why})"
        _log.warning("pijit: %s%s", error, where)
        return f"{error}{where}"


def _callable(plan: Plan, order: Sequence[int | None], outputs: Sequence[Any]) -> Callable[..., tuple[Any, ...]]:
    """What the engine calls: tensors without history in, tensors of the recorded strides out."""

    forms = [None if tensor is None else (tuple(tensor.shape), tensor.stride()) for tensor in outputs]
    plain = list(order) == list(range(len(order)))

    def call(*inputs: Any) -> tuple[Any, ...]:
        made = plan(*[each.detach() if each.requires_grad else each for each in inputs])
        if not plain:
            made = tuple(None if at is None else made[at] for at in order)
        return tuple(
            tensor if form is None or tensor is None or tensor.stride() == form[1] else _laid_out(tensor, *form)
            for tensor, form in zip(made, forms, strict=True)
        )

    _core.set_mark(call, "skip", "it runs compiled code")
    return call


def _laid_out(tensor: Any, shape: tuple[int, ...], stride: tuple[int, ...]) -> Any:
    import torch

    return torch.empty_strided(shape, stride, dtype=tensor.dtype).copy_(tensor)


def _rebinding(plan: Plan, weights: Mapping[str, Any]) -> Callable[[], None]:
    """What the engine calls when bound tensors were written; it raises where the plan cannot follow."""
    return lambda: plan.rebind(weights)


def _difference(
    backend: Backend, plan: Plan, order: Sequence[int | None], inputs: Sequence[Any], outputs: Sequence[Any]
) -> float:
    """The largest difference of a plan from native replay, relative to what is allowed.

    Raises:
        BackendError: it is beyond the backend's tolerance, or the results are of another form.
    """
    import torch

    with torch.no_grad():
        given = plan(*inputs)
    if len(given) != len(plan.results):
        raise BackendError(f"backend {backend.name!r} gave {len(given)} results in the place of {len(plan.results)}")
    largest = 0.0
    for at, right in zip(order, outputs, strict=True):
        if at is None or right is None:
            if at is not None or right is not None:
                raise BackendError(f"backend {backend.name!r} leaves other gradients than native replay")
            continue
        got = given[at]
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


_told: set[str] = set()  # backends of which a difference was said


_worker = Queue()


def _after_fork() -> None:
    """A child has no thread: what was offered before stays the parent's."""
    global _worker  # noqa: PLW0603
    _worker = Queue()


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
        return Market(usable, made, turns=True, automatic=True)
    names = [backend] if isinstance(backend, str) else list(backend)
    found = [compilers.get(name) for name in names if name != "native"]
    for each in found:
        each.check(made)
    return Market(found, made, turns=not isinstance(backend, str))
