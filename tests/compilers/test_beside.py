"""Threads that compile beside the program: calls run between slices of their work, and nobody waits for ever."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import pijit
from pijit.compilers import Backend, Options, Plan, get, pool

pytestmark = pytest.mark.torch

WORK = 0.4  # seconds that the compiler of these tests computes, once the test has seen that it has begun


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def small(n: int) -> int:
    """A function of Python, as compilers call them by the thousand."""
    return sum(range(n))


class Busy(Backend):
    """Computes in Python, as long as its thread takes for that."""

    name = "busy"
    packages = ()

    def __init__(self) -> None:
        self.seen, self.done = threading.Event(), threading.Event()

    def make(self, graph: Any, options: Options) -> Plan:
        while not self.seen.is_set():
            small(200)
        end = time.thread_time() + WORK
        while time.thread_time() < end:
            small(200)
        self.done.set()
        return get("torchscript").make(graph, options)


def layers() -> nn.Module:
    return nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(4))).eval()


def begun() -> tuple[Busy, Any]:
    """A compilation that has begun."""
    busy = Busy()
    handle = pool.submit(pijit.graph.capture(torch.relu, torch.ones(2)), busy)
    while handle.state == "waiting":
        time.sleep(0.001)
    busy.seen.set()
    return busy, handle


def test_calls_go_on_between_slices_and_what_they_wait_is_counted() -> None:
    """The share itself is measured by bench/compiling.py: a test on a busy machine would only measure the machine."""
    fast, x = pijit.jit(layers()), torch.randn(2, 8)
    for _ in range(10):
        fast(x)
    busy, handle = begun()
    start, before, calls = time.monotonic(), pijit.stats()["seconds_waited"], 0
    while not busy.done.is_set() and time.monotonic() - start < 100:
        fast(x)
        calls += 1
    taken, waited = time.monotonic() - start, pijit.stats()["seconds_waited"] - before
    assert handle.wait(60) is not None
    assert calls > 100
    assert 0 < waited < taken


def test_a_compiler_that_reads_files_gets_on_between_calls() -> None:
    """Each read gives the GIL away, as an import does, and calls that follow each other would take it again at once."""

    class Reads(Busy):
        def make(self, graph: Any, options: Options) -> Plan:
            while not self.seen.is_set():
                small(200)
            for _ in range(3000):
                os.stat(__file__)
            self.done.set()
            return get("torchscript").make(graph, options)

    fast, x = pijit.jit(layers()), torch.randn(2, 8)
    for _ in range(10):
        fast(x)
    reads = Reads()
    handle = pool.submit(pijit.graph.capture(torch.relu, torch.ones(2)), reads)
    while handle.state == "waiting":
        time.sleep(0.001)
    reads.seen.set()
    start, calls = time.monotonic(), 0
    while not reads.done.is_set() and time.monotonic() - start < 60:
        fast(x)
        calls += 1
    assert reads.done.is_set()
    assert calls > 10
    assert handle.wait() is not None


@pytest.mark.parametrize("what", ["python", "nothing"])
def test_a_program_that_does_not_call_holds_nothing_up(what: str) -> None:
    fast, x = pijit.jit(layers()), torch.randn(2, 8)
    for _ in range(10):
        fast(x)
    busy, handle = begun()
    for _ in range(100):
        fast(x)
    start = time.monotonic()
    if what == "python":
        while not busy.done.is_set() and time.monotonic() - start < 100:
            small(100)
    assert handle.wait(100) is not None
    assert time.monotonic() - start < 60


def test_other_threads_of_the_program_have_their_turns() -> None:
    fast, x, counted, ends = pijit.jit(layers()), torch.randn(2, 8), [0], threading.Event()
    for _ in range(10):
        fast(x)

    def count() -> None:
        while not ends.is_set():
            counted[0] += 1

    busy, handle = begun()
    thread = threading.Thread(target=count)
    thread.start()
    while not busy.done.is_set():
        fast(x)
    ends.set()
    thread.join()
    assert handle.wait(60) is not None
    assert counted[0] > 1000


def test_several_threads_that_call() -> None:
    fast, x = pijit.jit(layers()), torch.randn(2, 8)
    right = fast(x)
    busy, handle = begun()
    wrong: list[Any] = []

    def work() -> None:
        with torch.no_grad():
            while not busy.done.is_set():
                if not torch.equal(fast(x), right):
                    wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert handle.wait(60) is not None
    assert not wrong


def test_a_child_that_is_forked_has_no_such_threads() -> None:
    fast, x = pijit.jit(layers()), torch.randn(2, 8)
    for _ in range(3):
        fast(x)
    _, handle = begun()
    child = os.fork()
    if child == 0:
        for _ in range(1000):
            fast(x)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert handle.wait(60) is not None
