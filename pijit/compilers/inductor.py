"""Inductor ahead of time (AOTInductor): a package with machine code, made in a process of its own.

Weights are constants of the package that stay torch's own memory: a write in place is seen by the next call. The
package is called without Dynamo, and `torch._inductor` is not imported where it is called.

For tensors of a GPU (`InductorOfGpu`):
1. The process that compiles uses the device, too: Triton tries its kernels there. It is given half of the memory that
   is free, and Triton's own directory of kernels.
2. The kernels run under a CUDA graph of pijit's own (`_captured_calls`), for fixed sizes. Where sizes change, the
   engine cuts the segment at the operators that vary.
3. Threads that compile leave the device alone: a call of the program runs a plan for the first time.
4. Indices that are out of range end the program on the device, as they do without pijit: Triton's kernels look at them.
   Nothing is looked at beside a plan, which would wait for the device. What else data decide in is left to torch.
5. What is kept is of one kind of GPU, one driver, one toolkit, and one Triton.
"""

import contextlib
import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pijit._formats.fx.lowering import targets
from pijit.compilers import _exported, _torch
from pijit.compilers._base import Backend, Options, Plan, installed
from pijit.compilers._captured_calls import CapturedCall
from pijit.compilers._decided import limits_of
from pijit.compilers._exact import COMPLEX, INTEGERS, MOVES, Exact
from pijit.errors import BackendError
from pijit.graph.model import Graph, Node

_FILE = "model.pt2"
_INLINED = 8  # elements of a vector; `can_inline_constant` of torch._inductor.graph

_OF_FREE = 0.5  # of the memory of a GPU that is free, for a process that compiles
_INDICES = frozenset({"index", "wrapped", "target"})  # kinds of limits at which kernels look themselves

# Between operators on halves it keeps float32, which has a larger range than float16.
_USUAL = frozenset({"float32", "float64", "bfloat16", "bool", "uint64"}) | INTEGERS | COMPLEX
_EXACT = Exact(_USUAL, families=dict.fromkeys(MOVES, _USUAL | {"float16"}))


class Inductor(Backend):
    name = "inductor"
    doc = "torch.compile's compiler, ahead of time: inference with free sizes, and whole training steps"
    install = "pip install torch && apt install g++"
    training = True
    turns = 12  # calls take a little longer, so it has to save many seconds
    symbolic = True
    remote = True
    branches = True
    exact = _EXACT
    devices: tuple[str, ...] = ("cpu", "cuda")

    def on(self, kinds: Collection[str]) -> Backend:
        return self if all(kind == "cpu" for kind in kinds) else _OF_GPU

    def takes(self, kinds: Collection[str]) -> bool:
        on = self.on(kinds)
        return super().takes(kinds) if on is self else on.takes(kinds)

    def usable(self) -> str | None:
        if why := super().usable():
            return why
        if not any(map(shutil.which, ("g++", "c++", "clang++"))):
            return "needs a C++ compiler; run: apt install g++"
        return None

    def build(self, graph: Graph, options: Options, directory: Path) -> None:
        import torch

        if not options.fold:
            graph = _torch.with_weights_as_inputs(graph, _small(graph))
        settings: dict[str, Any] = {
            "aot_inductor.package_constants_in_so": options.fold,
            "fallback_random": True,
        }
        if options.fold:
            settings["freezing"] = True
        with torch.no_grad():
            torch._inductor.aoti_compile_and_package(
                _exported.program_of(graph), package_path=str(directory / _FILE), inductor_configs=settings
            )

    def load(self, graph: Graph, options: Options, directory: Path) -> Plan:
        loader, size, bound = self._loaded(graph, options, directory / _FILE)
        small = bound.small if bound is not None else []
        call, aligned = loader.boxed_run, _torch.aligned

        def run(*inputs: Any) -> tuple[Any, ...]:
            return tuple(call([*small, *(aligned(each.contiguous()) for each in inputs)]))

        return Plan(
            self.name, run, results=(), folded=options.fold, size_bytes=size,
            shares_weights=bound is None or bound.shared, rebind=None if bound is None else bound.rebind,
        )  # fmt: skip

    def _loaded(
        self, graph: Graph, options: Options, file: Path, index: int = -1
    ) -> "tuple[Any, int, _Weights | None]":
        """What runs a package, its size, and its weights, unless they are folded.

        Args:
            index: of the GPU; the package leaves it to the caller then that it is called once at a time.
        """
        loader = _loader(str(file), "model", index >= 0, 1, index)
        if any(value.kind != "tensor" for value in graph.results):
            raise BackendError(f"backend {self.name!r} gives tensors only")
        return loader, file.stat().st_size, None if options.fold else _Weights(graph, loader)


