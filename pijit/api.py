"""What a user calls: jit, unjit, and what says how it goes.

Rules:
1. A function is never changed: `jit` makes a second one over the same code object, and the root is that function. An
   object is never wrapped: the root is the code of its `__call__`, entered with this instance as first local.
2. A generator or coroutine function has a root without traces: CPython runs its body, and what the body calls is found
   as under `enable()`.
3. Under `PIJIT=0` all functions check their arguments and return what they would, and the core is asked for nothing.
"""

import contextlib
import functools
import inspect
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any, Literal, NamedTuple, TypeVar, get_args, overload

from pijit import _core, _messages, _signature
from pijit._config import OFF, WHY_OFF, config
from pijit._lazy_market import LazyMarket
from pijit._roots import add_root, function_of, mark_of, root_of, second_of
from pijit._switch import SUSPENDABLE, why_off
from pijit._usage_errors import check_keywords, check_thing, describe, nearest
from pijit.errors import UsageError
from pijit.segments import progress, under_way
from pijit.traces import Trace, Traces, entries_of, entry_place, place, view

Precision = Literal["auto", "bf16", "fp16", "int8-dynamic"]
State = Literal["cold", "recorded", "replaying", "disabled"]
Callee = TypeVar("Callee", bound=Callable[..., Any])

_TRY = "jit a Python function that calls it"
_JIT_OPTIONS = ("backend", "options", "dynamic", "signature", "precision", "error", "strict", "verify", "name")
_LEFT_OUT: Any = type("_LeftOut", (), {"__repr__": lambda self: "None", "__slots__": ()})()
_NOT_KNOWN = "neither jitted nor found under enable()"


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
    market: Any = None  # `pijit.compilers.market.Market`; None: native replay alone
    fixed_sizes: bool = False  # traces are for the sizes of their first call
    signature: Any = None


@overload
def jit(
    fn: Callee,
    *,
    backend: str | Sequence[str] | None = ...,
    options: Mapping[str, Any] | None = ...,
    dynamic: bool | None = ...,
    signature: Mapping[str, Any] | Sequence[Any] | None = ...,
    precision: Precision | None = ...,
    error: float = ...,
    strict: bool = ...,
    verify: int | None = ...,
    name: str | None = ...,
) -> Callee: ...


@overload
def jit(
    fn: None = None,
    *,
    backend: str | Sequence[str] | None = ...,
    options: Mapping[str, Any] | None = ...,
    dynamic: bool | None = ...,
    signature: Mapping[str, Any] | Sequence[Any] | None = ...,
    precision: Precision | None = ...,
    error: float = ...,
    strict: bool = ...,
    verify: int | None = ...,
    name: str | None = ...,
) -> Callable[[Callee], Callee]: ...


