"""Makes an ONNX model from a graph: a walk over its nodes, each lowered by the function of its row.

1. A parameter becomes an initializer when a node takes it, with the bytes that it has.
2. A free size is a `dim_param` of an input. A number that the program computed from sizes is a tensor without axes.
3. Where a `check` of sizes does not hold, the model fails as it runs, at a node that has the user's line in its name.
   The metadata of the model names all checks, also those of what is assumed of data, which are not in the model.
4. Each node of ONNX has the layer path and source line of the node that it stands for as `metadata_props`.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper

from pijit._formats._graph_results import checks, named_results, needed
from pijit._formats.onnx import (
    activations,
    arrays,
    branches,
    complex_arrays,
    creation,
    elementwise,
    indexing,
    layers,
    numbers,
    recurrent,
    reductions,
    shared,
    training_layers,
    windows,
)
from pijit._formats.onnx.builder import Builder, NeedsSizes
from pijit._formats.onnx.complex_arrays import has_complex, linear_form, packed, part_type, taken_apart
from pijit._formats.onnx.types import NUMBERS, ONNX_TYPES, Shape, Tensor, words
from pijit._version import __version__
from pijit.errors import ExportError, UsageError
from pijit.graph import lowerings
from pijit.graph.forms import form_of
from pijit.graph.model import Graph, Node, Region, Value
from pijit.graph.model.branches import all_nodes, is_branch
from pijit.graph.model.sizes import fixed
from pijit.graph.run import lacking
from pijit.graph.torch_run import resolve

FORMS = (
    elementwise,
    numbers,
    reductions,
    arrays,
    indexing,
    creation,
    training_layers,
    windows,
    activations,
    layers,
    recurrent,
)
# Rows that give complex arrays, or take them to real ones.
COMPLEX = words("real imag conj complex view_as_real view_as_complex fft ifft rfft irfft fftn ifftn complex_fftn")
# The version of the file format that brought `metadata_props` to nodes, and that opset 21 needs.
IR_VERSION = 10
FIRST_OPSET = 21
# What a file of protobuf can hold.
LIMIT = 2**31 - 1


def form(name: str, is_complex: bool = False) -> Callable[..., Any] | None:
    """The function of a row, or None.

    Args:
        name: of the row.
        is_complex: for complex arrays.
    """
    if "::" in name:
        return lowerings.in_onnx(name)
    if is_complex or name in COMPLEX:
        return form_of(complex_arrays, name) or linear_form(name)
    own = (found for module in FORMS if (found := form_of(module, name)) is not None)
    return next(own, None) or shared.form(name)


def has_form(node: Node) -> bool:
    """The row of a node has a form in ONNX."""
    return form(node.op) is not None and not recurrent.lacks(node)


def _fill(proto: TensorProto, array: Any, dtype: str) -> None:
    """Writes an array of torch, or of any framework that has DLPack, into an initializer."""
    proto.data_type = ONNX_TYPES[dtype]
    proto.dims.extend(array.shape)
    if hasattr(array, "detach"):
        array = array.detach().cpu().contiguous()
        if dtype.startswith(("bfloat", "float8")):
            import torch

            array = array.view(torch.int16 if dtype == "bfloat16" else torch.int8)
        array = array.resolve_conj().resolve_neg().numpy()
    elif not isinstance(array, np.ndarray):
        array = np.from_dlpack(array)
    if array.dtype.kind == "c":
        proto.dims.append(2)
    proto.raw_data = array.tobytes()


def _dtype(value: Value, array: Any = None) -> str:
    """The dtype of an input or a parameter."""
    if value.kind != "tensor":
        return NUMBERS[value.kind]
    dtype = value.dtype or (str(array.dtype).rpartition(".")[2] if array is not None else None)
    if dtype is None:
        raise ExportError(f"the dtype of {value.name!r} is not known; ONNX needs the dtype of each input")
    if dtype not in ONNX_TYPES:
        raise ExportError(f"{value.name!r} is {dtype}, which ONNX does not have; try format 'exported_program'")
    return dtype


def _layers(region: Region, above: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Path of each module, and the modules that contain it as "Type path/Type path"."""
    chain = (*above, f"{region.type} {region.path}".strip()) if region.type or region.path else above
    yield region.path, "/".join(chain)
    for each in region.regions:
        yield from _layers(each, chain)


