"""Builds the owners of a recording's state as a module of their own; needs a C++ compiler."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent
ROOMS = ("cpython", "ir", "guard")
SOURCES = (
    "record/pace.cpp",
    "record/state/reads.cpp",
    "record/state/counting_guards.cpp",
    "record/state/heap.cpp",
    "record/state/undo.cpp",
    "record/state/key_list.cpp",
)


def _compiled() -> ModuleType:
    """compiled.py of the directory above, which is not on the path."""
    spec = importlib.util.spec_from_file_location("compiled", HERE.with_name("compiled.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def owners_module(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    made: ModuleType = _compiled().module(tmp_path_factory, HERE / "owners.cpp", ROOMS, SOURCES)
    return made


@pytest.fixture
def owners(owners_module: ModuleType) -> ModuleType:
    """The owners of a recording that has just begun."""
    owners_module.begin()
    return owners_module
