"""TVM: Relax from torch.export, without tuning; slow to call unless its own options say more."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pijit.compilers import _exported, _torch
from pijit.compilers._base import Backend, Options, Plan, Unsupported, serialised
from pijit.compilers._exact import INTEGERS, MOVES, Exact, several
from pijit.compilers._prepare import numbers
from pijit.graph.model import Graph, Node

_FILE = "program.so"


def _is_rounded(node: Node) -> bool:
    """Quotients that are rounded, and square roots as powers."""
    if node.op == "divide":
        return node.arguments.get("rounding") is not None
    return node.op == "pow" and node.arguments["y"] in (0.5, -0.5)


# Its operators on integers give integers where those of torch give floats, and it takes NaN for a number wherever it
# compares.
_FLOATS = frozenset({"float32", "float64", "bool"})
_EXACT = Exact(
    _FLOATS,
    families=dict.fromkeys(MOVES, _FLOATS | INTEGERS | {"float16"}),
    rows={
        **several("add subtract reverse_subtract multiply negative abs", _FLOATS | INTEGERS),
        **several("equal less less_equal greater greater_equal", _FLOATS | INTEGERS),
        **several("not_equal", {"bool"} | INTEGERS),
        **several("matmul addmm baddbmm bmm linear", {"float32"}),
        **several("maximum minimum clip", INTEGERS),
        **several("floor_divide remainder fmod relu relu6 hardtanh hardsigmoid hardswish elu softshrink logaddexp", ()),
        **several("max min max_with_indices min_with_indices argmax argmin any all vector_norm", ()),
        **several("sort argsort topk max_pool1d max_pool2d max_pool3d max_pool2d_with_indices", ()),
        **several("adaptive_max_pool1d adaptive_max_pool2d searchsorted bucketize", ()),
    },
    refuses=_is_rounded,
)


class Tvm(Backend):
    name = "tvm"
    doc = "Apache TVM: inference; it pays when it is tuned, which takes long"
    install = "pip install apache-tvm"
    packages = ("torch", "tvm")
    remote = True
    stalls = True  # it opens a library of 260 MB without giving up the GIL
    settings = ("pipeline",)
    exact = _EXACT

    def build(self, graph: Graph, options: Options, directory: Path) -> None:
        import tvm
        from tvm.relax.frontend.torch import from_exported_program

        program = _exported.program_of(graph, bound=not options.fold, plain=True)
        try:
            module = from_exported_program(program, keep_params_as_input=False, run_ep_decomposition=False)
        except AssertionError as error:  # "Unsupported function types ['special_bessel_j0.default']"
            names = re.findall(r"'(\w+)\.\w+'", str(error))
            raise Unsupported(f"backend {self.name!r} cannot take this graph: {str(error)[:500]}", names) from error
        cpu = tvm.target.codegen.llvm_get_system_cpu()
        target = tvm.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": options.threads or _torch.threads()})
        made = tvm.compile(module, target, relax_pipeline=options.settings.get("pipeline", "default"))
        made.export_library(str(directory / _FILE))

    def load(self, graph: Graph, options: Options, directory: Path) -> Plan:
        import torch
        import tvm

        # Of all code of TVM; 1: the larger cores first.
        tvm.get_global_func("runtime.config_threadpool")(1, options.threads or _torch.threads())
        file = directory / _FILE
        function = tvm.relax.VirtualMachine(tvm.runtime.load_module(str(file)), tvm.cpu())["main"]
        names = [] if options.fold else [value.name for value in graph.parameters]
        held: dict[str, Any] = {}
        weights: list[Any] = []
        finished = numbers(graph.results)
        take = tvm.runtime.from_dlpack
        addresses: dict[str, int] = {}

        def rebind(given: Mapping[str, Any]) -> bool:
            for name, tensor in given.items():
                if name in names:
                    held[name] = _torch.aligned(_torch.bound(tensor).contiguous())
                    addresses[name] = tensor.data_ptr()
            weights[:] = [take(held[name]) for name in names]
            return all(held[name].data_ptr() == addresses[name] for name in names)

        shared = rebind(graph.data)

        def run(*inputs: Any) -> tuple[Any, ...]:
            alive = [_torch.aligned(each.detach().contiguous()) for each in inputs]
            made = function(*weights, *map(take, alive))
            made = [made] if hasattr(made, "shape") else list(made)
            return finished([torch.utils.dlpack.from_dlpack(each) for each in made])

        def close() -> None:
            held.clear()
            weights.clear()

        return Plan(
            self.name, serialised(run), results=(), shares_weights=shared, folded=options.fold,
            size_bytes=file.stat().st_size, rebind=rebind, close=close,
        )  # fmt: skip


BACKEND = Tvm()
