"""The releases of PyTorch that an adapter was tested with, how an adapter is named, and which one fits a torch.

libtorch changes its layouts with every minor release, and keeps them in patch releases and among builds for the CPU,
CUDA and ROCm. So there is one adapter for each minor. Its file is chosen by the version before it is loaded: loading
a wrong one may end the process.

This file is run by CMake, too, as a program that prints what it reads of directories of torch. So it imports nothing of
pijit, and reads a torch without importing it.
"""

import importlib.util
import re
import sys
from pathlib import Path
from typing import NamedTuple


class Row(NamedTuple):
    """A minor release of torch: the release that the tests ran with, and what is not replayed as a whole there."""

    minor: str
    tested: str
    differs: tuple[str, ...] = ()


TORCHES = (
    Row("2.11", "2.11.0"),
    Row("2.12", "2.12.1"),
    Row("2.13", "2.13.0"),
    Row("2.14", "2.14.1"),
    Row("2.15", "2.15.0"),
)

# What PyTorch itself releases: the rest (nightly builds, builds of vendors) may have the layouts of any minor.
_RELEASE = re.compile(r"(\d+\.\d+)\.\d+(\.post\d+)?(\+(cpu|cu\d+|rocm[\d.]+|xpu))?")


def series(version: str) -> str:
    """What an adapter is built for: the minor of a release ("2.13"), the whole version of any other build."""
    release = _RELEASE.fullmatch(version)
    return release[1] if release else version


def is_tested(version: str) -> bool:
    """Whether the tests ran with a release of this minor."""
    return bool(_RELEASE.fullmatch(version)) and series(version) in {row.minor for row in TORCHES}


def module_name(version: str) -> str:
    """The adapter's module for this version of torch, such as "_torch_2_13"; releases share none with other builds."""
    other = "" if _RELEASE.fullmatch(version) else "build_"
    return f"_torch_{other}" + re.sub(r"\W", "_", series(version))


def tested_text() -> str:
    """ "2.11 to 2.15"."""
    return f"{TORCHES[0].minor} to {TORCHES[-1].minor}"


def read(directory: Path) -> tuple[str, bool]:
    """The version of the torch in a directory, and whether it uses the C++11 ABI. Nothing is imported."""
    lines = (directory / "version.py").read_text(encoding="utf-8").splitlines()
    version = next(line.split("=")[1].strip(" '\"") for line in lines if line.startswith("__version__"))
    return version, b"__cxx11" in (directory / "lib" / "libc10.so").read_bytes()


def installed() -> Path | None:
    """The directory of the torch that this Python would import."""
    spec = importlib.util.find_spec("torch")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _rows(words: list[str]) -> list[str]:
    directories = [Path(word) for word in words] if words else [found for found in [installed()] if found is not None]
    rows = []
    for directory in directories:
        version, abi = read(directory)
        facts = module_name(version), version, series(version), abi, is_tested(version), directory
        rows.append(",".join(str(int(fact) if isinstance(fact, bool) else fact) for fact in facts))
    return rows


if __name__ == "__main__":
    print(";".join(_rows(sys.argv[1:])))
