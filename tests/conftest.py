"""For all tests."""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    """What the imports made stays; tests that collect need not look through it each time."""
    gc.collect()
    gc.freeze()
