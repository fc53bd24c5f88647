"""Plans where gradients are recorded: one for the forward pass and one for each stage of the backward pass.

The forward plan computes all results at once. Then a function of autograd for each stage gives its results their
history (`pijit.graph.build.gradient_partition`).

1. What the function saves, autograd checks as in eager execution: a saved tensor that was written, or was freed by a
   backward pass, raises torch's own error.
2. Where gradients get a history themselves (`create_graph`), where a result has no gradient, and where a plan fails,
   the segment is computed once more as the program has called it, and torch's autograd finds the gradients.
3. Before the plans answer, their results and gradients are compared with those of torch, on copies of the weights.
"""

import contextlib
import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from pijit import _core
from pijit.compilers import pool
from pijit.compilers._base import Backend, Declines, Options, Plan
from pijit.compilers._compared import Differs, Made, Row, difference, laid_out
from pijit.errors import BackendError
from pijit.graph.model.memory import Memory
from pijit.graph.run import bind, caller

if TYPE_CHECKING:
    from pijit.compilers._compared import Call, Grave
    from pijit.graph.build.gradient_partition import GradientPartition, Stage
    from pijit.graph.build.segment import SegmentGraph
    from pijit.graph.model import Graph

_log = logging.getLogger("pijit")
_keeps_graph: Callable[[], bool] = torch._C._autograd._get_current_graph_task_keep_graph

Tensors = Sequence[Any]


class Compilations:
    """All graphs on their way to plans: as a `pool.Compilation` that gives the plan of the forward pass.

    Attributes:
        backward: the plans of the stages; empty: they are not there yet.
    """

    def __init__(self, parts: "GradientPartition", backend: Backend, options: Options, priority: float) -> None:
        graphs = [parts.forward, *(stage.graph for stage in parts.stages)]
        self._parts, self._lock = parts, threading.Lock()
        self._all = [pool.submit(each, backend, options, priority=priority) for each in graphs]
        self.backward: tuple[Plan, ...] = ()

    @property
    def seconds(self) -> float:
        """That they have taken."""
        return sum(each.seconds for each in self._all)

    def elapsed(self) -> float | None:
        """Seconds that they have compiled so far; None: nothing compiles at the moment."""
        running = [seconds for each in self._all if (seconds := each.elapsed()) is not None]
        return self.seconds + sum(running) if running else None

    def wait(self, seconds: float | None = None) -> Plan | None:
        """The plan of the forward pass, which closes the others, too; None: not yet.

        Raises:
            BackendError: one of them cannot be compiled.
        """
        try:
            plans = [plan for each in self._all if (plan := each.wait(seconds)) is not None]
        except BackendError:
            self._give_up()
            raise
        if len(plans) < len(self._all):
            return None
        with self._lock:
            if not self.backward:
                self.backward = tuple(plans[1:])
                _join(plans[0], self.backward, self._parts)
        return plans[0]

    def _give_up(self) -> None:
        for each in self._all:
            each.cancel()
            with contextlib.suppress(BackendError):
                if (plan := each.poll()) is not None:
                    plan.close()

    def made(
        self, plan: Plan, backend: Backend, segment: "SegmentGraph", options: Options, bury: Callable[["Grave"], None]
    ) -> "MadePartition":
        """The plans for the engine, when `wait` has given the first; see `Made`."""
        return MadePartition(backend, plan, self.backward, segment, options, bury)


def _join(forward: Plan, backward: Sequence[Plan], parts: "GradientPartition") -> None:
    for plan, stage in zip(backward, parts.stages, strict=True):
        plan.lay_out(stage.strides)
    forward.left_out = tuple(dict.fromkeys(line for plan in (forward, *backward) for line in plan.left_out))
    forward.size_bytes += sum(plan.size_bytes for plan in backward)
    close = forward._close

    def close_all() -> None:
        for plan in backward:
            plan.close()
        if close is not None:
            close()

    forward._close = close_all


class Form:
    """A segment under one form: what its calls have in common.

    Attributes:
        made: the plans.
        failed: why they are of no use any more; "": they are.
    """

    def __init__(self, made: "MadePartition", outputs: Tensors) -> None:
        self.made, self.failed = made, ""
        self.results = [(tuple(each.shape), each.stride()) for each in outputs]

    def call(self, *inputs: Any) -> tuple[Any, ...]:
        """What the engine calls."""
        if self.failed:
            raise BackendError(self.failed)
        made = self.made
        with made.lock, torch.no_grad():
            given = list(made.plan(*[each.detach() for each in inputs]))
        for at, (shape, stride) in enumerate(self.results):
            tensor = given[at] if given[at].stride() == stride else laid_out(given[at], shape, stride)
            given[at] = tensor.detach() if tensor._is_view() else tensor  # else autograd forbids writes to it
        known = Known(self, inputs, given)
        for at, stage in enumerate(made.parts.stages):
            tensors = [known.of[name] for name in stage.reached]
            found = CompiledSegment.apply(known, at, *tensors)  # type: ignore[no-untyped-call]
            known.note(stage.roots, found)
        return tuple(known.given[: len(self.results)])


