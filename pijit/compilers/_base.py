"""What a backend is, what it is asked for, and what it gives: `Backend`, `Options`, `Plan`.

Rules:
1. A plan computes without gradients and writes to nothing. What the program writes to is among its results; the
   caller writes it.
2. Weights are bound, not passed. A plan reads them where the program has them (`shares_weights`), or has copies and is
   bound again when they have changed. Only by consent (`Options.fold`) are they part of the compiled code.
3. A plan checks nothing: sizes, strides and dtypes are the caller's key.
4. Whatever goes wrong while compiling is a `BackendError` that names the backend.
"""

import importlib.machinery
import importlib.util
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pijit._usage_errors import nearest
from pijit.compilers._decided import Declines, Limit
from pijit.compilers._exact import Exact
from pijit.errors import BackendError, PijitError, UsageError
from pijit.graph.model import Graph, Node, place_of

# Relative and absolute difference that is allowed, by dtype; a dtype without a row has to be equal.
Tolerance = Mapping[str, tuple[float, float]]

EXACT: Tolerance = {}
# For compilers that add in another order, and have their own exp, tanh and erf.
USUAL: Tolerance = {
    "float64": (1e-9, 1e-10),
    "float32": (1e-4, 1e-5),
    "bfloat16": (2e-2, 2e-2),
    "float16": (5e-3, 5e-3),
    "complex64": (1e-4, 1e-5),
    "complex128": (1e-9, 1e-10),
}


@dataclass(frozen=True)
class Options:
    """What is asked of a compilation.

    Attributes:
        fold: the weights may become part of the compiled code; later changes of them are then not seen.
        symbolic: sizes that are free in the graph stay free; else they are as at the capture.
        threads: how many threads a call may use; None: as many as torch.
        settings: the backend's own, by name.
    """

    fold: bool = False
    symbolic: bool = False
    threads: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


class Plan:
    """Compiled code for a graph.

    Attributes:
        backend: name of the backend.
        results: names of what a call gives: the outputs of the graph in order, then what `updates` hold afterwards.
        updates: names of the inputs and parameters that the program writes to; the caller writes there.
        shares_weights: weights are read where the program has them, at every call. False: the plan has copies, and is
            bound again (`rebind`) when a version counter has changed.
        folded: weights are part of the code; the plan is of no use when they change.
        size_bytes: memory that it holds, about.
        replaced: how often which replacement stands in the place of operators of the program, by name.
        note: what else is worth saying of it, for people.
        left_out: operators that torch runs in between, since the backend has not got them: a line for each.
        lend: takes for each result whether only operators of the program's trace read it: the plan may give that in
            the same memory again, as soon as nothing has it any longer. None: it gives new memory.
        holds: for plans of free sizes: whether the program decides on the sizes of these inputs as it did when it was
            captured. The caller asks it for each new key; where it is False, the plan is for another way.
    """

    def __init__(
        self,
        backend: str,
        run: Callable[..., tuple[Any, ...]],
        *,
        results: Sequence[str],
        updates: Sequence[str] = (),
        shares_weights: bool = True,
        folded: bool = False,
        size_bytes: int = 0,
        rebind: Callable[[Mapping[str, Any]], bool] | None = None,
        close: Callable[[], None] | None = None,
    ) -> None:
        self.backend = backend
        self.run: Callable[..., tuple[Any, ...]] | None = run
        self.results = tuple(results)
        self.updates = tuple(updates)
        self.shares_weights = shares_weights and not folded
        self.folded = folded
        self.size_bytes = size_bytes
        self.replaced: Mapping[str, int] = {}
        self.note = ""
        self.left_out: tuple[str, ...] = ()
        self.lend: Callable[[Sequence[bool]], None] | None = None
        self.holds: Callable[..., bool] = lambda *inputs: True
        self._rebind = rebind
        self._close = close

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        """Run it on the inputs of the graph, in order; gives tensors of torch under the names of `results`."""
        if self.run is None:
            raise BackendError(f"this plan of {self.backend} is closed; compile the graph again")
        return self.run(*inputs)

    def rebind(self, weights: Mapping[str, Any]) -> None:
        """Read these tensors from now on, by names of the graph's parameters; the others stay as they are.

        `shares_weights` may be another one afterwards: a compiler copies what is not contiguous.

        Raises:
            BackendError: the weights are folded into the code, or the plan is closed.
        """
        if self.folded:
            raise BackendError(f"the weights are part of this plan of {self.backend}: compile the graph again")
        if self.run is None:
            raise BackendError(f"this plan of {self.backend} is closed; compile the graph again")
        if self._rebind is not None:
            self.shares_weights = self._rebind(weights)

    def close(self) -> None:
        """Free what it holds; it cannot be called afterwards."""
        close, self._close, self._rebind, self.run = self._close, None, None, None
        if close is not None:
            close()

    def lay_out(self, strides: Sequence[Sequence[int] | None]) -> None:
        """Give results with these strides from now on; None: as they come, and the last ones may be left out.

        A compiler gives what is contiguous where torch may give a view in another order, and a later `view` of that
        would go another way.
        """
        inner = self.run
        wanted = [(at, tuple(each)) for at, each in enumerate(strides) if each is not None]
        if inner is None or not wanted:
            return
        import torch

        empty = torch.empty_strided

        def run(*inputs: Any) -> tuple[Any, ...]:
            given = list(inner(*inputs))
            for at, stride in wanted:
                tensor = given[at]
                if tensor.stride() != stride:
                    given[at] = empty(tensor.shape, stride, dtype=tensor.dtype, device=tensor.device).copy_(tensor)
            return tuple(given)

        self.run = run


