"""Makes a graph ready for a backend, and a plan of what the backend gives.

A result that shares memory with an input, a weight or another result has to share it in the plan, too: a later write
to one is seen in the other. So the operators that make such views are taken off the end of the graph. The backend
compiles the rest (`core`), and torch makes the views of what it gives (`tail`). A result that follows from no input is
a constant of compiled code, which may hand out the same memory each time: the program gets copies.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from pijit import passes
from pijit._formats._graph_results import needed
from pijit.compilers import _decided, _partition
from pijit.compilers._base import Backend, Options, Plan, lacking
from pijit.compilers._graph_cache import remembered
from pijit.compilers._torch import module_of
from pijit.errors import BackendError, ExportError
from pijit.graph.model import Graph, Node, Value, place_of, regions, values_of
from pijit.graph.model.branches import check_dtypes, check_turns, graphs_of, is_branch
from pijit.graph.model.memory import SAME, sharing
from pijit.graph.model.sizes import evaluate, fixed
from pijit.graph.torch_calls import NUMBERS
from pijit.graph.torch_run import resolve
from pijit.passes import replacements

# Views with the layout of what is contiguous: as results of a compiler they have the strides that torch gives them.
_PLAIN = SAME | {"detach", "alias", "view", "reshape", "contiguous", "expand_dims", "squeeze", "flatten", "unflatten"}
_OF_SIZES = frozenset({"size", "ndim", "numel"})
_NUMBERS: dict[str, Callable[[Any], Any]] = {"int": int, "float": float, "bool": bool}


class Parts(NamedTuple):
    """A graph in two.

    Attributes:
        core: what the backend compiles. Its outputs are values in a tuple, and it writes to nothing.
        tail: what makes the results of the outputs of `core`, of inputs and of weights; None: `core` gives them itself.
        results: what the whole gives, in order.
        updates: names of the inputs and parameters that the last of the results are for.
        holds: whether the decisions on sizes go as at the capture, for these inputs.
        constants: positions of the outputs of `core` that are the same at each call.
        checks: look at the data of a call before the plan runs.
        replaced: how often which replacement was made, by name.
    """

    core: Graph
    tail: Graph | None
    results: tuple[Value, ...]
    updates: tuple[str, ...]
    holds: Callable[..., bool] | None = None
    constants: tuple[int, ...] = ()
    checks: tuple[_decided.Checks, ...] = ()
    replaced: Mapping[str, int] = {}


def parts(graph: Graph, backend: Backend, options: Options) -> Parts:
    """The graph in its two parts.

    Args:
        graph: what to compile.
        backend: by which.
        options: of the compilation.

    Raises:
        BackendError: it takes no tensors of these devices, a weight has no array, a size is not known, or what the
            program writes to is also what it returns.
        ExportError: an operator writes where that cannot be said without writing.
    """
    if graph.breaks:
        raise lacking(backend.name, graph.breaks)
    if not backend.takes(found := kinds(graph)):
        raise BackendError(
            f"backend {backend.name!r} takes tensors of {', '.join(backend.devices)} only; this has tensors of "
            f"{', '.join(sorted(found))}"
        )
    if assumed := graph.assumptions:
        raise BackendError(
            f"{place_of(assumed[0])}the graph holds for data that decides here as at the capture; a plan cannot check "
            "that, so pijit compiles what is before and behind it"
        )
    if not options.symbolic and graph.symbols:
        graph = fixed(graph, graph.symbols)
    holds = _holds(graph) if options.symbolic else None
    plain = remembered(graph, "functional", graph.functional)
    checks = _checks_of_unread(plain, backend)
    if options.fold:  # weights may be written between two compilations
        simplified = passes.run(plain, fold=True)
    else:
        simplified = remembered(graph, ("simplified", passes.registered()), lambda: passes.run(plain, fold=False))
    graph, replaced = _with_replacements(simplified, backend, options)
    given = (*graph.results, *(value for _, value in graph.updates))
    updates = tuple(name for name, _ in graph.updates)
    graph = replace(graph, outputs=given, updates=())
    graph = with_nodes(graph, needed(graph))
    tail_nodes = _tail_nodes(graph, given, len(updates), backend.strided)
    made = {value.name for node in tail_nodes for value in node.results if value is not None}
    own = {value.name for value in (*graph.inputs, *graph.parameters)}
    wanted: dict[str, Value] = {}
    for value in (*given, *values_of(tuple(node.operands for node in tail_nodes))):
        if value.name not in made and value.name not in own:
            wanted.setdefault(value.name, value)
    core = replace(graph, outputs=tuple(wanted.values()))
    core = _with_used(with_nodes(core, needed(core)))
    if not core.nodes:
        raise BackendError(f"graph {graph.name} computes nothing; backend {backend.name!r} has nothing to compile")
    tail = None
    if [value.name for value in given] != list(wanted):
        inputs = (*graph.inputs, *wanted.values())
        tail = _with_used(replace(with_nodes(graph, tail_nodes), inputs=inputs, outputs=given))
    limits = () if backend.raises else (*_decided.decided(core).limits, *backend.limits(core))
    checks += (_decided.Checks(core, limits),) if limits else ()
    return Parts(core, tail, given, updates, holds, _constants(core, options), checks, replaced)


def _with_replacements(graph: Graph, backend: Backend, options: Options) -> tuple[Graph, Mapping[str, int]]:
    """The graph with the replacements that are made for a backend, and how often which; none if it is exact."""
    if not backend.rounds(options.fold):
        return graph, {}

    def make() -> tuple[Graph, Mapping[str, int]] | None:
        counts: Counter[str] = Counter()
        made = passes.run(graph, replaced=counts)
        return (made, counts) if made is not graph else None  # it would keep itself alive

    found = remembered(graph, ("replaced", passes.registered(), replacements.registered()), make)
    if found is None:
        return graph, {}
    made, counts = found

    def left(graph: Graph) -> int:
        """How many nodes torch would have to run."""
        return len({id(node) for node in (*backend.lacks(graph), *backend.inexact(graph))})

    return (made, counts) if left(made) <= left(graph) else (graph, {})


def kinds(graph: Graph) -> set[str]:
    """Kinds of the devices that its tensors are on."""
    made = (value for node in graph.nodes for value in node.results if value is not None)
    values = (value for value in (*graph.inputs, *graph.parameters, *made) if value.kind == "tensor")
    return {(value.device or "cpu").partition(":")[0] for value in values}


def missing(core: Graph, backend: Backend, options: Options) -> list[int]:
    """Positions of the nodes that torch runs, since the backend has not got them; its package may be imported for it.

    Raises:
        BackendError: sizes are free, and it does not take one of the operators.
    """
    left = {id(node) for node in (*backend.lacks(core), *backend.inexact(core)) if not is_branch(node)}
    left.update(id(node) for node in filter(is_branch, core.nodes) if not _has_branch(backend, node, core))
    if not backend.raises:
        left.update(map(id, _decided.decided(core).left))
    if not backend.symbolic:
        left.update(id(node) for node in core.nodes if _varies(node))
    nodes = [node for node in core.nodes if id(node) in left]
    if nodes and options.symbolic:
        raise lacking(backend.name, nodes)
    return _partition.positions(core, nodes)


def _varies(node: Node) -> bool:
    """It is given, or gives, a tensor of which data decide a size, as a loop does that makes it grow."""
    values = (value for value in (*node.operands, *node.results) if value is not None)
    return any(isinstance(size, str) for value in values for size in value.shape or ())


def _has_branch(backend: Backend, node: Node, core: Graph) -> bool:
    """A node with graphs in it can be compiled: nothing in it needs torch, or a look at data before the plan runs."""
    try:
        check_dtypes(node, backend.name)
        check_turns(replace(core, nodes=(node,)), backend.name)
    except ExportError:
        return False
    if not backend.branches:
        return False
    for graph in graphs_of(node).values():
        others = (*backend.lacks(graph), *backend.inexact(graph))
        limits, left = _decided.decided(graph)
        if limits or left or not all(map(is_branch, others)):
            return False
        if not all(_has_branch(backend, each, graph) for each in filter(is_branch, graph.nodes)):
            return False
    return True


def _constants(core: Graph, options: Options) -> tuple[int, ...]:
    """Positions of the outputs that follow from no input, nor from a weight that is no part of the code."""
    varying = {value.name for value in (*core.inputs, *(() if options.fold else core.parameters))}
    for node in core.nodes:
        if node.random or any(value.name in varying for value in node.operands):
            varying.update(value.name for value in node.results if value is not None)
    return tuple(at for at, value in enumerate(core.results) if value.kind == "tensor" and value.name not in varying)


def _holds(graph: Graph) -> Callable[..., bool] | None:
    """Runs the checks of a graph on the sizes of inputs; None: there are none.

    Raises:
        BackendError: a check depends on more than sizes of inputs and numbers that come in.
    """
    if not any(node.op == "check" for node in graph.nodes):
        return None
    wanted: set[str] = set()
    nodes: list[Node] = []
    for node in reversed(graph.nodes):
        numbers = node.op in _OF_SIZES or node.op in NUMBERS
        if node.op == "check" or (numbers and any(each is not None and each.name in wanted for each in node.results)):
            wanted.update(value.name for value in node.operands if value.kind != "tensor")
            nodes.append(node)
    nodes.reverse()
    known = {value.name for node in nodes for value in node.results if value is not None}
    known.update(value.name for value in graph.inputs)
    for node in nodes:
        for value in node.operands:
            if value.shape is None if value.kind == "tensor" else value.name not in known:
                raise BackendError(f"{place_of(node)}a decision depends on more than the sizes of what comes in")
    names = [value.name for value in graph.inputs]
    free = [(at, value.shape) for at, value in enumerate(graph.inputs) if value.kind == "tensor" and value.shape]

    def holds(*inputs: Any) -> bool:
        symbols: dict[str, int] = {}
        for at, shape in free:
            symbols.update(
                (size, found) for size, found in zip(shape, inputs[at].shape, strict=True) if type(size) is str
            )
        values: dict[str, Any] = {
            n: given for n, given in zip(names, inputs, strict=True) if not hasattr(given, "shape")
        }
        return all(_step(node, values, symbols) for node in nodes)

    return holds


def _step(node: Node, values: dict[str, Any], symbols: Mapping[str, int]) -> bool:
    """Computes a number from sizes; False: a check finds another one."""
    if node.op == "check":
        return bool(resolve(node.arguments["x"], values) == node.arguments["expected"])
    (result,) = node.results
    assert result is not None
    x = node.arguments.get("x")
    if isinstance(x, Value) and x.kind == "tensor":
        sizes = [evaluate(size, symbols) for size in x.shape or ()]
        axis = resolve(node.arguments.get("axis", 0), values)
        made: Any = len(sizes) if node.op == "ndim" else sizes[axis] if node.op == "size" else _product(sizes)
    else:
        made = NUMBERS[node.op](*(resolve(each, values) for each in node.arguments.values()))
    values[result.name] = made
    return made is not None


def _product(sizes: list[int | None]) -> int | None:
    return None if None in sizes else math.prod(size for size in sizes if size is not None)


def with_nodes(graph: Graph, nodes: list[Node]) -> Graph:
    """The graph with these of its nodes."""
    if len(nodes) == len(graph.nodes):
        return graph
    return replace(graph, nodes=tuple(nodes), region=regions.tree(nodes, regions.types_of(graph.region)))


def _with_used(graph: Graph) -> Graph:
    """The graph with those of its parameters that it uses."""
    used = {value.name for node in graph.nodes for value in node.operands} | {value.name for value in graph.results}
    parameters = tuple(value for value in graph.parameters if value.name in used)
    for value in parameters:
        if value.name not in graph.data:
            raise BackendError(f"graph {graph.name} has no array for {value.role} {value.path or value.name!r}")
    return replace(graph, parameters=parameters, data={value.name: graph.data[value.name] for value in parameters})


def _tail_nodes(graph: Graph, given: tuple[Value, ...], updates: int, strided: bool) -> list[Node]:
    """The operators that make views at the end; `strided`: views that nothing else is seen of are none of them."""
    source = {result.name: (held.name, node) for node in graph.nodes for result, held in sharing(node)}
    own = {value.name for value in (*graph.inputs, *graph.parameters)}
    results = given[: len(given) - updates]
    written = {value.name for value in given[len(given) - updates :]}

    def chain(name: str) -> Iterator[str]:
        while name in source:
            yield name
            name = source[name][0]
        yield name

    roots = {value.name: list(chain(value.name))[-1] for value in results}
    counts = Counter(roots.values())
    wanted: set[str] = set()
    for value in results:
        names = list(chain(value.name))
        if not written.isdisjoint(names):
            raise BackendError(
                f"graph {graph.name} returns what it writes to, {names[-1]!r}, which no compiler can give"
            )
        plain = strided or all(source[name][1].op in _PLAIN for name in names[:-1])
        if names[-1] in own or counts[names[-1]] > 1 or not plain:
            wanted.update(names[:-1])
    return [node for node in graph.nodes if any(each is not None and each.name in wanted for each in node.results)]


def completed(plan: Plan, parts: Parts) -> Plan:
    """The plan of the whole, from that of the core."""
    plan.results = tuple(value.name for value in parts.results)
    plan.updates = parts.updates
    plan.replaced = parts.replaced
    if parts.holds is not None:
        plan.holds = parts.holds
    if parts.constants:
        _copy(plan, parts.constants)
    if parts.tail is not None:
        _add_tail(plan, parts.core, parts.tail)
        plan.lend = None  # its results are others
    if parts.checks:
        _add_checks(plan, parts.checks)
    return plan


def _copy(plan: Plan, constants: tuple[int, ...]) -> None:
    inner = plan.run
    assert inner is not None

    def run(*inputs: Any) -> tuple[Any, ...]:
        given = list(inner(*inputs))
        for at in constants:
            given[at] = given[at].clone()
        return tuple(given)

    plan.run = run


def _checks_of_unread(graph: Graph, backend: Backend) -> tuple[_decided.Checks, ...]:
    """For operators whose results nobody reads: no plan has them, and eager execution raises in them all the same.

    Raises:
        BackendError: what decides that is computed by the graph.
    """
    given = (*graph.results, *(value for _, value in graph.updates))
    read = set(map(id, needed(replace(graph, outputs=given, updates=()))))
    unread = [node for node in graph.nodes if id(node) not in read and node.op not in _decided.NEVER_RAISE]
    limits, left = _decided.decided(graph, unread)
    if left:
        raise BackendError(
            f"{place_of(left[0])}nobody reads what {left[0].op} gives, so backend {backend.name!r} would not find that "
            "it raises"
        )
    return (_decided.Checks(graph, limits),) if limits else ()


def _add_checks(plan: Plan, checks: tuple[_decided.Checks, ...]) -> None:
    inner, rebind = plan.run, plan._rebind
    assert inner is not None

    def run(*inputs: Any) -> tuple[Any, ...]:
        for check in checks:
            check(inputs)
        return inner(*inputs)

    def both(weights: Mapping[str, Any]) -> bool:
        for check in checks:
            check.rebind(weights)
        return rebind(weights) if rebind is not None else plan.shares_weights

    plan.run, plan._rebind = run, both


def _add_tail(plan: Plan, core: Graph, tail: Graph) -> None:
    module = module_of(tail)
    inner, finish, rebind = plan.run, module.forward, plan._rebind
    assert inner is not None

    def run(*inputs: Any) -> tuple[Any, ...]:
        return finish(*inputs, *inner(*inputs))  # type: ignore[no-any-return]

    def both(weights: Mapping[str, Any]) -> bool:
        module.pijit_rebind(weights)
        return rebind is None or rebind(weights)

    plan.run, plan._rebind = run, both


def numbers(values: Iterable[Value]) -> Callable[[list[Any]], tuple[Any, ...]]:
    """Makes numbers of the arrays that a compiler gives for these values, where torch has numbers."""
    kinds = [(at, _NUMBERS[value.kind]) for at, value in enumerate(values) if value.kind in _NUMBERS]
    if not kinds:
        return tuple

    def made(given: list[Any]) -> tuple[Any, ...]:
        for at, kind in kinds:
            given[at] = kind(given[at].item())
        return tuple(given)

    return made