def jit(
    fn: Any = _LEFT_OUT,
    *,
    backend: str | Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
    dynamic: bool | None = None,
    signature: Mapping[str, Any] | Sequence[Any] | None = None,
    precision: Precision | None = None,
    error: float = 1e-2,
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
    affected. The body of a generator, coroutine or async generator function runs in CPython; the functions that it
    calls are found and recorded as under `enable()`.

    Args:
        fn: what to record; left out when used as `@pijit.jit(...)`.
        backend: None: as `pijit.config.backend`. "native": native replay, bit for bit. A name of `pijit.backends()`:
            segments of the traces are compiled by it, beside the calls, and answer within its documented tolerance as
            soon as they agreed with a native replay. "auto" or several names: they take turns with native replay, and
            the fastest stays. "auto" leaves calls to native replay of which gradients may be asked for later.
        options: for the backends: `fold` (weights become part of the code, which is dropped when they change),
            `threads`, and the backend's own.
        dynamic: of the sizes of tensors. None and True: traces hold for all sizes for which the program does the same.
            Plans of compilers are for the sizes of one call under None, until several calls differ in sizes only; under
            True, the sizes that the program leaves free are so in the first plan already. False: traces and plans are
            for the sizes of one call, but for those that `pijit.dynamic` names; other sizes are recorded again.
        signature: what is taken, by the names of parameters, or in their order; what is not named is not looked at.
            "float32[batch:1..64, 128]" is a tensor of this dtype with two axes, of which the first has up to 64; where
            other tensors name "batch", too, they agree. "*" is any size, "..." any axes, "float32|bfloat16",
            "floating", "integer", "complex" and "any" are dtypes, "float32" alone is of any shape, and a question mark
            at the end allows None. A dtype, a tensor like those to come, a class such as int, and tuples, lists and
            dicts of forms are forms, too. A call with anything else raises `SignatureError`, replayed or not.
        precision: "bf16", "fp16" or "int8-dynamic" (which needs torchao): operators that compute in float32 compute in
            that where a measurement on the program's own inputs says that they are faster, and err little; "auto": all
            of these that can be had, and the fastest stays. It is the user's consent to `error`. Calls that record
            gradients stay as they are. `print(pijit.traces(fn)[0].segments[0])` has the choice.
        error: the largest difference from float32 that `precision` may make, in operators and in results, relative to
            the largest magnitude of the result.
        strict: raise `StrictError` for a call that CPython would run, and for one of which it ran some, when that is
            done: a stop, an opaque call, frames that are not followed, a replay that is left; a function that was given
            up, a tracer, profiler or mode raises before the call. Its first call may be recorded.
        verify: every `verify`-th replay, if it changes nothing, is done beside the call, which CPython runs; where the
            results differ the function is left to CPython from then on, with a message. Of the runs of a compiled plan
            as many are compared with native replay. None: as `pijit.config.verify`.
        name: how messages call it; the qualified name if left out.

    Raises:
        UsageError: `fn` is None, a class or a builtin, or was given to `skip` or `opaque`; or an option does not exist,
            or `strict` or `signature` was asked of a generator or coroutine function.
        BackendError: there is no such backend, or it is not installed.
        AdapterError: the adapter of the framework that is imported is broken, or `strict` was asked and there is none.

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
    check_keywords(unknown, _JIT_OPTIONS)
    if not isinstance(strict, bool):
        raise UsageError(f"pijit.jit(): strict is True or False, not {strict!r}")
    if dynamic is not None and not isinstance(dynamic, bool):
        raise UsageError(
            f"pijit.jit(): dynamic is True, False or None, not {dynamic!r}; "
            "pijit.dynamic(tensor, 0) says that one dimension varies"
        )
    if verify is not None and (not isinstance(verify, int) or isinstance(verify, bool) or not 0 < verify < 2**63):
        raise UsageError(f"pijit.jit(): verify is a whole number from 1 on, or None, not {verify!r}")
    if name is not None and not isinstance(name, str):
        raise UsageError(f"pijit.jit(): name is text, not {name!r}")
    market = market_for(backend, options, "jit", dynamic, _lowering(precision, error))
    asked = _Options(strict, verify or 0, name, market, dynamic is False, signature)
    if fn is _LEFT_OUT:
        return lambda fn: _jit(fn, asked)
    return _jit(fn, asked)


def _lowering(precision: Any, error: Any) -> tuple[str, float] | None:
    """`precision` and `error` of `jit`, if there is any."""
    if precision is None:
        return None
    known = get_args(Precision)
    if precision not in known:
        raise UsageError(f"pijit.jit(): precision {precision!r} is not known{nearest(str(precision), known)}")
    if isinstance(error, bool) or not isinstance(error, int | float) or not 0 < error < 1:
        raise UsageError(f"pijit.jit(): error is a number between 0 and 1, such as 1e-2, not {error!r}")
    return precision, float(error)


def market_for(
    backend: Any, options: Any, function: str, dynamic: bool | None = None, lowering: tuple[str, float] | None = None
) -> Any:
    """Who is asked for plans, by what `pijit.<function>()` was given; None: native replay alone."""
    asked, backend = backend, config.backend if backend is None else backend
    if options is not None and not isinstance(options, Mapping):
        raise UsageError(f"pijit.{function}(): options is a dict, not {options!r}")
    if backend == "native" and lowering is None:
        if options:
            raise UsageError(f"pijit.{function}(): options are those of a backend; name it: backend='auto'")
        return None
    names = [backend] if isinstance(backend, str) else backend
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) for name in names):
        raise UsageError(
            f"pijit.{function}(): backend is a name of pijit.backends(), 'auto', or several names, not {backend!r}"
        )
    if asked is None and lowering is None:
        return LazyMarket(backend, dynamic)
    from pijit.compilers import market

    return market.market(backend, options, dynamic, lowering)


