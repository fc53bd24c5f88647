"""`pijit.save`, `pijit.load` and `pijit.aot`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import pijit
from pijit.errors import CacheError, UsageError

sys.path.insert(0, str(Path(__file__).parent))

from processes import run

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

MODEL = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.inner(x).relu().sum(-1)


net, inputs = Net(), [(torch.ones(n, 4),) for n in (1, 3)]
"""
SAVE = MODEL + "pijit.save(net, PATH, inputs=inputs)\ntell(*[net(*each) for each in inputs])\n"
LOAD = MODEL + "net = pijit.load(PATH, net)\ntell(*[net(*each) for each in inputs])\n"


def test_another_process_records_nothing(tmp_path: Path) -> None:
    """It has other weights of the same kind, if it likes."""
    path = f"PATH = {str(tmp_path / 'net.pijit')!r}\n"
    saved, loaded = (run(path + program, tmp_path / "cache", KEEP="0") for program in (SAVE, LOAD))
    assert saved["records"] > 0
    assert loaded["records"] == 0
    assert loaded["results"] == saved["results"]


def test_other_code_is_refused(tmp_path: Path) -> None:
    """The error names it."""
    path = f"PATH = {str(tmp_path / 'net.pijit')!r}\n"
    run(path + SAVE, tmp_path / "cache", KEEP="0")
    other = LOAD.replace(".relu()", ".tanh()").replace(
        "net = pijit.load(PATH, net)",
        "try:\n    pijit.load(PATH, net)\n"
        "except pijit.errors.CacheError as error:\n    tell(str(error))\n    sys.exit()",
    )
    (said,) = run(path + other, tmp_path / "cache", KEEP="0")["results"]
    assert "is of other code" in said
    assert re.search(r"Net: \w{16} of __main__\.Net \w{16} in the file; Net: \w{16} of __main__\.Net \w{16} here", said)


FUNCTION = """
def twice(x):
    return x * 2


def step(x):
    return twice(x) + 1
"""


def test_the_function_that_differs_is_named(tmp_path: Path) -> None:
    """One that is called, with both digests."""
    path = f"PATH = {str(tmp_path / 'step.pijit')!r}\n" + FUNCTION
    run(path + "pijit.save(step, PATH, inputs=[(torch.ones(2),)])\ntell()\n", tmp_path / "cache", KEEP="0")
    load = (
        "try:\n    pijit.load(PATH, step)\nexcept pijit.errors.CacheError as error:\n    tell(str(error))\n"
        "else:\n    tell('')\n"
    )
    assert run(path + load, tmp_path / "cache", KEEP="0")["results"] == ["''"]
    (said,) = run(path.replace("x * 2", "x * 3") + load, tmp_path / "cache", KEEP="0")["results"]
    assert re.search(r"function twice: code \w{16} in the file, \w{16} here", said)


def saved(tmp_path: Path) -> Path:
    """A file with a trace of a small module."""
    path = tmp_path / "linear.pijit"
    pijit.save(torch.nn.Linear(4, 2), path, inputs=[(torch.ones(1, 4),)])
    return path


def test_other_versions_are_refused_with_both_values(tmp_path: Path) -> None:
    """Which part of the environment it is, and what it is here."""
    path = saved(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"torch": "', b'"torch": "9.', 1))
    with pytest.raises(CacheError, match=r"made under torch '9\..*, and here it is '"):
        pijit.load(path, torch.nn.Linear(4, 2))


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    """Whatever is wrong with them."""
    path = saved(tmp_path)
    data = path.read_bytes()
    for changed in (b"", data[:100], data[:-10], data[:-40] + b"x" + data[-39:], b"\xff" * 50):
        path.write_bytes(changed)
        with pytest.raises(CacheError):
            pijit.load(path, torch.nn.Linear(4, 2))
    with pytest.raises(CacheError, match="cannot be read"):
        pijit.load(tmp_path / "none", torch.nn.Linear(4, 2))


def test_what_cannot_be_loaded_is_as_before(tmp_path: Path) -> None:
    """Not jitted, or jitted as it was, and its calls give what they gave."""
    path, x = saved(tmp_path), torch.ones(1, 4)
    path.write_bytes(path.read_bytes()[:-10])
    for jitted in (False, True):
        net = torch.nn.Linear(4, 2)
        expected = net(x)
        if jitted:
            pijit.jit(net)
        assert torch.equal(net(x), expected)
        assert torch.equal(net(x), expected)
        before = pijit.status(net)
        assert (before.state == "replaying") is jitted
        with pytest.raises(CacheError, match="cannot be used"):
            pijit.load(path, net)
        assert pijit.status(net) == before
        assert torch.equal(net(x), expected)


def test_an_object_that_is_jitted_keeps_its_options(tmp_path: Path) -> None:
    """Its traces and those of the file are there."""
    path = saved(tmp_path)
    net = pijit.jit(torch.nn.Linear(4, 2), verify=1)
    expected = [net(torch.ones(n, 4)) for n in (3, 1)]
    assert pijit.load(path, net) is net
    before = pijit.stats()["records"]
    assert all(torch.equal(net(torch.ones(n, 4)), each) for n, each in zip((3, 1), expected, strict=True))
    assert pijit.stats()["records"] == before


def test_what_has_no_trace_is_not_saved(tmp_path: Path) -> None:
    """The error says what to do."""
    with pytest.raises(CacheError, match="give `inputs`"):
        pijit.save(torch.nn.Linear(4, 2), tmp_path / "file")
    with pytest.raises(CacheError, match="give `inputs`"):
        pijit.save(pijit.jit(torch.nn.Linear(4, 2)), tmp_path / "file")
    assert not list(tmp_path.iterdir())


def test_ahead_of_time() -> None:
    """Calls like those that were given record nothing."""
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
    x = torch.ones(3, 4)
    expected = net(x)
    assert pijit.aot(net, [(torch.ones(1, 4),), (torch.ones(2, 4),)]) is net
    before = pijit.stats()["records"]
    assert torch.equal(net(x), expected)
    assert pijit.stats()["records"] == before


def test_inputs_are_tuples() -> None:
    """One tensor is no call."""
    with pytest.raises(UsageError, match="a list of tuples"):
        pijit.aot(torch.nn.Linear(4, 2), [torch.ones(1, 4)])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="a list of tuples"):
        pijit.aot(torch.nn.Linear(4, 2), [])
