"""`pijit.export` and `pijit.formats`: a function's graph as an object of another system, or as a file.

A file is written whole or not at all. The format writes into a new directory beside `path`; when all of it is there
and on the disk, its files are renamed to their places, the one called `path` last. A reader sees the old file or the
new one.
"""

import inspect
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from pijit import _formats
from pijit._formats import _left_out
from pijit._usage_errors import describe, nearest
from pijit.errors import ExportError, PijitError, UsageError
from pijit.graph import Graph
from pijit.graph.build.capture import captured
from pijit.graph.decisions.capture import capture_branches
from pijit.graph.model.sizes import with_sizes

if TYPE_CHECKING:
    import onnx
    import torch
    import torch.fx

    from pijit._formats.stablehlo import Module

Dynamic = bool | Mapping[str, Any] | None
Decisions = Literal["split", "assume", "keep"]


def formats() -> _formats.Formats:
    """The formats that `pijit.export()` knows, each with "usable" or the command that makes it so; prints as a table.

    No framework is imported for it.

    Example:
        >>> import pijit
        >>> pijit.formats()["json"]
        'usable'
    """
    return _formats.Formats()


@overload
def export(
    fn: Any,
    *args: Any,
    format: str,
    path: "str | os.PathLike[str]",
    dynamic: Dynamic = ...,
    kwargs: Mapping[str, Any] | None = ...,
    decisions: Decisions = ...,
    also: Sequence[tuple[Any, ...]] = ...,
    **options: Any,
) -> Path: ...


@overload
def export(
    fn: Any,
    *args: Any,
    format: Literal["json", "python"],
    path: None = ...,
    dynamic: Dynamic = ...,
    kwargs: Mapping[str, Any] | None = ...,
    decisions: Decisions = ...,
    also: Sequence[tuple[Any, ...]] = ...,
    **options: Any,
) -> str: ...


@overload
def export(
    fn: Any,
    *args: Any,
    format: Literal["fx"],
    path: None = ...,
    dynamic: Dynamic = ...,
    kwargs: Mapping[str, Any] | None = ...,
    decisions: Decisions = ...,
    also: Sequence[tuple[Any, ...]] = ...,
    **options: Any,
) -> "torch.fx.GraphModule": ...


@overload
def export(
    fn: Any,
    *args: Any,
    format: Literal["exported_program"],
    path: None = ...,
    dynamic: Dynamic = ...,
    kwargs: Mapping[str, Any] | None = ...,
    decisions: Decisions = ...,
    also: Sequence[tuple[Any, ...]] = ...,
    **options: Any,
) -> "torch.export.ExportedProgram": ...


@overload
def export(
    fn: Any,
    *args: Any,
    format: Literal["onnx"],
    path: None = ...,
    dynamic: Dynamic = ...,
    kwargs: Mapping[str, Any] | None = ...,
    decisions: Decisions = ...,
    also: Sequence[tuple[Any, ...]] = ...,
    **options: Any,
) -> "onnx.ModelProto": ...


@overload
def export(
    fn: Any,
    *args: Any,
    format: Literal["stablehlo"],
    path: None = ...,
    dynamic: Dynamic = ...,
    kwargs: Mapping[str, Any] | None = ...,
    decisions: Decisions = ...,
    also: Sequence[tuple[Any, ...]] = ...,
    **options: Any,
) -> "Module": ...


@overload
def export(
    fn: Any,
    *args: Any,
    format: Literal["code"],
    path: None = ...,
    dynamic: Dynamic = ...,
    kwargs: Mapping[str, Any] | None = ...,
    decisions: Decisions = ...,
    also: Sequence[tuple[Any, ...]] = ...,
    **options: Any,
) -> Callable[..., Any]: ...


@overload
def export(
    fn: Any,
    *args: Any,
    format: str,
    path: None = ...,
    dynamic: Dynamic = ...,
    kwargs: Mapping[str, Any] | None = ...,
    decisions: Decisions = ...,
    also: Sequence[tuple[Any, ...]] = ...,
    **options: Any,
) -> Any: ...


def export(
    fn: Any,
    *args: Any,
    format: str,
    path: "str | os.PathLike[str] | None" = None,
    dynamic: Dynamic = None,
    kwargs: Mapping[str, Any] | None = None,
    decisions: Decisions = "split",
    also: Sequence[tuple[Any, ...]] = (),
    **options: Any,
) -> Any:
    """The whole graph of a call in another system's form.

    Args:
        fn: a function or module, which is called once, and only once; or a `pijit.graph.Graph`, which is not called.
        args: its arguments.
        format: one of `pijit.formats()`.
        path: where to write a file, whole or not at all; for "cpp" a directory. None: the object is returned.
        dynamic: which sizes stay free. None and True: all that the program leaves free. False: none. Or those of some
            inputs: `{"x": {0: "batch"}}`, by name of the input and number of the axis, with a name for the size.
        kwargs: keyword arguments of `fn`, as a dict.
        decisions: what becomes of a decision on the data of a tensor (`if x.sum() > 0:`). "split": an error. "assume":
            the graph goes the way of this call, and is right for data that decides so. Formats of torch, `json` and
            `python` check that; `onnx`, `stablehlo` and `mindspore` leave the check out, and say so. "keep": the graph
            has both sides, as nodes "cond" and "while" (`pijit.graph.capture_branches` says which loops it can hold).
        also: with decisions="keep", further calls that go other ways: tuples of arguments. Each call is made once, and
            only once, with the same `kwargs`.
        options: of the format, such as `weights="safetensors"` for json.

    Returns:
        The object that the format makes (`str` for json, `GraphModule` for fx); with `path` the path of the file.

    Raises:
        UsageError: `fn` or an option is of the wrong kind.
        ExportError: the format does not exist or lacks a package, the graph has what it cannot hold, one side of a
            decision was never seen (decisions="keep"), or `path` cannot be written.

    Example:
        >>> import pijit
        >>> from pijit.graph import Graph, Value
        >>> x = Value("x", "int", "input")
        >>> same = Graph("same", inputs=(x,), parameters=(), nodes=(), outputs=x)
        >>> print(pijit.export(same, format="json", indent=None)[:40])
        {"schema": "pijit.graph/1", "name": "sam
    """
    module = _formats.load(format)
    _check_options(module, options)
    directory = getattr(module, "DIRECTORY", False)
    target = None if path is None else _target(path, directory)
    if hasattr(module, "make_of_call"):
        _check_call(fn, args, kwargs, decisions, also, module.NAME)
        made = module.make_of_call(fn, args, kwargs or {}, decisions=decisions, dynamic=dynamic, **options)
    else:
        graph = _graph_of(fn, args, kwargs, dynamic, decisions, also)
        if graph is not fn:
            _left_out.warn(graph, module.NAME, stacklevel=2)
        made = module.make(with_sizes(graph, dynamic), dynamic=dynamic, **options)
    if target is None:
        return made
    write_whole(target, lambda beside: module.write(made, beside), directory)
    return target


