"""The device "twin" of tests: compiled once for each torch and Python, kept in build/twin/.

It must be there before the first backward pass of a process, which counts devices, and cannot be taken away again; so
tests use it in processes of their own (child.py).
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BUILT = HERE.parents[2] / "build" / "twin"


def compiler() -> list[str] | None:
    """The command that compiles C++, through ccache if that is there."""
    found = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    cache = shutil.which("ccache")
    return None if found is None else [cache, found] if cache else [found]


def build() -> Path:
    """The compiled module; made if it is not there, by one process while others wait."""
    import torch

    source = HERE / "twin.cpp"
    key = source.read_bytes() + f"{torch.__version__} {importlib.machinery.EXTENSION_SUFFIXES[0]}".encode()
    made = BUILT / hashlib.sha1(key).hexdigest()[:12] / "twin.so"
    made.parent.mkdir(parents=True, exist_ok=True)
    with (made.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            _compile(source, made)
    return made


def _compile(source: Path, made: Path) -> None:
    import torch

    command = compiler()
    assert command is not None
    base = Path(torch.__file__).parent
    include = [base / "include", base / "include/torch/csrc/api/include", Path(sysconfig.get_paths()["include"])]
    flags = ["-std=c++20", "-O0", "-fPIC", "-w", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]
    objects, unfinished = made.with_suffix(".o"), made.with_suffix(".unfinished")
    subprocess.run([*command, *flags, *(f"-I{path}" for path in include), "-c", source, "-o", objects], check=True)
    libraries = [base / "lib" / f"lib{name}.so" for name in ("c10", "torch_cpu", "torch_python")]
    subprocess.run([command[-1], "-shared", objects, *libraries, "-o", unfinished], check=True)
    objects.unlink()
    unfinished.rename(made)


def connect() -> Any:
    """The module, with the device registered as "twin"; once in a process."""
    import torch

    path = str(build())
    loader = importlib.machinery.ExtensionFileLoader("twin", path)
    spec = importlib.util.spec_from_loader("twin", loader)
    assert spec is not None
    module: Any = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    module.connect()
    torch.utils.rename_privateuse1_backend("twin")
    module.is_available = lambda: True
    module.device_count = lambda: 2
    module.current_device = torch.accelerator.current_device_index
    module._is_in_bad_fork = lambda: False
    module.manual_seed_all = module.seed_all
    module.get_rng_state = lambda device: torch.frombuffer(bytearray(module.random_state(device)), dtype=torch.uint8)
    module.set_rng_state = lambda state, device: module.set_random_state(device, bytes(state.tolist()))
    module.get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]
    module.CUDAGraph = _graphs(module)
    module.graph_pool_handle = object
    torch._register_device_module("twin", module)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    return module


def _graphs(module: Any) -> type:
    """What `torch.cuda.CUDAGraph` is for CUDA."""

    class Graph:
        def __init__(self) -> None:
            self.held: list[Any] = []

        def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
            module.begin_graph()

        def capture_end(self) -> None:
            module.end_graph(self.held)

        def bounds(self) -> tuple[Any, Any]:
            """As those, without giving up the GIL: functions of C, with nothing of Python around them."""
            return module.begin_graph_held, functools.partial(module.end_graph_held, self.held)

        def replay(self) -> None:
            module.replay_graph(self.held[0])

        def reset(self) -> None:
            self.held.clear()

    return Graph
