"""Calls of the program while compilers work beside it, against native replay alone, with idle cores and without.

    python bench/compiling.py [--backends auto onnxruntime] [--burners 0 4] [--repeats N] [--json FILE]

Each row is a process of its own: two encoders of four layers (torch.nn.TransformerEncoder), one jitted natively, one
for the backend, called in turn. Before anything is compiled and afterwards a third one, native as well, is called in
the place of the second: that is native replay alone, under the same load. Burners are processes that do nothing but
compute. Printed are, over the whole time of compiling and on the clock of the wall,

- calls/native: what a call takes, to what one takes before and afterwards, with the native one beside it alone;
- before/after: how much the load has changed meanwhile, which is the noise of the row;
- worst: the longest call, and the longest one of native replay alone;
- waited: the share of the time that calls have waited for threads that compile, as pijit counts it;
- asleep: the share of the time in which the calling thread neither ran nor waited for a core, which Linux counts: what
  it has waited for the GIL and in pijit's own waits, whatever else the machine does.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BAR = 1.15
ALONE = 5.0  # seconds of native replay alone, before and afterwards
PATIENCE = 300.0  # seconds in which compiling has to end

BURN = "while True: pass"


def encoder() -> Any:
    """Four layers, of which a replay takes a fraction of a millisecond."""
    import torch

    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).eval()


def timed(call: Callable[[Any], Any], x: Any) -> float:
    """Seconds of a call, on the clock of the wall."""
    start = time.perf_counter()
    call(x)
    return time.perf_counter() - start


def pairs(one: Any, other: Any, x: Any, until: Callable[[], bool]) -> tuple[list[float], list[float]]:
    """Seconds of calls of both in turn."""
    times: tuple[list[float], list[float]] = ([], [])
    while not until():
        for call, seconds in zip((one, other), times, strict=True):
            seconds.append(timed(call, x))
    return times


def measure(backend: str) -> dict[str, Any]:
    """All numbers of a row, in this process."""
    import torch

    import pijit

    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)  # else a layer is one operator
    x = torch.randn(1, 16, 64)
    native, twin = pijit.jit(encoder()), pijit.jit(encoder())
    compiled = pijit.jit(encoder(), backend=backend)
    with torch.no_grad():
        for _ in range(50):
            native(x), twin(x)
        before = alone(native, twin, x)
        waited = pijit.stats()["seconds_waited"]
        began = time.perf_counter()
        slept = asleep(began)
        compiled(x), compiled(x)
        meanwhile = pairs(
            native, compiled, x, lambda: pijit.wait(0) or time.perf_counter() - began > PATIENCE
        )  # fmt: skip
        seconds = time.perf_counter() - began
        slept = asleep(began) - slept
        waited = pijit.stats()["seconds_waited"] - waited
        after = alone(native, twin, x)
    plain = statistics.mean([*before, *after])
    return {
        "backend": backend,
        "ratio": statistics.mean([*meanwhile[0], *meanwhile[1]]) / plain,
        "native_ratio": statistics.mean(meanwhile[0]) / plain,
        "noise": statistics.mean(before) / statistics.mean(after),
        "worst_ms": 1e3 * max(max(each) for each in meanwhile),
        "worst_alone_ms": 1e3 * max(*before, *after),
        "median_us": 1e6 * statistics.median(meanwhile[1]),
        "alone_us": 1e6 * statistics.median([*before, *after]),
        "waited": waited / seconds,
        "asleep": slept / seconds,
        "seconds": seconds,
        "settled": pijit.wait(0),
    }


def asleep(start: float) -> float:
    """Seconds from `start` on in which this thread neither ran nor waited for a core; from a fixed point on."""
    ran, queued = map(int, Path("/proc/thread-self/schedstat").read_text().split()[:2])
    return time.perf_counter() - start - 1e-9 * (ran + queued)


def alone(one: Any, other: Any, x: Any) -> list[float]:
    """Seconds of native calls."""
    end = time.perf_counter() + ALONE
    times = pairs(one, other, x, lambda: time.perf_counter() > end)
    return [*times[0], *times[1]]


def in_a_process(backend: str, burners: int) -> dict[str, Any]:
    """`measure` in a process of its own, beside so many others that compute."""
    others = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(burners)]
    try:
        command = [sys.executable, __file__, "--one", backend]
        done = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE, check=False)
    finally:
        for each in others:
            each.kill()
            each.wait()
    said = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not said:
        raise SystemExit(f"{backend}: the process ended with {done.returncode}: {done.stderr[-2000:]}")
    return {**json.loads(said[-1]), "burners": burners}


def line(row: dict[str, Any]) -> str:
    """A row for people."""
    late = "" if row["settled"] else " (not done)"
    return (
        f"{row['backend']:12} {row['burners']} burners  calls/native {row['ratio']:.2f} "
        f"(native {row['native_ratio']:.2f})  before/after {row['noise']:.2f}  "
        f"worst {row['worst_ms']:.1f} ms ({row['worst_alone_ms']:.1f})  "
        f"median {row['median_us']:.0f} us ({row['alone_us']:.0f})  waited {row['waited']:.1%}  "
        f"asleep {row['asleep']:.1%}  "
        f"{row['seconds']:.1f} s{late}"
    )


def main() -> int:
    """Measures, prints, and judges: 1 if a median over the repeats is above the bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backends", nargs="+", default=["auto"], metavar="NAME")
    parser.add_argument("--burners", nargs="+", type=int, default=[0, 4], metavar="N")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one)))
        return 0
    rows = []
    for _ in range(options.repeats):
        for backend in options.backends:
            for burners in options.burners:
                rows.append(in_a_process(backend, burners))
                print(line(rows[-1]), flush=True)
    missed = 0
    for backend in options.backends:
        for burners in options.burners:
            ratios = [row["ratio"] for row in rows if (row["backend"], row["burners"]) == (backend, burners)]
            middle = statistics.median(ratios)
            missed += middle > BAR
            print(f"{backend}, {burners} burners: {middle:.2f}, at most {BAR} is wanted")
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1))
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
