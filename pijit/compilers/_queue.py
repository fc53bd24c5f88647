"""The thread in which a market works: the hottest job first, and some wait until their segment is replayed again."""

import atexit
import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pijit import _core
from pijit.compilers import pool
from pijit.compilers._compared import Grave, graves
from pijit.compilers._compiler_threads import beside, compiling
from pijit.errors import BackendError

if TYPE_CHECKING:
    from pijit.compilers._gradient_plans import Compilations

_FIRST, _LONGEST = 0.02, 1.0  # seconds between looks at what waits
_PATIENCE = 300.0  # seconds after which a segment that was not replayed again is given up
_MOST = 64  # that wait; each holds the tensors of a call
_LAST = 0.3  # seconds that the end of the interpreter waits for the thread, after those of the pool

_log = logging.getLogger("pijit")


def _cold() -> float:
    return 0.0


def _always() -> bool:
    return True


@dataclass
class Job:
    """Something to be done.

    Attributes:
        run: does it.
        heat: the hottest is done first; asked when one is chosen.
        ready: it may be done.
        by_calls: calls of the program make it ready.
        forget: called in its place when it never was ready.
        since: when it began to wait.
    """

    run: Callable[[], None]
    heat: Callable[[], float] = _cold
    ready: Callable[[], bool] = _always
    by_calls: bool = False
    forget: Callable[[], None] = _cold  # type: ignore[assignment]
    since: float = field(default_factory=time.monotonic)


class Queue:
    """One thread, started with the first job and ended before the interpreter is."""

    def __init__(self) -> None:
        self.stopping = False
        self._jobs: list[Job] = []
        self._waiting: list[Job] = []
        self._thread: threading.Thread | None = None
        self._pending = 0
        self._pause = _FIRST
        self._changed = threading.Condition()
        self._dead: queue.SimpleQueue[Grave] = queue.SimpleQueue()

    @property
    def bury(self) -> Callable[[Grave], None]:
        """Takes plans that are to be closed; it is a function of C, which the engine may call anywhere."""
        return self._dead.put

    def submit(self, job: Job) -> None:
        """Done later."""
        if self.stopping:
            return
        with self._changed:
            self._start()
            if job.ready():
                self._add(job)
            else:
                self._waiting.append(job)
                self._pause = _FIRST
                if len(self._waiting) > _MOST:
                    self._waiting.pop(0).forget()
            self._changed.notify_all()

    def submit_behind(self, compilation: "pool.Compilation | Compilations", job: Job) -> None:
        """Submit the job when the compilation has ended."""
        with self._changed:
            self._pending += 1

        def wait() -> None:
            with beside:
                with contextlib.suppress(BackendError):
                    compilation.wait()
                self.submit(job)
                self._done()

        threading.Thread(target=wait, name="pijit-compiled", daemon=True).start()

    def wait(self, seconds: float | None = None) -> bool:
        """Until nothing is left to do; False: it took longer. What is not ready yet is not waited for."""
        with self._changed:
            self._wake()
            self._changed.notify_all()
            return self._changed.wait_for(lambda: self._pending == 0, seconds)

    def by_calls(self) -> list[Job]:
        """Jobs that are begun when the program calls again."""
        with self._changed:
            return [job for job in self._waiting if job.by_calls]

    def stop(self) -> None:
        """What compiles is given up, and nothing else is begun."""
        self.stopping = True
        pool.shutdown()
        with self._changed:
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(_LAST)

    def _add(self, job: Job) -> None:
        self._jobs.append(job)
        self._pending += 1

    def _wake(self) -> None:
        """What waited and is ready now is a job."""
        late = time.monotonic() - _PATIENCE
        for job in list(self._waiting):
            if job.ready():
                self._add(job)
            elif job.since < late:
                job.forget()
            else:
                continue
            self._waiting.remove(job)
            self._pause = _FIRST

    def _start(self) -> None:
        if self._thread is None:
            _core.set_mark(Queue._run, "opaque", "it compiles")  # else enable() would look into it
            self._thread = threading.Thread(target=self._run, name="pijit-compile", daemon=True)
            self._thread.start()
            atexit.register(self.stop)

    def _run(self) -> None:
        with beside:
            while (job := self._next()) is not None:
                try:
                    with compiling:
                        job.run()
                except Exception:
                    _log.exception("pijit: a segment was not compiled")
                finally:
                    self._done()
                del job  # it holds tensors

    def _close_plans(self) -> None:
        while not self._dead.empty():
            try:
                self._dead.get().close()
            except Exception:
                _log.exception("pijit: the plan of a backend could not be closed")

    def _next(self) -> Job | None:
        with self._changed:
            while not self.stopping:
                self._wake()
                self._close_plans()
                if self._jobs:
                    job = max(self._jobs, key=lambda each: each.heat())
                    self._jobs.remove(job)
                    return job
                self._changed.wait(self._pause if self._waiting else _LONGEST if graves else None)
                self._pause = min(2 * self._pause, _LONGEST)
        return None

    def _done(self) -> None:
        with self._changed:
            self._wake()  # before nothing is left: who waits for that waits for these, too
            self._pending -= 1
            self._changed.notify_all()
