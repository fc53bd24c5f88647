"""Which adapter is for which torch, and when one from the cache may be loaded."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pijit import _adapter_cache, _adapter_choice, _torches

RELEASES = ["2.13.0", "2.13.1", "2.13.0+cpu", "2.13.0+cu126", "2.13.2+cu130", "2.13.0+rocm6.4", "2.13.0.post1+xpu"]
OTHERS = ["2.13.0a0+nv", "2.13.0.dev20260301+cu130", "2.13.0a0+git70d99e9", "2.13.0rc1", "2.13.0+vendor", "2.13", ""]


@pytest.mark.parametrize("version", RELEASES)
def test_releases_of_a_minor_share_an_adapter(version):
    assert _torches.series(version) == "2.13"
    assert _torches.module_name(version) == "_torch_2_13"
    assert _torches.is_tested(version)


@pytest.mark.parametrize("version", OTHERS)
def test_another_build_has_one_of_its_own(version):
    assert _torches.series(version) == version
    assert _torches.module_name(version) != "_torch_2_13"
    assert not _torches.is_tested(version)


def test_the_table():
    minors = [row.minor for row in _torches.TORCHES]
    assert minors == sorted(set(minors), key=lambda minor: [*map(int, minor.split("."))])
    assert all(_torches.series(row.tested) == row.minor for row in _torches.TORCHES)


def test_a_torch_is_read_without_importing_it(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "version.py").write_text(
        "from typing import Optional\n__version__ = '2.14.1+cu130'\nraise SystemExit\n"
    )
    library = tmp_path / "lib" / "libc10.so"
    for content, abi in ((b"_ZN3c10", 0), (b"_ZNSt7__cxx1112basic_string", 1)):
        library.write_bytes(content)
        script = [sys.executable, "-P", _torches.__file__, str(tmp_path)]
        done = subprocess.run(script, capture_output=True, text=True, check=True)
        assert done.stdout == f"_torch_2_14,2.14.1+cu130,2.14,{abi},1,{tmp_path}\n"


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """An adapter in a cache; nothing looks into the file."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = _adapter_cache.file("9.1.0", True)
    _adapter_cache.make(file.parent)
    file.touch(mode=0o600)
    return file


def test_the_cache(cached, tmp_path):
    """It is found for this torch alone: for its patch releases, not for another minor or ABI."""
    assert cached.is_relative_to(tmp_path)
    assert cached.parent.stat().st_mode & 0o777 == 0o700
    assert _adapter_choice.choose_for("9.1.0", True) == ("pijit._torch_9_1", cached, "")
    assert _adapter_choice.choose_for("9.1.2+cu140", True).file == cached
    for version, abi in (("9.2.0", True), ("9.1.0", False), ("9.1.0a0+nv", True)):
        choice = _adapter_choice.choose_for(version, abi)
        assert (choice.module, choice.file) == ("", None)
        assert f"there is no adapter for torch {version} (there is one for " in choice.why_none
    assert _adapter_cache.built() == [cached]


def spoil_file(file):
    file.chmod(0o620)
    return "others may write .*_torch_9_1"


def spoil_directory(file):
    file.parent.chmod(0o702)
    return "others may write .*-abi1$"


def spoil_root(file):
    file.parent.parent.chmod(0o777)
    return "others may write .*pijit$"


