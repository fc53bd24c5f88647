"""Compares plain PyTorch, TorchDynamo (`torch.compile(backend="eager")`) and pijit on real models, and prints a table.

pijit is measured twice: as native replay, whose results are those of eager bit for bit, and with `backend="auto"`.
There compiled segments take turns with native replay and the fastest stays; steady is measured when that is settled.

    python examples/compare.py [--models BERT Llama] [--sides pijit auto] [--device cuda]
                               [--processes N] [--pairs N] [--seconds S] [--json FILE] [--check]

Every model is measured in a fresh process per compiler, pijit's first, on one thread:

1. 20 calls of an eager model. Then an equal, fresh model is given to the compiler, and its *first call* is timed.
2. After more calls of each, rounds of one call of the eager model, of a second equal eager model, and of the compiled
   one, in all orders in turn. *Steady* is the median of the ratios to the eager call of the same round; eager against
   eager is what the machine's noise makes of 1, given with the range of the middle eight tenths.
3. The results of both are compared: bit for bit, those of auto within the tolerance of its backends. On a GPU some
   kernels of eager execution do not repeat their own results; by how much is said.

On a device with streams a call ends when the device has done what it was told.

An eager call runs without pijit's hook, as in a program that does not use pijit: with any hook CPython calls Python
functions in a slower way, which would flatter the ratio.
"""

import argparse
import itertools
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

WARM_CALLS = 20
SETTLE_CALLS = 10
LEAST_ROUNDS = 30
SIDES = ("pijit", "auto", "dynamo")
SETTLE_SECONDS = 60  # at most, for auto to compile
TURNS = 80  # calls in which auto finds the fastest
NAMES = ("BERT", "GPT-2", "Llama", "GPT-2 step", "AlexNet")


class Bar(NamedTuple):
    """What pijit has to reach on a model; ratios to eager."""

    first: float
    steady: float
    opaque: float


BARS = {
    "BERT": Bar(6, 0.50, 0),
    "GPT-2": Bar(6, 0.50, 0),
    "Llama": Bar(6, 0.55, 0),
    "GPT-2 step": Bar(8, 0.60, math.inf),
    "AlexNet": Bar(6, 1.02, math.inf),
}


# --- the measuring process ----------------------------------------------------------------------


def tell(kind: str, what: object) -> None:
    """One line to the parent."""
    print(json.dumps({kind: what}), flush=True)


def timed(subject: Any, call: int) -> float:
    """Seconds of one call."""
    subject.prepare(call)
    subject.finish()
    with subject.mode():
        start = time.perf_counter()
        subject.run(*subject.args)
        subject.finish()
        return time.perf_counter() - start


