"""What a user calls: jit, the global switch, and what says how it goes.

Rules:
1. A function is never changed: `jit` makes a second one over the same code object, and the root is that function. An
   object is never wrapped: the root is the code of its `__call__`, entered with this instance as first local.
2. The hook is in place from the first `jit` or `enable` on. `disable` takes it away if `enable` brought it; what was
   jitted by name goes on. A forked child starts without it.
3. Under `PIJIT=0` all functions check their arguments and return what they would, and the core is asked for nothing.
"""

import difflib
import functools
import inspect
import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any, Literal, NamedTuple, TypeVar, overload

from pijit import _adapters, _core, _messages
from pijit._config import OFF, config
from pijit.errors import BackendError, UsageError
from pijit.traces import Traces, place, view

State = Literal["cold", "recorded", "replaying", "disabled"]
Callee = TypeVar("Callee", bound=Callable[..., Any])

_SUSPENDABLE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
_TRY = "jit a Python function that calls it"
_JIT_OPTIONS = ("backend", "strict", "verify", "name")


class _Switch:
    """Who wants the hook."""

    automatic = False  # enable() is in force
    by_name = False  # something was jitted
    fork_handled = False  # forked children are made plain


@dataclass(frozen=True, slots=True)
class Status:
    """How it stands with a root: `state` ("cold", "recorded", "replaying", "disabled") and `reason` ("" or a sentence).

    Example:
        >>> import pijit
        >>> pijit.Status("cold", "")
        Status(state='cold', reason='')
    """

    state: State
    reason: str


class _Options(NamedTuple):
    """What `jit` was asked for."""

    strict: bool
    verify: int
    name: str | None


@overload
def jit(
    fn: Callee,
    *,
    backend: Literal["native"] = ...,
    strict: bool = ...,
    verify: int | None = ...,
    name: str | None = ...,
) -> Callee: ...


@overload
def jit(
    fn: None = None,
    *,
    backend: Literal["native"] = ...,
    strict: bool = ...,
    verify: int | None = ...,
    name: str | None = ...,
) -> Callable[[Callee], Callee]: ...


def jit(
    fn: Any = None,
    *,
    backend: str = "native",
    strict: bool = False,
    verify: int | None = None,
    name: str | None = None,
    **unknown: object,
) -> Any:
    """Record `fn` at its first call and replay it at later ones, with the same results bit for bit.

    A function comes back as a new function with the signature, name, doc and attributes of the one passed in, which
    stays plain; it pickles if it is found under its name, as when `jit` decorates it. A bound method,
    `functools.partial`, `staticmethod` or `classmethod` comes back as one of the new function. An object with a
    `__call__` written in Python, such as a `torch.nn.Module`, comes back as the same object, and only this instance is
    affected.

    Args:
        fn: what to record; left out when used as `@pijit.jit(...)`.
        backend: "native", the only one so far.
        strict: raise `StrictError` for a call that CPython would run, and for one of which it ran some, when that is
            done: a stop, an opaque call, frames that are not followed, a replay that is left; a function that was given
            up, a tracer, profiler or mode raises before the call. Its first call may be recorded.
        verify: every `verify`-th replay, if it changes nothing, is done beside the call, which CPython runs; where the
            results differ the function is left to CPython from then on, with a message. None: as `pijit.config.verify`.
        name: how messages call it; the qualified name if left out.

    Raises:
        UsageError: `fn` is a class, a builtin, a generator or coroutine function, or was given to `skip` or `opaque`;
            or an option does not exist.
        BackendError: there is no such backend.
        AdapterError: the adapter was built against another version of the framework that is imported.

    Example:
        >>> import pijit
        >>> @pijit.jit
        ... def double(x):
        ...     return x + x
        >>> double(2), double(2)
        (4, 4)
        >>> triple = pijit.jit(lambda x: 3 * x, strict=False, name="triple")
        >>> triple(2)
        6
    """
    if unknown:
        wrong = next(iter(unknown))
        near = difflib.get_close_matches(wrong, _JIT_OPTIONS, 1)
        hint = f"; the nearest is {near[0]!r}" if near else ""
        raise UsageError(f"pijit.jit() has no option {wrong!r} (it has {', '.join(_JIT_OPTIONS)}){hint}")
    if backend != "native":
        raise BackendError(f"pijit.jit(): there is no backend {backend!r}; there is 'native'")
    if not isinstance(strict, bool):
        raise UsageError(f"pijit.jit(): strict is True or False, not {strict!r}")
    if verify is not None and (not isinstance(verify, int) or isinstance(verify, bool) or not 0 < verify < 2**63):
        raise UsageError(f"pijit.jit(): verify is a whole number from 1 on, or None, not {verify!r}")
    if name is not None and not isinstance(name, str):
        raise UsageError(f"pijit.jit(): name is text, not {name!r}")
    options = _Options(strict, verify or 0, name)
    if fn is None:
        return lambda fn: _jit(fn, options)
    return _jit(fn, options)


