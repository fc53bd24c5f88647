"""What memory pijit takes beside eager calls, in fresh processes; the times of these benchmarks say nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.benchmark(group="memory")

NAMES = ["BERT", "GPT-2", "Llama"]
MALLOCS = {"heap": {}, "mapped": {"MALLOC_MMAP_THRESHOLD_": "65536"}}


def in_process(*arguments: str, environment: dict[str, str] | None = None) -> dict[str, float]:
    """What memory.py says."""
    command = [sys.executable, str(Path(__file__).with_name("memory.py")), *arguments]
    said = subprocess.run(
        command, env=os.environ | (environment or {}), stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    return json.loads(said.splitlines()[-1])


@pytest.mark.parametrize("name", NAMES)
def test_tensors(benchmark, name):
    """Bytes of tensors alive at once, in `extra_info` as `ratio`, and as `first` of the call that is recorded."""
    eager, jitted = benchmark.pedantic(lambda: [in_process("tensors", name, way) for way in ("eager", "jitted")])
    benchmark.extra_info |= {"ratio": jitted["later"] / eager["later"], "first": jitted["first"] / eager["first"]}
    benchmark.extra_info |= {"eager": eager, "jitted": jitted}


@pytest.mark.parametrize("malloc", MALLOCS)
@pytest.mark.parametrize("name", NAMES)
def test_process(benchmark, name, malloc):
    """The highest resident set, in `extra_info` as `ratio` of the whole processes and as `growth` of what each added
    since before its model was built; most of a process is what it imports. `mapped`: malloc maps what is large, so that
    what it keeps in a heap full of holes is left out.
    """

    def both():
        return [in_process("process", name, way, environment=MALLOCS[malloc]) for way in ("eager", "jitted")]

    eager, jitted = benchmark.pedantic(both)
    grown = [side["peak"] - side["before"] for side in (eager, jitted)]
    benchmark.extra_info |= {"ratio": jitted["peak"] / eager["peak"], "growth": grown[1] / grown[0]}
    benchmark.extra_info |= {"eager": eager, "jitted": jitted}


def test_replays(benchmark):
    """The resident set does not grow: `slope` is bytes a replay."""
    benchmark.extra_info |= benchmark.pedantic(in_process, args=("replays",))


@pytest.mark.parametrize("name", NAMES)
def test_freed(benchmark, name):
    """`freed`: after `del model`, modules and parameters are gone as early as eager ones, whatever traces there are."""
    ways = ["eager", "jitted", "argument"]
    found = benchmark.pedantic(lambda: {way: in_process("freed", name, way) for way in ways})
    alive = {way: result["alive"] for way, result in found.items()}
    benchmark.extra_info |= {"freed": set(alive.values()) == {alive["eager"]}, "found": found}
