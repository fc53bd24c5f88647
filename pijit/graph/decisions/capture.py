"""Captures calls as a graph that has their decisions on data as "cond" and "while"."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pijit import _core
from pijit._roots import add_second
from pijit.errors import ExportError
from pijit.graph.build import capture, training_steps
from pijit.graph.build.arguments import leaves
from pijit.graph.build.modules import Modules
from pijit.graph.build.types import typed
from pijit.graph.decisions.lowering import lowered
from pijit.graph.decisions.merging import Merging
from pijit.graph.decisions.turns import TurnBuilder
from pijit.graph.decisions.walkers import Call, Differs
from pijit.graph.model import Graph, Value
from pijit.graph.model.branches import all_nodes, graphs_of
from pijit.graph.model.functional import functional
from pijit.graph.model.sizes import free_numbers


def capture_branches(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    also: Sequence[tuple[Any, ...]] = (),
    dynamic: Any = None,
) -> Graph:
    """Call `fn(*args, **kwargs)` once, and only once, and give a graph that has both sides of its decisions on data.

    An `if` on the data of a tensor becomes a node "cond", a loop on it a node "while". A graph has what was seen: of
    each decision both sides, in a loop those of all turns together. What one call does not show, others do.

    Args:
        fn: a function, method or module.
        args: its arguments.
        kwargs: its keyword arguments.
        also: further calls, each a tuple of arguments. Each is made once, and only once, with the same `kwargs`.
        dynamic: as for `pijit.export`.

    Raises:
        ExportError: a call was not recorded; one side of a decision was never seen, with its line; or a way does what a
            graph cannot do there, such as a write to a tensor that lives longer than a turn.

    Example:
        >>> import pijit
        >>> pijit.graph.capture_branches(lambda: 1, ()).outputs
        1
    """
    kwargs = kwargs or {}
    caller = capture.caller_of(fn)
    kept = _core.keep_decisions(True)
    try:
        each = enumerate((args, *map(tuple, also)))
        calls = [_recorded(fn, caller, given, kwargs, dynamic, index) for index, given in each]
    finally:
        _core.keep_decisions(kept)
    _check_inputs(calls)
    merging = Merging(calls)
    try:
        tree = merging.run()
    except Differs as why:
        place = f"{why.node.place}: " if why.node is not None and why.node.place else ""
        loops = "".join(f". The loop at {at} was not kept as a loop: {told}" for at, told in merging.declined.items())
        raise ExportError(f"{place}{why.what}{loops}") from None
    graph = lowered(merging, tree, calls[0].graph)
    sizes = [[value.shape for value in call.graph.inputs] for call in calls]
    known = all(value.shape is not None for value in _tensors_of(graph))
    if known and all(each == sizes[0] for each in sizes):
        return graph
    # One way fixes sizes that another leaves free; or sizes change from turn to turn.
    return typed(graph, {leaf.name: leaf.tensor for leaf in leaves(fn, args, kwargs)}, dynamic)


def _tensors_of(graph: Graph) -> Iterator[Value]:
    """All that nodes give, also in the graphs in them, and what these are given."""
    for node in all_nodes(graph):
        given = [value for inner in graphs_of(node).values() for value in inner.inputs]
        yield from (value for value in (*node.results, *given) if value is not None and value.kind == "tensor")


def _recorded(fn: Any, caller: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic: Any, index: int) -> Call:
    """One call as a straight graph with marks."""
    capture.check_recordable(fn, "graph.capture_branches")
    found = leaves(fn, args, kwargs)
    made, root = add_second(caller)
    try:
        with capture.unlimited(root):
            made(*args, **kwargs)
        report = _core.root_report(root)
        if not report["traces"]:
            raise ExportError(capture.why_not(fn, report))
        data = _core.trace_data(root, 0)
        modules = Modules(capture.tops(fn, data, args, kwargs))
        name = getattr(fn, "__name__", None) or type(fn).__name__
        builder = TurnBuilder(data, name, modules, found, {"args": args, "kwargs": dict(kwargs), "fn": fn})
        graph = builder.build()
    finally:
        _core.remove_root(root)
    if training_steps.needs_expansion(graph):
        raise ExportError(
            f"{graph.name} computes gradients, which decisions='keep' does not keep; export it with decisions='assume'"
        )
    if data["ends"] == "exit":
        stop = graph.nodes[-1]
        raise ExportError(f"{stop.place}: the call of {graph.name} was not recorded to its end: {stop.origin}")
    graph = functional(training_steps.without_modes(graph))
    graph = typed(graph, {leaf.name: leaf.tensor for leaf in found}, dynamic)
    return Call(graph, builder.heads, index, builder.ranges, free_numbers(graph))


def _check_inputs(calls: Sequence[Call]) -> None:
    """`ExportError` where calls have other inputs than the first."""
    first = {value.name: value for value in calls[0].graph.inputs}
    for call in calls[1:]:
        other = {value.name: value for value in call.graph.inputs}
        if list(first) != list(other):
            raise ExportError(
                f"call {call.index} of also= has the tensors {', '.join(other) or 'none'}, the first call has "
                f"{', '.join(first) or 'none'}; give the same arguments in each"
            )
        for name, value in first.items():
            given = other[name]
            if value.dtype != given.dtype or len(value.shape or ()) != len(given.shape or ()):
                raise ExportError(
                    f"{name} is {given.type} in call {call.index} of also=, and {value.type} in the first; give "
                    "tensors of the same dtype and number of axes"
                )