def enable(**options: object) -> None:
    """Find what to record everywhere: the outermost Python functions under which tensor operators ran.

    They are recorded at their second call, methods for each object by itself. Module and class bodies, generators and
    coroutines are looked through; a function that runs long, such as a `main()` with a loop, passes the role on to the
    functions that it calls a second time. May be called again at any time. Child processes are plain unless they call
    it themselves.

    Args:
        **options: options of `pijit.config` to set.

    Raises:
        ConfigError: an option does not exist or cannot have this value.
        AdapterError: the adapter was built against another version of the framework that is imported.

    Example:
        >>> import pijit
        >>> pijit.enable()
        >>> pijit.disable()
    """
    if OFF:
        return
    _adapters.ensure()
    config.update(options)
    _install()
    _core.set_auto(True)
    _Switch.automatic = True


def disable() -> None:
    """Undo `enable()`: the evaluator that was there before is there again. May be called at any time.

    What was jitted by name goes on being replayed.

    Example:
        >>> import pijit
        >>> pijit.disable()
    """
    if not _Switch.automatic:
        return
    _Switch.automatic = False
    _core.set_auto(False)
    if not _Switch.by_name:
        _core.hook_remove()


@contextmanager
def enabled(**options: object) -> Iterator[None]:
    """`enable()` for a `with` block or, as decorator, a function; afterwards the switch and the options are as before.

    Args:
        **options: options of `pijit.config` to set meanwhile.

    Raises:
        ConfigError, AdapterError: as `enable`.

    Example:
        >>> import pijit
        >>> with pijit.enabled(max_nodes=10_000):
        ...     sum(range(4))
        6
    """
    was_automatic = _Switch.automatic
    before = {} if OFF else {option: getattr(config, option) for option in options}
    enable(**options)
    try:
        yield
    finally:
        config.update(before)
        if not was_automatic:
            disable()


def status(fn: object) -> Status:
    """How it stands with `fn`.

    Args:
        fn: what `jit` returned, or a function that ran under `enable()`.

    Returns:
        `Status` with `.state` and `.reason`.

    Example:
        >>> import pijit
        >>> pijit.status(print).state
        'cold'
    """
    if OFF:
        return Status("disabled", "PIJIT=0 in the environment")
    mark, why_marked = mark_of(fn)
    if mark in {"skip", "opaque"}:
        return Status("disabled", f"pijit.{mark}()" + (f": {why_marked}" if why_marked else ""))
    root = root_of(fn)
    if root < 0:
        return Status("cold", "neither jitted nor found under enable()")
    state, reason = _core.root_status(root)
    return Status(state, reason)  # type: ignore[arg-type]


def stats() -> Mapping[str, int | float]:
    """Counters of this process.

    Returns:
        `records`, `aborts`, `replays`, `exits`, `guard_failures`, `opaque_calls` (made by replays), `traces`,
        `segments`, `bytes` and `seconds_saved`: how much less all replays took than CPython would have (seconds).
        That is measured under `python -m pijit --report` only, which lets CPython run a call now and then; else 0.

    Example:
        >>> import pijit
        >>> pijit.stats()["records"] >= 0
        True
    """
    return _core.stats()


def reset(fn: object = None) -> None:
    """Forget the traces of `fn`, or all; the next call records again. With all, messages may be said again.

    Args:
        fn: what `jit` returned, or a function that ran under `enable()`; None is everything.

    Example:
        >>> import pijit
        >>> pijit.reset()
    """
    if OFF:
        return
    root = -1 if fn is None else root_of(fn)
    if fn is None:
        _messages.forget()
    if fn is None or root >= 0:
        _core.reset(root)


def traces(fn: object) -> Traces:
    """The traces of `fn`, to read and to print.

    Args:
        fn: what `jit` returned, or a function that ran under `enable()`.

    Returns:
        A tuple of traces with `.guards`, `.nodes`, `.snapshots`, `.segments`; empty if nothing was recorded.

    Example:
        >>> import pijit
        >>> print(pijit.traces(print))
        # no trace
    """
    root = root_of(fn)
    return Traces(map(view, _core.root_traces(root))) if root >= 0 else Traces()


def why(fn: object) -> str:
    """Why `fn` was recorded again, or not replayed: the guard that failed last, in words, with both values.

    Args:
        fn: what `jit` returned, or a function that ran under `enable()`.

    Returns:
        The value that differs, as it is now and as it was before; "" if no guard has failed.

    Example:
        >>> import pijit
        >>> @pijit.jit
        ... def scale(x, by):
        ...     return x * by
        >>> scale(1.5, 2), scale("ab", 2)
        (3.0, 'abab')
        >>> print(pijit.why(scale))
        x: 'ab' now, 1.5 before
    """
    root = root_of(fn)
    return "" if root < 0 else _core.root_report(root)["last_miss"] or ""


