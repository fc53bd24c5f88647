"""What a newcomer tries that pijit does not take, and what the right thing is called."""

import difflib
from collections.abc import Iterable, Sequence
from types import CodeType, ModuleType
from typing import Any

from pijit.errors import UsageError

_FOUND_OUT = "pijit finds out by itself which arguments and sizes vary; leave it out"
_STEPS_ASIDE = "`strict=True` raises where pijit would step aside"
_FROM_CALLS = "the first call is recorded; leave it out"
_PLACED = "tensors stay on the devices where they are; leave it out"
_KEPT = "arguments are never overwritten; leave it out"
_NO_MODES = "native replay has no modes; leave it out"

# Keywords of torch.compile, torch.jit.trace, jax.jit, tf.function and numba.jit, and what to do here.
FOREIGN = {
    "fullgraph": _STEPS_ASIDE,
    "mode": _NO_MODES,
    "disable": "`pijit.skip(fn)` leaves a function to CPython, `pijit.unjit(fn)` gives one back, "
    "`pijit.disable()` stops all",
    "static_argnums": _FOUND_OUT,
    "static_argnames": _FOUND_OUT,
    "abstracted_axes": _FOUND_OUT,
    "donate_argnums": _KEPT,
    "donate_argnames": _KEPT,
    "keep_unused": _FOUND_OUT,
    "inline": "functions that `fn` calls are followed; leave it out",
    "device": _PLACED,
    "in_shardings": _PLACED,
    "out_shardings": _PLACED,
    "compiler_options": "those of a backend go into `options={...}`",
    "jit_compile": "`backend='auto'` asks the compilers that are installed",
    "example_inputs": _FROM_CALLS,
    "check_trace": "`verify=n` compares every n-th replay with CPython",
    "input_signature": "`signature={'x': 'float32[batch, 8]'}` says what is taken",
    "reduce_retracing": _FOUND_OUT,
    "nopython": _STEPS_ASIDE,
    "parallel": _NO_MODES,
    "fastmath": "results are those of CPython, bit for bit; leave it out",
}


def closest(wrong: object, words: Iterable[str], *, cutoff: float = 0.6) -> str:
    """The word that is most like what was written; empty: none is."""
    return next(iter(difflib.get_close_matches(str(wrong), list(words), 1, cutoff)), "")


def hint(wrong: object, words: Iterable[str]) -> str:
    """ "; the nearest is 'onnx'", to end the sentence that lists the words; empty: none is near."""
    near = closest(wrong, words)
    return f"; the nearest is {near!r}" if near else ""


def nearest(wrong: str, words: Iterable[str]) -> str:
    """ " (the nearest is 'onnx'; there are fx, json, onnx)", to end the sentence that `wrong` does not exist."""
    words = list(words)
    near = closest(wrong, words)
    return " (" + (f"the nearest is {near!r}; " if near else "") + f"there are {', '.join(words)})"


def check_keywords(unknown: dict[str, object], known: Sequence[str]) -> None:
    """`UsageError` for the first unknown keyword of `jit`: what it is called here, or the nearest one."""
    for wrong in unknown:
        advice = f"; {FOREIGN[wrong]}" if wrong in FOREIGN else hint(wrong, known)
        raise UsageError(f"pijit.jit() has no option {wrong!r} (it has {', '.join(known)}){advice}")


def check_thing(thing: Any, inner: object, function: str) -> None:
    """`UsageError` if `thing`, which is made of `inner`, cannot be what `pijit.<function>()` is asked about."""
    if isinstance(thing, str):
        raise UsageError(f"pijit.{function}() takes the function itself, not its name {thing!r}")
    if not callable(inner) and not isinstance(inner, (CodeType, ModuleType)):
        raise UsageError(
            f"pijit.{function}() takes a function, a method or an object with a __call__, such as a module; "
            f"not {describe(thing)}"
        )


def check_no_function(given: object, function: str) -> None:
    """`UsageError` if `@pijit.<function>` was written without parentheses."""
    if given is None:
        return
    if callable(given):
        raise UsageError(f"pijit.{function} takes options only; write @pijit.{function}(), or pijit.jit(fn) for one")
    raise UsageError(f"pijit.{function}() takes options by keyword, not {given!r}")


def describe(thing: object) -> str:
    """A thing for people, by its type and, if it has one, its name; runs no `__repr__` of the program."""
    if thing is None:
        return "None"
    name = getattr(thing, "__qualname__", None)
    return f"{type(thing).__qualname__} {name!r}" if isinstance(name, str) else f"{type(thing).__qualname__} object"
