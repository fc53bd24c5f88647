"""One line on a terminal that says what compiles, where that takes more than two seconds; it goes when that is done.

Nothing is shown where standard error is no terminal, where `rich` is not installed, and with the option `quiet`.
"""

import contextlib
import importlib.util
import os
import sys
import threading
import time
from typing import Any

from pijit._config import config
from pijit.compilers._compiler_threads import beside

_AFTER = 2.0  # seconds that something compiles before it is shown
_EACH = 0.5  # seconds between two looks

# What compiles: when that began, and the backend. Guarded by the lock, as is the thread.
_running: dict[float, str] = {}
_lock = threading.RLock()
_thread: threading.Thread | None = None
_ended = threading.Event()


def begin(backend: str, began: float) -> None:
    """Something compiles from now on.

    Args:
        backend: its name.
        began: on the monotonic clock; `end` is told it, too.
    """
    global _thread  # noqa: PLW0603
    if not _is_shown():
        return
    with _lock:
        _running[began] = backend
        if _thread is None:
            _ended.clear()
            _thread = threading.Thread(target=_show, name="pijit-progress", daemon=True)
            _thread.start()


def end(began: float) -> None:
    """It compiles no more."""
    with _lock:
        _running.pop(began, None)
        if not _running:
            _ended.set()


def stop() -> None:
    """At the end of the interpreter: the line goes."""
    with _lock:
        thread = _thread
        _running.clear()
        _ended.set()
    if thread is not None:
        thread.join(_EACH)


def _is_shown() -> bool:
    try:
        return sys.stderr.isatty() and not config.quiet and importlib.util.find_spec("rich") is not None
    except (AttributeError, ValueError, OSError):  # no standard error, or a closed one
        return False


def _show() -> None:
    """A thread: ends when nothing compiles."""
    global _thread  # noqa: PLW0603
    console: Any = None
    with beside:
        while not _ended.wait(_EACH):
            with _lock:
                first = min(_running, default=None)
                line = "" if first is None else _line(first)
            if line:
                console = console or _console()
                _write(console, line)
        if console is not None:
            _write(console, "")
    with _lock:
        _thread = None
        if _running:  # something began meanwhile
            began, backend = next(iter(_running.items()))
            begin(backend, began)


def _line(first: float) -> str:
    seconds = time.monotonic() - first
    if seconds < _AFTER:
        return ""
    more = len(_running) - 1
    return f"pijit: compiling with {_running[first]}{f' and {more} more' if more else ''}, {seconds:.0f} s"


def _console() -> Any:
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def _write(console: Any, line: str) -> None:
    """Write over the line that is there; the cursor stays in it, so that the next one is written over it, too."""
    from rich.control import Control
    from rich.segment import ControlType
    from rich.text import Text

    with contextlib.suppress(OSError, ValueError):  # the terminal is gone
        console.control(Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2)))
        if line:
            console.print(Text(line, style="dim", no_wrap=True, overflow="ellipsis"), end="")


def _after_fork() -> None:
    """A child has no thread, and nothing that compiles."""
    global _lock, _thread
    _lock, _thread = threading.RLock(), None
    _running.clear()


os.register_at_fork(after_in_child=_after_fork)