class Backend:
    """A compiler. A subclass has the attributes below and `make`, or `build` and `load`.

    Attributes:
        name: as in `backend=` and `pijit.backends()`.
        doc: what it is good for, in a line.
        install: the command that makes it usable.
        packages: modules that it imports; they are looked for, not imported, to tell whether it is usable.
        tolerance: how far its results may be from those of torch.
        tolerance_folded: the same where weights are folded; None: as `tolerance`.
        training: it takes whole training steps.
        symbolic: it can leave sizes free.
        random: it draws random numbers as torch does.
        folds: it gains by weights that are part of the code.
        remote: the code is made by `build`, in a process of its own, and travels as files.
        exact: the dtypes that its operators compute in as torch does; None: it runs kernels of torch, or all of them.
        settings: names of its own options.
        tried_in_calls: a call of the program runs a plan for the first time, on copies, and compares it; the threads
            that compile run nothing.
        devices: kinds of devices whose tensors it takes; empty: of all.
        raises: its operators raise where those of torch do, for the same data; else what decides that is looked at
            beside the plan (`_decided`).
        branches: it has the nodes "cond" and "while"; else torch runs them, between compiled code.
        turns: layers that repeat so often, or more, are compiled once, as a loop over stacked weights; 0: never.
        turn_bytes: such a loop copies the weights of a turn, and wins where they have no more bytes; 0: any number.
        strided: its results have the strides that torch gives them, views included.
        bounded: its process may hold as much memory as the option `compile_memory` says.
        quiet: what it cannot take is for the log alone.
        stalls: importing its package keeps the interpreter from running anything else for a second or longer; "auto"
            asks for it only where the program has imported that itself.
    """

    name: str = ""
    doc: str = ""
    install: str = ""
    packages: tuple[str, ...] = ("torch",)
    tolerance: Tolerance = USUAL
    tolerance_folded: Tolerance | None = None
    training: bool = False
    symbolic: bool = False
    stalls: bool = False
    random: bool = False
    folds: bool = False
    remote: bool = False
    raises: bool = False
    exact: Exact | None = None
    settings: tuple[str, ...] = ()
    tried_in_calls: bool = False
    branches: bool = False
    turns: int = 0
    turn_bytes: int = 0
    strided: bool = False
    bounded: bool = True
    quiet: bool = False
    devices: tuple[str, ...] = ("cpu",)

    def usable(self) -> str | None:
        """None, or why it cannot be used, with the command that mends it; imports nothing."""
        lacks = [package for package in self.packages if not installed(package)]
        return f"needs {' and '.join(lacks)}; run: {self.install}" if lacks else None

    def lacks(self, graph: Graph) -> tuple[Node, ...]:
        """The nodes of a graph that it has no operator for; what is around them is compiled."""
        return tuple(
            node for node in graph.nodes if node.op.startswith("python::") or (node.random and not self.random)
        )

    def inexact(self, graph: Graph) -> tuple[Node, ...]:
        """The nodes that it computes in other dtypes than torch; torch runs them, as those of `lacks`."""
        exact = self.exact
        return () if exact is None else tuple(node for node in graph.nodes if not exact.holds(node))

    def limits(self, graph: Graph) -> tuple[Limit, ...]:
        """What has to be true of the data of a call, besides what decides whether operators raise."""
        return ()

    def takes(self, kinds: Collection[str]) -> bool:
        """It takes a graph that has tensors of devices of these kinds, such as "cpu" and "cuda"."""
        return not self.devices or all(kind in self.devices for kind in kinds)

    def on(self, kinds: Collection[str]) -> "Backend":
        """The backend for a graph that has tensors of devices of these kinds."""
        return self

    def machine(self, graph: Graph) -> Mapping[str, Any]:
        """What the code of a graph depends on beside it, torch and the processor, as data of JSON."""
        return {}

    def variables(self) -> Mapping[str, str]:
        """Variables of the environment for the process in which it compiles."""
        return {}

    def begin(self, graph: Graph) -> None:
        """Is called in that process before anything is made for a graph.

        Raises:
            BackendError: compiling would take what the program may need.
        """

    def allowed(self, dtype: str, folded: bool = False) -> tuple[float, float]:
        """The relative and absolute difference from torch that is within the promise, for results of this dtype."""
        return self._tolerances(folded).get(dtype, (0.0, 0.0))

    def within(self, got: Any, right: Any, folded: bool = False) -> bool:
        """A result is within the promise, beside the one of torch: tensors of one dtype and shape."""
        import torch

        relative, absolute = self.allowed(str(right.dtype).removeprefix("torch."), folded)
        return torch.allclose(got, right, rtol=relative, atol=absolute, equal_nan=True)

    def promise(self, dtype: str, folded: bool = False) -> str:
        """The same in words."""
        return "relative {:g}, absolute {:g}".format(*self.allowed(dtype, folded))

    def with_examples(self, graph: Graph, inputs: Sequence[Any]) -> "Backend":
        """The backend for a graph of which it may know what one call gave to its inputs."""
        return self

    def rounds(self, folded: bool = False) -> bool:
        """Its results may be others than those of torch, within a tolerance."""
        return bool(self._tolerances(folded))

    def _tolerances(self, folded: bool) -> Tolerance:
        return self.tolerance_folded if folded and self.tolerance_folded is not None else self.tolerance

    def compile(self, graph: Graph, options: Options | None = None) -> Plan:
        """Compile a graph in this process; torch runs operators that the backend has not got between compiled code.

        Raises:
            BackendError: it is not installed, or cannot take the graph; where operators that it lacks are the reason,
                the message has the line of the first.
            UsageError: it has no such option.
        """
        from pijit.compilers import _partition, _prepare

        options, backend = options or Options(), self.on(_prepare.kinds(graph))
        backend.check(options)
        with reported(backend.name):
            parts = _prepare.parts(graph, backend, options)
            missing = _prepare.missing(parts.core, backend, options)
            return _prepare.completed(_partition.make(parts.core, backend, options, missing), parts)

    def is_for_auto(self) -> bool:
        """It is usable, and may be asked for without a name."""
        return not self.usable() and not (self.stalls and any(each not in sys.modules for each in self.packages))

    def check(self, options: Options) -> None:
        """`BackendError` if it is not usable, `UsageError` if an option is wrong."""
        if why := self.usable():
            raise BackendError(f"backend {self.name!r} {why}")
        for wrong in options.settings:
            if wrong not in self.settings:
                has = nearest(wrong, self.settings) if self.settings else " (it has none)"
                raise UsageError(f"backend {self.name!r} has no option {wrong!r}{has}")
        if options.symbolic and not self.symbolic:
            raise BackendError(f"backend {self.name!r} compiles for fixed sizes only; leave out symbolic=True")

    def make(self, graph: Graph, options: Options) -> Plan:
        """The plan of a graph that `_prepare` has made ready: without writes, and without what is not needed."""
        with TemporaryDirectory(prefix="pijit-") as directory:
            self.build(graph, options, Path(directory))
            return self.load(graph, options, Path(directory))

    def build(self, graph: Graph, options: Options, directory: Path) -> None:
        """Compile into files of a directory. Without `fold` the weights in `graph` have sizes only."""
        raise NotImplementedError(self.name)

    def load(self, graph: Graph, options: Options, directory: Path) -> Plan:
        """The plan of these files, with the graph's own weights; the files may go afterwards."""
        raise NotImplementedError(self.name)


