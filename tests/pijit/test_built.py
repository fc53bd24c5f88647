"""A source directory without a build: import says what to type, and `python -m pijit doctor` works."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pijit

PACKAGE = Path(pijit.__file__).parent


@pytest.fixture
def checkout(tmp_path):
    """The package as in a fresh clone."""
    shutil.copytree(PACKAGE, tmp_path / "pijit", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    (tmp_path / "CMakeLists.txt").write_text("")
    return tmp_path


def run(cwd, *arguments, path=""):
    """Python there, without the pijit that may be installed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1"} | ({"PYTHONPATH": str(path)} if path else {})
    return subprocess.run(
        [sys.executable, "-S", *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=60
    )


def test_import_says_what_to_type(checkout):
    for _ in range(2):
        done = run(checkout, "-c", "import pijit")
        assert done.returncode == 1
        last = done.stderr.splitlines()[-1]
        assert last.startswith(f"ImportError: {checkout} is the source directory of pijit, and nothing is built in it.")
        assert f"cd {checkout} && pip install --no-build-isolation ." in last
        assert last.endswith("To build in place: make dev")


def test_the_import_can_be_tried_again(checkout):
    code = (
        "for _ in range(2):\n    try:\n        import pijit\n"
        "    except ImportError as error:\n        print(error.name, 'source directory' in str(error))"
    )
    assert run(checkout, "-c", code).stdout == "pijit._core True\n" * 2


def test_doctor(checkout):
    done = run(checkout, "-m", "pijit", "doctor")
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"ok  Python: CPython 3.{sys.version_info.minor}.")
    assert f"NOT build: {checkout} is the source directory of pijit, and nothing is built in it" in lines
    assert lines[-1] == f"      mend: cd {checkout} && pip install --no-build-isolation ."


@pytest.mark.parametrize("arguments", [["train.py"], ["--report", "train.py"], ["-m", "doctor"], []])
def test_programs(checkout, arguments):
    (checkout / "train.py").write_text("print('runs')")
    done = run(checkout, "-m", "pijit", *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"pijit: {checkout} is the source directory of pijit")
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_program_of_its_own_that_imports_it(checkout):
    """`-m` of something else: an error as of any import."""
    (checkout / "train.py").write_text("import pijit")
    done = run(checkout, "-m", "train", "doctor")
    assert done.returncode == 1
    assert "ImportError: " in done.stderr


def test_another_python(checkout):
    (checkout / "pijit" / "_core.cpython-399-x86_64-linux-gnu.so").write_text("")
    done = run(checkout, "-m", "pijit", "doctor")
    assert "was built for another Python (_core.cpython-399-x86_64-linux-gnu.so)" in done.stdout
    assert f"mend: pip install --no-build-isolation --force-reinstall --no-deps {checkout}\n" in done.stdout


@pytest.mark.parametrize("installed", ["directory", "wheel", "elsewhere", "nothing"])
def test_where_the_sources_are(checkout, tmp_path_factory, installed):
    """No package index has pijit: what is advised names the directory that it was installed from."""
    site = tmp_path_factory.mktemp("site")
    shutil.copytree(checkout / "pijit", site / "pijit")
    if installed != "nothing":
        places = {"directory": checkout, "wheel": checkout / "build" / "wheels" / "p.whl", "elsewhere": "/tmp/a b"}
        (site / "pijit-1.dist-info").mkdir()
        (site / "pijit-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: pijit\nVersion: 1\n")
        noted = {"url": Path(places[installed]).as_uri(), "dir_info": {}}
        (site / "pijit-1.dist-info" / "direct_url.json").write_text(json.dumps(noted))
    done = run(site, "-m", "pijit", "doctor")
    wanted = checkout if installed in {"directory", "wheel"} else "PATH/TO/pijit"
    assert f"mend: pip install --no-build-isolation --force-reinstall --no-deps {wanted}\n" in done.stdout


def test_installed_but_hidden(checkout):
    done = run(checkout, "-c", "import pijit", path=PACKAGE.parent)
    assert done.returncode == 1
    assert f"pijit is installed in {PACKAGE}, which this directory hides. Start Python in another" in done.stderr
    assert "NOT build" in run(checkout, "-m", "pijit", "doctor", path=PACKAGE.parent).stdout


@pytest.mark.parametrize("text", ["__version__ = '1.2.3'", "raise OSError('libcudart.so.9')", "import no_such_part"])
def test_doctor_with_another_torch(tmp_path, text):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(text)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{PACKAGE.parent}"}
    for command in ("doctor", "env", "demo"):
        done = subprocess.run(
            [sys.executable, "-m", "pijit", command], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert "Traceback" not in done.stderr
        if command == "doctor":
            assert done.returncode == 1
            line = next(line for line in done.stdout.splitlines() if line.startswith("NOT adapter of torch: "))
            assert ("torch 1.2.3" if "version" in text else "import torch fails: ") in line
            assert "      mend: " in done.stdout
