"""Makes plans for the segments of a root, beside the calls of the program.

The engine offers a segment once for each form of its tensors, with copies of what went in and came out. A thread of its
own builds the graph, has it compiled by each backend that was asked for, compares what the plan gives with what native
replay gave, and installs it. Until then, and wherever something goes wrong, native replay answers.

Rules:
1. A call of the program waits for nothing here: it leaves its offer in a queue.
2. A plan that differs by more than the backend's tolerance never answers, or is dropped; that is said once. Where it
   differs from the native replay that was offered, the engine compares once more: weights may have been written since.
3. Several backends take turns with native replay on the program's own calls, and once more when nothing is compiled
   any longer, since a compiler that works beside them changes their times; the fastest stays.
4. "auto" begins nothing that cannot repay: a segment that is small and quick, or that was replayed once only. Hot
   segments go first, and of a segment the compiler that is quickest to compile.
5. Where forms differ in sizes only, they get one plan of free sizes of each backend that can make one (`_free_sizes`);
   the first form already, if the user has said that sizes vary. Where no backend can, the engine cuts the segment at
   the operators that vary (csrc/plan/pieces.h), and offers the pieces.
6. "auto" asks nothing of backends that take no tensors of the devices that a segment has.
"""

import logging
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from pijit import _core, _varying_sizes, compilers
from pijit._roots import root_of
from pijit.compilers import _array_plans, _failures, _free_sizes, _kept_plans, pool
from pijit.compilers._base import Backend, Options
from pijit.compilers._compared import Call, Differs, Made, difference, told
from pijit.compilers._compiler_threads import others_run
from pijit.compilers._graph_cache import forget
from pijit.compilers._precision import lowered_backends
from pijit.compilers._queue import Job, Queue
from pijit.compilers._without_full_collections import quietly
from pijit.errors import BackendError, ExportError
from pijit.graph.build.autocast import Modes
from pijit.graph.build.segment import graph_of_segment
from pijit.graph.build.sides import Splits

if TYPE_CHECKING:
    from pijit._core import Place, SegmentRow
    from pijit.compilers._gradient_plans import Compilations
    from pijit.graph.build.segment import SegmentGraph
    from pijit.graph.model import Graph

_log = logging.getLogger("pijit")

