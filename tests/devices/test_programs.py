"""Programs that were written for a GPU, or for many of them, run unchanged on the CPU in one process, and print what
they print when somebody has edited them for it by hand.

What a person would edit stands in the docstring of each program.
"""

import importlib.util
import json
from pathlib import Path

import pytest
from moved import TORCHRUN, run

PROGRAMS = Path(__file__).with_name("programs")
# What a program needs beside torch.
NEEDS = {
    "accelerate_loop": "accelerate",
    "diffusers_inference": "diffusers",
    "graph_network": "torch_geometric",
    "hf_trainer": "transformers accelerate",
    "lightning_fit": "lightning",
}

pytestmark = pytest.mark.torch


def edited(source):
    """The program as a person would write it for the CPU."""
    head, _, rest = source.partition("By hand for the CPU:\n")
    edits, _, rest = rest.partition('"""')
    for edit in edits.strip().splitlines():
        old, new = edit.strip().split(" -> ")
        assert old in rest, old
        rest = rest.replace(old, new)
    return f'{head}"""{rest}'


NAMES = sorted(file.stem for file in PROGRAMS.glob("*.py"))
MOVED = ["-m", "pijit", "--device", "cpu", "--single-process"]


def printed_by_hand(folder, name):
    """The program and its edited twin are written; what the twin prints."""
    for package in NEEDS.get(name, "").split():
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    source = (PROGRAMS / f"{name}.py").read_text()
    (folder / "by_hand.py").write_text(edited(source))
    (folder / f"{name}.py").write_text(source)
    by_hand = run(["by_hand.py"], folder, **TORCHRUN)
    assert by_hand.count("\n") > 1
    return by_hand


@pytest.mark.parametrize("name", NAMES)
def test_program(tmp_path, name):
    by_hand = printed_by_hand(tmp_path, name)
    # What a package's own loop calls is recorded where the setting of all tests is left out; bench/programs has such.
    within = {} if name in NEEDS else {"PIJIT_LONG_CALL": "10"}
    moved = run([*MOVED, "--report=report.json", f"{name}.py"], tmp_path, **within)
    assert moved == by_hand
    if name not in NEEDS:
        assert json.loads((tmp_path / "report.json").read_text())["stats"]["replays"] > 0


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", NAMES)
def test_program_that_is_not_recorded(tmp_path, name):
    """It is moved even so."""
    by_hand = printed_by_hand(tmp_path, name)
    assert run([*MOVED, f"{name}.py"], tmp_path, PIJIT="0") == by_hand
