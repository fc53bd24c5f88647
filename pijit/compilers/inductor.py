"""Inductor ahead of time (AOTInductor): a package with machine code, made in a process of its own.

Weights are constants of the package that stay torch's own memory: a write in place is seen by the next call. The
package is called without Dynamo, and `torch._inductor` is not imported where it is called.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pijit._formats.fx.lowering import targets
from pijit.compilers import _exported, _torch
from pijit.compilers._base import Backend, Options, Plan
from pijit.compilers._exact import COMPLEX, INTEGERS, MOVES, Exact
from pijit.errors import BackendError
from pijit.graph.model import Graph

_FILE = "model.pt2"
_INLINED = 8  # elements of a vector; `can_inline_constant` of torch._inductor.graph

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
        import torch

        file = directory / _FILE
        loader: Any = torch._C._aoti.AOTIModelPackageLoader(str(file), "model", False, 1, -1)
        size = file.stat().st_size
        if any(value.kind != "tensor" for value in graph.results):
            raise BackendError(f"backend {self.name!r} gives tensors only")
        bound = _Weights(graph, loader) if not options.fold else None
        small = bound.small if bound is not None else []
        call, aligned = loader.boxed_run, _torch.aligned

        def run(*inputs: Any) -> tuple[Any, ...]:
            return tuple(call([*small, *(aligned(each.contiguous()) for each in inputs)]))

        return Plan(
            self.name, run, results=(), folded=options.fold, size_bytes=size,
            shares_weights=bound is None or bound.shared, rebind=None if bound is None else bound.rebind,
        )  # fmt: skip


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


BACKEND = Inductor()