# "auto" leaves a segment alone that has fewer operators, and takes fewer seconds, than that: what a plan could save is
# about what its call takes.
_FEWEST_OPERATORS = 5
_LEAST_SECONDS = 2e-4
_LOOK = 0.02  # seconds between two looks at what calls of other threads bring
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
        replaced: how often which replacement stands in the plan, by name.
        note: what else is worth saying of the plan.
        compilation: what compiles it, until that has ended.
    """

    backend: str
    key: str
    nodes: tuple[int, int]
    state: str = "compiling"
    difference: float | None = None
    seconds: float = 0.0
    replaced: Mapping[str, int] = field(default_factory=dict)
    note: str = ""
    compilation: "pool.Compilation | Compilations | None" = field(default=None, repr=False, compare=False)

    @property
    def elapsed(self) -> float | None:
        """Seconds that it has compiled so far; None: it does not at the moment."""
        return None if self.compilation is None else self.compilation.elapsed()


@dataclass
class Market:
    """The backends that a root asks for; called by the engine with offers.

    Attributes:
        backends: in the order in which they are tried.
        options: for all of them.
        turns: plans and native replay take turns, and the fastest stays; else the first plan answers.
        outcomes: what became of each offer.
        automatic: nothing is begun that cannot repay; with `options.fold` weights are folded and bound.
        dynamic: True: sizes are free from the first form on, where the program leaves them free. False: they never are.
            None: where forms differed in them, or `pijit.dynamic` says that they vary.
    """

    backends: Sequence[Backend]
    options: Options = field(default_factory=Options)
    turns: bool = False
    outcomes: list[Outcome] = field(default_factory=list)
    automatic: bool = False
    dynamic: bool | None = None
    _keys: dict[tuple[tuple[int, int], str], str] = field(default_factory=dict, repr=False)

    def _may_take(self, backend: Backend, kinds: Collection[str]) -> bool:
        """It is asked for a segment with tensors of such devices. One that is named says itself why it takes none."""
        if not self.automatic:
            return True
        on = backend.on(kinds)
        return on.takes(kinds) and (on is backend or not on.usable())

    def _has_free_sizes(self, kinds: Collection[str]) -> bool:
        """One plan may serve forms that differ in sizes."""
        backends = [each.on(kinds) for each in self.backends]
        return not self.options.fold and any(each.symbolic and each.takes(kinds) for each in backends)

    def candidates(self, kinds: Collection[str] = ()) -> Iterator[tuple[str, Backend, Options]]:
        """What is tried for a segment, in this order: name, backend, options.

        Args:
            kinds: of the devices of its tensors.
        """
        for backend in self.backends:
            if not self._may_take(backend, kinds):
                continue
            backend = backend.on(kinds)  # noqa: PLW2901
            if not (self.automatic and self.options.fold):
                yield backend.name, backend, self.options
                continue
            yield backend.name, backend, replace(self.options, fold=False)
            if backend.folds:
                yield f"{backend.name} (folded)", backend, self.options

    def __call__(self, place: "Place", inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
        """An offer of the engine, after a call of the program."""
        import torch

        if place.has_sides and (place.trained or any(Modes.now().enabled.values())):
            place.leave_sides()  # their gradients and casts are torch's
            return
        given = outputs
        if place.arrays:
            if self.automatic:
                place.decline()
                return
            try:
                inputs, outputs = _array_plans.tensors(inputs), _array_plans.tensors(outputs)
            except BackendError as error:
                self._note(place, str(error))
                place.decline()
                return
        offer = _Offer(place, inputs, outputs, torch.get_num_threads(), _events(inputs))
        offer.given = given
        job = offer.job(partial(self._take, offer))
        kinds = offer.kinds()
        if self.dynamic is not False and not place.trained and not self._has_free_sizes(kinds):
            place.allow_cuts()
        if self.automatic:
            if not any(self._may_take(backend, kinds) for backend in self.backends):
                self._note(
                    place, f"not begun: no compiler that is installed takes tensors of {', '.join(sorted(kinds))}"
                )
                place.decline()
                return
            if place.trained:
                self._note(place, "not begun: gradients are recorded, where only a compiler that is named answers")
                place.decline()
                return
            if place.operators < _FEWEST_OPERATORS and place.seconds < _LEAST_SECONDS:
                self._note(place, f"not begun: {place.operators} operators are too few to repay it")
                return
            if not _kept_plans.any_winner():
                self._await_calls(place, job)
        _worker.submit(job)

    def _await_calls(self, place: "Place", job: Job) -> None:
        """What was replayed once only may never come back."""
        job.ready = lambda: place.runs >= _AGAIN or not place.alive
        job.by_calls = True
        job.forget = lambda: self._note(place, "not begun: it was not called again")

    def _note(self, place: "Place", state: str) -> None:
        self._row("auto", place).state = state

    def compare(self, place: "Place", call: Call, inputs: Sequence[Any], made: Any, outputs: Sequence[Any]) -> None:
        """What a plan gave, beside native replay of the same inputs: the engine asks after a call of the program.

        Args:
            place: the segment and its key.
            call: the plan, as it was installed.
            inputs: copies of what both were given.
            made: what the plan gave.
            outputs: what native replay gave.
        """
        if place.arrays:
            inputs, made, outputs = (_array_plans.tensors(each) for each in (inputs, made, outputs))
        try:
            difference(call.made.backend, made, outputs, call.made.plan.folded)
        except BackendError as error:
            place.drop(call, call.made.tell(error, inputs, outputs))
            if isinstance(memo := place.memo, _free_sizes.Memo):
                memo.forget(call.made)
        else:
            place.trust(call)

    def _take(self, offer: "_Offer") -> None:
        import torch

        if not offer.place.alive:
            return
        for device, event in offer.events:
            torch.accelerator.current_stream(device).wait_event(event)
        if torch.get_num_threads() != offer.threads:  # of this thread: kernels add in another order with more of them
            torch.set_num_threads(offer.threads)
        _hurry()
        if offer.place.trained or not self._is_for_free_sizes(offer):
            self._compile(offer)

    def _row(self, name: str, place: "Place") -> Outcome:
        """A new row of `outcomes`, in the place of an older one for the same."""
        row = Outcome(name, place.describe(), place.nodes)
        for at, other in enumerate(self.outcomes):
            if (other.backend, other.key, other.nodes) == (row.backend, row.key, row.nodes):
                self.outcomes[at] = row
                return row
        self.outcomes.append(row)
        return row

    def _compile(self, offer: "_Offer") -> None:
        """Plans for this form alone."""
        candidates = list(self.candidates(offer.kinds()))
        try:
            with quietly:
                segment = graph_of_segment(offer.place, offer.inputs, typed=_kept_plans.typed)
                key = self._key(segment, candidates)
        except Splits as why:
            _log.info("pijit: a segment ends at a call of functions: %s", why)
            offer.place.leave_sides()
            return
        except ExportError as error:
            for name, _, _ in candidates:
                self._row(name, offer.place).state = str(error)
            return
        offer.key, winner = key, _kept_plans.winner(key)
        if winner == "native":
            self._note(offer.place, "not begun: native replay was the fastest in an earlier process")
            self._keys[offer.place.nodes, offer.place.describe()] = key
            offer.place.decline()
            return
        if won := [each for each in candidates if each[0] == winner]:
            candidates = won
            _hurry_for(offer)
        elif self.automatic and offer.place.runs < _AGAIN and _kept_plans.any_winner():
            job = offer.job(partial(self._compile, offer))
            self._await_calls(offer.place, job)
            _worker.submit(job)
            return
        self._keys[offer.place.nodes, offer.place.describe()] = key
        offer.left = len(candidates)
        offer.place.await_more()
        rows = [self._row(name, offer.place) for name, _, _ in candidates]
        heat, offer.graph = offer.heat(), segment.graph
        for at, ((_, backend, options), row) in enumerate(zip(candidates, rows, strict=True)):
            if not offer.place.alive or _worker.stopping:
                return
            writes, given = offer.place.writes(), (*offer.inputs, *segment.extras)
            backend = backend.with_examples(segment.graph, given)  # noqa: PLW2901
            try:
                compilation = _begun(segment, backend, options, heat / 2**at)
            except BackendError as error:
                row.state = str(error)
                _end(offer)
                continue
            row.compilation = compilation
            self._after(
                offer,
                backend,
                compilation,
                partial(self._install, offer, backend, options, row, compilation, segment, writes),
            )

    def _key(self, segment: "SegmentGraph", candidates: "Sequence[tuple[str, Backend, Options]]") -> str:
        """Under which it is kept who won, where several may answer; "": it is not."""
        if not self.turns or segment.partition is not None:
            return ""
        asked = [
            (name, sorted(options.settings.items()), options.threads, sorted(backend.machine(segment.graph).items()))
            for name, backend, options in candidates
        ]
        return _kept_plans.key_of_graph(segment.graph, asked)

    def winners(self, rows: "Sequence[SegmentRow]") -> dict[str, str]:
        """Who answers for segments of one trace, by the keys under which it is kept, where that is settled.

        While a compiler still works, whoever is the fastest so far has won nothing.
        """
        found = {}
        for row in rows:
            for each in row["keys"]:
                if each["awaits"]:
                    continue
                key = self._keys.get(((row["first"], row["last"]), each["key"]), "")
                if key and each["state"] == "settled" and each["plans"]:
                    found[key] = each["plans"][0]["name"]
                elif key and each["state"] == "settled natively":
                    found[key] = "native"
        return found

    def _after(
        self,
        offer: "_Offer",
        backend: Backend,
        compilation: "pool.Compilation | Compilations",
        job: Callable[[], None],
    ) -> None:
        """The job is done when the compilation has ended; other offers wait unless that is in a process of its own."""
        if backend.remote:
            _worker.submit_behind(compilation, offer.job(job))
        else:
            job()

    def _install(
        self,
        offer: "_Offer",
        backend: Backend,
        options: Options,
        row: Outcome,
        compilation: "pool.Compilation | Compilations",
        segment: "SegmentGraph",
        writes: tuple[int, int],
    ) -> None:
        """Compare a plan, as soon as it is compiled, with native replay, and install it."""
        try:
            plan = compilation.wait()
            if plan is None:
                return
            if isinstance(compilation, pool.Compilation):
                made = Made(backend, plan, segment, options, _worker.bury)
            else:
                made = compilation.made(plan, backend, segment, options, _worker.bury)
            if plan.lend is not None and any(offer.place.passed):
                plan.lend(offer.place.passed)
            self._add(offer, row, made, writes)
        except BackendError as error:
            if _worker.stopping:
                return
            row.state = str(error)
            if offer.has_won:
                _kept_plans.forget(offer.key)
            _failures.tell(backend, error)
        except Exception as error:
            row.state = f"{type(error).__name__}: {error}"
            raise
        finally:
            row.compilation, row.seconds = None, compilation.seconds
            _end(offer)

    def _add(
        self, offer: "_Offer", row: Outcome, made: Made, writes: tuple[int, int] | None, shared: bool = False
    ) -> None:
        """Run a plan for the first time, compare, and install it; one that is tried in calls, the engine compares.

        Raises:
            BackendError: it raised, or gave what has another form.
        """
        for line in set(made.plan.left_out) - told:
            _log.log(logging.INFO if self.turns else logging.WARNING, "pijit: %s", line)
        told.update(made.plan.left_out)
        trial = made.backend.tried_in_calls
        try:
            with quietly:
                row.difference = None if trial else made.difference(offer.inputs, offer.outputs)
        except Differs:
            row.difference = made.compared
            trial = True  # weights may have been written since; the engine compares with what they are then
        row.state, row.replaced, row.note = "installed", made.plan.replaced, made.plan.note
        turns = self.turns and not offer.has_won
        if made.segment.sides is not None:
            made.stale = offer.place.leaver()
        plan = made.row(row.backend, offer.outputs, writes)
        if offer.place.arrays:
            plan = plan._replace(call=made.as_call(_array_plans.on_arrays(plan.call, offer.given)))
        offer.place.install([plan], turns, shared, trial)

    # -- one plan for many forms

    def _is_for_free_sizes(self, offer: "_Offer") -> bool:
        """The form gets a plan of free sizes, now or when it has been compiled."""
        fixed = self.options.fold or self.dynamic is False or offer.place.arrays
        kinds = offer.kinds()
        asked = [] if fixed else [each.on(kinds) for each in self.backends if self._may_take(each, kinds)]
        backends = [each for each in asked if each.symbolic]
        if not backends:
            return False
        place = offer.place
        memo = place.memo
        if not isinstance(memo, _free_sizes.Memo):
            memo = place.memo = _free_sizes.Memo()
        form = _free_sizes.Form.of(offer.inputs, place.numbers)
        kind = memo.kind(form)
        if kind.compiling:
            kind.waiting.append(partial(self._take, offer))
            return True
        if kind.plans is not None and kind.plans.made and kind.plans.admit(form, offer.inputs):
            self._share(offer, kind.plans)
            return True
        free = kind.wants_plans(form)
        if free is not None:
            _varying_sizes.note(each.at(axis) for each in (*kind.seen, form) for axis in free.axes)
        if free is None and not kind.tried:
            free = _free_sizes.expected_of(form, None if self.dynamic else _varying_sizes.sizes())
        return free is not None and self._compile_free(offer, kind, form, free, backends)

    def _compile_free(
        self,
        offer: "_Offer",
        kind: _free_sizes.Kind,
        form: _free_sizes.Form,
        free: _free_sizes.Free,
        backends: Sequence[Backend],
    ) -> bool:
        kind.tried += 1
        try:
            with quietly:
                segment = graph_of_segment(offer.place, offer.inputs, free, _kept_plans.typed)
            plans = _free_sizes.Plans.of(form, free, segment)
        except ExportError as error:
            _log.info("pijit: no plan of free sizes: %s", error)
            offer.place.allow_cuts()
            return False
        options = replace(self.options, symbolic=True)
        kind.compiling = len(backends)
        kind.waiting.append(partial(self._take, offer))
        for backend in backends:
            row = self._row(backend.name, offer.place)
            compilation = row.compilation = pool.submit(segment.graph, backend, options, priority=offer.heat())
            self._after(
                offer,
                backend,
                compilation,
                partial(self._note_free, offer.place, kind, plans, backend, compilation, options, row),
            )
        return True

    def _note_free(
        self,
        place: "Place",
        kind: _free_sizes.Kind,
        plans: _free_sizes.Plans,
        backend: Backend,
        compilation: pool.Compilation,
        options: Options,
        row: Outcome,
    ) -> None:
        """A plan of free sizes has come, or will not come. After the last one the forms that wait go on."""
        try:
            plan = compilation.wait()
            if plan is not None:
                plans.made.append(Made(backend, plan, plans.segment, options, _worker.bury))
        except BackendError as error:
            row.state = str(error)
            _log.info("pijit: no plan of free sizes: %s", error)
            _failures.tell(backend, error)
        row.compilation = None
        kind.compiling -= 1
        if kind.compiling:
            return
        if plans.made:
            kind.plans = plans
            kind.seen = [form for form in kind.seen if form.sizes != plans.example.sizes]
        else:
            kind.give_up()
            place.allow_cuts()
        waiting, kind.waiting = kind.waiting, []
        for job in waiting:
            _worker.submit(Job(job))

    def _share(self, offer: "_Offer", plans: _free_sizes.Plans) -> None:
        """Install plans of free sizes under one more form."""
        offer.place.await_more()
        for made in list(plans.made):
            row = self._row(made.backend.name, offer.place)
            try:
                self._add(offer, row, made, None, shared=True)
            except BackendError as error:
                row.state = str(error)
        _complete(offer.place)


_HURRIED = 1.0  # seconds that calls wait until it is known who won
_HURRIED_FOR_WINNER = 5.0  # and for a plan that has won
_loaded: "WeakSet[_Offer]" = WeakSet()  # of those plans


@cache
def _hurry() -> None:
    """Who won in an earlier process wins time at once: calls give the first second of such work half of their time."""
    if _kept_plans.any_winner():
        _core.hurry_compilers(_HURRIED)


def _hurry_for(offer: "_Offer") -> None:
    """The plan that is loaded has won: calls wait as long for it in any case, and so it answers sooner."""
    offer.has_won = True
    _loaded.add(offer)
    _core.hurry_compilers(_HURRIED_FOR_WINNER)


def _end(offer: "_Offer") -> None:
    """One of the compilations of an offer has ended."""
    offer.left -= 1
    if offer.left == 0:
        if offer in _loaded:
            _loaded.discard(offer)
            if not _loaded:
                _core.hurry_compilers(0)
        if offer.graph is not None:
            forget(offer.graph)
        _complete(offer.place)


def _complete(place: "Place") -> None:
    """Nobody else comes for a segment under one key. It is told when nothing is compiled beside its calls, either."""
    _worker.submit(Job(place.complete, ready=lambda: pool.idle() or not place.alive, forget=place.complete))


def _begun(
    segment: "SegmentGraph", backend: Backend, options: Options, priority: float
) -> "pool.Compilation | Compilations":
    """What a segment takes to compile.

    Raises:
        BackendError: gradients are recorded, and the backend computes none.
    """
    if segment.partition is None:
        return pool.submit(segment.graph, backend, options, priority=priority)
    if not backend.training:
        raise BackendError(f"backend {backend.name!r} computes no gradients")
    from pijit.compilers._gradient_plans import Compilations

    return Compilations(segment.partition, backend, replace(options, fold=False), priority)


@dataclass(eq=False)
class _Offer:
    """A segment under one key, with what one native replay was given and gave.

    Attributes:
        place: the segment and its key.
        inputs: copies of what the replay was given.
        outputs: copies of what it gave.
        threads: of torch, in the thread of the replay.
        events: for each device but the CPU, what comes when its copies are made.
        left: how many compilations have not ended.
        graph: what they are of.
        key: under which it is kept who won.
        has_won: the plan that is compiled has, in an earlier process.
        given: the outputs as the program has them: arrays of NumPy, too.
    """

    place: "Place"
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    threads: int
    events: Sequence[tuple[Any, Any]] = ()
    left: int = 0
    graph: "Graph | None" = None
    key: str = ""
    has_won: bool = False
    given: Sequence[Any] = ()

    def kinds(self) -> set[str]:
        """Of the devices that its tensors are on."""
        return {tensor.device.type for tensor in (*self.inputs, *self.outputs) if tensor is not None}

    def heat(self) -> float:
        """The hottest offer is dealt with first."""
        return float(self.place.operators * self.place.runs)

    def job(self, run: Callable[[], None]) -> Job:
        """Something to be done for it."""
        return Job(run, heat=self.heat)


def _events(tensors: Sequence[Any]) -> list[tuple[Any, Any]]:
    """On the current stream of each device that these are on, but the CPU."""
    import torch

    events = []
    for device in {tensor.device for tensor in tensors if tensor.device.type != "cpu"}:
        event = torch.Event(device)
        event.record(torch.accelerator.current_stream(device))
        events.append((device, event))
    return events


_worker = Queue()
_core.set_mark(Market.compare, "opaque", "it compares what compiled code gives")


def _after_fork() -> None:
    """A child has no thread: what was offered before stays the parent's."""
    global _worker  # noqa: PLW0603
    _worker = Queue()


