"""The table of callables that carry a device: what cannot run elsewhere, what a user adds, and how it is printed."""

from __future__ import annotations

import textwrap

import pytest
from moved import run, start

from pijit import devices
from pijit.devices import table
from pijit.errors import ConfigError

KERNEL = """
    import torch
    from torch.utils.cpp_extension import load_inline
    print("begins")

    def build():
        return load_inline(name="k", cpp_sources="", cuda_sources="__global__ void k() {}", functions=["k"])

    build()
    print("goes on")
"""
NCCL = "import torch\nprint('begins')\ntorch.cuda.nccl.all_reduce([torch.ones(1)])\nprint('goes on')\n"
ALLOCATOR = (
    "import torch\nprint('begins')\ntorch.cuda.memory.CUDAPluggableAllocator('a.so', 'b', 'c')\nprint('goes on')\n"
)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("text", "line", "name"),
    [(KERNEL, 6, "load_inline"), (NCCL, 3, "all_reduce"), (ALLOCATOR, 3, "CUDAPluggableAllocator")],
)
def test_refused(tmp_path, text, line, name):
    (tmp_path / "kernel.py").write_text(textwrap.dedent(text).lstrip())
    done = start(["-m", "pijit", "--device", "cpu", "kernel.py"], tmp_path)
    assert (done.returncode, done.stdout) == (1, "begins\n")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("pijit.errors.DeviceError: ")
    assert f"kernel.py:{line}: " in last
    assert name in last


OWN = """
    import own
    print(own.put(3, "cuda:1"), own.wait(), own.Pool.size(), own.world())
    print(own.Trainer(devices=8).devices, own.Trainer(4, 2).devices)
"""
LIBRARY = """
    class Pool:
        @staticmethod
        def size():
            return 8

    class Trainer:
        def __init__(self, width=1, devices=4):
            self.devices = devices

    def put(value, where):
        return value, where

    def wait():
        raise RuntimeError("there is no device")

    world = wait
"""
ROWS = """
    [tool.pijit.devices]
    "own:put" = "device"
    "own:wait" = "nothing"
    "own:world" = "here:world"
    "own:Pool.size" = {returns = 1}
    "own:Trainer.__init__" = {arguments = {devices = 1}}
    "own:missing" = "nothing"
"""


def test_own_rows(tmp_path):
    for name, text in [("uses.py", OWN), ("own.py", LIBRARY), ("pyproject.toml", ROWS)]:
        (tmp_path / name).write_text(textwrap.dedent(text))
    (tmp_path / "here.py").write_text("def world():\n    return 1\n")
    assert run(["-m", "pijit", "--device", "cpu", "uses.py"], tmp_path) == "(3, 'cpu') None 1 1\n1 1\n"
    listed = run(["-m", "pijit", "devices"], tmp_path)
    assert "own: put" in listed
    assert "is called with devices=1" in listed


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"own.put": "device"}, r"'own\.put' is no 'module:name'"),
        ({"own:put": "devise"}, "is a rule .*the nearest is 'device'.*not 'devise'"),
        ({"own:put": {"return": 3}}, "is a rule"),
        ({"own:put": {"arguments": 3}}, "is a rule"),
    ],
)
def test_wrong_rows(rows, message):
    with pytest.raises(ConfigError, match=message):
        table.own(rows)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--device", "gpu", "x.py"], "no device is called 'gpu'"),
        (["--device"], "--device= needs a name (python -m pijit devices)"),
        (["--devise", "cpu", "x.py"], "the nearest is --device"),
    ],
)
def test_wrong_options(tmp_path, options, message):
    done = start(["-m", "pijit", *options], tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_listing():
    listed = devices.listing()
    for row in (*table.DEVICE, *table.SINGLE):
        assert f"{row.module}: {row.names.split()[0]}" in listed
        assert row.rule.doc in listed
    assert max(map(len, listed.splitlines())) <= 120


@pytest.mark.torch
def test_names_exist():
    """A row that torch has nothing for says nothing: a name may be misspelt."""
    import importlib

    import torch

    def found(row, kind):
        module = importlib.import_module(row.module.replace("KIND", kind).replace("NAMED", kind))
        for path in row.names.split():
            owner = module
            for part in path.split("."):
                owner = getattr(owner, part, None)
            if owner is not None:
                yield path

    rows = [row for row in (*table.DEVICE, *table.SINGLE) if row.module.split(".")[0] == "torch"]
    missing = {
        f"{row.module}:{path}"
        for row in rows
        for path in {*row.names.split()} - {*found(row, "cuda"), *found(row, "mps")}
    }
    other = {"torch:Tensor.npu", "torch:Tensor.hpu", "torch:Tensor.mtia", "torch:Tensor.ipu"}  # of other builds
    assert missing <= other, torch.__version__