class Known:
    """The tensors of one call.

    Attributes:
        of: inputs, weights, and results of the stages so far, by the names that stages have for what they reach.
        given: what the forward plan gave; the results of the stages so far have their history.
        versions: of `of`.
    """

    def __init__(self, form: Form, inputs: Tensors, given: list[Any]) -> None:
        made = form.made
        self.form, self.given = form, given
        self.of: dict[str, Any] = {**made.weights, **dict(zip(made.inputs, inputs, strict=True))}
        self.versions = versions(self.of.values())

    def note(self, roots: Sequence[int], found: Tensors) -> None:
        """The results of a stage."""
        names = self.form.made.results
        for at, tensor in zip(roots, found, strict=True):
            self.given[at] = self.of[names[at]] = tensor
        self.versions = [*self.versions, *versions(found)]

    def saved(self, stage: "Stage") -> list[Any]:
        """What the stage needs of the forward pass."""
        known = {**dict(zip(self.form.made.all_results, self.given, strict=True)), **self.of}
        return [known[name] for name in stage.saved]


def versions(tensors: Iterable[Any]) -> list[tuple[int, int]]:
    """They differ when a tensor was written, or its data lie elsewhere."""
    return [(-1 if each.is_inference() else each._version, each.data_ptr()) for each in tensors]


class CompiledSegment(torch.autograd.Function):
    """A stage of a segment that is compiled. It is given what it reaches."""

    @staticmethod
    def forward(ctx: Any, known: Known, at: int, *tensors: Any) -> tuple[Any, ...]:
        """The results of the stage."""
        stage = known.form.made.parts.stages[at]
        ctx.form, ctx.stage, ctx.at = known.form, stage, at
        ctx.known, ctx.versions = dict(known.of), known.versions
        ctx.set_materialize_grads(False)
        if stage.frees:
            ctx.save_for_backward(*(known.saved(stage) or [torch.empty(0)]))
        return tuple([known.given[root] for root in stage.roots])

    @staticmethod
    def backward(ctx: Any, *asked: Any) -> tuple[Any, ...]:
        """Gradients of what it was given."""
        form, stage, saved = ctx.form, ctx.stage, ctx.saved_tensors if ctx.stage.frees else ()
        found: Sequence[Any] | None = None
        if all(each is None for each in asked):
            found = [None for _ in stage.reached]
        elif not torch.is_grad_enabled() and not form.failed and all(map(_is_plain, asked)):
            found = _gradients(form, ctx.at, saved, asked)
        if found is None:
            if ctx.versions != versions(ctx.known.values()):
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: "
                    "it goes into a segment that pijit has compiled, which is computed once more for its gradients"
                )
            found = _native_gradients(form.made.parts, stage, ctx.known, asked, torch.is_grad_enabled())
        if stage.frees and not _keeps_graph():
            ctx.known = None
        return None, None, *found


def _gradients(form: Form, at: int, saved: Tensors, asked: Tensors) -> list[Any] | None:
    """By the plan: a gradient for each of `Stage.reached`; None: it fails, and is of no use from now on."""
    made, stage = form.made, form.made.parts.stages[at]
    try:
        given = (*saved, *asked) if stage.saved else asked
        with made.lock:
            found = list(made.backward[at](*[each.detach().contiguous() for each in given]))
        for place in made.shared[at]:
            found[place] = found[place].clone()
        for gradient, value in zip(found, stage.graph.results, strict=True):
            if tuple(gradient.shape) != value.shape or str(gradient.dtype) != f"torch.{value.dtype}":
                raise BackendError(f"it gave {gradient.dtype}{list(gradient.shape)} in the place of {value.type}")
    except Exception as error:  # of a compiler: the gradients are found without it
        form.failed = f"in the backward pass: {error}"
        _log.warning("pijit: backend %r fails in the backward pass, and is not used: %s", made.backend.name, error)
        return None
    return found


def _native_gradients(
    parts: "GradientPartition", stage: "Stage", known: Mapping[str, Any], asked: Tensors, with_history: bool
) -> Sequence[Any]:
    """By torch, of the operators that the program has called."""
    with torch.enable_grad():
        held = {
            name: tensor.view_as(tensor) if with_history else tensor.detach().requires_grad_()
            for name, tensor in known.items()
            if tensor.requires_grad
        }
        results = _natively(parts.native, {**known, **held})
        pairs = [(results[at], each) for at, each in zip(stage.roots, asked, strict=True) if each is not None]
        return torch.autograd.grad(
            [result for result, _ in pairs],
            [held[name] for name in stage.reached],
            [gradient for _, gradient in pairs],
            create_graph=with_history,
            allow_unused=True,
        )


