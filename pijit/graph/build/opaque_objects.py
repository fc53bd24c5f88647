"""Objects of Python that stand among the arguments of a graph while it is built, and that it cannot hold."""

from collections.abc import Mapping
from typing import Any

from pijit.graph.model import Slice


class Opaque:
    """An object of Python that is no argument of a graph."""

    def __init__(self, what: str, called: bool = False) -> None:
        self.what = what
        self.called = called  # an opaque call has given it


def plain(argument: Any) -> Any:
    """Lists as tuples, as arguments have them."""
    if isinstance(argument, list | tuple):
        return tuple(map(plain, argument))
    return argument


def holds_opaque(argument: Any) -> bool:
    """An opaque object is in it."""
    if isinstance(argument, Opaque):
        return True
    if isinstance(argument, Slice):
        return holds_opaque((argument.start, argument.stop, argument.step))
    if isinstance(argument, tuple | list):
        return any(map(holds_opaque, argument))
    return isinstance(argument, Mapping) and any(map(holds_opaque, argument.values()))


def without_opaque(argument: Any) -> Any:
    """With None in the place of opaque objects."""
    if isinstance(argument, Opaque):
        return None
    if isinstance(argument, tuple | list):
        return type(argument)(map(without_opaque, argument))
    if isinstance(argument, Mapping):
        return {key: without_opaque(item) for key, item in argument.items()}
    return argument