def measure(side: str, name: str, device: str, pairs: int, seconds: float) -> dict[str, Any]:
    """All numbers of one model under one compiler, in this process."""
    import torch
    from subjects import difference, make

    torch.set_num_threads(1)
    eager, twin, compiled = make(name, device), make(name, device), make(name, device)
    tell("phase", f"{WARM_CALLS} eager calls")
    warm = [timed(eager, call) for call in range(WARM_CALLS)]
    tell("phase", "first call")
    compiler = COMPILERS[side](compiled)
    compiler.on()
    first = timed(compiled, 0)
    compiler.off()
    compiler.settle(lambda call: timed(compiled, call))
    settle(eager, twin, compiled, compiler)
    times = rounds({"eager": eager, "compiled": compiled, "twin": twin}, compiler, pairs, seconds)
    tell("phase", "comparing results")
    expected = eager.results()
    compiler.on()
    gap = difference(expected, compiled.results())
    facts = compiler.facts()
    compiler.off()
    own_gap = difference(expected, twin.results())
    eager_seconds = statistics.median(times["eager"])
    return {
        "eager_ms": 1e3 * eager_seconds,
        "warm_ms": 1e3 * statistics.median(warm[WARM_CALLS // 2 :]),
        "first_ms": 1e3 * first,
        "first": first / eager_seconds,
        "steady": statistics.median(ratios(times, "compiled")),
        "noise": statistics.median(ratios(times, "twin")),
        "noise_range": middle(ratios(times, "twin")),
        "rounds": len(times["eager"]),
        "difference": gap,
        "own_difference": own_gap,
        **facts,
    }


def settle(eager: Any, twin: Any, compiled: Any, compiler: Any) -> None:
    """Calls of each that are not counted."""
    tell("phase", "settling")
    for call in range(SETTLE_CALLS):
        timed(eager, call)
        timed(twin, call)
        compiler.on()
        timed(compiled, call + 1)
        compiler.off()


def rounds(subjects: dict[str, Any], compiler: Any, pairs: int, seconds: float) -> dict[str, list[float]]:
    """Seconds of each in each round."""
    tell("phase", "steady")
    orders = itertools.cycle(itertools.permutations(subjects))
    times: dict[str, list[float]] = {key: [] for key in subjects}
    start = told = time.perf_counter()
    for number in range(max(pairs, LEAST_ROUNDS)):
        now = time.perf_counter()
        if number >= LEAST_ROUNDS and now - start > seconds:
            break
        if now - told > 1:
            told = now
            tell("tick", f"steady, round {number}")
        for key in next(orders):
            if key == "compiled":
                compiler.on()
            times[key].append(timed(subjects[key], number))
            if key == "compiled":
                compiler.off()
    return times


def ratios(times: dict[str, list[float]], key: str) -> list[float]:
    """Ratio to eager, round by round."""
    return [mine / plain for mine, plain in zip(times[key], times["eager"], strict=True)]


def middle(values: list[float]) -> tuple[float, float]:
    """Between which the middle eight tenths lie."""
    tenths = statistics.quantiles(values, n=10)
    return tenths[0], tenths[-1]


class Pijit:
    """A subject under pijit; on() and off() are the evaluation hook."""

    backend = "native"

    def __init__(self, subject: Any) -> None:
        import pijit
        from pijit import _core

        self.pijit, self.core = pijit, _core
        subject.run = pijit.jit(subject.run, backend=self.backend)
        self.run = subject.run
        self.off()

    def settle(self, call: Callable[[int], float]) -> None:
        """Native replay has nothing to wait for."""

    def on(self) -> None:
        """Frames pass through pijit."""
        if os.environ.get("PIJIT") != "0":
            self.core.hook_install()

    def off(self) -> None:
        """As in a process that never used pijit."""
        if self.core.hook_installed():
            self.core.hook_remove()

    def facts(self) -> dict[str, Any]:
        """What pijit says about the root."""
        traces = self.pijit.traces(self.run)
        status = self.pijit.status(self.run)
        return {
            "traces": len(traces),
            "guards": sum(len(trace.guards) for trace in traces),
            "nodes": sum(len(trace.nodes) for trace in traces),
            "opaque": sum(trace.opaque_calls for trace in traces),
            "state": status.state,
            "reason": status.reason,
            "stops": [str(trace.stop) for trace in traces if trace.stop is not None],
            "stats": dict(self.pijit.stats()),
        }


class Auto(Pijit):
    """A subject under pijit, compiled by whatever backend is the fastest."""

    backend = "auto"

    def settle(self, call: Callable[[int], float]) -> None:
        """Calls until all is compiled, and those in which backends and native replay take turns."""
        self.on()
        tell("phase", "compiling")
        start, number = time.perf_counter(), 1
        while not self.pijit.wait(0) and time.perf_counter() - start < SETTLE_SECONDS:
            call(number := number + 1)
        tell("phase", "taking turns")
        for _ in range(TURNS):
            call(number := number + 1)
        self.off()

    def facts(self) -> dict[str, Any]:
        """Who answers."""
        segments = [segment for trace in self.pijit.traces(self.run) for segment in trace.segments]
        keys = [key for segment in segments for key in segment.keys]
        return {"backends": sorted({key.plans[0].backend for key in keys if key.state == "settled" and key.plans})}


class Dynamo:
    """A subject under TorchDynamo, which has a hook only while a compiled function runs."""

    def __init__(self, subject: Any) -> None:
        import torch

        subject.run = torch.compile(subject.run, backend="eager")

    def settle(self, call: Callable[[int], float]) -> None:
        """Nothing to do."""

    def on(self) -> None:
        """Nothing to do."""

    def off(self) -> None:
        """Nothing to do."""

    def facts(self) -> dict[str, Any]:
        """Nothing more."""
        return {}


COMPILERS: dict[str, Callable[[Any], Any]] = {"pijit": Pijit, "auto": Auto, "dynamo": Dynamo}


# --- the parent -----------------------------------------------------------------------------------


class Progress:
    """One line that changes on a terminal, plain lines elsewhere."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()

    def say(self, text: str, passing: bool = False) -> None:
        """Show this; what is `passing` is shown on a terminal only."""
        if self.live:
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
        elif not passing:
            print(text, file=sys.stderr, flush=True)

    def done(self) -> None:
        """Leave an empty line on a terminal."""
        if self.live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def in_fresh_process(side: str, name: str, options: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """`measure` in a process of its own; what it says, or {"died": ...}."""
    command = [sys.executable, __file__, "--measure", side, "--models", name]
    command += ["--device", options.device, "--pairs", str(options.pairs), "--seconds", str(options.seconds)]
    result: dict[str, Any] | None = None
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said = json.loads(line) if line.startswith('{"') else {}
            result = said.get("result", result)
            for kind in ("phase", "tick"):
                if kind in said:
                    progress.say(f"{name}, {side}: {said[kind]}", passing=kind == "tick")
    if result is None:
        progress.done()
        return {"died": f"the process ended with {process.returncode}"}
    return result


def run_all(options: argparse.Namespace) -> list[dict[str, Any]]:
    """One dict per process and model: {"model", "pijit": {...}, "dynamo": {...}}."""
    progress = Progress()
    runs: list[dict[str, Any]] = []
    count = len(options.models) * len(options.sides) * options.processes
    progress.say(f"{count} measurements, each in a process of its own: about {max(1, round(count / 2.5))} min")
    for number in range(options.processes):
        for name in options.models:
            if options.processes > 1:
                progress.say(f"process {number + 1} of {options.processes}", passing=True)
            sides = {side: in_fresh_process(side, name, options, progress) for side in options.sides}
            runs.append({"model": name, **{side: sides.get(side, {}) for side in SIDES}})
    progress.done()
    return runs


def over(
    runs: Iterable[dict[str, Any]], side: str, key: str, pick: Callable[[list[Any]], Any] = statistics.median
) -> Any:
    """One number of several processes, None if any of them has none."""
    values = [run[side].get(key) for run in runs]
    return None if None in values else pick(values)


def summarise(name: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The row of a model: medians over its processes, and the worst where anything but 0 is wrong."""
    mine = [run for run in runs if run["model"] == name]
    return {
        "model": name,
        "eager_ms": over(mine, "pijit", "eager_ms"),
        "first": {side: over(mine, side, "first") for side in SIDES},
        "steady": {side: over(mine, side, "steady") for side in SIDES},
        "noise": over(mine, "pijit", "noise"),
        "noise_range": over(
            mine, "pijit", "noise_range", lambda ends: [min(low for low, _ in ends), max(high for _, high in ends)]
        ),
        "difference": over(mine, "pijit", "difference", max),
        **{key: over(mine, "pijit", key, max) for key in ("traces", "guards", "opaque")},
        "notes": list(dict.fromkeys(notes(mine))),
    }


def notes(runs: list[dict[str, Any]]) -> Iterator[str]:
    """What a reader of the numbers has to know."""
    for run in runs:
        for side in SIDES:
            if "died" in run[side]:
                yield f"{side}: {run[side]['died']}"
        if answering := run["auto"].get("backends"):
            yield f"auto: {', '.join(answering)}, largest difference {run['auto']['difference']:.3g}"
        told = run["pijit"]
        if told.get("own_difference"):
            yield f"two eager models of these weights differ by {told['own_difference']:.3g}"
        if told.get("state") and not told["traces"]:
            yield ", ".join(filter(None, (f"pijit recorded nothing: {told['state']}", told["reason"])))
        elif told.get("reason"):
            yield f"pijit: {told['state']}, {told['reason']}"
        yield from (f"pijit: {stop}" for stop in told.get("stops", ()))


HEAD = (
    *("model", "eager ms", "dynamo", "pijit", "eager", "dynamo", "pijit", "auto"),
    *("difference", "traces", "guards", "opaque calls"),
)
FIRST, STEADY = slice(2, 4), slice(4, 8)  # columns that are ratios


def cells(row: dict[str, Any]) -> list[str]:
    """Of one model, by column."""
    return [
        row["model"],
        number(row["eager_ms"]),
        number(row["first"]["dynamo"], 1),
        number(row["first"]["pijit"]),
        number(row["noise"]),
        number(row["steady"]["dynamo"]),
        number(row["steady"]["pijit"]),
        number(row["steady"]["auto"]),
        "-" if row["difference"] is None else f"{row['difference']:.3g}",
        *(number(row[key], 0) for key in ("traces", "guards", "opaque")),
    ]


def table(rows: list[dict[str, Any]]) -> str:
    """The rows for people."""
    titles = [""] * len(HEAD)
    titles[FIRST.start], titles[STEADY.start] = "first / eager", "steady / eager"
    body = [list(HEAD), *map(cells, rows)]
    widths = [max(len(line[column]) for line in body) for column in range(len(HEAD))]
    return "\n".join([over_columns(titles, widths), *("  ".join(map(str.rjust, line, widths)) for line in body)])


def markdown(rows: list[dict[str, Any]]) -> str:
    """The same table as the README has it."""
    head = [*HEAD]
    head[FIRST] = [f"first: {name}" for name in HEAD[FIRST]]
    head[STEADY] = [f"steady: {name}" for name in HEAD[STEADY]]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *map(cells, rows)))


