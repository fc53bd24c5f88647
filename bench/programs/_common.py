"""What the programs beside this file share: their size, the two moments between which they are timed, and the place at
which pijit.jit() goes where the runner asks for it. A program is run as it is, by `python`, or with `python -m pijit`
before it.

    PIJIT_BENCH_SCALE    how much work: with 1, the default, about three seconds of plain Python
    PIJIT_BENCH_TIMES    the file that gets the times, as JSON; without it they go to stderr
    PIJIT_BENCH_JIT      1: place() is pijit.jit()
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import torch
import torch._dynamo  # the first optimizer does so, which takes longer than a short run

Placed = TypeVar("Placed")
SCALE = float(os.environ.get("PIJIT_BENCH_SCALE", "1"))
JIT = os.environ.get("PIJIT_BENCH_JIT") == "1"
began: list[tuple[float, float]] = []

torch.set_num_threads(1)


def scaled(count: int, least: int = 1) -> int:
    """So many steps, in a run of this size."""
    return max(least, round(count * SCALE))


def place(function: Placed) -> Placed:
    """The function or module that somebody who knows pijit would give to pijit.jit()."""
    if not JIT:
        return function
    import pijit

    return pijit.jit(function)  # type: ignore[no-any-return, call-overload]


def start() -> None:
    """The work begins: imports and what is set up are behind."""
    began.append((time.thread_time(), time.process_time()))


def finish(*weights: Any) -> None:
    """The work is done: times are told, and a hash of the weights is printed."""
    thread, process = began.pop()
    times: dict[str, float] = {"thread": time.thread_time() - thread, "process": time.process_time() - process}
    if "pijit" in sys.modules:
        stats = sys.modules["pijit"].stats()
        times |= {name: stats[name] for name in ("records", "replays", "aborts", "exits", "guard_failures")}
        times["opaque"] = opaque_calls()
    if "PIJIT_BENCH_TIMES" in os.environ:
        with open(os.environ["PIJIT_BENCH_TIMES"], "w") as file:
            json.dump(times, file)
    else:
        print(json.dumps(times), file=sys.stderr)
    print("weights", digest(weights))


def opaque_calls() -> int:
    """How many calls the replays of traces that still stand have made without looking inside."""
    from pijit import _core
    from pijit.traces import entries_of, standing  # a function may die meanwhile, in a collection of garbage

    roots = [info["root"] for info in _core.roots()]
    entries = [entry["root"] for root in roots for entry in entries_of(root)]
    traces = [trace for root in {*roots, *entries} for trace in standing(root)]
    return sum(trace["replays"] * sum(node["opaque"] for node in trace["nodes"]) for trace in traces)


def digest(weights: Iterable[Any]) -> str:
    """A hash of all bytes of tensors and modules."""
    total = hashlib.sha256()
    for tensor in tensors(weights):
        total.update(str(tensor.dtype).encode() + str(tuple(tensor.shape)).encode())
        total.update(bytes(tensor.detach().contiguous().flatten().view(torch.uint8).tolist()))
    return total.hexdigest()[:32]


def tensors(weights: Iterable[Any]) -> Iterator[torch.Tensor]:
    """The tensors in modules, dicts, lists and plain values."""
    for each in weights:
        if isinstance(each, torch.Tensor):
            yield each
        elif isinstance(each, torch.nn.Module):
            yield from tensors(each.state_dict().values())
        elif isinstance(each, dict):
            yield from tensors(each.values())
        elif isinstance(each, list | tuple):
            yield from tensors(each)
        elif isinstance(each, float | int):
            yield torch.tensor(each, dtype=torch.float64)
        elif hasattr(each, "dtype") and hasattr(each, "shape"):  # an array
            yield torch.as_tensor(each)
