"""Tests here import the models of the examples and the comparison of the adapter's tests by name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests" / "torch"), str(TOP / "examples")]


@pytest.fixture(autouse=True)
def _without_a_runtime(monkeypatch):
    """Beside a torch for CUDA, transformers has the runtime say whether a stream is captured.

    Without a GPU that raises, in an opaque call which is not the models' and which tests would count.
    """
    if torch.version.cuda is not None and not torch.cuda.is_available():
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
