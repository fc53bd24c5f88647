"""TorchScript: the graph traced once, and run by torch's interpreter without Python.

With folded weights it is frozen, and its linear layers are packed for oneDNN.

It is made by what stands beneath torch.jit's functions. Those warn that they are deprecated, and only filters of the
whole process could silence them: a thread that compiles beside the program must not change those.
"""

from collections.abc import Mapping
from typing import Any

from pijit._formats.fx.lowering import targets
from pijit.compilers import _torch
from pijit.compilers._base import EXACT, USUAL, Backend, Options, Plan, has_numbers
from pijit.errors import BackendError
from pijit.graph.model import Graph, Node

# Runs in which torch's interpreter first watches and then compiles, which takes some 60 ms: no call of the program is
# to wait for that.
_WARMING = 2


class TorchScript(Backend):
    name = "torchscript"
    folds = True
    doc = "torch's own interpreter: compiled in a moment, bit for bit as eager"
    install = "pip install torch"
    tolerance = EXACT
    tolerance_folded = USUAL
    training = True
    random = True
    raises = True

    def lacks(self, graph: Graph) -> tuple[Node, ...]:
        return super().lacks(graph) or tuple(node for node in graph.nodes if _is_frozen(node))

    def make(self, graph: Graph, options: Options) -> Plan:
        import torch

        if any(value.kind != "tensor" for value in graph.inputs):
            raise BackendError(f"backend {self.name!r} takes tensors only; it would freeze the numbers that come in")
        module = _torch.module_of(graph)
        examples = tuple(_torch.example(value) for value in graph.inputs)
        with torch.no_grad():
            made = _traced(module, examples)
            if options.fold:
                made = _frozen(made)
            if not any(node.random for node in graph.nodes):
                for _ in range(_WARMING):
                    made(*examples)
        one = len(graph.results) == 1

        def run(*inputs: Any) -> tuple[Any, ...]:
            given = made(*inputs)
            return (given,) if one and not isinstance(given, tuple) else given

        size = _torch.size_of(graph.data.values()) if options.fold else 0
        return Plan(self.name, run, results=(), folded=options.fold, size_bytes=size, rebind=_rebinder(graph, made))


def _traced(module: Any, examples: tuple[Any, ...]) -> Any:
    """As `torch.jit.trace` without a check of the trace."""
    from torch.jit import _trace

    jit: Any = _trace
    made = jit.make_module(module, None, jit._python_cu)
    names = jit.get_callable_argument_names(module.forward)
    made._c._create_method_from_trace("forward", module, examples, lambda tensor: "", True, False, names, True)
    return made


def _frozen(made: Any) -> Any:
    """As `torch.jit.optimize_for_inference`."""
    import torch
    from torch.jit import _freeze

    freeze: Any = _freeze
    frozen = freeze.RecursiveScriptModule(torch._C._freeze_module(made.eval()._c, []))
    freeze.RecursiveScriptModule._finalize_scriptmodule(frozen)
    freeze.run_frozen_optimizations(frozen, True, [])
    torch._C._jit_pass_optimize_for_inference(frozen._c, [])
    return frozen


def _is_frozen(node: Node) -> bool:
    """It has a number, which a trace takes for a constant; or a list of flags, which no trace can hold."""
    return has_numbers(node) or any(
        isinstance(each, tuple) and any(flag is True or flag is False for flag in each)
        for each in node.arguments.values()
    )


def _rebinder(graph: Graph, made: Any) -> Any:
    """Puts other tensors into the traced module, which has the names of the module that was traced."""
    where = targets(graph)

    def rebind(weights: Mapping[str, Any]) -> bool:
        for name, tensor in weights.items():
            if name in where:
                owner, _, last = where[name].rpartition(".")
                setattr(made.get_submodule(owner) if owner else made, last, _torch.bound(tensor))
        return True

    return rebind


BACKEND = TorchScript()
