"""Chooses by measurement which operators compute in smaller numbers: the plans of `jit(precision=, error=)`.

A plan is made of what one native replay of the program was given:

1. The graph is run in float32 on those inputs, operator by operator. Each operator that may be lowered is called once
   more with its operands in the smaller type: its error is the largest difference, relative to the largest magnitude of
   the float32 result. Both calls are timed, with the casts of what is not lowered itself.
2. Lowered is what errs by no more than `error`, and is faster. Views and activations behind a lowered operator are
   lowered with it, which saves casts.
3. The graph that comes of it is run, and its results are compared in the same way. Where they err by more, operators go
   back to float32, those first that alone make the results err most, until they do not.
4. The plan takes turns with native replay like any other, which stays where the plan as a whole is not faster. A plan
   that is compared later, as with `verify=`, is compared by the same rule.

The choice is kept for other sizes, and measured as a whole there.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from pijit.compilers._base import Backend, Options, Plan
from pijit.compilers._torch import bound, module_of, size_of
from pijit.errors import BackendError
from pijit.graph.model import Graph, Node, Value
from pijit.graph.model.memory import VIEWS
from pijit.graph.run import bind
from pijit.graph.torch_run import torch_caller
from pijit.passes.precision import QUANTISED, lowered, name_of

KINDS = {"bf16": "bfloat16", "fp16": "float16", "int8-dynamic": QUANTISED}

# What is worth a smaller type by itself.
_CONVOLUTIONS = frozenset(f"{word}{n}d" for word in ("conv", "conv_transpose") for n in (1, 2, 3)) | {"convolution"}
_HEAVY = _CONVOLUTIONS | {
    "linear", "matmul", "addmm", "baddbmm", "bilinear", "tensordot", "scaled_dot_product_attention"
}  # fmt: skip
# What goes with the operator before it, without a cast between them.
_FOLLOWS = frozenset(VIEWS) | {
    "relu", "gelu", "silu", "tanh", "sigmoid", "add", "subtract", "multiply", "concatenate"
}  # fmt: skip
_RUNS = 5  # of an operator that is timed


def _seconds(call: Callable[[], Any], device: str) -> float:
    """The least of a few runs."""
    import torch

    least = float("inf")
    for _ in range(_RUNS):
        if device != "cpu":
            torch.accelerator.synchronize()
        start = time.perf_counter()
        call()
        if device != "cpu":
            torch.accelerator.synchronize()
        least = min(least, time.perf_counter() - start)
    return least


def quantised(weight: Any) -> Any:
    """The weight of a linear layer as torchao has it: int8, for activations that are quantised when they come."""
    import torch
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig, quantize_

    rows, columns = weight.shape
    layer = torch.nn.Linear(columns, rows, bias=False, device="meta")
    layer.weight = torch.nn.Parameter(weight.detach().clone(), requires_grad=False)
    quantize_(layer, Int8DynamicActivationInt8WeightConfig())
    return layer.weight.detach()


def converted(tensor: Any, kind: str) -> Any:
    """A weight in a type."""
    import torch

    return quantised(tensor) if kind == QUANTISED else bound(tensor).to(getattr(torch, kind))


def error_of(got: Any, right: Any) -> float:
    """The largest difference, relative to the largest magnitude of what is right; infinite for other special values."""
    import torch

    if torch.equal(got, right):
        return 0.0
    if not right.is_floating_point() or right.numel() == 0:
        return float("inf")
    got, right = got.double(), right.double()
    finite = right.isfinite()
    if not torch.equal(got.isfinite(), finite) or not torch.allclose(got[~finite], right[~finite], equal_nan=True):
        return float("inf")
    gap, size = (got - right)[finite].abs().max().item(), right[finite].abs().max().item()
    return gap / size if size else float("inf") if gap else 0.0


class Lowered(Backend):
    """A backend in smaller numbers. Where nothing is lowered nothing is wrong, and nothing is said.

    Args:
        kind: a word of `KINDS`.
        error: that operators and results may have, as `error_of` says.
        inner: who runs the graph.
    """

    quiet = True

    def __init__(self, kind: str, error: float, inner: Backend) -> None:
        self.kind, self.error, self.inner = kind, error, inner
        self.name = kind if inner.name == "native" else f"{inner.name} in {kind}"
        self.doc = f"what {inner.name} does, with operators in {KINDS[kind]} where that errs little and is faster"
        self.install = "pip install torchao" if KINDS[kind] == QUANTISED else inner.install
        self.packages = (*inner.packages, "torchao") if KINDS[kind] == QUANTISED else inner.packages
        self.settings, self.devices, self.raises = inner.settings, inner.devices, inner.raises
        self.exact, self.strided, self.stalls = inner.exact, inner.strided, inner.stalls
        self._examples: dict[str, Any] = {}
        self._kept: dict[tuple[str, ...], dict[str, str]] = {}  # choices, by the operators of a graph

    def lacks(self, graph: Graph) -> tuple[Node, ...]:
        return super().lacks(graph) or self.inner.lacks(graph)

    def inexact(self, graph: Graph) -> tuple[Node, ...]:
        return self.inner.inexact(graph)

    def limits(self, graph: Graph) -> Any:
        return self.inner.limits(graph)

    def takes(self, kinds: Collection[str]) -> bool:
        return super().takes(kinds) and self.inner.on(kinds) is self.inner

    def within(self, got: Any, right: Any, folded: bool = False) -> bool:
        return error_of(got, right) <= self.error

    def promise(self, dtype: str, folded: bool = False) -> str:
        return f"{self.error:g} of the largest magnitude"

    def with_examples(self, graph: Graph, inputs: Sequence[Any]) -> "Lowered":
        made = Lowered(self.kind, self.error, self.inner)
        made._kept = self._kept
        made._examples = {value.name: given for value, given in zip(graph.inputs, inputs, strict=True)}
        return made

    def make(self, graph: Graph, options: Options) -> Plan:
        import torch

        if any(value.name not in self._examples for value in graph.inputs):
            raise BackendError(f"backend {self.name!r} lowers what is given the inputs of a segment, and this is not")
        with torch.no_grad():
            profile = _Profile(graph, KINDS[self.kind], self.error, self._examples)
            form = tuple(f"{node.op} {name_of(node)}" for node in graph.nodes)
            choice = self._kept.get(form) or profile.choice()
            plan, choice = self._fitting(graph, profile, choice, options)
            self._kept[form] = choice
        plan.note = _note(graph, choice, profile.errors)
        return plan

    def _fitting(
        self, graph: Graph, profile: "_Profile", choice: dict[str, str], options: Options
    ) -> tuple[Plan, dict[str, str]]:
        """The plan with as much of the choice as the results allow, and that part.

        Raises:
            BackendError: they allow nothing.
        """
        if not choice:
            raise BackendError(
                f"backend {self.name!r}: no operator is faster in {KINDS[self.kind]} and errs by {self.error:g} at most"
            )
        names = list(choice)
        right = [profile.values[value.name] for value in graph.results]
        inputs = [self._examples[value.name] for value in graph.inputs]
        fits, beyond = 0, len(names) + 1
        best: Plan | None = None
        count = len(names)
        while fits < beyond - 1:
            plan = self._plan(graph, {name: choice[name] for name in names[:count]}, options)
            made = plan(*inputs)
            if all(
                self.within(a, b) if isinstance(b, _torch().Tensor) else a == b
                for a, b in zip(made, right, strict=True)
            ):
                fits, best = count, plan
            else:
                beyond = count
                plan.close()
                if count == len(choice):  # those come first that change the results least
                    names.sort(key=profile.reach)
            count = (fits + beyond) // 2
        if best is None:
            raise BackendError(
                f"backend {self.name!r}: with any operator in {KINDS[self.kind]} results err by over {self.error:g}"
            )
        return best, {name: choice[name] for name in names[:fits]}

    def _plan(self, graph: Graph, choice: Mapping[str, str], options: Options) -> Plan:
        made = lowered(graph, choice, converted)
        plan = self._quantised(made.graph) if KINDS[self.kind] == QUANTISED else self.inner.make(made.graph, options)
        copies, inner = made.copies, plan._rebind
        shared = plan.shares_weights and not copies

        def rebind(weights: Mapping[str, Any]) -> bool:
            new = {name: converted(weights[of], kind) for name, (of, kind) in copies.items() if of in weights}
            kept = inner({**weights, **new}) if inner is not None else True
            return kept and not copies

        plan.backend, plan.shares_weights, plan._rebind = self.name, shared, rebind
        plan.size_bytes += size_of(made.graph.data[name] for name in copies)
        return plan

    def _quantised(self, graph: Graph) -> Plan:
        """The plan of a graph with weights of torchao, which answer to `linear` of `torch.nn.functional` alone."""
        import torch

        module = module_of(graph)
        for node in module.graph.nodes:
            if node.target is torch.ops.aten.linear.default:
                node.target = torch.nn.functional.linear
        module.recompile()
        return Plan(self.name, module.forward, results=(), rebind=module.pijit_rebind)

    def check(self, options: Options) -> None:
        super().check(options)
        if KINDS[self.kind] == QUANTISED and self.inner.name != "native":
            raise BackendError(
                f"backend {self.inner.name!r} takes no weights of torchao; leave out backend= for {self.kind}"
            )


class _Profile:
    """What operators do in float32 and in a smaller type, on the inputs of one call.

    Attributes:
        values: by name, in float32.
        errors: of the operators that were called in both, by `name_of`.
    """

    def __init__(self, graph: Graph, kind: str, error: float, inputs: Mapping[str, Any]) -> None:
        self._graph, self._kind, self._error = graph, kind, error
        linear = {"torch.ops.aten.linear.default": _torch().nn.functional.linear}
        self._call = torch_caller(linear if kind == QUANTISED else None)
        self.values: dict[str, Any] = {**{name: bound(each) for name, each in graph.data.items()}, **inputs}
        self.errors: dict[str, float] = {}
        for node in graph.nodes:
            bind(node, self._call(node, self.values), self.values)

    def choice(self) -> dict[str, str]:
        """What is lowered, as far as single operators tell."""
        found: dict[str, str] = {}
        weights = {value.name for value in self._graph.parameters}
        for node in self._graph.nodes:
            if self._is_candidate(node, found, weights) and self._gains(node, found, weights):
                found[name_of(node)] = self._kind
        if self._kind == QUANTISED:
            return found
        return self._without_ends(found)

    def reach(self, name: str) -> float:
        """How much the results err with this operator alone lowered."""
        values = dict(self.values)
        changed: set[str] = set()
        for node in self._graph.nodes:
            if name_of(node) == name:
                values[name] = self._low(node).to(self.values[name].dtype)
                changed.add(name)
            elif any(value.name in changed for value in node.operands):
                bind(node, self._call(node, values), values)
                changed.update(value.name for value in node.results if value is not None)
        wanted = [value.name for value in self._graph.results if value.name in changed]
        return max((error_of(values[each], self.values[each]) for each in wanted), default=0.0)

    def _floats(self, node: Node) -> list[Value]:
        """What a node is given in the smaller type."""
        floats = [value for value in node.operands if value.kind == "tensor" and value.dtype == "float32"]
        return [v for v in floats if v is node.arguments["weight"]] if self._kind == QUANTISED else floats

    def _low(self, node: Node) -> Any:
        """What a node gives in the smaller type."""
        low = {value.name: converted(self.values[value.name], self._kind) for value in self._floats(node)}
        return self._call(node, {**self.values, **low})

    def _is_candidate(self, node: Node, found: Mapping[str, str], weights: Collection[str]) -> bool:
        results = [value for value in node.results if value is not None]
        if node.random or len(results) != 1 or results[0].dtype != "float32" or results[0].kind != "tensor":
            return False
        if self._kind == QUANTISED:
            weight = node.arguments.get("weight")
            held = isinstance(weight, Value) and weight.name in weights and weight.dtype == "float32"
            return node.op == "linear" and held
        if node.op in _HEAVY:
            return True
        names = [value.name for value in self._floats(node)]
        between = all(name in found or name in weights for name in names) and any(name in found for name in names)
        return node.op in _FOLLOWS and between

    def _gains(self, node: Node, found: Mapping[str, str], weights: Collection[str]) -> bool:
        """It errs by no more than is allowed, and takes less time."""
        name = name_of(node)
        right = self.values[name]
        try:
            made = self._low(node)
            self.errors[name] = error_of(made.to(right.dtype), right)
        except (RuntimeError, NotImplementedError, TypeError):  # there is no kernel for the type
            return False
        if self.errors[name] > self._error or made.dtype not in {right.dtype, getattr(_torch(), self._kind, None)}:
            return False
        if node.op in _FOLLOWS and self._kind != QUANTISED:
            return True
        floats = self._floats(node)
        values = {**self.values, **{v.name: converted(self.values[v.name], self._kind) for v in floats}}
        cast = [v for v in floats if v.name not in found and v.name not in weights]

        def lowered_call() -> None:
            for value in cast:
                values[value.name] = converted(self.values[value.name], self._kind)
            self._call(node, values)

        device = right.device.type
        plain = _seconds(lambda: self._call(node, self.values), device)
        return _seconds(lowered_call, device) < plain

    def _without_ends(self, found: dict[str, str]) -> dict[str, str]:
        """Without views and activations that nothing lowered reads: a cast has to come anyway."""
        read: set[str] = set()
        for node in reversed(self._graph.nodes):
            name = name_of(node)
            if name in found and node.op not in _HEAVY and name not in read:
                del found[name]
            if name in found:
                read.update(value.name for value in node.operands)
        return found


def _note(graph: Graph, choice: Mapping[str, str], errors: Mapping[str, float]) -> str:
    """Which operators are lowered, for people; views go with the others."""
    operators = [node for node in graph.nodes if node.op not in VIEWS]
    of, counts = Counter(n.op for n in operators), Counter(n.op for n in operators if name_of(n) in choice)
    worst = max(errors.get(name, 0.0) for name in choice)
    lines = ", ".join(f"{op} {times} of {of[op]}" for op, times in counts.items())
    return f"in {next(iter(choice.values()))}: {lines}" + (f" (each errs by {worst:.1g} at most)" if worst else "")


def _torch() -> Any:
    import torch

    return torch


def lowered_backends(precision: str, error: float, inner: Sequence[Backend]) -> list[Backend]:
    """The backends for `jit(precision=, error=)`.

    Args:
        precision: a word of `KINDS`, or "auto" for all that can be had.
        error: as for `jit`.
        inner: who runs the graphs.
    """
    kinds = list(KINDS) if precision == "auto" else [precision]
    made: list[Backend] = [Lowered(kind, error, each) for kind in kinds for each in inner]
    return [each for each in made if precision != "auto" or not each.usable()]
