"""Training steps of training_steps.py under native replay: are they right to the bit, and how much faster?

    python bench/training.py [--only NAME ...] [--pairs 60] [--json FILE] [--write]

Each step runs in a process of its own, on one thread, with three equal sides: eager, a twin that is eager too, and
`pijit.jit(step)`. Twenty eager calls come first, then the first jitted call, then what is left of fifty steps of each
side. Rounds of one step of each side follow, in all orders in turn. Then all bits are compared: parameters, buffers,
gradients, the state of optimizers and schedulers, what each step returned, and torch's random state, which each side
has for itself. Nothing is compared before, since reading the attributes of an object may change how a replay goes on.

Printed are medians of the rounds' ratios to eager, in CPU time of the thread and in wall time; the twin's is the noise.
An eager call runs without pijit's hook, as in a program that does not use pijit. `first` is the first jitted call, in
eager ones; recordings, replays and exits are those of the process; opaque calls are those in the traces, and `a replay`
has how many of them a replay makes. A step whose bits differ is said, and the exit status is 1. --write writes
docs/training.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import re
import statistics
import struct
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "training.md"
WARM_CALLS, STEPS_BEFORE = 20, 50
BETWEEN = 20  # steps, then comes what a program does now and then
LIMIT = 600  # seconds of a process
SMALL, MODELS = "MLP", "models"  # groups: of one every ratio is told at the end, of the other the mean
HEAD = (
    *("step", "eager ms", "cpu", "eager", "wall", "eager", "first"),
    *("recordings", "replays", "exits", "opaque", "a replay", "bits"),
)
FORM = "{:20}{:>9}{:>8}{:>8}{:>8}{:>8}{:>8}{:>12}{:>9}{:>7}{:>8}{:>10}  {}"
INTRO = """# Training steps

Training steps as people write them, replayed natively: `python bench/training.py --write` writes this page; the steps
are in [bench/training_steps.py](../bench/training_steps.py). *cpu* and *wall* are ratios to eager, each followed by
that of a second eager side, which is the noise. *first* is the first jitted call, in eager ones. *bits* says whether
parameters, buffers, gradients, the state of optimizers, losses and the random state are equal to those of eager.

Where nobody looks at the graph between a forward and a backward pass, both are replayed as operators beneath autograd,
without a graph and without torch's engine. So is what `torch.utils.checkpoint` (`use_reentrant=False`) computes once
more, if its function does nothing but compute and nothing that it reads changes until then. The engine runs what Python
may see or change: hooks, functions of the program's own (`use_reentrant=True` is one), hooks of saved tensors that a
program has written, graphs that are kept or differentiated once more. Such a step is replayed to its end, too, with an
opaque call for the engine. `pijit.explain` says of each pass which it is, and why.

"""


class Side:
    """One of the equal sides: its step, what the steps returned, and its own random state."""

    def __init__(self, make: Any, jitted: bool = False) -> None:
        import torch

        import pijit

        torch.manual_seed(0)
        self.training = make()
        self.run = pijit.jit(self.training.step) if jitted else self.training.step
        self.jitted = jitted
        self.random = torch.get_rng_state()
        self.returned: list[Any] = []
        self.cpu: list[float] = []
        self.wall: list[float] = []

    def step(self) -> None:
        """One step, timed."""
        import torch
        from rounds import with_hook

        batches = self.training.batches
        args = batches[len(self.returned) % len(batches)]
        torch.set_rng_state(self.random)
        if self.returned and len(self.returned) % BETWEEN == 0:
            self.training.between()
        with_hook(self.jitted)
        wall, cpu = time.perf_counter(), time.thread_time()
        value = self.run(*args)
        self.cpu.append(time.thread_time() - cpu)
        self.wall.append(time.perf_counter() - wall)
        with_hook(False)
        self.random = torch.get_rng_state()
        self.returned.append(value)

    def state(self) -> dict[str, Any]:
        """Everything that is compared."""
        return self.training.state | {"returned": self.returned, "random": self.random}


def leaves(thing: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Tensors, their gradients and plain values in what is compared, with names."""
    import torch

    if isinstance(thing, torch.Tensor):
        yield path, thing.detach()
        yield f"{path}.requires_grad", thing.requires_grad
        if thing.is_leaf and thing.requires_grad:
            yield from leaves(thing.grad, f"{path}.grad")
    elif isinstance(thing, torch.nn.Module):
        for name, tensor in itertools.chain(thing.named_parameters(), thing.named_buffers()):
            yield from leaves(tensor, f"{path}.{name}")
    elif hasattr(thing, "state_dict"):
        yield from leaves(thing.state_dict(), path)
    elif isinstance(thing, dict):
        for key, value in thing.items():
            yield from leaves(value, f"{path}.{key}" if path else str(key))
    elif isinstance(thing, (list, tuple)):
        yield f"{path} has", len(thing)
        for at, value in enumerate(thing):
            yield from leaves(value, f"{path}[{at}]")
    else:
        yield path, thing


