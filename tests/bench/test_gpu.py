"""bench/gpu.py measures a row without a GPU, says whose bits differ, and ends what takes too long."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import pijit

BENCH = Path(__file__).parents[2] / "bench"

pytestmark = pytest.mark.torch


@pytest.fixture
def gpu(monkeypatch):
    """The module, and those of bench/ beside it. Modules of other folders, such as a `report`, have the same names."""
    names = {path.stem for path in BENCH.glob("*.py")}
    before = {name: sys.modules.pop(name) for name in names & set(sys.modules)}
    monkeypatch.syspath_prepend(str(BENCH))
    import gpu

    yield gpu
    for name in names & set(sys.modules):
        del sys.modules[name]
    sys.modules.update(before)


def run(folder, *arguments):
    variables = {**os.environ, "PYTHONPATH": str(Path(pijit.__file__).parents[1]), "PIJIT_QUIET": "1"}
    command = [sys.executable, str(BENCH / "gpu.py"), *"--device cpu --small --backend native".split(), *arguments]
    command += ["--lock", str(folder / "lock"), "--json", str(folder / "rows")]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)


def test_a_row_is_measured_and_equal(tmp_path):
    done = run(tmp_path, "--only", "policy")
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = [json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()]
    assert (row["row"], row["differs"]) == ("policy", {})
    assert row["rounds"] >= 3
    assert f"| policy | {row['eager ms']:.3f} | {row['twin']:.3f} |" in done.stdout


def test_what_takes_too_long_is_ended_and_said(tmp_path):
    done = run(tmp_path, "--only", "policy", "--row-seconds", "0.01")
    assert done.returncode == 1
    (row,) = [json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()]
    assert row["failed"] == "took too long"


def test_who_differs_is_named(gpu):
    sides = {name: gpu.Side("mlp-step", "cpu", True) for name in ("eager", "twin", "native", "graphs")}
    for side in sides.values():
        side.until(3)
    assert gpu.differences(sides) == {}
    optimizer = sides["graphs"].case.state["optimizer"]
    optimizer.state[optimizer.param_groups[0]["params"][0]]["exp_avg"].view(-1)[0] += 1
    assert list(gpu.differences(sides)) == ["graphs"]
    assert gpu.is_wrong({"differs": gpu.differences(sides)})
    sides["twin"].returned.pop()
    assert not gpu.is_wrong({"differs": gpu.differences(sides)})


def test_a_result_of_an_inference_is_compared_with_that_of_the_same_input(gpu):
    eager = gpu.Side("policy", "cpu", True)
    eager.until(len(eager.case.inputs))
    other = gpu.Side("policy", "cpu", True).compared_with(eager)
    other.until(6)
    assert other.wrong == ""
    for weight in other.case.call.parameters():
        weight.data += 1
    other.step()
    assert other.wrong == "the result of call 6"


def test_the_error_of_fused_kernels_is_told(gpu):
    right = torch.tensor([1.0, -4.0])
    assert gpu.error(right, right) == 0
    assert gpu.error(right + torch.tensor([0.0, 1.0]), right) == 0.25
    assert gpu.error(right[:1], right) == float("inf")
    assert gpu.error(torch.tensor([2]), torch.tensor([0])) == 2
    row = {"row": "llama", "fused": 0.125, "fused ms": 1.5, "fused error": 0.001, "compiled ms": 2.0, "compiled": 0.2}
    assert gpu.cells(row | {"graphs": 0.2, "ms": 3.0})[-2] == "0.125 1.500 ms 1e-03"
    assert list(gpu.bars(row | {"graphs": 0.2, "ms": 3.0}))[1] == "fused/compiled 0.75 <= 1"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_fused_kernels_are_measured(tmp_path):
    done = run(tmp_path, "--only", "policy", "--fused")
    assert done.returncode == 0, done.stdout + done.stderr
    row = json.loads((tmp_path / "rows").read_text())
    assert row["fused answers"] == {"inductor": 1}
    assert row["fused error"] < 1e-5


def test_bars_are_said(gpu):
    row = {"row": "generate", "graphs": 0.2, "worst": 2.0, "memory": 0.05}
    assert list(gpu.bars(row)) == ["graphs/eager 0.2 <= 0.25", "worst/eager's 2 NOT <= 1.5", "memory 0.05 <= 0.1"]
    assert list(gpu.bars({"row": "llama", "graphs": 0.2, "ms": 3.0, "compiled ms": 2.0})) == [
        "graphs/compiled 1.5 NOT <= 1"
    ]