def over_columns(titles: list[str], widths: list[int]) -> str:
    """Titles, each from the left of its column over the empty ones to its right."""
    line, start = "", 0
    for title, width in zip(titles, widths, strict=True):
        line = line.ljust(start) + title
        start += width + 2
    return line.rstrip()


def number(value: float | None, digits: int = 2) -> str:
    """A number, or a dash if there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


def missed(row: dict[str, Any]) -> Iterator[str]:
    """The bars that this row does not reach."""
    bar = BARS[row["model"]]
    reached = {
        "first call": (row["first"]["pijit"], bar.first),
        "steady": (row["steady"]["pijit"], bar.steady),
        "difference": (row["difference"], 0),
        "opaque calls": (row["opaque"], bar.opaque),
    }
    for what, (value, most) in reached.items():
        if value is None or not value <= most:
            got = "is missing" if value is None else f"{value:.3g}"
            yield f"{row['model']}: {what} {got}, at most {most:g} is wanted"


def wrong(row: dict[str, Any]) -> Iterator[str]:
    """Results that are not those of eager, and what has none: no noise of a machine makes these."""
    gap = row["difference"]
    if gap is None or not gap <= 0:
        yield f"{row['model']}: " + ("there is no result" if gap is None else f"the results differ by {gap:.3g}")


def versions() -> dict[str, str]:
    """What was compared, without importing any of it here."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version(), "machine": platform.machine()}
    for package in ("torch", "transformers", "pijit"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Compare eager PyTorch, TorchDynamo and pijit on real models.")
    parser.add_argument("--models", nargs="+", choices=NAMES, default=list(NAMES), help="which models")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES), help="what to measure beside eager")
    parser.add_argument("--device", default="cpu", help="where the models are: cpu (default), cuda, cuda:1")
    parser.add_argument("--processes", type=int, default=1, help="repeat all in this many fresh processes")
    parser.add_argument("--pairs", type=int, default=200, help=f"rounds to measure, at least {LEAST_ROUNDS}")
    parser.add_argument("--seconds", type=float, default=20, help="stop after this time, when there are enough rounds")
    parser.add_argument("--json", metavar="FILE", help="write all numbers here")
    parser.add_argument(
        "--check", action="store_true", help="name the bars of pijit's developers that are missed, and exit with 1 then"
    )
    parser.add_argument("--markdown", action="store_true", help="print the table as the README has it")
    parser.add_argument("--measure", choices=SIDES, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Measure, print, judge."""
    options = parse_arguments()
    if options.measure:
        told = measure(options.measure, options.models[0], options.device, options.pairs, options.seconds)
        tell("result", told)
        return 0
    runs = run_all(options)
    rows = [summarise(name, runs) for name in options.models]
    print(", ".join(f"{name} {value}" for name, value in versions().items()) + f", {options.device}, one thread")
    print(markdown(rows) if options.markdown else table(rows))
    for row in rows:
        for note in row["notes"]:
            print(f"{row['model']}: {note}")
    failures = [failure for row in rows for failure in missed(row)]
    if options.check:
        print("\n".join(f"missed: {failure}" for failure in failures) or "all bars are reached")
    mistakes = [mistake for row in rows if "pijit" in options.sides for mistake in wrong(row)]
    print("\n".join(f"wrong: {mistake}" for mistake in mistakes), end="\n" if mistakes else "")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"versions": versions(), "rows": rows, "missed": failures, "runs": runs}, file, indent=2)
    return 1 if mistakes or (options.check and failures) else 0


if __name__ == "__main__":
    sys.exit(main())