def same(a: Any, b: Any) -> bool:
    """Two leaves have equal bits."""
    import torch

    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        if (a.dtype, a.shape, a.stride()) != (b.dtype, b.shape, b.stride()):
            return False
        one, other = (each.contiguous().flatten().view(torch.uint8) for each in (a, b))
        return torch.equal(one, other)
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b)
    return bool(a == b)


def differing(expected: Side, found: Side) -> str:
    """The name of the first leaf that differs, or ""."""
    pairs = itertools.zip_longest(leaves(expected.state(), ""), leaves(found.state(), ""), fillvalue=("nothing", None))
    for (name, a), (other, b) in pairs:
        if name != other:
            return f"{name} beside {other}"
        if not same(a, b):
            return name
    return ""


def measure(name: str, pairs: int) -> dict[str, Any]:
    """All numbers of a step, in this process."""
    warnings.filterwarnings("ignore")
    import torch
    import torch._dynamo  # the first optimizer does so, which is no part of a step
    from training_steps import STEPS

    import pijit

    torch.set_num_threads(1)
    group, make = STEPS[name]
    eager, twin, jitted = Side(make), Side(make), Side(make, jitted=True)
    for _ in range(WARM_CALLS):
        eager.step()
    for side in (jitted, eager, twin):
        while len(side.returned) < STEPS_BEFORE:
            side.step()
    first = jitted.cpu[0]
    orders = itertools.cycle(itertools.permutations((eager, twin, jitted)))
    for _ in range(pairs):
        for side in next(orders):
            side.step()
    traces, status, stats = pijit.traces(jitted.run), pijit.status(jitted.run), pijit.stats()
    opaque, others = (
        Counter(called(trace, node) for trace in some for node in trace.nodes if node.opaque)
        for some in ([trace for trace in traces if trace.replays], [trace for trace in traces if not trace.replays])
    )
    plain = statistics.median(eager.cpu[-pairs:])
    return {
        "step": name,
        "group": group,
        "eager ms": 1e3 * plain,
        "cpu": ratio(jitted.cpu, eager.cpu, pairs),
        "cpu noise": ratio(twin.cpu, eager.cpu, pairs),
        "wall": ratio(jitted.wall, eager.wall, pairs),
        "wall noise": ratio(twin.wall, eager.wall, pairs),
        "first": first / plain,
        **{key: int(stats[key]) for key in ("records", "aborts", "replays", "exits", "guard_failures", "opaque_calls")},
        "traces": len(traces),
        "nodes": sum(len(trace.nodes) for trace in traces),
        "opaque": dict(opaque.most_common()),
        "opaque in others": dict(others.most_common()),
        "stops": [str(trace.stop) for trace in traces if trace.stop is not None],
        "state": status.state,
        "reason": status.reason,
        "steps": len(eager.returned),
        "differs": differing(eager, jitted),
        "twin differs": differing(eager, twin),
    }


def called(trace: Any, node: Any) -> str:
    """The callable of an opaque call: one that is made in the trace is named by what makes it."""
    if node.operator != node.op:
        return str(node.operator)
    register = node.text.rpartition(" = ")[2].partition("(")[0]
    sources = {name: source for name, source, *_ in trace.loaded}
    sources |= {name: each.text.partition(" = ")[2] for each in trace.nodes for name in each.outputs}
    return re.sub(r"_at_0x\w+", "", sources.get(register, node.text))[:100]


