"""The threads that compile beside the program. Calls of the program run between slices of their work."""

import sys
import threading
import weakref
from types import TracebackType

from pijit import _core

_threads: "weakref.WeakSet[threading.Thread]" = weakref.WeakSet()


class Beside:
    """A block in which this thread is one of them, and waits for work."""

    __slots__ = ()

    def __enter__(self) -> None:
        _threads.add(threading.current_thread())
        _core.join_beside()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _core.leave_beside()


class Compiling:
    """A block in which this thread works: it has the GIL in slices (csrc/hook/beside.h)."""

    __slots__ = ()

    def __enter__(self) -> None:
        _core.begin_compiling()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _core.end_compiling()


beside = Beside()
compiling = Compiling()


def others_run() -> bool:
    """Threads of the program other than this one are in code of Python, waiting ones included."""
    own = {thread.ident for thread in list(_threads)} | {threading.get_ident()}
    return any(ident not in own for ident in sys._current_frames())
