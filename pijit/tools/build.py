"""Builds and tests the adapter for the torch that is installed, into the user's cache: `python -m pijit build`.

It is for a torch that pijit has no adapter for: one that is newer than pijit, a nightly build, a vendor's own. The
sources are those of pijit's own adapters and come with it. Nothing is built during a call or an import, only by this
command.
"""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from pijit import _adapter_cache, _adapter_choice, _built, _torches
from pijit._version import __version__
from pijit.errors import AdapterError

_PACKAGE = Path(__file__).parent.parent
_COMPILER = "install one (Debian and Ubuntu: apt install g++), or name it in the variable CXX"
_MEMORY = 2 << 30  # of one compiler
_FILES = 7  # that are compiled as one: most of what each takes alone is what its headers bring


class _Torch(NamedTuple):
    """What is built for."""

    version: str
    abi: bool
    directory: Path


def build(force: bool = False) -> str:
    """Build an adapter, test it, and put it where the next process finds it; what was done, for people.

    Raises:
        AdapterError: it cannot be built, or does not pass its test; the message says what to do.
    """
    torch = _torch()
    choice = _adapter_choice.choose_for(torch.version, torch.abi)
    if choice.module and not force:
        where = "came with pijit" if choice.file is None else f"is {choice.file}"
        return (
            f"the adapter for torch {torch.version} {where}; to build one all the same: {_adapter_choice.BUILD} --force"
        )
    sources, compiler = _sources(), _compiler()
    _check_headers(torch)
    file = _adapter_cache.file(torch.version, torch.abi)
    try:
        _adapter_cache.make(file.parent)
    except OSError as error:
        raise AdapterError(f"{file.parent} cannot be made: {error.strerror}; set XDG_CACHE_HOME") from None
    with tempfile.TemporaryDirectory(dir=file.parent) as place:
        made = Path(place) / file.name
        _compile(compiler, torch, sources, made)
        _test(made)
        made.chmod(0o600)
        made.replace(file)
    tested = "" if _torches.is_tested(torch.version) else f"; torch {torch.version} itself was not tested with pijit"
    return f"built and tested: {file}{tested}"


def _torch() -> _Torch:
    try:
        import torch
    except Exception as error:  # what is installed may be broken in any way
        raise AdapterError(f"there is no torch to build for: {type(error).__name__}: {error}") from None
    version, abi = _adapter_choice.facts(torch)
    return _Torch(version, abi, Path(torch.__file__).parent)


def _sources() -> Path:
    """The C++ sources: those that came with the package, or those of the source directory."""
    for place in (_PACKAGE / "_csrc", _PACKAGE.parent / "csrc"):
        if (place / "torch" / "module.cpp").is_file():
            return place
    raise AdapterError(f"{_PACKAGE / '_csrc'} is missing: the installation is not complete; {_built.reinstall()}")


def _compiler() -> list[str]:
    named = shlex.split(os.environ.get("CXX", ""))
    found = named or [name for name in ("g++", "c++", "clang++") if shutil.which(name)][:1]
    if not found or shutil.which(found[0]) is None:
        raise AdapterError(f"there is no C++ compiler{f' {named[0]}' if named else ''}: {_COMPILER}")
    return found


def _check_headers(torch: _Torch) -> None:
    python = Path(sysconfig.get_paths()["include"])
    if not (python / "Python.h").is_file():
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise AdapterError(f"{python} has no Python.h: install Python's headers (apt install python{version}-dev)")
    if not (torch.directory / "include" / "ATen" / "ATen.h").is_file():
        raise AdapterError(f"{torch.directory} has no headers (include/ATen): install torch from a wheel")


def _flags(torch: _Torch, sources: Path) -> list[str]:
    name = _torches.module_name(torch.version)
    include = torch.directory / "include"
    places = (include, include / "torch/csrc/api/include", sysconfig.get_paths()["include"])
    texts = {"VERSION": __version__, "TORCH_VERSION": torch.version, "TORCH_SERIES": _torches.series(torch.version)}
    return [
        *("-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden", "-w"),
        *(f'-DPIJIT_{key}="{value}"' for key, value in texts.items()),
        f"-DPIJIT_TORCH_MODULE={name}",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.abi)}",
        f"-I{sources}",
        *(f"-isystem{place}" for place in places),
    ]


def _compile(compiler: Sequence[str], torch: _Torch, sources: Path, made: Path) -> None:
    """Compile the sources beside `made`, several at once, and link them."""
    flags, place = _flags(torch, sources), made.parent
    common = place / "pch.h"
    shutil.copy(sources / "torch" / "pch.h", common)
    files = _united(sorted((sources / "torch").glob("*.cpp")), place)
    print(f"pijit: building an adapter for torch {torch.version} with {compiler[0]}; this takes minutes", flush=True)
    _run([*compiler, *flags, "-x", "c++-header", str(common), "-o", f"{common}.gch"])

    def one(file: Path) -> str:
        out = place / f"{file.stem}.o"
        _run([*compiler, *flags, "-include", str(common), "-c", str(file), "-o", str(out)])
        return str(out)

    with ThreadPoolExecutor(_jobs()) as pool:
        objects = list(_counted(pool.map(one, files), len(files)))
    libraries = [str(torch.directory / "lib" / f"lib{name}.so") for name in ("c10", "torch_cpu", "torch_python")]
    _run([*compiler, "-shared", *objects, *libraries, "-Wl,-s", "-o", str(made)])


def _united(files: Sequence[Path], place: Path) -> list[Path]:
    """Files in `place` that include some of `files` each."""
    made = []
    for at in range(0, len(files), _FILES):
        made.append(place / f"united_{at}.cpp")
        made[-1].write_text("".join(f'#include "{file}"\n' for file in files[at : at + _FILES]))
    return made


def _counted(done: Iterator[str], count: int) -> Iterator[str]:
    for at, each in enumerate(done, 1):
        print(f"pijit: {at} of {count} parts", flush=True)
        yield each


def _jobs() -> int:
    """As many compilers at once as there are processors, and memory for."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    return max(1, min(len(os.sched_getaffinity(0)), memory // _MEMORY))


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        wrong = [line for line in done.stderr.splitlines() if "error" in line][:5] or done.stderr.splitlines()[-5:]
        text = "\n  ".join(wrong)
        raise AdapterError(f"{command[0]} fails (a compiler for C++20 is needed, such as g++ 11):\n  {text}")


def _test(made: Path) -> None:
    """Run the adapter's own test in a process of its own: what is wrong with it may end the process."""
    print("pijit: testing it", flush=True)
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PIJIT")}
    paths = [str(_PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pijit.tools.self_test", str(made)],
        env=variables | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        last = (done.stdout + done.stderr).strip().splitlines()[-5:] or [f"exit status {done.returncode}"]
        text = "\n  ".join(last)
        raise AdapterError(f"the adapter was built, but does not pass its test, and is not used:\n  {text}")