class InductorOfGpu(Inductor):
    """For tensors of one GPU."""

    doc = "torch.compile's compiler, ahead of time: fused kernels of Triton, launched at once"
    training = False
    symbolic = False
    raises = True
    tried_in_calls = True
    bounded = False  # what a driver maps is not what it holds
    devices = ("cuda",)

    def on(self, kinds: Collection[str]) -> Backend:
        return self

    def takes(self, kinds: Collection[str]) -> bool:
        return bool(kinds) and all(kind in self.devices for kind in kinds)

    def usable(self) -> str | None:
        if why := super().usable():
            return why
        if not installed("triton"):
            return "needs Triton for tensors of a GPU; run: pip install triton"
        if not _has_headers():
            return (
                "needs the headers of CUDA for tensors of a GPU; run: apt install nvidia-cuda-toolkit, or let "
                "CUDA_HOME say where they are"
            )
        return None

    def lacks(self, graph: Graph) -> tuple[Node, ...]:
        found = super().lacks(graph)
        return found or tuple(node for node in graph.nodes if _is_decided_by_data(node))

    def machine(self, graph: Graph) -> Mapping[str, Any]:
        with contextlib.suppress(BackendError):  # for tensors of several GPUs nothing is made
            return _facts(_index_of(graph, self))
        return {}

    def variables(self) -> Mapping[str, str]:
        home = os.environ.get("TRITON_HOME") or Path.home()
        kept = os.environ.get("TRITON_CACHE_DIR") or str(Path(home) / ".triton" / "cache")
        return {"TRITON_CACHE_DIR": kept}

    def begin(self, graph: Graph) -> None:
        import torch

        index = _index_of(graph, self)
        free, total = torch.cuda.mem_get_info(index)
        needed, most = _bytes(graph), int(free * _OF_FREE)
        if needed > most:
            raise BackendError(
                f"backend {self.name!r} would take {needed >> 20} MiB for weights while it compiles, and of the GPU's "
                f"memory {free >> 20} MiB are free, of which it takes {most >> 20} at most"
            )
        torch.cuda.set_per_process_memory_fraction(most / total, index)
        torch.cuda.set_device(index)

    def load(self, graph: Graph, options: Options, directory: Path) -> Plan:
        index = _index_of(graph, self)
        loader, size, bound = self._loaded(graph, options, directory / _FILE, index)
        code = _Code(loader, bound)
        captured = CapturedCall(code, f"{self.devices[0]}:{index}")
        plan = Plan(
            self.name, captured.run, results=(), folded=options.fold, size_bytes=size, shares_weights=code.shared,
            rebind=None if bound is None else captured.rebind, close=captured.close,
        )  # fmt: skip
        plan.lend = captured.lend
        return plan


class _Code:
    """A package, as `_captured_calls.Compiled`."""

    def __init__(self, loader: Any, bound: "_Weights | None") -> None:
        self.call = loader.boxed_run
        self.first: Sequence[Any] = () if bound is None else bound.small
        self.shared = bound is None or bound.shared
        self._bound = bound

    def rebind(self, weights: Mapping[str, Any]) -> bool:
        """Read these weights from now on; they are shared."""
        return self._bound is None or self._bound.rebind(weights)


def _loader(*arguments: Any) -> Any:
    import torch

    return torch._C._aoti.AOTIModelPackageLoader(*arguments)


