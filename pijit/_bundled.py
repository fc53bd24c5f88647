"""Runs one call that `pijit.bundle` has written, and says whether it gives the same here: `python DIRECTORY`.

This file is copied into the directory, and needs torch alone. Beside it lie `call.py` (the operators), `call.json`
(what the call was, what each operator gave, and under which versions) and `tensors.safetensors` (inputs, weights,
results).
"""

import argparse
import hashlib
import json
import platform
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

HERE = Path(__file__).resolve().parent

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
    "U16": torch.uint16,
    "U32": torch.uint32,
    "U64": torch.uint64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "C64": torch.complex64,
}


class Differs(Exception):
    """An operator gives something else than it gave; its name and where the program called it."""


def versions() -> dict[str, str]:
    """What results may depend on."""
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "processor": torch.backends.cpu.get_cpu_capability(),
        "threads": str(torch.get_num_threads()),
    }


def digest(value: Any) -> str:
    """Equal for equal bits, of tensors, numbers, and lists of them."""
    if isinstance(value, torch.Tensor):
        held = value.detach().cpu().contiguous()
        held = torch.view_as_real(held.resolve_conj()) if held.is_complex() else held
        data = held.reshape(-1).view(torch.uint8).numpy().tobytes()
        return hashlib.sha256(f"{value.dtype} {tuple(value.shape)} ".encode() + data).hexdigest()[:16]
    if isinstance(value, list | tuple):
        return hashlib.sha256(" ".join(digest(each) for each in value).encode()).hexdigest()[:16]
    return repr(value)


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """All tensors in a result, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from tensors_in(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from tensors_in(each)


def read_tensors(file: Path) -> dict[str, torch.Tensor]:
    """The tensors of a file of safetensors."""
    content = bytearray(file.read_bytes())
    (length,) = struct.unpack_from("<Q", content)
    found = {}
    for name, row in json.loads(content[8 : 8 + length]).items():
        start, stop = (8 + length + each for each in row["data_offsets"])
        dtype = _DTYPES[row["dtype"]]
        flat = torch.frombuffer(content[start:stop], dtype=dtype) if stop > start else torch.empty(0, dtype=dtype)
        found[name] = flat.clone().reshape(row["shape"])
    return found


def run(forward: Any, call: dict[str, Any], tensors: dict[str, torch.Tensor], check: Any) -> Any:
    """The result of the call, on copies of its tensors.

    Args:
        forward: of `call.py`.
        call: what `call.json` says.
        tensors: those of the file, by name.
        check: is told the name and the value of each operator's result.
    """
    torch.set_num_threads(call["threads"])
    made = {}
    for name, facts in call["tensors"].items():
        tensor = torch.empty_strided(facts["shape"], facts["strides"], dtype=tensors[name].dtype).copy_(tensors[name])
        made[name] = tensor.to(facts["device"]).requires_grad_(facts["requires_grad"])
    self = SimpleNamespace()
    for name, target in call["weights"].items():
        holder: Any = self
        *path, last = target.split(".")
        for part in path:
            if not hasattr(holder, part):
                setattr(holder, part, SimpleNamespace())
            holder = getattr(holder, part)
        setattr(holder, last, made[name])
    torch.set_rng_state(tensors["random state"].clone())
    with torch.set_grad_enabled(call["gradients"]):
        return forward(self, check, *(made[name] for name in call["inputs"]))


def compare() -> int:
    """Prints what differs; the exit status says whether something does."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", help="run there instead of where the tensors were")
    device = parser.parse_args().device
    sys.path.insert(0, str(HERE))
    from call import forward  # type: ignore[import-not-found]

    call = json.loads((HERE / "call.json").read_text())
    for facts in call["tensors"].values():
        facts["device"] = device or facts["device"]
    tensors = read_tensors(HERE / "tensors.safetensors")
    first: list[str] = []

    def check(name: str, value: Any) -> None:
        if not first and digest(value) != call["operators"][name]["digest"]:
            first.append(name)

    results = list(tensors_in(run(forward, call, tensors, check)))
    now = versions()
    odd = [f"{name} {call['versions'][name]}, here {now[name]}" for name in now if call["versions"][name] != now[name]]
    under = "; ".join(odd) or "the versions are the same"
    if not first:
        print(f"same: {len(call['operators'])} operators give the same bits ({under})")
        return 0
    row = call["operators"][first[0]]
    print(f"differs first at {first[0]}, {row['operator']}{row['line']} ({under})")
    for at, result in enumerate(results):
        expected = tensors[f"result {at}"]
        if result.shape != expected.shape or result.dtype != expected.dtype:
            print(f"result {at}: {result.dtype} {tuple(result.shape)}, was {expected.dtype} {tuple(expected.shape)}")
        elif result.numel():
            wide = torch.complex128 if result.is_complex() else torch.float64
            gap = (result.detach().cpu().to(wide) - expected.to(wide)).abs().max().item()
            print(f"result {at}: largest difference {gap:g}")
    return 1


if __name__ == "__main__":
    sys.exit(compare())
