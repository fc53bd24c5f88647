"""IREE: the graph from torch.export, compiled by IREE's own process to a module of a few bytes.

It is best where many small operators are called. Weights are read where the program has them.
"""

import functools
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pijit.compilers import _exported, _torch
from pijit.compilers._base import Backend, Options, Plan, Unsupported, has_numbers, serialised
from pijit.compilers._exact import MOVES, Exact, several
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


def _is_rounded(node: Node) -> bool:
    """Quotients that are rounded, and powers that are no squares or cubes."""
    if node.op == "divide":
        return node.arguments.get("rounding") is not None
    return node.op == "pow" and node.arguments["y"] not in (2, 3)


# It computes float64 as float32, and what compares takes NaN for a number, or drops it.
_FLOAT = {"float32", "bool"}
_INTEGER = {"int32", "int64", "bool"}
_EXACT = Exact(
    _FLOAT,
    families=dict.fromkeys(MOVES, _FLOAT | _INTEGER),
    rows={
        **several("add subtract reverse_subtract multiply less less_equal greater greater_equal", _FLOAT | _INTEGER),
        **several("equal not_equal", _INTEGER),
        **several("maximum minimum clip", _INTEGER),
        **several("cross_entropy_loss nll_loss nll_loss_forward nll_loss_backward", _FLOAT | _INTEGER),
        **several("embedding_backward max_pool2d_with_indices max_pool2d_backward", _FLOAT | _INTEGER),
        **several("relu6 hardtanh threshold floor_divide remainder fmod sort argsort topk", ()),
        **several("max_with_indices min_with_indices argmax argmin", ()),
    },
    refuses=_is_rounded,
)


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
    exact = _EXACT

    def lacks(self, graph: Graph) -> tuple[Node, ...]:
        return super().lacks(graph) or tuple(node for node in graph.nodes if node.op in _LACKS or has_numbers(node))

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
            message = f"backend {self.name!r} cannot take this graph: {said[:500]}"
            raise Unsupported(message, re.findall(r"torch\.aten\.(\w+)", said))
        (directory / _SOURCE).unlink()

    def load(self, graph: Graph, options: Options, directory: Path) -> Plan:
        data = (directory / _FILE).read_bytes()
        return _Bound(graph, options, data).plan()


@functools.cache
def _config(iree: Any, threads: int) -> Any:
    """The device of so many threads: the caller's alone, or a pool. A pool is as large as the first that is made."""
    if threads == 1:
        return iree.Config("local-sync")
    iree._binding.parse_flags(f"--task_topology_group_count={threads}")
    return iree.Config("local-task")


class _Bound:
    """A module with its weights, called by the virtual machine itself.

    The invoker of `iree.runtime` reads the description of each argument at each call, of the weights, too. So the list
    of arguments is made once. Weights are in it where the program has them; inputs have memory of their own, to which
    a call copies.
    """

    def __init__(self, graph: Graph, options: Options, data: bytes) -> None:
        import iree.runtime as iree

        iree._binding.disable_leak_checker()  # at exit it would list functions of its own, on stderr
        self.iree, self.graph, self.size = iree, graph, len(data)
        self.fold = options.fold
        config = _config(iree, options.threads or _torch.threads())
        context = iree.SystemContext(config=config)
        module = iree.VmModule.copy_buffer(context.instance, data)
        context.add_vm_module(module)
        self.device, self.context = config.device, context
        self.function = module.lookup_function("main")
        self.names = [] if self.fold else [value.name for value in graph.parameters]
        self.held: dict[str, Any] = {}
        self.given: dict[str, int] = {}  # the addresses of the program's own
        if any(value.kind != "tensor" for value in graph.inputs):
            raise BackendError("backend 'iree' takes tensors only")
        self.places = [_torch.example(value).contiguous() for value in graph.inputs]
        self.arguments: Any = None

    def rebind(self, weights: Mapping[str, Any]) -> bool:
        for name, tensor in weights.items():
            if name in self.names:
                self.given[name] = tensor.data_ptr()
                self.held[name] = _torch.aligned(_torch.bound(tensor).contiguous())
        made = self.iree.VmVariantList(len(self.names) + len(self.places))
        for each in (*(self.held[name] for name in self.names), *self.places):
            made.push_ref(self.shared(each))
        self.arguments = made
        return all(each.data_ptr() == self.given[name] for name, each in self.held.items())

    def shared(self, tensor: Any) -> Any:
        """The memory of a tensor, for IREE; it keeps the tensor alive."""
        from iree.runtime.array_interop import map_dtype_to_element_type

        iree, array = self.iree, tensor.numpy()
        if not array.size:  # there is no memory to share
            return iree.asdevicearray(self.device, array)._buffer_view
        kind = iree.MemoryType.HOST_LOCAL | iree.MemoryType.DEVICE_VISIBLE
        usage = iree.BufferUsage.DEFAULT | iree.BufferUsage.MAPPING_PERSISTENT
        memory = self.device.allocator.import_host_allocation(array, memory_type=int(kind), allowed_usage=int(usage))
        return iree.HalBufferView(memory, list(array.shape), map_dtype_to_element_type(array.dtype))

    def plan(self) -> Plan:
        import torch

        shared = self.rebind(self.graph.data)
        invoke, function, listed = self.context.vm_context.invoke, self.function, self.iree.VmVariantList
        results = self.graph.results
        flags = [value.dtype == "bool" for value in results]
        places, count, finished = self.places, len(results), numbers(results)
        order = range(count)
        array, from_numpy, view = self.iree.DeviceArray, torch.from_numpy, self.iree.HalBufferView

        def run(*inputs: Any) -> tuple[Any, ...]:
            for place, given in zip(places, inputs, strict=True):
                place.copy_(given)
            made = listed(count)
            invoke(function, self.arguments, made)
            # A copy: the memory may be that of an input. A flag comes as a byte.
            found = [from_numpy(array(self.device, made.get_as_object(at, view)).to_host()) for at in order]
            return finished([each.ne(0) if flag else each.clone() for each, flag in zip(found, flags, strict=True)])

        return Plan(
            "iree", serialised(run), results=(), shares_weights=shared and not self.fold, folded=self.fold,
            size_bytes=self.size, rebind=self.rebind, close=self.close,
        )  # fmt: skip

    def close(self) -> None:
        self.held.clear()
        self.places.clear()
        self.arguments = self.context = self.function = None


BACKEND = Iree()
