"""Words of torch, such as dtypes and devices, as tokens of a graph."""

from pijit import _torch_objects
from pijit.graph.model import Token


def token(thing: object) -> Token | None:
    """The token that stands for a dtype, device, layout or memory format of torch; None if it is none of these."""
    found = _torch_objects.word(thing)
    return None if found is None else Token(*found)
