"""Builds the probe module from the core's sources; needs a C++ compiler."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for describe.py
ROOMS = ("cpython", "ir", "numpy", "pandas", "plan", "guard", "exec")


def _compiled() -> ModuleType:
    """compiled.py of the directory above, which is not on the path."""
    spec = importlib.util.spec_from_file_location("compiled", HERE.with_name("compiled.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def probe_module(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    made: ModuleType = _compiled().module(tmp_path_factory, HERE / "probe.cpp", ROOMS)
    return made


@pytest.fixture
def probe(probe_module: ModuleType) -> Iterator[ModuleType]:
    """The probe, disarmed after the test."""
    yield probe_module
    probe_module.disarm()
