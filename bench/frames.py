"""A pipeline of pandas, plain and jitted: `python frames.py [rows ...]` prints a table.

Masks, merge, sort, cleaning, groups, a tensor and a model. Of each number of rows: the time of thread that plain calls
take, the median of jitted calls beside it in interleaved pairs, plain calls beside themselves, and the opaque calls in
steady state. Results are compared first. One thread.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch

import pijit

WARM, PAIRS = 12, 200
RATES = pd.DataFrame({"kind": [0, 1, 2, 3], "rate": [0.1, 0.2, 0.3, 0.4]})


def sales(rows: int, seed: int) -> Any:
    """What a shop has sold, with what is wrong in such tables."""
    draw = np.random.default_rng(seed)
    table = pd.DataFrame({"region": draw.choice(["north", "south", "east", "west"], rows)})
    table["kind"] = draw.integers(0, 5, rows)
    table["price"] = draw.normal(20, 8, rows).round(2)
    table["count"] = np.where(draw.random(rows) < 0.1, np.nan, draw.integers(-2, 30, rows))
    return table


def scale(value: float) -> float:
    return value * 0.5 + 1.0


def pipeline(frame: Any, model: torch.nn.Module) -> Any:
    frame = frame[(frame["price"] > 0) & frame["kind"].isin([0, 1, 2, 3])]
    frame = frame.merge(RATES, on="kind", how="left").sort_values("price")
    count = frame["count"].fillna(0.0).clip(0, 25)
    price = frame["price"].where(frame["price"] < 35, 35.0)
    total = price * count * (1 - frame["rate"])
    by = total.groupby(frame["region"])
    norm = (total - by.transform("mean")) / (by.transform("max") - by.transform("min") + 1e-6)
    scaled = frame["price"].apply(scale)
    sums = frame.groupby("kind")["count"].sum()
    frame = frame.assign(count=count, price=price, total=total, norm=norm, scaled=scaled)
    x = frame[["price", "count", "rate", "total", "norm", "scaled"]].to_numpy(dtype="float32")
    with torch.no_grad():
        y = model(torch.from_numpy(x))
    frame["score"] = y.numpy()[:, 0]
    return frame, sums


def seconds(function: Callable[..., Any], *args: Any) -> float:
    start = time.thread_time()
    function(*args)
    return time.thread_time() - start


def main(sizes: list[int]) -> None:
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).eval()
    print("   rows  pandas ms  jitted / pandas  pandas / pandas  opaque calls")
    for rows in sizes:
        jitted = pijit.jit(pipeline)
        frames = [sales(rows + 10 * (seed % 3), seed) for seed in range(6)]
        for turn in range(WARM):
            frame = frames[turn % len(frames)]
            for got, wanted in zip(jitted(frame, model), pipeline(frame, model), strict=True):
                assert got.equals(wanted)
        plain, gains, noise = [], [], []
        for turn in range(PAIRS if rows < 10_000 else PAIRS // 10):
            frame = frames[turn % len(frames)]
            first, other, second = (seconds(each, frame, model) for each in (pipeline, jitted, pipeline))
            plain.append(first)
            gains.append(other / (first + second) * 2)
            noise.append(second / first)
        trace = max(pijit.traces(jitted), key=lambda each: each.replays)
        columns = (statistics.median(plain) * 1e3, statistics.median(gains), statistics.median(noise))
        print(f"{rows:7}  {columns[0]:9.2f}  {columns[1]:15.2f}  {columns[2]:15.2f}  {trace.opaque_calls:12}")
        pijit.unjit(jitted)


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1:]] or [20, 200, 2_000, 100_000])
