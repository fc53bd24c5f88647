"""Test modules in C++, built from the core's sources beside them; they need a C++ compiler."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-subobject-linkage")
FLAGS = ("-std=c++20", "-O0", "-fPIC", *WARNINGS, "-fvisibility=hidden")


def compile_one(compiler: str, source: Path, target: Path) -> None:
    include = sysconfig.get_paths()["include"]
    command = [compiler, *FLAGS, f"-I{ROOT / 'csrc'}", "-isystem", include, "-c", str(source), "-o", str(target)]
    subprocess.run(command, check=True)


def united(folder: Path, name: str, sources: Sequence[Path]) -> Path:
    """Sources as one, as in the build of pijit: most of what each takes alone is what its headers bring."""
    file = folder / f"{name}.cpp"
    file.write_text("".join(f'#include "{source}"\n' for source in sources))
    return file


def build(compiler: str, folder: Path, rooms: Sequence[str], sources: Sequence[Path], library: Path) -> None:
    csrc = ROOT / "csrc"
    united_rooms = [united(folder, room.replace("/", "_"), sorted((csrc / room).glob("*.cpp"))) for room in rooms]
    every = [*united_rooms, *sources]
    objects = [folder / f"{source.stem}.o" for source in every]
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        list(pool.map(compile_one, [compiler] * len(every), every, objects))
    subprocess.run([compiler, "-shared", *map(str, objects), "-o", str(library)], check=True)


def module(
    factory: pytest.TempPathFactory, probe: Path, rooms: Sequence[str], sources: Sequence[str] = ()
) -> ModuleType:
    """The module of the file `probe`, with these rooms of csrc/, and single sources of others."""
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    if compiler is None or not (ROOT / "csrc").is_dir():
        pytest.skip("needs a C++ compiler and the sources")
    name = probe.stem
    folder = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # of all workers: one of them builds
    folder = folder / name
    folder.mkdir(exist_ok=True)
    library = folder / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists():
            build(compiler, folder, rooms, [probe, *(ROOT / "csrc" / source for source in sources)], library)
    spec = importlib.util.spec_from_file_location(name, library)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    spec.loader.exec_module(made)
    return made
