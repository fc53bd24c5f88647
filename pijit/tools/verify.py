"""Runs a call in every way that pijit knows, and compares: CPython, native replay, its graph in each framework.

Rules:
1. Each way starts from the same state: tensors of arguments are cloned, tensors of modules and random states are put
   back. What cannot be put back is refused: stores to objects of Python, and calls that nobody has looked into.
2. The ways of torch have to give the same bits. Another framework may round in its own way, as `_TOLERANCE` says.
3. In another framework a graph runs node by node beside torch, each on its own results. Random numbers are torch's.
"""

import dataclasses
import functools
import importlib.util
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from pijit import _core, _torch_objects
from pijit._roots import function_of, root_of
from pijit._stance import stance
from pijit._usage_errors import check_thing
from pijit._verify import difference
from pijit.api import jit
from pijit.errors import ExportError, PijitError, UsageError
from pijit.graph.build.arguments import leaves
from pijit.graph.build.capture import caller_of, captured, named_modules, unlimited
from pijit.graph.forms import FRAMEWORKS
from pijit.graph.model import Effect, Graph, Node, place_of
from pijit.graph.run import bind, caller, precision, to_array
from pijit.graph.torch_run import resolve
from pijit.traces import stop_view

# The largest difference, relative to the largest number of a tensor if that is above 1, by dtype.
_TOLERANCE = {"float64": 1e-9, "complex128": 1e-9, "float16": 2e-2, "bfloat16": 5e-2}
_USUAL = 1e-4


@dataclasses.dataclass(frozen=True, slots=True)
class Way:
    """One way in which the call ran.

    Attributes:
        name: "CPython", "native replay", "graph in jax", ...
        same: it gives what CPython gave; None: it could not run.
        largest: the largest difference of a number.
        first: the first operator that differs, with its line; "" if none does.
        note: what differs or why it could not run.
    """

    name: str
    same: bool | None = True
    largest: float = 0.0
    first: str = ""
    note: str = ""

    def __str__(self) -> str:
        if self.same is None:
            return f"{self.name}: not compared: {self.note}"
        if self.same:
            told = f"same, to {self.largest:.1g}" if self.largest else "the same bits"
        else:
            first = f", first at {self.first}" if self.first else ""
            told = f"DIFFERENT by {self.largest:.1g}{first}"
        return f"{self.name}: {told}{f'; {self.note}' if self.note else ''}"


