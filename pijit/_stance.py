"""The stance: what is done with the calls of what was jitted or found, for a while or from now on."""

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal, TypeVar

from pijit import _core
from pijit._switch import SUSPENDABLE
from pijit._usage_errors import hint
from pijit.errors import UsageError

Stance = Literal["on", "off", "replay_only", "fail_on_record", "verify"]
Callee = TypeVar("Callee", bound=Callable[..., Any])

_STANCES = ("on", "off", "replay_only", "fail_on_record", "verify")


class stance:
    """Say what is done with calls: from now on, for a `with` block, or while a function runs.

    - "on": they are replayed, or recorded;
    - "off": they run in CPython, as if pijit were not there;
    - "replay_only": they are replayed where a trace fits, and nothing is recorded;
    - "fail_on_record": they are replayed where a trace fits, and `StrictError` is raised where one would be recorded;
    - "verify": as "on", but CPython runs the calls whose replays change nothing, beside the replay, and the results are
      compared; a function whose replay gives another result is left to CPython from then on, with a message (PJ104).

    `pijit.stance("off")` holds until the next one, on all threads. As context manager and as decorator it gives back
    the stance that was in force before.

    Args:
        name: one of these.

    Raises:
        UsageError: there is no such stance.

    Example:
        >>> import pijit
        >>> double = pijit.jit(lambda x: x + x)
        >>> with pijit.stance("replay_only"):
        ...     double(2)
        4
        >>> pijit.status(double).state
        'cold'
        >>> @pijit.stance("off")
        ... def evaluate(x):
        ...     return double(x)
        >>> evaluate(3)
        6
    """

    __slots__ = ("_before", "_entered", "_name")

    def __init__(self, name: Stance) -> None:
        if name not in _STANCES:
            raise UsageError(f"pijit.stance() has no {name!r} (there are {_listed()}){hint(name, _STANCES)}")
        self._name = name
        self._before = _core.get_stance()
        self._entered = False
        _core.set_stance(name)

    def __repr__(self) -> str:
        return f"pijit.stance({self._name!r})"

    def __enter__(self) -> None:
        """The stance is in force since the call; a second block sets it anew."""
        if self._entered:
            self._before = _core.get_stance()
            _core.set_stance(self._name)
        self._entered = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _core.set_stance(self._before)

    def __call__(self, fn: Callee) -> Callee:
        """`fn`, under this stance whenever it runs; a decorator sets nothing by itself."""
        _core.set_stance(self._before)
        if not callable(fn):
            raise UsageError(f"pijit.stance({self._name!r}) decorates a function, not {fn!r}")
        if getattr(getattr(fn, "__code__", None), "co_flags", 0) & SUSPENDABLE:
            raise UsageError(f"pijit.stance({self._name!r}) decorates no generator or coroutine function")
        name = self._name

        @functools.wraps(fn)
        def under_stance(*args: Any, **kwargs: Any) -> Any:
            with stance(name):
                return fn(*args, **kwargs)

        return under_stance  # type: ignore[return-value]


def _listed() -> str:
    return ", ".join(map(repr, _STANCES))
