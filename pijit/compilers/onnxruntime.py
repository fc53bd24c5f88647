"""ONNX Runtime: the graph as ONNX, with the weights bound once where the program has them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pijit.compilers import _torch
from pijit.compilers._base import Options, Plan, serialised
from pijit.compilers._exact import COMPLEX, HALVES, INTEGERS, MOVES, Exact, several
from pijit.compilers._onnx import FILE, OfOnnx, is_power_of_integers
from pijit.compilers._prepare import numbers
from pijit.graph.model import Graph, Value

# The types of ONNX by dtype: `onnx.TensorProto`.
_TYPES = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
    "float64": 11, "uint32": 12, "uint64": 13, "bfloat16": 16,
}  # fmt: skip

# It sums integers as floats; between operators on halves it keeps float32; and a part of its kernels knows float32
# alone, to which the graph is cast.
_SINGLES = frozenset({"float32", "bool", *INTEGERS, *COMPLEX})
_ALL = _SINGLES | {"float64"}
_EXACT = Exact(
    usual=_SINGLES,
    families={
        **dict.fromkeys(MOVES, _ALL | HALVES | {"uint64"}),
        **dict.fromkeys(("elementwise", "comparison and logic", "reduction", "linear algebra", "attention"), _ALL),
    },
    rows={
        **several("asin acos atan tan sinh cosh asinh acosh atanh atan2 erf erfc expm1 log1p", _SINGLES),
        **several("logaddexp logaddexp2 cdist", _SINGLES),
        **several("sum prod cumulative_prod trace mean", _ALL - INTEGERS),
        **several("avg_pool1d avg_pool2d avg_pool3d", _SINGLES - INTEGERS),
        **several("relu relu6 sigmoid silu leaky_relu hardtanh hardsigmoid hardswish threshold softmax", _ALL),
        **several("threshold_backward tanh_backward sigmoid_backward softmax_backward mse_loss_backward", _ALL),
        **several("mse_loss l1_loss layer_norm native_layer_norm rms_norm layer_norm_backward", _ALL),
        **several("scatter_add scatter_reduce index_add searchsorted bucketize isin", _ALL),
    },
    refuses=is_power_of_integers,
)


class OnnxRuntime(OfOnnx):
    name = "onnxruntime"
    folds = True
    doc = "small and quick to compile: inference with free sizes, and whole training steps"
    install = "pip install onnx onnxruntime"
    packages = ("torch", "onnx", "onnxruntime")
    training = True
    turns = 6
    exact = _EXACT

    def load(self, graph: Graph, options: Options, directory: Path) -> Plan:
        import onnxruntime

        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = options.threads or _torch.threads()
        settings.inter_op_num_threads = 1
        settings.log_severity_level = 3
        file = directory / FILE
        session = onnxruntime.InferenceSession(str(file), settings, providers=["CPUExecutionProvider"])
        return _Bound(graph, options, session, file.stat().st_size).plan()


class _Bound:
    """A session with its weights."""

    def __init__(self, graph: Graph, options: Options, session: Any, size: int) -> None:
        import torch

        self.torch = torch
        self.graph = graph
        self.fold = options.fold
        self.session = session
        self.size = size
        self.binding = session.io_binding()
        self.held: dict[str, Any] = {}
        self.given: dict[str, int] = {}  # the addresses of the program's own
        names = [each.name for each in session.get_inputs()]
        count = 0 if self.fold else len(graph.parameters)
        self.weights = dict(zip((value.name for value in graph.parameters), names[:count], strict=False))
        self.inputs = list(zip(graph.inputs, names[count:], strict=True))
        self.outputs = [each.name for each in session.get_outputs()]

    def rebind(self, weights: Mapping[str, Any]) -> bool:
        for name, tensor in weights.items():
            if name in self.weights:
                self.given[name] = tensor.data_ptr()
                self.held[name] = self.bind(self.weights[name], _torch.bound(tensor))
        return all(each.data_ptr() == self.given[name] for name, each in self.held.items())

    def bind(self, name: str, tensor: Any) -> Any:
        """Binds an input to the memory of a tensor, and gives what has to live until the call."""
        tensor = tensor.contiguous()
        kind = _TYPES[str(tensor.dtype).removeprefix("torch.")]
        self.raw.bind_input(name, self.device, kind, tuple(tensor.shape), tensor.data_ptr())
        return tensor

    def plan(self) -> Plan:
        from onnxruntime import OrtDevice, RunOptions

        self.raw, self.device = self.binding._iobinding, OrtDevice.make("cpu", 0)._get_c_device()
        shared = not self.fold and self.rebind(self.graph.data)
        run_bound, settings = self.session._sess.run_with_iobinding, RunOptions()
        inputs = [(name, self.entered(value)) for value, name in self.inputs]
        outputs = [self.output(value, name) for value, name in zip(self.graph.results, self.outputs, strict=True)]
        fixed = all(make is not None for make in outputs)
        bind, finished = self.bind, numbers(self.graph.results)

        def run(*given: Any) -> tuple[Any, ...]:
            alive = [bind(name, enter(each)) for (name, enter), each in zip(inputs, given, strict=True)]
            made = [make() for make in outputs if make is not None] if fixed else None
            if made is None:
                self.raw.clear_binding_outputs()
                for name in self.outputs:
                    self.binding.bind_output(name, "cpu")
            run_bound(self.raw, settings)
            del alive
            return finished(made if made is not None else self.found())

        return Plan(
            "onnxruntime", serialised(run), results=(), shares_weights=shared, folded=self.fold,
            size_bytes=self.size, rebind=self.rebind, close=self.close,
        )  # fmt: skip

    def entered(self, value: Value) -> Callable[[Any], Any]:
        torch = self.torch
        if value.kind == "tensor":
            return lambda tensor: tensor
        dtype = getattr(torch, _torch.dtype_of(value))
        return lambda number: torch.tensor(number, dtype=dtype)

    def output(self, value: Value, name: str) -> Callable[[], Any] | None:
        """Makes a tensor for an output and binds it; None: its size is not known."""
        shape = () if value.kind != "tensor" else value.shape
        if shape is None or not all(isinstance(size, int) for size in shape):
            return None
        sizes: Any = shape
        empty, dtype, kind = (
            self.torch.empty,
            getattr(self.torch, _torch.dtype_of(value)),
            _TYPES[_torch.dtype_of(value)],
        )

        def make() -> Any:
            made = empty(sizes, dtype=dtype)
            self.raw.bind_output(name, self.device, kind, sizes, made.data_ptr())
            return made

        return make

    def found(self) -> list[Any]:
        """The outputs, in memory that ONNX Runtime has allocated."""
        return [self.torch.utils.dlpack.from_dlpack(each) for each in self.binding.get_outputs()]

    def close(self) -> None:
        self.held.clear()
        self.binding = self.raw = self.session = None


BACKEND = OnnxRuntime()
