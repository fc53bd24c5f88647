"""What `python -m pijit` makes of programs as they are: each of those beside this file, in processes of its own.

    python bench/programs/run.py [--scale 1] [--pairs 3] [--only NAME ... | --every N] [--sides pijit jit] [--write]

In each round a program runs plain, plain once more, under `python -m pijit`, and with pijit.jit() at the place that its
source names; the order changes from round to round. It tells the CPU time of its main thread from its first step to its
last, recordings included, imports not. Printed are medians of the rounds' ratios to the mean of both plain runs; plain
to plain is the noise. All runs have to print the same, a hash of the weights included: what does not is said, and the
exit status is 1. `make bench-programs` has the packages that the programs take, and writes docs/programs.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "programs.md"
NAMES = sorted(file.stem for file in HERE.glob("*.py") if file.stem != "run" and not file.stem.startswith("_"))
SIDES = {"pijit": "python -m pijit", "jit": "pijit.jit()"}
BAR = 0.83  # of plain time: 1.2 times as fast
SHARE = 0.75  # of the programs are to be there
MEAN = {"pijit": 0.65, "jit": 0.60}
WORST = {"pijit": 1.03, "jit": 1.02}
LIMIT = 1200  # seconds of a run
HEAD = ("program", "plain s", "plain/plain", "pijit/plain", "jit/plain", "recordings", "replays", "left", "opaque")
COUNTS = ("records", "replays", "exits", "opaque")
INTRO = """# Programs as they are

Training loops, samplers, agents and generators, written as users of their packages write them, run under plain Python
and under pijit. `make bench-programs` writes this page; the programs are in [bench/programs/](../bench/programs).

*plain s* is CPU time from the first step of a program to its last, on one thread. The other times are ratios to it,
recordings included, medians of the rounds; *plain/plain* is the noise of the row. *jit* is `pijit.jit()` at the place
that the source names. *left* counts the replays that CPython had to go on with, *opaque* the calls that replays made
without looking inside. All runs of a program printed the same, a hash of its weights included, unless its row says
otherwise.

"""


LIMITS = """
## What limits them

Written by hand, from `--report` and `PIJIT_LOG=record,recompiles,exits`, for runs of about three seconds.

- **Recordings that come to nothing.** Lightning, torchrl and torchsde make objects anew that traces name: metadata of
  metrics, `functools.partial`, TensorDicts, the intervals of a Brownian path. Recording took 0.4 s of 3.6 (Lightning),
  0.2 s of 2.5 (torchrl, torchsde). Each iterator of a DataLoader is a root of its own with two recordings: 0.1 s of 2
  (tabular_mlp).
- **The hook.** An empty Python call takes about twice as long under it: half of what it adds is CPython's own. Programs
  that call much outside of replays lose by that, and no recording shows it. Where calls lose more than replays are
  thought to gain, the hook goes out for seconds at a time. What replays gain is known from a few calls that were
  compared, with an error: where gain and loss are near each other some runs stay in and others do not.
- **Replays that are left.** skorch copies a history that grows; pyro reads a stack of contexts, which the trace itself
  has filled, behind an opaque call: every replay of `svi` is left there.
- **Small functions that are jitted.** Before CPython 3.12 a jitted function needs the hook wherever it is called from.
  A program in which such a function is a tenth of the time (skorch, zuko) gains less by it than all other calls lose.
  From run to run these rows differ by a tenth, as plain runs do.
- **Opaque calls.** Samplers of random numbers in C, NumPy and environments; torch's engine of autograd, where somebody
  may look at the graph. Behind each the guards of what follows are checked again.
