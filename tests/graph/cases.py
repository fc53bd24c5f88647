"""Cases of every row of the vocabulary: arguments by name, with arrays of NumPy; for the tests of each framework."""

from __future__ import annotations

from typing import Any

from cases_arrays import ARRAYS
from cases_branches import BRANCHES
from cases_layers import LAYERS
from cases_maths import MATHS
from cases_training import TRAINING

CASES: dict[str, list[dict[str, Any]]] = {**MATHS, **ARRAYS, **LAYERS, **TRAINING, **BRANCHES}