os.register_at_fork(after_in_child=_after_fork)


def wait(seconds: float | None = None) -> bool:
    """Wait until every offer has been dealt with; False: it took longer."""
    return _worker.wait(seconds)


# How often the program has called since `wait_for_all` was told of something that only a call brings forward.
_calls_for: dict[tuple[str, int], int] = {}
_EXPECTED = 4  # calls in which it has to come
_served = 0  # calls, when that was counted last


def _is_expected() -> bool:
    """The next calls are about to offer something. A function that is called once only is not waited for for ever."""
    global _served
    roots, served = _core.roots_to_offer()
    called, _served = served != _served, served
    things = {*(("root", each) for each in roots), *(("job", id(job)) for job in _worker.by_calls())}
    for thing in [*_calls_for]:
        if thing not in things:
            del _calls_for[thing]
    for thing in things:
        _calls_for[thing] = _calls_for[thing] + called if thing in _calls_for else 0
    return any(count < _EXPECTED for count in _calls_for.values())


def wait_for_all(seconds: float | None) -> bool:
    """As `pijit.wait`."""
    until = None if seconds is None else time.monotonic() + seconds
    while True:
        left = None if until is None else max(until - time.monotonic(), 0)
        if not _worker.wait(left):
            return False
        if not _is_expected():
            return True
        if until is None or until <= time.monotonic() or not others_run():
            return False
        time.sleep(min(_LOOK, max(until - time.monotonic(), 0)))


