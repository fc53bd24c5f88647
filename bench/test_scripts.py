"""Whole programs under `python -m pijit`, in processes of their own: in `extra_info` the `ratio` to plain Python of all
calls together, recordings included.
"""

import statistics
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.benchmark(group="scripts")

SCRIPT = str(Path(__file__).with_name("generations.py"))


@pytest.mark.parametrize("arguments", [("25",), ("60", "differ")], ids=["25 of a length", "60 of any length"])
def test_generations(benchmark, arguments):
    pytest.importorskip("transformers")
    ratios = []

    def seconds(*options):
        command = [sys.executable, *options, SCRIPT, *arguments]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])

    benchmark.pedantic(lambda: ratios.append(seconds("-m", "pijit") / seconds()), rounds=3)
    benchmark.extra_info["ratio"] = statistics.median(ratios)
