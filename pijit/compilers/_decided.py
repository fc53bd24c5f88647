"""Operators that raise for some data, or give what depends on the processor, where a compiler gives a number.

Kernels of torch look at indices, divisors and probabilities; compiled code does not. So that is looked at beside it:

1. Where it is an input or a weight, or follows from those by a few operators on integers (`_MOST`), a plan looks before
   it runs, and declines (`Declines`). Native replay then raises what eager execution raises, or computes.
2. Where it is computed by the graph itself, the operator stays with torch, which runs it between compiled code.

What follows from weights and sizes alone is looked at when those have changed, and constants once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pijit.compilers._torch import module_of
from pijit.errors import BackendError
from pijit.graph.model import Graph, Node, Slice, Value, place_of, regions
from pijit.graph.model.memory import VIEWS
from pijit.graph.model.sizes import evaluate

_MOST = 8  # operators that are computed a second time, to look at what they give

_BITS = {
    "int8": (7, 7), "int16": (15, 15), "int32": (31, 31), "int64": (63, 63),
    "uint8": (0, 8), "uint16": (0, 16), "uint32": (0, 32), "uint64": (0, 64),
}  # fmt: skip
NEVER_RAISE = frozenset({"astype", "type_as", "pow"})  # of the operators that data decide in
# A matrix may have none of these, and torch says so.
_OF_MATRICES = frozenset({"inv", "solve", "cholesky", "singular_values", "eigenvalues"})
_OF_SIZES = frozenset({"size", "ndim", "numel"})
_DIVISIONS = frozenset({"floor_divide", "remainder", "fmod"})
# What torch looks at itself, at more than one number: repeats, and the room that a mask leaves.
_COUNTS = {"repeat": "repeats", "tensor_split": "parts", "masked_scatter": "mask"}


class Declines(BackendError):
    """A plan is not for these data, of which native replay makes what eager execution does; it is for others."""


class Limit(NamedTuple):
    """What the elements of a tensor have to be.

    Attributes:
        value: the tensor.
        kind: "index": from 0 to below `size`; "wrapped": from `-size` on; "target": as "index", or `other`;
            "nonzero"; "unit": from 0 to 1; "exponent": from 0 on; "small": nearer to 0 than `size`; a dtype: within its
            range.
        size: of the axis: a number, or an expression of free sizes.
        other: the one number that is ignored.
        node: which operator wants it; None: the backend does.
    """

    value: Value
    kind: str
    size: Any
    other: Any
    node: Node | None


def limits_of(node: Node) -> list[Limit] | None:
    """What data have to be for an operator to give a number; None: that cannot be said in limits."""
    found: list[tuple[Any, str, Any, Any]] = []
    given, op = node.arguments, node.op
    x, axis = given.get("x"), given.get("axis", 0)
    if op == "embedding":
        found.append((x, "index", _size(given["weight"], 0), None))
    elif op == "embedding_backward":
        found.append((x, "index", given["rows"], None))
    elif op in {"take", "gather", "scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy"}:
        found.append((given["indices"], "index", _size(x, axis), None))
    elif op == "index_fill":
        found.append((given["indices"], "wrapped", _size(x, axis), None))
    elif op == "take_along_axis":
        axis = given.get("axis")
        kind = "index" if axis is None else "wrapped"
        found.append((given["indices"], kind, _count(x) if axis is None else _size(x, axis), None))
    elif op == "take_flat":
        found.append((given["indices"], "wrapped", _count(x), None))
    elif op in {"getitem", "setitem", "index", "index_put"}:
        found += _of_index(x, given["index" if op.endswith("item") else "indices"], op.endswith("item"))
    elif op in {"cross_entropy_loss", "nll_loss", "nll_loss_forward", "nll_loss_backward"}:
        if _is_integer(y := given["y"]):
            classes = _size(x, 1 if isinstance(x, Value) and len(x.shape or ()) > 1 else 0)
            found.append((y, "target", classes, given.get("ignore_index", -100)))
    elif op == "one_hot":
        classes = given.get("classes", -1)
        found.append((x, "exponent" if classes == -1 else "index", classes, None))
    elif op == "binary_cross_entropy":
        found += [(x, "unit", None, None), (given["y"], "unit", None, None)]
    elif op in _DIVISIONS or (op == "divide" and given.get("rounding") is not None):
        if _is_integer(node.results[0]):
            found.append((given["y"], "nonzero", None, None))
    elif op == "pow":
        if _is_integer(node.results[0]) and isinstance(given["y"], Value):
            found.append((given["y"], "exponent", None, None))
    elif op in {"astype", "type_as"}:
        result = node.results[0]
        if isinstance(x, Value) and result is not None and result.dtype in _BITS and not _is_integer(x):
            found.append((x, str(result.dtype), None, None))
    elif op in _OF_MATRICES or isinstance(given.get(_COUNTS.get(op, "")), Value):
        return None
    limits = []
    for value, kind, size, other in found:
        if not isinstance(value, Value):
            if kind == "nonzero" and not value:
                return None
            continue
        if value.kind != "tensor" or (size is None and kind in {"index", "wrapped", "target"}):
            return None
        if value.dtype != "bool":
            limits.append(Limit(value, kind, size, other, node))
    return limits


def _size(x: Any, axis: Any) -> Any:
    """The length of an axis, if it is known; a number has one element."""
    if not isinstance(x, Value) or x.shape is None or not isinstance(axis, int):
        return None
    return x.shape[axis] if x.shape else 1


def _count(x: Any) -> Any:
    """How many elements there are."""
    if not isinstance(x, Value) or x.shape is None:
        return None
    count = 1
    for size in x.shape:
        if not isinstance(size, int):
            return None
        count *= size
    return count


def _is_integer(value: Any) -> bool:
    return isinstance(value, Value) and value.kind == "tensor" and (value.dtype in _BITS or value.dtype == "bool")


def _of_index(x: Any, index: Any, of_python: bool) -> list[tuple[Any, str, Any, Any]]:
    """Arrays of integers in an index, each with the axis that it picks from; in one of Python None is a new axis."""
    items = list(index) if isinstance(index, list | tuple) else [index]
    rank = len(x.shape or ()) if isinstance(x, Value) else 0
    if Ellipsis in [each for each in items if not isinstance(each, Value)]:
        at = next(at for at, each in enumerate(items) if each is Ellipsis)
        taken = sum(_axes(each) for each in items if each is not Ellipsis)
        items[at : at + 1] = [Slice(None, None, None)] * max(rank - taken, 0)
    found, axis = [], 0
    for item in items:
        if isinstance(item, Value) and item.kind == "tensor" and item.dtype not in {"bool", "uint8"}:
            found.append((item, "wrapped", _size(x, axis) if axis < rank else None, None))
        axis += 1 if item is None and not of_python else _axes(item)
    return found


def _axes(item: Any) -> int:
    """How many axes an item of an index picks from."""
    if item is None or isinstance(item, bool):
        return 0
    if isinstance(item, Value) and item.dtype in {"bool", "uint8"} and item.kind == "tensor":
        return len(item.shape or ())
    return 1


class Decided(NamedTuple):
    """What decides in a graph.

    Attributes:
        limits: to be looked at before a plan runs.
        left: the nodes that torch has to run.
    """

    limits: tuple[Limit, ...]
    left: tuple[Node, ...]


def decided(graph: Graph, nodes: Sequence[Node] | None = None) -> Decided:
    """What data decide in a graph that writes to nothing, or in these of its nodes."""
    made_by = {value.name: node for node in graph.nodes for value in node.results if value is not None}
    limits: dict[tuple[Any, ...], Limit] = {}
    left = []
    for node in graph.nodes if nodes is None else nodes:
        of_node = limits_of(node)
        if of_node is None or any(_way(each.value, made_by) is None for each in of_node):
            left.append(node)
        else:
            limits.update(((each.value.name, *each[1:4]), each) for each in of_node)
    return Decided(tuple(limits.values()), tuple(left))


def _way(value: Value, made_by: Mapping[str, Node]) -> list[Node] | None:
    """The operators between inputs or weights and a value; None: they take too long to be computed twice."""
    found: dict[int, Node] = {}
    waiting = [value]
    while waiting:
        node = made_by.get(waiting.pop().name)
        if node is None or id(node) in found:
            continue
        whole = all(each is None or _is_integer(each) or each.kind != "tensor" for each in node.results)
        if node.random or node.is_foreign or not (whole or node.op in VIEWS):
            return None
        found[id(node)] = node
        if sum(each.op not in VIEWS | _OF_SIZES for each in found.values()) > _MOST:
            return None
        waiting += node.operands
    return list(found.values())


class Checks:
    """Looks at the data of a call before a plan runs."""

    def __init__(self, graph: Graph, limits: Sequence[Limit]) -> None:
        names = [value.name for value in graph.inputs]
        self._weights = dict(graph.data)
        self._seen: Any = None
        self._shapes = [(at, value.shape) for at, value in enumerate(graph.inputs) if value.kind == "tensor"]
        self._shapes = [(at, shape) for at, shape in self._shapes if any(isinstance(each, str) for each in shape or ())]
        made_by = {value.name: node for node in graph.nodes for value in node.results if value is not None}
        self._direct, computed, fixed = [], [], []
        for limit in limits:
            way = _way(limit.value, made_by) or []
            content = [node for node in way if node.op not in _OF_SIZES]
            read = {value.name for node in content for value in node.operands} | {limit.value.name}
            if limit.value.name in names:
                self._direct.append((names.index(limit.value.name), limit))
            elif read.isdisjoint(names):
                fixed.append((limit, way))
            else:
                computed.append((limit, way))
        self._computed, self._fixed = _part(graph, computed), _part(graph, fixed)
        self._roots = list(self._fixed[2]) if self._fixed else []

    def rebind(self, weights: Mapping[str, Any]) -> None:
        """Look at these weights from now on."""
        self._weights.update(weights)
        self._seen = None
        for part in (self._computed, self._fixed):
            if part is not None:
                part[0].pijit_rebind(weights)

    def __call__(self, inputs: Sequence[Any]) -> None:
        """Nothing, if the plan may run.

        Raises:
            Declines: it may not.
        """
        symbols: dict[str, int] = {}
        for at, shape in self._shapes:
            symbols.update(
                (size, n) for size, n in zip(shape or (), inputs[at].shape, strict=True) if type(size) is str
            )
        for at, limit in self._direct:
            _look(limit, inputs[at], symbols)
        if self._computed is not None:
            module, limits, _ = self._computed
            for limit, tensor in zip(limits, module(*inputs), strict=True):
                _look(limit, tensor, symbols)
        if self._fixed is not None and (self._seen is None or self._seen != self._state(symbols)):
            module, limits, _ = self._fixed
            for limit, tensor in zip(limits, module(*inputs), strict=True):
                _look(limit, tensor, symbols)
            self._seen = self._state(symbols)

    def _state(self, symbols: Mapping[str, int]) -> Any:
        """What tells that weights have been written; None: nothing does."""
        held = [self._weights[name] for name in self._roots]
        if any(each.is_inference() for each in held):
            return None
        return symbols, [(each._version, each.data_ptr()) for each in held]


def _part(graph: Graph, ways: Sequence[tuple[Limit, list[Node]]]) -> tuple[Any, list[Limit], list[str]] | None:
    """A module that computes what is looked at, for what, and the weights that it reads."""
    if not ways:
        return None
    wanted = {id(node) for _, way in ways for node in way}
    nodes = [node for node in graph.nodes if id(node) in wanted]
    outputs = tuple(limit.value for limit, _ in ways)
    read = {value.name for node in nodes for value in node.operands} | {value.name for value in outputs}
    parameters = tuple(value for value in graph.parameters if value.name in read)
    names = [value.name for value in parameters]
    part = replace(
        graph,
        nodes=tuple(nodes),
        outputs=outputs,
        parameters=parameters,
        data={name: graph.data[name] for name in names},
        region=regions.tree(nodes, regions.types_of(graph.region)),
    )
    return module_of(part).forward.__self__, [limit for limit, _ in ways], names


def _look(limit: Limit, tensor: Any, symbols: Mapping[str, int]) -> None:
    size = evaluate(limit.size, symbols) if isinstance(limit.size, str) else limit.size
    if not tensor.numel() or _KINDS.get(limit.kind, _fits)(tensor, limit, size):
        return
    node = limit.node
    if node is None:
        raise Declines(f"{limit.value.name!r} has larger integers than the compiled code computes with")
    raise Declines(
        f"{place_of(node)}{node.op} is given data for which torch raises, or that is beyond the range of its dtype: "
        "compiled code would give a number"
    )


def _ends(tensor: Any) -> tuple[Any, Any]:
    low, high = tensor.detach().aminmax()
    return low.item(), high.item()


def _is_index(tensor: Any, limit: Limit, size: Any) -> bool:
    low, high = _ends(tensor)
    return bool(low >= 0 and high < size)


def _is_wrapped(tensor: Any, limit: Limit, size: Any) -> bool:
    low, high = _ends(tensor)
    return bool(low >= -size and high < size)


def _is_target(tensor: Any, limit: Limit, size: Any) -> bool:
    if _is_index(tensor, limit, size):
        return True
    rest = tensor[tensor != limit.other]
    return not rest.numel() or _is_index(rest, limit, size)


def _is_nonzero(tensor: Any, limit: Limit, size: Any) -> bool:
    return bool(tensor.all())


def _is_unit(tensor: Any, limit: Limit, size: Any) -> bool:
    low, high = _ends(tensor)
    return bool(low >= 0 and high <= 1)


def _is_exponent(tensor: Any, limit: Limit, size: Any) -> bool:
    return bool(_ends(tensor)[0] >= 0)


def _is_small(tensor: Any, limit: Limit, size: Any) -> bool:
    low, high = _ends(tensor)
    return bool(-size < low and high < size)


def _fits(tensor: Any, limit: Limit, size: Any) -> bool:
    """Numbers within the range of a dtype of integers; NaN is not."""
    below, above = _BITS[limit.kind]
    low, high = _ends(tensor)
    least = -(1 << below) if below else 0
    return bool((low > least - 1 or low == least) and high < 1 << above)


_KINDS: dict[str, Callable[[Any, Limit, Any], bool]] = {
    "index": _is_index,
    "wrapped": _is_wrapped,
    "target": _is_target,
    "nonzero": _is_nonzero,
    "unit": _is_unit,
    "exponent": _is_exponent,
    "small": _is_small,
}
