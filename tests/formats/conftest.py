"""The graphs of the tests as a module: pytest imports test files without a path. And processes without pijit."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from elsewhere import Elsewhere


@pytest.fixture(scope="session")
def without_pijit(tmp_path_factory):
    process = Elsewhere(tmp_path_factory.mktemp("elsewhere"), "pijit", "graphs")
    yield process
    process.end()


@pytest.fixture(scope="session")
def without_torch(tmp_path_factory):
    process = Elsewhere(tmp_path_factory.mktemp("elsewhere"), "pijit", "torch", "graphs")
    yield process
    process.end()
