"""Plans as the engine calls them, and whether what they give is what native replay gives.

A plan is closed when nothing can call it any more: the engine drops what lost or was wrong, while a call that is under
way still holds it. `Made` stands for that: it lives as long as a function that calls the plan.
"""

import logging
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pijit import _core
from pijit.compilers import _reproduce
from pijit.compilers._base import Backend, Declines, Options, Plan, raised
from pijit.errors import BackendError, ExportError

if TYPE_CHECKING:
    from pijit.graph.build.segment import SegmentGraph
    from pijit.graph.model import Graph

_log = logging.getLogger("pijit")
told: set[str] = set()  # backends of which a difference was said, and what was said of operators


class Call(Protocol):
    """A plan as the engine calls it, with tensors without history; None: it declines."""

    made: "Made"

    def __call__(self, *inputs: Any) -> tuple[Any, ...] | None: ...


class Row(NamedTuple):
    """A plan as the engine takes it, which reads the fields by their places (csrc/bind/plans.cpp).

    Attributes:
        name: of the plan.
        call: runs it.
        rebind: is called when bound tensors were written.
        shares_weights: it reads weights where they lie.
        writes: those of weights that it knows of; None: of all of them.
    """

    name: str
    call: Call
    rebind: Callable[[], None]
    shares_weights: bool
    writes: tuple[int, int] | None


class Differs(BackendError):
    """A plan gives other numbers than native replay."""