# Who won for roots that have died since the last write, by the keys under which it is kept.
_winners_of_dead: dict[str, str] = {}


def _winners_of(root: int) -> dict[str, str]:
    """Who won in the market of a root, by the keys under which it is kept."""
    found: dict[str, str] = {}
    asked = _core.market_of(root)
    if isinstance(asked := getattr(asked, "market", asked), Market) and asked.turns:
        for trace in _core.root_traces(root):
            found |= asked.winners([row for row in trace["segments"] if row["region"] is None])
    return found


def note_winners_of(root: int) -> None:
    """Its function or object dies: who won is kept with the others."""
    _winners_of_dead.update(_winners_of(root))


def keep_winners(where: Path) -> None:
    """Keep who won the turns in all markets of roots; the caller has the lock of the directory."""
    found = dict(_winners_of_dead)
    for root in _core.kept_roots():
        found |= _winners_of(root)
    _kept_plans.note_winners(where, found)
    _winners_of_dead.clear()


def of(fn: object) -> Any:
    """The market that `fn` asks; None: native replay alone answers."""
    root = root_of(fn)
    return _core.market_of(root) if root >= 0 else None


def market(
    backend: str | Sequence[str],
    options: Mapping[str, Any] | None = None,
    dynamic: bool | None = None,
    lowering: tuple[str, float] | None = None,
) -> Market | None:
    """The market that `jit(backend=..., options=...)` asks for; None: native replay alone.

    Args:
        backend: "native", "auto", a name of `pijit.backends()`, or several names.
        options: fields of `Options`, and the backend's own settings.
        dynamic: as for `pijit.jit`.
        lowering: `precision` and `error` of `pijit.jit`: the backends that are named run graphs in smaller numbers;
            with "native" native replay does, with "auto" beside all others.

    Raises:
        BackendError: there is no such backend, or it is not installed; the message names what is, or the command.
    """
    import torch

    given = dict(options or {})
    own = {name: given.pop(name) for name in ("fold", "threads") if name in given}
    made = Options(**{"threads": torch.get_num_threads(), **own}, settings=given)
    if backend == "native" and lowering is None:
        return None
    native = [compilers.get("native")]
    if backend == "auto":
        usable = [each for each in map(compilers.get, compilers.OWN) if each.name != "native" and each.is_for_auto()]
        usable += lowered_backends(*lowering, native) if lowering is not None else []
        return Market(usable, made, turns=True, automatic=True, dynamic=dynamic)
    names = [backend] if isinstance(backend, str) else list(backend)
    found = [compilers.get(name) for name in names if name != "native"]
    if lowering is not None:
        found = lowered_backends(*lowering, found or native)
    for each in found:
        each.check(made)
    return Market(found, made, turns=lowering is not None or not isinstance(backend, str), dynamic=dynamic)
