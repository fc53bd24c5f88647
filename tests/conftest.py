"""For all tests.

What depends on time is off, here and in processes that tests start: calls that CPython runs to compare, budgets of
recordings, and calls that pass their role on once they have run long. Tests of these switch them on.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def _module_beside(name: str) -> ModuleType:
    """Of this directory, which is not on the path: where torch is not installed, `import torch` would find ours."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


differs = _module_beside("differs")

os.environ.setdefault("PIJIT_GIVE_UP", "0")
os.environ.setdefault("PIJIT_RECORD_BUDGET", "0")
os.environ.setdefault("PIJIT_RECORD_SHARE", "0")
os.environ.setdefault("PIJIT_HOOK_SHARE", "0")
os.environ.setdefault("PIJIT_LONG_CALL", "1000000")
# Loops over numbers are recorded: that is what most tests are about.
os.environ.setdefault("PIJIT_NUMBER_LOOPS", "0")
# What one test has recorded is for no other.
os.environ.setdefault("PIJIT_CACHE", "0")


class _NoTorch(PathFinder):
    """Torch is not there for tests of the core alone: a module that imports it would have all tests of its process run
    in plain Python, since there is no adapter. So it is skipped, as where torch is not installed.
    """

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return None if fullname == "torch" else super().find_spec(fullname, path, target)


def _is_core_alone() -> bool:
    found = importlib.util.find_spec("pijit")
    folders = [Path(folder) for folder in (found and found.submodule_search_locations) or ()]
    return bool(folders) and not any(True for folder in folders for _ in folder.glob("_torch_[0-9]*"))


if _is_core_alone():
    sys.meta_path[sys.meta_path.index(PathFinder)] = _NoTorch


@pytest.hookimpl(tryfirst=True)  # before slow ones are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that cannot hold on this CPython; and cases that are slow since others of their test stand for them."""
    cases: Counter[str] = Counter()
    for item in items:
        why = differs.reason(item.nodeid)
        if why is not None:
            item.add_marker(pytest.mark.skip(reason=why))
        sampled = item.get_closest_marker("sampled")
        if sampled is not None:
            test = item.nodeid.partition("[")[0]
            if cases[test] % sampled.args[0]:
                item.add_marker(pytest.mark.slow)
            cases[test] += 1


def pytest_collection_finish() -> None:
    """What the imports made stays; tests that collect need not look through it each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def _small_heap() -> None:
    """What the modules before left alive is not looked through: many tests collect, at each of their programs."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _no_module_is_noted() -> Iterator[None]:
    """Once torch.compile was used, each module that is made is noted, by calls that a trace leaves to CPython. So what
    later tests count would depend on who came before.
    """
    yield
    torch = sys.modules.get("torch")
    module = getattr(getattr(torch, "nn", None), "Module", None)
    if module is None or getattr(module, "___needs_generation_tag_patch", True):
        return
    for name in ("__init__", "__setstate__"):
        (plain,) = getattr(module, name).__closure__
        setattr(module, name, plain.cell_contents)
    module.___needs_generation_tag_patch = True


@pytest.fixture
def no_collections() -> Iterator[None]:
    """For tests that watch when things die: when cyclic garbage goes is outside the promise."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def outcome(seen: Callable[[Any], Any]) -> Callable[..., tuple[Any, ...]]:
    """What a call gives or raises, what it warns of and for which line, and what its arguments are afterwards.

    A directory whose tests take it has a fixture `seen`: all that a program can see of a value.
    """

    def run(function: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                result = seen(function(*args))
            except Exception as error:
                result = type(error), str(error)
        told = [(each.category, str(each.message), each.filename, each.lineno) for each in caught]
        return result, told, [seen(arg) for arg in args]

    return run
