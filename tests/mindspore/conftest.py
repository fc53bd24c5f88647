"""Tests here run where MindSpore is: `make test-mindspore`, which first writes what torch gives."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "graph"))
