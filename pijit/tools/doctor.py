"""Looks at the installation: checks with what mends them, the environment for a bug report, a demonstration."""

import importlib
import importlib.util
import os
import platform
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from pijit import _adapter_cache, _adapter_choice, _adapters, _built, _core, _installation, _torch_objects
from pijit._config import OFF, OPTIONS, WHY_OFF, config
from pijit._installation import Check
from pijit._version import __version__
from pijit.api import jit, status, traces
from pijit.errors import AdapterError
from pijit.traces import duration, plural

_DEMO_CALLS, _DEMO_LINES = 200, 24


def checks() -> list[Check]:
    """Everything that must fit together."""
    return [
        *_installation.checks(),
        _check_switch(),
        _check_adapters(),
        *map(_check_adapter, _adapters.ADAPTERS),
        _check_replay(),
    ]


def _check_switch() -> Check:
    mend = _built.reinstall() if _core.layout_trouble() else "unset PIJIT"
    return Check("switch", not OFF, f"off: {WHY_OFF}" if OFF else "on", mend)


def _check_adapters() -> Check:
    """For which torches there are adapters, of pijit's own and built here."""
    own, built = _adapter_choice.with_adapter(), _adapter_cache.built()
    found = f"for torch {', '.join(own)}" if own else "none came with pijit"
    for path in built:
        why = _adapter_cache.why_not(path)
        found += f"; built here: {path}" + (f" (not used: {why})" if why else "")
    return Check("adapters", bool(own or built), found, _adapter_choice.BUILD)


def _check_adapter(framework: str) -> Check:
    """The framework is there, and its adapter attaches."""
    name = f"adapter of {framework}"
    if importlib.util.find_spec(framework) is None:
        return Check(name, False, f"{framework} is not installed", f"pip install {framework}")
    version, trouble = _import(framework)
    if trouble:
        return Check(name, False, f"import {framework} fails: {trouble}", f"python -c 'import {framework}'")
    try:
        _adapters.ensure()
    except AdapterError as error:
        found, _, mend = str(error).partition("; run: ")
        return Check(name, False, found, mend)
    if why := _adapters.refused():
        found, _, mend = why.partition("; to build an adapter, run: ")
        return Check(name, False, found, mend)
    return Check(name, True, f"{_adapter_of(framework)} is attached to {framework} {version}", "")


def _adapter_of(framework: str) -> str:
    """The file of the adapter that is attached, and what it was built against."""
    adapter = _adapters.module(framework)
    assert adapter is not None
    assert adapter.__file__ is not None
    file = adapter.__file__
    inside = os.path.dirname(file) == os.path.dirname(_core.__file__)
    return f"{os.path.basename(file) if inside else file} (built against {adapter.built_against()})"


def _import(framework: str) -> tuple[str, str]:
    """The version of a framework, and what is wrong with it if it cannot be imported."""
    try:
        return str(getattr(importlib.import_module(framework), "__version__", "of unknown version")), ""
    except Exception as error:  # what is installed may be broken in any way, which is what is asked here
        return "", f"{type(error).__name__}: {error}"


def _check_replay() -> Check:
    """A function is recorded and replayed with the same result."""
    mend = _built.reinstall()
    if OFF:
        return Check("replay", False, WHY_OFF, "unset PIJIT")

    def add(items: list[int]) -> list[int]:
        return [item + 1 for item in items]

    try:
        example = jit(add)
    except AdapterError:  # the check of the adapter has said what and why
        return Check("replay", False, "nothing is replayed without the adapter", mend)
    if _adapters.refused():
        return Check("replay", False, "nothing is replayed without the adapter", _adapter_choice.BUILD)
    good = all(example([3, 1, 2]) == [4, 2, 3] for _ in range(3)) and status(example).state == "replaying"
    return Check("replay", good, f"the example is {status(example).state}", mend)