class Unsupported(BackendError):
    """A compiler has found, while it compiled, operators that it has not got.

    Attributes:
        operators: their names in torch, without namespaces and overloads.
    """

    def __init__(self, message: str, operators: Iterable[str]) -> None:
        super().__init__(message)
        self.operators = frozenset(operators)


class _Reported:
    """Errors of a compiler as `BackendError`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, BackendError | UsageError) or not isinstance(error, Exception):
            return
        if isinstance(error, MemoryError):
            raise BackendError(f"backend {self.name!r} needs more memory than it may have") from error
        said = str(error).strip().partition("\n")[0][:500]
        what = said if isinstance(error, PijitError) else f"{type(error).__name__}: {said}"
        raise BackendError(f"backend {self.name!r} cannot take this graph: {what}") from error


def raised(name: str, error: Exception) -> BackendError:
    """The error for compiled code that raised; to be raised from what it raised."""
    what = f"{type(error).__name__}: {error}".partition("\n")[0]
    return BackendError(f"backend {name!r}: what it has compiled raised {what}")


def reported(name: str) -> _Reported:
    """A block in which whatever is raised becomes a `BackendError` that names the backend."""
    return _Reported(name)


def installed(package: str) -> bool:
    """A module of this name is there; nothing is imported, not even the packages around it."""
    first, *rest = package.split(".")
    try:
        found = importlib.util.find_spec(first)
        for name in rest:
            if found is None:
                return False
            first = f"{first}.{name}"
            found = importlib.machinery.PathFinder.find_spec(first, found.submodule_search_locations)
    except (ImportError, ValueError):
        return False
    return found is not None


def gives_numbers(node: Node) -> bool:
    """It gives a number for Python; where all sizes are fixed, such numbers come from the data of tensors."""
    return any(value is not None and value.kind != "tensor" for value in node.results)


def has_numbers(node: Node) -> bool:
    """It gives a number for Python, or is given one that is no literal."""
    return gives_numbers(node) or any(value.kind != "tensor" for value in node.operands)


def lacking(backend: str, nodes: Iterable[Node]) -> BackendError:
    """The error for operators that a backend has not got."""
    first, *rest = nodes
    more = f" (and {len(rest)} more)" if rest else ""
    exact = "" if first.is_foreign else ", or not as torch computes it with such data"
    what = "draws random numbers" if first.random else f"is not one of its operators{exact}"
    return BackendError(f"{place_of(first)}backend {backend!r} does not take {first.op}: it {what}{more}")


def serialised(run: Callable[..., Any]) -> Callable[..., Any]:
    """For code with state of its own: one call at a time."""
    lock = threading.Lock()

    def locked(*inputs: Any) -> Any:
        with lock:
            return run(*inputs)

    return locked


__all__ = [
    "EXACT",
    "USUAL",
    "Backend",
    "Declines",
    "Options",
    "Plan",
    "Tolerance",
    "Unsupported",
    "has_numbers",
    "installed",
    "lacking",
    "reported",
    "serialised",
]
