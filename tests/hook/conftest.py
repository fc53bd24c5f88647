"""Tests of traces in the middle of functions share what `in_the_middle.py` has."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
