"""Builds the probe module from the core's sources; needs a C++ compiler."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for describe.py

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("cpython", "ir", "plan", "guard", "exec")
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-subobject-linkage")
FLAGS = ("-std=c++20", "-O1", "-fPIC", *WARNINGS, "-fvisibility=hidden")


def compile_one(compiler: str, source: Path, target: Path) -> None:
    include = sysconfig.get_paths()["include"]
    command = [compiler, *FLAGS, f"-I{ROOT / 'csrc'}", "-isystem", include, "-c", str(source), "-o", str(target)]
    subprocess.run(command, check=True)


def united(folder: Path, room: str) -> Path:
    """The files of a room as one, as in the build of pijit: most of what each takes alone is what its headers bring."""
    file = folder / f"{room}.cpp"
    sources = sorted((ROOT / "csrc" / room).glob("*.cpp"))
    file.write_text("".join(f'#include "{source}"\n' for source in sources))
    return file


def build(compiler: str, folder: Path, library: Path) -> None:
    sources = [united(folder, room) for room in ROOMS]
    sources.append(Path(__file__).with_name("probe.cpp"))
    objects = [folder / f"{source.stem}.o" for source in sources]
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        list(pool.map(compile_one, [compiler] * len(sources), sources, objects))
    subprocess.run([compiler, "-shared", *map(str, objects), "-o", str(library)], check=True)


@pytest.fixture(scope="session")
def probe_module(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    if compiler is None or not (ROOT / "csrc").is_dir():
        pytest.skip("needs a C++ compiler and the sources")
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # of all workers: one of them builds
    library = folder / f"probe{sysconfig.get_config_var('EXT_SUFFIX')}"
    with open(folder / "probe.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists():
            build(compiler, folder, library)
    spec = importlib.util.spec_from_file_location("probe", library)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["probe"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def probe(probe_module: ModuleType) -> Iterator[ModuleType]:
    """The probe, disarmed after the test."""
    yield probe_module
    probe_module.disarm()
