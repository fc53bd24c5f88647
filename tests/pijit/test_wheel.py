"""`make setup`: what was compiled once is taken again, whatever the clone or environment, and what changed is not."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

import pijit

ROOT = Path(__file__).parents[2]


def test_every_module_is_installed() -> None:
    """A package whose name is also that of a folder of the build was left out of the wheel."""
    installed = Path(pijit.__file__).parent
    sources = {path.relative_to(ROOT / "pijit") for path in (ROOT / "pijit").rglob("*.py")}
    assert sources
    assert {path for path in sources if not (installed / path).is_file()} == set()


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script, in a small tree of its own, with a compiler that only counts."""
    spec = importlib.util.spec_from_file_location("wheel", ROOT / "requirements" / "wheel.py")
    assert spec is not None
    assert spec.loader is not None
    script: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    tree = tmp_path / "tree"
    for name in ("CMakeLists.txt", "pyproject.toml", "README.md", "LICENSE", "csrc/a.cpp", "pijit/_torches.py"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("")
    script.count = 0

    def made(build: Path, options: list[str]) -> Path:
        script.count += 1
        place = tmp_path / f"made{script.count}"
        place.mkdir()
        (place / "pijit-1-py3.whl").write_text(str(script.count))
        return place / "pijit-1-py3.whl"

    monkeypatch.setattr(script, "ROOT", tree)
    monkeypatch.setattr(script, "made", made)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CXX", raising=False)
    return script


def test_the_same_sources_are_compiled_once(wheel: Any, tmp_path: Path) -> None:
    for clone in ("one", "two", "one"):
        found = wheel.main(tmp_path / clone, ["PIJIT_WERROR=ON"])
        assert found == tmp_path / clone / "wheels" / "pijit-1-py3.whl"
        assert found.read_text() == "1"
    assert wheel.count == 1


def test_what_goes_into_a_wheel_counts(wheel: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = [
        lambda: (wheel.ROOT / "csrc" / "a.cpp").write_text("int a;"),
        lambda: (wheel.ROOT / "csrc" / "b.def").write_text(""),
        lambda: (wheel.ROOT / "pijit" / "more.py").write_text(""),
        lambda: monkeypatch.setenv("CXXFLAGS", "-O3"),
        lambda: monkeypatch.setattr(wheel, "torches", lambda: ["another torch"]),
        lambda: monkeypatch.setattr(sys, "version", "another Python"),
    ]
    wheel.main(tmp_path / "build", [])
    for count, change in enumerate(changes, 2):
        change()
        assert wheel.main(tmp_path / "build", []).read_text() == str(count)
        assert wheel.main(tmp_path / "build", []).read_text() == str(count)
    (wheel.ROOT / "pijit" / "__pycache__").mkdir()
    (wheel.ROOT / "pijit" / "__pycache__" / "x.pyc").write_text("")
    wheel.main(tmp_path / "build", [])
    assert wheel.count == len(changes) + 1
    assert wheel.main(tmp_path / "build", ["PIJIT_WERROR=ON"]).read_text() == str(wheel.count)
    assert len(list(wheel.cache().iterdir())) == wheel.KEPT


def test_progress_is_shown_and_a_failure_ends_it(wheel: Any, capsys: pytest.CaptureFixture[str]) -> None:
    prints = "print('noise'); print('[0/2] looking'); print('  [1/3] one'); print('[3/3] linked')"
    wheel.run([sys.executable, "-c", prints])
    assert capsys.readouterr().err == "pijit: 1 of 3 files, about 0 min to go\npijit: linked\n"
    with pytest.raises(SystemExit, match="the build failed"):
        wheel.run([sys.executable, "-c", f"{prints}; raise SystemExit(3)"])
    assert "noise" in capsys.readouterr().err
