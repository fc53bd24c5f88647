"""Programs that a replay does not make faster: what a call of a jitted one costs after its first fifty calls.

In `extra_info`: the `ratio` to a call without pijit, the `noise` of two of these, the `state` and the `reason` of the
function, and how many `calls` of the first fifty CPython ran. A ratio stays below 1.05: what does not pay is given up.
"""

from __future__ import annotations

import bisect
import collections
import copy
import heapq
import itertools
import json
import logging
import random
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from rounds import Rounds

import pijit

pytestmark = pytest.mark.benchmark(group="ledger")

FIRST = 50
ROUNDS = 120
PROGRAMS: dict[str, Callable[[], tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]]] = {}


def program(make: Callable[[], Any]) -> Callable[[], Any]:
    """Registers what gives a fresh function, and what gives the arguments of each call."""
    PROGRAMS[make.__name__.strip("_")] = make
    return make


@program
def numpy():
    array = np.random.default_rng(0).random((16, 16))
    return lambda a: np.sqrt(np.abs(np.dot(a, a) - a.mean())).sum() + np.maximum(a, 0.5).max(), lambda: (array,)


@program
def heap():
    def f(numbers):
        queue = []
        for number in numbers:
            heapq.heappush(queue, number)
        return [heapq.heappop(queue) for _ in range(len(queue))]

    numbers = [(7 * i) % 41 for i in range(40)]
    return f, lambda: (numbers,)


@program
def sorted_list():
    x = torch.randn(60)
    return lambda x: sorted(x.tolist()), lambda: (x,)


@program
def list_sort():
    def f(x):
        values = x.tolist()
        values.sort()
        return values[0] + values[-1]

    x = torch.randn(40)
    return f, lambda: (x,)


@program
def json_text():
    data = {"name": "x", "sizes": [1, 2, 3, 4], "nested": {"a": 1.5, "b": None}}
    return lambda data: json.loads(json.dumps(data)), lambda: (data,)


@program
def joined_strings():
    def f(words):
        parts = []
        for word in words:
            parts.append(word.upper() + "-" + word.strip())
        return ",".join(parts)

    words = [f"word{i}" for i in range(30)]
    return f, lambda: (words,)


@program
def bisection():
    def f(numbers):
        kept = []
        for number in numbers:
            bisect.insort(kept, number)
        return kept

    numbers = [(7 * i) % 41 for i in range(40)]
    return f, lambda: (numbers,)


@program
def structs():
    def f(numbers):
        return b"".join(struct.pack("<if", number, 0.5) for number in numbers)

    numbers = list(range(30))
    return f, lambda: (numbers,)


@program
def loops_whose_length_differs():
    def f(n):
        total = 0
        for i in range(n):
            total += i * i % 7
        return total

    lengths = itertools.cycle(random.Random(0).sample(range(50, 150), 60))
    return f, lambda: (next(lengths),)


@program
def escape_time():
    def f(c):
        z = 0j
        for i in range(60):
            z = z * z + c
            if abs(z) > 2:
                return i
        return 60

    drawn = random.Random(0)
    return f, lambda: (complex(drawn.uniform(-2, 1), drawn.uniform(-1, 1)),)


@program
def deep_copy():
    thing = {"a": [1, 2, {"b": (3, 4)}], "c": collections.OrderedDict(x=1, y=[5, 6])}
    return lambda thing: copy.deepcopy(thing), lambda: (thing,)


@program
def state_dict():
    model = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(4)])
    return lambda model: model.state_dict(), lambda: (model,)


@program
def log_records():
    logger = logging.getLogger("ledger")
    logger.propagate = False
    logger.handlers = [logging.NullHandler()]

    def f(x):
        logger.warning("value %s", x)
        return x + 1

    return f, lambda: (1,)


COUNT = 0


@program
def mutated_global():
    def f(x):
        global COUNT
        COUNT += 1
        return x + COUNT

    x = torch.ones(3)
    return f, lambda: (x,)


@program
def training_step():
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.01)
    x, y = torch.randn(4, 8), torch.randn(4, 1)

    def f(x, y):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(parallel(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return f, lambda: (x, y)


@pytest.fixture(scope="module", autouse=True)
def _gloo(tmp_path_factory):
    store = tmp_path_factory.mktemp("store") / "file"
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(benchmark, name):
    (eager, arguments), (twin, _), (source, _) = (PROGRAMS[name]() for _ in range(3))
    jitted = pijit.jit(source)
    for _ in range(FIRST):
        given = arguments()
        for call in (eager, twin, jitted):
            call(*given)
    benchmark.extra_info["state"] = pijit.status(jitted).state
    times = max(1, int(1e-3 / benchmark_seconds(eager, arguments)))
    rounds = Rounds("eager", "twin", "jitted")

    def each_once():
        given = [arguments() for _ in range(times)]
        ways = {"eager": eager, "twin": twin, "jitted": jitted}
        rounds.run({way: lambda call=call: [call(*each) for each in given] for way, call in ways.items()})

    rounds.measure(benchmark, each_once, rounds=ROUNDS, warmup_rounds=5)
    benchmark.extra_info |= rounds.result() | {"reason": pijit.status(jitted).reason}


def benchmark_seconds(call: Callable[..., Any], arguments: Callable[[], tuple[Any, ...]]) -> float:
    """Of one call, without pijit's hook."""
    from report import seconds
    from rounds import with_hook

    with_hook(False)
    taken = min(seconds(lambda: call(*arguments())) for _ in range(20))
    with_hook(True)
    return taken