class Made:
    """A plan that was compiled for a segment, with what it was made of.

    Attributes:
        compared: the largest difference with weights of its own, where it was compared so.
        stale: called when functions of the program that the plan stands for read something else than before.

    Args:
        backend: that made it.
        plan: what it made.
        segment: of what.
        options: that it was asked for with.
        bury: called with a `Grave` when nothing can call the plan any more. It runs wherever the engine lets go of the
            plan, so it must not run code of Python.
    """

    compared: float | None = None
    stale: Callable[[], None] | None = None

    def __init__(
        self, backend: Backend, plan: Plan, segment: "SegmentGraph", options: Options, bury: Callable[["Grave"], None]
    ) -> None:
        self.backend, self.plan, self.segment, self.options = backend, plan, segment, options
        self._order = segment.order(plan.updates)
        weights, lock = segment.graph.data, threading.RLock()
        self._lock = lock  # a plan is not bound again while it runs, as it may for another form in another thread

        def rebind() -> None:
            """Called when bound tensors were written; it raises where the plan cannot follow. Holds no `Made`."""
            with lock:
                plan.rebind(weights)

        self.rebind: Callable[[], None] = rebind  # one for all forms: by it the engine knows the plan
        grave = Grave(self, bury)
        grave.plan = plan
        graves.add(grave)

    def row(self, name: str, outputs: Sequence[Any], writes: tuple[int, int] | None) -> Row:
        """The plan for the engine, under one form.

        Args:
            name: of the plan.
            outputs: of native replay under this form.
            writes: those of weights that the plan knows of.
        """
        return Row(name, self._callable(outputs), self.rebind, self.plan.shares_weights, writes)

    def _callable(self, outputs: Sequence[Any]) -> Call:
        """What the engine calls: tensors without history in, tensors of the recorded strides out; None: it declines."""
        plan, lock, order = self.plan, self._lock, self._order
        plain = order == list(range(len(order)))
        forms = [None if tensor is None else (tuple(tensor.shape), tensor.stride()) for tensor in outputs]

        extras, sides = self.segment.extras, self.segment.sides
        owner = weakref.ref(self)

        def call(*inputs: Any) -> tuple[Any, ...] | None:
            if sides is not None and not sides.hold():
                if (made_of := owner()) is not None and made_of.stale is not None:
                    made_of.stale()
                return None
            inputs += extras
            try:
                with lock:
                    made = plan(*[each.detach() if each.requires_grad else each for each in inputs])
            except Declines:
                return None
            if not plain:
                made = tuple(None if at is None else made[at] for at in order)
            return tuple(
                tensor if tensor is None or form is None or tensor.stride() == form[1] else laid_out(tensor, *form)
                for tensor, form in zip(made, forms, strict=True)
            )

        return self.as_call(call)

    def as_call(self, function: Callable[..., tuple[Any, ...] | None]) -> Call:
        """A function that runs the plan, marked as such."""
        function.made = self  # type: ignore[attr-defined]
        _core.set_mark(function, "skip", "it runs compiled code")
        return function  # type: ignore[return-value]

    def difference(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> float:
        """Runs the plan, and compares: see `difference`."""
        import torch

        with torch.no_grad(), self._lock:
            made = _run(self.backend, self.plan, (*inputs, *self.segment.extras))
        if len(made) != len(self.plan.results):
            raise BackendError(
                f"backend {self.backend.name!r} gave {len(made)} results in the place of {len(self.plan.results)}"
            )
        arranged = [None if at is None else made[at] for at in self._order]
        return difference(self.backend, arranged, outputs, self.plan.folded)

    def tell(self, error: BackendError, inputs: Sequence[Any], outputs: Sequence[Any]) -> str:
        """What is said of a difference, once for each backend, with where it can be seen again."""
        held = {at: right for at, right in zip(self._order, outputs, strict=True) if at is not None}
        return self.say(error, self.segment.graph, (*inputs, *self.segment.extras), [held[at] for at in sorted(held)])

    def say(self, error: BackendError, graph: "Graph", inputs: Sequence[Any], results: Sequence[Any]) -> str:
        """As `tell`, of a graph that was compiled, and the results that it should have."""
        if self.backend.name in told:
            return str(error)
        told.add(self.backend.name)
        if self.backend.quiet:  # what it does differs by its nature, and no fault is to be found
            _log.warning("pijit: %s", error)
            return str(error)
        try:
            where = f"; {_reproduce.write(graph, self.backend.name, self.options, inputs, results)}"
            where += " has what is needed to see it again (run.py)"
        except (OSError, ExportError) as why:
            where = f" (it cannot be written down: {why})"
        _log.warning("pijit: %s%s", error, where)
        return f"{error}{where}"


def _run(backend: Backend, plan: Plan, inputs: Sequence[Any]) -> Sequence[Any]:
    """The results of a plan.

    Raises:
        BackendError: the plan raised.
    """
    try:
        return plan(*inputs)
    except BackendError:
        raise
    except Exception as error:
        raise raised(backend.name, error) from error


class Grave(weakref.ref[Made]):
    """What is left of a `Made`: the plan, which is to be closed."""

    __slots__ = ("plan",)
    plan: Plan

    def close(self) -> None:
        """Free what the plan holds."""
        graves.discard(self)
        self.plan.close()


graves: set[Grave] = set()  # of plans that are not closed


def difference(backend: Backend, made: Sequence[Any], outputs: Sequence[Any], folded: bool = False) -> float:
    """The largest difference of a plan's results from those of native replay.

    Raises:
        BackendError: it is beyond the backend's tolerance (`Differs`), or the results are of another form.
    """
    import torch

    if len(made) != len(outputs):
        raise BackendError(f"backend {backend.name!r} gave {len(made)} results in the place of {len(outputs)}")
    largest = 0.0
    for got, right in zip(made, outputs, strict=True):
        if got is None or right is None:
            if got is not right:
                raise BackendError(f"backend {backend.name!r} leaves other gradients than native replay")
            continue
        if got.shape != right.shape or got.dtype != right.dtype:
            raise BackendError(
                f"backend {backend.name!r} gave {got.dtype}{list(got.shape)} in the place of "
                f"{right.dtype}{list(right.shape)}"
            )
        if right.numel() == 0 or torch.equal(got, right):
            continue
        if not backend.within(got, right, folded):
            gap = (got.double() - right.double()).abs().max().item() if not right.is_complex() else float("nan")
            raise Differs(
                f"backend {backend.name!r} differs from native replay by {gap:.3g}, which is more than it promises "
                f"({backend.promise(str(right.dtype).removeprefix('torch.'), folded)}): its plan is not used"
            )
        if not right.is_complex():
            largest = max(largest, (got.double() - right.double()).abs().max().item())
    return largest


def laid_out(tensor: Any, shape: tuple[int, ...], stride: tuple[int, ...]) -> Any:
    """A copy with these strides."""
    import torch

    if 0 not in stride:
        return torch.empty_strided(shape, stride, dtype=tensor.dtype, device=tensor.device).copy_(tensor)
    one = tuple(1 if step == 0 else size for size, step in zip(shape, stride, strict=True))
    held = torch.empty_strided(one, stride, dtype=tensor.dtype, device=tensor.device)
    return held.copy_(tensor.as_strided(one, tensor.stride())).as_strided(shape, stride)
