"""A block of work beside the program that starts no full garbage collection (csrc/cpython/collector.h)."""

from types import TracebackType

from pijit import _core


class Quietly:
    """The block; reentrant, on any thread."""

    __slots__ = ()

    def __enter__(self) -> None:
        _core.hold_full_collections()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _core.allow_full_collections()


quietly = Quietly()
