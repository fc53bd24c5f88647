"""What `enable()` costs programs that gain nothing by it: those of pyperformance.

    pip install pyperformance
    python bench/plain_programs.py [--runs N] [--torch] [names...]

Each program runs in fresh processes, in turn plain, plain once more and under enable(), and tells how long its own work
took; a short one is repeated, as pyperformance repeats it. Printed is the median of the ratios of the pairs: under
enable() to plain, and plain to plain. With --torch all of them import torch first.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

NAMES = (
    *("richards", "deltablue", "chaos", "raytrace", "go", "nbody", "spectral_norm", "float"),
    *("hexiom", "deepcopy", "generators", "pyflate"),
)
VALUES, WARMUPS = 5, 1  # of a process
LEAST = 0.1  # seconds of a value: pyperformance, too, repeats a shorter program until it takes so long
# The script, as `python script.py` runs it, behind what is set up.
START = "import runpy, sys; {setup}; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"


def programs() -> Path:
    """The directory of pyperformance's programs."""
    found = find_spec("pyperformance")
    if found is None or found.origin is None:
        raise SystemExit("pyperformance is not there; run: pip install pyperformance")
    return Path(found.origin).parent / "data-files" / "benchmarks"


def seconds(script: Path, setup: str, loops: int = 1) -> float:
    """What the program's own work takes in a process of its own, at the median; done `loops` times for each value."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory, "values.json")
        command = [sys.executable, "-c", START.format(setup=setup), str(script)]
        worker = ["--worker", f"--loops={loops}", f"--values={VALUES}", f"--warmups={WARMUPS}", "--output", str(out)]
        subprocess.run([*command, *worker], check=True, capture_output=True, cwd=script.parent)
        told = json.loads(out.read_text())
    values = [value for each in told["benchmarks"] for run in each["runs"] for value in run["values"]]
    return statistics.median(values)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--torch", action="store_true")
    options = parser.parse_args()
    plain = "import torch" if options.torch else "pass"
    print(f"{'program':>16}{'plain s':>10}{'enable()':>10}{'noise':>8}", flush=True)
    ratios = []
    for name in options.names:
        script = programs() / f"bm_{name}" / "run_benchmark.py"
        loops = math.ceil(LEAST / seconds(script, plain))
        mine = f"{plain}; import pijit; pijit.enable()"
        rounds = [
            (seconds(script, plain, loops), seconds(script, plain, loops), seconds(script, mine, loops))
            for _ in range(options.runs)
        ]
        ratio = statistics.median(fast / one for one, _, fast in rounds)
        noise = statistics.median(other / one for one, other, _ in rounds)
        ratios.append(ratio)
        print(f"{name:>16}{statistics.median(one for one, _, _ in rounds):10.3f}{ratio:10.3f}{noise:8.3f}", flush=True)
    print(f"geometric mean {statistics.geometric_mean(ratios):.3f}, worst {max(ratios):.3f}")


if __name__ == "__main__":
    main()
