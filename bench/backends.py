"""Backends behind the trace: how fast, how soon, and how far from eager, model by model.

    python bench/backends.py [--models encoder bert ...] [--backends native auto onnxruntime ...] [--json FILE]

Each model and backend runs in a process of its own, on one thread; models in evaluation mode, without gradients. After
20 eager calls the jitted model is called until nothing compiles any more, and 80 times more, in which several backends
take their turns. Printed are, for each,

- steady: the median of the ratios to eager, of interleaved rounds, with eager against eager beside it;
- plan: seconds from the second call to the call in which compiled code answered first;
- longest: the longest call in between, as a ratio to the median of native replay, and in milliseconds;
- share: of the operators that are in segments, and how many segments there are;
- difference: the largest, absolute, from eager, but of steps, no two of which are alike; and who answers.

`encoder` and `bert`, that of `make run`, are 12 layers of hidden size 64 on 16 tokens; `step` and `adamw` are training
steps of a 3-layer MLP (batch 32, hidden size 64) with SGD and with AdamW; others are names of zoo.toml.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import zoo

SETTLE_SECONDS = 300  # at most, to compile with all that is installed
LEAST_SECONDS = 5  # before it may count as settled: "auto" begins when a segment has come again
TURNS = 80
LONGEST = 600  # seconds of a model
USUAL = ("native", "auto")
# At most this much of eager, under auto.
BARS = {"encoder": 0.25, "bert": 0.20, "step": 0.30}


def encoder() -> Any:
    """A 12-layer encoder of torch.nn, of single operators."""
    import torch
    from torch import nn

    torch.backends.mha.set_fastpath_enabled(False)
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return nn.TransformerEncoder(layer, 12, enable_nested_tensor=False).eval()


STEPS = ("step", "adamw")


def training_step(name: str) -> tuple[Any, dict[str, Any]]:
    """A whole step: forward, backward, optimizer."""
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    if name == "adamw":
        optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(features: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(features), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, {"features": torch.randn(32, 64), "labels": torch.randint(0, 10, (32,))}


def made(name: str) -> tuple[Any, dict[str, Any]]:
    """A model with fixed weights, and what it is called with."""
    import torch

    torch.manual_seed(0)
    if name == "bert":
        sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
        import models

        return models.bert(), {"input_ids": models.input_ids()}
    if name == "encoder":
        return encoder(), {"x": torch.randn(1, 16, 64, generator=torch.Generator().manual_seed(0))}
    if name in STEPS:
        return training_step(name)
    return zoo.build(name), zoo.inputs(name)


def measure(name: str, backend: str, rounds: int) -> dict[str, Any]:
    """All numbers of one model and backend, in this process."""
    warnings.filterwarnings("ignore")
    import torch

    import pijit
    from pijit.compilers import market

    torch.set_num_threads(1)
    with torch.set_grad_enabled(name in STEPS):
        (eager, inputs), (model, _) = made(name), made(name)
        for _ in range(20):
            expected = zoo.call(eager, inputs)
        asked = backend.split("+") if "+" in backend else backend
        fast = pijit.jit(model, backend=asked)
        zoo.call(fast, inputs)
        calls, plan = settle(fast, inputs, market)
        eager_times, fast_times, twin_times = interleaved(eager, fast, inputs, rounds)
        got = zoo.call(fast, inputs)
    segments = [segment for trace in pijit.traces(fast) for segment in trace.segments]
    keys = [key for segment in segments for key in segment.keys]
    early = [seconds for seconds, answered in calls if not answered] or [seconds for seconds, _ in calls]
    return {
        "model": name,
        "backend": backend,
        "steady": ratio(fast_times, eager_times),
        "noise": ratio(twin_times, eager_times),
        "plan": plan,
        "longest": max(early) / statistics.median(early),
        "longest_ms": 1e3 * max(early),
        "segments": len(segments),
        "share": sum(segment.share for segment in segments),
        "difference": float("nan") if name in STEPS else largest(leaves(got), leaves(expected)),
        "answers": sorted({key.plans[0].backend for key in keys if key.state == "settled" and key.plans}),
        "refused": {name: why for key in keys for name, why in key.refused.items()},
    }


def settle(fast: Any, inputs: dict[str, Any], market: Any) -> tuple[list[tuple[float, bool]], float | None]:
    """Seconds of each call, and whether a plan was there by then; and when the first one was."""
    import pijit

    began, calls, plan = time.perf_counter(), [], None
    more = TURNS
    while more > 0:
        start = time.perf_counter()
        zoo.call(fast, inputs)
        calls.append((time.perf_counter() - start, plan is not None))
        if plan is None and pijit.stats()["segments"]:
            plan = time.perf_counter() - began
        passed = time.perf_counter() - began
        if (passed > LEAST_SECONDS and market.wait(0)) or passed > SETTLE_SECONDS:
            more -= 1
    return calls, plan


def interleaved(eager: Any, fast: Any, inputs: dict[str, Any], rounds: int) -> tuple[list[float], ...]:
    """Seconds of eager, jitted and eager again, round by round."""
    times: tuple[list[float], ...] = ([], [], [])
    for _ in range(rounds):
        for subject, seconds in zip((eager, fast, eager), times, strict=True):
            start = time.perf_counter()
            zoo.call(subject, inputs)
            seconds.append(time.perf_counter() - start)
    return times


def ratio(mine: list[float], plain: list[float]) -> float:
    """The median of the ratios of the rounds."""
    return statistics.median(one / other for one, other in zip(mine, plain, strict=True))


def leaves(output: Any) -> list[Any]:
    """The tensors in an output."""
    import torch

    if isinstance(output, torch.Tensor):
        return [output]
    if isinstance(output, dict):
        output = list(output.values())
    return [leaf for part in output for leaf in leaves(part)] if isinstance(output, tuple | list) else []


def largest(got: list[Any], right: list[Any]) -> float:
    """The largest difference of floats."""
    return max(
        (float((a.double() - b.double()).abs().max()) for a, b in zip(got, right, strict=True) if a.numel()),
        default=0.0,
    )


def in_fresh_process(name: str, backend: str, rounds: int) -> dict[str, Any]:
    """`measure` in a process of its own; what it says, or why there is nothing."""
    command = [sys.executable, __file__, "--one", name, backend, "--rounds", str(rounds)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)
    except subprocess.TimeoutExpired:
        return {"model": name, "backend": backend, "died": f"took longer than {LONGEST} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if lines:
        return json.loads(lines[-1])
    return {"model": name, "backend": backend, "died": (done.stderr.strip().splitlines() or ["?"])[-1]}


def text(row: dict[str, Any]) -> str:
    """A row for people."""
    head = f"{row['model']:28} {row['backend']:14}"
    if "died" in row:
        return f"{head} {row['died']}"
    plan = "-" if row["plan"] is None else f"{row['plan']:.1f} s"
    refused = "".join(f"\n    {name}: {why}" for name, why in row["refused"].items())
    return (
        f"{head} steady {row['steady']:.3f} (eager/eager {row['noise']:.2f})  plan {plan:>7}  longest "
        f"{row['longest']:5.1f} x, {row['longest_ms']:.0f} ms  share {row['share']:.2f} in {row['segments']}  "
        f"difference {row['difference']:.1e}  {', '.join(row['answers']) or 'native'}{refused}"
    )


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["encoder", "bert"], metavar="NAME")
    parser.add_argument("--backends", nargs="+", default=list(USUAL), metavar="NAME")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*options.one, options.rounds)))
        return 0
    rows = []
    for name in options.models:
        for backend in options.backends:
            rows.append(in_fresh_process(name, backend, options.rounds))
            print(text(rows[-1]), flush=True)
    for row in rows:
        if row["backend"] == "auto" and "steady" in row:
            bar = BARS.get(row["model"], 1.0)
            print(f"{row['model']}: auto {row['steady']:.3f} (bar: {bar})")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
