"""The graphs of the sixty models of zoo.toml: are they whole, neutral, and right in every format?

    python bench/graphs.py [--models bert timm/resnet10t ...] [--formats fx onnx ...] [--json FILE]

Each model runs in a process of its own, on one thread, in evaluation mode and without gradients. It is captured once;
the graph goes through every format, and what comes out runs on the captured inputs and on others. Printed are, for each
model, the nodes, what splits its graph, foreign operators, and by format "same" (every bit is equal), the largest
difference, or why there is none, with the seconds of the export; then how many models pass, beside the bar of each
column. A decision on data stays in the graph as a check (`decisions="assume"`); models that have one are marked "*".
Models of packages that are not installed are left out, and counted.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import zoo

SEEDS = (0, 1)
CLOSE = 1e-4  # relative to the largest number of a tensor, if that is above 1
LONGEST = 900  # seconds of a model
# How many of the sixty models have to pass.
BARS = {"whole": 54, "neutral": 50, "fx": 54, "exported_program": 50, "onnx": 48, "jax": 48}
FORMATS = ("fx", "exported_program", "onnx", "jax")
EXACT = ("fx", "exported_program")


def measure(name: str, formats: list[str]) -> dict[str, Any]:
    """Everything of one model, in this process."""
    warnings.filterwarnings("ignore")
    import torch

    torch.set_num_threads(1)
    model = zoo.build(name)
    with torch.no_grad():
        expected = [leaves(zoo.call(model, zoo.inputs(name, seed))) for seed in SEEDS]
        began = time.perf_counter()
        graph = captured(model, zoo.inputs(name))
        row: dict[str, Any] = {
            "model": name,
            "nodes": len(graph.nodes),
            "seconds": time.perf_counter() - began,
            "breaks": [f"{node.op} at {Path(node.file).name}:{node.line}" for node in graph.breaks],
            "foreign": list(graph.foreign),
            "assumed": sum(node.op == "check" and node.origin == "python::decision" for node in graph.nodes),
            "formats": {},
        }
        for each in formats:
            row["formats"][each] = one_format(graph, each, name, expected)
    return row


def captured(model: Any, arguments: dict[str, Any]) -> Any:
    """The graph of one call; decisions on data stay in it as checks."""
    from pijit.graph.build.capture import captured

    args = (arguments["x"],) if "x" in arguments else ()
    return captured(model, args, {} if args else arguments, decisions="assume")


def one_format(graph: Any, format: str, name: str, expected: list[list[Any]]) -> dict[str, Any]:
    """Seconds of the export and the largest difference, or the reason why there is none."""
    began = time.perf_counter()
    try:
        run = RUNNERS[format](graph)
        seconds = time.perf_counter() - began
        gaps = []
        for seed, right in zip(SEEDS, expected, strict=True):
            gaps.append(gap(right, run([zoo.inputs(name, seed)[value.name] for value in graph.inputs])))
            if format == "jax" and len(gaps) == 1:  # nothing is exported: the first run counts
                seconds = time.perf_counter() - began
    except Exception as error:  # whatever another package raises
        return {"why": f"{type(error).__name__}: {error}".partition("\n")[0][:300]}
    return {"difference": max(gaps), "seconds": seconds}


def fx(graph: Any) -> Callable[[list[Any]], list[Any]]:
    """A GraphModule."""
    import pijit

    module = pijit.export(graph, format="fx")
    return lambda inputs: leaves(module(*inputs))


def exported_program(graph: Any) -> Callable[[list[Any]], list[Any]]:
    """An ExportedProgram that was written and read."""
    import torch

    import pijit

    with tempfile.TemporaryDirectory() as folder:
        path = pijit.export(graph, format="exported_program", path=Path(folder) / "model.pt2")
        module = torch.export.load(path).module()
    return lambda inputs: leaves(module(*inputs))


def onnx(graph: Any) -> Callable[[list[Any]], list[Any]]:
    """A model in ONNX Runtime; what the call changes is left aside."""
    import onnxruntime
    import torch

    import pijit

    model = pijit.export(graph, format="onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    kinds = [value.kind for value in graph.results]

    def run(inputs: list[Any]) -> list[Any]:
        given = {value.name: array.numpy() for value, array in zip(graph.inputs, inputs, strict=True)}
        outputs = session.run(None, {each: given[each] for each in names})
        return [torch.from_numpy(out) for out, kind in zip(outputs, kinds, strict=False) if kind == "tensor"]

    return run


def jax(graph: Any) -> Callable[[list[Any]], list[Any]]:
    """Node by node in JAX."""
    import numpy
    import torch

    def run(inputs: list[Any]) -> list[Any]:
        made: Any = graph.run(*inputs, framework="jax")
        return [torch.from_numpy(numpy.array(array)) for array in leaves(made)]

    return run


RUNNERS = {"fx": fx, "exported_program": exported_program, "onnx": onnx, "jax": jax}


def leaves(thing: Any) -> list[Any]:
    """The arrays in an output, however nested, in order; the same array as often as it stands there."""
    return list(_leaves(thing, set()))


def _leaves(thing: Any, around: set[int]) -> Iterator[Any]:
    if hasattr(thing, "shape") and hasattr(thing, "dtype"):
        yield thing
        return
    if id(thing) in around or isinstance(thing, type):
        return
    parts: Any = ()
    if isinstance(thing, dict):
        parts = thing.values()
    elif isinstance(thing, list | tuple):
        parts = thing
    elif hasattr(thing, "__dict__") and not hasattr(thing, "named_parameters"):
        parts = vars(thing).values()
    for part in parts:
        yield from _leaves(part, around | {id(thing)})


def gap(expected: list[Any], found: list[Any]) -> float:
    """0 if every bit is equal; else the largest difference, relative to the largest number if that is above 1."""
    import torch

    if len(expected) != len(found):
        return math.inf
    largest = 0.0
    for a, b in zip(expected, found, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return math.inf
        if torch.equal(a, b) or not a.numel():
            continue
        wide = a.double()
        away = (wide - b.double()).abs().nan_to_num(math.inf).max().item()
        largest = max(largest, away / max(1.0, wide.abs().max().item()))
    return largest


def passes(row: dict[str, Any], column: str) -> bool:
    """The model does what the bar of a column counts."""
    if column == "whole":
        return not row["breaks"]
    if column == "neutral":
        return not row["foreign"]
    made = row["formats"].get(column, {})
    return made.get("difference", math.inf) <= (0 if column in EXACT else CLOSE)


def main() -> None:
    """Measures the models, one process each, and prints a table and its totals."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", nargs="+", choices=list(zoo.MODELS), default=list(zoo.MODELS), metavar="NAME")
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=list(FORMATS), metavar="FORMAT")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.formats)))
        return
    rows, missing = [], 0
    for name in options.models:
        if importlib.util.find_spec(zoo.MODELS[name][0]) is None:
            missing += 1
            continue
        row = in_a_process(name, options.formats)
        rows.append(row)
        print("\n".join(lines(row)), flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1))
    print(f"\n{len(options.models)} models, {missing} of them of packages that are not installed; {len(rows)} ran")
    for column, bar in BARS.items():
        if column in ("whole", "neutral", *options.formats):
            print(f"{column:18}{sum(passes(row, column) for row in rows):3}   (bar: {bar} of 60)")