def unjit(fn: Callee) -> Callee:
    """Give back what `jit` took: `fn` runs plain from now on, and its traces are forgotten.

    Under `enable()` it may be found again, as any other function; `skip` leaves a function to CPython.

    Args:
        fn: what `jit` returned.

    Returns:
        `fn` itself.

    Raises:
        UsageError: `fn` was not jitted.

    Example:
        >>> import pijit
        >>> double = pijit.jit(lambda x: x + x)
        >>> double(2)
        4
        >>> pijit.unjit(double) is double, double(2), pijit.status(double).reason
        (True, 4, 'neither jitted nor found under enable()')
    """
    check_thing(fn, function_of(fn), "unjit")
    if OFF:
        return fn
    root = root_of(fn)
    if root < 0 or _core.root_report(root)["automatic"]:
        raise UsageError(f"pijit.unjit(): {describe(fn)} was not jitted; pijit.skip() leaves a function to CPython")
    _core.remove_root(root)
    if not isinstance(function_of(fn), FunctionType):
        _signature.hook(fn, None)
    return fn


def status(fn: object) -> Status:
    """How it stands with `fn`.

    Args:
        fn: what `jit` returned, or a function that ran under `enable()`.

    Returns:
        `Status` with `.state` and `.reason`. Where the function itself has no reason to give, that of a loop of its own
        traces that was left to CPython, or what is being compiled for it ("compiling with xla for 3.2 s").

    Raises:
        UsageError: `fn` is nothing that can be called, such as a name.

    Example:
        >>> import pijit
        >>> pijit.status(print).state
        'cold'
    """
    check_thing(fn, function_of(fn), "status")
    if OFF:
        return Status("disabled", WHY_OFF)
    mark, why_marked = mark_of(fn)
    if mark in {"skip", "opaque"}:
        return Status("disabled", f"pijit.{mark}()" + (f": {why_marked}" if why_marked else ""))
    root = root_of(fn)
    if root < 0:
        return Status("cold", _NOT_KNOWN)
    if kind := _suspendable(function_of(fn)):
        return Status("disabled", f"the body of {kind} runs in CPython; the functions that it calls are recorded")
    if why_off() and not _core.root_report(root)["automatic"]:
        return Status("disabled", why_off())
    state, reason = _core.root_status(root)
    left = [entry for entry in entries_of(root) if entry["disabled"]] if not reason else []
    if left:
        where = entry_place(left[0]["entry"], left[0]["file"], left[0]["line"])
        reason = f"{where}: left to CPython: {left[0]['disabled']}"
    reason = reason or progress(under_way(getattr(_core.market_of(root), "outcomes", ())))
    return Status(state, reason)  # type: ignore[arg-type]


def stats() -> Mapping[str, int | float]:
    """Counters of this process.

    Returns:
        `records`, `aborts`, `replays`, `exits`, `guard_failures`, `opaque_calls` (made by replays), `traces`,
        `segments` (for which there is a plan), `bytes`, `seconds_waited` (by calls, for threads that compile) and
        `seconds_saved`: how much less all replays took than CPython would have. That is measured under
        `python -m pijit --report` only, which lets CPython run a call now and then; else 0. Traces that begin in the
        middle of functions, such as those of loops, count in all but `replays`, `exits` and `seconds_saved`, which are
        about calls.

    Example:
        >>> import pijit
        >>> pijit.stats()["records"] >= 0
        True
    """
    return _core.stats()


