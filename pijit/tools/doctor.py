"""Looks at the installation: checks with what mends them, the environment for a bug report, a demonstration."""

import importlib
import importlib.util
import os
import platform
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from pijit import _adapters, _core
from pijit._config import OFF, OPTIONS, config
from pijit._version import __version__
from pijit.api import jit, status, traces
from pijit.errors import AdapterError
from pijit.traces import plural


class Check(NamedTuple):
    """One check: what is looked at, whether it is as it must be, what was found, and the command that mends it."""

    name: str
    good: bool
    found: str
    mend: str

    def __str__(self) -> str:
        mend = "" if self.good else f"\n      mend: {self.mend}"
        return f"{'ok' if self.good else 'NOT'!s:4}{self.name}: {self.found}{mend}"


def checks() -> list[Check]:
    """Everything that must fit together."""
    return [
        _check_python(),
        _check_system(),
        _check_switch(),
        *map(_check_adapter, _adapters.ADAPTERS),
        _check_replay(),
    ]


def _check_python() -> Check:
    found = f"{platform.python_implementation()} {platform.python_version()}"
    good = platform.python_implementation() == "CPython" and sys.version_info[:2] == (3, 11)
    return Check("Python", good, found, "python3.11 -m venv .venv && .venv/bin/pip install pijit")


def _check_system() -> Check:
    return Check("system", sys.platform == "linux", platform.platform(), "use Linux, or a container of it")


def _check_switch() -> Check:
    return Check("switch", not OFF, "off by PIJIT=0" if OFF else "on", "unset PIJIT")


def _check_adapter(framework: str) -> Check:
    """The framework is there, and its adapter attaches."""
    name = f"adapter of {framework}"
    if importlib.util.find_spec(framework) is None:
        return Check(
            name, False, f"{framework} is not installed", f"pip install --no-build-isolation 'pijit[{framework}]'"
        )
    version = getattr(importlib.import_module(framework), "__version__", "of unknown version")
    try:
        _adapters.ensure()
    except AdapterError as error:
        found, _, mend = str(error).partition("; run: ")
        return Check(name, False, found, mend)
    return Check(name, True, f"attached to {framework} {version}", "")


def _check_replay() -> Check:
    """A function is recorded and replayed with the same result."""
    mend = "pip install --no-build-isolation --force-reinstall pijit"
    if OFF:
        return Check("replay", False, "PIJIT=0 in the environment", "unset PIJIT")

    @jit
    def example(items: list[int]) -> list[int]:
        return [item + 1 for item in items]

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
    lines += [f"{framework}: {_framework(framework, module)}" for framework, module in _adapters.ADAPTERS.items()]
    lines += [f"option: {name} = {getattr(config, name)!r}" for name in OPTIONS]
    lines += [f"variable: {name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("PIJIT")]
    return "\n".join(lines)


def _framework(framework: str, adapter: str) -> str:
    if importlib.util.find_spec(framework) is None:
        return "not installed"
    version = getattr(importlib.import_module(framework), "__version__", "of unknown version")
    try:
        return f"{version}; adapter built against {importlib.import_module(adapter).built_against()}"
    except ImportError as error:
        return f"{version}; no adapter ({error})"


def demo() -> str:
    """A function called plain, recorded and replayed, with its trace."""
    fn, argument, same = _example()
    fast = jit(fn, name="example")
    expected, plain = _fastest(fn, argument, 20)
    first, recorded = _fastest(fast, argument, 1)
    again, replayed = _fastest(fast, argument, 20)
    agree = "the same" if same(expected, first) and same(expected, again) else "NOT the same: please report it"
    lines = [
        f"plain    {1e6 * plain:9.1f} us",
        f"recorded {1e6 * recorded:9.1f} us, the first call",
        f"replayed {1e6 * replayed:9.1f} us, with {plural(len(traces(fast)), 'traces')}",
        f"results: {agree}",
        "",
        str(traces(fast)),
    ]
    return "\n".join(lines)


def _example() -> tuple[Callable[[Any], Any], Any, Callable[[Any, Any], bool]]:
    """A function, its argument, and how results are compared: of tensors if there is a framework for them."""
    if importlib.util.find_spec("torch") is None:
        return (lambda rows: [sum(row) for row in rows]), [[1, 2], [3, 4]], lambda a, b: a == b
    import torch

    weight, bias = torch.randn(16, 16), torch.randn(16)

    def layer(x: Any) -> Any:
        y = x @ weight + bias
        return torch.relu(y) * 2

    return layer, torch.randn(4, 16), lambda a, b: bool(torch.equal(a, b))


def _fastest(fn: Callable[[Any], Any], argument: Any, calls: int) -> tuple[Any, float]:
    """The last result, and the seconds of the fastest call."""
    seconds = []
    for _ in range(calls):
        start = time.perf_counter()
        result = fn(argument)
        seconds.append(time.perf_counter() - start)
    return result, min(seconds)
