"""OpenVINO: the graph as ONNX, computed in the precision that it has.

Left to itself, OpenVINO computes in bfloat16 where the processor has it, and converts inputs of another dtype.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pijit.compilers import _torch
from pijit.compilers._base import Options, Plan, serialised
from pijit.compilers._onnx import FILE, OfOnnx
from pijit.compilers._prepare import numbers
from pijit.errors import BackendError
from pijit.graph.model import Graph, Node, Value

# Names of types; the others OpenVINO does not have.
_TYPES = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32",
    "int16": "i16", "int8": "i8", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "boolean",
}  # fmt: skip


class OpenVino(OfOnnx):
    name = "openvino"
    folds = True
    doc = "Intel's runtime: fast inference on the CPU with free sizes, and whole training steps"
    training = True
    install = "pip install onnx openvino"
    packages = ("torch", "onnx", "openvino")

    def lacks(self, graph: Graph) -> tuple[Node, ...]:
        """Complex numbers, too: it transforms along another axis than ONNX says, and cannot be given any."""
        lacking = {id(node) for node in super().lacks(graph)}
        return tuple(node for node in graph.nodes if id(node) in lacking or _is_complex(node))

    def load(self, graph: Graph, options: Options, directory: Path) -> Plan:
        import openvino

        core = openvino.Core()
        settings = {
            "INFERENCE_PRECISION_HINT": "f32",
            "INFERENCE_NUM_THREADS": options.threads or _torch.threads(),
            "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY",
            "ENABLE_CPU_PINNING": False,  # the processors are shared with torch, and the program's own
        }
        file = directory / FILE
        compiled = core.compile_model(core.read_model(str(file)), "CPU", settings)
        return _Bound(graph, options, compiled, file.stat().st_size).plan()


def _is_complex(node: Node) -> bool:
    return any(
        value is not None and str(value.dtype).startswith("complex") for value in (*node.operands, *node.results)
    )


class _Bound:
    """A compiled model with its weights."""

    def __init__(self, graph: Graph, options: Options, compiled: Any, size: int) -> None:
        import openvino
        import torch

        self.torch, self.tensor = torch, openvino.Tensor
        self.graph, self.fold, self.size = graph, options.fold, size
        self.compiled: Any = compiled
        self.request: Any = compiled.create_infer_request()
        count = 0 if self.fold else len(graph.parameters)
        self.places = {value.name: at for at, value in enumerate(graph.parameters[:count])}
        self.held: dict[str, Any] = {}
        self.given: dict[str, int] = {}  # the addresses of the program's own
        if len(compiled.inputs) != count + len(graph.inputs) or len(compiled.outputs) != len(graph.results):
            raise BackendError("backend 'openvino' has dropped an input of the graph")
        for port, value in zip(compiled.outputs, graph.results, strict=True):
            known = value.kind != "tensor" or value.dtype is not None
            if known and port.get_element_type().get_type_name() != _TYPES.get(_torch.dtype_of(value)):
                raise BackendError(f"backend 'openvino' gives {port.get_element_type()} for {value.name!r}")

    def rebind(self, weights: Mapping[str, Any]) -> bool:
        for name, tensor in weights.items():
            if name in self.places:
                self.given[name] = tensor.data_ptr()
                self.held[name] = _torch.bound(tensor).contiguous()
                self.request.set_input_tensor(self.places[name], self.shared(self.held[name]))
        return all(each.data_ptr() == self.given[name] for name, each in self.held.items())

    def shared(self, tensor: Any) -> Any:
        """The memory of a tensor, for OpenVINO."""
        return self.tensor(tensor.detach().numpy(), shared_memory=True)

    def plan(self) -> Plan:
        shared = not self.fold and self.rebind(self.graph.data)
        first = len(self.places)
        enter: list[Callable[[Any], Any]] = [self.entered(value) for value in self.graph.inputs]
        outputs = [self.output(at, value) for at, value in enumerate(self.graph.results)]
        request, finished = self.request, numbers(self.graph.results)

        def run(*given: Any) -> tuple[Any, ...]:
            alive = [make(each) for make, each in zip(enter, given, strict=True)]
            for at, tensor in enumerate(alive, first):
                request.set_input_tensor(at, tensor)
            ends = [make() for make in outputs]
            request.infer()
            del alive
            return finished([end() for end in ends])

        return Plan(
            "openvino", serialised(run), results=(), shares_weights=shared, folded=self.fold,
            size_bytes=self.size, rebind=self.rebind, close=self.close,
        )  # fmt: skip

    def entered(self, value: Value) -> Callable[[Any], Any]:
        shared, torch = self.shared, self.torch
        if value.kind == "tensor":
            return lambda tensor: shared(tensor.contiguous())
        dtype = getattr(torch, _torch.dtype_of(value))
        return lambda number: shared(torch.tensor(number, dtype=dtype))

    def output(self, at: int, value: Value) -> Callable[[], Callable[[], Any]]:
        """Makes a tensor for an output, and gives what gives it after the call."""
        request, shared, torch = self.request, self.shared, self.torch
        sizes: Any = () if value.kind != "tensor" else value.shape
        if sizes is None or not all(isinstance(size, int) for size in sizes):
            return lambda: lambda: torch.from_numpy(request.get_output_tensor(at).data.copy())
        dtype = getattr(torch, _torch.dtype_of(value))

        def make() -> Callable[[], Any]:
            made = torch.empty(sizes, dtype=dtype)
            request.set_output_tensor(at, shared(made))
            return lambda: made

        return make

    def close(self) -> None:
        self.held.clear()
        self.request = self.compiled = None


BACKEND = OpenVino()
