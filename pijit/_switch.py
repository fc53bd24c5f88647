"""The global switch: enable, disable, enabled.

1. The hook is in place from the first `jit` or `enable` on, and until `disable`. What was jitted keeps its traces
   meanwhile, and runs plain. The next `enable` or `jit` brings the hook back for all. From CPython 3.12 on "in place"
   may mean that jitted functions are entered by their vectorcalls, which the core decides (csrc/hook/hook.cpp).
2. A forked child starts without the hook.
3. Under `PIJIT=0` all functions check their arguments and return what they would, and the core is asked for nothing.
"""

import functools
import inspect
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple, TypeVar, Unpack

from pijit import _adapters, _core, _messages
from pijit._config import OFF, Options, config
from pijit._usage_errors import check_no_function
from pijit.errors import UsageError

Callee = TypeVar("Callee", bound=Callable[..., Any])

SUSPENDABLE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE

_DISABLED = "pijit.disable() was called; the next pijit.enable() or pijit.jit() has it replayed again"
_FORKED = "a forked child runs plain, until it calls pijit.enable() or pijit.jit()"


class _Switch:
    """Who wants the hook."""

    automatic = False  # enable() is in force
    by_name = False  # something was jitted since disable()
    why_off = ""  # if it is off, though it was on: the reason, for people
    fork_handled = False  # forked children are made plain


class _Before(NamedTuple):
    """What a block gives back."""

    automatic: bool
    by_name: bool
    options: dict[str, object]


class enabled:
    """`enable()` for a `with` block or, as decorator, a function; afterwards the switch and the options are as before.

    In a condition it tells whether pijit is at work: true from the first `enable()` or `jit()` until `disable()`.

    Args:
        **options: options of `pijit.config` to set meanwhile.

    Raises:
        ConfigError, AdapterError: as `enable`.
        UsageError: it decorates without parentheses, or a generator or coroutine function.

    Example:
        >>> import pijit
        >>> with pijit.enabled(max_nodes=10_000):
        ...     bool(pijit.enabled())
        True
    """

    __slots__ = ("_before", "_options", "_waits")

    def __init__(self, fn: None = None, /, **options: Unpack[Options]) -> None:
        check_no_function(fn, "enabled")
        self._options = options
        self._before: list[_Before] = []
        self._waits = False  # the switch is on already, and the block has not begun

    def __bool__(self) -> bool:
        return is_on()

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self._options.items())
        return f"<pijit.enabled({options}): {'on' if is_on() else 'off'}>"

    def __enter__(self) -> "enabled":
        if not self._waits:
            self._begin()
        self._waits = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        before = self._before.pop()
        config.update(before.options)
        _Switch.by_name |= before.by_name
        if before.automatic:
            _find_everywhere()
        else:
            _find_no_more()
        if _Switch.by_name:
            _install()

    def __call__(self, fn: Callee) -> Callee:
        """`fn`, under `enable()` whenever it runs."""
        if not callable(fn):
            raise UsageError(f"pijit.enabled() decorates a function, not {fn!r}")
        if getattr(getattr(fn, "__code__", None), "co_flags", 0) & SUSPENDABLE:
            raise UsageError("pijit.enabled() decorates no generator or coroutine function; pijit.jit() takes it")
        options = self._options

        @functools.wraps(fn)
        def under_pijit(*args: Any, **kwargs: Any) -> Any:
            with enabled(**options):
                return fn(*args, **kwargs)

        return under_pijit  # type: ignore[return-value]

    def _begin(self) -> None:
        options = {} if OFF else {option: getattr(config, option) for option in self._options}
        before = _Before(_Switch.automatic, _Switch.by_name, options)
        if not OFF:
            _adapters.ensure()
            config.update(self._options)
            _find_everywhere()
        self._before.append(before)


def enable(fn: None = None, /, **options: Unpack[Options]) -> enabled:
    """Find what to record everywhere: the outermost Python functions under which tensor operators ran.

    They are recorded at their second call, methods for each object by itself. Module and class bodies, generators and
    coroutines are looked through; a function that runs long, such as a `main()` with a loop, passes the role on to the
    functions that it calls a second time. What was jitted before a `disable()` is replayed again. May be called again
    at any time. Child processes are plain unless they call it themselves.

    Args:
        **options: options of `pijit.config` to set.

    Returns:
        `enabled`, so that `with pijit.enable():` holds for the block only.

    Raises:
        ConfigError: an option does not exist or cannot have this value.
        AdapterError: the adapter of the framework that is imported is broken.
        UsageError: a function was given; `jit` takes one.

    Example:
        >>> import pijit
        >>> pijit.enable()
        <pijit.enabled(): on>
        >>> pijit.disable()
        >>> with pijit.enable():
        ...     sum(range(4))
        6
    """
    check_no_function(fn, "enable")
    scope = enabled(**options)
    scope._begin()
    scope._waits = True
    return scope


def disable() -> None:
    """Stop: the evaluator that was there before is there again. May be called at any time.

    What was jitted runs plain, too, until the next `enable()` or `jit()`; its traces are kept. `unjit` gives one
    function or object back for good.

    Example:
        >>> import pijit
        >>> pijit.disable()
        >>> bool(pijit.enabled())
        False
    """
    if _Switch.by_name or _Switch.automatic:
        _Switch.why_off = _DISABLED
    _Switch.by_name = False
    _find_no_more()


def is_on() -> bool:
    """Whether what was jitted or found is replayed."""
    return _Switch.automatic or _Switch.by_name


def why_off() -> str:
    """Why what was jitted is not replayed, for people; "" if it is."""
    return "" if is_on() else _Switch.why_off


def switch_on_by_name() -> None:
    """Something was jitted."""
    if _install():
        _Switch.by_name = True


def _find_everywhere() -> None:
    if _install():
        _core.set_auto(True)
        _Switch.automatic = True


def _find_no_more() -> None:
    """Roots are no longer found; the hook stays if something was jitted."""
    if OFF:
        return
    _Switch.automatic = False
    _core.set_auto(False)
    if not _Switch.by_name:
        _core.hook_remove()


def _install() -> bool:
    """Put the hook in, unless a framework was refused; whether it is in."""
    if _adapters.refused():
        _step_out()
        return False
    if not _Switch.fork_handled:
        _Switch.fork_handled = True
        os.register_at_fork(after_in_child=_be_plain)
    if not _core.hook_installed():
        _adapters.tell_library()
        _core.set_listener(_messages.tell)
        _core.set_comparer(_messages.compare)
        _core.hook_install()
    return True


def _step_out() -> None:
    """A framework was refused: nothing is replayed from now on."""
    _Switch.why_off = _adapters.refused()
    _Switch.by_name = False
    _find_no_more()


_adapters.when_refused(_step_out)


def _be_plain() -> None:
    """In a forked child: as if pijit had not been asked for anything."""
    if is_on():
        _Switch.why_off = _FORKED
    _Switch.automatic = _Switch.by_name = False
    _core.set_auto(False)
    _core.hook_remove()