- **What pijit steps aside for.** Transformations of torch.func: maml, per_sample_gradients.
"""


class Failed(Exception):
    """A run that did not end well, and its last line."""


@dataclass
class Row:
    """What became of a program: times of each side, one for each round, and what was wrong."""

    name: str
    times: dict[str, list[float]] = field(default_factory=dict)
    stats: dict[str, int] = field(default_factory=dict)
    wrong: str = ""

    def ratio(self, side: str) -> float | None:
        """Median over the rounds; None for a side that was not asked for."""
        if side not in self.times or self.wrong:
            return None
        plain, twin = self.times["plain"], self.times["twin"]
        if side == "twin":
            return statistics.median(b / a for a, b in zip(plain, twin, strict=True))
        return statistics.median(mine * 2 / (a + b) for mine, a, b in zip(self.times[side], plain, twin, strict=True))

    def cells(self) -> list[str]:
        """As HEAD names them."""
        if self.wrong:
            return [self.name, self.wrong, *[""] * (len(HEAD) - 2)]
        ratios = [self.ratio(side) for side in ("twin", "pijit", "jit")]
        told = ["" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
        counts = [str(self.stats.get(name, "")) for name in COUNTS]
        return [self.name, f"{statistics.median(self.times['plain']):.2f}", *told, *counts]


def run(name: str, side: str, scale: float, folder: Path) -> tuple[bytes, dict[str, float]]:
    """What a program prints, and the times that it tells."""
    told = folder / "times.json"
    told.unlink(missing_ok=True)
    command = [sys.executable, *(["-m", "pijit"] if side == "pijit" else []), str(HERE / f"{name}.py")]
    wanted = {
        "PIJIT_BENCH_SCALE": str(scale),
        "PIJIT_BENCH_TIMES": str(told),
        "PIJIT_BENCH_JIT": str(int(side == "jit")),
    }
    # What a run has learnt is nothing that the next one may have.
    quiet = {"PIJIT_CACHE": "0", "PIJIT_QUIET": "1", "PYTHONHASHSEED": "0", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        command, env=os.environ | quiet | wanted, cwd=folder, capture_output=True, check=False, timeout=LIMIT
    )
    if done.returncode != 0 or not told.exists():
        said = done.stderr.decode(errors="replace").strip().splitlines() or [""]
        raise Failed(f"{side} ended with {done.returncode}: {said[-1][:200]}")
    return done.stdout, json.loads(told.read_text())


def measure(name: str, sides: list[str], scale: float, pairs: int) -> Row:
    """All rounds of a program."""
    row, printed = Row(name), b""
    orders = itertools.cycle(itertools.permutations(("plain", "twin", *sides)))
    try:
        for _ in range(pairs):
            for side in next(orders):
                with tempfile.TemporaryDirectory() as folder:
                    output, times = run(name, side, scale, Path(folder))
                row.times.setdefault(side, []).append(times["thread"])
                if side == "pijit":
                    row.stats = {name: int(times[name]) for name in COUNTS}
                printed = printed or output
                if output != printed:
                    row.wrong = row.wrong or f"prints something else: {differing(printed, output)}"
    except (Failed, subprocess.TimeoutExpired) as error:
        row.wrong = str(error)
    return row


def differing(one: bytes, other: bytes) -> str:
    """The first line that differs."""
    lines = itertools.zip_longest(one.decode().splitlines(), other.decode().splitlines(), fillvalue="(nothing)")
    return next((f"{a[:80]!r} and {b[:80]!r}" for a, b in lines if a != b), "line ends")


def summary(rows: list[Row], side: str) -> str:
    """A line about all programs."""
    ratios = {row.name: ratio for row in rows if (ratio := row.ratio(side)) is not None}
    if not ratios:
        return f"{SIDES[side]}: no program"
    good, worst = sum(ratio <= BAR for ratio in ratios.values()), max(ratios, key=ratios.__getitem__)
    mean = statistics.geometric_mean(ratios.values())
    counted = f"{good} of {len(ratios)} at {BAR} or better"
    return f"{SIDES[side]}: geometric mean {mean:.2f}, {counted}, worst {ratios[worst]:.2f} ({worst})"


def bars(rows: list[Row], sides: list[str]) -> Iterator[str]:
    """What is aimed at, and whether it is met."""
    yield "| figure | bar | here | |"
    yield "| --- | --- | --- | --- |"
    for side in sides:
        ratios = [ratio for row in rows if (ratio := row.ratio(side)) is not None]
        if not ratios:
            continue
        good = sum(ratio <= BAR for ratio in ratios) / len(ratios)
        figures = [
            ("geometric mean", MEAN[side], statistics.geometric_mean(ratios)),
            ("worst", WORST[side], max(ratios)),
        ]
        for name, bar, figure in figures:
            met = "met" if figure <= bar else "missed"
            yield f"| {SIDES[side]}: {name} | {bar:.2f} | {figure:.2f} | {met} |"
        if side == "pijit":
            yield f"| {SIDES[side]}: at {BAR} or better | 75 % | {good:.0%} | {'met' if good >= SHARE else 'missed'} |"


def page(rows: list[Row], options: argparse.Namespace, load: tuple[float, float]) -> str:
    """docs/programs.md."""
    machine = f"Python {platform.python_version()}, torch {version('torch')}, {os.cpu_count()} cores"
    chosen = "all programs" if options.every == 1 else f"every program number {options.every}, counted by name"
    busy = f"the machine's load was {load[0]:.1f} at the begin and {load[1]:.1f} at the end"
    return (
        INTRO
        + "\n".join(
            [
                f"One run on {machine}: {chosen}, scale {options.scale:g}, {options.pairs} rounds; {busy}.",
                *(f"*{side}* was not measured." for side in SIDES if side not in options.sides),
                "",
                *(f"- {summary(rows, side)}" for side in options.sides),
                "",
                *bars(rows, options.sides),
                "",
                f"| {' | '.join(HEAD)} |",
                f"| {' | '.join('---' for _ in HEAD)} |",
                *(f"| {' | '.join(cell.replace('|', '/') for cell in row.cells())} |" for row in rows),
                "",
            ]
        )
        + LIMITS
    )


def main() -> int:
    """Measures and prints a line for each program: 1 if one went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="1: about three seconds a program")
    parser.add_argument("--pairs", type=int, default=3, help="rounds")
    parser.add_argument("--only", nargs="+", metavar="NAME", default=NAMES, choices=NAMES)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one program of so many, counted by name")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--write", action="store_true", help="write docs/programs.md")
    options = parser.parse_args()
    if options.write and options.only != NAMES:
        parser.error("--write is for all programs")
    form = "{:24}{:>9}{:>13}{:>13}{:>11}{:>12}{:>10}{:>8}{:>10}"
    before = os.getloadavg()[0]
    print(form.format(*HEAD), flush=True)
    rows = []
    for name in options.only[:: options.every]:
        rows.append(measure(name, options.sides, options.scale, options.pairs))
        print(f"{name:24} {rows[-1].wrong}" if rows[-1].wrong else form.format(*rows[-1].cells()), flush=True)
    for side in options.sides:
        print(summary(rows, side))
    if options.write:
        PAGE.write_text(page(rows, options, (before, os.getloadavg()[0])))
    return int(any(row.wrong for row in rows))


if __name__ == "__main__":
    sys.exit(main())
