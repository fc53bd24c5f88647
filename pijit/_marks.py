"""What a user says about a function: leave it alone, do not look inside it, its result does not change.

A mark belongs to the object that is given, which is handed back unchanged: a function, a Python module, or an object
such as a `torch.nn.Module`. The core keeps it, weakly, and forgets the traces that had followed it
(csrc/record/marks.h).
"""

import inspect
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any, TypeVar, overload

from pijit import _core
from pijit._config import OFF
from pijit._roots import function_of, root_of
from pijit._usage_errors import describe
from pijit.errors import UsageError

Callee = TypeVar("Callee", bound=Callable[..., Any] | ModuleType)


@overload
def skip(fn: Callee, reason: str = ...) -> Callee: ...


@overload
def skip(fn: None = None, reason: str = ...) -> Callable[[Callee], Callee]: ...


def skip(fn: Any = None, reason: str = "") -> Any:
    """Leave `fn` to CPython: it is never recorded, and a recording that comes to it does not follow it.

    What `fn` calls may be recorded by itself. Usable as `@pijit.skip` and `@pijit.skip(reason=...)`.

    Args:
        fn: a function written in Python, or a method, `partial`, `staticmethod` or `classmethod` of one; a Python
            module, for all functions that are written in it; or an object with a `__call__`, such as a
            `torch.nn.Module`, for its methods (those of the modules inside it are not marked).
        reason: for people; `pijit.status(fn)` and reports repeat it.

    Returns:
        `fn` itself.

    Raises:
        UsageError: `fn` is none of these, or was jitted.

    Example:
        >>> import pijit
        >>> @pijit.skip(reason="writes the log")
        ... def note(x):
        ...     return x
        >>> pijit.status(note)
        Status(state='disabled', reason='pijit.skip(): writes the log')
    """
    return _mark(fn, "skip", reason)


def opaque(fn: Callee) -> Callee:
    """Never look inside `fn`: as `skip`, and nothing that `fn` calls is recorded by itself either.

    Args:
        fn: as for `skip`.

    Returns:
        `fn` itself.

    Raises:
        UsageError: as `skip`.

    Example:
        >>> import pijit
        >>> @pijit.opaque
        ... def fetch(index):
        ...     return index
        >>> fetch(3)
        3
    """
    made: Callee = _mark(fn, "opaque", "")
    return made


def constant(fn: Callee) -> Callee:
    """Say that calls of `fn` with the same arguments give the same result, without effects, which nobody changes.

    A recording that comes to `fn` with constants keeps the result, and replays do not call `fn`. With anything else,
    such as a tensor, `fn` is followed as any other function.

    Args:
        fn: a function written in Python, or what is made of one.

    Returns:
        `fn` itself.

    Raises:
        UsageError: as `skip`.

    Example:
        >>> import pijit
        >>> calls = []
        >>> @pijit.constant
        ... def width():
        ...     calls.append("width")
        ...     return 64
        >>> area = pijit.jit(lambda: width() * 2)
        >>> area(), area(), area(), calls
        (128, 128, 128, ['width'])
    """
    made: Callee = _mark(fn, "constant", "")
    return made


def _mark(fn: Any, mark: str, reason: str) -> Any:
    if not isinstance(reason, str):
        raise UsageError(f"pijit.{mark}(): reason is text, not {reason!r}")
    if fn is None:
        return lambda fn: _mark(fn, mark, reason)
    thing = function_of(fn)
    if type(thing) is not FunctionType and (mark == "constant" or not _is_markable(thing)):
        raise UsageError(f"pijit.{mark}(): {describe(fn)} is not made from a Python function; mark one that calls it")
    if OFF:
        return fn
    if root_of(thing) >= 0:
        if not _core.root_report(root_of(thing))["automatic"]:
            raise UsageError(
                f"pijit.{mark}(): {describe(thing)} was jitted; mark the function it was made from, or pijit.unjit() it"
            )
        if mark != "constant":
            _core.remove_root(root_of(thing))
    _core.set_mark(thing, mark, reason)
    return fn


def _is_markable(thing: Any) -> bool:
    """A module, or an object with methods of its own that can be kept weakly."""
    if isinstance(thing, ModuleType):
        return True
    if isinstance(thing, type) or type(inspect.getattr_static(type(thing), "__call__", None)) is not FunctionType:
        return False
    return getattr(type(thing), "__weakrefoffset__", 0) != 0
