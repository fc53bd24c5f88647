"""The module that runs programs, for all tests here: pytest imports test files without a path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
