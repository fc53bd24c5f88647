"""Are functions given up that gain? `python bench/verdicts.py [PROCESSES] [--kinds mlps,loops,...] [--burners 2]`.

Each process is fresh and runs one kind of program, beside burners that take every idle moment of the machine:

    mlps        24 equal MLPs, each called 80 times with batches of 1 to 2,048 rows
    loops       12 loops over LSTMCell, sequences of 5 to 100 steps
    ways        4 functions that go 12 ways, with a text that says which
    sgd         a training step with SGD
    schedule    a training step with LambdaLR inside, whose factor is an int now and then

At the end each function that was given up is measured: its traces are taken up again (`give_up=False`) and calls in
CPython and replays come in turns, with the same arguments, by the time of the thread. Printed is how many were given
up, and how many of these though the median of the ratios is below .97.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

FASTER = 0.97
PAIRS = 40


Program = tuple[Callable[..., Any], Callable[[], tuple[Any, ...]], int]


def kinds() -> dict[str, Callable[[random.Random], list[Program]]]:
    """By name: what makes functions, the arguments of each call, and how many calls come."""
    import torch
    from torch import nn

    def mlps(drawn: random.Random) -> list[Any]:
        made = []
        for _ in range(24):
            model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
            made.append((model, lambda: (torch.randn(drawn.randint(1, 2048), 16),), 80))
        return made

    def loops(drawn: random.Random) -> list[Any]:
        made = []
        for _ in range(12):
            cell = nn.LSTMCell(8, 16)

            def run(steps: Any, cell: Any = cell) -> Any:
                state = torch.zeros(4, 16), torch.zeros(4, 16)
                for at in range(steps.shape[0]):
                    state = cell(steps[at], state)
                return state[0]

            made.append((run, lambda: (torch.randn(drawn.randint(5, 100), 4, 8),), 120))
        return made

    def ways(drawn: random.Random) -> list[Any]:
        made = []
        for _ in range(4):

            def run(x: Any, way: str) -> Any:
                y = x
                for letter in way:
                    y = torch.relu(y * 2 + 1) if letter == "a" else torch.sigmoid(y - 1) * y
                return y

            texts = ["".join(drawn.choice("ab") for _ in range(2 + number)) for number in range(12)]
            made.append((run, lambda texts=texts: (torch.randn(8), drawn.choice(texts)), 400))
        return made

    def step(scheduled: bool) -> Any:
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda turn: 1 if turn % 3 == 0 else 0.5 + turn / 1000)

        def run(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            if scheduled:
                schedule.step()
            return loss

        return run, lambda: (torch.randn(4, 8), torch.randn(4, 1)), 300

    return {
        "mlps": mlps,
        "loops": loops,
        "ways": ways,
        "sgd": lambda _: [step(False) for _ in range(3)],
        "schedule": lambda _: [step(True) for _ in range(3)],
    }


def ratio(fast: Callable[..., Any], arguments: Callable[[], tuple[Any, ...]]) -> float:
    """The median of calls in turns, replayed and plain, with the same arguments."""
    import pijit

    def clock(call: Callable[..., Any], *args: Any) -> float:
        start = time.thread_time()
        call(*args)
        return time.thread_time() - start

    def plain(*args: Any) -> Any:
        with pijit.stance("off"):
            return clock(fast, *args)

    pijit.config.update({"give_up": False})
    pijit.reset(fast)
    given = [arguments() for _ in range(PAIRS)]
    for args in given:
        fast(*args)
    found = []
    for _ in range(3):
        for args in given:
            for _ in range(2):  # the first of each comes from another kind of call
                before = plain(*args)
            for _ in range(2):
                after = clock(fast, *args)
            found.append(after / before)
    pijit.config.update({"give_up": True})
    return statistics.median(found)


def one(kind: str, seed: int) -> None:
    """In a process of its own: prints a line of JSON for each function that was given up, and one for all."""
    import torch

    import pijit

    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    programs = kinds()[kind](random.Random(seed))
    jitted = [(pijit.jit(source), arguments, calls) for source, arguments, calls in programs]
    for fast, arguments, calls in jitted:
        for _ in range(calls):
            fast(*arguments())
    lost = []
    for fast, arguments, _ in jitted:
        status = pijit.status(fast)
        if status.state == "disabled":
            lost.append((status.reason, ratio(fast, arguments)))
    print(json.dumps({"functions": len(jitted), "lost": lost}))


def main() -> None:
    """Prints a line for each kind, and one for all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("processes", nargs="?", type=int, default=40)
    parser.add_argument("--kinds", default="mlps,loops,ways,sgd,schedule")
    parser.add_argument("--burners", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--one", nargs=2, metavar=("KIND", "SEED"))
    options = parser.parse_args()
    if options.one:
        one(options.one[0], int(options.one[1]))
        return
    burn = "import os\nos.nice(19)\nwhile os.getppid() > 1: sum(range(10000))"
    burners = [subprocess.Popen([sys.executable, "-c", burn]) for _ in range(options.burners)]
    names = options.kinds.split(",")
    counts = {name: [0, 0, 0, 0] for name in names}
    try:
        for number in range(options.processes):
            name = names[number % len(names)]
            command = [sys.executable, __file__, "--one", name, str(number)]
            done = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            faster = [each for each in done["lost"] if each[1] < FASTER]
            for at, more in enumerate((1, done["functions"], len(done["lost"]), len(faster))):
                counts[name][at] += more
            for reason, measured in done["lost"]:
                print(f"  {name} {number}: {measured:.2f}, {reason}", flush=True)
    finally:
        for burner in burners:
            burner.kill()
    for name, (processes, functions, lost, faster_ones) in counts.items():
        print(f"{name:<10}{processes} processes, {functions} functions: {lost} given up, {faster_ones} though faster")
    total = sum(row[3] for row in counts.values())
    print(f"{'all':<10}{sum(row[0] for row in counts.values())} processes: {total} given up though faster")


if __name__ == "__main__":
    main()
