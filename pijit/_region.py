"""A block of the program whose operators go to compilers that it names: `with pijit.region(backend="xla"):`.

There is one object for each choice of compilers, so that replays find the one that was recorded. The recorder knows
`region`, `__enter__` and `__exit__` by marks (csrc/record/marks.h), and leaves a node in the trace where a block begins
and ends; segments end there, and the object's market is asked for plans of those inside (csrc/plan/regions.h).
"""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from pijit import _backend_names, _core
from pijit._config import OFF
from pijit.api import market_for
from pijit.errors import UsageError


class Region:
    """What `pijit.region()` gives; to be entered any number of times, on any thread.

    Attributes:
        market: who makes plans for segments within; None: nobody.
    """

    __slots__ = ("_text", "market")

    def __init__(self, market: Any, text: str) -> None:
        self.market = market
        self._text = text

    def __repr__(self) -> str:
        return self._text

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass


_regions: dict[Any, Region] = {}


def region(backend: str | Sequence[str], *, options: Mapping[str, Any] | None = None) -> Region:
    """A block within a function that is recorded: its tensor operators are compiled by `backend`.

    What is called in the block belongs to it. Of blocks inside each other the inner one counts. In code that is not
    recorded the block does nothing, but its arguments are checked.

    Args:
        backend: as for `jit`: a name of `pijit.backends()`, several names, "auto", or "native" for native replay, bit
            for bit, in a function that was given another backend.
        options: as for `jit`.

    Returns:
        A context manager, the same one for the same arguments.

    Raises:
        UsageError: an argument is of the wrong type, or an option does not exist.
        BackendError: there is no such backend, or it is not installed.

    Example:
        >>> import pijit
        >>> @pijit.jit
        ... def step(x):
        ...     x = x * 2
        ...     with pijit.region(backend="native"):
        ...         return x + 1
        >>> step(3), step(4)
        (7, 9)
        >>> pijit.region(backend="natif")
        Traceback (most recent call last):
            ...
        pijit.errors.BackendError: no backend is called 'natif' (the nearest is 'native'; there are ...)
    """
    if backend is None:
        raise UsageError("pijit.region() needs a backend: a name of pijit.backends(), 'auto', or several names")
    given = dict(options) if isinstance(options, Mapping) else options
    try:
        names = (backend,) if isinstance(backend, str) else tuple(backend)
        functions = map(_backend_names.registered.get, names)
        key = (isinstance(backend, str), names, tuple((given or {}).items()), *functions)
        if (known := _regions.get(key)) is not None:
            return known
    except (TypeError, AttributeError):  # what cannot be a key is either wrong, or made anew each time
        key = None
    shown = f", options={given!r}" if given else ""
    made = Region(market_for(backend, given, "region"), f"pijit.region({backend!r}{shown})")
    return made if key is None else _regions.setdefault(key, made)


if not OFF:
    _core.set_mark(region, "constant", "")
    _core.set_mark(Region.__enter__, "enter", "")
    _core.set_mark(Region.__exit__, "leave", "")
