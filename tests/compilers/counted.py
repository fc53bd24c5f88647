"""Backends for tests: they run the graph as torch does, count, and do what a test asks of them besides."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pijit
from pijit.compilers import market
from pijit.compilers._base import EXACT, Backend, Options, Plan
from pijit.compilers._torch import module_of
from pijit.graph import Graph


class Counted(Backend):
    """Its sizes may be free."""

    tolerance = EXACT
    symbolic = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.compiled: list[bool] = []  # of each compilation: with free sizes
        self.runs = 0
        self.closed = 0
        self.refuses_symbols = False
        self.begins: threading.Event | None = None  # what is compiled waits for it
        self.around: Callable[[Any], Any] = lambda outputs: outputs
        self.seconds = 0.0  # that a run sleeps
        self.remembers = False  # a run gives what the first one gave, without computing
        self.remembered: Any = None

    def make(self, graph: Graph, options: Options) -> Plan:
        self.compiled.append(options.symbolic)
        if self.begins is not None:
            self.begins.wait(60)
        if options.symbolic and self.refuses_symbols:
            raise ValueError("no symbols today")
        module = module_of(graph)

        def run(*inputs: Any) -> Any:
            self.runs += 1
            if self.seconds:
                time.sleep(self.seconds)
            if not self.remembers:
                return tuple(self.around(module.forward(*inputs)))
            if self.remembered is None:
                self.remembered = module.forward(*inputs)
            return tuple(each.clone() for each in self.remembered)

        def close() -> None:
            self.closed += 1

        return Plan(self.name, run, results=(), shares_weights=False, rebind=module.pijit_rebind, close=close)


class Counting:
    """A function for `pijit.register_backend`; keeps the names of the operators of each graph that it got."""

    def __init__(self) -> None:
        self.compiled = self.runs = 0
        self.operators: list[list[str]] = []
        self.around: Callable[[Any], Any] = lambda outputs: outputs

    def __call__(self, module: Any, example_inputs: Any) -> Any:
        self.compiled += 1
        self.operators.append([str(node.target) for node in module.graph.nodes if node.op == "call_function"])

        def run(*inputs: Any) -> Any:
            self.runs += 1
            return self.around(module.forward(*inputs))

        return run


def registered(name: str) -> Iterator[Counting]:
    """For a fixture: such a backend under a name. What compiles has ended before the next test."""
    backend = Counting()
    pijit.register_backend(name, backend)
    yield backend
    market.wait(60)


def in_threads(work: Callable[[int], None], count: int) -> None:
    """Run `work` with 0, 1, ... at the same time, in a thread each."""
    threads = [threading.Thread(target=work, args=(at,)) for at in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