def _natively(graph: "Graph", known: Mapping[str, Any]) -> list[Any]:
    """The results of a graph; nodes behind one that `known` has are given that."""
    call, values = caller("torch"), dict(known)
    found: dict[str, Any] = {}
    results = {value.name for value in graph.results}
    for node in graph.nodes:
        bind(node, call(node, values), values)
        for value in node.results:
            if value is not None and value.name in results:
                found[value.name] = values[value.name]
                values[value.name] = known.get(value.name, found[value.name])
    return [found[value.name] for value in graph.results]


_core.set_mark(CompiledSegment.forward, "skip", "it runs compiled code")
_core.set_mark(CompiledSegment.backward, "skip", "it runs compiled code")


def _is_plain(gradient: Any) -> bool:
    if gradient is None or gradient.layout is not torch.strided:
        return False
    return not (gradient.is_conj() or gradient.is_neg() or gradient._is_zerotensor())


class MadePartition(Made):
    """The plans of a segment.

    Attributes:
        backward: the plans of its stages.
        inputs: names of the inputs.
        weights: all that are bound, by name.
        results: names of the results.
        all_results: names of what the forward plan gives.
        shared: by stage, positions of gradients that share memory with something else, of which leaves get copies.
    """

    def __init__(
        self,
        backend: Backend,
        plan: Plan,
        backward: Sequence[Plan],
        segment: "SegmentGraph",
        options: Options,
        bury: Callable[["Grave"], None],
    ) -> None:
        assert segment.partition is not None
        super().__init__(backend, plan, segment, options, bury)
        self.backward, self.parts, self.lock = backward, segment.partition, self._lock
        native = self.parts.native
        self.inputs, self.weights = [value.name for value in native.inputs], native.data
        self.results = [value.name for value in native.results]
        self.all_results = [value.name for value in self.parts.forward.results]
        self.shared = [_shared(stage.graph) for stage in self.parts.stages]

    def row(self, name: str, outputs: Tensors, writes: tuple[int, int] | None) -> Row:
        """As of one plan. It is told of all writes, since it was compared with other weights."""
        return super().row(name, outputs, None)

    def _callable(self, outputs: Tensors) -> "Call":
        form = Form(self, outputs)

        def call(*inputs: Any) -> tuple[Any, ...] | None:
            try:
                return form.call(*inputs)
            except Declines:
                return None

        return self.as_call(call)

    def difference(self, inputs: Tensors, outputs: Tensors) -> float:
        """As of one plan, and that of the gradients.

        Raises:
            BackendError: besides, the plans differ from torch on the same weights, which is said.
        """
        weights = {name: tensor.detach().clone() for name, tensor in self.weights.items()}
        with self.lock:
            self.plan.rebind(weights)
            try:
                self.compared = self._compared(inputs, weights)
            finally:
                self.plan.rebind(self.weights)
        return max(self.compared, super().difference(inputs, outputs))

    def _compared(self, inputs: Tensors, weights: Mapping[str, Any]) -> float:
        """The largest difference of results and gradients; random numbers stand for the gradients of the results."""
        parts = self.parts
        known = {**weights, **dict(zip(self.inputs, inputs, strict=True))}
        for name in parts.trained:
            known[name] = known[name].detach().requires_grad_()
        with torch.no_grad():
            given = list(self.plan(*inputs))
            right = _natively(parts.native, known)
        largest = self._agree(parts.native, given[: len(right)], right, inputs)
        for stage, plan in zip(parts.stages, self.backward, strict=True):
            asked = list(_random(right[at] for at in stage.roots))
            gradients = _native_gradients(parts, stage, known, asked, False)
            names = dict(zip(self.all_results, given, strict=True)) | known
            saved = [names[name].detach().contiguous() for name in stage.saved]
            with torch.no_grad():
                found = plan(*saved, *asked)
            largest = max(largest, self._agree(stage.graph, found, gradients, [*saved, *asked]))
            known.update((self.results[at], right[at].detach().requires_grad_()) for at in stage.roots)
        return largest

    def _agree(self, graph: "Graph", found: Tensors, right: Tensors, inputs: Tensors) -> float:
        right = [each.detach() for each in right]
        try:
            return difference(self.backend, found, right)
        except Differs as error:
            what = str(error) if graph is self.parts.native else f"{error} (in gradients)"
            raise BackendError(self.say(BackendError(what), graph, inputs, right)) from error


def _shared(graph: "Graph") -> list[int]:
    """Positions of results that share memory with an input or with each other."""
    memory = Memory(graph)
    roots = Counter(value.name for value in graph.inputs)
    roots.update(memory.root(value) for value in graph.results)
    return [at for at, value in enumerate(graph.results) if roots[memory.root(value)] > 1]


def _random(results: Iterable[Any]) -> Iterable[Any]:
    """A gradient for each result, of such a size that sums of its elements are about 1."""
    generator = torch.Generator().manual_seed(0)
    for result in results:
        made = torch.randn(result.shape, generator=generator) / math.sqrt(max(result.numel(), 1))
        yield made.to(result.dtype)
