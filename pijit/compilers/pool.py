"""Compiles beside the program: no call waits for it.

A backend whose code travels as files is run in a process of its own (`pijit.compilers.worker`); the others, and the
reading of those files, in a thread here. Rules:
1. What is submitted is begun in the order of its priority, at most `limits.workers` at a time.
2. A process that takes longer than `limits.seconds`, needs more than `limits.memory`, dies or hangs gives a
   `BackendError`, and nothing else.
3. When the interpreter ends, what runs is killed, and nothing is begun.
"""

import atexit
import contextlib
import heapq
import itertools
import os
import select
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from pijit import _core
from pijit._config import config
from pijit.compilers import OWN, _kept_plans, _partition, _prepare, _progress, _torch, get, worker
from pijit.compilers._base import Backend, Options, Plan, reported
from pijit.compilers._compiler_threads import beside, compiling
from pijit.compilers._without_full_collections import quietly
from pijit.errors import BackendError, PijitError
from pijit.graph.model import Graph

_IDLE = 2.0  # seconds after which a thread without work ends
_LAST = 1.2  # seconds that the end of the interpreter waits for a thread that is in a compiler


class Limits:
    """What compiling may cost, by the options `compile_workers`, `compile_seconds` and `compile_memory`.

    Attributes:
        workers: compilations at a time.
        seconds: for one of them.
        memory: bytes that one process may hold; 0: no limit.
    """

    @property
    def workers(self) -> int:
        return config.compile_workers

    @property
    def seconds(self) -> int:
        return config.compile_seconds

    @property
    def memory(self) -> int:
        return config.compile_memory << 20


limits = Limits()


class Compilation:
    """A graph on its way to a plan.

    Attributes:
        backend: the backend's name.
        state: "waiting", "running", "done" or "failed".
        seconds: that it has taken, from its beginning.
    """

    def __init__(self, graph: Graph, backend: Backend, options: Options) -> None:
        self.backend = backend.name
        self.state = "waiting"
        self.seconds = 0.0
        self._graph: Graph | None = graph
        self._compiler = backend.on(_prepare.kinds(graph))
        # Those of the thread that asks: torch counts them for each.
        self._options = options if options.threads else replace(options, threads=_torch.threads())
        self._plan: Plan | None = None
        self._error: BackendError | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0.0  # on the monotonic clock; 0: not yet
        self._finished = threading.Event()

    def elapsed(self) -> float | None:
        """Seconds that it has compiled so far; None: it does not at the moment."""
        return time.monotonic() - self._began if self.state == "running" else None

    def poll(self) -> Plan | None:
        """The plan; None: not yet.

        Raises:
            BackendError: there will be none; the message says why.
        """
        if self.state == "running" and time.monotonic() - self._began > limits.seconds + _LAST:
            self._end(error=self._too_long())  # a compiler hangs in a thread, which cannot be ended
        if self._error is not None:
            raise self._error
        return self._plan

    def wait(self, seconds: float | None = None) -> Plan | None:
        """As `poll`, but waits for it, at most so long."""
        self._finished.wait(seconds)
        return self.poll()

    def cancel(self) -> None:
        """Give it up: a process is killed, and `poll` raises."""
        self._end(error=BackendError(f"compiling with {self.backend!r} was given up"))
        self._kill()

    def _end(self, plan: Plan | None = None, error: BackendError | None = None) -> None:
        with _lock:
            if self._finished.is_set():
                if plan is not None:
                    plan.close()
                return
            self._plan, self._error, self._graph = plan, error, None
            self.state = "failed" if plan is None else "done"
            _progress.end(self._began)
            self.seconds = time.monotonic() - self._began if self._began else 0.0
            self._finished.set()

    def _too_long(self) -> BackendError:
        return BackendError(f"backend {self.backend!r} took longer than {limits.seconds:g} seconds, and was given up")

    def _kill(self) -> None:
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)  # it leads a group, with all that it starts

    def _run(self) -> None:
        graph = self._graph
        if graph is None or self._finished.is_set():
            return
        self._began, self.state = time.monotonic(), "running"
        _progress.begin(self.backend, self._began)
        try:
            self._compiler.check(self._options)
            with reported(self.backend):
                if self._compiler.remote:
                    plan = self._remote(graph)
                else:
                    quiet = quietly if self._compiler.name in OWN else contextlib.nullcontext()  # others may take long
                    with quiet:
                        plan = self._compiler.compile(graph, self._options)
        except PijitError as error:
            self._end(error=error if isinstance(error, BackendError) else BackendError(str(error)))
        else:
            self._end(plan)

    def _remote(self, graph: Graph) -> Plan:
        with TemporaryDirectory(prefix="pijit-") as name:
            directory = Path(name)
            with quietly:
                parts = _prepare.parts(graph, self._compiler, self._options)
                memory = limits.memory if self._compiler.bounded else 0
                worker.write_job(parts.core, self._compiler, self._options, memory, directory)
            key = _kept_plans.key_of_job(directory)
            missing = _kept_plans.fetch(key, directory / worker.MADE)
            if missing is None:
                missing = self._wait_for(self._start(directory), directory)
                _kept_plans.store(key, directory / worker.MADE, missing)
            with quietly:
                made = _partition.load(parts.core, self._compiler, self._options, directory / worker.MADE, missing)
                return _prepare.completed(made, parts)

    def _start(self, directory: Path) -> "subprocess.Popen[bytes]":
        if not sys.executable:
            raise BackendError("there is no Python to start as a process (sys.executable is empty)")
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "PIJIT": "0",
            "OMP_NUM_THREADS": "1",
            "TORCHINDUCTOR_CACHE_DIR": str(directory / "cache"),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            **self._compiler.variables(),
        }
        with _lock:
            if _closing.is_set() or self._finished.is_set():
                raise BackendError("nothing is compiled at the end of the program")
            with open(directory / "log", "wb") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "pijit.compilers.worker", str(directory)],
                    cwd=directory,
                    env=environment,
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            return self._process

    def _wait_for(self, process: "subprocess.Popen[bytes]", directory: Path) -> list[int]:
        try:
            if not _has_ended(process, limits.seconds):
                raise self._too_long()
        finally:
            self._kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
        try:
            error, missing = worker.read_result(directory)
        except (OSError, ValueError, KeyError, TypeError):
            raise BackendError(
                f"backend {self.backend!r}: its process ended with {_ending(process.returncode)}{_last_line(directory)}"
            ) from None
        if error:
            raise BackendError(error)
        return missing


