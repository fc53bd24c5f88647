"""Partitions a graph: pieces for a backend, and between them the operators that it has not got, which torch runs.

Rules:
1. A value has a level: how many times the way to it goes from an operator of torch back to compiled code. The compiled
   nodes of a level are one piece, the others one, too. So there are as many pieces as such ways need, wherever the
   nodes stand in the program.
2. The graph writes to nothing, so that nodes may change places. One that draws random numbers is not put in a piece.
3. A piece with next to nothing to compile is run by torch.
4. Layers that repeat in a piece are a loop, for a backend that gains by it (`Backend.turns`).
"""

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pijit.compilers import _torch
from pijit.compilers._base import Backend, Options, Plan, Unsupported, lacking
from pijit.errors import BackendError
from pijit.graph.model import Graph, Node, Value, place_of, regions
from pijit.graph.model.memory import VIEWS
from pijit.passes.layers_as_loop import Looped, looped

_LEAST = 2  # operators that are worth a call of compiled code
_MOST = 8  # compiled pieces; more are calls of next to nothing

_Made = TypeVar("_Made")


class Piece(NamedTuple):
    """A part of a graph, itself a graph, and who runs it."""

    graph: Graph
    compiled: bool


def partition(graph: Graph, backend: str, missing: Iterable[int]) -> list[Piece]:
    """The pieces of a graph, in the order in which they run.

    Args:
        graph: writes to nothing; its outputs are values in a tuple.
        backend: its name, for the message.
        missing: positions of the nodes that the backend has not got.

    Raises:
        BackendError: torch cannot run such a node between compiled code, or nothing is left to compile; the message
            has the line of the first.
    """
    others = set(missing)
    nodes = [graph.nodes[at] for at in sorted(others)]
    never = [node for node in nodes if node.random or node.op.startswith("python::")]
    stages: dict[tuple[int, bool], list[Node]] = {}
    levels: dict[str, tuple[int, bool]] = {}
    for at, node in enumerate(graph.nodes):
        by_torch = at in others
        level = 0
        for value in node.operands:
            before, was_by_torch = levels.get(value.name, (0, by_torch))
            level = max(level, before + (was_by_torch and not by_torch))
        stages.setdefault((level, by_torch), []).append(node)
        levels.update((value.name, (level, by_torch)) for value in node.results if value is not None)
    # In one level what is compiled comes before what torch runs.
    order = [(stages[key], not key[1] and _is_worth_it(stages[key])) for key in sorted(stages)]
    count = sum(compiled for _, compiled in order)
    if never or not count or count > _MOST:
        raise lacking(backend, never or nodes)
    return [Piece(_piece(graph, stage, order[at + 1 :]), compiled) for at, (stage, compiled) in enumerate(order)]


def _is_worth_it(nodes: Sequence[Node]) -> bool:
    return sum(node.op not in VIEWS for node in nodes) >= _LEAST


def _piece(graph: Graph, nodes: list[Node], rest: Sequence[tuple[list[Node], bool]]) -> Graph:
    """The graph of these nodes, whose outputs are what the rest reads, or the caller."""
    made = {value.name: value for node in nodes for value in node.results if value is not None}
    wanted = {value.name for stage, _ in rest for node in stage for value in node.operands}
    wanted |= {value.name for value in graph.results}
    outputs = tuple(value for name, value in made.items() if name in wanted)
    read = {value.name: value for node in nodes for value in node.operands if value.name not in made}
    weights = tuple(value for value in graph.parameters if value.name in read)
    own = {value.name for value in weights}
    return replace(
        graph,
        inputs=tuple(replace(value, role="input", path="") for name, value in read.items() if name not in own),
        parameters=weights,
        data={value.name: graph.data[value.name] for value in weights if value.name in graph.data},
        nodes=tuple(nodes),
        outputs=outputs,
        region=regions.tree(nodes, regions.types_of(graph.region)),
    )


def positions(graph: Graph, nodes: Iterable[Node]) -> list[int]:
    """Where nodes stand in a graph."""
    places = {id(node): at for at, node in enumerate(graph.nodes)}
    return [places[id(node)] for node in nodes]


def build(graph: Graph, backend: Backend, options: Options, directory: Path, missing: list[int]) -> list[int]:
    """As `Backend.build`, of each compiled piece into a directory of its own; of a whole graph as it is.

    Returns:
        What torch runs: `missing`, and what the compiler has found to be missing.
    """

    def build_all(missing: list[int]) -> list[int]:
        for each in directory.iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        if not missing:
            _build(backend, graph, options, directory)
        for at, piece in enumerate(partition(graph, backend.name, missing) if missing else ()):
            if piece.compiled:
                (directory / str(at)).mkdir()
                _build(backend, piece.graph, options, directory / str(at))
        return missing

    return _without_unsupported(build_all, graph, options, missing)