def replace_by_link(file):
    file.rename(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")
    return "is a link$"


@pytest.mark.parametrize("spoil", [spoil_file, spoil_directory, spoil_root, replace_by_link])
def test_what_others_may_have_written_is_not_loaded(cached, spoil):
    assert _adapter_choice.choose_for("9.1.0", True).file == cached
    says = spoil(cached)
    choice = _adapter_choice.choose_for("9.1.0", True)
    assert choice.module == ""
    assert re.search(f"the one that was built is not used: .*{says}", choice.why_none)


def test_what_belongs_to_another_user_is_not_loaded(cached, monkeypatch):
    assert _adapter_choice.choose_for("9.1.0", True).file == cached
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert "belongs to another user" in _adapter_choice.choose_for("9.1.0", True).why_none


def test_without_a_home_there_is_no_cache(monkeypatch):
    """Nothing is found, and nothing is an error: neither without a home nor where the user may not look."""
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for home in ("", "/dev/null/nobody", "~"):
        monkeypatch.setenv("HOME", home)
        assert _adapter_choice.choose_for("9.1.0", True).why_none.startswith("there is no adapter for torch 9.1.0")
        assert _adapter_cache.built() == []


def run(code, **variables):
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(Path(_adapter_choice.__file__).parent.parent)} | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


PROGRAM = """
import pijit, {first}
f = pijit.jit(lambda x: [x, x + 1])
import torch
for x in (torch.ones(2), torch.zeros(2), 1):
    print(f(x), pijit.status(f).state)
print(pijit.enabled().__bool__())
"""


@pytest.mark.torch
@pytest.mark.parametrize("first", ["torch", "sys"])
@pytest.mark.parametrize("version", ["2.99.0+cpu", "{}a0+nv"])
def test_a_torch_that_was_not_tested_runs_plain(first, version):
    """One line, the same results; torch comes before pijit or after it."""
    version = version.format(_torches.TORCHES[-1].minor + ".0")
    finder = f"""
import importlib.util, sys
spec = importlib.util.find_spec("torch")
class Renamed:
    def find_spec(self, name, path=None, target=None):
        if name != "torch.version": return None
        from importlib.machinery import PathFinder
        found = PathFinder.find_spec(name, path)
        execute = found.loader.exec_module
        def exec_module(module):
            execute(module)
            module.__version__ = {version!r}
        found.loader.exec_module = exec_module
        return found
sys.meta_path.insert(0, Renamed())
"""
    done = run(finder + PROGRAM.format(first=first))
    (line,) = [line for line in done.stderr.splitlines() if "pijit" in line]
    assert line.startswith(f"pijit: there is no adapter for torch {version} (there is one for 2.")
    assert line.endswith("; everything runs in plain Python; to build an adapter, run: python -m pijit build")
    assert done.stdout.splitlines() == [
        "[tensor([1., 1.]), tensor([2., 2.])] disabled",
        "[tensor([0., 0.]), tensor([1., 1.])] disabled",
        "[1, 2] disabled",
        "False",
    ]


@pytest.mark.torch
def test_a_torch_of_another_layout_runs_plain():
    done = run("import torch\ntorch._C.TensorBase = int\n" + PROGRAM.format(first="sys"))
    (line,) = [line for line in done.stderr.splitlines() if "pijit" in line]
    assert ": torch._C.TensorBase is not laid out as in torch 2." in line
    assert done.stdout.count("disabled") == 3


def test_a_python_of_another_layout_runs_plain():
    core = _adapter_choice.__file__.replace("_adapter_choice.py", "")
    begin = f"""
import importlib.util, sys, glob
spec = importlib.util.spec_from_file_location("pijit._core", glob.glob({core!r} + "_core.*.so")[0])
core = importlib.util.module_from_spec(spec)
spec.loader.exec_module(core)
sys.modules["pijit._core"] = core
TROUBLE
import pijit
f = pijit.jit(lambda x: [x, x + 1])
print([f(x) for x in (1, 1, 1)], pijit.status(f))
"""
    good = run(begin.replace("TROUBLE", ""))
    odd = run(begin.replace("TROUBLE", "core.layout_trouble = lambda: 'dict'"))
    assert good.stderr == ""
    assert "state='replaying'" in good.stdout
    assert "lays out objects of the type dict in a way of its own; everything runs in plain Python" in odd.stderr
    assert odd.stdout.startswith("[[1, 2], [1, 2], [1, 2]] Status(state='disabled'")
