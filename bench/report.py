"""What guards cost on a model, measured and as a table; and a picture of all ratios of a benchmark run.

python bench/report.py RESULTS.json RATIOS.svg
"""

from __future__ import annotations

import json
import re
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

REPEATS = 200  # of a check, while it is hot
FORWARDS = 30  # that a check follows, for its time with the caches as a forward left them

LEAF_GUARD = re.compile(r"\+- [A-Z][A-Z_]+:")  # in TorchDynamo's print of its guards

COLUMNS = {
    "subject": "{}",
    "guards": "{}",
    "branches": "{}",
    "ns a check": "{:.1f}",
    "us hot": "{:.1f}",
    "us between forwards": "{:.1f}",
    "us a call": "{:.0f}",
}


def of_pijit(model: Any, tokens: Any, name: str) -> dict[str, Any]:
    """Guards of the one trace of a jitted model: how many at entry, how many branches inside, and their times."""
    import pijit
    from pijit import _core, api

    model(tokens)
    (trace,) = pijit.traces(model)
    root = api.root_of(model)
    first, again, calls = [], [], []
    for _ in range(FORWARDS):
        _core.time_guards(root, REPEATS)
        model(tokens)
        once, hot = _core.guard_times()
        first.append(once)
        again.append(hot)
        calls.append(seconds(lambda: model(tokens)))
    branches = sum(node.op.startswith("guard") for node in trace.nodes)
    return row(name, len(trace.guards), branches, first, again, calls)


def of_dynamo(model: Any, tokens: Any, name: str) -> dict[str, Any]:
    """The same of `torch.compile(backend="eager")`; times are those of its own check function."""
    import torch
    from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list

    def call(model: Any, tokens: Any) -> Any:
        return model(tokens)

    compiled = torch.compile(call, backend="eager")
    compiled(model, tokens)
    manager = _debug_get_cache_entry_list(call.__code__)[0].guard_manager
    variables = {"model": model, "tokens": tokens}
    first, again, calls = [], [], []
    for _ in range(FORWARDS):
        calls.append(seconds(lambda: compiled(model, tokens)))
        first.append(seconds(lambda: manager.check(variables)))
        again.append(seconds(lambda: manager.check(variables)))
    return row(name, len(LEAF_GUARD.findall(str(manager))), 0, first, again, calls)


def row(name: str, guards: int, branches: int, *times: list[float]) -> dict[str, Any]:
    """One line of the table, of the times of first checks, of checks right after them and of calls, in seconds."""
    first, hot, calls = map(statistics.median, times)
    return {
        "subject": name,
        "guards": guards,
        "branches": branches,
        "ns a check": 1e9 * hot / guards,
        "us hot": 1e6 * hot,
        "us between forwards": 1e6 * first,
        "us a call": 1e6 * calls,
    }


def seconds(call: Callable[[], object]) -> float:
    """Of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows under their titles."""
    cells = [list(COLUMNS)] + [[form.format(row[key]) for key, form in COLUMNS.items()] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(COLUMNS))]
    lines = []
    for title, *numbers in cells:
        right = [number.rjust(width) for number, width in zip(numbers, widths[1:], strict=True)]
        lines.append("  ".join([title.ljust(widths[0]), *right]))
    return "\n".join(lines)


def ratios(results: Mapping[str, Any]) -> dict[str, float]:
    """Median time jitted over median time plain, by benchmark."""
    medians = {bench["fullname"]: bench["stats"]["median"] for bench in results["benchmarks"]}
    found = {}
    for name, median in medians.items():
        plain = name.replace("jitted", "plain")
        if "jitted" in name and plain in medians:
            found[Path(name).name] = median / medians[plain]
    return found


def draw(results: Mapping[str, Any], file: Path) -> None:
    """A bar for each ratio, as SVG."""
    import pygal

    chart = pygal.HorizontalBar(show_legend=False, title="time jitted / plain", truncate_label=80, height=900)
    shown = ratios(results)
    chart.x_labels = list(shown)
    chart.add("jitted / plain", [round(value, 3) for value in shown.values()])
    chart.render_to_file(str(file))


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
