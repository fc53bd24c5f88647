"""Traces ahead of time: `save`, `load` and `aot`."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

from pijit import _adapters, _core, _kept
from pijit._config import OFF
from pijit._roots import function_of, root_of
from pijit.api import jit, unjit
from pijit.errors import CacheError, UsageError

Callee = TypeVar("Callee", bound=Callable[..., Any])

_CALLS = 3  # the first is recorded; what was learnt by the second may be recorded once more


def aot(fn: Callee, inputs: Sequence[tuple[Any, ...]]) -> Callee:
    """Jit `fn`, and call it until these calls are replayed: later ones like them record nothing.

    Args:
        fn: as for `pijit.jit`. It is called a few times with each of the inputs, so what it does to them, to the
            program and to random numbers happens as often.
        inputs: the positional arguments of the calls, a tuple for each.

    Returns:
        What `pijit.jit(fn)` does.

    Raises:
        UsageError: there are no inputs, or one is no tuple.

    Example:
        >>> import torch, pijit
        >>> net = pijit.aot(torch.nn.Linear(4, 2), [(torch.ones(1, 4),), (torch.ones(8, 4),)])
        >>> pijit.status(net).state
        'replaying'
    """
    _check(inputs, "aot")
    made = jit(fn)
    for arguments in inputs:
        for _ in range(_CALLS):
            made(*arguments)
    return made


def save(fn: Callable[..., Any], path: str | os.PathLike[str], inputs: Sequence[tuple[Any, ...]] = ()) -> None:
    """Write the traces of `fn` into a file, for `pijit.load` in another process.

    Weights are not in it: the other process has the same function or module, with any weights of the same kind.

    Args:
        fn: what was jitted, or what is to be, as `pijit.aot` does with `inputs`.
        path: the file; it is written whole or not at all.
        inputs: calls to make first; may be empty if `fn` has been called.

    Raises:
        CacheError: there is no trace, or none that another process could use; the message says why.
        UsageError: an input is no tuple.

    Example:
        >>> import pathlib, tempfile, torch, pijit
        >>> net, x = torch.nn.Linear(4, 2), torch.ones(1, 4)
        >>> with tempfile.TemporaryDirectory() as place:
        ...     pijit.save(net, pathlib.Path(place, "linear.pijit"), inputs=[(x,)])
        ...     other = pijit.load(pathlib.Path(place, "linear.pijit"), torch.nn.Linear(4, 2))
        >>> bool((other(x) == torch.nn.functional.linear(x, other.weight, other.bias)).all())
        True
    """
    if OFF:
        raise CacheError("pijit is off, and has no traces to save")
    made = aot(fn, inputs) if inputs else fn
    root = root_of(made)
    if root < 0:
        raise CacheError("there are no traces to save: give `inputs`, or jit the function and call it")
    kept = _core.kept_texts(root)
    if not kept["texts"]:
        why = "; ".join(dict.fromkeys(kept["reasons"])) or "none was recorded; give `inputs`, or call the function"
        raise CacheError(f"no trace of {kept['function']} can be saved: {why}")
    _kept.write_file(Path(path).absolute(), _kept.as_line(_kept.environment()), _about(kept), kept["texts"])


def load(path: str | os.PathLike[str], fn: Callee) -> Callee:
    """Jit `fn` with the traces that `pijit.save` has written: calls like those record nothing.

    Nothing in the file is run or imported. It says which operators are called on what, so take files only from whom
    you would take a program.

    Args:
        path: the file. It must belong to you, and nobody else may write to it.
        fn: the function or module, as for `pijit.jit`.

    Returns:
        What `pijit.jit(fn)` does.

    Raises:
        CacheError: the file is none, is damaged, was made under other versions or options, or is of other code; the
            message names what differs, with both values. What was not jitted before is not jitted then.

    Example:
        >>> import pathlib, tempfile, pijit
        >>> def step(x):
        ...     return 3 * x + 1
        >>> with tempfile.TemporaryDirectory() as place:
        ...     pijit.save(step, pathlib.Path(place, "step.pijit"), inputs=[(2,)])
        ...     fast = pijit.load(pathlib.Path(place, "step.pijit"), step)
        >>> fast(5)
        16
    """
    file = Path(path).absolute()
    _adapters.ensure()  # the environment names the adapter
    now = _kept.environment()
    made_under, about = _heads(file)
    for name in sorted({*now, *made_under}):
        if now.get(name) != made_under.get(name):
            raise CacheError(f"{path} was made under {name} {made_under.get(name)!r}, and here it is {now.get(name)!r}")
    if OFF:
        return jit(fn)
    before = _is_jitted_object(fn)  # it keeps its options and traces; a function gets a second one in any case
    made = fn if before else jit(fn)
    try:
        _install(file, about, _kept.as_line(now), root_of(made))
    except CacheError:
        if not before:
            unjit(made)
        raise
    return made


def _is_jitted_object(fn: object) -> bool:
    root = root_of(fn)
    return root >= 0 and not isinstance(function_of(fn), FunctionType) and not _core.root_report(root)["automatic"]


def _install(file: Path, about: dict[str, str], made_under: str, root: int) -> None:
    """The root has the traces of the file; `CacheError` if it can have none."""
    texts, why = _core.read_kept(str(file), made_under)
    if not texts:
        raise CacheError(f"{file} cannot be used: {why}")
    here = _about(_core.kept_texts(root))
    if about["code"] != here["code"]:
        raise CacheError(
            f"{file} is of other code: {about['function']}: {about['code']} in the file; "
            f"{here['function']}: {here['code']} here"
        )
    installed, reasons = _core.install_kept(root, texts, [])
    if not installed:
        raise CacheError(f"{file} is of other code: {'; '.join(dict.fromkeys(reasons))}")


def _about(kept: "_core.KeptTexts") -> dict[str, str]:
    return {"function": kept["function"], "code": kept["code"]}


def _heads(file: Path) -> tuple[dict[str, str], dict[str, str]]:
    """What a file says that it was made under, and of what."""
    import json  # which not every program pays for

    try:
        with open(file, "rb") as stream:
            heading, *lines = (stream.readline(1 << 16).decode() for _ in range(3))
        made_under, about = (
            json.loads(line.removeprefix(word)) for line, word in zip(lines, ("environment ", "root "), strict=True)
        )
        whole = heading.rstrip() == _core.kept_heading and isinstance(made_under, dict)
        about = {name: str(about[name]) for name in ("function", "code")}
    except OSError as error:
        raise CacheError(f"{file} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError):
        whole, made_under, about = False, {}, {}
    if not whole:
        raise CacheError(f"{file} is no file of pijit.save, or is damaged")
    return made_under, about


def _check(inputs: Sequence[tuple[Any, ...]], where: str) -> None:
    if not inputs or not all(isinstance(arguments, tuple) for arguments in inputs):
        raise UsageError(f"{where}: `inputs` is a list of tuples, the positional arguments of one call each")
