"""Checks what `make wheels` leaves: `check_wheel.py MINOR... WHEEL...` ends with what is wrong.

A wheel is small, has the core, an adapter for each minor release of torch and the sources that `python -m pijit build`
needs, names no version of torch, and is for any Linux of its manylinux tag.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

MOST_BYTES = 5 << 20


def complaints(wheel: Path, minors: list[str]) -> Iterator[str]:
    if wheel.stat().st_size > MOST_BYTES:
        yield f"it has {wheel.stat().st_size:,} bytes, more than {MOST_BYTES:,}"
    if not re.search(r"-manylinux_\d+_\d+_\w+\.whl$", wheel.name):
        yield "it has no manylinux tag"
    with ZipFile(wheel) as content:
        names = content.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        required = re.findall(r"^Requires-Dist: (.*)$", content.read(metadata).decode(), re.MULTILINE)
    if pins := [line for line in required if "extra ==" not in line]:
        yield f"it requires {', '.join(pins)}"
    modules = ["_core", *(f"_torch_{minor.replace('.', '_')}" for minor in minors)]
    for module in modules:
        if not any(re.fullmatch(rf"pijit/{module}\.cpython-\w+-\S+\.so", name) for name in names):
            yield f"{module} is missing"
    for source in ("adapter.h", "torch/module.cpp", "torch/rules.def", "common/ref.h", "ir/value.h"):
        if f"pijit/_csrc/{source}" not in names:
            yield f"the source {source} is missing"
    if extra := [name for name in names if ".libs/" in name]:
        yield f"libraries of others are in it: {', '.join(extra)}"


def main(words: list[str]) -> str:
    minors = [word for word in words if not word.endswith(".whl")]
    wheels = [Path(word) for word in words if word.endswith(".whl")]
    for wheel in wheels:
        print(f"{wheel}: {wheel.stat().st_size / 1e6:.2f} MB")
    wrong = [f"{wheel}: {text}" for wheel in wheels for text in complaints(wheel, minors)]
    return "\n".join(wrong or ([] if wheels else ["there is no wheel"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) or 0)
