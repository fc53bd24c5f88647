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


@pytest.mark.parametrize("name", sorted(file.stem for file in PROGRAMS.glob("*.py")))
def test_program(tmp_path, name):
    for package in NEEDS.get(name, "").split():
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    source = (PROGRAMS / f"{name}.py").read_text()
    (tmp_path / "by_hand.py").write_text(edited(source))
    (tmp_path / f"{name}.py").write_text(source)
    by_hand = run(["by_hand.py"], tmp_path, **TORCHRUN)
    assert by_hand.count("\n") > 1
    options = ["--device", "cpu", "--single-process"]
    # What a package's own loop calls is recorded where the setting of all tests is left out; bench/programs has such.
    within = {} if name in NEEDS else {"PIJIT_LONG_CALL": "10"}
    moved = run(["-m", "pijit", *options, "--report=report.json", f"{name}.py"], tmp_path, **within)
    assert moved == by_hand
    if name not in NEEDS:
        assert json.loads((tmp_path / "report.json").read_text())["stats"]["replays"] > 0
    assert run(["-m", "pijit", *options, f"{name}.py"], tmp_path, PIJIT="0") == by_hand