def reset(fn: object = None) -> None:
    """Forget the traces of `fn`, those of its loops included, or all; the next call records again.

    With all, messages may be said again.

    Args:
        fn: what `jit` returned, or a function that ran under `enable()`; None is everything.

    Raises:
        UsageError: `fn` is nothing that can be called, such as a name.

    Example:
        >>> import pijit
        >>> pijit.reset()
    """
    if fn is not None:
        check_thing(fn, function_of(fn), "reset")
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
        A tuple of traces with `.guards`, `.nodes`, `.snapshots`, `.segments`, and `.graph()`; empty if nothing was
        recorded. Behind those of the function come those that begin in the middle of it, or of functions that it calls:
        of loops, and of what follows branches. Their `.entry` says where.

    Raises:
        UsageError: `fn` is nothing that can be called, such as a name.

    Example:
        >>> import pijit
        >>> print(pijit.traces(print))
        # no trace
    """
    check_thing(fn, function_of(fn), "traces")
    root = root_of(fn)
    roots = [root, *(entry["root"] for entry in entries_of(root))] if root >= 0 else []
    found: list[Trace] = []
    for each in roots:
        with contextlib.suppress(ValueError):  # its function died meanwhile
            for at, trace in enumerate(_core.root_traces(each)):
                found.append(view(trace, each, _core.trace_data(each, at), _core.guard_data(each, at)))
    return Traces(found)


def why(fn: object) -> str:
    """Why `fn` was recorded again, or not replayed: the guard that failed last, in words, with both values.

    Args:
        fn: what `jit` returned, or a function that ran under `enable()`.

    Returns:
        The value that differs, as it is now and as it was before; "" if no guard has failed. Of what pijit does not
        know, or does not replay, it says that. A line for each loop, or other place, with traces of its own follows
        where none of these took what came: "loop at train.py:42: ...".

    Raises:
        UsageError: `fn` is nothing that can be called, such as a name.

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
    check_thing(fn, function_of(fn), "why")
    root = root_of(fn)
    if root < 0:
        return status(fn).reason
    missed = [entry for entry in entries_of(root) if entry["last_miss"]]
    lines = [f"{entry_place(each['entry'], each['file'], each['line'])}: {each['last_miss']}" for each in missed]
    return "\n".join(filter(None, [_core.root_report(root)["last_miss"], *lines]))


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
    mark = mark_of(fn)[0]
    if mark in {"skip", "opaque"}:
        raise UsageError(f"{_where(fn)}: it was given to pijit.{mark}(); jit a function that calls it")
    _check_body(fn, options)
    made = second_of(fn) if options.signature is None else _signature.checked(fn, options.signature)
    _add_root(made.__code__, made, None, made.__qualname__, options)
    return made


def _jit_instance(instance: Any, options: _Options) -> Any:
    """The same object, and a root for it."""
    kind = type(instance)
    if isinstance(instance, type):
        raise UsageError(f"pijit.jit(): {instance.__qualname__} is a class; jit an instance or one of its methods")
    call = inspect.getattr_static(kind, "__call__", None)
    if not isinstance(call, FunctionType):
        raise UsageError(f"pijit.jit(): {describe(instance)} has no Python code to observe; {_TRY}")
    _check_body(call, options)
    if call.__code__.co_argcount == 0:
        raise UsageError(f"{_where(call)}: pijit.jit() needs a __call__ that names its self; {_TRY}")
    try:
        weakref.ref(instance)
    except TypeError:
        raise UsageError(
            f"pijit.jit(): a {kind.__qualname__} cannot be referenced weakly; add '__weakref__' to its __slots__"
        ) from None
    if (mark := mark_of(instance)[0]) in {"skip", "opaque"}:
        raise UsageError(f"pijit.jit(): this {kind.__qualname__} was given to pijit.{mark}()")
    if (root := root_of(instance)) >= 0:
        _core.remove_root(root)
    _signature.hook(instance, options.signature)
    _add_root(call.__code__, None, instance, kind.__qualname__, options)
    return instance


def _check_body(fn: FunctionType, options: _Options) -> None:
    if (options.strict or options.signature is not None) and (kind := _suspendable(fn)):
        option = "strict=True" if options.strict else "signature"
        raise UsageError(f"{_where(fn)}: {option} cannot be had: the body of {kind} runs in CPython")


def _suspendable(thing: Any) -> str:
    """ "a generator", "a coroutine" or "an async generator", if calls of `thing` make one; else ""."""
    if not isinstance(thing, FunctionType):
        thing = inspect.getattr_static(type(thing), "__call__", None)
    code = getattr(thing, "__code__", None)
    flags = code.co_flags & SUSPENDABLE if isinstance(code, CodeType) else 0
    if not flags:
        return ""
    if flags & inspect.CO_ASYNC_GENERATOR:
        return "an async generator"
    return "a generator" if flags & inspect.CO_GENERATOR else "a coroutine"


def _python_function(function: Any, given: object) -> Any:
    """`function` if it is a Python one, which is what a method made anew needs."""
    if type(function) is not FunctionType:
        raise UsageError(f"pijit.jit(): {describe(given)} is not made from a Python function; {_TRY}")
    return function


def _add_root(code: Any, function: FunctionType | None, instance: object | None, name: str, options: _Options) -> None:
    if OFF:
        return
    root = add_root(
        code,
        function,
        instance,
        options.name or name,
        strict=options.strict,
        verify=options.verify,
        fixed_sizes=options.fixed_sizes,
    )
    if options.market is not None:
        _core.set_market(root, options.market)
    _core.look_ahead(root)


def _where(fn: FunctionType) -> str:
    return f"{place(fn.__code__.co_filename, fn.__code__.co_firstlineno)} in {fn.__qualname__}()"