class _Lowering:
    """One graph on its way to ONNX."""

    def __init__(self, graph: Graph, loses_nan: Collection[str] = ()) -> None:
        self.graph = graph
        self.model = onnx.ModelProto()
        self.builder = Builder(self.model.graph.initializer, graph.symbols, loses_nan)
        self.values: dict[str, Any] = {}
        self.layers = dict(_layers(graph.region))
        self.counts: dict[str, int] = {}
        self.known: list[Tensor] = []

    @staticmethod
    def shape(value: Value) -> Shape | None:
        """The shape of a value."""
        return () if value.kind != "tensor" else value.shape

    def inputs(self) -> list[onnx.ValueInfoProto]:
        """Enters inputs and parameters; gives the inputs of the model."""
        given = []
        for value in self.graph.inputs:
            tensor = self.entered(self.builder.reserve(value.name), _dtype(value), self.shape(value))
            given.append(_info(tensor))
            if value.kind != "tensor":
                tensor.number, tensor.symbol = True, value.name
            self.values[value.name] = self.maybe_complex(tensor, value)
        for value in self.graph.parameters:
            array = self.graph.data.get(value.name)
            if array is None:
                raise ExportError(f"the graph has no data for {value.role} {value.path or value.name!r}")
            name, shape = self.builder.reserve(value.path or value.name), tuple(int(size) for size in array.shape)
            tensor = self.entered(name, _dtype(value, array), shape)
            self.builder.parameter(tensor, _filler(array, tensor.dtype))
            self.values[value.name] = self.maybe_complex(tensor, value)
        return given

    def compare_sizes(self) -> None:
        """Checks what the model takes for one size, where a decision looks at sizes: runtimes do not compare them."""
        nodes = (node for node in all_nodes(self.graph) if node.op == "check" and not node.origin)
        if (decision := next(nodes, None)) is None:
            return
        self.builder.node = decision
        first: dict[str, tuple[Tensor, int]] = {}
        for value in self.graph.inputs:
            for axis, size in enumerate(self.shape(value) or ()):
                if not isinstance(size, str):
                    continue
                tensor = self.values[value.name]
                known = first.setdefault(size, (tensor, axis))
                if known != (tensor, axis):
                    self.builder.check_same(*known, tensor, axis)
        self.finish(decision, {})

    def entered(self, name: str, dtype: str, shape: Shape | None) -> Tensor:
        """An input or a parameter; a complex one has both parts on its last axis."""
        if part_type(dtype) != dtype and shape is not None:
            shape = (*shape, 2)
        return Tensor(self.builder, name, part_type(dtype), shape)

    def maybe_complex(self, tensor: Tensor, value: Value) -> Tensor:
        """The complex array of which a tensor has both parts."""
        if value.dtype is None or part_type(value.dtype) == value.dtype:
            return tensor
        made: Tensor = taken_apart(self.builder, tensor)
        self.builder.take({})
        return made

    def node(self, node: Node) -> None:
        """Lowers one node."""
        builder = self.builder
        builder.node = node
        if missing := [value.name for value in node.operands if value.name not in self.values]:
            builder.fail(f"{missing[0]!r} is a result that the operator before does not give in ONNX")
        if is_branch(node):
            self.enter(node, branches.lower(self, node))
            return
        if node.op == "check":
            builder.check(resolve(node.arguments["x"], self.values), node.arguments["expected"])
            self.finish(node, {})
            return
        arguments = {name: resolve(argument, self.values) for name, argument in node.arguments.items()}
        lower = form(node.op, any(map(has_complex, arguments.values())))
        if lower is None:
            raise lacking(node, "ONNX")
        try:
            results = lower(builder, **arguments)
        except ExportError:
            raise
        except Exception as error:
            builder.fail(f"{type(error).__name__}: {error}")
        if not isinstance(results, tuple | list) or (len(node.results) == 1 and len(results) != 1):
            results = (results,)
        self.enter(node, results)

    def enter(self, node: Node, results: Sequence[Any]) -> None:
        """Enters what a node has become, under the names of its results."""
        named = {}
        for value, result in zip(node.results, results, strict=False):
            if value is not None and result is not None:  # None: a gradient that is not asked for
                self.values[value.name] = made = self.result(value, result)
                if isinstance(made, Tensor) and made.const is None and made.parts is None:
                    named[value.name] = made
        self.finish(node, named)

    def result(self, value: Value, made: Any) -> Any:
        """What a value stands for: a number, or a tensor of the dtype that the value has."""
        if value.kind != "tensor":
            made = self.builder.plain(made)
            if isinstance(made, Tensor):
                made = self.builder.cast(made, NUMBERS[value.kind])
                made.number = True
            return made
        if not isinstance(made, Tensor):
            made = self.builder.const(made, value.dtype)
        for each in made.parts or ():
            self._shaped(each, value)
        if made.parts is not None:
            return made
        if value.dtype is not None and made.dtype != value.dtype:
            made = self.builder.cast(made, value.dtype)
        if made.number:
            made = self.builder.Identity(made)
        self._shaped(made, value)
        return made

    def _shaped(self, made: Tensor, value: Value) -> None:
        """The tensor has the sizes that are known of the value."""
        shape = self.shape(value)
        if shape is not None and made.const is None:
            own = made.shape if made.shape is not None and len(made.shape) == len(shape) else shape
            made.shape = tuple(a if isinstance(a, int) else b for a, b in zip(shape, own, strict=True))
            made.shape = tuple(b if a is None else a for a, b in zip(made.shape, shape, strict=True))

    @staticmethod
    def info(tensor: Tensor) -> onnx.ValueInfoProto:
        """The name and type of a tensor."""
        return _info(tensor)

    def finish(self, node: Node, named: Mapping[str, Tensor]) -> None:
        """Names the nodes of ONNX that a node has become, and notes where they come from."""
        free = {self.builder.reserve(name): tensor for name, tensor in named.items() if tensor.name != name}
        new = self.builder.take(free)
        self.known += [tensor for name, tensor in free.items() if tensor.name == name]
        op = f"check {node.place}" if node.op == "check" else node.op
        base = f"{node.region}/{op}" if node.region else op
        notes = {
            "namespace": "/".join(filter(None, (self.layers.get(node.region, node.region), node.op))),
            "pijit.layer": node.region,
            "pijit.line": node.place,
            "pijit.origin": node.origin,
        }
        for proto in new:
            name = base if len(new) == 1 else f"{base}/{proto.op_type}"
            self.counts[name] = count = self.counts.get(name, 0) + 1
            proto.name = name if count == 1 else f"{name}_{count}"
            for key, note in notes.items():
                if note:
                    proto.metadata_props.add(key=key, value=note)

    def outputs(self) -> list[onnx.ValueInfoProto]:
        """Names what the graph returns and what it changes."""
        infos = []
        own = {name for proto in self.builder.nodes for name in proto.output}
        renamed: dict[str, str] = {}
        self.builder.node = None
        for name, value in named_results(self.graph):
            made = self.values[value.name]
            if not isinstance(made, Tensor):
                made = self.builder.const(made, NUMBERS[value.kind])
            if made.parts is not None:
                made = packed(self.builder, made)
            made = self.builder.guarded(made)
            own.update(name for proto in self.builder.take({}) for name in proto.output)
            output = self.builder.reserve(name)
            if made.name in own and made.name not in renamed:
                renamed[made.name] = output
            else:
                self.builder.nodes.append(
                    NodeProto(op_type="Identity", name=output, input=[self.builder._use(made)], output=[output])
                )
            infos.append(_info(made, output))
        if renamed:
            branches.renamed(self.builder.nodes, renamed)
        self.known = [each for each in self.known if each.name not in renamed]
        return infos


