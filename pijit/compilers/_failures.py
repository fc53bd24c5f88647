"""Says what a compiler of the program, or of another package, did wrong: once, with its own traceback."""

import logging
import threading
import traceback
from pathlib import Path

from pijit import _backend_names
from pijit.compilers._base import Backend
from pijit.compilers._compared import Differs

_log = logging.getLogger("pijit")
_OURS = str(Path(__file__).parents[1])
_lock = threading.Lock()
_told: set[tuple[str, str, str]] = set()  # backend, kind of exception, its last line in code that is not ours


def tell(backend: Backend, error: BaseException) -> None:
    """A backend has failed, with this error of pijit; its cause is what the backend raised.

    Of pijit's own backends only the log has it: what they cannot take is no mistake of the program.
    """
    if backend.quiet or backend.name in _backend_names.OWN:
        _log.info("pijit: %s", error)
        return
    if isinstance(error.__cause__, Differs):  # the comparison has said it, with what shows it again
        return
    cause = error.__cause__ or error
    lines = own_traceback(cause)
    about = (backend.name, type(cause).__qualname__, lines[-2] if len(lines) > 1 else str(error))
    with _lock:
        if about in _told:
            return
        _told.add(about)
    _log.warning("pijit: %s; native replay answers in its place%s", error, "".join(f"\n{line}" for line in lines))


def own_traceback(error: BaseException) -> list[str]:
    """The lines of its traceback without frames of pijit's; none if all of them are."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OURS)]
    if not frames:
        return []
    made = ["Traceback (most recent call last):\n", *traceback.format_list(frames)]
    made += traceback.format_exception_only(type(error), error)
    return "".join(made).rstrip().split("\n")


def forget() -> None:
    """All may be said again."""
    with _lock:
        _told.clear()
