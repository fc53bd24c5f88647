"""Large models: `auto` against the best of eager, torch.compile, and each usable backend called by hand.

    python bench/large.py [--models bert-base resnet50 alexnet] [--contenders eager auto iree ...] [--rounds 20]

All on one thread, each model in a process of its own, in evaluation mode and without gradients; `alexnet` is a training
step (forward, backward, SGD), which backends are not called with by hand. In each round every contender is called once,
in turn. Printed are the medians, and `auto` divided by the best of the others, of which the bar is 1.05.

A backend by hand is its plan for the graph of the whole call (`pijit.graph.capture`), with weights that are not folded:
what a user has to do for it, and nothing in between.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

BAR = 1.05
LONGEST = 1500  # seconds of a model
SETTLE_SECONDS = 400  # at most, for auto to compile
TURNS = 80
MODELS = ("bert-base", "resnet50", "alexnet")
Call = Callable[[], Any]


def resnet50() -> Any:
    """The network of bottlenecks of He et al., with the stride in the 3x3 convolution; random weights."""
    import torch
    from torch import nn

    def norm(inner: int, outer: int, size: int, stride: int = 1) -> nn.Sequential:
        conv = nn.Conv2d(inner, outer, size, stride, size // 2, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(outer))

    class Bottleneck(nn.Module):
        def __init__(self, inner: int, width: int, stride: int) -> None:
            super().__init__()
            outer = 4 * width
            relu = nn.ReLU(inplace=True)
            steps = norm(inner, width, 1), relu, norm(width, width, 3, stride), relu, norm(width, outer, 1)
            self.body, self.relu = nn.Sequential(*steps), relu
            self.short = norm(inner, outer, 1, stride) if stride > 1 or inner != outer else nn.Identity()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.relu(self.body(x) + self.short(x))

    layers: list[nn.Module] = [norm(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inner = 64
    for stage, count in enumerate((3, 4, 6, 3)):
        for at in range(count):
            layers.append(Bottleneck(inner, 64 << stage, 2 if stage and not at else 1))
            inner = 256 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000)).eval()


def made(name: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """What is called, with the same weights each time, and its arguments."""
    import torch

    torch.manual_seed(0)
    if name == "resnet50":
        return resnet50(), (torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0)),)
    if name == "bert-base":
        from transformers import BertConfig, BertModel

        ids = torch.randint(0, 1000, (1, 128), generator=torch.Generator().manual_seed(0))
        return BertModel(BertConfig()).eval(), (ids,)
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    import alexnet

    model = alexnet.build()
    return alexnet.step, (model, alexnet.optimizer_of(model), alexnet.images())


def contender(model: str, name: str) -> Call:
    """What makes one call; compiled by then."""
    import torch

    import pijit
    from pijit.compilers import Options, get, market
    from pijit.graph import capture

    fn, args = made(model)
    if name == "eager":
        return lambda: fn(*args)
    if name == "torch.compile":
        fast = torch.compile(fn)
        return lambda: fast(*args)
    if name == "auto":
        fast = pijit.jit(fn, backend="auto")
        began, more = time.perf_counter(), TURNS
        while more > 0:
            fast(*args)
            if market.wait(0) or time.perf_counter() - began > SETTLE_SECONDS:
                more -= 1
        for trace in pijit.traces(fast):
            for segment in trace.segments:
                print(str(segment), file=sys.stderr, flush=True)
        return lambda: fast(*args)
    if model == "alexnet":
        raise RuntimeError("a training step is not called by hand")
    plan = get(name).compile(capture(fn, *args), Options(threads=1))
    return lambda: plan(*args)


def measure(model: str, names: list[str], rounds: int) -> dict[str, Any]:
    """Milliseconds of each contender, and why there are none."""
    warnings.filterwarnings("ignore")
    import torch

    torch.set_num_threads(1)
    calls: dict[str, Call] = {}
    without: dict[str, str] = {}
    times: dict[str, list[float]] = {}
    with torch.set_grad_enabled(model == "alexnet"):
        for name in names:
            try:
                call = contender(model, name)
                for _ in range(3):
                    call()
                calls[name], times[name] = call, []
            except Exception as error:  # of a compiler
                without[name] = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
        for _ in range(rounds):
            for name, call in calls.items():
                start = time.perf_counter()
                call()
                times[name].append(time.perf_counter() - start)
    return {"ms": {name: 1e3 * statistics.median(each) for name, each in times.items()}, "without": without}


def main() -> int:
    """Measure and print."""
    import pijit

    states = pijit.backends()
    usable = [name for name in states if states[name] == "usable" and name != "native"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--contenders", nargs="+", default=["eager", "torch.compile", *usable, "auto"])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.contenders, options.rounds)))
        return 0
    for model in options.models:
        command = [sys.executable, __file__, "--one", model, "--rounds", str(options.rounds), "--contenders"]
        done = subprocess.run(
            [*command, *options.contenders], stdout=subprocess.PIPE, text=True, timeout=LONGEST, check=False
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if not lines:
            print(f"{model}: ended with status {done.returncode}")
            continue
        found = json.loads(lines[-1])
        print(model, ", ".join(f"{name} {ms:.1f} ms" for name, ms in found["ms"].items()))
        for name, why in found["without"].items():
            print(f"    {name}: {why}")
        others = {name: ms for name, ms in found["ms"].items() if name != "auto"}
        if "auto" in found["ms"] and others:
            best = min(others, key=lambda name: others[name])
            print(f"    auto / {best}: {found['ms']['auto'] / others[best]:.3f} (bar: {BAR})", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
