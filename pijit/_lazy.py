"""A block in which operators of torch wait for each other, across functions: `with pijit.lazy():`.

How is told in `_lazy_modes.py`, which imports torch.
"""

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pijit import _adapters, _core
from pijit._config import OFF
from pijit.api import market_for

if TYPE_CHECKING:
    from pijit._lazy_modes import Cut, Waiting

_here = threading.local()  # `waiting`: of the block that this thread is in


class lazy:
    """A block in which operators of torch wait until a value is read, and run together then.

    The operators that wait are one graph, whatever functions they are called in. It is recorded and replayed like a
    jitted function, and compiled if a backend is asked for. The numbers are those of eager execution, and so are forms,
    identity, views, random numbers and the graph of autograd. What cannot wait is a *cut*: what waits is run before it.

    An error that hangs on data, such as an index that is out of range, is raised where the operators run, with a note
    that names the line. Other threads see results when the block has ended, and memory that the block reads is not to
    be written behind torch's back.

    Args:
        backend: as for `jit`; None: native replay, bit for bit.

    Attributes:
        cuts: of the blocks so far: each has `.place`, `.reason` and `.operators`, the number of those that had waited.

    Raises:
        UsageError: `backend` is of the wrong type.
        BackendError: there is no such backend, or it is not installed.

    Example:
        >>> import pijit
        >>> with pijit.lazy() as block:
        ...     pass
        >>> print(block)
        nothing has waited
    """

    def __init__(self, *, backend: str | Sequence[str] | None = None) -> None:
        market_for(backend, None, "lazy")
        self.cuts: list[Cut] = []
        self._backend = backend
        self._entered: list[Any] = []

    def __enter__(self) -> "lazy":
        """In a block within another, what waits is run where the inner one begins and ends."""
        if OFF:
            return self
        _adapters.ensure()
        from pijit import _lazy_modes

        outer: Waiting | None = getattr(_here, "waiting", None)
        if outer is not None:
            outer.run("a block within begins")
            self._entered.append((outer, (), outer.backend, len(outer.cuts)))
            outer.backend = self._backend
            return self
        waiting = _here.waiting = _lazy_modes.Waiting(self._backend)
        modes = _lazy_modes.Operators(waiting), _lazy_modes.Reads(waiting)
        for mode in modes:
            mode.__enter__()  # type: ignore[no-untyped-call]
        self._entered.append((waiting, modes, None, 0))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if OFF:
            return
        waiting, modes, backend, before = self._entered.pop()
        for mode in reversed(modes):
            mode.__exit__(kind, error, traceback)
        if modes:
            del _here.waiting
        try:
            waiting.run("the block ends")
        finally:
            waiting.backend = backend
            self.cuts += waiting.cuts[before:]

    def __str__(self) -> str:
        return "\n".join(map(str, self.cuts)) or "nothing has waited"


for _method in (lazy.__init__, lazy.__enter__, lazy.__exit__):
    _core.set_mark(_method, "skip", "operators wait in the block")
