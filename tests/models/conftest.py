"""Tests here import the models of the examples and the comparison of the adapter's tests by name."""

from __future__ import annotations

import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests" / "torch"), str(TOP / "examples")]
