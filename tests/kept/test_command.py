"""`python -m pijit` keeps traces where it is asked to, and `python -m pijit cache` looks into them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

SCRIPT = """
import torch


def step(x):
    return (x * 2).relu() + 1


for _ in range(4):
    print(step(torch.ones(3)).tolist())
"""


def command(*words: str, cache: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """`python -m pijit` with these words."""
    made = {**os.environ, "PIJIT_CACHE_DIR": str(cache), "PIJIT_CACHE": "1"}
    return subprocess.run(
        [sys.executable, "-m", "pijit", *words],
        env={**made, **environment},
        cwd=cache.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Where the script has kept its trace."""
    (tmp_path / "script.py").write_text(SCRIPT)
    place = tmp_path / "cache"
    done = command("script.py", cache=place)
    assert done.stdout == "[3.0, 3.0, 3.0]\n" * 4
    assert done.stderr == ""
    return place


def test_a_second_run_records_nothing(cache: Path) -> None:
    """It says so in the log, and prints the same."""
    done = command("script.py", cache=cache, PIJIT_LOG="record")
    assert done.stdout == "[3.0, 3.0, 3.0]\n" * 4
    assert "operations" not in done.stderr
    said = command("cache", cache=cache).stdout
    assert f"{cache}: 1 files" in said
    assert "last run: 1 functions found here, 0 not" in said
    assert "1 traces of step" in said
    assert command("cache", "explain", "step", cache=cache).stdout.startswith("step: its traces were found (")


def test_it_is_on_for_the_command_alone(tmp_path: Path) -> None:
    """Where nobody has said otherwise; the library has to be asked."""
    (tmp_path / "script.py").write_text(SCRIPT)
    place = tmp_path / "cache"
    environment = {name: value for name, value in os.environ.items() if name != "PIJIT_CACHE"}
    environment["PIJIT_CACHE_DIR"] = str(place)
    library = "import pijit\npijit.enable()\n" + SCRIPT
    for words in (["-c", library], ["-m", "pijit", "script.py"]):
        assert not place.exists()
        done = subprocess.run(
            [sys.executable, *words], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.stdout == "[3.0, 3.0, 3.0]\n" * 4, done.stderr
    assert len([*place.glob("*.pijit")]) == 1


def test_the_cache_can_be_off(tmp_path: Path) -> None:
    """By the environment."""
    (tmp_path / "script.py").write_text(SCRIPT)
    done = command("script.py", cache=tmp_path / "cache", PIJIT_CACHE="0")
    assert done.stdout == "[3.0, 3.0, 3.0]\n" * 4
    assert not (tmp_path / "cache").exists()


def test_explain_says_what_differs(cache: Path) -> None:
    """The code of the function, or an option."""
    script = cache.parent / "script.py"
    script.write_text(SCRIPT.replace("x * 2", "x * 3"))
    command("script.py", cache=cache)
    said = command("cache", "explain", "step", cache=cache).stdout
    assert said.startswith("step: there is none\n")
    assert "differs in code: " in said
    script.write_text(SCRIPT)
    command("script.py", cache=cache, PIJIT_MAX_NODES="1000")
    assert "differs in option max_nodes: " in command("cache", "explain", "step", cache=cache).stdout
    assert "did not look for other" in command("cache", "explain", "other", cache=cache).stdout


def test_verify_names_damaged_files(cache: Path) -> None:
    """And its exit status says whether there are any."""
    done = command("cache", "verify", cache=cache)
    assert (done.returncode, done.stdout) == (0, "1 of 1 files are whole\n")
    (file,) = cache.glob("*.pijit")
    file.write_bytes(file.read_bytes()[:-5])
    done = command("cache", "verify", cache=cache)
    assert (done.returncode, done.stdout) == (1, f"{file.name}: it is damaged\n0 of 1 files are whole\n")
    file.write_bytes(b"\xff\x00")
    assert "it is damaged" in command("cache", cache=cache).stdout


def test_clear(cache: Path) -> None:
    """All files go."""
    assert command("cache", "clear", cache=cache).stdout == f"{cache}: 1 files removed\n"
    assert [each.name for each in cache.iterdir()] == ["lock"]
    assert command("cache", "clear", cache=cache).stdout == f"{cache}: 0 files removed\n"


def test_other_words_are_refused(cache: Path) -> None:
    """With what there is."""
    for words in (["other"], ["info", "more"], ["explain"]):
        done = command("cache", *words, cache=cache)
        assert done.returncode == 1
        assert "cache takes info, clear, verify, or explain and the name of a function" in done.stderr