def function_of(fn: object) -> object:
    """What a method, `partial`, `staticmethod` or `classmethod` is made of; anything else itself."""
    while isinstance(fn, (MethodType, functools.partial, staticmethod, classmethod)):
        fn = fn.func if isinstance(fn, functools.partial) else fn.__func__
    return fn


def root_of(fn: object) -> int:
    """The core's number for a root, -1 if `fn` is none; looks through what `jit` makes anew around a function."""
    return -1 if OFF else _core.root_of(function_of(fn))


def mark_of(fn: object) -> tuple[str, str]:
    """ "skip", "opaque", "constant" or "", and the reason that was given."""
    return _core.mark_of(function_of(fn))


def _jit(fn: Any, options: _Options) -> Any:
    """`jit` of one object, by its kind."""
    kind = type(fn)
    if kind is FunctionType:
        return _jit_function(fn, options)
    if kind is MethodType:
        return MethodType(_jit(_python_function(fn.__func__, fn), options), fn.__self__)
    if kind is staticmethod or kind is classmethod:
        return kind(_jit(_python_function(fn.__func__, fn), options))
    if kind is functools.partial:
        made = functools.partial(_jit(fn.func, options), *fn.args, **fn.keywords)
        made.__dict__.update(fn.__dict__)
        return made
    return _jit_instance(fn, options)


def _jit_function(fn: FunctionType, options: _Options) -> FunctionType:
    """A new function over the same code, and a root for it."""
    mark = _core.mark_of(fn)[0]
    if mark in {"skip", "opaque"}:
        raise UsageError(f"{_where(fn)}: it was given to pijit.{mark}(); jit a function that calls it")
    if fn.__code__.co_flags & _SUSPENDABLE:
        raise UsageError(
            f"{_where(fn)}: pijit.jit() takes no generator or coroutine function; jit a function that it calls"
        )
    made = FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    made.__kwdefaults__ = fn.__kwdefaults__ and dict(fn.__kwdefaults__)
    for attribute in ("__module__", "__qualname__", "__doc__", "__type_params__"):
        if hasattr(fn, attribute):
            setattr(made, attribute, getattr(fn, attribute))
    made.__annotations__ = dict(fn.__annotations__)
    made.__dict__.update(fn.__dict__)
    _add_root(made.__code__, made, None, made.__qualname__, options)
    return made


def _jit_instance(instance: Any, options: _Options) -> Any:
    """The same object, and a root for it."""
    kind = type(instance)
    if isinstance(instance, type):
        raise UsageError(f"pijit.jit(): {instance.__qualname__} is a class; jit an instance or one of its methods")
    call = inspect.getattr_static(kind, "__call__", None)
    if not isinstance(call, FunctionType):
        raise UsageError(f"pijit.jit(): {_say(instance)} has no Python code to observe; {_TRY}")
    if call.__code__.co_flags & _SUSPENDABLE:
        raise UsageError(f"{_where(call)}: pijit.jit() takes no object whose __call__ is a generator or coroutine")
    if call.__code__.co_argcount == 0:
        raise UsageError(f"{_where(call)}: pijit.jit() needs a __call__ that names its self; {_TRY}")
    try:
        weakref.ref(instance)
    except TypeError:
        raise UsageError(
            f"pijit.jit(): a {kind.__qualname__} cannot be referenced weakly; add '__weakref__' to its __slots__"
        ) from None
    if (root := root_of(instance)) >= 0:
        _core.remove_root(root)
    _add_root(call.__code__, None, instance, kind.__qualname__, options)
    return instance


def _python_function(function: Any, given: object) -> Any:
    """`function` if it is a Python one, which is what a method made anew needs."""
    if type(function) is not FunctionType:
        raise UsageError(f"pijit.jit(): {_say(given)} is not made from a Python function; {_TRY}")
    return function


def _add_root(code: Any, function: FunctionType | None, instance: object | None, name: str, options: _Options) -> None:
    if OFF:
        return
    _adapters.ensure()
    _core.add_root(code, function, instance, options.name or name, options.strict, options.verify)
    _Switch.by_name = True
    _install()


def _install() -> None:
    if not _Switch.fork_handled:
        _Switch.fork_handled = True
        os.register_at_fork(after_in_child=_be_plain)
    if not _core.hook_installed():
        _adapters.tell_library()
        _core.set_listener(_messages.tell)
        _core.set_comparer(_messages.compare)
        _core.hook_install()


def _be_plain() -> None:
    """In a forked child: as if pijit had not been asked for anything."""
    _Switch.automatic = _Switch.by_name = False
    _core.set_auto(False)
    if _core.hook_installed():
        _core.hook_remove()


def _where(fn: FunctionType) -> str:
    return f"{place(fn.__code__.co_filename, fn.__code__.co_firstlineno)} in {fn.__qualname__}()"


def _say(thing: object) -> str:
    name = getattr(thing, "__qualname__", None)
    return f"{type(thing).__qualname__} {name!r}" if isinstance(name, str) else f"{type(thing).__qualname__} object"
