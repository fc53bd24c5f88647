"""Makes libraries without content for those of NVIDIA that torch's CUDA wheel names and this machine lacks.

`stub_libraries.py TORCH_LIB OUT` reads the libraries in TORCH_LIB (torch/lib) with readelf and nm. It leaves in OUT a
library for each that they need and nobody has, with the symbols that they take from it. With OUT in LD_LIBRARY_PATH,
torch is imported and computes on the CPU. Its tests then need no 3 GB of libraries that a CPU cannot use.

Every function of a stub returns an error. Those of the CUDA runtime return 35, for which torch says that there is no
driver. Only names of NVIDIA's libraries are made: a stub of zlib, say, would break Python.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

_NVIDIA = re.compile(r"lib(cu|nv|nccl|cudnn|cufile|cupti)")
_SYSTEM_VERSION = re.compile(r"GLIBC|GCC|CXX|G?OMP")
_NO_DRIVER, _FAILURE = 35, 1

# What a symbol without a version begins with, and the library it is of; the longest that fits counts.
_PREFIXES = {
    "cu": "libcuda.so",
    "cuda": "libcudart",
    "cudnn": "libcudnn.so",
    "cublas": "libcublas.so",
    "cublasLt": "libcublasLt",
    "cufft": "libcufft",
    "curand": "libcurand",
    "cusolver": "libcusolver",
    "cusparse": "libcusparse.so",
    "cusparseLt": "libcusparseLt",
    "cupti": "libcupti",
    "cuFile": "libcufile.so",
    "nccl": "libnccl.so",
    "pnccl": "libnccl.so",
    "nvrtc": "libnvrtc",
    "nvJitLink": "libnvJitLink",
    "nvtx": "libnvToolsExt",
    "nvshmem": "libnvshmem",
}

# Symbols of one library, by their version ("": none).
Symbols = dict[str, set[str]]


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def needed(library: Path) -> set[str]:
    """The names of the libraries that one asks for."""
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", str(library))))


def symbols(library: Path) -> Iterator[tuple[str, str, bool]]:
    """Name, version and "it is defined here" of each dynamic symbol."""
    for line in output("nm", "-D", str(library)).splitlines():
        *_, kind, symbol = line.split()
        name, _, version = symbol.partition("@")
        yield name, version.lstrip("@"), kind not in "Uwv"


def library_of(name: str, version: str, missing: set[str]) -> str | None:
    """Which of the missing libraries a symbol is of."""
    if "nvshmem" in name or version == "NVSHMEM":
        version = ""
        name = "nvshmem"
    if version:
        return next((library for library in missing if version.split(".so")[0] == library.split(".so")[0]), None)
    fitting = sorted((prefix for prefix in _PREFIXES if name.startswith(prefix)), key=len, reverse=True)
    starts = [_PREFIXES[prefix] for prefix in fitting]
    return next((library for start in starts for library in missing if library.startswith(start)), None)


def wanted(libraries: list[Path]) -> dict[str, Symbols]:
    """The missing libraries, and what of each is used."""
    there = {library.name for library in libraries}
    missing = {name for library in libraries for name in needed(library) if name not in there and _NVIDIA.match(name)}
    rows = [row for library in libraries for row in symbols(library)]
    defined = {name for name, _, is_defined in rows if is_defined}
    found: dict[str, Symbols] = {library: defaultdict(set) for library in missing}
    for name, version, is_defined in rows:
        if is_defined or name.startswith("_Z") or (name in defined and not version) or _SYSTEM_VERSION.search(version):
            continue
        library = library_of(name, version, missing)
        if library is not None:
            found[library][version].add(name)
    return found


def stub(name: str) -> str:
    """The function in C: it fails, or says in words that there is no driver."""
    if name in {"cudaGetErrorName", "cudaGetErrorString"}:
        return f'const char* {name}(void) {{ return "no driver"; }}'
    return f"int {name}(void) {{ return {_NO_DRIVER if name.startswith('cuda') else _FAILURE}; }}"


def write(library: str, used: Symbols, out: Path) -> None:
    """Compile one stub."""
    names = sorted(name for group in used.values() for name in group)
    code = [stub(name) for name in names]
    source, script = out / f"{library}.c", out / f"{library}.map"
    source.write_text("\n".join(code) or "int pijit_stub;")
    command = ["cc", "-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,-soname,{library}", "-o", str(out / library)]
    versions = {version: group for version, group in used.items() if version}
    if versions:
        script.write_text("\n".join(f"{v} {{ global: {'; '.join(sorted(group))}; }};" for v, group in versions.items()))
        command.append(f"-Wl,--version-script={script}")
    subprocess.run([*command, str(source)], check=True)
    source.unlink()
    script.unlink(missing_ok=True)


def main(torch_lib: str, out: str) -> None:
    place = Path(out)
    place.mkdir(parents=True, exist_ok=True)
    for library, used in wanted(sorted(Path(torch_lib).glob("*.so*"))).items():
        write(library, used, place)


if __name__ == "__main__":
    main(*sys.argv[1:])
