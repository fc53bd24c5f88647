"""The helpers of these tests as modules: pytest imports test files without a path."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
