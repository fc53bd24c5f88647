"""`--profile=FILE` and `--use-profile=FILE`: a later run records nothing that the first one found useless."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pijit import _core, _profile, _varying_sizes
from pijit.errors import CacheError

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

# `counted` is recorded twice: its number varies. What `once` records is never replayed; `steady` is recorded once.
SCRIPT = """
import torch

calls = 0


def counted(x, scale):
    return x * scale + 1


def steady(x):
    return x.relu() + 1


def attribute(x):
    global calls
    calls += 1
    return x * calls


def once(x):
    return x - 1


x = torch.ones(3)
for turn in range(6):
    print(counted(x, turn * 1.5).tolist(), steady(x).tolist(), attribute(x).tolist())
    if turn < 2:
        print(once(x).tolist())
"""


def command(*words: str, at: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """`python -m pijit` with these words."""
    return subprocess.run(
        [sys.executable, "-m", "pijit", *words],
        env={**os.environ, "PIJIT_LOG": "record", **environment},
        cwd=at,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def recorded(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Of which functions, in order."""
    return [line.split()[1].rstrip(":") for line in done.stderr.splitlines() if " operations, " in line]


def test_the_second_run_makes_no_useless_recording(tmp_path: Path) -> None:
    """And prints what plain Python prints."""
    (tmp_path / "script.py").write_text(SCRIPT)
    plain = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    first = command("--profile=found.json", "script.py", at=tmp_path)
    second = command("--use-profile=found.json", "--profile=again.json", "script.py", at=tmp_path)
    third = command("--use-profile=again.json", "script.py", at=tmp_path)
    assert first.stdout == second.stdout == third.stdout == plain, first.stderr + second.stderr
    assert recorded(first).count("once") == 1
    assert recorded(first).count("counted") > 1
    for later in (second, third):
        assert sorted(recorded(later)) == ["attribute", "counted", "steady"], later.stderr
    rows = {row["function"]: row for row in json.loads((tmp_path / "found.json").read_text())["functions"]}
    assert rows["once"]["useless"] == "no call replayed what was recorded"
    assert rows["counted"]["inputs"] == [1]
    assert rows["steady"]["useless"] == ""


def test_another_program_is_not_disturbed(tmp_path: Path) -> None:
    """A profile of other code says nothing."""
    (tmp_path / "script.py").write_text(SCRIPT)
    command("--profile=found.json", "script.py", at=tmp_path)
    changed = SCRIPT.replace("return x - 1", "return x - 2").replace("turn < 2", "turn < 4").replace("+ 1", "+ 3")
    (tmp_path / "script.py").write_text(changed)
    plain = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    done = command("--use-profile=found.json", "script.py", at=tmp_path)
    assert done.stdout == plain
    assert "once" in recorded(done)


def test_a_wrong_profile_costs_no_answer(tmp_path: Path) -> None:
    """Inputs and places that do not vary, or are not there."""
    (tmp_path / "script.py").write_text(SCRIPT)
    plain = command("--profile=found.json", "script.py", at=tmp_path).stdout
    held = json.loads((tmp_path / "found.json").read_text())
    for row in held["functions"]:
        row |= {"useless": "", "inputs": [0, 1, 7], "places": [[-2, "calls"], [-2, "torch"], [-1, "x"], [3, ""]]}
    (tmp_path / "found.json").write_text(json.dumps(held))
    assert command("--use-profile=found.json", "script.py", at=tmp_path).stdout == plain


ROW = {"code": "0", "useless": "", "passes": False, "inputs": [], "places": []}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[" * 100000,
        b"\xff",
        b"[]",
        b'{"pijit profile": 2, "functions": [], "sizes": []}',
        b'{"pijit profile": 1, "functions": {}, "sizes": []}',
        b'{"pijit profile": 1, "functions": [], "sizes": [-1]}',
        b'{"pijit profile": 1, "functions": [], "sizes": [true]}',
        *(
            json.dumps({"pijit profile": 1, "sizes": [], "functions": [{**ROW, **wrong}]}).encode()
            for wrong in (
                {"code": 1},
                {"useless": None},
                {"passes": 1},
                {"inputs": [-1]},
                {"inputs": [1 << 40]},
                {"places": [[-3, "a"]]},
                {"places": [["a", 1]]},
                {"places": ["ab"]},
            )
        ),
    ],
)
def test_what_is_no_profile(data: bytes, tmp_path: Path) -> None:
    """It is refused as a whole."""
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(CacheError, match=r"is no profile of this pijit"):
        _profile.use(str(tmp_path / "file"))


def test_words_of_the_command_line(tmp_path: Path) -> None:
    """What is wrong is said before the program begins."""
    (tmp_path / "script.py").write_text("print('begun')")
    for words, said in (
        (["--profile=", "script.py"], "--profile= needs the name of a file"),
        (["--use-profile=none", "script.py"], "none cannot be read: No such file or directory"),
        (["--profile=none/file", "script.py"], "the profile cannot be written there"),
    ):
        done = command(*words, at=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr


@pytest.fixture
def no_profile() -> Any:
    """The sizes and the profile are as before afterwards."""
    before = dict(_varying_sizes._sizes)
    yield
    _core.set_profile([])
    _varying_sizes._sizes.clear()
    _varying_sizes.expect(before)


def test_sizes_that_varied_are_expected_to(tmp_path: Path, no_profile: None) -> None:
    """By compilers, from the first form on."""
    _varying_sizes.note([3, 5, 7])
    (tmp_path / "file").write_text(_profile.made())
    assert {3, 5, 7} <= set(json.loads((tmp_path / "file").read_text())["sizes"])
    _profile.use(str(tmp_path / "file"))
    assert {3, 5, 7} <= set(_varying_sizes.sizes())