def _without_unsupported(
    work: Callable[[list[int]], _Made], graph: Graph, options: Options, missing: list[int]
) -> _Made:
    """Does it again without the operators that a compiler has said it has not got."""
    while True:
        try:
            return work(missing)
        except Unsupported as error:
            more = {at for at, node in enumerate(graph.nodes) if _name(node) in error.operators}
            if options.symbolic or more <= set(missing):
                raise
            missing = sorted(more | set(missing))


def _name(node: Node) -> str:
    return (node.origin or node.op).rpartition("::")[2].partition(".")[0]


def load(graph: Graph, backend: Backend, options: Options, directory: Path, missing: Sequence[int]) -> Plan:
    """As `Backend.load`, of what `build` has made."""
    if not missing:
        return _load(backend, graph, options, directory)
    pieces = partition(graph, backend.name, missing)
    plans = [
        _load(backend, piece.graph, options, directory / str(at)) if piece.compiled else _by_torch(piece.graph)
        for at, piece in enumerate(pieces)
    ]
    return _together(graph, backend.name, options, pieces, plans, missing)


def make(graph: Graph, backend: Backend, options: Options, missing: list[int]) -> Plan:
    """As `Backend.make`, in pieces where the backend has not got these nodes."""

    def make_all(missing: list[int]) -> Plan:
        if not missing:
            return _make(backend, graph, options)
        pieces = partition(graph, backend.name, missing)
        plans = [_make(backend, each.graph, options) if each.compiled else _by_torch(each.graph) for each in pieces]
        return _together(graph, backend.name, options, pieces, plans, missing)

    return _without_unsupported(make_all, graph, options, missing)


def _looped(backend: Backend, graph: Graph, options: Options) -> Looped | None:
    """The graph with a loop in the place of layers, where the backend gains by it."""
    if not backend.turns or options.fold or graph.symbols:
        return None
    return looped(graph, backend.turns, backend.turn_bytes)


def _build(backend: Backend, graph: Graph, options: Options, directory: Path) -> None:
    loop = _looped(backend, graph, options)
    backend.build(graph if loop is None else loop.graph, options, directory)


def _load(backend: Backend, graph: Graph, options: Options, directory: Path) -> Plan:
    loop = _looped(backend, graph, options)
    return _bound(backend.load(graph if loop is None else loop.graph, options, directory), loop)


def _make(backend: Backend, graph: Graph, options: Options) -> Plan:
    loop = _looped(backend, graph, options)
    return _bound(backend.make(graph if loop is None else loop.graph, options), loop)


def _bound(plan: Plan, loop: Looped | None) -> Plan:
    """The plan, to be bound to the weights that are stacked; the stacks are copies."""
    rebind = plan._rebind
    if loop is None or rebind is None:
        return plan

    def both(weights: Mapping[str, Any]) -> bool:
        rebind(loop.bound(weights))
        return False

    plan._rebind, plan.shares_weights = both, False
    return plan


def _by_torch(graph: Graph) -> Plan:
    module = _torch.module_of(graph)
    return Plan("torch", module.forward, results=(), rebind=module.pijit_rebind)


def _together(
    graph: Graph, name: str, options: Options, pieces: Sequence[Piece], plans: Sequence[Plan], missing: Sequence[int]
) -> Plan:
    """One plan that runs the pieces one after the other."""
    names = [value.name for value in graph.inputs]
    given = [value.name for value in graph.results]
    steps = []
    for piece, plan in zip(pieces, plans, strict=True):
        if plan.run is None:
            raise BackendError(f"a plan of {name} is closed; compile the graph again")
        steps.append((plan.run, _names(piece.graph.inputs), _names(piece.graph.results)))

    def run(*inputs: Any) -> tuple[Any, ...]:
        values = dict(zip(names, inputs, strict=True))
        for call, read, made in steps:
            values.update(zip(made, call(*[values[each] for each in read]), strict=True))
        return tuple([values[each] for each in given])

    def rebind(weights: Mapping[str, Any]) -> bool:
        for plan in plans:
            if not plan.folded:
                plan.rebind(weights)
        return all(plan.shares_weights for plan in plans)

    def close() -> None:
        steps.clear()
        for plan in plans:
            plan.close()

    whole = Plan(
        name, run, results=(), shares_weights=all(plan.shares_weights for plan in plans), folded=options.fold,
        size_bytes=sum(plan.size_bytes for plan in plans), rebind=rebind, close=close,
    )  # fmt: skip
    whole.left_out = tuple(dict.fromkeys(_said(name, graph.nodes[at]) for at in missing))
    return whole


def _names(values: Iterable[Value]) -> list[str]:
    return [value.name for value in values]


def _said(backend: str, node: Node) -> str:
    exact = "" if node.is_foreign else " as torch computes it with such data"
    return f"{place_of(node)}backend {backend!r} has not got {node.op}{exact}: torch runs it, between compiled code"
