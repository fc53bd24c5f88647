"""The vocabulary in NumPy."""

import numpy as np

from pijit.graph.forms import arrays

globals().update(vars(arrays.forms(np)))
