"""Graphs as modules of torch, for the backends that begin with one."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pijit.errors import BackendError
from pijit.graph.model import Graph, Value


def module_of(graph: Graph, arguments: tuple[Value, ...] = ()) -> Any:
    """A `torch.fx.GraphModule` of a graph that writes to nothing; its weights share the memory of the graph's.

    It has a method `pijit_rebind(weights)`, which puts others in their place.

    Args:
        graph: its outputs are values in a tuple.
        arguments: parameters that are arguments, before the inputs.
    """
    from pijit._formats import fx

    names = {value.name for value in arguments}
    parameters = tuple(value for value in graph.parameters if value.name not in names)
    data = {value.name: bound(graph.data[value.name]) for value in parameters}
    made = replace(graph, inputs=(*arguments, *graph.inputs), parameters=parameters, data=data)
    module = fx.Lowering(made, "fx").module()
    where = fx.targets(made)

    def rebind(weights: Mapping[str, Any]) -> None:
        for name, tensor in weights.items():
            if name in where:
                owner, _, last = where[name].rpartition(".")
                setattr(module.get_submodule(owner), last, bound(tensor))

    module.pijit_rebind = rebind
    return module.eval()


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


def size_of(tensors: Any) -> int:
    """Bytes of these tensors."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def threads() -> int:
    """How many threads torch uses for one operator."""
    import torch

    return torch.get_num_threads()
