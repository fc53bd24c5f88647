"""Where others fall off a cliff: `python cliffs.py` prints what calls take that differ from all before them.

    storm      3,000 calls with a text that none of them has seen: the last 1,000 beside plain Python
    traces     what a hit costs where the function has 500 traces, beside one where it has 1
    lengths    200 lengths through a tiny GPT-2: its traces, and the slowest call beside eager after the first of them
    fractal    200 x 200 escape times in Python's numbers, beside plain Python

Ratios are medians of interleaved pairs, with plain beside itself. One thread.
"""

from __future__ import annotations

import logging
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import pijit


def clock(call: Callable[..., Any], *args: Any) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    call(*args)
    return time.perf_counter() - start


def storm() -> str:
    """The last calls of many that are all new."""

    def run(x: Tensor, tag: str) -> Tensor:
        y = x * 2
        if tag.endswith("7"):
            y = y + 1
        return (torch.relu(y) + len(tag)).sum()

    fast, x = pijit.jit(run), torch.randn(8)
    for number in range(20):
        run(x, f"warm{number}")
    jitted, twin = [], []
    for number in range(3000):
        tag = f"tag{number}"
        plain = clock(run, x, tag)
        jitted.append(clock(fast, x, tag) / plain)
        twin.append(clock(run, x, tag) / plain)
    last = slice(2000, 3000)
    return f"{statistics.median(jitted[last]):.3f} (plain {statistics.median(twin[last]):.3f})"


def traces() -> str:
    """One function with few traces and one with many, called with the same argument."""

    def make() -> Callable[..., Any]:
        names: dict[str, Any] = {"torch": torch}
        exec("def run(x, tag):\n    return torch.relu(x * 2) + len(tag)\n", names)
        return pijit.jit(names["run"])

    few, many, x = make(), make(), torch.randn(8)
    before = pijit.config.update({"max_traces": 1000, "give_up": False})
    tags = [f"tag{number}" for number in range(500)]
    for _ in range(3):
        for tag in tags:
            many(x, tag)
        few(x, tags[0])
    order = random.Random(0).choices(tags, k=3000)
    ratios, twin = [], []
    for tag in order:
        many(x, tag)  # the hit that is timed is the second in a row in each function
        few(x, tags[0])
        one = clock(few, x, tags[0])
        ratios.append(clock(many, x, tag) / one)
        twin.append(clock(few, x, tags[0]) / one)
    mixed = []
    for tag in order:  # and the first, of a trace that was not used for a while
        one = clock(few, x, tags[0])
        mixed.append(clock(many, x, tag) / one)
    pijit.config.update(before)
    count = len(pijit.traces(many))
    return (
        f"{statistics.median(ratios):.3f}, another trace each time {statistics.median(mixed):.3f} "
        f"(one beside itself {statistics.median(twin):.3f}), {count} traces"
    )


def lengths() -> str:
    """Each length once, after the first call."""
    from transformers import GPT2Config, GPT2Model
    from transformers.utils import logging as said

    said.set_verbosity_error()
    model = GPT2Model(GPT2Config(vocab_size=128, n_positions=256, n_embd=64, n_layer=2, n_head=4)).eval()
    fast = pijit.jit(lambda ids: model(ids).last_hidden_state)
    drawn = random.Random(0).sample(range(1, 201), 200)
    slowest, ratios = 0.0, []
    for at, length in enumerate(drawn):
        ids = torch.randint(0, 128, (1, length))
        expected = model(ids).last_hidden_state
        eager = statistics.median(clock(model, ids) for _ in range(9))
        start = time.perf_counter()
        got = fast(ids)
        ratio = (time.perf_counter() - start) / eager
        if not torch.equal(got, expected):
            raise SystemExit("another answer")
        if at > 0:
            slowest = max(slowest, ratio)
            ratios.append(ratio)
    worst = sorted(ratios)[-3:]
    return (
        f"{len(pijit.traces(fast))} traces, slowest {slowest:.2f} ({', '.join(f'{each:.2f}' for each in worst)}), "
        f"median {statistics.median(ratios):.3f}"
    )


def fractal() -> str:
    """A function that only computes with numbers, called in a loop of a jitted one."""

    def escape(re: float, im: float) -> int:
        x = y = 0.0
        for turn in range(60):
            x, y = x * x - y * y + re, 2.0 * x * y + im
            if x * x + y * y > 4.0:
                return turn
        return 60

    def image(size: int) -> int:
        total = 0
        for row in range(size):
            for column in range(size):
                total += escape(row * 3.0 / size - 2.0, column * 2.0 / size - 1.0)
        return total

    fast = pijit.jit(image)
    first = clock(fast, 200) / clock(image, 200)
    ratios, twin = [], []
    for _ in range(9):
        plain = clock(image, 200)
        ratios.append(clock(fast, 200) / plain)
        twin.append(clock(image, 200) / plain)
    return f"{statistics.median(ratios):.3f} (plain {statistics.median(twin):.3f}), first {first:.2f}"


def main() -> None:
    """Prints a line for each."""
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with torch.no_grad():
        for measure in (storm, traces, lengths, fractal):
            pijit.reset()
            print(f"{measure.__name__:<10}{measure()}", flush=True)


if __name__ == "__main__":
    main()
