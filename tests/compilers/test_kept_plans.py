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
pytestmark = pytest.mark.torch

# Tells of each net in turn what its segment came to; CHANGE is the text of its last layer.
PROGRAM = """
import json, os, sys
import torch
import pijit
from pijit.compilers import _kept_plans, pool

torch.set_num_threads(1)
pijit.config.cache = True
started = []
start = pool.Compilation._start


def counted(self, directory):
    started.append(self.backend)
    return start(self, directory)


pool.Compilation._start = counted
x = torch.linspace(-1, 1, 32 * 64).reshape(32, 64)


def tell(backend, change):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64), change)
    started.clear()
    with torch.no_grad():
        expected = net(x)
        pijit.jit(net, backend=backend)
        for _ in range(3):
            result = net(x)
        waited = pijit.wait(200)
        for _ in range(200):
            result = net(x)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)
    (trace,) = pijit.traces(net)
    (key,) = trace.segments[0].keys
    return {
        "started": [*started],
        "answers": key.answers,
        "state": key.state,
        "losers": [each.backend for each in key.losers],
        "refused": dict(key.refused),
        "waited": waited,
        "imported": "torch._dynamo" in sys.modules,
    }


def as_read_anew(table):
    (_kept_plans._kept.directory() / _kept_plans.TABLE).write_text(table)
    _kept_plans._table.place = None


told = []
for backend, change, table in json.load(sys.stdin):
    if table is not None:
        as_read_anew(table)
    told.append(tell(backend, eval(change)))
print(json.dumps(told))
"""
TANH = "torch.nn.Tanh()"

# A compiler whose code travels as a file, and takes no time.
FILED = """
from pijit.compilers._base import Plan
from pijit.compilers.torchscript import TorchScript


class Filed(TorchScript):
    name = "filed"
    remote = True

    def build(self, graph, options, directory):
        (directory / "code").write_text(str(len(graph.nodes)) + " nodes " * 100)

    def load(self, graph, options, directory):
        assert (directory / "code").read_text() == str(len(graph.nodes)) + " nodes " * 100
        made = TorchScript.make(self, graph, options)
        return Plan(self.name, made.run, results=())


BACKEND = Filed()
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where a package with that compiler is found, and a cache is made."""
    package = tmp_path / "filed_backend-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: filed-backend\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[pijit.backends]\nfiled = filed_backend:BACKEND\n")
    (tmp_path / "filed_backend.py").write_text(FILED)
    return tmp_path


def run(place: Path, *nets: tuple[object, str, str | None]) -> list[dict[str, Any]]:
    """What a process says of each net: its backend, its last layer, and what the table of plans is to be before."""
    paths = [str(place), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(nets),
        env={**os.environ, "PIJIT_CACHE_DIR": str(place / "cache"), "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    told: list[dict[str, Any]] = json.loads(done.stdout)
    assert len(told) == len(nets)
    assert all(each["waited"] for each in told)
    return told


@pytest.mark.parametrize("backend", ["filed", "inductor"])
def test_code_is_not_compiled_again(backend: str, place: Path) -> None:
    """It is fetched, and answers."""
    if backend == "inductor" and not shutil.which("c++"):
        pytest.skip("needs a C++ compiler")
    for started in ([backend], []):
        (told,) = run(place, (backend, TANH, None))
        assert (told["started"], told["answers"]) == (started, backend), told
    assert len([*(place / "cache").glob("*.plan")]) == 1


def test_code_that_is_damaged_or_of_another_graph_is_compiled(place: Path) -> None:
    """As if there were none."""
    run(place, ("filed", TANH, None))
    (file,) = (place / "cache").glob("*.plan")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))
    for told in run(place, ("filed", TANH, None), ("filed", "torch.nn.Sigmoid()", None)):
        assert (told["started"], told["answers"]) == (["filed"], "filed"), told
    assert len([*(place / "cache").glob("*.plan")]) == 2
    for told in run(place, ("filed", "torch.nn.Sigmoid()", None), ("filed", TANH, None)):
        assert (told["started"], told["answers"]) == ([], "filed"), told


def test_who_won_is_asked_alone(place: Path) -> None:
    """Nothing takes turns, whoever won in the process before, where the model was gone at its end.

    Types of the graph are not found again, for which torch imports a thousand modules.
    """
    both = ["torchscript", "filed"]
    (first,) = run(place, (both, TANH, None))
    assert first["state"].startswith("settled"), first
    assert first["imported"]
    table = json.loads((place / "cache" / "plans.json").read_text())
    assert [*table["won"].values()] == [first["answers"]]
    (key,) = table["won"]

    def won(name: str) -> tuple[object, str, str]:
        return both, TANH, json.dumps({**table, "won": {key: name}})

    # As it is, and as if another one had won.
    names = [first["answers"], "torchscript", "filed", "native"]
    *told, damaged = run(place, (both, TANH, None), *map(won, names[1:]), (both, TANH, '{"pijit plans": 1, "won": ['))
    assert [(each["started"], each["losers"], each["answers"]) for each in told] == [([], [], name) for name in names]
    assert [each["imported"] for each in told] == [False] * 4
    assert told[-1]["state"] == "declined"
    assert damaged["answers"] in {*both, "native"}
    assert damaged["started"] == ["filed"]