def environment() -> str:
    """Versions, options and variables."""
    lines = [
        f"pijit: {__version__} ({'off' if OFF else 'on'}), from {os.path.dirname(_core.__file__)}",
        f"python: {platform.python_implementation()} {sys.version.replace(chr(10), ' ')}",
        f"executable: {sys.executable}",
        f"system: {platform.platform()}, {os.cpu_count()} processors",
    ]
    lines += [f"{framework}: {_framework(framework)}" for framework in _adapters.ADAPTERS]
    kind, count = _torch_objects.accelerator()
    lines += [f"devices: cpu, {count} of {kind}" if kind else "devices: cpu"]
    lines += [f"option: {name} = {getattr(config, name)!r}" for name in OPTIONS]
    lines += [f"variable: {name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("PIJIT")]
    return "\n".join(lines)


def _framework(framework: str) -> str:
    if importlib.util.find_spec(framework) is None:
        return "not installed"
    version, trouble = _import(framework)
    if trouble:
        return f"cannot be imported ({trouble})"
    try:
        _adapters.ensure()
    except AdapterError as error:
        return f"{version}; {error}"
    return f"{version}; {_adapters.refused() or _adapter_of(framework)}"


def demo() -> str:
    """A model called plain, recorded and replayed, and the first lines of its trace."""
    what, fn, argument, same = _example()
    fast = jit(fn, name="example")
    expected, _ = _timed(fn, argument)
    first, recorded = _timed(fast, argument)
    plain, replayed = [], []
    agree = same(expected, first)
    for _ in range(_DEMO_CALLS):
        plain.append(_timed(fn, argument)[1])
        again, seconds = _timed(fast, argument)
        replayed.append(seconds)
        agree = agree and same(expected, again)
    usual, now = median(plain), median(replayed)
    speed = f"{usual / now:.1f} times as fast" if now < usual else "no faster here"
    text = str(traces(fast)).splitlines()
    more = len(text) - _DEMO_LINES
    lines = [
        what,
        f"plain    {duration(usual)} a call",
        f"recorded {duration(recorded)}, the first call",
        f"replayed {duration(now)} a call, {speed}, with {plural(len(traces(fast)), 'traces')}",
        f"results: {'the same, bit for bit' if agree else 'NOT the same: please report it'}",
        "",
        *text[:_DEMO_LINES],
        *([f"... and {plural(more, 'lines')} more: print(pijit.traces(fn)) shows all"] if more > 0 else []),
    ]
    return "\n".join(lines)


def _example() -> tuple[str, Callable[[Any], Any], Any, Callable[[Any, Any], bool]]:
    """What it is, a function, its argument, and how results are compared: a model, if there is a framework for it."""
    plain = "sums of rows", (lambda rows: [sum(row) for row in rows]), [[1, 2], [3, 4]], lambda a, b: a == b
    if importlib.util.find_spec("torch") is None or _import("torch")[1]:
        return plain
    _adapters.ensure()
    if _adapters.refused():
        return plain
    import torch

    class Block(torch.nn.Module):
        def __init__(self, size: int) -> None:
            super().__init__()
            self.norm = torch.nn.LayerNorm(size)
            self.up, self.down = torch.nn.Linear(size, 2 * size), torch.nn.Linear(2 * size, size)

        def forward(self, x: Any) -> Any:
            return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))

    model = torch.nn.Sequential(*(Block(32) for _ in range(8))).eval().requires_grad_(False)

    def example(x: Any) -> Any:
        return model(x)

    what = "a model of 8 residual blocks, 32 features wide, and 4 rows, without gradients"
    return what, example, torch.randn(4, 32), lambda a, b: bool(torch.equal(a, b))


def _timed(fn: Callable[[Any], Any], argument: Any) -> tuple[Any, float]:
    """The result of a call, and its seconds."""
    start = time.perf_counter()
    result = fn(argument)
    return result, time.perf_counter() - start
