"""IREE: the graph from torch.export, compiled by IREE's own process to a module of a few bytes.

It is best where many small operators are called. Weights are copied to IREE's memory; they are bound again when they
have changed.
"""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pijit.compilers import _exported, _torch
from pijit.compilers._base import Backend, Options, Plan, gives_numbers, serialised
from pijit.compilers._prepare import numbers
from pijit.errors import BackendError
from pijit.graph.model import Graph, Node

_SOURCE, _FILE = "program.mlir", "program.vmfb"
_FLAGS = (
    "--iree-input-type=torch",
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
)
# Batch normalisation in training.
_LACKS = {"functional_batch_norm", "native_batch_norm", "batch_norm_backward"}


def _decomposed() -> list[Any]:
    """Operators of backward passes that IREE has not got."""
    import torch

    aten = torch.ops.aten
    return [
        aten.nll_loss_forward,
        aten.nll_loss_backward,
        aten._log_softmax_backward_data,
        aten.threshold_backward,
        aten.gelu_backward,
        aten.native_layer_norm_backward,
        aten.native_batch_norm_backward,
    ]


class Iree(Backend):
    name = "iree"
    folds = True
    doc = "MLIR's compiler: inference and training steps of many small operators"
    install = "pip install iree-base-compiler iree-base-runtime"
    packages = ("torch", "iree.compiler", "iree.runtime")
    training = True
    remote = True
    settings = ("flags",)

    def lacks(self, graph: Graph) -> tuple[Node, ...]:
        return super().lacks(graph) or tuple(node for node in graph.nodes if node.op in _LACKS or gives_numbers(node))

    def build(self, graph: Graph, options: Options, directory: Path) -> None:
        import torch
        from iree.compiler.extras.fx_importer import FxImporter

        program = _exported.program_of(graph, bound=not options.fold, plain=True)
        with torch.no_grad():
            program = program.run_decompositions(torch._decomp.get_decompositions(_decomposed()))
        importer = FxImporter()
        importer.import_program(program, func_name="main")
        with open(directory / _SOURCE, "wb") as file:
            importer.module.operation.write_bytecode(file)
        command = [sys.executable, "-m", "iree.compiler.tools.scripts.iree_compile", str(directory / _SOURCE)]
        command += ["-o", str(directory / _FILE), *_FLAGS, *options.settings.get("flags", ())]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[-300:])
            raise BackendError(f"backend {self.name!r} cannot take this graph: {said[:500]}")
        (directory / _SOURCE).unlink()

    def load(self, graph: Graph, options: Options, directory: Path) -> Plan:
        import iree.runtime as iree
        import numpy as np
        import torch

        config = iree.Config("local-sync")
        context = iree.SystemContext(config=config)
        data = (directory / _FILE).read_bytes()
        module = iree.VmModule.copy_buffer(context.instance, data)
        context.add_vm_module(module)
        function = context.modules[module.name]["main"]
        names = [] if options.fold else [value.name for value in graph.parameters]
        held: dict[str, Any] = {}
        weights: list[Any] = []
        finished = numbers(graph.results)

        def rebind(given: Mapping[str, Any]) -> bool:
            for name, tensor in given.items():
                if name in names:
                    held[name] = iree.asdevicearray(config.device, _torch.bound(tensor).contiguous().numpy())
            weights[:] = [held[name] for name in names]
            return False

        rebind(graph.data)

        def run(*inputs: Any) -> tuple[Any, ...]:
            made = function(*weights, *(each.detach().numpy() for each in inputs))
            made = made if isinstance(made, tuple | list) else (made,)
            return finished([torch.from_numpy(np.array(each.to_host())) for each in made])

        def close() -> None:
            held.clear()
            weights.clear()

        size = len(data) + (0 if options.fold else _torch.size_of(graph.data.values()))
        return Plan(
            self.name, serialised(run), results=(), shares_weights=False, folded=options.fold, size_bytes=size,
            rebind=rebind, close=close,
        )  # fmt: skip


BACKEND = Iree()
