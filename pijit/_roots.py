"""Roots: functions and objects whose calls are recorded and replayed, how they are found, and how one is added.

A function is never changed: the root is a second one over the same code object.
"""

import functools
import sys
from types import CellType, CodeType, FunctionType, MethodType

from pijit import _adapters, _core
from pijit._config import OFF
from pijit._switch import switch_on_by_name
from pijit.errors import AdapterError


def function_of(fn: object) -> object:
    """What a method, `partial`, `staticmethod` or `classmethod` is made of; anything else itself."""
    while isinstance(fn, (MethodType, functools.partial, staticmethod, classmethod)):
        fn = fn.func if isinstance(fn, functools.partial) else fn.__func__
    return fn


def root_of(fn: object) -> int:
    """The core's number for a root, -1 if `fn` is none; looks through what `jit` makes anew around a function."""
    return -1 if OFF else _core.root_of(function_of(fn))


def mark_of(fn: object) -> tuple[str, str]:
    """ "skip", "opaque", "constant" or "", and the reason that was given; of a function also its module's mark."""
    thing = function_of(fn)
    found = _core.mark_of(thing)
    if not found[0] and isinstance(thing, FunctionType):
        found = _core.mark_of(sys.modules.get(thing.__globals__.get("__name__", "")))
    return found


def second_of(
    fn: FunctionType, code: CodeType | None = None, closure: tuple[CellType, ...] | None = None
) -> FunctionType:
    """A new function with the signature, name, doc and attributes of this one, over the same code or over `code`."""
    code, closure = (fn.__code__, fn.__closure__) if code is None else (code, closure)
    made = FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, closure)
    made.__kwdefaults__ = fn.__kwdefaults__ and dict(fn.__kwdefaults__)
    for attribute in ("__module__", "__qualname__", "__doc__", "__type_params__", "__annotate__"):
        if hasattr(fn, attribute):
            setattr(made, attribute, getattr(fn, attribute))
    if getattr(fn, "__annotate__", None) is None:  # which makes them when they are first asked for
        made.__annotations__ = dict(fn.__annotations__)
    made.__dict__.update(fn.__dict__)
    return made


def add_root(
    code: CodeType,
    function: FunctionType | None,
    instance: object | None,
    name: str,
    *,
    strict: bool = False,
    verify: int = 0,
    fixed_sizes: bool = False,
) -> int:
    """The core's number for a new root; its calls are observed from now on.

    Args:
        code: of the function, or of the `__call__` of the instance.
        function: the root; None: an instance is.
        instance: the root; None: a function is.
        name: what messages call it.
        strict: as for `pijit.jit`.
        verify: every so many replays are compared with CPython; 0: as the options say.
        fixed_sizes: traces are for the sizes of their first call.

    Raises:
        AdapterError: the adapter of the framework that is imported is broken, or `strict` was asked and there is none.
    """
    _adapters.ensure()
    if strict and (why := _adapters.refused()):
        raise AdapterError(f"strict=True cannot be had: {why}")
    root = _core.add_root(code, function, instance, name, strict, verify, fixed_sizes)
    switch_on_by_name()
    return root


def add_second(fn: FunctionType) -> tuple[FunctionType, int]:
    """A second function that is a root, without a market, and its number."""
    made = second_of(fn)
    return made, add_root(made.__code__, made, None, made.__qualname__)
