"""The threads that compile beside the program."""

import sys
import threading
import weakref

_threads: "weakref.WeakSet[threading.Thread]" = weakref.WeakSet()


def enter() -> None:
    """This thread is one of them."""
    _threads.add(threading.current_thread())


def others_run() -> bool:
    """Threads of the program other than this one are in code of Python, waiting ones included."""
    own = {thread.ident for thread in list(_threads)} | {threading.get_ident()}
    return any(ident not in own for ident in sys._current_frames())
