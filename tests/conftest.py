"""For all tests.

What depends on time is off, here and in processes that tests start: calls that CPython runs to compare, and budgets of
recordings. Tests of these switch them on.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for differs.py

import differs

os.environ.setdefault("PIJIT_GIVE_UP", "0")
os.environ.setdefault("PIJIT_RECORD_BUDGET", "0")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that cannot hold on this CPython."""
    for item in items:
        why = differs.reason(item.nodeid)
        if why is not None:
            item.add_marker(pytest.mark.skip(reason=why))


def pytest_collection_finish() -> None:
    """What the imports made stays; tests that collect need not look through it each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def _small_heap() -> None:
    """What the modules before left alive is not looked through: many tests collect, at each of their programs."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def no_collections() -> Iterator[None]:
    """For tests that watch when things die: when cyclic garbage goes is outside the promise."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
