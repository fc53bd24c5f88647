"""What compilers have made, and who won the turns, in the next process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not shutil.which("c++"), reason="needs a C++ compiler"),
]

PROGRAM = """
import json, os
import torch
import pijit
from pijit.compilers import pool

torch.manual_seed(0)
torch.set_num_threads(1)
pijit.config.cache = True
started = []
start = pool.Compilation._start


def counted(self, directory):
    started.append(self.backend)
    return start(self, directory)


pool.Compilation._start = counted
net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64), CHANGE)
x = torch.linspace(-1, 1, 32 * 64).reshape(32, 64)
with torch.no_grad():
    expected = net(x)
    pijit.jit(net, backend=BACKEND)
    for _ in range(3):
        result = net(x)
    waited = pijit.wait(200)
    for _ in range(200):
        result = net(x)
torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)
(trace,) = pijit.traces(net)
(key,) = trace.segments[0].keys
print(json.dumps({
    "started": started,
    "answers": key.answers,
    "state": key.state,
    "losers": [each.backend for each in key.losers],
    "refused": dict(key.refused),
    "waited": waited,
}))
"""


def run(cache: Path, backend: object, change: str = "torch.nn.Tanh()") -> dict[str, Any]:
    """What a process says."""
    program = PROGRAM.replace("BACKEND", repr(backend)).replace("CHANGE", change)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PIJIT_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["waited"]
    return told


def test_code_is_not_compiled_again(tmp_path: Path) -> None:
    """Unless the graph is another, or the file is damaged."""
    cache = tmp_path / "cache"
    assert run(cache, "inductor")["started"] == ["inductor"]
    (file,) = cache.glob("*.plan")
    again = run(cache, "inductor")
    assert (again["started"], again["answers"]) == ([], "inductor")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))
    damaged = run(cache, "inductor")
    assert (damaged["started"], damaged["answers"]) == (["inductor"], "inductor")
    other = run(cache, "inductor", "torch.nn.Sigmoid()")
    assert (other["started"], other["answers"]) == (["inductor"], "inductor")
    assert len([*cache.glob("*.plan")]) == 2


def test_who_won_is_asked_alone(tmp_path: Path) -> None:
    """Nothing takes turns, whoever won in the process before."""
    cache = tmp_path / "cache"
    first = run(cache, ["torchscript", "inductor"])
    assert first["state"].startswith("settled"), first
    table = json.loads((cache / "plans.json").read_text())
    assert [*table["won"].values()] == [first["answers"]]
    second = run(cache, ["torchscript", "inductor"])
    assert (second["started"], second["losers"]) == ([], [])
    assert second["answers"] == first["answers"]
    # As if the other one, or native replay, had won.
    (key,) = table["won"]
    for name in ("torchscript", "native"):
        table["won"][key] = name
        (cache / "plans.json").write_text(json.dumps(table))
        told = run(cache, ["torchscript", "inductor"])
        assert (told["answers"], told["losers"]) == (name, [])
    (cache / "plans.json").write_text('{"pijit plans": 1, "won": [')
    assert run(cache, ["torchscript", "inductor"])["answers"] in {"torchscript", "inductor", "native"}
