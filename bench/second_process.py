"""What the first call of a process takes when another process has kept its traces.

    PYTHONPATH=... python bench/second_process.py [--runs N] [names...]

For each model of `make run`, runs of three fresh processes in turn: one without a cache, one that writes it, one that
finds it. Each builds an eager model and an equal one, calls the eager one 20 times, and times the first call of the
other, by the thread's own clock. Printed are the medians of first call to eager call, what was recorded, and the bytes
of the cache.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("BERT", "GPT-2", "Llama", "GPT-2 step")
WARM = 20


def measure(name: str, cache: bool) -> None:
    """In a process of its own: prints the numbers."""
    sys.path.insert(0, str(ROOT / "examples"))
    import torch
    from subjects import make

    import pijit
    from pijit import _core, api

    torch.set_num_threads(1)
    pijit.config.cache = cache
    eager, other = make(name), make(name)

    def seconds(subject: object, call: int) -> float:
        subject.prepare(call)  # type: ignore[attr-defined]
        with subject.mode():  # type: ignore[attr-defined]
            start = time.thread_time()
            subject.run(*subject.args)  # type: ignore[attr-defined]
            return time.thread_time() - start

    plain = statistics.median([seconds(eager, call) for call in range(WARM)][WARM // 2 :])
    other.run = pijit.jit(other.run)
    calls = [seconds(other, call) for call in range(4)]
    reasons = _core.kept_texts(api.root_of(other.run))["reasons"] if cache else []
    print(
        json.dumps(
            {
                "ratio": calls[0] / plain,
                "eager": plain,
                "records": pijit.stats()["records"],
                "why": reasons,
                "second": calls[1] / plain,
                "hits": _core.keeping()["hits"],
            }
        )
    )


def run(name: str, cache: str) -> dict[str, float]:
    """The numbers of one process; `cache`: where it is, "": nowhere."""
    command = [sys.executable, __file__, "--measure", name, *(["--cache"] if cache else [])]
    made = {**os.environ, "PIJIT_CACHE_DIR": cache}
    done = subprocess.run(command, env=made, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measures, and prints a line for each model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--cache", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        measure(asked.measure, asked.cache)
        return
    for name in asked.names:
        sides: dict[str, list[dict[str, float]]] = {"without": [], "writes": [], "finds": []}
        for _ in range(asked.runs):
            with tempfile.TemporaryDirectory() as place:
                cache = os.path.join(place, "cache")
                sides["without"].append(run(name, ""))
                sides["writes"].append(run(name, cache))
                size = sum(file.stat().st_size for file in Path(cache).glob("*.pijit"))
                sides["finds"].append(run(name, cache))
        words = [
            f"{side}: first {statistics.median(each['ratio'] for each in found):.2f}"
            f" ({min(each['ratio'] for each in found):.2f} to {max(each['ratio'] for each in found):.2f}),"
            f" {max(each['records'] for each in found)} recorded"
            for side, found in sides.items()
        ]
        print(f"{name}: {'; '.join(words)}; {size:,} bytes; {sides['writes'][0]['why']}")


if __name__ == "__main__":
    main()
