"""The rows of the vocabulary by families: signature, meaning, and patterns of ATen's operators; see `vocabulary`.

Each line of a family has a signature, a meaning and patterns. A pattern without parentheses takes the row's parameters
in their order. In meanings, axis None and axis () are all axes, as in torch.
"""

from pijit.graph.vocabulary.arrays import ARRAYS
from pijit.graph.vocabulary.layers import LAYERS
from pijit.graph.vocabulary.maths import MATHS
from pijit.graph.vocabulary.recurrent import RECURRENT
from pijit.graph.vocabulary.training import TRAINING

FAMILIES: dict[str, list[tuple[str, ...]]] = {**MATHS, **ARRAYS, **LAYERS, **RECURRENT, **TRAINING}
