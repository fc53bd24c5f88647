"""`python -m pijit build`: what it says where it cannot build, that it leaves nothing then, and what it builds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pijit
from pijit import _adapter_cache, _adapter_choice
from pijit.errors import AdapterError

torch = pytest.importorskip("torch")
build = pytest.importorskip("pijit.tools.build")

pytestmark = pytest.mark.torch


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CXX", raising=False)
    return tmp_path / "cache" / "pijit"


def files(cache):
    return [path for path in cache.rglob("*") if path.is_file()]


def test_what_is_there_is_not_built_again(cache):
    assert "the adapter for torch" in build.build()
    assert "came with pijit; to build one all the same: python -m pijit build --force" in build.build()
    file = _adapter_cache.file(torch.__version__, True)
    _adapter_cache.make(file.parent)
    file.touch(mode=0o600)
    assert f"is {file}; to build one all the same" in build.build()


def no_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    return r"there is no C\+\+ compiler: install one \(Debian and Ubuntu: apt install g\+\+\), or name it in .* CXX"


def a_wrong_name(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", "no-such-compiler -v")
    return r"there is no C\+\+ compiler no-such-compiler: install one"


def an_old_one(monkeypatch, tmp_path):
    compiler = tmp_path / "old"
    compiler.write_text("#!/bin/sh\necho 'note: x' >&2\necho 'error: unrecognized option -std=c++20' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    return r"old fails \(a compiler for C\+\+20 is needed, such as g\+\+ 11\):\n  error: unrecognized option"


def no_sources(monkeypatch, tmp_path):
    monkeypatch.setattr(build, "_PACKAGE", tmp_path / "pijit")
    return r"pijit/_csrc is missing: the installation is not complete"


def no_python_headers(monkeypatch, tmp_path):
    monkeypatch.setattr(build.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    return r"has no Python.h: install Python's headers \(apt install python3"


def no_torch_headers(monkeypatch, tmp_path):
    monkeypatch.setattr(build, "_torch", lambda: build._Torch("9.1.0", True, tmp_path))
    return r"has no headers \(include/ATen\): install torch from a wheel"


def no_torch(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch", None)
    return "there is no torch to build for: ModuleNotFoundError"


def no_home(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", os.devnull)
    return "/dev/null/pijit/.* cannot be made: Not a directory; set XDG_CACHE_HOME"


def it_does_not_load(monkeypatch, tmp_path):
    monkeypatch.setattr(build, "_compile", lambda compiler, torch, sources, made: made.write_bytes(b"\x7fELF"))
    return "the adapter was built, but does not pass its test, and is not used:\n"


WRONG = [
    no_compiler,
    a_wrong_name,
    an_old_one,
    no_sources,
    no_python_headers,
    no_torch_headers,
    no_torch,
    no_home,
    it_does_not_load,
]


@pytest.mark.parametrize("wrong", WRONG)
def test_it_says_what_is_missing(cache, monkeypatch, tmp_path, wrong):
    says = wrong(monkeypatch, tmp_path)
    for _ in range(2):
        with pytest.raises(AdapterError, match=says):
            build.build(force=True)
        assert files(cache) == []


def test_its_own_test_can_fail(monkeypatch):
    self_test = pytest.importorskip("pijit.tools.self_test")
    calls = []

    def wrong(x, y):
        calls.append(x)
        return x + len(calls)

    monkeypatch.setattr(self_test, "_PROGRAMS", (lambda: wrong,))
    assert self_test.trouble() == "wrong: a replay differs from eager"
    monkeypatch.setattr(self_test, "jit", lambda fn: fn)
    monkeypatch.setattr(self_test, "_PROGRAMS", self_test._PROGRAMS[:0] + ((lambda: lambda x, y: x + y),))
    assert "it is not replayed (cold" in self_test.trouble()


def run(*words, cache):
    done = subprocess.run(
        [sys.executable, "-m", "pijit", *words],
        env=os.environ | {"XDG_CACHE_HOME": str(cache.parent), "PYTHONPATH": str(Path(pijit.__file__).parent.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_it_builds(cache):
    """What is built is used by the next process, before the one that came with pijit."""
    file = _adapter_cache.file(torch.__version__, True)
    assert f"built and tested: {file}" in run("build", "--force", cache=cache)
    assert files(cache) == [file]
    assert f"{file} (built against {torch.__version__}) is attached" in run("doctor", cache=cache)
    assert _adapter_choice.choose(torch).file == file
    file.chmod(0o622)
    assert f"not used: others may write {file}" in run("doctor", cache=cache)
    assert _adapter_choice.choose(torch).file is None
