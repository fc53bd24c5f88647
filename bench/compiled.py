"""The sixty models of zoo.toml on compilers: right, in how few segments, who answers, and never slower than eager.

    python bench/compiled.py [--models bert ...] [--backends auto xla ...] [--part 1/8] [--json FILE]

Each model and backend runs in a process of its own, on one thread, in evaluation mode and without gradients, until
nothing compiles and no turns are left. It is compared with eager on four inputs, and on one more when all weights were
written in place. Then rounds of eager, jitted and eager again are timed. A process that hangs or dies is a row, too.
Printed are, for each,

- off: the largest difference from eager, in units of what the documents promise (above 1 it is wrong);
- segments: how many there are, and their share of the operators;
- answers: who answers, and for how many of the keys of segments; who else has a plan, and who lost;
- auto/eager: the median of the ratios of the rounds, with eager/eager beside it;
- below it, each reason why a backend has no plan.

Models of packages that are not installed are left out, and counted.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import statistics
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import zoo

LEAST_SECONDS = 5.0  # before a model may count as settled: "auto" begins when a segment has come again
LOOK = 10  # calls between looks at what is under way
SEEDS = range(4)
WRITTEN = 1.01  # what weights are multiplied by


def measure(name: str, backend: str, rounds: int, patience: float) -> dict[str, Any]:
    """Everything of one model and backend, in this process."""
    warnings.filterwarnings("ignore")
    import torch
    from rounds import Rounds

    import pijit
    from pijit import compilers
    from pijit.compilers import USUAL

    torch.set_num_threads(1)
    with torch.no_grad():
        inputs = zoo.inputs(name)
        eager, model = zoo.build(name), zoo.build(name)
        for _ in range(10):
            zoo.call(eager, inputs)
        fast = pijit.jit(model, backend=backend)
        seconds, settled = settle(fast, inputs, LEAST_SECONDS if backend == "auto" else 0, patience)
        timed = Rounds("eager", "twin", "jitted")
        ways = {"eager": eager, "twin": eager, "jitted": fast}
        calls = {way: partial(zoo.call, each, inputs) for way, each in ways.items()}
        for _ in range(rounds):
            timed.run(calls)
        allowed = USUAL if backend == "auto" else compilers.get(backend).tolerance
        off, gap = compared(name, eager, fast, allowed)
        segments = [segment for trace in pijit.traces(fast) for segment in trace.segments]
        for each in (eager, model):
            for weight in each.parameters():
                weight.mul_(WRITTEN)
        off, gap = (max(pair) for pair in zip((off, gap), compared(name, eager, fast, allowed), strict=True))
    keys = [key for segment in segments for key in segment.keys]
    return {
        "model": name,
        "backend": backend,
        "off": off,
        "difference": gap,
        "segments": len(segments),
        "operators": sum(segment.operators for segment in segments),
        "share": sum(segment.share for segment in segments),
        "answers": Counter(key.answers for key in keys),
        "plans": Counter(plan.backend for key in keys for plan in key.plans),
        "lost": Counter(plan.backend for key in keys for plan in key.losers),
        "refused": Counter(f"{who}: {why}" for key in keys for who, why in key.refused.items()),
        **timed.result(),
        "eager_ms": 1e3 * statistics.median(timed.times["eager"]),
        "seconds": seconds,
        "settled": settled,
    }


def settle(fast: Any, inputs: dict[str, Any], least: float, patience: float) -> tuple[float, bool]:
    """Call until nothing compiles and no turns are left; the seconds, and False: they were too many."""
    import pijit
    from pijit.compilers import market

    began = time.perf_counter()
    while (passed := time.perf_counter() - began) < patience:
        for _ in range(LOOK):
            zoo.call(fast, inputs)
        if passed > least and market.wait(0):
            states = {key.state for trace in pijit.traces(fast) for segment in trace.segments for key in segment.keys}
            if "in turns" not in states:
                return passed, True
    return passed, False


def compared(name: str, eager: Any, fast: Any, tolerance: Any) -> tuple[float, float]:
    """The largest difference of any input, in units of what is allowed, and as it is."""
    import torch
    from graphs import leaves

    off = gap = 0.0
    for seed in SEEDS:
        inputs = zoo.inputs(name, seed)
        right, found = leaves(zoo.call(eager, inputs)), leaves(zoo.call(fast, inputs))
        if [(each.shape, each.dtype) for each in right] != [(each.shape, each.dtype) for each in found]:
            return math.inf, math.inf
        for a, b in zip(right, found, strict=True):
            relative, absolute = tolerance.get(str(a.dtype).removeprefix("torch."), (0.0, 0.0))
            if torch.allclose(a, b, rtol=0, atol=0, equal_nan=True):  # infinities, and what is no number, too
                continue
            apart = (a.double() - b.double()).abs().nan_to_num(math.inf)
            off = max(off, (apart / (absolute + relative * a.double().abs())).max().item())
            gap = max(gap, apart.max().item())
    return off, gap


def in_a_process(name: str, backend: str, options: argparse.Namespace) -> dict[str, Any]:
    """`measure` in a process of its own; what it says, or why there is nothing."""
    command = [sys.executable, "-X", "faulthandler", __file__, "--one", name, backend]
    command += ["--rounds", str(options.rounds), "--patience", str(options.patience)]
    longest = 2 * options.patience + 60
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=longest, check=False)
    except subprocess.TimeoutExpired:
        return {"model": name, "backend": backend, "died": f"took longer than {longest:g} s"}
    said = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode == 0 and said:
        row: dict[str, Any] = json.loads(said[-1])
        return row
    when = "at its end, " if said else ""
    why = (done.stderr.strip().splitlines() or ["it said nothing"])[-1][:300]
    return {"model": name, "backend": backend, "died": f"{when}code {done.returncode}: {why}", "said": done.stderr}


def lines(row: dict[str, Any]) -> Iterator[str]:
    """One model for people."""
    head = f"{row['model']:26} {row['backend']:12}"
    if "died" in row:
        yield f"{head} {row['died']}"
        return
    answers = ", ".join(f"{who} {count}" for who, count in row["answers"].items()) or "native"
    others = {who: count for who, count in row["plans"].items() if who not in row["answers"]}
    for word, more in (("also", others), ("lost", row["lost"])):
        if more:
            answers += f"; {word} {', '.join(more)}"
    late = "" if row["settled"] else f" (not settled after {row['seconds']:.0f} s)"
    yield (
        f"{head} off {row['off']:.2g} ({row['difference']:.1e})  segments {row['segments']}, {row['operators']} "
        f"operators, share {row['share']:.2f}  {row['eager_ms']:.2f} ms  auto/eager {row['ratio']:.2f} "
        f"({row['noise']:.2f})  {row['seconds']:.0f} s{late}  {answers}"
    )
    for why, count in row["refused"].items():
        yield f"    {count} x {why.partition(chr(10))[0][:200]}"


def summary(rows: list[dict[str, Any]]) -> str:
    """All of them."""
    ran = [row for row in rows if "died" not in row]
    if not ran:
        return "none ran"
    wrong = [row["model"] for row in ran if not row["off"] <= 1]
    slower = [row["model"] for row in ran if row["ratio"] > max(1.0, row["noise"])]
    return (
        f"{len(rows)} rows, {len(rows) - len(ran)} died, {len(wrong)} wrong ({', '.join(wrong) or '-'}); segments: "
        f"median {statistics.median(row['segments'] for row in ran):g}, most {max(row['segments'] for row in ran)}; "
        f"share of operators: mean {statistics.mean(row['share'] for row in ran):.3f}, least "
        f"{min(row['share'] for row in ran):.2f}; to eager: geometric mean "
        f"{statistics.geometric_mean(row['ratio'] for row in ran):.2f}, worst {max(row['ratio'] for row in ran):.2f}, "
        f"eager/eager up to {max(row['noise'] for row in ran):.2f}; slower than both: {', '.join(slower) or '-'}"
    )


def part(text: str) -> tuple[int, int]:
    """`i/n` as numbers."""
    at, _, of = text.partition("/")
    if not 1 <= int(at) <= int(of):
        raise argparse.ArgumentTypeError(f"{text!r} is no part: write 1/4 for the first of four")
    return int(at), int(of)


def main() -> int:
    """Measures the models, one process each, and prints a table and its summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=list(zoo.MODELS), default=list(zoo.MODELS), metavar="NAME")
    parser.add_argument("--backends", nargs="+", default=["auto"], metavar="NAME")
    parser.add_argument("--part", type=part, default=(1, 1), metavar="I/N")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument(
        "--patience", type=float, default=240, metavar="SECONDS", help="until a model has to be settled"
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*options.one, options.rounds, options.patience)))
        return 0
    at, of = options.part
    chosen = options.models[at - 1 :: of]
    there = [name for name in chosen if importlib.util.find_spec(zoo.MODELS[name][0]) is not None]
    rows = []
    for name in there:
        for backend in options.backends:
            rows.append(in_a_process(name, backend, options))
            print("\n".join(lines(rows[-1])), flush=True)
    print(f"{len(chosen)} models, {len(chosen) - len(there)} of them of packages that are not installed")
    for backend in options.backends:
        print(f"{backend}: {summary([row for row in rows if row['backend'] == backend])}")
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1))
    return int(any("died" in row or not row["off"] <= 1 for row in rows))


if __name__ == "__main__":
    sys.exit(main())
