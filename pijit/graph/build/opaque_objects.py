"""Objects of Python that stand among the arguments of a graph while it is built, and that it cannot hold."""

from collections.abc import Iterator, Mapping
from typing import Any

from pijit.graph.model import Slice


class Opaque:
    """An object of Python that is no argument of a graph."""

    def __init__(self, what: str, called: bool = False) -> None:
        self.what = what
        self.called = called  # an opaque call has given it


class Known(Opaque):
    """An array of NumPy, or a dtype of one, that is the same in each call."""

    def __init__(self, made: Any) -> None:
        super().__init__("an array of NumPy", called=True)
        self.made = made


# What a function gives that does not know the call that it is asked about.
UNKNOWN: Any = Opaque("a call")


def plain(argument: Any) -> Any:
    """Lists as tuples, as arguments have them."""
    if isinstance(argument, list | tuple):
        return tuple(map(plain, argument))
    return argument


def opaque_in(argument: Any) -> Iterator[Opaque]:
    """The opaque objects in it."""
    if isinstance(argument, Opaque):
        yield argument
    elif isinstance(argument, Slice):
        yield from opaque_in((argument.start, argument.stop, argument.step))
    elif isinstance(argument, tuple | list):
        for each in argument:
            yield from opaque_in(each)
    elif isinstance(argument, Mapping):
        yield from opaque_in(tuple(argument.values()))


def holds_opaque(argument: Any) -> bool:
    """An opaque object is in it."""
    return next(opaque_in(argument), None) is not None


def without_opaque(argument: Any) -> Any:
    """With None in the place of opaque objects."""
    if isinstance(argument, Opaque):
        return None
    if isinstance(argument, tuple | list):
        return type(argument)(map(without_opaque, argument))
    if isinstance(argument, Mapping):
        return {key: without_opaque(item) for key, item in argument.items()}
    return argument