@dataclasses.dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` found; `print()` it. `ways` are those in which the call ran, CPython's first.

    Example:
        >>> import pijit
        >>> pijit.verify(lambda x: x + 1, 41).same
        True
    """

    name: str
    ways: tuple[Way, ...]

    @property
    def same(self) -> bool:
        """No way gave another result."""
        return all(way.same is not False for way in self.ways)

    def __str__(self) -> str:
        verdict = "all ways give the same" if self.same else "NOT all ways give the same"
        return "\n".join([f"{self.name}: {verdict}", *(f"  {way}" for way in self.ways)])

    __repr__ = __str__


def verify(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Verification:
    """Run `fn(*args, **kwargs)` in CPython, as native replay, and as graph in each framework that is there; compare.

    The function is called four times, on clones of the tensors in the arguments; tensors of modules and random states
    are afterwards as they were.

    Args:
        fn: a function, method or module.
        *args: handed to `fn`.
        **kwargs: handed to `fn`.

    Returns:
        What each way gave: the first operator that differs, and the largest difference.

    Raises:
        UsageError: the call has a side effect that cannot be undone, which the first of the four has had; or it was
            not recorded, so that nothing is known of its effects.

    Example:
        >>> import pijit
        >>> print(pijit.verify(lambda x: x + 1, 41))
        <lambda>: all ways give the same
          CPython: the same bits
          native replay: the same bits
          graph in torch: not compared: the call has no tensors
    """
    check_thing(fn, function_of(fn), "verify")
    state = _State(fn, args, kwargs)
    name = getattr(fn, "__qualname__", None) or type(fn).__qualname__
    with state.kept():
        graph, why = _graph(name, fn, state)
    with state.kept(), stance("off"):
        given = state.arguments()
        plain = fn(*given[0], **given[1])
        expected = (plain, given, state.copies())
    ways = [Way("CPython"), _native(fn, state, expected)]
    if graph is None or not (graph.inputs or graph.parameters):
        return Verification(name, (*ways, Way("graph in torch", None, note=why or "the call has no tensors")))
    for framework, needs in FRAMEWORKS.items():
        if importlib.util.find_spec(needs.package) is not None:
            with state.kept():
                ways.append(_framework(graph, framework, state, plain))
    return Verification(name, tuple(ways))


class _State:
    """The tensors that a call may write to, and the random states."""

    def __init__(self, fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self._args, self._kwargs = args, kwargs
        self._tensors: list[Any] = []
        inner = fn.func if isinstance(fn, functools.partial) else fn
        owner = getattr(inner, "__self__", inner)
        modules = [*named_modules(inner, args, kwargs).values(), *([owner] if _torch_objects.is_module(owner) else [])]
        seen: set[int] = set()
        for module in modules:
            for _, _, tensor in _torch_objects.named_tensors(module):
                if id(tensor) not in seen:
                    seen.add(id(tensor))
                    self._tensors.append(tensor)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with clones of their tensors."""
        known: dict[int, Any] = {}
        return _cloned(self._args, known), {key: _cloned(value, known) for key, value in self._kwargs.items()}

    def holds(self, tensor: Any) -> bool:
        """The tensor is put back."""
        return any(tensor is each for each in self._tensors)

    def copies(self) -> list[Any]:
        """What the tensors of modules hold now."""
        return [tensor.detach().clone() for tensor in self._tensors]

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Afterwards all is as it was."""
        torch: Any = sys.modules.get("torch")
        numpy: Any = sys.modules.get("numpy")
        held = self.copies()
        gradients = [(each.grad, None if each.grad is None else each.grad.clone()) for each in self._tensors]
        states = random.getstate(), numpy and numpy.random.get_state()
        try:
            with _torch_objects.generators_kept() if torch else nullcontext():
                yield
        finally:
            random.setstate(states[0])
            if numpy:
                numpy.random.set_state(states[1])
            if torch:
                with torch.no_grad():
                    for tensor, before, (gradient, numbers) in zip(self._tensors, held, gradients, strict=True):
                        if not torch.equal(tensor, before):
                            tensor.copy_(before)
                        tensor.grad = gradient
                        if gradient is not None:
                            gradient.copy_(numbers)


def _cloned(thing: Any, known: dict[int, Any]) -> Any:
    if _torch_objects.is_tensor(thing):
        if id(thing) not in known:
            known[id(thing)] = thing.detach().clone().requires_grad_(thing.requires_grad)
        return known[id(thing)]
    if type(thing) not in {tuple, list, dict}:
        return thing
    if id(thing) in known:  # twice in the arguments, or in itself
        return known[id(thing)]
    if type(thing) is tuple:
        made = tuple(_cloned(item, known) for item in thing)
        return known.setdefault(id(thing), made)
    known[id(thing)] = copied = type(thing)()
    if type(thing) is dict:
        copied.update((key, _cloned(item, known)) for key, item in thing.items())
    else:
        copied.extend(_cloned(item, known) for item in thing)
    return copied


def _graph(name: str, fn: Any, state: _State) -> tuple[Graph | None, str]:
    """The graph of the call, or why there is none; `UsageError` for what cannot be undone, or is not known."""
    args, kwargs = state.arguments()
    why = ""
    try:
        graph = captured(fn, args, kwargs, decisions="assume")
    except ExportError as error:
        if error.graph is None:
            raise UsageError(
                f"pijit.verify(): what the call of {name} changes is not known, so it is not repeated: {error}"
            ) from None
        graph, why = error.graph, str(error)
    for effect in _lasting(graph.effects):
        place = f"{effect.file}:{effect.line}: " if effect.file else ""
        stores = effect.what in {"setattr", "delattr", "setitem", "delitem", "setcell"}
        does = "changes an object of Python" if stores else "runs in CPython, and may change anything"
        raise _cannot(name, f"{place}{effect.what} {does}")
    for node in graph.breaks:
        what = "the rest of the call runs" if node.op == "python::rest" else f"{node.op.removeprefix('python::')} runs"
        raise _cannot(name, f"{place_of(node)}{what} in CPython, and may change anything")
    roles = {value.name: value.role for value in graph.parameters}
    for written in graph.written:
        if written in roles and not state.holds(graph.data[written]):
            raise _cannot(name, f"it writes to the tensor {written}, which is of no module that the function names")
    return (None, why) if why else (graph, "")


def _lasting(effects: tuple[Effect, ...]) -> list[Effect]:
    """Without context variables that the call itself sets back."""
    lasting: list[Effect] = []
    for effect in effects:
        if effect.what == "ContextVar.reset" and lasting and lasting[-1].what == "ContextVar.set":
            lasting.pop()
        else:
            lasting.append(effect)
    return lasting


def _cannot(name: str, why: str) -> UsageError:
    return UsageError(
        f"pijit.verify(): the call of {name} has an effect that cannot be undone, so it is not repeated: {why}. Verify "
        "the part without it, or let replays be checked as the program runs: pijit.jit(fn, verify=1)"
    )


def _native(fn: Any, state: _State, expected: Any) -> Way:
    """A recorded call, then one that should be its replay."""
    made = jit(caller_of(fn))
    root = root_of(made)
    try:
        with state.kept(), unlimited():
            args, kwargs = state.arguments()
            made(*args, **kwargs)
        with state.kept():
            given = state.arguments()
            found = made(*given[0], **given[1])
            report = _core.root_report(root)
            said = difference(expected, (found, given, state.copies()))
        if not report["replays"]:
            stop = stop_view(report["last_stop"])
            return Way("native replay", None, note=str(stop or report["last_miss"] or "the call is not replayed"))
        if said:
            said = said.replace("the result[0]", "the result").replace("the result[1]", "an argument", 1)
            return Way("native replay", False, _gap(_leaves(expected), _leaves((found, given))), note=said)
        return Way("native replay")
    finally:
        _core.remove_root(root)


def _framework(graph: Graph, framework: str, state: _State, plain: Any) -> Way:
    """The graph in a framework, beside torch."""
    name = f"graph in {framework}"
    args, kwargs = state.arguments()
    inputs = [leaf.tensor for leaf in leaves(str, args, kwargs)]
    given = dict(zip([value.name for value in graph.inputs], inputs, strict=True))
    try:
        if framework == "torch":
            found = graph.run(**given)
            said = _torch_differs(plain, found)
            return Way(name, not said, _gap(_leaves(plain), _leaves(found)) if said else 0.0, note=said)
        return _beside(name, graph.functional(), framework, given)
    except PijitError as error:
        return Way(name, None, note=str(error))


def _torch_differs(plain: Any, found: Any) -> str:
    """Where the tensors of two results differ: a graph gives dicts where the program gives objects."""
    ones, others = _leaves(plain), _leaves(found)
    if len(ones) != len(others):
        return f"{len(others)} tensors in the place of {len(ones)}"
    for at, (one, other) in enumerate(zip(ones, others, strict=True)):
        same = one.dtype == other.dtype and one.shape == other.shape
        if not same or _gap([one], [other]) > 0:
            return f"tensor {at} of the result"
    return ""


def _beside(name: str, graph: Graph, framework: str, given: Mapping[str, Any]) -> Way:
    """Runs the nodes in torch and in the framework, and compares all that they give."""
    import torch

    calls = caller("torch"), caller(framework)
    start = {**graph.data, **given}
    values = {key: array.detach() for key, array in start.items()}
    largest, first, note = 0.0, "", ""
    with torch.no_grad(), precision(framework):
        others = {key: to_array(array, framework) for key, array in start.items()}
        for node in graph.nodes:
            bind(node, calls[0](node, values), values)
            if node.random:
                note = "random numbers are torch's"
                others.update((each.name, to_array(values[each.name], framework)) for each in node.results if each)
                continue
            try:
                bind(node, calls[1](node, others), others)
            except PijitError:
                raise
            except Exception as error:  # whatever the framework raises
                return Way(name, False, largest, _where(node), f"{type(error).__name__}: {error}")
            gap, wrong = _node_gap(node, values, others)
            largest = max(largest, gap)
            if wrong and not first:
                first = _where(node)
        resolve(graph.outputs, others)
    return Way(name, not first, largest, first, note)


def _where(node: Node) -> str:
    return f"{node.op} ({node.place})" if node.place else node.op


def _node_gap(node: Node, values: Mapping[str, Any], others: Mapping[str, Any]) -> tuple[float, bool]:
    """The largest difference of what a node gives, and whether it is too large."""
    largest, wrong = 0.0, False
    for value in node.results:
        if value is None or node.op in {"empty", "empty_like", "new_empty"}:
            continue
        one, other = values[value.name], others[value.name]
        if not hasattr(one, "shape"):
            gap = abs(float(one) - float(other))
            dtype = "float32"
        else:
            shared = hasattr(other, "__dlpack__") or hasattr(other, "asnumpy")  # not a scalar of NumPy
            other = to_array(other, "torch") if shared else other
            gap, dtype = _gap([one], [other]), str(one.dtype).removeprefix("torch.")
        largest = max(largest, gap)
        wrong = wrong or gap > _TOLERANCE.get(dtype, _USUAL)
    return largest, wrong


def _leaves(thing: Any) -> list[Any]:
    """The tensors in a result, in order."""
    found: list[Any] = []
    around: list[Any] = [thing]
    seen: set[int] = set()
    while around:
        each = around.pop()
        if _torch_objects.is_tensor(each):
            found.append(each)
            continue
        if id(each) in seen:
            continue
        seen.add(id(each))
        parts: Any = ()
        if isinstance(each, Mapping):
            parts = each.values()
        elif isinstance(each, tuple | list):
            parts = each
        elif hasattr(each, "__dict__") and not isinstance(each, type) and not _torch_objects.is_module(each):
            parts = vars(each).values()
        around.extend(reversed(list(parts)))
    return found


def _gap(ones: list[Any], others: list[Any]) -> float:
    """The largest difference, relative to the largest number of its tensor if above 1; infinite: other forms."""
    import torch

    if len(ones) != len(others):
        return float("inf")
    largest = 0.0
    for one, other in zip(ones, map(torch.as_tensor, others), strict=True):
        if one.shape != other.shape or one.dtype != other.dtype:
            return float("inf")
        a, b = (each.detach().resolve_conj() for each in (one, other))
        if a.numel() == 0 or torch.equal(a, b):
            continue
        wide = torch.complex128 if a.is_complex() else torch.float64
        a, b = a.to(wide), b.to(wide)
        equal = (a == b) | (a.isnan() & b.isnan())
        away = torch.where(equal, 0.0, (a - b).abs()).nan_to_num(float("inf"), float("inf"))
        finite = torch.where(a.isfinite(), a.abs(), 0.0)
        largest = max(largest, float(away.max()) / max(1.0, float(finite.max())))
    return largest
