"""Models of gpu_models.py on a GPU, launched as CUDA graphs: are they right to the bit, how fast, and are the bars met?

    python bench/gpu.py [--only NAME ...] [--seconds 240] [--compiled] [--fused] [--json FILE]

Each row is measured in a process of its own, on one thread. While one is measured, the next one imports what it needs;
the device is one row's alone. What a row does:

1. Eager calls; then a jitted side with `--backend`, called until who answers no longer changes.
2. As many calls of a second eager side, the twin, and of a side under native replay.
3. Rounds of one call of each side, in all orders in turn. A call ends in a synchronisation.
4. Bits: what each call returned, parameters, the state of optimizers, and what is drawn from torch's generator behind
   a call. Each side draws from the same seeds.

Printed for each row: milliseconds of eager, medians of the rounds' ratios to eager (of the twin: the noise), the first
jitted call in milliseconds, the slowest jitted call in slowest ones of eager behind its first one, what the allocator
has reserved beyond eager's, whether bits are equal ("noisy" where those of the twin differ, too), and the bars.
--compiled adds torch.compile's reduce-overhead, for `generate` that with a static cache. That takes longer, and runs in
blocks, since it records again where calls of others come between. --fused adds the backend `inductor` for rows of
inference: kernels of Triton under pijit's graphs, in blocks, with the largest relative error. A process that takes too
long is ended; what it has said until then is printed. The exit status is 1 if bits of a row differ or it failed; a bar
that is not met is only said. `--device cpu --small` tries all that without a GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import importlib
import itertools
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROUNDS, ROUND_SECONDS = 60, {False: 3.0, True: 9.0}  # whichever comes first; seconds by whether calls are long
SETTLE_CALLS, SETTLE_SECONDS = {False: 200, True: 10}, {False: 6.0, True: 12.0}
STILL = {False: 40, True: 2}  # calls in which nobody else has come to answer
LOOK = 10  # calls between two looks at that
PATIENCE = 0.2  # seconds that a look waits for what is compiled beside the calls
LEAST_ROUNDS = 3
WARM = {False: 10, True: 2}
MOST_MEMORY = 0.10  # beyond eager's
LEFT = 2.0  # seconds that are too few to begin with
BLOCK = {False: 30, True: 3}  # calls of torch.compile's
FUSED_SECONDS = 120.0  # that are waited for kernels

HEAD = (
    "row",
    "eager ms",
    "eager",
    "native",
    "graphs",
    "ms",
    "first ms",
    "worst",
    "memory",
    "bits",
    "compiled",
    "fused",
    "bars",
)
FORM = "{:11}{:>10}{:>8}{:>8}{:>8}{:>9}{:>10}{:>7}{:>8} {:>7} {:>16} {:>24}  {}"


class Side:
    """One of the equal sides: its case, and what came of its calls."""

    def __init__(self, name: str, device: str, small: bool, wrap: Callable[[Any], Any] = lambda call: call) -> None:
        import torch
        from gpu_models import ROWS

        self.row, self.device = ROWS[name], device
        torch.manual_seed(0)
        with torch.device(device):
            self.case = self.row.make(small)
        self.run = wrap(self.case.call)
        self.jitted = self.run is not self.case.call
        self.times: list[float] = []
        self.returned: list[Any] = []  # of training steps
        self.expected: list[Any] = []  # of an inference: results of eager, by the number of the input
        self.wrong = ""

    def step(self) -> float:
        """One call, timed in wall time; seconds."""
        import torch
        from rounds import with_hook
        from training import same

        at = len(self.times)
        arguments = self.case.inputs[at % len(self.case.inputs)]
        torch.manual_seed(at)
        with_hook(self.jitted)
        with torch.set_grad_enabled(self.case.training):
            synchronize(self.device)
            start = time.perf_counter()
            value = self.run(*arguments)
            synchronize(self.device)
            took = time.perf_counter() - start
        with_hook(False)
        self.times.append(took)
        if self.case.training:
            self.returned.append((value, torch.rand(2, device=self.device)))
        elif len(self.expected) < len(self.case.inputs):
            self.expected.append(value)
        elif not self.wrong and not same(self.expected[at % len(self.expected)], value):
            self.wrong = f"the result of call {at}"
        return took

    def compared_with(self, eager: Side) -> Side:
        """Results have to be those of a side that has been called with all inputs."""
        self.expected = eager.expected
        return self

    def state(self) -> dict[str, Any]:
        """Everything that is compared in the end."""
        return self.case.state | {"returned": self.returned}

    def until(self, calls: int) -> None:
        """Make as many calls as there shall have been."""
        while len(self.times) < calls:
            self.step()


def synchronize(device: str) -> None:
    """Wait until the device has done what it was told."""
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


def reserved(side: Side) -> tuple[int, int]:
    """Bytes that the allocator has reserved at most in a few calls, and those that tensors have behind them."""
    import torch

    if side.device != "cuda":
        return 0, 0
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(3):
        side.step()
    return torch.cuda.max_memory_reserved(), torch.cuda.memory_allocated()


def measure(name: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """All numbers of a row, in this process; each time more of them."""
    import pijit

    def side(backend: str | None = None) -> Side:
        if backend is None:
            return Side(name, options.device, options.small)
        return Side(name, options.device, options.small, lambda call: pijit.jit(function_of(call), backend=backend))

    row: dict[str, Any] = {"row": name, "backend": options.backend}
    eager = side()
    long = eager.row.long
    eager.until(max(WARM[long], len(eager.case.inputs)))
    _, before = reserved(eager)
    twin = side().compared_with(eager)
    most, behind = reserved(twin)
    plain = most - (behind - before)  # without what a second side has by itself: weights, the state of an optimizer
    graphs = side(options.backend).compared_with(eager)
    row["first ms"] = 1e3 * graphs.step()
    yield row
    row["settled"] = settle(graphs)
    row["calls until settled"] = len(graphs.times)
    beyond = reserved(graphs)[0] - most - (behind - before)
    row |= {"memory": beyond / plain, "MiB beyond eager": beyond >> 20} if plain else {}
    yield row | answers(graphs.run)
    sides = {"eager": eager, "twin": twin, "native": side("native").compared_with(eager), "graphs": graphs}
    # What training steps return depends on how many there were.
    calls = max(len(each.times) for each in sides.values()) if eager.case.training else WARM[long]
    for each in sides.values():
        each.until(calls)
    row |= in_rounds(sides)
    row["worst"] = max(graphs.times) / max(eager.times[1:])
    row |= answers(graphs.run) | {"differs": differences(sides)}
    yield row
    if options.compiled:
        row |= compiled(side(), eager)
        yield row
    if options.fused and not eager.case.training:
        yield row | fused(side("inductor"), eager)


def in_rounds(sides: dict[str, Side]) -> dict[str, Any]:
    """Times of eager and of graphs, and the ratios of all to eager."""
    long = sides["eager"].row.long
    starts = {key: len(side.times) for key, side in sides.items()}
    orders, until = itertools.cycle(itertools.permutations(sides)), time.perf_counter() + ROUND_SECONDS[long]
    for done in range(ROUNDS):
        if done >= LEAST_ROUNDS and time.perf_counter() > until:
            break
        for key in next(orders):
            sides[key].step()
    timed = {key: side.times[starts[key] :] for key, side in sides.items()}
    ratios = {
        key: statistics.median(mine / plain for mine, plain in zip(times, timed["eager"], strict=True))
        for key, times in timed.items()
        if key != "eager"
    }
    taken = {"eager ms": 1e3 * statistics.median(timed["eager"]), "ms": 1e3 * statistics.median(timed["graphs"])}
    return {"rounds": len(timed["eager"]), **taken, **ratios}


def function_of(call: Callable[..., Any]) -> Callable[..., Any]:
    """A function of Python, where the case has a module."""
    return lambda *arguments: call(*arguments)


def settle(side: Side) -> bool:
    """Call until who answers no longer changes; False: that takes longer."""
    import pijit
    from pijit.compilers import market

    long = side.row.long
    until, still_since, last = time.perf_counter() + SETTLE_SECONDS[long], 0, None
    for at in range(SETTLE_CALLS[long]):
        if time.perf_counter() > until:
            break
        side.step()
        if long or at % LOOK == 0:
            idle = market.wait(PATIENCE)
            keys = [key for trace in pijit.traces(side.run) for each in trace.segments for key in each.keys]
            now = [(key.answers, key.state) for key in keys]
            if now != last or not idle:
                last, still_since = now, at
            elif at - still_since >= STILL[long]:
                return True
    return False


def answers(fast: Any) -> dict[str, Any]:
    """Who answers for segments, and why others do not."""
    import pijit

    traces = pijit.traces(fast)
    segments = [segment for trace in traces for segment in trace.segments]
    keys = [key for segment in segments for key in segment.keys]
    refused = Counter(f"{who}: {why}"[:160] for key in keys for who, why in key.refused.items())
    return {
        "traces": len(traces),
        "segments": len(segments),
        "answers": dict(Counter(str(key.answers) for key in keys)),
        "refused": dict(refused.most_common(4)),
        "status": pijit.status(fast).state,
        "reason": pijit.status(fast).reason,
    }


def differences(sides: dict[str, Side]) -> dict[str, str]:
    """The first thing that is not as in eager, by side."""
    from training import differing

    eager = sides["eager"]
    found = {key: side.wrong or differing(eager, side) for key, side in sides.items() if side is not eager}
    return {key: what for key, what in found.items() if what}


def compiled(side: Side, eager: Side) -> dict[str, Any]:
    """What torch.compile takes, in blocks beside blocks of eager."""
    import torch

    side.compared_with(eager)
    side.run = side.case.compiled or torch.compile(side.case.call, mode="reduce-overhead")
    calls = BLOCK[side.row.long]
    try:
        first = side.step()
        side.until(3)
        taken, plain = (statistics.median([each.step() for _ in range(calls)]) for each in (side, eager))
    except Exception as error:
        return {"compiled failed": f"{type(error).__name__}: {error}".partition("\n")[0][:160]}
    return {"compiled ms": 1e3 * taken, "compiled": taken / plain, "compiled first s": first}


def fused(side: Side, eager: Side) -> dict[str, Any]:
    """What `inductor` takes, in blocks beside blocks of eager, and how far its results are from those of eager."""
    from pijit.compilers import market

    long, start = side.row.long, time.perf_counter()
    side.until(WARM[long])
    came = market.wait(FUSED_SECONDS)
    took = time.perf_counter() - start
    settle(side)
    calls = max(BLOCK[long], len(side.case.inputs))
    taken, plain = (statistics.median([each.step() for _ in range(calls)]) for each in (side, eager))
    found = answers(side.run)
    return {
        "fused ms": 1e3 * taken,
        "fused": taken / plain,
        "fused after s": took if came else None,
        "fused error": max(map(error, side.expected, eager.expected)),
        "fused answers": found["answers"],
        "fused refused": found["refused"],
    }


def error(got: Any, right: Any) -> float:
    """The largest difference of two tensors, in largest magnitudes of the right one; infinite where sizes differ."""
    if got.shape != right.shape:
        return float("inf")
    gap, size = ((got.double() - right.double()).abs().max().item(), right.double().abs().max().item())
    return gap / size if size else gap


# --- processes ----------------------------------------------------------------------------------


def one(name: str, options: argparse.Namespace) -> None:
    """In a process of its own: ready when everything is imported; begins when it is told."""
    warnings.filterwarnings("ignore")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch
    from gpu_models import ROWS

    torch.set_num_threads(1)
    importlib.import_module("pijit.compilers.market")
    package = importlib.import_module(ROWS[name].package)
    if package.__name__ == "transformers":
        package.utils.logging.set_verbosity_error()
    print("ready", flush=True)
    sys.stdin.readline()
    for row in measure(name, options):
        print(json.dumps(row), flush=True)
    sys.stdout.flush()
    os._exit(0)  # threads that compile have nothing to say any longer


class Process:
    """A row that is measured elsewhere."""

    def __init__(self, name: str, arguments: list[str]) -> None:
        self.name, self.row = name, {"row": name}
        self.said = "it said nothing"
        self.process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", __file__, "--one", name, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.text = b""

    def lines(self, until: float) -> Iterator[str]:
        """What it says until then, or until it has ended."""
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        while (left := until - time.monotonic()) > 0:
            if not select.select([descriptor], [], [], left)[0]:
                continue
            more = os.read(descriptor, 1 << 16)
            if not more:
                return
            *whole, self.text = (self.text + more).split(b"\n")
            yield from (line.decode(errors="replace") for line in whole)
        self.row["failed"] = "took too long"

    def run(self, until: float) -> dict[str, Any]:
        """Its row."""
        assert self.process.stdin is not None
        for line in self.lines(until):
            if line == "ready":
                break
            self.said = line.strip() or self.said
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(b"go\n")
            self.process.stdin.flush()
        start = time.monotonic()
        for line in self.lines(until):
            if line.startswith("{"):
                self.row = json.loads(line)
            else:
                self.said = line.strip() or self.said
        self.row["seconds"] = round(time.monotonic() - start, 1)
        self.end()
        if self.process.returncode and "failed" not in self.row:
            self.row["failed"] = f"ended with {self.process.returncode}: {self.said[:300]}"
        return self.row

    def end(self) -> None:
        """It, and the processes that it has started."""
        if "failed" in self.row or self.process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0 if "failed" in self.row else 2)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Nobody else measures who takes this lock, too."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def bars(row: dict[str, Any]) -> Iterator[str]:
    """What is asked of a row, and what was found."""
    from gpu_models import ROWS

    asked = ROWS[row["row"]]
    if "graphs" in row:
        if asked.most is not None:
            yield bar("graphs/eager", row["graphs"], asked.most)
        elif "compiled ms" in row:
            yield bar("graphs/compiled", row["ms"] / row["compiled ms"], 1.0)
            if "fused ms" in row:
                yield bar("fused/compiled", row["fused ms"] / row["compiled ms"], 1.0)
        if asked.worst is not None:
            yield bar("worst/eager's", row["worst"], asked.worst)
    if row.get("memory") is not None:
        yield bar("memory", row["memory"], MOST_MEMORY)


def bar(what: str, found: float, most: float) -> str:
    """One of them."""
    return f"{what} {found:.3g} {'<=' if found <= most else 'NOT <='} {most:g}"


def is_wrong(row: dict[str, Any]) -> bool:
    """Bits differ that eager has twice."""
    return bool(row.get("differs")) and "twin" not in row["differs"]


def cells(row: dict[str, Any]) -> list[str]:
    """As HEAD names them."""

    def number(key: str, form: str) -> str:
        return format(row[key], form) if row.get(key) is not None else "-"

    bits = "-" if "differs" not in row else "DIFFER" if is_wrong(row) else "noisy" if row["differs"] else "equal"
    other = "-" if "compiled" not in row else f"{row['compiled']:.3f} {row['compiled ms']:.3f} ms"
    kernels = "-" if "fused" not in row else "{fused:.3f} {fused ms:.3f} ms {fused error:.0e}".format(**row)
    return [
        row["row"], number("eager ms", ".3f"), number("twin", ".3f"), number("native", ".3f"), number("graphs", ".3f"),
        number("ms", ".3f"), number("first ms", ".1f"), number("worst", ".2f"), number("memory", ".1%"), bits, other,
        kernels, "; ".join(bars(row)),
    ]  # fmt: skip


def notes(row: dict[str, Any]) -> Iterator[str]:
    """What a reader has to know beside the numbers."""
    if "failed" in row:
        yield row["failed"]
    if "compiled failed" in row:
        yield f"torch.compile: {row['compiled failed']}"
    for side, what in row.get("differs", {}).items():
        yield f"{side} differs: {what}"
    if row.get("settled") is False:
        yield "not settled"
    if row.get("reason"):
        yield f"{row['status']}: {row['reason']}"
    if "answers" in row:
        who = ", ".join(f"{count} x {name}" for name, count in row["answers"].items())
        yield f"{row['traces']} traces, {row['segments']} segments, keys: {who or 'none'}; {row.get('seconds')} s"
    yield from (f"{count} x {why}" for why, count in row.get("refused", {}).items())
    yield from (f"fused: {count} x {name}" for name, count in row.get("fused answers", {}).items())
    yield from (f"fused: {count} x {why}" for why, count in row.get("fused refused", {}).items())


def main() -> int:
    """Measures the rows, one process each, and prints a line for each, and all of them as a table in the end."""
    from gpu_models import ROWS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", default=list(ROWS), choices=ROWS)
    parser.add_argument("--seconds", type=float, default=240, help="for all rows")
    parser.add_argument("--row-seconds", type=float, default=None, help="for one (60; with --compiled or --fused 180)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--backend", help="of the side with graphs (cudagraphs; on the CPU torchscript)")
    parser.add_argument("--small", action="store_true", help="sizes of a moment")
    parser.add_argument("--compiled", action="store_true", help="torch.compile's reduce-overhead, too")
    parser.add_argument("--fused", action="store_true", help="the backend `inductor`, too")
    parser.add_argument("--lock", type=Path, default=Path(tempfile.gettempdir()) / "pijit-gpu.lock", metavar="FILE")
    parser.add_argument("--json", type=Path, metavar="FILE", help="a line for each row, as soon as it is there")
    parser.add_argument("--one", choices=ROWS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.backend = options.backend or ("cudagraphs" if options.device == "cuda" else "torchscript")
    if options.one:
        one(options.one, options)
        return 0
    limit = options.row_seconds or (180 if options.compiled or options.fused else 60)
    arguments = ["--device", options.device, "--backend", options.backend]
    arguments += [f"--{word}" for word in ("small", "compiled", "fused") if getattr(options, word)]
    end, rows, waiting = time.monotonic() + options.seconds, [], [*options.only]
    file = options.json.open("a") if options.json else None
    print(FORM.format(*HEAD), flush=True)
    following = Process(waiting.pop(0), arguments)
    with alone(options.lock):
        while following is not None:
            process, following = following, Process(waiting.pop(0), arguments) if waiting else None
            now = time.monotonic()
            if end - now < LEFT:
                process.row["failed"] = "not begun: no time is left"
                process.end()
                rows.append(process.row)
            else:
                rows.append(process.run(min(end, now + limit)))
            row = rows[-1]
            print(FORM.format(*cells(row)), *(f"    {note}" for note in notes(row)), sep="\n", flush=True)
            if file is not None:
                print(json.dumps(row), file=file, flush=True)
    print("", *(f"| {' | '.join(line)} |" for line in (HEAD, ["---"] * len(HEAD), *map(cells, rows))), sep="\n")
    return int(any("failed" in row or is_wrong(row) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
