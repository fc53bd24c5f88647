"""Sixty models of zoo.toml with random weights: are they right, recorded whole, and faster?

    python bench/zoo.py [--models bert timm/resnet10t ...] [--json FILE]

Each model runs in a process of its own, on one thread, in evaluation mode and without gradients: twenty eager calls, a
first jitted call, then at least thirty rounds of an eager call and a jitted one of an equal model, in turn. Printed are
the largest difference of any output (0: every bit is equal), opaque calls and stops of the traces, the time of the
first call and the median ratio of a round, both relative to eager. Models of packages that are not installed are left
out, and counted.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import statistics
import subprocess
import sys
import time
import tomllib
import warnings
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "examples"))  # how results are compared

WARM_CALLS, ROUNDS, SECONDS = 20, 30, 8.0
LENGTH, IMAGE, PHOTO = 16, 32, 64
ZOO = tomllib.loads(Path(__file__).with_name("zoo.toml").read_text())
MODELS = {
    (name if package == "transformers" else f"{package}/{name}"): (package, name)
    for package in ("transformers", "timm", "torchvision")
    for name in ZOO[package]
}


def inputs(name: str, seed: int = 0, batch: int = 1, length: int = LENGTH) -> dict[str, Any]:
    """Arguments of a model: token numbers of shape (batch, length), or pixels of shape (batch, 3, height, width)."""
    import torch

    package, own = MODELS[name]
    kind = ZOO[package][own]["with"]
    generator = torch.Generator().manual_seed(seed)
    if kind in ("image", "photo"):
        size = IMAGE if kind == "image" else PHOTO
        return {
            "pixel_values" if package == "transformers" else "x": torch.randn(batch, 3, size, size, generator=generator)
        }
    tokens = torch.randint(3, 128, (batch, length), generator=generator)
    return {"input_ids": tokens} | ({"decoder_input_ids": tokens[:, :8]} if kind == "pair" else {})


def build(name: str) -> Any:
    """A fresh model; two of one name are equal."""
    import torch

    package, own = MODELS[name]
    options = {key: value for key, value in ZOO[package][own].items() if key not in ("with", "from")}
    define_torchvision_operators()  # transformers imports it where it finds it
    torch.manual_seed(0)
    if package == "transformers":
        from transformers import AutoConfig, AutoModel

        defaults = ZOO["defaults"][ZOO[package][own]["from"]]
        return AutoModel.from_config(AutoConfig.for_model(own, **defaults | options)).eval()
    if package == "timm":
        import timm

        return timm.create_model(own, num_classes=10, **options).eval()
    import torchvision

    return getattr(torchvision.models, own)(num_classes=10, **options).eval()


def define_torchvision_operators() -> None:
    """What torchvision's wheel cannot load beside this torch: without their schemas it does not import."""
    import torch

    if KEPT or "torchvision" in sys.modules or importlib.util.find_spec("torchvision") is None:
        return
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms", "roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d"):
        library.define(f"{name}(Tensor x) -> Tensor")
        library.define(f"_{name}_backward(Tensor x) -> Tensor")
    KEPT.append(library)


KEPT: list[Any] = []  # a library's definitions go with it


def call(model: Any, arguments: dict[str, Any]) -> Any:
    """Models of images take theirs by place."""
    return model(arguments["x"]) if "x" in arguments else model(**arguments)


def measure(name: str) -> dict[str, Any]:
    """Everything of one model, in this process."""
    warnings.filterwarnings("ignore")
    import torch
    from report import seconds
    from subjects import difference, tensors_in

    import pijit
    from pijit import _core

    torch.set_num_threads(1)
    eager, twin, fast = build(name), build(name), build(name)
    arguments = inputs(name)
    with torch.no_grad():
        warm = [seconds(lambda: call(eager, arguments)) for _ in range(WARM_CALLS)]
        for _ in range(5):
            call(twin, arguments)
        pijit.jit(fast)
        first = seconds(lambda: call(fast, arguments))
        _core.hook_remove()
        gaps = []
        for seed in range(4):
            expected = tensors_in(call(eager, inputs(name, seed)))
            assert expected
            _core.hook_install()
            gaps.append(difference(expected, tensors_in(call(fast, inputs(name, seed)))))
            _core.hook_remove()
        times: dict[str, list[float]] = {"eager": [], "twin": [], "jitted": []}
        start = time.perf_counter()
        while len(times["eager"]) < ROUNDS or time.perf_counter() - start < SECONDS:
            times["eager"].append(seconds(lambda: call(eager, arguments)))
            times["twin"].append(seconds(lambda: call(twin, arguments)))
            _core.hook_install()
            times["jitted"].append(seconds(lambda: call(fast, arguments)))
            _core.hook_remove()
    traces = pijit.traces(fast)
    median = statistics.median(times["eager"])
    return {
        "model": name,
        "difference": max(gaps),
        "traces": len(traces),
        "opaque": sum(trace.opaque_calls for trace in traces),
        "exits": sum(trace.exits for trace in traces),
        "stop": "" if not traces else str(traces[-1].stop or ""),
        "eager ms": 1e3 * median,
        "first": first / median,
        "warm": statistics.median(warm) / median,
        "steady": statistics.median(map(ratio, times["jitted"], times["eager"])),
        "noise": statistics.median(map(ratio, times["twin"], times["eager"])),
    }


def ratio(a: float, b: float) -> float:
    """Of two times."""
    return a / b


def main() -> None:
    """Measures the models, one process each, and prints a table and its summary."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS), metavar="NAME")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one)))
        return
    rows, missing = [], 0
    for name in options.models:
        if importlib.util.find_spec(MODELS[name][0]) is None:
            missing += 1
            continue
        done = subprocess.run([sys.executable, __file__, "--one", name], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(f"{name:32} failed: {(done.stderr.strip().splitlines() or [str(done.returncode)])[-1][:150]}")
            continue
        row = json.loads(done.stdout.splitlines()[-1])
        rows.append(row)
        print(line(row), flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1))
    print(f"{len(options.models)} models, {missing} of them of packages that are not installed; {summary(rows)}")


def line(row: dict[str, Any]) -> str:
    """One model."""
    counts = (
        f"difference {row['difference']:.1g}, traces {row['traces']}, opaque {row['opaque']:2}, exits {row['exits']}"
    )
    times = (
        f"eager {row['eager ms']:6.2f} ms, first {row['first']:5.1f}, steady {row['steady']:.3f} ({row['noise']:.3f})"
    )
    return f"{row['model']:32} {counts}, {times} {row['stop'][:110]}"


def summary(rows: list[dict[str, Any]]) -> str:
    """All of them."""
    steady = [row["steady"] for row in rows] or [math.nan]
    right = sum(row["difference"] == 0 for row in rows)
    whole = sum(row["opaque"] == 0 and not row["stop"] for row in rows)
    mean = statistics.geometric_mean(steady)
    return (
        f"{len(rows)} ran, {right} right, {whole} without opaque calls; steady / eager: geometric mean {mean:.3f}, "
        f"worst {max(steady):.3f}"
    )


if __name__ == "__main__":
    main()
