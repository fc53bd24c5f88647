"""What `enable()` costs programs that gain nothing by it: those of pyperformance, a run of pytest, and one of pip.

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
import zipfile
from importlib.util import find_spec
from pathlib import Path

NAMES = (
    *("richards", "deltablue", "chaos", "raytrace", "go", "nbody", "spectral_norm", "float"),
    *("hexiom", "deepcopy", "generators", "pyflate", "pytest", "pip"),
)
VALUES, WARMUPS = 5, 1  # of a process
LEAST = 0.1  # seconds of a value: pyperformance, too, repeats a shorter program until it takes so long
TESTS = """
import pytest

@pytest.fixture(params=range(20))
def words(request, tmp_path):
    (tmp_path / "words").write_text(" ".join(str(each) for each in range(request.param + 5)))
    return (tmp_path / "words").read_text().split()

@pytest.mark.parametrize("at", range(20))
def test_words(words, at, monkeypatch):
    monkeypatch.setenv("AT", str(at))
    assert sorted(words, key=int) == words
    assert {word: len(word) for word in words}["3"] == 1
"""
# Modules that are run as `python -m` runs them, and their arguments; {here} is a directory with what they read.
MODULES = {
    "pytest": ("-q", "-p", "no:cacheprovider", "--rootdir={here}", "{here}/test_words.py"),
    "pip": ("download", "-q", "--no-deps", "--no-index", "--find-links={here}", "--dest={here}/got", *("one", "two")),
}
# The script, as `python script.py` runs it, behind what is set up.
START = "import runpy, sys; {setup}; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"

MODULE = """
import runpy, sys, time
{setup}
out, sys.argv = sys.argv[1], sys.argv[2:]
start = time.perf_counter()
try:
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
finally:
    with open(out, "w") as file:
        file.write(str(time.perf_counter() - start))
"""


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


def fill(here: Path) -> None:
    """What the modules read: tests, and two wheels of 4 MB."""
    Path(here, "test_words.py").write_text(TESTS)
    for name in ("one", "two"):
        with zipfile.ZipFile(here / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
            info = f"{name}-1.0.dist-info"
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
            wheel.writestr(f"{name}/data.bin", bytes(4 << 20))


def module_seconds(name: str, setup: str) -> float:
    """What a module takes in a process of its own, from behind the setup to its end."""
    with tempfile.TemporaryDirectory() as directory:
        here = Path(directory)
        fill(here)
        arguments = [name, *(each.format(here=here) for each in MODULES[name])]
        command = [sys.executable, "-c", MODULE.format(setup=setup.replace("; ", "\n")), str(here / "seconds")]
        subprocess.run([*command, *arguments], check=True, capture_output=True, cwd=here)
        return float((here / "seconds").read_text())


def measured(name: str, setup: str, loops: int) -> float:
    """Seconds of one run of a program or module."""
    if name in MODULES:
        return module_seconds(name, setup)
    return seconds(programs() / f"bm_{name}" / "run_benchmark.py", setup, loops)


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
        loops = math.ceil(LEAST / measured(name, plain, 1))
        mine = f"{plain}; import pijit; pijit.enable()"
        rounds = [
            (measured(name, plain, loops), measured(name, plain, loops), measured(name, mine, loops))
            for _ in range(options.runs)
        ]
        ratio = statistics.median(fast / one for one, _, fast in rounds)
        noise = statistics.median(other / one for one, other, _ in rounds)
        ratios.append(ratio)
        print(f"{name:>16}{statistics.median(one for one, _, _ in rounds):10.3f}{ratio:10.3f}{noise:8.3f}", flush=True)
    print(f"geometric mean {statistics.geometric_mean(ratios):.3f}, worst {max(ratios):.3f}")


if __name__ == "__main__":
    main()