def _has_ended(process: "subprocess.Popen[bytes]", seconds: float) -> bool:
    """Waits for it in one sleep: each look would want the GIL, which the program has."""
    try:
        handle = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # neither macOS nor an old kernel has it
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        return process.returncode is not None
    try:
        ended = select.poll()
        ended.register(handle, select.POLLIN)
        return bool(ended.poll(1000 * seconds))
    finally:
        os.close(handle)


def _ending(code: int) -> str:
    if code >= 0:
        return f"status {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _last_line(directory: Path) -> str:
    """What the process said last, to end a message."""
    try:
        said = (directory / "log").read_bytes()[-4000:].decode("utf-8", "replace").strip()
    except OSError:
        return ""
    return f": {said.splitlines()[-1][:300]}" if said else ""


# What waits: priority, number, compilation.
_waiting: list[tuple[float, int, Compilation]] = []
_running: set[Compilation] = set()
_threads: set[threading.Thread] = set()
_numbers = itertools.count()
_lock = threading.RLock()
_more = threading.Condition(_lock)
_closing = threading.Event()


def submit(
    graph: Graph, backend: "str | Backend", options: Options | None = None, *, priority: float = 0.0
) -> Compilation:
    """Compile a graph beside the program.

    Args:
        graph: what to compile; its weights are not copied, and may be written meanwhile.
        backend: its name, or itself.
        options: as `Backend.compile` takes.
        priority: the highest is begun first.

    Raises:
        BackendError: there is no such backend.
    """
    made = Compilation(graph, get(backend) if isinstance(backend, str) else backend, options or Options())
    with _lock:
        if _closing.is_set():
            made._end(error=BackendError("nothing is compiled at the end of the program"))
            return made
        heapq.heappush(_waiting, (-priority, next(_numbers), made))
        busy = sum(not each._finished.is_set() for each in _running)
        if busy < limits.workers and len(_threads) - len(_running) < len(_waiting):
            _core.set_mark(_work, "opaque", "it compiles")  # else enable() would look into it
            thread = threading.Thread(target=_work, name="pijit-compiler", daemon=True)
            _threads.add(thread)
            thread.start()
        _more.notify()
    return made


def idle() -> bool:
    """Nothing is compiled, and nothing waits for it."""
    with _lock:
        return not _waiting and all(each._finished.is_set() for each in _running)


def _work() -> None:
    """A thread: takes what waits, until there is nothing for a while."""
    with beside:
        try:
            while (one := _next()) is not None:
                try:
                    with compiling:
                        one._run()
                except BaseException as error:  # of a compiler, in a thread that nobody watches
                    one._end(error=BackendError(f"backend {one.backend!r}: {type(error).__name__}: {error}"))
                finally:
                    with _lock:
                        _running.discard(one)
                    del one
        finally:
            with _lock:
                _threads.discard(threading.current_thread())


def _next() -> Compilation | None:
    """What is to be done next; None: the thread ends."""
    with _lock:
        until = time.monotonic() + _IDLE
        while not _closing.is_set():
            if _waiting and sum(not each._finished.is_set() for each in _running) < limits.workers:
                one = heapq.heappop(_waiting)[2]
                _running.add(one)
                return one
            left = until - time.monotonic()
            if left <= 0 and not _waiting:
                break
            _more.wait(max(left, 0.05))
        _threads.discard(threading.current_thread())
        return None


def shutdown() -> None:
    """Kill what runs and begin nothing more; `submit` gives failed compilations then."""
    with _lock:
        _closing.set()
        waiting = [each for _, _, each in _waiting]
        _waiting.clear()
        running, threads = list(_running), list(_threads)
        _more.notify_all()
    for one in (*waiting, *running):
        one.cancel()
    _progress.stop()
    until = time.monotonic() + _LAST
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join(max(until - time.monotonic(), 0.0))


def _after_fork() -> None:
    """A child has none of the threads; what was on its way there stays the parent's."""
    global _lock, _more  # noqa: PLW0603
    _lock = threading.RLock()
    _more = threading.Condition(_lock)
    _waiting.clear()
    for one in _running:
        one._process = None
        one._error, one.state = BackendError("compiling goes on in the process that was forked"), "failed"
        one._finished.set()
    _running.clear()
    _threads.clear()
    _core.forget_beside()


atexit.register(shutdown)
os.register_at_fork(after_in_child=_after_fork)
