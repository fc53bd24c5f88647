"""Captures one call of a function as a graph."""

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType, MethodType
from typing import Any

from pijit import _adapters, _core, _left_whole, _torch_objects
from pijit._config import OFF, WHY_OFF
from pijit._roots import add_second, function_of
from pijit._usage_errors import check_thing
from pijit.errors import ExportError, PijitError
from pijit.graph.build import autocast, autograd, functions, operators, training_steps, transforms
from pijit.graph.build.arguments import Leaf, leaves
from pijit.graph.build.array_values import is_array, tensor_of
from pijit.graph.build.builder import Builder, Decisions
from pijit.graph.build.contractions import with_paths
from pijit.graph.build.mindspore_calls import is_tensor_of_mindspore, plain_of
from pijit.graph.build.modules import Modules
from pijit.graph.build.types import typed
from pijit.graph.model import Graph


def capture(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Graph:
    """Call `fn(*args, **kwargs)` once, and only once, and give what it did as a graph.

    What the call changes stays changed, and what it raises is raised. Parameters and buffers of modules are named by
    their paths; the tensors in the arguments are the inputs, by the names of the parameters. Sizes of inputs that the
    call does not fix are symbols. `fn` may have been jitted or not; its traces are left as they are.

    A call that computes gradients (a training step) becomes operators as well: `graph.updates` and `graph.written` tell
    what it leaves in parameters, gradients ("weight_grad") and the state of an optimizer. Its sizes are those of the
    call. Capture a later step than the first, which makes the state of the optimizer.

    Args:
        fn: a function, method or module.
        *args: handed to `fn`.
        **kwargs: handed to `fn`.

    Raises:
        ExportError: the call was not recorded, with the reason and its line; or a training step keeps a number of
            Python from call to call, which a graph would freeze.

    Example:
        >>> import pijit
        >>> graph = pijit.graph.capture(lambda: 1)
        >>> graph.nodes, graph.outputs
        ((), 1)
    """
    return captured(fn, args, kwargs)


def check_recordable(fn: Any, function: str) -> None:
    """`UsageError` for what cannot be called, `ExportError` where nothing is recorded; `function`: who was asked."""
    check_thing(fn, function_of(fn), function)
    if OFF:
        raise ExportError(f"pijit.{function}(): nothing is recorded: {WHY_OFF}")
    if why := _adapters.refused():
        raise ExportError(f"pijit.{function}(): nothing is recorded: {why}")


def captured(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dynamic: Any = None,
    decisions: Decisions = "split",
    *,
    types: bool = True,
) -> Graph:
    """As `capture`, with options.

    Args:
        fn: as for `capture`.
        args: of the call.
        kwargs: of the call.
        dynamic: False: every size is as it was in this call.
        decisions: "split": a decision on the data of a tensor splits the graph; "assume": it stays as a check.
        types: False: values have no dtypes and sizes, which takes a tenth of the time; gradients are not computed, and
            what torch loads at its first `vmap` and `jvp` has to be there.
    """
    check_recordable(fn, "graph.capture")
    found = leaves(fn, args, kwargs, _is_leaf)
    copies = {leaf.name: leaf.tensor.copy(order="K") for leaf in found if is_array(leaf.tensor)}
    things = known(fn, args, kwargs).values()
    before, enabled = _torch_objects.gradients(things), _torch_objects.gradients_enabled()
    modes = autocast.Modes.now()
    if types:
        transforms.prepare()
    made, root = add_second(caller_of(fn))
    try:
        with unlimited(root):
            made(*args, **kwargs)
        report = _core.root_report(root)
        if not report["traces"]:
            raise ExportError(why_not(fn, report))
        data = _core.trace_data(root, 0)
        builder = _builder(fn, data, args, kwargs, found, decisions=decisions)
        builder.modes, builder.enabled = modes, enabled
        builder.arrays.take(found, copies)
        builder.of_mindspore.take(found)
        graph = builder.arrays.finished(builder.build())
    finally:
        _core.remove_root(root)
    if not types:
        return graph
    with autocast.off():
        examples = {leaf.name: tensor_of(copies.get(leaf.name, plain_of(leaf.tensor))) for leaf in found}
        graph = autocast.expanded(graph, modes, {**graph.data, **examples}, builder.applied)
        if not training_steps.needs_expansion(graph):
            graph = _typed(training_steps.without_modes(graph), examples, dynamic)
            retyped = functions.expanded(graph, builder.applied, lambda graph: _typed(graph, examples, dynamic))
            return builder.of_mindspore.checked(builder.arrays.checked(with_paths(retyped)))
        training_steps.check_stores(builder.stores, graph, builder.sources)
        tensors = {**graph.data, **examples}
        trained = {name for name, tensor in tensors.items() if _torch_objects.is_trained(tensor)}
        try:
            graph = autograd.expanded(graph, autograd.Call(before, tensors, trained, enabled, builder.complete))
        except autograd.Unable as why:
            graph = training_steps.split_there(graph, str(why))
        return with_paths(_typed(graph, examples, False))


def _is_leaf(thing: Any) -> bool:
    return _torch_objects.is_tensor(thing) or is_array(thing) or is_tensor_of_mindspore(thing)


def _typed(graph: Graph, examples: Mapping[str, Any], dynamic: Any) -> Graph:
    """The graph with types; `ExportError` where an operator has none for tensors without data, though it ran."""
    try:
        return typed(graph, examples, dynamic)
    except PijitError:
        raise
    except Exception as error:  # whatever torch raises, or the program's own form of an operator
        where = next(iter(getattr(error, "__notes__", ())), graph.name)
        said = f"{type(error).__name__}: {str(error).strip()}".partition("\n")[0]
        raise ExportError(
            f"{where} runs, but torch cannot say what it gives for tensors without data: {said}; "
            "an operator of your own needs a form for these (`register_fake`); else move the call out of the function"
        ) from error


@contextmanager
def recorded(
    fn: Any, caller: FunctionType, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Iterator[tuple[Any, Any]]:
    """The trace of one call of `caller`, which calls `fn`, and the guards of it, as data.

    Raises:
        ExportError: the call was not recorded.
    """
    check_recordable(fn, "export")
    made, root = add_second(caller)
    try:
        with unlimited():
            made(*args, **kwargs)
        report = _core.root_report(root)
        if not report["traces"]:
            raise ExportError(why_not(fn, report))
        yield _core.trace_data(root, 0), _core.guard_data(root, 0)
    finally:
        _core.remove_root(root)


def _builder(
    fn: Any,
    data: Mapping[str, Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    found: list[Leaf],
    *,
    decisions: Decisions,
) -> Builder:
    modules = Modules(tops(fn, data, args, kwargs))
    name = getattr(fn, "__name__", None) or type(fn).__name__
    named = {"args": args, "kwargs": dict(kwargs), "fn": fn}
    return Builder(data, name, modules, found, named, decisions=decisions)


def caller_of(fn: Callable[..., Any]) -> FunctionType:
    """A function that hands its arguments on; a recording of its own begins there, whatever is known of `fn`.

    It does not return the call itself: `fn` would be left to CPython as a whole where an opaque call is its last one.
    What such a call gives is looked into: a graph has the items of a tuple.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        made = fn(*args, **kwargs)
        return (*made,) if type(made) is tuple else made

    return call  # type: ignore[return-value]


@contextmanager
def unlimited(only_read: int = -1) -> Iterator[None]:
    """Recordings have no budget and hold what comes in: the graph of this call is wanted, whatever it costs.

    Args:
        only_read: a root whose traces are never replayed: what no replay could leave is recorded all the same.
    """
    operators.resolve()
    _left_whole.leave_whole()
    before = _core.get_option("record_budget")
    kept, read = _core.keep_inputs(True), _core.only_read(only_read)
    _core.set_option("record_budget", 0)
    try:
        yield
    finally:
        _core.keep_inputs(kept)
        _core.only_read(read)
        _core.set_option("record_budget", before)


def why_not(fn: Any, report: Any) -> str:
    stop = report["last_stop"]
    name = getattr(fn, "__qualname__", None) or type(fn).__qualname__
    if stop is None:
        return f"pijit.graph.capture(): the call of {name} was not recorded; `pijit.explain(fn, ...)` says more"
    return (
        f"{stop['file']}:{stop['line']} in {stop['function']}(): the call of {name} was not recorded: {stop['reason']} "
        f"[{stop['code']}] (python -m pijit help {stop['code']})"
    )


def tops(fn: Any, data: Mapping[str, Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The outermost modules of the call, by the prefix of their paths: "" for `fn` itself, else their names."""
    inner: Any = fn
    while isinstance(inner, functools.partial):
        inner = inner.func
    owner = inner.__self__ if isinstance(inner, MethodType) else inner
    if _torch_objects.is_module(owner):
        return {"": owner}
    names = {id(module): name for name, module in named_modules(inner, args, kwargs).items()}
    tops: dict[str, Any] = {}
    for row in data["frames"]:
        module = row["self"]
        if not _torch_objects.is_module(module) or _inside_a_module(data["frames"], row["parent"]):
            continue
        if not any(module is each for each in tops.values()):
            tops[names.get(id(module), f"{type(module).__name__.lower()}_{len(tops)}")] = module
    return tops


def _inside_a_module(frames: Any, at: int) -> bool:
    while at >= 0:
        if _torch_objects.is_module(frames[at]["self"]):
            return True
        at = frames[at]["parent"]
    return False


def named_modules(fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Modules that the function knows by a name: its globals, variables around it, arguments."""
    return {name: thing for name, thing in known(fn, args, kwargs).items() if name and _torch_objects.is_module(thing)}


def known(fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """What the function knows by a name: its globals, variables around it, arguments; by "" the module that it is."""
    while isinstance(fn, functools.partial):
        fn, args, kwargs = fn.func, (*fn.args, *args), {**fn.keywords, **kwargs}
    function = fn.__func__ if isinstance(fn, MethodType) else fn
    function = getattr(function, "__wrapped__", function)
    found: dict[str, Any] = dict(kwargs)
    if isinstance(function, FunctionType):
        code = function.__code__
        found |= {name: function.__globals__.get(name) for name in code.co_names}
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        found |= {name: cell.cell_contents for name, cell in cells if _is_set(cell)}
        found |= dict(zip(code.co_varnames[: code.co_argcount], args, strict=False))
    owner = fn.__self__ if isinstance(fn, MethodType) else fn
    return found | ({"": owner} if _torch_objects.is_module(owner) else {})


def _is_set(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