def _filler(array: Any, dtype: str) -> Callable[[TensorProto], None]:
    return lambda proto: _fill(proto, array, dtype)


def _info(tensor: Tensor, name: str = "") -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name or tensor.name, ONNX_TYPES[tensor.dtype], tensor.shape)


def lowered(
    graph: Graph, opset: int = FIRST_OPSET, loses_nan: Collection[str] = (), may_fix: bool = False
) -> onnx.ModelProto:
    """The model; see `pijit._formats.onnx`. With `may_fix`, free sizes that ONNX needs as numbers become these."""
    while True:
        try:
            return _lowered(graph, opset, loses_nan)
        except NeedsSizes as error:
            if not may_fix:
                raise
            graph = fixed(graph, error.sizes)


def _lowered(graph: Graph, opset: int, loses_nan: Collection[str]) -> onnx.ModelProto:
    newest = onnx.defs.onnx_opset_version()
    if not FIRST_OPSET <= opset <= newest:
        raise UsageError(f"opset {opset}: the format 'onnx' writes {FIRST_OPSET} to {newest}")
    lowering = _Lowering(graph, loses_nan)
    inputs = lowering.inputs()
    lowering.compare_sizes()
    for node in needed(graph, size_checks=True):
        lowering.node(node)
    outputs = lowering.outputs()
    model = lowering.model
    model.ir_version = max(IR_VERSION, helper.OP_SET_ID_VERSION_MAP.get(("ai.onnx", opset), IR_VERSION))
    model.producer_name, model.producer_version = "pijit", __version__
    model.opset_import.append(helper.make_opsetid("", opset))
    made = model.graph
    made.name = graph.name or "graph"
    made.node.extend(lowering.builder.nodes)
    made.input.extend(inputs)
    made.output.extend(outputs)
    made.value_info.extend(_info(each) for each in lowering.known if each.shape is not None)
    notes = {"pijit.function": graph.name}
    if graph.symbols:
        notes["pijit.sizes_seen"] = json.dumps(dict(graph.symbols))
    if held := "\n".join(dict.fromkeys(checks(graph))):
        notes["pijit.holds_where"] = held
    helper.set_model_props(model, notes)
    return model