def _check_options(module: Any, options: Mapping[str, Any]) -> None:
    """`UsageError` for an option that the format does not have."""
    parameters = inspect.signature(getattr(module, "make_of_call", None) or module.make).parameters
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
        return
    known = [name for name, each in parameters.items() if each.kind is inspect.Parameter.KEYWORD_ONLY]
    known = [name for name in known if name not in {"dynamic", "decisions"}]
    for wrong in options:
        if wrong not in known:
            has = nearest(wrong, known) if known else " (it has none)"
            raise UsageError(
                f"format {module.NAME!r} has no option {wrong!r}{has}; keyword arguments of the function go into "
                f"`kwargs={{{wrong!r}: ...}}`"
            )


def _check_call(fn: Any, args: tuple[Any, ...], kwargs: Any, decisions: str, also: Any, format: str) -> None:
    """`UsageError` for what is no call of a function, `ExportError` for a graph where the call is needed."""
    if decisions not in {"split", "assume", "keep"}:
        raise UsageError(f'decisions= is "split", "assume" or "keep", not {decisions!r}')
    if not isinstance(also, Sequence) or not all(isinstance(each, tuple) for each in also):
        raise UsageError(f"also= takes a list of tuples, the arguments of one call each, not {describe(also)}")
    if also and decisions != "keep":
        raise UsageError('also= gives calls that decide otherwise, which only decisions="keep" looks at')
    if decisions == "keep" and format == "code":
        raise ExportError("format 'code' has no form for both sides of a decision; it takes decisions=\"assume\"")
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise UsageError(f"kwargs= takes a dict of the function's keyword arguments, not {describe(kwargs)}")
    if isinstance(fn, Graph) and format == "code":
        raise ExportError("format 'code' is made of a call, not of a graph; give the function and its arguments")
    if not isinstance(fn, Graph) and not callable(fn):
        raise UsageError(f"pijit.export() takes a function, a module or a pijit.graph.Graph, not {describe(fn)}")


def _graph_of(
    fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None, dynamic: Dynamic, decisions: str, also: Any
) -> Graph:
    _check_call(fn, args, kwargs, decisions, also, "")
    if isinstance(fn, Graph):
        if args or kwargs:
            raise UsageError("a Graph is exported as it is, without arguments; leave them out")
        return fn
    if decisions == "keep":
        return capture_branches(fn, args, kwargs, also, dynamic)
    return captured(fn, args, kwargs or {}, dynamic, decisions)  # type: ignore[arg-type]


def _target(path: "str | os.PathLike[str]", directory: bool) -> Path:
    """The file or directory to write; `ExportError` if none can be there."""
    try:
        target = Path(path)
    except TypeError:
        raise UsageError(f"path= takes the name of a file, not {describe(path)}") from None
    if directory and target.exists() and not target.is_dir():
        raise ExportError(f"{target} is a file; give the name of a directory, which the format writes")
    if target.is_dir() and not directory:
        raise ExportError(f"{target} is a directory; give the name of a file in it")
    if not target.parent.is_dir():
        raise ExportError(f"{target} cannot be written: the directory {target.parent} does not exist")
    return target


def write_whole(target: Path, write: Callable[[Path], None], directory: bool = False) -> None:
    """Has `write` write a file of this name, and others beside it, and puts them in place when all are written.

    With `directory` it writes a directory of this name; other files in one that is there already stay.

    Raises:
        ExportError: the directory or disk does not take them. Nothing is left then.
    """
    target = target.resolve()  # a link stays a link: its target is replaced
    try:
        new = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise ExportError(f"{target} cannot be written: {error.strerror or error}") from error
    try:
        write(new / target.name)
        source, goal = (new / target.name, target) if directory else (new, target.parent)
        written = sorted(source.iterdir(), key=lambda file: file.name == target.name)
        for file in written:
            _to_disk(file)
        if directory:
            goal.mkdir(exist_ok=True)
        for file in written:
            file.replace(goal / file.name)
        _to_disk(goal)
    except PijitError:
        raise
    except OSError as error:
        raise ExportError(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