def _index_of(graph: Graph, backend: Backend) -> int:
    """Of the GPU that all tensors of a graph are on.

    Raises:
        BackendError: they are on several.
    """
    made = (value for node in graph.nodes for value in node.results if value is not None)
    found = {value.device or "cpu" for value in (*graph.inputs, *graph.parameters, *made) if value.kind == "tensor"}
    if len(found) != 1:
        raise BackendError(f"backend {backend.name!r} takes tensors of one GPU; here are {', '.join(sorted(found))}")
    return int(found.pop().partition(":")[2] or 0)


def _is_decided_by_data(node: Node) -> bool:
    """It raises for some data, or gives what depends on the processor, and not by an index alone."""
    limits = limits_of(node)
    return limits is None or any(limit.kind not in _INDICES for limit in limits)


def _has_headers() -> bool:
    """Where torch looks for them (`torch.utils.cpp_extension`)."""
    compiler = shutil.which("nvcc") or shutil.which("hipcc")
    places = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH", "ROCM_HOME", "ROCM_PATH")]
    places += [str(Path(compiler).parents[1])] if compiler else []
    places += ["/usr/local/cuda", "/opt/rocm"]
    return any(place and (Path(place) / "include").is_dir() for place in places)


def _facts(index: int) -> dict[str, Any]:
    """What machine code for a GPU is made for."""
    import torch

    found = torch.cuda.get_device_properties(index)
    return {
        "device": index,
        "name": found.name,
        "capability": [found.major, found.minor],
        "processors": found.multi_processor_count,
        "toolkit": torch.version.cuda or torch.version.hip,
        "driver": _driver(),
        "triton": _version_of("triton"),
    }


def _driver() -> int:
    """The version of the driver; 0: it is not known."""
    import torch

    asked = getattr(torch._C, "_cuda_getDriverVersion", None)
    return 0 if asked is None else int(asked())


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _bytes(graph: Graph) -> int:
    """Of the weights."""
    import torch

    total = 0
    for value in graph.parameters:
        count = getattr(torch, str(value.dtype)).itemsize
        for size in value.shape or ():
            count *= size
        total += count
    return total


def _small(graph: Graph) -> list[str]:
    """The weights whose numbers Inductor would write into the code, whatever it is told: they have to be inputs."""
    found = []
    for value in graph.parameters:
        sizes = graph.data[value.name].shape
        if not len(sizes) or (len(sizes) == 1 and sizes[0] <= _INLINED):
            found.append(value.name)
    return found


class _Weights:
    """The constants of a package, which are the program's own tensors.

    Attributes:
        small: those that are inputs.
        shared: all are read where the program has them.
    """

    def __init__(self, graph: Graph, loader: Any) -> None:
        self.inputs = _small(graph)
        self.names = targets(_torch.with_weights_as_inputs(graph, self.inputs))
        self.small: list[Any] = []
        self.loader = loader
        self.wanted = set(loader.get_constant_fqns())
        self.held: dict[str, Any] = {}
        self.given: dict[str, int] = {}  # the addresses of the program's own
        self.shared = self.rebind(graph.data)

    def rebind(self, weights: Mapping[str, Any]) -> bool:
        for name, tensor in weights.items():
            if name in self.names or name in self.inputs:
                held = _torch.aligned(_torch.bound(tensor).contiguous())
                self.given[name] = tensor.data_ptr()
                self.held[name] = held
        self.small[:] = [self.held[name] for name in self.inputs]
        given = {path: self.held[name] for name, path in self.names.items() if path in self.wanted}
        if left := self.wanted - given.keys():
            raise BackendError(f"backend 'inductor' has made a constant {min(left)!r}, which the graph does not have")
        # use_inactive, check_full_update, user_managed, allow_h2d_copy
        self.loader.load_constants(given, False, False, True, False)
        return all(each.data_ptr() == self.given[name] for name, each in self.held.items())


_OF_GPU = InductorOfGpu()
BACKEND = Inductor()
