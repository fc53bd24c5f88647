"""Graphs as modules of torch, for the backends that begin with one."""

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

from pijit._formats.fx.branches import BranchLowering
from pijit._formats.fx.lowering import targets
from pijit.errors import BackendError
from pijit.graph.model import Graph, Value, replaced


def module_of(graph: Graph) -> Any:
    """A `torch.fx.GraphModule` of a graph that writes to nothing; its weights share the memory of the graph's.

    It has a method `pijit_rebind(weights)`, which puts others in their place.

    Args:
        graph: its outputs are values in a tuple.
    """
    made = replace(graph, data={name: bound(tensor) for name, tensor in graph.data.items()})
    module = BranchLowering(made, "fx").module()
    where = targets(made)

    def rebind(weights: Mapping[str, Any]) -> bool:
        for name, tensor in weights.items():
            if name in where:
                owner, _, last = where[name].rpartition(".")
                setattr(module.get_submodule(owner), last, bound(tensor))
        return True

    module.pijit_rebind = rebind
    return module.eval()


def with_weights_as_inputs(graph: Graph, names: Container[str] | None = None) -> Graph:
    """The graph with weights as inputs, before the others, under names that are names of Python, too.

    Args:
        graph: its outputs are values in a tuple.
        names: of the weights; None: all.
    """
    taken = {value.name for value in graph.inputs}
    for node in graph.nodes:
        taken.update(value.name for value in node.results if value is not None)
    new = {}
    for at, value in enumerate(graph.parameters):
        if names is None or value.name in names:
            name = f"weight_{at}"
            while name in taken:
                name += "_"
            new[value.name] = replace(value, name=name, role="input", path="")
    nodes = tuple(
        replace(node, arguments={name: replaced(each, new) for name, each in node.arguments.items()})
        for node in graph.nodes
    )
    return replace(
        graph,
        inputs=(*new.values(), *graph.inputs),
        parameters=tuple(value for value in graph.parameters if value.name not in new),
        data={name: tensor for name, tensor in graph.data.items() if name not in new},
        nodes=nodes,
        outputs=replaced(graph.outputs, new),
    )


def bound(tensor: Any) -> Any:
    """The same memory, of which no gradients are computed."""
    return tensor.detach()


def example(value: Value) -> Any:
    """Something of the type of an input: zeros, or a number."""
    import torch

    if value.kind != "tensor":
        return {"int": 0, "float": 0.5, "bool": False}[value.kind]
    if value.shape is None or value.dtype is None:
        raise BackendError(f"the size of input {value.name!r} is not known ({value.type}); give examples for it")
    sizes: Any = value.shape
    return torch.zeros(sizes, dtype=getattr(torch, value.dtype), device=value.device)


def dtype_of(value: Value) -> str:
    """The dtype of the array that stands for a value, which may be a number."""
    return DTYPES.get(value.kind) or str(value.dtype)


def size_of(tensors: Any) -> int:
    """Bytes of these tensors."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def threads() -> int:
    """How many threads torch uses for one operator."""
    import torch

    return torch.get_num_threads()


def aligned(tensor: Any) -> Any:
    """A tensor at an address that compilers take; most are, and are given as they are."""
    return tensor.clone() if tensor.__class__ not in _NUMBERS and tensor.data_ptr() & 63 else tensor


_NUMBERS = {int, float, bool}
# Of the arrays that stand for numbers.
DTYPES = {"int": "int64", "float": "float64", "bool": "bool"}
