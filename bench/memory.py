"""What test_memory.py measures, each in a process of its own: one line of JSON.

    python bench/memory.py process|tensors|freed NAME eager|jitted|argument
    python bench/memory.py replays

`jitted` is a jitted model, `argument` a jitted function that is given the model. Peaks are read from /proc: `ru_maxrss`
begins with what the parent held.
"""

from __future__ import annotations

import ctypes
import json
import statistics
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

sys.path.append(str(Path(__file__).parents[1] / "examples"))

SHAPE = 4, 512  # tokens of a batch whose activations are larger than a trace
CALLS = 50
REPLAYS, EVERY, WARM = 100_000, 1000, 1000


def process(name: str, way: str) -> dict[str, int]:
    """The highest resident set of the process, what it had before the model was built, and what it ends with, as it is
    and without what malloc keeps.
    """
    import transformers

    getattr(transformers, {"BERT": "BertModel", "GPT-2": "GPT2Model", "Llama": "LlamaModel"}[name])
    import_pijit(way)
    before = resident()
    call, model = made(name, way)
    for _ in range(CALLS):
        call(model, tokens())
    found = {"before": before, "peak": resident("VmHWM"), "after": resident()}
    ctypes.CDLL(None).malloc_trim(0)
    return found | {"trimmed": resident()}


def tensors(name: str, way: str) -> dict[str, int]:
    """The most bytes of tensors that were alive at once, over those of the model: in the first call, and in others."""
    import extension

    counted = extension.load("tensor_bytes")
    call, model = made(name, way)
    before, peaks = counted.live(), []
    for _ in range(5):
        counted.forget_peak()
        call(model, tokens())
        peaks.append(counted.peak() - before)
    return {"first": peaks[0], "later": max(peaks[1:])}


def freed(name: str, way: str) -> dict[str, int]:
    """How many of a model's modules and parameters are alive right after `del model`, how many there were, and what
    traces are left.
    """
    call, model = made(name, way)
    for _ in range(3):
        call(model, tokens(1, 16))
    watched = [weakref.ref(thing) for thing in (*model.modules(), *model.parameters())]
    del model
    alive, pijit = sum(thing() is not None for thing in watched), import_pijit(way)
    return {"alive": alive, "watched": len(watched), "traces": pijit.stats()["traces"] if pijit else 0}


def replays() -> dict[str, float]:
    """Bytes a replay by which the resident set grows, and by how much it grew, after some that warm up."""
    import pijit

    model = pijit.jit(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)))
    x, sizes = torch.ones(1, 8), [0] * (REPLAYS // EVERY + 1)
    with torch.no_grad():
        for _ in range(WARM):
            model(x)
        for place in range(len(sizes)):
            sizes[place] = resident()
            for _ in range(EVERY):
                model(x)
    (trace,) = pijit.traces(model)
    assert trace.replays > REPLAYS
    counts = [place * EVERY for place in range(len(sizes))]
    return {"slope": statistics.linear_regression(counts, sizes).slope, "grown": sizes[-1] - sizes[0]}


def made(name: str, way: str) -> tuple[Callable[[nn.Module, Tensor], Any], Any]:
    """What calls a model, and the model."""
    import models

    def plain(model: nn.Module, tokens: Tensor) -> None:
        model(tokens)

    model, pijit = models.MODELS[name](), import_pijit(way)
    if way == "jitted":
        pijit.jit(model)
    return pijit.jit(plain) if way == "argument" else plain, model


def import_pijit(way: str) -> Any:
    """As a program that does without it does not."""
    if way == "eager":
        return None
    import pijit

    return pijit


def tokens(*shape: int) -> Tensor:
    """The argument of a call."""
    import models

    return torch.randint(models.VOCABULARY, shape or SHAPE)


def resident(key: str = "VmRSS") -> int:
    """Bytes of this process; "VmHWM" is the highest so far."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(key))


if __name__ == "__main__":
    torch.set_num_threads(1)
    with torch.no_grad():
        print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
