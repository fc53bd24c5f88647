"""What torch's own tools read of the nodes of a GraphModule, beyond their lines and modules:

    val               the result as a tensor without data, whose free sizes are symbols; a number as it is
    tensor_meta       its shape, dtype and strides
    source_fn_stack   [(name, class or function)]: the layer of torch that a node is a part of, or what it calls
    torch_fn          (name of the call, name of the function), as torch.export has it
    original_aten     the operator

`val` is found by running the module on such tensors, node by node. What cannot run so (a decision on data, what follows
from a size that data decides) has the type that the graph has for it.
"""

import operator
from collections.abc import Mapping
from typing import Any

from pijit.graph.decompose.sizes import Sizes
from pijit.graph.model import Graph, Value

# What the arithmetic of Python calls.
_INFIX = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "neg": operator.neg}


def complete(module: Any, graph: Graph, values: Mapping[Any, Value], paths: Mapping[Any, str]) -> None:
    """Fills in the meta of all nodes.

    Args:
        module: the GraphModule of a graph.
        graph: where its types are.
        values: by node of FX the value of the graph.
        paths: by node of FX the path of the innermost module that called it.
    """
    _sources(module.graph, paths)
    _Types(module, graph, values).run()


def _sources(graph: Any, paths: Mapping[Any, str]) -> None:
    """Nodes of one call of a layer have one name: a layer that is called again has another."""
    import torch

    counts: dict[str, int] = {}
    last, layer = "", ("", None)
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        stack = list(node.meta.get("nn_module_stack", {}).values())
        kind = _layer(stack[-1][1]) if stack else None
        path = paths.get(node, "")
        if kind is None:
            last = ""
        elif path != last:
            counts[path] = counts.get(path, 0) + 1
            last, layer = path, (f"{path}_{counts[path] - 1}" if counts[path] > 1 else path, kind)
        if isinstance(node.target, torch._ops.OpOverload):
            name = node.target._schema.name.partition("::")[2].rstrip("_")
            counts[f"::{name}"] = counts.get(f"::{name}", 0) + 1
            node.meta["original_aten"] = node.target
            node.meta["torch_fn"] = (f"{name}_{counts[f'::{name}']}", f"builtin_function_or_method.{name}")
            node.meta["source_fn_stack"] = [layer if kind is not None else (node.name, _function(name))]
        else:
            node.meta["source_fn_stack"] = [layer if kind is not None else (node.name, node.target)]


def _layer(name: str) -> Any:
    """The class of a layer of torch.nn by its full name, one that has no layers in it; None for other classes."""
    import sys

    module, _, own = name.rpartition(".")
    if not module.startswith("torch.nn.modules.") or module.endswith(".container"):
        return None
    return getattr(sys.modules.get(module), own, None)


def _function(name: str) -> Any:
    """The function that programs call for an operator; its name where there is none."""
    import torch

    for place in (_INFIX, torch.nn.functional, torch):
        found = place.get(name) if isinstance(place, dict) else getattr(place, name, None)
        if callable(found):
            return found
    return name


class _Types:
    """Runs a module on tensors without data."""

    def __init__(self, module: Any, graph: Graph, values: Mapping[Any, Value]) -> None:
        import torch

        self.torch, self.module, self.values = torch, module, values
        self.sizes = Sizes(graph)
        self.mode = self.sizes.mode

    def run(self) -> None:
        made: dict[Any, Any] = {}
        with self.mode, self.torch.no_grad():
            for node in self.module.graph.nodes:
                made[node] = self.result(node, made)
                if node.op != "output" and made[node] is not None:
                    self.enter(node, made[node])

    def enter(self, node: Any, made: Any) -> None:
        from torch.fx.passes.shape_prop import _extract_tensor_metadata
        from torch.utils._pytree import tree_map_only

        tensor = self.torch.Tensor
        node.meta["val"] = tree_map_only(tensor, lambda each: each.detach(), made)
        if isinstance(made, tensor) and made.layout is self.torch.strided:
            node.meta["tensor_meta"] = _extract_tensor_metadata(made)

    def result(self, node: Any, made: Mapping[Any, Any]) -> Any:
        """What a node gives; None: that is not known."""
        if node.op == "placeholder":
            return self.of(self.values.get(node))
        if node.op == "get_attr":
            held: Any = self.module
            for word in node.target.split("."):
                held = getattr(held, word)
            return self.mode.from_tensor(held, static_shapes=True) if isinstance(held, self.torch.Tensor) else None
        if node.op != "call_function" or node.target is self.torch._assert:
            return None
        args, kwargs = self.torch.fx.node.map_arg((node.args, node.kwargs), lambda each: made[each])
        given = [*node.all_input_nodes]
        if not any(made[each] is None for each in given):
            try:
                return node.target(*args, **kwargs)
            except Exception:  # whatever an operator says without data: the graph has the type
                pass
        return self.of(self.values.get(node)) if node in self.values else self.items(node)

    def items(self, node: Any) -> Any:
        """The results of a node of which only items are in the graph."""
        taken = {user.args[1]: self.of(self.values.get(user)) for user in node.users if user.target is operator.getitem}
        if not taken or not all(isinstance(at, int) for at in taken):
            return None
        return tuple(taken.get(at) for at in range(max(taken) + 1))

    def of(self, value: Value | None) -> Any:
        """A tensor of the type that the graph has."""
        if value is None or value.kind != "tensor" or value.dtype is None or value.shape is None:
            return None
        return self.sizes.given(value, {})