def in_a_process(name: str, formats: list[str]) -> dict[str, Any]:
    """The row of a model; of one that fails the reason as what splits it."""
    command = [sys.executable, __file__, "--one", name, "--formats", *formats]
    why = f"more than {LONGEST} s"
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONGEST)
        if done.returncode == 0:
            row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
            return row
        why = (done.stderr.strip().splitlines() or [str(done.returncode)])[-1][:300]
    except subprocess.TimeoutExpired:
        pass
    failed = {"nodes": 0, "seconds": math.nan, "breaks": [why], "foreign": ["?"], "assumed": 0, "formats": {}}
    return {"model": name, **failed}


def lines(row: dict[str, Any]) -> Iterator[str]:
    """One model, and below it what is wrong."""
    cells = []
    for format, made in row["formats"].items():
        if "why" in made:
            text = "no"
        else:
            text = "same" if made["difference"] == 0 else f"{made['difference']:.1g}"
            text += f" {made['seconds']:.2f} s"
        cells.append(f"{format} {text:13}")
    mark = "*" if row["assumed"] else " "
    yield f"{row['model']:32}{mark} {row['nodes']:5} nodes {row['seconds']:6.2f} s  {' '.join(cells)}".rstrip()
    if row["breaks"]:
        yield f"    split by {', '.join(dict.fromkeys(row['breaks']))[:300]}"
    if row["foreign"] and not row["breaks"]:
        yield f"    foreign: {', '.join(row['foreign'])}"
    for format, made in row["formats"].items():
        if "why" in made and not row["breaks"]:
            yield f"    {format}: {made['why']}"


if __name__ == "__main__":
    main()
