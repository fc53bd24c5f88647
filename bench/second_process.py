"""What a process takes when another one has kept what it learnt: first calls, compilers, what the cache itself costs.

    PYTHONPATH=... python bench/second_process.py [first] [auto] [empty] [zoo] [scripts] [--runs N] [--models NAME ...]

Each part starts fresh processes; without a name all parts are measured.

first    The models of `make run`, in turn without a cache, writing it, and finding it. Each process builds three equal
         models, calls one eagerly 20 times, then times the first plain call of the second and the first jitted call of
         the third, by the thread's own clock. Printed are medians of jit() and of the first call to an eager call, what
         was recorded, and the bytes of the cache.
auto     backend="auto": when the backend that is chosen has answered, from the call to jit on. The process before has
         called until no compiler worked any longer, with a pause of two milliseconds between calls.
empty    What the cache costs a process that finds nothing in it, in an empty one and in one with 10,000 entries.
zoo      The models of zoo.toml, in one process that writes and one that finds: are they right, what was recorded again?
scripts  Ten programs of bench/programs under python -m pijit, from a cache that the run before has written.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
NAMES = ("BERT", "GPT-2", "Llama", "GPT-2 step")
SCRIPTS = ("gcn", "hmm", "kalman", "kan", "nanogpt", "seq2seq", "siren", "vae", "vit", "vq_autoencoder")
SCALE = "0.1"  # of the scripts: their runs are compared, not timed
WARM = 20
ENTRIES = 10_000
PATIENCE = 300.0  # seconds until backends have taken their turns
LOOKS, PAUSE = 3, 1.0  # who has answered: so often where a compiler has ended, and seconds between two looks otherwise
CALLS = 3


def first(name: str, cache: bool) -> dict[str, Any]:
    """The first calls of one model, in this process."""
    import torch

    import pijit
    from pijit import _core, api

    sys.path.insert(0, str(HERE.parent / "examples"))
    from subjects import make

    torch.set_num_threads(1)
    pijit.config.cache = cache
    eager, second, other = make(name), make(name), make(name)

    def seconds(subject: Any, call: int) -> float:
        subject.prepare(call)
        with subject.mode():
            start = time.thread_time()
            subject.run(*subject.args)
            return time.thread_time() - start

    plain = statistics.median([seconds(eager, call) for call in range(WARM)][WARM // 2 :])
    first_plain = seconds(second, 0)
    start = time.thread_time()
    other.run = pijit.jit(other.run)
    jit = time.thread_time() - start
    calls = [seconds(other, call) for call in range(4)]
    reasons = _core.kept_texts(api.root_of(other.run))["reasons"] if cache else []
    return {
        "ratio": calls[0] / plain,
        "plain": first_plain / plain,
        "jit": jit / plain,
        "eager": plain,
        "records": pijit.stats()["records"],
        "why": reasons,
        "hits": _core.keeping()["hits"],
    }


def auto(name: str, between: float) -> dict[str, Any]:
    """Until the backend that is chosen has answered a call, from jit on; `between`: seconds that pass between calls."""
    import torch

    import pijit
    from pijit import _core
    from pijit.compilers import market

    torch.set_num_threads(1)
    pijit.config.cache = True
    if name == "MLP":
        torch.manual_seed(0)
        layers = [part for _ in range(4) for part in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
        model: Any = torch.nn.Sequential(*layers)
        arguments: tuple[Any, ...] = (torch.ones(32, 64),)
    else:
        sys.path.insert(0, str(HERE.parent / "examples"))
        from subjects import make

        subject = make(name)
        model, arguments = subject.run, subject.args
    with torch.no_grad():
        model(*arguments)  # what torch makes for itself
        start, chosen, seconds, decided = time.perf_counter(), "", 0.0, False
        root = _core.root_of(pijit.jit(model, backend="auto"))
        asked, states, looks, last = market.of(model), "", 0, start
        while not (chosen and decided) and (now := time.perf_counter()) - start < PATIENCE:
            model(*arguments)
            if between:
                time.sleep(between)
            if states != (states := " ".join(each.state for each in asked.outcomes)):
                looks = LOOKS
            if looks == 0 and now - last < PAUSE:  # a look takes longer than a call
                continue
            looks, last, before = max(looks - 1, 0), now, chosen
            chosen, decided = answered(root)
            if chosen != before:
                seconds = time.perf_counter() - start
    return {"seconds": seconds, "chosen": chosen, "records": _core.root_report(root)["records"]}


def answered(root: int) -> tuple[str, bool]:
    """Whose plan has answered for the largest segment, or "native" where that won, and that no other one may come.

    "": nobody has answered yet.
    """
    from pijit import _core

    segments = [segment for trace in _core.root_traces(root) for segment in trace["segments"]]
    for key in max(segments, key=lambda each: each["operators"])["keys"] if segments else ():
        plan = key["plans"][0] if key["plans"] else None
        if key["state"] in {"settled natively", "declined"}:
            return "native", not key["awaits"]
        if key["state"] == "settled" and plan is not None and plan["runs"]:
            return plan["name"], not key["awaits"]
    return "", False


def empty() -> dict[str, Any]:
    """Seconds that the cache takes of a process whose model is not in it: when it starts, looks for it, and ends."""
    import torch

    import pijit
    from pijit import _core, _kept

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2 + 1

    def timed(call: Callable[[], object]) -> float:
        start = time.thread_time()
        call()
        return time.thread_time() - start

    pijit.jit(lambda x: x * 3)(torch.ones(3))  # whatever a first recording takes
    model = Model()
    root = _core.root_of(pijit.jit(model))
    start = timed(lambda: pijit.config.update({"cache": True}))
    look = sum(timed(lambda: _core.look_ahead(root)) for _ in range(2))  # at jit, and at the first call
    end = timed(_kept.write)  # nothing was recorded since
    pijit.config.cache = False
    return {"start": start, "look": look, "end": end}


def zoo(names: list[str]) -> list[dict[str, Any]]:
    """Each model against an equal one that is plain."""
    import warnings

    warnings.filterwarnings("ignore")
    import torch

    import pijit
    from pijit import _core

    for place in (HERE, HERE.parent / "examples"):
        sys.path.insert(0, str(place))
    from subjects import difference, tensors_in
    from zoo import build, call, inputs

    torch.set_num_threads(1)
    pijit.config.cache = True
    rows: list[dict[str, Any]] = []
    alive: list[Any] = []  # as models of programs are until the end, where their traces are written
    for name in names:
        try:
            eager, fast = build(name), build(name)
        except ImportError:
            continue
        alive.append(fast)
        before, hits = pijit.stats()["records"], _core.keeping()["hits"]
        gaps = []
        with torch.no_grad():
            expected = [tensors_in(call(eager, inputs(name, seed))) for seed in range(CALLS)]
            pijit.jit(fast)
            gaps = [difference(each, tensors_in(call(fast, inputs(name, i)))) for i, each in enumerate(expected)]
        rows.append(
            {
                "model": name,
                "difference": max(gaps),
                "records": pijit.stats()["records"] - before,
                "hits": _core.keeping()["hits"] - hits,
            }
        )
    return rows


def child(cache: str, *words: str, **environment: str) -> Any:
    """What a part of this file says in a process of its own; `cache`: where it is, "": nowhere."""
    command = [sys.executable, __file__, "--child", *words]
    made = {**os.environ, "PIJIT_CACHE_DIR": cache, **environment}
    done = subprocess.run(command, env=made, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def size_of(cache: Path) -> int:
    """Bytes of all traces."""
    return sum(file.stat().st_size for file in cache.glob("*.pijit"))


def first_calls(names: list[str], runs: int, cache: Path) -> Iterator[str]:
    """A line for each model."""
    for name in names:
        sides: dict[str, list[dict[str, Any]]] = {"without": [], "writes": [], "finds": []}
        for _ in range(runs):
            shutil.rmtree(cache, ignore_errors=True)
            for side, found in sides.items():
                found.append(child(str(cache), "first", name, str(int(side != "without"))))
        words = [
            f"{side}: jit {statistics.median(each['jit'] for each in found):.2f}, first "
            f"{spread([each['ratio'] for each in found])}, {max(each['records'] for each in found)} recorded"
            for side, found in sides.items()
        ]
        plain = [each["plain"] for found in sides.values() for each in found]
        eager = statistics.median(each["eager"] for each in sides["finds"])
        why = sides["writes"][0]["why"]
        yield (
            f"{name}: eager {1e3 * eager:.2f} ms; first plain call {spread(plain)}; {'; '.join(words)}; "
            f"{size_of(cache):,} bytes{f'; {why}' if why else ''}"
        )


def spread(values: list[float]) -> str:
    """Median, and from where to where."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def chosen_backends(runs: int, cache: Path) -> Iterator[str]:
    """A line for each model: the process that measures, and those after it."""
    for name in ("MLP", "BERT"):
        shutil.rmtree(cache, ignore_errors=True)
        one = child(str(cache), "auto", name, "0.002")  # beside calls without a pause, compilers need minutes
        rest = [child(str(cache), "auto", name, "0") for _ in range(runs)]
        yield (
            f"{name}: {one['chosen'] or 'nobody'} after {one['seconds']:.2f} s; second process: "
            f"{'/'.join(sorted({each['chosen'] or 'nobody' for each in rest}))} after "
            f"{spread([each['seconds'] for each in rest])} s, {max(each['records'] for each in rest)} recorded"
        )


