"""Loops and branches, with the option `loops` and without: `python loops.py [auto|body|unroll]` prints a table.

Of each program: what its first jitted call takes beside eager, the median of steady jitted calls beside eager in
interleaved pairs, eager beside itself, the bytes that traces hold, and how many traces there are. One thread.
"""

from __future__ import annotations

import logging
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

import pijit

Program = tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]], int]  # function, its arguments, pairs

WARM = 8  # jitted calls between the first one and the pairs


def lstm(steps: int) -> Program:
    """An LSTM cell by hand, hidden 16, batch 1."""
    wx, wh, bias = torch.randn(16, 64), torch.randn(16, 64), torch.randn(64)

    def run(xs: Tensor) -> Tensor:
        h = c = torch.zeros(1, 16)
        for t in range(xs.shape[0]):
            i, f, o, u = (xs[t] @ wx + h @ wh + bias).chunk(4, -1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(u)
            h = torch.sigmoid(o) * torch.tanh(c)
        return h

    xs = torch.randn(steps, 1, 16)
    return run, lambda _: (xs,), 30


def branches() -> Program:
    """A branch on data, then elementwise operators: 8 floats."""

    def run(x: Tensor) -> Tensor:
        y = torch.relu(x) * 2
        y = torch.sigmoid(y) + torch.tanh(y) if y.sum() > 4 else (y - 1) * (y - 1)
        for _ in range(10):
            y = y * 0.5 + 1
        return y

    inputs = [torch.rand(8) + (0.6 if at % 2 else -0.6) for at in range(16)]
    return run, lambda call: (inputs[call * 7 % 16],), 400


def ways() -> Program:
    """Eight branches on data in a row: 256 ways."""

    def run(x: Tensor) -> Tensor:
        y = x
        y = y.sin() if x[0] > 0 else y.cos()
        y = y * 2 if x[1] > 0 else y - 1
        y = y.tanh() if x[2] > 0 else y.exp()
        y = y + x if x[3] > 0 else y * x
        y = y.sin() if x[4] > 0 else y.cos()
        y = y * 2 if x[5] > 0 else y - 1
        y = y.tanh() if x[6] > 0 else y.exp()
        return y + x if x[7] > 0 else y * x

    inputs = [torch.tensor([1.0 if way >> bit & 1 else -1.0 for bit in range(8)]) for way in range(256)]
    return run, lambda call: (inputs[call * 37 % 256],), 1500


def generates(tokens: int) -> Program:
    """`generate()` of a tiny Llama, jitted as a whole."""
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.utils import logging as said

    said.set_verbosity_error()
    sizes = {"vocab_size": 128, "hidden_size": 64, "intermediate_size": 128, "max_position_embeddings": 512}
    config = LlamaConfig(**sizes, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
    model = LlamaForCausalLM(config).eval()
    ids = torch.randint(0, 128, (1, 8))

    def run(ids: Tensor) -> Any:
        return model.generate(ids, max_new_tokens=tokens, do_sample=False, pad_token_id=0)

    return run, lambda _: (ids,), 1000 // tokens


def programs() -> Iterator[tuple[str, Program]]:
    """By name; each is made where the one before is done with."""
    for steps in (5, 200):
        yield f"LSTM cell, {steps} steps", lstm(steps)
    yield "a branch on data", branches()
    yield "256 ways", ways()
    for tokens in (16, 64, 256):
        yield f"generate, {tokens} tokens", generates(tokens)


def clock(call: Callable[..., Any], args: tuple[Any, ...]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    call(*args)
    return time.perf_counter() - start


def measure(program: Program) -> tuple[float, float, float, int, int]:
    """First / eager, steady / eager, eager / eager, bytes, traces."""
    run, arguments, pairs = program
    pijit.reset()
    fast = pijit.jit(run)
    plain = statistics.median(clock(run, arguments(call)) for call in range(20))
    first = clock(fast, arguments(0)) / plain
    for call in range(1, max(WARM, 2 * pairs)):
        if torch.is_tensor(expected := run(*arguments(call))) and not torch.equal(fast(*arguments(call)), expected):
            raise SystemExit("another answer")
    jitted, twin = [], []
    for call in range(pairs):
        args = arguments(call)
        eager = clock(run, args)
        jitted.append(clock(fast, args) / eager)
        twin.append(clock(run, args) / eager)
    stats = pijit.stats()
    return first, statistics.median(jitted), statistics.median(twin), int(stats["bytes"]), int(stats["traces"])


def main() -> None:
    """Prints the table."""
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    pijit.config.loops = sys.argv[1] if len(sys.argv) > 1 else "auto"
    print(f"{'loops=' + pijit.config.loops:<24}{'first':>8}{'steady':>8}{'eager':>8}{'bytes':>12}{'traces':>8}")
    with torch.no_grad():
        for name, program in programs():
            first, steady, twin, size, traces = measure(program)
            print(f"{name:<24}{first:>8.2f}{steady:>8.3f}{twin:>8.3f}{size:>12}{traces:>8}", flush=True)


if __name__ == "__main__":
    main()
