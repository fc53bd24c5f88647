"""Writes docs/versions.md: which releases of Python and torch pijit runs with, and what is not whole there.

Made of the tables in pijit/_torches.py and pijit/_version.py; a test compares it with them.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))  # for differs.py

import differs  # noqa: E402

TARGET = ROOT / "docs" / "versions.md"


def table(name: str) -> ModuleType:
    """A module of pijit that imports nothing of it (`_torches`, `_version`), read without a build."""
    spec = importlib.util.spec_from_file_location(f"pijit{name}", ROOT / "pijit" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


PAGE = """\
# Where pijit runs

Made by `python tests/torch/versions/versions_table.py`; a test compares it with the tables in the code.

Linux on x86_64, CPython {pythons}, with the GIL.

| torch | tested with | what is replayed otherwise than beside the others |
| --- | --- | --- |
{rows}

There is one adapter for each of these. Patch releases share it, and so do the builds for the CPU, CUDA, ROCm and XPU:
the layouts of libtorch are those of a minor release. Which one is loaded is chosen by `torch.__version__`.

Beside any other torch (a newer one, a nightly build, a vendor's own) everything runs in plain Python, and one line says
so. `python -m pijit build` compiles an adapter for it and tests it. It needs a C++20 compiler, the headers of Python,
and some minutes. The adapter lies in the user's cache (`$XDG_CACHE_HOME/pijit`, or `~/.cache/pijit`) and is used from
the next process on. An adapter whose directory or file others could have written is not loaded.

Sizes and fields of objects are compared with those that pijit was built for: CPython's when pijit is imported, torch's
before the adapter is used. Where they differ pijit steps aside and says why. `python -m pijit doctor` says which
adapters are there and which one is used.

`make test-torch TORCH=2.15` runs the tests of `tests/torch` beside one of these, `make test-all-torches` beside each.

## CPython 3.12 and later

The tests are those of 3.11, beside a torch for CUDA, without a GPU. There transformers has CUDA's runtime say whether a
stream is captured, which raises: an opaque call. These tests cannot hold on a later CPython:

| test | on | why it is not run |
| --- | --- | --- |
{differs}

- A jitted function keeps its arguments until it returns, as a function of C does. In a plain call of 3.12 and
  later they may die before.
- From 3.12 on CPython specialises calls and loads of attributes where no hook is in place. Then the AttributeError of a
  property has no `name` and `obj`, and keys with colliding hashes are compared less often. A recording, and a replay
  that is left, do as CPython does before it has specialised.
- An audit hook that is written in Python is followed where it is told of `id()` or of a function's `__code__`,
  `__defaults__` or `__kwdefaults__`. Elsewhere, and on 3.11 everywhere, what raises the event is an opaque call.

## CPython 3.14

`make test-chroot` runs the core's tests on it, in a chroot of Debian sid, and with `CHROOT_TARGET=test-python` all
tests, beside a torch for CUDA; those of the core and of `tests/torch` pass. Otherwise than on 3.13:

- A dict counts no changes. One that a guard is about has a watcher, of which CPython has eight for all libraries. Where
  none is left, what reads a dict is not recorded.
- Template strings stop a recording, and so does `except*` where it makes a group of an exception that is none: the
  group has a traceback of the frame.
- The annotations of a function are made when they are first asked for, by code of the program, which is an opaque call.
- CPython's own compiler (`PYTHON_JIT=1`) was on in a run of the small programs of `tests/record`: nothing differs.

## Devices

| tensors | recorded and replayed | tested |
| --- | --- | --- |
| of the CPU, dense | yes, and compiled | everywhere |
| of a GPU of CUDA, dense | yes, and launched as CUDA graphs | `make test-cuda`; a device of the tests' own |
| of another backend, dense | yes, but not compiled | a device of the tests' own |
| on the device "meta" | yes | everywhere |
| sparse, nested or quantised, on any device | no, CPython computes with them | everywhere |

`make test-cuda` and `bench/gpu.py` ([figures](gpu.md)) have run on an H200, with CPython 3.12.3 and PyTorch 2.11.0 for
CUDA 13.0; nothing else has run on a GPU. `make test` runs their scenarios on a second device in the memory of the CPU,
a backend of PyTorch with two devices, streams, generators, captures and graphs.

A trace that touches a device other than the CPU is for one current device of its kind, one current stream and one dtype
of autocast; with others it is recorded again. A stream or device that is entered inside of it is entered by a call that
is not looked into. Random numbers come from the generators from which eager draws them; what a call has drawn that then
fails is put back. While a stream is captured, as for a CUDA graph, CPython runs the call. Within `with
torch.device(...)` and after `torch.set_default_device(...)`, too: they put a function of Python before every call.

The backend `cudagraphs` captures the operators of a segment in a call of the program, once for each form of its
inputs that was met twice, and again when weights have moved or a setting by which kernels are chosen has changed. No
call captures twice. Where sizes keep changing, as with a cache that grows, a segment is cut at the operators whose
sizes change: native replay launches these, and what is between them is captured once for all sizes. Inputs are copied
in and results out. What waits for the device or has tensors of the CPU stands between graphs; a segment that draws
random numbers is replayed natively. CUDA raises in a thread that synchronizes the device beside a capture, so no other
thread runs Python meanwhile, which is for a few milliseconds. A segment with an operator that is written in Python is
captured only while there are no other threads. `options={{"always": True}}` keeps a graph that wins no time. Its graphs
share one pool of memory for each device, and may add a twentieth of the device's memory to it.

`make test-cuda PYTHON=python3` builds with the Python, torch, cmake, ninja and pybind11 that are there, installs
nothing, and runs the tests that need a GPU.
"""


def differing() -> str:
    """Rows of what is not tested on some CPython."""
    of_tests: dict[tuple[str, str], list[str]] = {}
    for version, rows in differs.DIFFERS.items():
        for test, why in rows.items():
            of_tests.setdefault((test, why), []).append(version)
    return "\n".join(f"| `{test}` | {', '.join(versions)} | {why} |" for (test, why), versions in of_tests.items())


def page() -> str:
    """The whole of docs/versions.md."""
    rows = (
        f"| {row.minor} | {row.tested} | {'; '.join(row.differs) or 'nothing is known to differ'} |"
        for row in table("_torches").TORCHES
    )
    return PAGE.format(pythons=", ".join(table("_version").PYTHONS), rows="\n".join(rows), differs=differing())


if __name__ == "__main__":
    TARGET.write_text(page())
