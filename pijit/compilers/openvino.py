"""OpenVINO: the graph as ONNX, computed in the precision that it has.

Left to itself, OpenVINO computes in bfloat16 where the processor has it, and converts inputs of another dtype.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from pijit.compilers import _decided, _torch
from pijit.compilers._base import Options, Plan, serialised
from pijit.compilers._decided import Limit
from pijit.compilers._exact import MOVES, Exact, several
from pijit.compilers._onnx import FILE, OfOnnx
from pijit.compilers._prepare import numbers
from pijit.errors import BackendError
from pijit.graph.model import Graph, Node, Value
from pijit.graph.vocabulary import rows

# Names of types; the others OpenVINO does not have.
_TYPES = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32",
    "int16": "i16", "int8": "i8", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "boolean",
}  # fmt: skip

# It computes 64 bits in 32 and halves in float32, and integers partly as float32.
_FLOAT = {"float32", "bool"}
_EXACT = Exact(
    _FLOAT,
    rows={
        **several("fmod remainder floor_divide sort argsort topk scatter_reduce logsumexp", ()),
        **several("max min max_with_indices min_with_indices vector_norm", ()),  # infinities become the largest number
    },
)
_LARGEST = 1 << 24  # integers up to there are exact in float32, too
_PLACES = frozenset({"argmax", "argmin", "max_pool2d_with_indices"})
_CHOICES = frozenset({"where", "masked_fill"})
# Operators besides those that move elements that take integers, if these are small.
_OF_SMALL = frozenset(
    {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "embedding_backward"}
    | {"cross_entropy_loss", "nll_loss", "nll_loss_forward", "nll_loss_backward", "max_pool2d_backward"}
)
_SUMS = frozenset({"scatter_add", "scatter_reduce", "index_add", "index_put"})


class OpenVino(OfOnnx):
    name = "openvino"
    folds = True
    doc = "Intel's runtime: fast inference on the CPU with free sizes, and whole training steps"
    training = True
    turns = 6
    turn_bytes = 1 << 20
    install = "pip install onnx openvino"
    packages = ("torch", "onnx", "openvino")
    # Its kernels take NaN for a number.
    loses_nan = frozenset(
        {"Relu", "Clip", "Max", "Min", "Exp", "HardSigmoid", "HardSwish", "Elu", "Softmax", "LogSoftmax"}
        | {"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Cast"}
    )

    def lacks(self, graph: Graph) -> tuple[Node, ...]:
        """Complex numbers, too: it transforms along another axis than ONNX says, and cannot be given any."""
        lacking = {id(node) for node in super().lacks(graph)}
        return tuple(node for node in graph.nodes if id(node) in lacking or _is_complex(node))

    def inexact(self, graph: Graph) -> tuple[Node, ...]:
        """Integers are exact where they are known to be small."""
        small = _small(graph)
        return tuple(node for node in graph.nodes if not _holds(node, small))

    def limits(self, graph: Graph) -> tuple[Limit, ...]:
        known = set()
        for limit in _decided.decided(graph).limits:
            if limit.kind in {"index", "wrapped"} and isinstance(limit.size, int) and _is_small(limit.size):
                known.add(limit.value.name)
        small = _small(graph)
        read = {value.name for node in graph.nodes if _holds(node, small) for value in node.operands}
        values = _integers((*graph.inputs, *graph.parameters))
        wanted = [value for value in values if value.name in read - known]
        return tuple(Limit(value, "small", _LARGEST, None, None) for value in wanted)

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


def _small(graph: Graph) -> frozenset[str]:
    """Names of integers that are known to be small: inputs and weights, which are looked at, and what picks of them."""
    found = {value.name for value in _integers((*graph.inputs, *graph.parameters))}
    for node in graph.nodes:
        results = [value for value in node.results if value is not None]
        tensors = [value for value in node.operands if value.kind == "tensor" and value.dtype != "bool"]
        literals = [each for each in node.arguments.values() if isinstance(each, int | float)]
        chosen = (_moves(node) and node.op not in _SUMS) or node.op in _CHOICES
        if chosen and all(value.name in found for value in tensors) and all(map(_is_small, literals)):
            found.update(value.name for value in results)
        elif node.op in _PLACES and results:
            found.add(results[-1].name)
    return frozenset(found)


def _integers(values: Iterable[Value]) -> list[Value]:
    return [value for value in values if value.kind == "tensor" and "int" in str(value.dtype)]


def _is_small(number: float) -> bool:
    return abs(number) < _LARGEST


def _moves(node: Node) -> bool:
    return node.op in rows() and rows()[node.op].family in MOVES


def _holds(node: Node, small: Collection[str]) -> bool:
    if node.op == "divide" and node.arguments.get("rounding") == "floor":
        return False
    dtypes = _EXACT.dtypes(node.op)
    tensors = [value for value in (*node.operands, *node.results) if value is not None and value.kind == "tensor"]
    if not all(value.dtype in dtypes or (dtypes and value.name in small) for value in tensors):
        return False
    if not _integers(tensors):
        return True
    if node.op in _PLACES:
        return not _integers(node.operands)
    literals = [each for each in node.arguments.values() if isinstance(each, int | float)]
    return _moves(node) or (node.op in _OF_SMALL | _CHOICES and all(map(_is_small, literals)))


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
