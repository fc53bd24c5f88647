"""The compilers that a graph can be given to: one file each, found by its name, and those of other packages.

A file has `BACKEND`, an object of a subclass of `Backend`. Another package gives one by an entry point of the group
`pijit.backends`, or a function for `torch.compile` by one of the group `torch_dynamo_backends`. `register_backend`
adds a function of the program.

Importing this package imports no framework and no compiler.

The package is not called `backends`: importing it would put a module in the place of the function `pijit.backends`.
"""

import importlib
from importlib.metadata import EntryPoint

from pijit import _backend_names
from pijit._availability import Usable
from pijit._backend_names import OWN, names
from pijit._usage_errors import describe, nearest
from pijit.compilers._base import EXACT, USUAL, Backend, Options, Plan, Tolerance
from pijit.compilers.registered import Function, OfPackage, Registered
from pijit.errors import BackendError, UsageError

__all__ = ["EXACT", "OWN", "USUAL", "Backend", "Backends", "Options", "Plan", "Tolerance", "backends", "get", "names",
           "register_backend"]  # fmt: skip


def get(name: str) -> Backend:
    """The backend of this name; it need not be usable.

    Raises:
        BackendError: there is none; the message names the nearest. Or the one of another package does not load.
    """
    if name in OWN:
        found: Backend = importlib.import_module(f"{__name__}.{name}").BACKEND
        return found
    if isinstance(name, str) and name in _backend_names.registered:
        return _backend_names.registered[name]
    if isinstance(name, str) and (point := _backend_names.points().get(name)) is not None:
        return _of_package(point)
    if name == "auto":
        raise BackendError("backend 'auto' asks all compilers that are installed; it stands alone")
    raise BackendError(f"no backend is called {name!r}{nearest(str(name), names())}")


def _of_package(point: EntryPoint) -> Backend:
    if point.group == "torch_dynamo_backends":
        return OfPackage(point)
    where = f"backend {point.name!r} of the package {point.dist.name if point.dist is not None else '?'}"
    try:
        found = point.load()
    except Exception as error:  # another package's code
        raise BackendError(f"{where} ({point.value}) does not load: {type(error).__name__}: {error}") from error
    if isinstance(found, type) and issubclass(found, Backend):
        found = found()
    if isinstance(found, Backend):
        return found
    if callable(found):
        return Registered(point.name, found, f"of {where.partition(' of ')[2]}")
    raise BackendError(f"{where} ({point.value}) is {describe(found)}, which is no backend and cannot be called")


def register_backend(name: str, fn: Function) -> Function:
    """Make a compiler known under a name.

    Args:
        name: as in `backend=`; pijit's own names are taken.
        fn: `(module, example_inputs) -> callable`, as `torch.compile` takes: a `torch.fx.GraphModule`, whose inputs are
            the weights, then the inputs of the graph; and tensors for them. What it gives is called with tensors for
            all of these, and gives the outputs in a tuple.

    Returns:
        `fn`.

    Raises:
        UsageError: the name is taken by pijit, or `fn` cannot be called.

    Example:
        >>> import pijit
        >>> pijit.register_backend("plain", lambda module, example_inputs: module.forward) is not None
        True
        >>> pijit.backends()["plain"]
        'usable'
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise UsageError(f"pijit.register_backend() takes a name such as 'mine' first, not {name!r}")
    if name in OWN or name == "auto":
        raise UsageError(f"pijit.register_backend(): {name!r} is a name of pijit's own; give it another")
    if not callable(fn):
        raise UsageError(
            f"pijit.register_backend() takes a function (module, example_inputs) -> callable, not {describe(fn)}"
        )
    _backend_names.registered[name] = Registered(name, fn)
    return fn


class Backends(Usable):
    """The backends by name: "usable", or what makes them so. Printed, it is a table."""

    def __init__(self) -> None:
        rows: dict[str, tuple[str, str]] = {}
        points = _backend_names.points()
        for name in names():
            if name in points and name not in OWN and name not in _backend_names.registered:
                point = points[name]
                rows[name] = ("usable", f"of the package {point.dist.name if point.dist is not None else '?'}")
            else:
                backend = get(name)
                rows[name] = (backend.usable() or "usable", backend.doc)
        super().__init__("backend", rows)


def backends() -> Backends:
    """The compilers that pijit knows, each with "usable" or what makes it so; prints as a table.

    No framework and no compiler is imported for it.

    Example:
        >>> import pijit
        >>> pijit.backends()["native"]
        'usable'
    """
    return Backends()
