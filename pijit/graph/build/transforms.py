"""Transformations of torch.func as the operators that they call.

A trace has what a transformation does as it is: levels are opened and closed, tensors are wrapped and unwrapped, and
between operators are called, which torch takes apart level by level. Such a stretch of nodes is one node of the graph
first. It is run once more on tensors without data, where nothing but operators on plain tensors is left of it. The
functions of the program are not called again.

1. A stretch goes from where the first level is opened to where the last one is closed, and further as long as a wrapped
   tensor is used: `vjp` computes gradients behind its level.
2. What cannot be run that way, such as a decision on data, stays a call of Python.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pijit.graph.build.python_calls import EngineCall
from pijit.graph.model import Argument, Node, Value, values_of
from pijit.graph.run import bind
from pijit.graph.torch_run import resolve, torch_caller

OPEN, CLOSE = "level::open", "level::close"
# How functions begin that torch.func calls beside its levels, as the trace names them.
PREFIX = "torch::_C._functorch."
ENGINE = "level::engine"
# What these give is wrapped no more by the level that is the last one.
_UNWRAP = {f"{PREFIX}_remove_batch_dim", f"{PREFIX}_unwrap_for_grad"}
# What asks for the form of a tensor.
_OF_SHAPES: Mapping[str, Callable[..., Any]] = {
    "size": lambda x, axis: x.shape[axis],
    "numel": lambda x: x.numel(),
    "ndim": lambda x: x.dim(),
}
_WORDS = {"_vmap_increment_nesting": "vmap", "_grad_increment_nesting": "grad", "_jvp_increment_nesting": "jvp"}


def prepare() -> None:
    """Has torch load what its first `vmap` and `jvp` load, which is no part of what the program does."""
    import sys

    if "torch" in sys.modules:
        import importlib

        importlib.import_module("torch._decomp.decompositions_for_jvp")
        load = getattr(importlib.import_module("torch._functorch.predispatch"), "lazy_load_decompositions", None)
        if load is not None:
            load()


def is_level(name: str) -> bool:
    """The trace opens or closes a level, or wraps a tensor."""
    return name in {OPEN, CLOSE} or name.startswith(PREFIX)


def emits(name: str, results: Sequence[Any]) -> bool:
    """It is a node of a stretch: more than a look at a mode."""
    return name in {OPEN, CLOSE} or bool(results)


@dataclass(frozen=True)
class Stretch:
    """What a transformation does.

    Attributes:
        nodes: in order.
        functions: those of torch that nodes call, by the names of the nodes' origins.
        operands: what comes from outside.
        results: what is used behind it.
        enabled: gradients were on when it began.
    """

    nodes: tuple[Node, ...]
    functions: Mapping[str, Any]
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    enabled: bool
    whole: bool = True

    def run(self, values: Mapping[str, Any]) -> Any:
        """What it gives for these operands; levels are closed whatever happens."""
        import torch

        known, call = dict(values), torch_caller()
        with _levels() as duals, torch.set_grad_enabled(self.enabled):
            for node in self.nodes:
                made = self._step(node, known, call)
                if node.origin == f"{PREFIX}_enter_dual_level":
                    duals.append(made)
                if node.origin == f"{PREFIX}_exit_dual_level":
                    duals.pop()
        made = tuple(known[value.name] for value in self.results)
        return made if len(made) != 1 else made[0]

    def may_hold(self) -> Callable[[Any], bool]:
        """Whether a tensor may be a constant of it: what nodes take is all given."""
        return lambda tensor: True

    def _step(self, node: Node, known: dict[str, Any], call: Any) -> Any:
        import torch

        if node.origin in self.functions:
            given = [resolve(each, known) for each in node.arguments.values()]
            made = self.functions[node.origin](*given)
            bind(node, made, known)
            if any(value is not None and value.name in self._leaves for value in node.results):
                self._set_requires_grad(made, True)  # torch.func does that out of sight
            return made
        if node.op == ENGINE:
            taken = {name: resolve(each, known) for name, each in node.arguments.items()}
            made = torch.autograd.grad(
                taken["roots"], taken["inputs"], taken["gradients"], taken["keep_graph"], taken["create_graph"],
                allow_unused=True,
            )  # fmt: skip
            bind(node, made if len(node.results) != 1 else made[0], known)
        elif node.op == "set_grad_enabled":
            torch._C._set_grad_enabled(node.arguments["enabled"])  # type: ignore[arg-type]
        elif node.op == "tensor::set_requires_grad":
            self._set_requires_grad(resolve(node.arguments["self"], known), bool(node.arguments["value"]))
            bind(node, resolve(node.arguments["self"], known), known)
        elif node.op == "check":
            if resolve(node.arguments["x"], known) != node.arguments["expected"]:
                raise RuntimeError("a size of another kind")
        elif node.op in _OF_SHAPES:  # operators for it have no rule for a tensor of a level
            bind(node, _OF_SHAPES[node.op](*(resolve(each, known) for each in node.arguments.values())), known)
        elif node.op.startswith("python::"):
            raise RuntimeError(f"{node.op.removeprefix('python::')} stands in it")
        else:
            bind(node, call(node, known), known)
        return None

    @functools.cached_property
    def _leaves(self) -> set[str]:
        """Names of what the engine gives gradients of."""
        engines = [node for node in self.nodes if node.op == ENGINE]
        return {value.name for node in engines for value in values_of(node.arguments["inputs"])}

    @staticmethod
    def _set_requires_grad(tensor: Any, value: bool) -> None:
        import torch

        core: Any = torch._C._functorch
        before = core.get_inplace_requires_grad_allowed()
        core.set_inplace_requires_grad_allowed(True)
        try:
            tensor.requires_grad_(value)
        finally:
            core.set_inplace_requires_grad_allowed(before)


@contextmanager
def _levels() -> Iterator[list[int]]:
    """Levels that are opened are closed; the list is for levels of forward-mode gradients."""
    import torch

    core: Any = torch._C._functorch
    depth = core.get_dynamic_layer_stack_depth()
    duals: list[int] = []
    try:
        yield duals
    finally:
        for level in reversed(duals):
            torch._C._exit_dual_level(level)
        if core.get_dynamic_layer_stack_depth() > depth:
            core.pop_dynamic_layer_stack_and_undo_to_depth(depth)


def folded(
    nodes: Sequence[Node], outputs: Any, functions: Mapping[str, Any], enabled: bool
) -> tuple[list[Node], dict[str, Stretch]]:
    """The nodes with one for each stretch, and the stretches by the names of their first results.

    Args:
        nodes: of a call.
        outputs: what the call gives.
        functions: those of torch that nodes call, by the names of the nodes' origins.
        enabled: gradients were on when the call began.
    """
    made: list[Node] = []
    stretches: dict[str, Stretch] = {}
    at = 0
    while at < len(nodes):
        node = nodes[at]
        if node.op == "set_grad_enabled":
            enabled = bool(node.arguments["enabled"])
        if node.op != OPEN:
            made.append(_of_python(node) if node.op == ENGINE else node)
            at += 1
            continue
        last = _end(nodes, at)
        stretch = _stretch(nodes, at, last, outputs, functions, enabled)
        modes = [each for each in nodes[at:last] if each.op == "set_grad_enabled"]
        made.append(_node(stretch, node))
        if modes and bool(modes[-1].arguments["enabled"]) is not enabled:
            made.append(modes[-1])
            enabled = not enabled
        if stretch.results:
            stretches[stretch.results[0].name] = stretch
        at = last
    return made, stretches


def _of_python(node: Node) -> Node:
    """The engine goes through nothing that a transformation has done: a call of Python as any other."""
    taken: dict[str, Argument] = {f"x{at}": value for at, value in enumerate(dict.fromkeys(node.operands))}
    return replace(node, op="python::run_backward", arguments=taken)


def _end(nodes: Sequence[Node], first: int) -> int:
    """Behind the last node of the stretch that begins there."""
    depth, last, pending = 0, len(nodes), True
    wrapped: set[str] = set()
    for at in range(first, len(nodes)):
        node = nodes[at]
        depth += (node.op == OPEN) - (node.op == CLOSE)
        if not pending and not any(value.name in wrapped for value in node.operands):
            continue
        if node.origin not in _UNWRAP or depth > 1:
            wrapped.update(value.name for value in node.results if value is not None and value.kind == "tensor")
        pending = depth > 0
        if not pending:
            last = at + 1
    return len(nodes) if pending else last


def _stretch(
    nodes: Sequence[Node], first: int, last: int, outputs: Any, functions: Mapping[str, Any], enabled: bool
) -> Stretch:
    inside = nodes[first:last]
    made = {value.name: value for node in inside for value in node.results if value is not None}
    taken = {value.name: value for node in inside for value in node.operands if value.name not in made}
    behind = {value.name for node in nodes[last:] for value in node.operands}
    behind |= {value.name for value in values_of(outputs)}
    results = tuple(value for name, value in made.items() if name in behind)
    return Stretch(tuple(inside), functions, tuple(taken.values()), results, enabled)


def _node(stretch: Stretch, first: Node) -> Node:
    """What stands for a stretch in the graph."""
    words = [_WORDS.get(node.origin.rpartition(".")[2], "") for node in stretch.nodes if node.op == OPEN]
    word = next(filter(None, words), "transform")
    taken: dict[str, Argument] = {f"x{at}": value for at, value in enumerate(stretch.operands)}
    user = next((node for node in stretch.nodes if node.op not in {OPEN, CLOSE} and node.file == first.file), first)
    return Node(
        f"python::torch.func.{word}", taken, stretch.results, region=first.region, file=first.file, line=user.line
    )


def engine(call: EngineCall, roots: Any, gradients: Any, inputs: Any) -> dict[str, Argument]:
    """The arguments of the node that computes gradients."""
    flags = {"keep_graph": call.keep_graph, "create_graph": call.create_graph}
    return {"roots": roots, "gradients": gradients, "inputs": inputs, **flags}
