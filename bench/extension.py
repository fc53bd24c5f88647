"""The C++ of this directory, compiled where `make bench` keeps what it finds."""

from functools import cache
from pathlib import Path
from types import ModuleType

from torch.utils import cpp_extension

HERE = Path(__file__).parent


@cache
def load(name: str) -> ModuleType:
    """NAME.cpp as an extension module."""
    build = HERE.parent / ".benchmarks" / name
    build.mkdir(parents=True, exist_ok=True)
    return cpp_extension.load(name, [str(HERE / f"{name}.cpp")], extra_cflags=["-O2"], build_directory=str(build))
