"""`pijit.bundle`: a call as a directory that runs without pijit and without the program's source."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pijit
from pijit.errors import ExportError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


class Net(torch.nn.Module):
    """Writes to its state, draws random numbers, and decides by data."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.calls = 0

    def forward(self, x: Any, more: Any) -> Any:
        self.calls += 1
        y = torch.nn.functional.dropout(self.norm(self.inner(x)), 0.5)
        first, second = y.split(2, dim=1)
        if second.sum() > 100:
            return first
        return {"first": first + more["k"], "rest": [second.sum(), second.max().item()]}


def run(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`python DIRECTORY` where pijit cannot be imported."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    program = (
        "import runpy, sys; sys.modules['pijit'] = None; del sys.argv[0]; runpy.run_path(sys.argv[0], None, '__main__')"
    )
    command = [sys.executable, "-c", program, str(directory), *words]
    return subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False, timeout=300)


def double(x: Any) -> Any:
    """One operator."""
    return x * 2


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The bundle of a call of `Net`."""
    torch.manual_seed(3)
    net = Net()
    assert pijit.bundle(net, torch.rand(5, 4), {"k": torch.ones(1)}, path=tmp_path / "call") == tmp_path / "call"
    assert net.calls == 1
    return tmp_path / "call"


def test_the_same_bits(directory: Path) -> None:
    """With random numbers and with state that the call writes to, as often as it is run."""
    for _ in range(2):
        done = run(directory)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("same: ")
        assert "(the versions are the same)" in done.stdout


def test_the_first_operator_that_differs(directory: Path) -> None:
    """And the line of the program, and by how much results differ."""
    file = directory / "call.py"
    file.write_text(file.read_text().replace("dropout.default(batch_norm, 0.5", "dropout.default(batch_norm, 0.25"))
    done = run(directory)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("differs first at dropout, aten.dropout.default (test_bundle.py:")
    assert "result 0: largest difference " in done.stdout


def test_other_versions_are_named(directory: Path) -> None:
    """Those that the call was written under, and those here."""
    file = directory / "call.json"
    call = json.loads(file.read_text())
    call["versions"]["torch"] = "1.0"
    file.write_text(json.dumps(call))
    done = run(directory, "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert f"(torch 1.0, here {torch.__version__})" in done.stdout


def test_what_stands_there(directory: Path) -> None:
    """Only what was read is written, and a difference of a weight is seen."""
    call = json.loads((directory / "call.json").read_text())
    assert set(call["weights"].values()) == {
        *("inner.weight", "inner.bias", "norm.weight", "norm.bias"),
        *("norm.running_mean", "norm.running_var", "norm.num_batches_tracked"),
    }
    assert call["inputs"] == ["input x", "input more_k"]
    file = directory / "tensors.safetensors"
    data = bytearray(file.read_bytes())
    start = int.from_bytes(data[:8], "little") + 8
    header = json.loads(data[8:start])
    data[start + header["weight inner.weight"]["data_offsets"][0] + 2] ^= 0x40
    file.write_bytes(data)
    assert run(directory).stdout.startswith("differs first at linear")


def test_layout_and_gradients_are_those_of_the_call(tmp_path: Path) -> None:
    """A transposed tensor stays one."""
    weight = torch.nn.Parameter(torch.rand(64, 32).t())

    def function(x: Any) -> Any:
        return (x @ weight).softmax(-1)

    pijit.bundle(function, torch.rand(7, 32), path=tmp_path / "call")
    call = json.loads((tmp_path / "call" / "call.json").read_text())
    (name,) = call["weights"]
    assert call["tensors"][name]["strides"] == [1, 32]
    assert call["tensors"][name]["requires_grad"]
    assert call["gradients"]
    assert run(tmp_path / "call").returncode == 0


@pytest.mark.parametrize("dtype", [torch.complex64, torch.bfloat16, torch.bool, torch.int16])
def test_dtypes(dtype: Any, tmp_path: Path) -> None:
    """Tensors of each are the same bits there."""
    pijit.bundle(double, torch.ones(2, dtype=dtype), path=tmp_path / "call")
    assert run(tmp_path / "call").returncode == 0
    file = tmp_path / "call" / "call.py"
    file.write_text(file.read_text().replace(", 2)", ", 3)"))
    done = run(tmp_path / "call")
    assert "result 0: largest difference 1" in done.stdout, done


def test_the_program_goes_on_as_after_one_call(tmp_path: Path) -> None:
    """State and random numbers are those that one call leaves."""
    torch.manual_seed(0)
    net = Net()
    x = torch.rand(5, 4)
    torch.manual_seed(1)
    net(x, {"k": torch.ones(1)})
    expected = [torch.rand(3), net.norm.running_mean.clone(), net.norm.num_batches_tracked.clone()]
    torch.manual_seed(0)
    other = Net()
    torch.manual_seed(1)
    pijit.bundle(other, x, kwargs={"more": {"k": torch.ones(1)}}, path=tmp_path / "call")
    found = [torch.rand(3), other.norm.running_mean, other.norm.num_batches_tracked]
    assert all(torch.equal(*pair) for pair in zip(expected, found, strict=True))


def test_what_cannot_be_written(tmp_path: Path) -> None:
    """The error says what, and nothing is left."""
    with pytest.raises(ExportError, match="complex128"):
        pijit.bundle(double, torch.ones(2, dtype=torch.complex128), path=tmp_path / "call")
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportError, match="file"):
        pijit.bundle(torch.nn.Linear(2, 2), torch.ones(1, 2), path=tmp_path / "file")
