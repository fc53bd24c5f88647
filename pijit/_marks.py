"""What a user says about a function: leave it alone, do not look inside it, its result does not change.

A mark belongs to the function object that is given, which is handed back unchanged. The core keeps it, weakly, and
forgets the traces that had followed the function (csrc/record/marks.h).
"""

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, overload

from pijit import _core
from pijit._config import OFF
from pijit.api import function_of, root_of
from pijit.errors import UsageError

Callee = TypeVar("Callee", bound=Callable[..., Any])


@overload
def skip(fn: Callee, reason: str = ...) -> Callee: ...


@overload
def skip(fn: None = None, reason: str = ...) -> Callable[[Callee], Callee]: ...


def skip(fn: Any = None, reason: str = "") -> Any:
    """Leave `fn` to CPython: it is never recorded, and a recording that comes to it does not follow it.

    What `fn` calls may be recorded by itself. Usable as `@pijit.skip` and `@pijit.skip(reason=...)`.

    Args:
        fn: a function written in Python, or a method, `partial`, `staticmethod` or `classmethod` of one.
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
    """Say that calls of `fn` with the same arguments give the same result, so that a recording may keep it.

    The result is guarded where that is possible. Recordings do not make use of it yet: `fn` is followed as any other.

    Args:
        fn: as for `skip`.

    Returns:
        `fn` itself.

    Raises:
        UsageError: as `skip`.

    Example:
        >>> import pijit
        >>> @pijit.constant
        ... def width():
        ...     return 64
        >>> width()
        64
    """
    made: Callee = _mark(fn, "constant", "")
    return made


def _mark(fn: Any, mark: str, reason: str) -> Any:
    if not isinstance(reason, str):
        raise UsageError(f"pijit.{mark}(): reason is text, not {reason!r}")
    if fn is None:
        return lambda fn: _mark(fn, mark, reason)
    function = function_of(fn)
    if type(function) is not FunctionType:
        raise UsageError(
            f"pijit.{mark}(): {type(fn).__qualname__} object {fn!r} is not made from a Python function; "
            f"mark the function that calls it"
        )
    if OFF:
        return fn
    if root_of(function) >= 0:
        if not _core.root_report(root_of(function))["automatic"]:
            raise UsageError(f"pijit.{mark}(): {function.__qualname__} was jitted; mark the function it was made from")
        if mark != "constant":
            _core.remove_root(root_of(function))
    _core.set_mark(function, mark, reason)
    return fn
