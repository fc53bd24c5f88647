"""Loops over numbers of Python whose arguments change from call to call: `python number_loops.py` prints a table.

Of each function: its first jitted call beside a plain one, and the median of steady jitted calls beside plain ones, in
interleaved pairs with the same arguments.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pijit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "scalar"))
from number_functions import FUNCTIONS, escape_time, escape_with_break, horner, n_body

BARS = {"escape time, 200x200": 0.5, "Horner, 1000 coefficients": 0.5, "n-body, 4 bodies, 300 steps": 0.5}


def bodies(call: int) -> tuple[Any, ...]:
    """Positions, velocities, masses, steps, and the length of one."""
    position = [0.1 * i * i + 0.01 * call for i in range(12)]
    return position, [0.0] * 12, [1.0, 2.0, 3.0, 0.5], 300 + call, 0.01


Program = tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]
PROGRAMS: dict[str, Program] = {
    "escape time, 200x200": (escape_time, lambda call: (200 + call % 3, 200 - call % 2, 40 + call)),
    "escape of one point": (escape_with_break, lambda call: (-0.5 + 0.001 * call, 0.5, 200 + call)),
    "Horner, 1000 coefficients": (horner, lambda call: ([0.5 + call] * (1000 + call), 0.9 + 0.001 * call)),
    "n-body, 4 bodies, 300 steps": (n_body, bodies),
    "Collatz": (FUNCTIONS["collatz"][0], lambda call: (837799 + call,)),
}


def clock(call: Callable[..., Any], args: tuple[Any, ...]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    call(*args)
    return time.perf_counter() - start


def measure(name: str) -> tuple[float, float]:
    """First / plain, and steady / plain."""
    plain, arguments = PROGRAMS[name]
    jitted = pijit.jit(plain)
    usual = statistics.median(clock(plain, arguments(0)) for _ in range(3))
    first = clock(jitted, arguments(0)) / usual
    ratios = []
    for call in range(1, 12):
        seconds = clock(plain, arguments(call))
        if jitted(*arguments(call)) != plain(*arguments(call)):
            raise SystemExit("another answer")
        ratios.append(clock(jitted, arguments(call)) / seconds)
    return first, statistics.median(ratios[2:])


def main() -> None:
    """Prints the table."""
    print(f"{'':<30}{'first':>8}{'steady':>8}{'bar':>8}")
    for name in PROGRAMS:
        first, steady = measure(name)
        print(f"{name:<30}{first:>8.2f}{steady:>8.3f}{BARS.get(name, ''):>8}", flush=True)


if __name__ == "__main__":
    main()