def costs(runs: int, cache: Path) -> Iterator[str]:
    """A line for each size of the cache."""
    for entries in (0, ENTRIES):
        shutil.rmtree(cache, ignore_errors=True)
        cache.mkdir(mode=0o700)
        for i in range(entries):
            (cache / f"{i:016x}.pijit").write_bytes(b"pijit cache\n" * 100)
        # The first process counts the files, as one does once a day.
        found = [child(str(cache), "empty") for _ in range(runs + 1)][1:]
        parts = {part: 1e3 * statistics.median(each[part] for each in found) for part in ("start", "look", "end")}
        told = ", ".join(f"{part} {taken:.2f}" for part, taken in parts.items())
        yield f"{entries} entries: {sum(parts.values()):.2f} ms ({told})"


def of_the_zoo(names: list[str], cache: Path) -> Iterator[str]:
    """What was wrong or recorded again, and how many were not."""
    shutil.rmtree(cache, ignore_errors=True)
    writes, finds = (child(str(cache), "zoo", *names) for _ in range(2))
    for one, two in zip(writes, finds, strict=True):
        if two["difference"] != 0 or two["records"] or not two["hits"]:
            counts = f"{one['records']} recorded, then {two['records']}"
            yield f"{two['model']}: {counts}, difference {two['difference']:.1g}"
    right, again = sum(each["difference"] == 0 for each in finds), sum(each["records"] > 0 for each in finds)
    yield f"{len(finds)} models: {right} right, {again} recorded again; {size_of(cache):,} bytes"


