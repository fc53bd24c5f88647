"""Runs the whole sweep: `python tests/torch/sweep/report.py [word]`; with --write, docs/torch.md is made anew.

Each entry runs in a process of its own, since a wrong replay may take the process with it.
"""

from __future__ import annotations

import argparse
import os
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch

sys.path.insert(0, str(Path(__file__).parent))

import catalogue
import comparing
from comparing import Case
from operands import PROGRAMS

TARGET = Path(__file__).resolve().parents[3] / "docs" / "torch.md"
FATES = {
    "lowered": "operators, replayed natively",
    "callable": "the callable itself is called, in the trace",
    "opaque": "an opaque call, after which everything is checked again",
    "run": "CPython runs the function, the trace goes on after it",
    "stops": "the recording ends there",
}
HEAD = "| callable | fate | calls compared |"


class Row(NamedTuple):
    fate: str
    calls: int


def entries(most: int) -> Iterator[tuple[str, Callable[[], list[Case]]]]:
    """Name and cases of everything, made when it is asked for."""
    table = sorted(catalogue.op_db(), key=lambda entry: (entry.name, entry.variant_test_name))
    for entry in table:
        yield entry.name, lambda entry=entry: list(catalogue.cases_of(entry, most))
    known = {f"{space}.{entry.name}{end}" for entry in table for space in ("torch", "Tensor") for end in ("", "_")}
    for case in catalogue.others(known):
        yield case.name, lambda case=case: [case]


def number(text: str) -> int:
    """The same in every process."""
    return zlib.crc32(text.encode())


def fates(cases: list[Case]) -> dict[str, str]:
    """Of each name the worst."""
    torch.set_warn_always(False)
    worst: dict[str, str] = {}
    order = list(FATES)
    for case in cases:
        fate, _ = comparing.fate(case)
        if fate and order.index(fate) >= order.index(worst.get(case.name, "lowered")):
            worst[case.name] = fate
    return worst


def differences(
    cases: list[Case], programs: Callable[[Case], list[tuple[str, ...]]], calls: Counter[str] | None = None
) -> list[str]:
    """What differed; `calls`: how many calls of each name were compared."""
    torch.set_warn_always(True)  # what is said once a process would be said in one of two runs only
    found = []
    for case in cases:
        for sample in case.samples:
            for program in programs(case):
                seen = comparing.compare(case, sample, program)
                found += seen.differences
                if calls is not None:
                    calls[case.name] += seen.calls
    return found


def shares(found: dict[str, Row]) -> Iterator[tuple[str, int, float]]:
    """Fate, callables, percent."""
    for fate in FATES:
        count = sum(row.fate == fate for row in found.values())
        yield fate, count, 100 * count / max(len(found), 1)


def page(found: dict[str, Row]) -> str:
    """The whole of docs/torch.md."""
    lines = [
        "# What becomes of torch's callables",
        "",
        "Made by `make test-sweep`: each callable is recorded with one set of operands and replayed with others of",
        "other sizes, layouts, dtypes and aliasing; bits, strides, aliasing, errors and warnings are compared with",
        "eager. A name is a callable with the number of its positional operands and its keywords; what is not listed",
        "raises for every operand that was tried, or takes no tensors. The fate is that of the worst operation.",
        "",
        "| fate | what it means | callables | share |",
        "| --- | --- | --- | --- |",
    ]
    lines += [f"| {fate} | {FATES[fate]} | {count} | {share:.1f} % |" for fate, count, share in shares(found)]
    lines += ["", HEAD, "| --- | --- | --- |"]
    lines += [f"| `{name}` | {row.fate} | {row.calls} |" for name, row in sorted(found.items())]
    return "\n".join(lines) + "\n"


def read_page() -> dict[str, str]:
    """Callable -> fate, from docs/torch.md."""
    rows = TARGET.read_text().partition(HEAD)[2].splitlines()[2:]
    return {row[3 : row.rindex("` |")]: row.split(" | ")[-2] for row in rows}


def apart(cases: Callable[[], list[Case]], compare: bool) -> tuple[dict[str, Row], list[str], bool]:
    """Fates and differences, from a child; and whether it lived."""
    ends = os.pipe()
    child = os.fork()
    if child == 0:
        with os.fdopen(ends[1], "w") as out:
            made, calls = cases(), Counter[str]()
            fate = fates(made)
            for text in differences(made, lambda case: list(PROGRAMS), calls) if compare else []:
                print("D" + text.replace("\n", "\\n"), file=out, flush=True)
            for name in fate:
                print(f"F{fate[name]} {calls[name]} {name}", file=out, flush=True)
        os._exit(0)
    os.close(ends[1])
    with os.fdopen(ends[0]) as given:
        lines = given.read().splitlines()
    status = os.waitpid(child, 0)[1]
    rows = (line[1:].split(" ", 2) for line in lines if line.startswith("F"))
    found = {name: Row(fate, int(calls)) for fate, calls, name in rows}
    return found, [line[1:].replace("\\n", "\n") for line in lines if line.startswith("D")], status == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("word", nargs="?", default="", help="only names that contain it")
    parser.add_argument("--write", action="store_true", help="write docs/torch.md")
    parser.add_argument("--fates", action="store_true", help="compare nothing")
    parser.add_argument("--most", type=int, default=1, help="samples of each form of call")
    options = parser.parse_args()
    if options.write and (options.fates or options.word):
        parser.error("--write is for the whole sweep")
    torch.set_num_threads(1)
    import pijit

    pijit.config.quiet = True
    found: dict[str, Row] = {}
    bad = 0
    for name, cases in entries(options.most):
        if options.word not in name:
            continue
        own, differing, lived = apart(cases, not options.fates)
        found.update(own)
        bad += len(differing) + (not lived)
        for text in [*differing, *([] if lived else [f"{name}: the process died"])]:
            print(text, flush=True)
    if options.write:
        TARGET.write_text(page(found))
    for fate, count, share in shares(found):
        print(f"{fate}: {count} of {len(found)} callables, {share:.1f} %")
    print(f"differences: {bad}")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