def ratio(mine: list[float], plain: list[float], pairs: int) -> float:
    """Median over the rounds."""
    return statistics.median(a / b for a, b in zip(mine[-pairs:], plain[-pairs:], strict=True))


def in_fresh_process(name: str, pairs: int) -> dict[str, Any]:
    """`measure` in a process of its own, or why there is nothing."""
    command = [sys.executable, __file__, "--one", name, "--pairs", str(pairs)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT)
    except subprocess.TimeoutExpired as error:
        return {"step": name, "failed": str(error)}
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        return {"step": name, "failed": f"ended with {done.returncode}: {last[:200]}"}
    return json.loads(done.stdout.splitlines()[-1])


def cells(row: dict[str, Any]) -> list[str]:
    """As HEAD names them."""
    ratios = [f"{row[key]:.3f}" for key in ("cpu", "cpu noise", "wall", "wall noise")]
    counts = [str(row[key]) for key in ("records", "replays", "exits")]
    bits = f"differ: {row['differs']}" if row["differs"] else "equal"
    if row["twin differs"]:
        bits += f" (eager itself does: {row['twin differs']})"
    counts += [str(sum(row["opaque"].values()) + sum(row["opaque in others"].values()))]
    counts += [f"{row['opaque_calls'] / max(1, row['replays']):.1f}"]
    return [row["step"], f"{row['eager ms']:.2f}", *ratios, f"{row['first']:.1f}", *counts, bits]


def notes(row: dict[str, Any]) -> Iterator[str]:
    """What a reader has to know beside the numbers."""
    for key, where in (("opaque", ""), ("opaque in others", " in traces that were not replayed")):
        if row[key]:
            yield f"opaque{where}: {', '.join(f'{count} x {name}' for name, count in row[key].items())}"
    if row["reason"]:
        yield f"{row['state']}: {row['reason']}"
    yield from row["stops"]


def summary(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Each of the small ones, and the mean of the models."""
    small = [f"{row['step']} {row['cpu']:.3f}" for row in rows if row["group"] == SMALL]
    if small:
        yield f"{SMALL}: {', '.join(small)}"
    models = {row["step"]: row["cpu"] for row in rows if row["group"] == MODELS}
    if models:
        worst = max(models, key=models.__getitem__)
        mean = statistics.geometric_mean(models.values())
        yield f"{len(models)} {MODELS}: geometric mean {mean:.3f}, worst {models[worst]:.3f} ({worst})"


def page(rows: list[dict[str, Any]], pairs: int) -> str:
    """docs/training.md."""
    machine = f"Python {platform.python_version()}, torch {version('torch')}, {os.cpu_count()} cores"
    lines = [f"One run on {machine}; {pairs} rounds, one thread.", "", *(f"- {line}" for line in summary(rows)), ""]
    lines += [f"| {' | '.join(HEAD)} |", f"| {' | '.join('---' for _ in HEAD)} |"]
    lines += [f"| {' | '.join(cells(row))} |" for row in rows]
    return INTRO + "\n".join([*lines, ""])


def main() -> int:
    """Measures and prints a line for each step: 1 if bits of one differ, or it failed."""
    from training_steps import STEPS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", default=list(STEPS), choices=STEPS)
    parser.add_argument("--pairs", type=int, default=60, help="rounds")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--write", action="store_true", help="write docs/training.md")
    parser.add_argument("--one", choices=STEPS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.pairs)))
        return 0
    if options.write and options.only != list(STEPS):
        parser.error("--write is for all steps")
    print(FORM.format(*HEAD), flush=True)
    rows, wrong = [], False
    for name in options.only:
        row = in_fresh_process(name, options.pairs)
        if "failed" in row:
            wrong = True
            print(f"{name:20} {row['failed']}", flush=True)
            continue
        rows.append(row)
        wrong |= bool(row["differs"])
        print(FORM.format(*cells(row)), *(f"    {note[:400]}" for note in notes(row)), sep="\n", flush=True)
    for line in summary(rows):
        print(line)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1))
    if options.write:
        PAGE.write_text(page(rows, options.pairs))
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