def of_scripts(cache: Path) -> Iterator[str]:
    """A line for each script."""
    for name in SCRIPTS:
        shutil.rmtree(cache, ignore_errors=True)
        runs = [script(name, cache, *words) for words in ((), ("-m", "pijit"), ("-m", "pijit"))]
        right = runs[0][0] == runs[1][0] == runs[2][0]
        counts = ", then ".join(str(int(told["records"])) for _, told in runs[1:])
        yield f"{name}: {'right' if right else 'prints something else'}, {counts} recorded"


def script(name: str, cache: Path, *words: str) -> tuple[str, dict[str, float]]:
    """What it prints, and what it tells of itself."""
    quiet = {"PIJIT_BENCH_SCALE": SCALE, "PIJIT_QUIET": "1", "PYTHONHASHSEED": "0", "PIJIT_CACHE_DIR": str(cache)}
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "times.json")
        made = {**os.environ, **quiet, "PIJIT_BENCH_TIMES": str(told)}
        command = [sys.executable, *words, str(HERE / "programs" / f"{name}.py")]
        done = subprocess.run(command, env=made, capture_output=True, text=True, check=True, cwd=folder)
        return done.stdout, json.loads(told.read_text())


def part_of(part: str, words: list[str]) -> object:
    """What a process of its own does."""
    if part == "first":
        return first(words[0], words[1] == "1")
    if part == "auto":
        return auto(words[0], float(words[1]))
    return empty() if part == "empty" else zoo(words)


def main() -> None:
    """Measures, and prints a line for each thing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parts = ("first", "auto", "empty", "zoo", "scripts")
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--models", nargs="+")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(part_of(asked.child[0], asked.child[1:])))
        return
    if unknown := set(asked.parts) - set(parts):
        parser.error(f"{unknown} is none of {parts}")
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder, "cache")
        lines: dict[str, Callable[[], Iterator[str]]] = {
            "first": lambda: first_calls(asked.models or list(NAMES), asked.runs, cache),
            "auto": lambda: chosen_backends(asked.runs, cache),
            "empty": lambda: costs(asked.runs, cache),
            "zoo": lambda: of_the_zoo(asked.models or all_of_the_zoo(), cache),
            "scripts": lambda: of_scripts(cache),
        }
        for part in asked.parts or parts:
            print(f"--- {part}", flush=True)
            for line in lines[part]():
                print(line, flush=True)


def all_of_the_zoo() -> list[str]:
    """The names of its models."""
    sys.path.insert(0, str(HERE))
    from zoo import MODELS

    return list(MODELS)


if __name__ == "__main__":
    main()
